"""Loops: unrolled over what is known, run to a fixpoint over what is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from qlsp.analysis.conditions import Conditions
from qlsp.analysis.machine import MAX_UNROLL, BudgetExceeded, LoopExits
from qlsp.analysis.widening import Widening, given_up, holds
from qlsp.values.state import State, merge
from qlsp.values.value import (
    Choice,
    Guard,
    SpanId,
    Step,
    Value,
    options_of,
)

EXACT_PASSES = 8
"""So many passes of a loop of unknown length are followed value by value."""

FIXPOINT_PASSES = 24
"""A loop that has not settled by then, although what changes has been given up, ends the run of its root."""

ENDLESS_PASSES = 2
"""So many passes of a loop that only ``break`` ends are unrolled."""

PASSED_ON = "<value>"
"""A name for a value that no name of the source holds."""


class Loops(Conditions):
    """Execution of loops."""

    def for_statement(self, statement: cst.For, state: State) -> State | None:
        """Known sequences are unrolled; others run to a fixpoint."""
        iterable = self.eval(statement.iter, state)
        base = state.guard
        if isinstance(iterable, Choice):
            outcomes = []
            for guard, option in options_of(iterable):
                arm = state.fork(*guard)
                after = self._iterate(statement, option, arm)
                if after is not None:
                    outcomes.append(after)
            return merge(outcomes, base)
        return self._iterate(statement, iterable, state)

    def _iterate(self, statement: cst.For, iterable: Value, state: State) -> State | None:
        items = self.items(iterable, state)
        self.spend(iterable, state)
        exits = LoopExits()
        base = state.guard
        if items is not None and len(items) <= MAX_UNROLL:
            after = self._unroll(statement, items, state, exits)
        else:
            after = self._fixpoint(statement, iterable, state, exits)
        if after is not None and statement.orelse is not None:
            after = self.suite(statement.orelse.body, after)
        outcomes = [*([after] if after is not None else []), *exits.breaks]
        return merge(outcomes, base)

    def _unroll(self, statement: cst.For, items: Sequence[Value], state: State, exits: LoopExits) -> State | None:
        span = self.span(statement)
        current: State | None = state
        for number, item in enumerate(items):
            if current is None:
                return None
            base = current.guard
            self.assign(statement.target, item, current)
            current = self._pass(statement.body, current, exits, (span, number), base)
        return current

    def _pass(self, body: cst.BaseSuite, state: State, exits: LoopExits, step: Step, base: Guard) -> State | None:
        saved = self.path
        self.path = (*saved, step)
        inner = LoopExits(exits.breaks)
        self.current.loops.append(inner)
        try:
            after = self.suite(body, state)
        finally:
            self.current.loops.pop()
            self.path = saved
        return merge([*([after] if after is not None else []), *inner.continues], base)

    def _fixpoint(self, statement: cst.For, iterable: Value, state: State, exits: LoopExits) -> State | None:
        span, base = self.span(statement), state.guard

        def one_pass(arm: State) -> State | None:
            self.assign(statement.target, self.loop_element(iterable, statement, arm), arm)
            return self._pass(statement.body, arm, exits, (span, 0), base)

        return self.repeat(span, state, one_pass)

    def repeat(self, span: SpanId, state: State, one_pass: Callable[[State], State | None]) -> State:
        """Run passes of unknown number until the state stays; zero passes are possible.

        Raises BudgetExceeded if it does not.
        """
        current, mark = state, self._next_oid
        self.enter_loop(state.guard)
        try:
            for number in range(FIXPOINT_PASSES):
                after = one_pass(current.fork())
                if after is None:
                    return current
                widening = Widening(dict(current.heap), mark, self.phi, self.unshared)
                widened = widening.states(current, after, span)
                if number >= EXACT_PASSES:
                    widened = given_up(current, widened)
                if widened.names == current.names and holds(current.heap, widened.heap):
                    return current
                current = widened
        finally:
            self.loop_depth -= 1
        raise BudgetExceeded("a loop that does not settle")

    def passed_on(self, value: Value, step: Callable[[Value, State], Value], span: SpanId, state: State) -> Value:
        """A value that goes through an unknown number of steps."""
        saved = self.path

        def one_pass(arm: State) -> State:
            self.path = (*saved, (span, 0))
            try:
                arm.names[PASSED_ON] = step(arm.names[PASSED_ON], arm)
            finally:
                self.path = saved
            return arm

        outer = state.names.get(PASSED_ON)
        state.names[PASSED_ON] = value
        settled = self.repeat(span, state, one_pass)
        result, state.heap = settled.names[PASSED_ON], settled.heap
        del state.names[PASSED_ON]
        if outer is not None:
            state.names[PASSED_ON] = outer
        return result

    def phi(self, key: tuple[object, ...]) -> int:
        """The value number of what differs from pass to pass."""
        return self.number(("phi", key, self.path))

    def while_statement(self, statement: cst.While, state: State) -> State | None:
        """Unrolled while the condition is known, then a fixpoint."""
        span = self.span(statement)
        base = state.guard
        exits = LoopExits()
        current: State | None = state
        for number in range(MAX_UNROLL):
            if current is None:
                break
            arms = self.branch(statement.test, current)
            endless = number >= ENDLESS_PASSES and bool(exits.breaks)
            if len(arms) == 2 or endless:
                settled = self._settled(statement, current, exits)
                current = settled if len(arms) == 2 or not arms[0][0] else None
                break
            truth, current = arms[0]
            if not truth:
                if statement.orelse is not None:
                    current = self.suite(statement.orelse.body, current)
                break
            current = self._pass(statement.body, current, exits, (span, number), current.guard)
        return merge([*([current] if current is not None else []), *exits.breaks], base)

    def _settled(self, statement: cst.While, state: State, exits: LoopExits) -> State:
        """The state at the head of a loop of unknown repetition."""
        span, base = self.span(statement), state.guard

        def one_pass(arm: State) -> State | None:
            self.eval(statement.test, arm)
            return self._pass(statement.body, arm, exits, (span, 0), base)

        return self.repeat(span, state, one_pass)

    def spend(self, iterable: Value, state: State) -> None:
        """A loop takes what an iterator still has, or some of it (see ``builtin_calls``)."""

    # --- provided by other parts --------------------------------------------------------------------

    def suite(self, body: cst.BaseSuite, state: State) -> State | None:
        """Execute an indented block (see ``statements``)."""
        raise NotImplementedError

    def assign(self, target: cst.BaseExpression, value: Value, state: State) -> None:
        """Bind a target (see ``statements``)."""
        raise NotImplementedError

    def items(self, value: Value, state: State) -> list[Value] | None:
        """The items of an iterable of known length, else None (see ``objects``)."""
        raise NotImplementedError

    def unshared(self, value: Value) -> Value:
        """A value without a scale that is several (see ``objects``)."""
        raise NotImplementedError

    def loop_element(self, value: Value, statement: cst.For, state: State) -> Value:
        """What the loop variable stands for in a loop of unknown length (see ``objects``)."""
        raise NotImplementedError
