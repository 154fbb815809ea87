"""Statements: structural execution over a state. ``None`` stands for a path that does not go on."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from qlsp.analysis.machine import Arguments
from qlsp.analysis.matching import Matching
from qlsp.syntax.names import bindings
from qlsp.values.state import DictObject, Instance, ListObject, State, merge
from qlsp.values.value import (
    Choice,
    Const,
    Ref,
    Unknown,
    Value,
    choice,
)

_UNKNOWN_ENTRIES = Unknown("entries of an unknown dict")
EXPECT_FAILURE = frozenset({"pytest.raises", "pytest.warns", "pytest.deprecated_call", "pytest.fail"})
EXPECT_FAILURE_METHODS = ("assertRaises", "assertWarns", "assertLogs")


class Statements(Matching):
    """Execution of statements."""

    def block(self, body: Sequence[cst.BaseStatement | cst.BaseSmallStatement], state: State) -> State | None:
        """Execute statements in order."""
        current: State | None = state
        for statement in body:
            if current is None:
                return None
            current = self.execute(statement, current)
        return current

    def suite(self, body: cst.BaseSuite, state: State) -> State | None:
        """Execute an indented block or the rest of a one-line compound statement."""
        return self.block(body.body, state)

    def execute(self, statement: cst.BaseStatement | cst.BaseSmallStatement, state: State) -> State | None:
        """Execute one statement; the returned state may be another object."""
        self.tick()
        if isinstance(statement, cst.BaseSmallStatement):
            self.current.statement = statement
        match statement:
            case cst.SimpleStatementLine():
                return self.block(statement.body, state)
            case cst.Expr():
                self.expression_statement(statement.value, state)
                return state
            case cst.Assign():
                value = self.eval(statement.value, state)
                for target in statement.targets:
                    self.assign(target.target, value, state)
                return state
            case cst.AnnAssign():
                if statement.value is not None:
                    self.assign(statement.target, self.eval(statement.value, state), state)
                return state
            case cst.AugAssign():
                self.augmented(statement, state)
                return state
            case cst.Return():
                value = self.eval(statement.value, state) if statement.value is not None else Const(None)
                self.current.returns.append((value, state, statement))
                return None
            case cst.If():
                return self.if_statement(statement, state)
            case cst.For():
                return self.for_statement(statement, state)
            case cst.While():
                return self.while_statement(statement, state)
            case cst.Try() | cst.TryStar():
                return self.try_statement(statement, state)
            case cst.With():
                return self.with_statement(statement, state)
            case cst.Match():
                return self.match_statement(statement, state)
            case cst.FunctionDef():
                frame = self.current
                closure = self.capture(state)
                raw = self.function_of(statement, frame.unit, frame.module, None, closure)
                value = self.with_decorators(raw, statement, state)
                state.names[statement.name.value] = value
                self.closures[closure][statement.name.value] = value
                return state
            case cst.ClassDef():
                frame = self.current
                model = frame.module.class_model(statement, frame.unit, self.capture(state))
                state.names[statement.name.value] = self.class_value(model)
                return state
            case cst.Raise():
                return None
            case cst.Break():
                if self.current.loops:
                    self.current.loops[-1].breaks.append(state)
                return None
            case cst.Continue():
                if self.current.loops:
                    self.current.loops[-1].continues.append(state)
                return None
            case cst.Import() | cst.ImportFrom():
                frame = self.current
                line = cst.SimpleStatementLine([statement])
                for bound in bindings(line, frame.module.name, frame.module.is_package):
                    if bound.name != "*":
                        state.names[bound.name] = self.qualified(bound.target, frame.module)
                return state
            case cst.Nonlocal():
                self.current.nonlocals.update(item.name.value for item in statement.names)
                return state
            case cst.Assert():
                self.asserted(statement.test, state)
                self.eval(statement.test, state)
                return state
            case cst.Del():
                self._delete(statement.target, state)
                return state
            case _:
                return state

    def expression_statement(self, node: cst.BaseExpression, state: State) -> None:
        """Evaluate for the effect."""
        self.eval(node, state)

    def _delete(self, target: cst.BaseExpression, state: State) -> None:
        match target:
            case cst.Name():
                state.names.pop(target.value, None)
            case cst.Attribute():
                self.delete_attribute(self.eval(target.value, state), target.attr.value, state)
            case cst.Subscript():
                self.delete(self.eval(target.value, state), self.index_of(target, state), state)
            case cst.Tuple() | cst.List():
                for element in target.elements:
                    self._delete(element.value, state)
            case _:
                return

    # --- assignment ---------------------------------------------------------------------------------

    def assign(self, target: cst.BaseExpression, value: Value, state: State) -> None:
        """Bind a target: a name, an attribute, an item, or a tuple of targets."""
        match target:
            case cst.Name():
                state.names[target.value] = value
            case cst.Attribute():
                self.assign_attribute(self.eval(target.value, state), target.attr.value, value, state)
            case cst.Tuple() | cst.List():
                self._unpack(target, value, state)
            case cst.Subscript():
                self.set_item(target, value, state)
            case cst.StarredElement():
                self.assign(target.value, value, state)
            case _:
                return

    def _unpack(self, target: cst.Tuple | cst.List, value: Value, state: State) -> None:
        elements = target.elements
        star = next((i for i, e in enumerate(elements) if isinstance(e, cst.StarredElement)), None)
        items = self.unpacked(value, len(elements), star, state)
        for element, item in zip(elements, items, strict=True):
            self.assign(element.value, item, state)

    def unpacked(self, value: Value, count: int, star: int | None, state: State) -> list[Value]:
        """Exactly ``count`` values for the targets of an unpacking; the starred one is a list."""
        if isinstance(value, Choice):
            columns = [(guard, self.unpacked(option, count, star, state)) for guard, option in value.options]
            return [choice([(guard, row[i]) for guard, row in columns]) for i in range(count)]
        known = self.items(value, state)
        if known is not None:
            if star is None:
                if len(known) == count:
                    return list(known)
            elif len(known) >= count - 1:
                tail = count - star - 1
                middle = known[star : len(known) - tail]
                rest = known[len(known) - tail :] if tail else []
                packed = self.allocate(state, ListObject(tuple(middle)))
                return [*known[:star], packed, *rest]
            return [Unknown("an unpacking of another length")] * count
        return [self.element(value, i, state) for i in range(count)]

    def augmented(self, statement: cst.AugAssign, state: State) -> None:
        """``a += b``: lists grow in place, tensors go through the operator's row."""
        target = statement.target
        left = self.eval(target, state)
        right = self.eval(statement.value, state)
        operator = self.operator_text(statement.operator)
        thing = self.load(state, left) if isinstance(left, Ref) else None
        if isinstance(thing, ListObject) and isinstance(left, Ref) and operator == "+":
            state.heap[left.oid] = self.extended(thing, right, state)
            return
        if isinstance(left, Ref) and isinstance(thing, Instance) and operator == "+":
            extended = self.extend_children(left, thing, Arguments.of(right), state)
            if extended is not None:
                return
        if isinstance(thing, DictObject) and isinstance(left, Ref) and operator == "|":
            merged = self.merged_dicts(left, right, state)
            state.heap[left.oid] = merged if merged is not None else DictObject(thing.entries, _UNKNOWN_ENTRIES)
            return
        operands = (target, statement.value)
        result = self.binary(operator, left, right, statement, operands, state, in_place=True)
        if not (isinstance(target, cst.Subscript) and self.has_tensor(left, state)):
            self.assign(target, result, state)

    # --- branches -----------------------------------------------------------------------------------

    def if_statement(self, statement: cst.If, state: State) -> State | None:
        """Run the arms that can run, join what comes out of them."""
        base = state.guard
        arms = self.branch(statement.test, state)
        outcomes: list[State] = []
        self.conditions += 1
        for truth, arm in arms:
            if truth:
                after = self.suite(statement.body, arm)
            elif statement.orelse is None:
                after = arm
            elif isinstance(statement.orelse, cst.If):
                after = self.if_statement(statement.orelse, arm)
            else:
                after = self.suite(statement.orelse.body, arm)
            if after is not None:
                outcomes.append(after)
        self.conditions -= 1
        return merge(outcomes, base)

    def try_statement(self, statement: cst.Try | cst.TryStar, state: State) -> State | None:
        """The body, and each handler from a state in which the body may or may not have run."""
        base = state.guard
        key = self.number(("try", self.span(statement), self.path))
        before = state.fork()
        body = self.suite(statement.body, state.fork((key, 0)))
        outcomes: list[State] = []
        if body is not None:
            after = self.suite(statement.orelse.body, body) if statement.orelse is not None else body
            if after is not None:
                outcomes.append(after)
        for number, handler in enumerate(statement.handlers, start=1):
            assert isinstance(handler, (cst.ExceptHandler, cst.ExceptStarHandler))
            arm = before.fork((key, number))
            if handler.name is not None and isinstance(handler.name.name, cst.Name):
                arm.names[handler.name.name.value] = Unknown("a caught exception")
            after = self.suite(handler.body, arm)
            if after is not None:
                outcomes.append(after)
        merged = merge(outcomes, base)
        if statement.finalbody is not None:
            final = self.suite(statement.finalbody.body, merged if merged is not None else before)
            return final if merged is not None else None
        return merged

    def with_statement(self, statement: cst.With, state: State) -> State | None:
        """The body once; facts inside ``pytest.raises`` and its kin are not recorded."""
        muted = 0
        for item in statement.items:
            if self._expects_failure(item.item):
                muted = 1
            value = self.eval(item.item, state)
            self.entered(value, state)
            if item.asname is not None:
                entered = value if self.instance(state, value) else Unknown("a context manager's value")
                self.assign(item.asname.name, entered, state)
        self.muted += muted
        try:
            return self.suite(statement.body, state)
        finally:
            self.muted -= muted

    def entered(self, value: Value, state: State) -> None:
        """``__enter__`` of a value runs (see ``lifecycle``)."""

    def _expects_failure(self, node: cst.BaseExpression) -> bool:
        if not isinstance(node, cst.Call):
            return False
        if isinstance(node.func, cst.Attribute) and node.func.attr.value.startswith(EXPECT_FAILURE_METHODS):
            return True
        name = self.qualified_name(node.func)
        return name in EXPECT_FAILURE

    def match_statement(self, statement: cst.Match, state: State) -> State | None:
        """Cases in order; one that is known to match ends the search."""
        base = state.guard
        subject = self.eval(statement.subject, state)
        key = self.number(("match", self.span(statement), self.path))
        outcomes: list[State] = []
        open_end = True
        for number, case in enumerate(statement.cases):
            fits = self.fits(case.pattern, subject, state)
            if fits is False:
                continue
            certain = fits is True and case.guard is None
            arm = state.fork() if certain and not outcomes and open_end else state.fork((key, number))
            self.capture_pattern(case.pattern, subject, arm)
            if case.guard is not None:
                branches = self.branch(case.guard, arm)
                taken = [branch for truth, branch in branches if truth]
                if not taken:
                    continue
                arm = taken[0]
                certain = fits is True and all(truth for truth, _ in branches)
            after = self.suite(case.body, arm)
            if after is not None:
                outcomes.append(after)
            if certain:
                open_end = False
                break
        if open_end:
            outcomes.append(state.fork((key, -1)))
        return merge(outcomes, base)

    # --- provided by other parts --------------------------------------------------------------------

    def set_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Assign an attribute (see ``objects``)."""
        raise NotImplementedError

    def assign_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Assign an attribute by a statement or ``setattr`` (see ``lifecycle``)."""
        self.set_attribute(target, name, value, state)

    def set_item(self, target: cst.Subscript, value: Value, state: State) -> None:
        """Assign an item (see ``objects``)."""
        raise NotImplementedError

    def with_decorators(self, value: Value, node: cst.FunctionDef, state: State) -> Value:
        """What the decorators of a definition make of a function (see ``classes``)."""
        raise NotImplementedError

    def delete_attribute(self, target: Value, name: str, state: State) -> None:
        """``del target.name`` (see ``module_containers``)."""
        raise NotImplementedError

    def delete(self, container: Value, index: Value, state: State) -> None:
        """``del container[index]`` (see ``module_containers``)."""
        raise NotImplementedError

    def index_of(self, node: cst.Subscript, state: State) -> Value:
        """The value between the brackets (see ``items``)."""
        raise NotImplementedError

    def extend_children(self, ref: Ref, instance: Instance, arguments: Arguments, state: State) -> Value | None:
        """``container += modules`` (see ``module_containers``)."""
        raise NotImplementedError

    def merged_dicts(self, left: Value, right: Value, state: State) -> DictObject | None:
        """What ``left | right`` of two dicts holds (see ``expressions``)."""
        raise NotImplementedError

    def element(self, value: Value, index: int, state: State) -> Value:
        """One element of an iterable of unknown length (see ``objects``)."""
        raise NotImplementedError

    def extended(self, thing: ListObject, value: Value, state: State) -> ListObject:
        """A list after ``extend`` (see ``objects``)."""
        raise NotImplementedError

    def operator_text(self, operator: cst.CSTNode) -> str:
        """``+`` of an ``Add`` or ``AddAssign`` (see ``expressions``)."""
        raise NotImplementedError

    def binary(
        self,
        operator: str,
        left: Value,
        right: Value,
        node: cst.CSTNode,
        operands: tuple[cst.BaseExpression, cst.BaseExpression],
        state: State,
        in_place: bool = False,
    ) -> Value:
        """Apply a binary operator (see ``expressions``)."""
        raise NotImplementedError

    def has_tensor(self, value: Value, state: State) -> bool:
        """True if the value is or may be a tensor (see ``operators``)."""
        raise NotImplementedError

    def qualified_name(self, node: cst.BaseExpression) -> str | None:
        """The canonical library name an expression stands for (see ``expressions``)."""
        raise NotImplementedError
