"""What stands between a call and forward: hooks, checkpoints, forks, compilers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from qlsp.analysis.machine import Argument, Arguments
from qlsp.analysis.standard_library import StandardLibrary
from qlsp.values.state import Instance, State
from qlsp.values.value import NO_GUARD, NONE, FunctionValue, Ref, TupleValue, Unknown, Value, options_of

HOOKS = {"register_forward_hook": False, "register_forward_pre_hook": True}
"""Methods that register a hook, and whether it runs before forward. Those of the backward pass change no result."""

COMPILERS = frozenset({"torch.compile", "torch.jit.script", "torch.compiler.disable", "torch.fx.wrap"})
CHECKPOINT = "torch.utils.checkpoint.checkpoint_sequential"
HOOKED = "a forward hook may change it"


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of a module. ``lasting`` says that it is there in every run: nobody can take it away again."""

    before: bool
    function: Value
    lasting: bool


class Wrappers(StandardLibrary):
    """Calls that run other calls."""

    # --- hooks --------------------------------------------------------------------------------------

    @cached_property
    def hooks(self) -> dict[int, tuple[Hook, ...]]:
        """The hooks of each module, in the order of registration."""
        return {}

    def register_hook(self, ref: Ref, name: str, arguments: Arguments, state: State) -> Value | None:
        """``module.register_forward_hook(function)`` and its kin; None for other methods."""
        before = HOOKS.get(name)
        if before is None:
            return None
        function = arguments.get(0, "hook")
        if function is None or arguments.open or "with_kwargs" in arguments.keywords:
            function = Unknown("a hook that is not followed")
        alone = isinstance(self.current.statement, cst.Expr) and not self.loop_depth and state.guard == NO_GUARD
        self.hooks[ref.oid] = (*self.hooks.get(ref.oid, ()), Hook(before, function, alone))
        return Unknown("the handle of a hook")

    def copied(self, original: int, copy: int) -> None:
        """A copy has the hooks of the original."""
        super().copied(original, copy)
        if original in self.hooks:
            self.hooks[copy] = self.hooks[original]

    def call_object(self, ref: Ref, arguments: Arguments, node: cst.Call | None, state: State) -> Value:
        """The hooks of a module run around its forward."""
        hooks = self.hooks.get(ref.oid, ()) if self.facts is not None else ()
        if not hooks or node is None:
            return super().call_object(ref, arguments, node, state)
        for number, hook in enumerate(hooks):
            if hook.before:
                arguments = self._before(hook, ref, arguments, node, number, state)
        value = super().call_object(ref, arguments, node, state)
        for number, hook in enumerate(hooks):
            if not hook.before:
                value = self._after(hook, ref, arguments, value, node, number, state)
        return value

    def _before(
        self, hook: Hook, ref: Ref, arguments: Arguments, node: cst.Call, number: int, state: State
    ) -> Arguments:
        given = TupleValue(tuple(argument.value for argument in arguments.positional))
        found = self._run_hook(hook, Arguments.of(ref, given), node, number, state)
        if found == NONE:
            return arguments
        if not hook.lasting or any(isinstance(option, Unknown) for _, option in options_of(found)):
            hidden = [Argument(Unknown(HOOKED)) for _ in arguments.positional]
            return Arguments(hidden, arguments.keywords, arguments.open)
        items = list(found.items) if isinstance(found, TupleValue) else [found]
        return Arguments([Argument(item) for item in items], arguments.keywords)

    def _after(
        self, hook: Hook, ref: Ref, arguments: Arguments, value: Value, node: cst.Call, number: int, state: State
    ) -> Value:
        given = TupleValue(tuple(argument.value for argument in arguments.positional))
        found = self._run_hook(hook, Arguments.of(ref, given, value), node, number, state)
        if found == NONE:
            return value
        plain = all(option != NONE for _, option in options_of(found))
        return found if hook.lasting and plain else Unknown(HOOKED)

    def _run_hook(self, hook: Hook, arguments: Arguments, node: cst.Call, number: int, state: State) -> Value:
        saved = self.path
        self.path = (*saved, (self.span(node), -2 - number))
        try:
            return self.call(hook.function, arguments, node, state)
        finally:
            self.path = saved

    # --- wrappers -----------------------------------------------------------------------------------

    def standard_library(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value | None:
        """Calls of torch that run what they are given, or give it back."""
        first = arguments.positional[0].value if arguments.positional else None
        if first is not None:
            if name in ("torch.jit.fork", "torch.jit._fork"):
                rest = Arguments(arguments.positional[1:], arguments.keywords, arguments.open)
                return self.call(first, rest, node, state)
            if name in ("torch.jit.wait", "torch.jit._wait"):
                return first
            if name in COMPILERS and isinstance(first, FunctionValue):
                return first
            if name == CHECKPOINT and len(arguments.positional) == 3:
                return self._in_turn(first, arguments.positional[2], node, state)
        return super().standard_library(name, arguments, node, state)

    def _in_turn(self, functions: Value, given: Argument, node: cst.Call, state: State) -> Value:
        """Each of several functions on the result of the one before."""
        if isinstance(self.instance(state, functions), Instance):
            return self.call(functions, Arguments([given]), node, state)
        items = self.items(functions, state)
        if items is None:
            return Unknown("checkpoints of an unknown number of functions")
        saved = self.path
        value = given.value
        for number, function in enumerate(items):
            self.path = (*saved, (self.span(node), number))
            value = self.call(function, Arguments([Argument(value)]), node, state)
        self.path = saved
        return value
