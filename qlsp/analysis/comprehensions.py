"""Comprehensions and generator expressions."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from qlsp.analysis.expressions import Expressions
from qlsp.analysis.machine import MAX_UNROLL
from qlsp.values.state import DictObject, ListObject, State
from qlsp.values.value import NO_GUARD, Const, Guard, Ref, Value, choice


class Comprehensions(Expressions):
    """Evaluation of comprehensions. A generator is run where it stands."""

    def _eval_ListComp(self, node: cst.ListComp, state: State) -> Value:
        return self._comprehension(node, node.for_in, state)

    def _eval_SetComp(self, node: cst.SetComp, state: State) -> Value:
        return self._comprehension(node, node.for_in, state)

    def _eval_GeneratorExp(self, node: cst.GeneratorExp, state: State) -> Value:
        return self._comprehension(node, node.for_in, state)

    def _comprehension(
        self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp, clause: cst.CompFor, state: State
    ) -> Value:
        found: list[Value] = []
        saved = self._enter(state)
        known = self._clauses(clause, state, lambda: found.append(self.eval(node.elt, state)))
        self._leave(saved, state)
        if known:
            return self.allocate(state, ListObject(tuple(found)))
        element = choice([(NO_GUARD, self.marked_many(value)) for value in found]) if found else None
        return self.allocate(state, ListObject(None, element))

    def _eval_DictComp(self, node: cst.DictComp, state: State) -> Value:
        entries: dict[object, Value] = {}
        rest: list[tuple[Guard, Value]] = []
        saved = self._enter(state)

        def add() -> None:
            key, value = self.eval(node.key, state), self.eval(node.value, state)
            if isinstance(key, Const):
                entries[key.value] = value
            else:
                rest.append((NO_GUARD, value))

        known = self._clauses(node.for_in, state, add)
        self._leave(saved, state)
        if not known:
            rest.extend((NO_GUARD, value) for value in entries.values())
            entries = {}
        return self.allocate(state, DictObject(tuple(entries.items()), choice(rest) if rest else None))

    def _enter(self, state: State) -> tuple[dict[str, Value], set[str]]:
        """What to restore after a comprehension."""
        assigned, self.current.assigned = self.current.assigned, set()
        return dict(state.names), assigned

    def _leave(self, saved: tuple[dict[str, Value], set[str]], state: State) -> None:
        """The targets of a comprehension are gone, what ``:=`` bound in it stays."""
        names, assigned = saved
        bound = self.current.assigned
        state.names = names | {name: value for name, value in state.names.items() if name in bound}
        self.current.assigned = assigned | bound

    def grown(self, node: cst.Call, state: State) -> bool:
        """``list.extend(generator)``: each element is computed when those before it are in the list. False for any
        other call."""
        function, arguments = node.func, node.args
        if not isinstance(function, cst.Attribute) or function.attr.value != "extend" or len(arguments) != 1:
            return False
        generator = arguments[0].value
        if not isinstance(generator, cst.GeneratorExp) or not isinstance(function.value, (cst.Name, cst.Attribute)):
            return False
        target = self.eval(function.value, state)
        if not isinstance(target, Ref) or not isinstance(self.load(state, target), ListObject):
            return False
        self._grow(target, generator, state)
        return True

    def _grow(self, ref: Ref, node: cst.GeneratorExp, state: State) -> None:

        def append(arm: State) -> None:
            thing = self.load(arm, ref)
            assert isinstance(thing, ListObject)
            value = self.eval(node.elt, arm)
            thing = arm.heap.get(ref.oid, thing)
            assert isinstance(thing, ListObject)
            arm.heap[ref.oid] = self.appended(thing, value)

        saved = self._enter(state)
        iterable = self.items(self.eval(node.for_in.iter, state), state)
        if iterable is not None and len(iterable) <= MAX_UNROLL:
            if not self._clauses(node.for_in, state, lambda: append(state)):
                thing = self.load(state, ref)
                assert isinstance(thing, ListObject)
                state.heap[ref.oid] = self.loosened(thing)
        else:

            def one_pass(arm: State) -> State:
                self._clauses(node.for_in, arm, lambda: append(arm))
                return arm

            settled = self.repeat(self.span(node), state, one_pass)
            state.names, state.heap = settled.names, settled.heap
        self._leave(saved, state)

    def _clauses(self, clause: cst.CompFor, state: State, body: Callable[[], None]) -> bool:
        """Run ``body`` for each combination; False if the number of combinations is not known."""
        iterable = self.eval(clause.iter, state)
        items = self.items(iterable, state)
        span = self.span(clause)
        saved = self.path
        known = items is not None and len(items) <= MAX_UNROLL
        values = items if items is not None and known else [self.comprehension_element(iterable, state)]
        if not known:
            self.enter_loop(state.guard)
        try:
            for number, item in enumerate(values):
                self.path = (*saved, (span, number))
                self.assign(clause.target, item, state)
                tests = [self.truth(self.eval(test.test, state), state) for test in clause.ifs]
                if False in tests:
                    continue
                known = known and None not in tests
                if clause.inner_for_in is not None:
                    known = self._clauses(clause.inner_for_in, state, body) and known
                else:
                    body()
        finally:
            self.path = saved
            self.loop_depth -= items is None or len(items) > MAX_UNROLL
        return known

    # --- provided by other parts --------------------------------------------------------------------

    def marked_many(self, value: Value) -> Value:
        """The value as an element of a list of unknown length (see ``objects``)."""
        raise NotImplementedError

    def comprehension_element(self, value: Value, state: State) -> Value:
        """What a comprehension's target stands for over an unknown iterable (see ``objects``)."""
        raise NotImplementedError

    def appended(self, thing: ListObject, value: Value) -> ListObject:
        """A list after ``append`` (see ``items``)."""
        raise NotImplementedError

    def loosened(self, thing: ListObject, value: Value | None = None) -> ListObject:
        """A list that has lost its length (see ``items``)."""
        raise NotImplementedError
