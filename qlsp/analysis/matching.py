"""Patterns of ``match``: does a value fit, and what do the names in it stand for."""

from __future__ import annotations

import libcst as cst

from qlsp.analysis.loops import Loops
from qlsp.values.state import DictObject, State
from qlsp.values.value import Choice, Const, Ref, Tensor, TupleValue, Unknown, Value, feasible


class Matching(Loops):
    """Structural pattern matching."""

    def fits(self, pattern: cst.MatchPattern, subject: Value, state: State) -> bool | None:
        """Does a pattern fit a value? None if that is not known."""
        if isinstance(subject, Choice):
            verdicts = {self.fits(pattern, option, state) for _, option in feasible(subject.options, state.guard)}
            return verdicts.pop() if len(verdicts) == 1 else None
        match pattern:
            case cst.MatchAs():
                return True if pattern.pattern is None else self.fits(pattern.pattern, subject, state)
            case cst.MatchOr():
                results = [self.fits(each.pattern, subject, state) for each in pattern.patterns]
                return True if True in results else (None if None in results else False)
            case cst.MatchValue() | cst.MatchSingleton():
                value = self.eval(pattern.value, state)
                if isinstance(value, Const) and isinstance(subject, Const):
                    return bool(value.value == subject.value)
                return None
            case cst.MatchClass():
                return self._fits_class(pattern, subject, state)
            case cst.MatchSequence():
                return self._fits_sequence(pattern, subject, state)
            case cst.MatchMapping():
                return self._fits_mapping(pattern, subject, state)
            case _:
                return None

    def _fits_class(self, pattern: cst.MatchClass, subject: Value, state: State) -> bool | None:
        verdict = self.kind_fits(subject, self.class_names(pattern.cls, state), state)
        if verdict is not True:
            return verdict
        if pattern.patterns:
            return None
        parts = [(self.attribute(subject, each.key.value, state), each.pattern) for each in pattern.kwds]
        return _all([self.fits(inner, value, state) for value, inner in parts])

    def _fits_sequence(self, pattern: cst.MatchSequence, subject: Value, state: State) -> bool | None:
        if isinstance(subject, (Tensor, Const)):
            return None if isinstance(subject, Tensor) and subject.collection else False
        items = self.items(subject, state) if isinstance(subject, (TupleValue, Ref)) else None
        if items is None:
            return None
        star = any(isinstance(each, cst.MatchStar) for each in pattern.patterns)
        count = len(pattern.patterns) - star
        if len(items) < count or (len(items) > count and not star):
            return False
        plain = [each for each in pattern.patterns if isinstance(each, cst.MatchSequenceElement)]
        if star:
            return None if any(not _captures(each.value) for each in plain) else True
        return _all([self.fits(each.value, item, state) for each, item in zip(plain, items, strict=True)])

    def _fits_mapping(self, pattern: cst.MatchMapping, subject: Value, state: State) -> bool | None:
        thing = self.load(state, subject) if isinstance(subject, Ref) else None
        if not isinstance(thing, DictObject):
            known = isinstance(subject, (Const, TupleValue)) or isinstance(subject, Tensor) and not subject.collection
            return False if known else None
        entries = dict(thing.entries)
        verdicts: list[bool | None] = []
        for each in pattern.elements:
            key = self.eval(each.key, state)
            if isinstance(key, Const) and key.value in entries:
                verdicts.append(self.fits(each.pattern, entries[key.value], state))
            else:
                verdicts.append(False if isinstance(key, Const) and thing.rest is None else None)
        return _all(verdicts)

    def capture_pattern(self, pattern: cst.MatchPattern, subject: Value, state: State) -> None:
        """Bind the names in a pattern to the parts of a value."""
        match pattern:
            case cst.MatchAs():
                if pattern.name is not None:
                    state.names[pattern.name.value] = subject
                if pattern.pattern is not None:
                    self.capture_pattern(pattern.pattern, subject, state)
            case cst.MatchSequence():
                star = next((i for i, e in enumerate(pattern.patterns) if isinstance(e, cst.MatchStar)), None)
                values = self.unpacked(subject, len(pattern.patterns), star, state)
                for element, value in zip(pattern.patterns, values, strict=True):
                    if isinstance(element, cst.MatchSequenceElement):
                        self.capture_pattern(element.value, value, state)
                    elif isinstance(element, cst.MatchStar) and element.name is not None:
                        state.names[element.name.value] = value
            case cst.MatchClass():
                for positional in pattern.patterns:
                    self.capture_pattern(positional.value, Unknown("a positional part of a class pattern"), state)
                for keyword in pattern.kwds:
                    self.capture_pattern(keyword.pattern, self.attribute(subject, keyword.key.value, state), state)
            case cst.MatchMapping():
                for each in pattern.elements:
                    value = self.item(subject, self.eval(each.key, state), state)
                    self.capture_pattern(each.pattern, value, state)
                if pattern.rest is not None:
                    state.names[pattern.rest.value] = Unknown("the rest of a mapping pattern")
            case _:
                return

    # --- provided by other parts --------------------------------------------------------------------

    def kind_fits(self, value: Value, classes: set[str], state: State) -> bool | None:
        """Is a value of one of the classes? (see ``kinds``)"""
        raise NotImplementedError

    def unpacked(self, value: Value, count: int, star: int | None, state: State) -> list[Value]:
        """Exactly ``count`` values for the targets of an unpacking (see ``statements``)."""
        raise NotImplementedError

    def item(self, value: Value, index: Value, state: State) -> Value:
        """``value[index]`` (see ``items``)."""
        raise NotImplementedError


def _captures(pattern: cst.MatchPattern) -> bool:
    """Does a pattern fit anything?"""
    return isinstance(pattern, cst.MatchAs) and (pattern.pattern is None or _captures(pattern.pattern))


def _all(verdicts: list[bool | None]) -> bool | None:
    if False in verdicts:
        return False
    return None if None in verdicts else True
