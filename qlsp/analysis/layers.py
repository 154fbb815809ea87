"""Layers: which of them convert swaps, which qconfig reaches them and where it was assigned, what forward reads."""

from __future__ import annotations

import re

import libcst as cst

from qlsp.analysis.facts import PARAMETER, Parameter, Submodule
from qlsp.analysis.machine import Arguments
from qlsp.analysis.outputs import Outputs
from qlsp.analysis.program import ClassModel
from qlsp.ops.spec import OpSpec
from qlsp.values.state import Instance, State
from qlsp.values.value import (
    NONE,
    ClassValue,
    Const,
    Ref,
    SpanId,
    Symbol,
    Unknown,
    Value,
    options_of,
)
from qlsp.values.workflow import Weights

_OWN_MAPPING = re.compile(
    r"\bmapping\s*=|\b\w*custom_config\w*|\w*MODULE_MAPPINGS\b|\w*_module_mappings\b|\bfrom_float\b|\b_FLOAT_MODULE\b"
    r"|\bswap_module\b"
)
"""Text by which a project tells convert what to make of classes of its own."""

OBSERVER = "observer"


class Layers(Outputs):
    """What convert makes of library layers and of the project's subclasses of them."""

    qconfig_places: dict[tuple[int, Value], SpanId]
    derived: dict[int, bool | None]
    mapped: dict[tuple[str, ...], bool]

    # --- qconfigs -----------------------------------------------------------------------------------

    def assign_attribute(self, target: Value, name: str, value: Value, state: State) -> None:
        """Remember the statement that gives a module its qconfig."""
        if name == "qconfig" and self.facts is None:
            for _, option in options_of(target):
                if isinstance(option, Ref):
                    self.qconfig_places[(option.oid, value)] = self._statement()
        super().assign_attribute(target, name, value, state)

    def copied(self, original: int, copy: int) -> None:
        """A copy has the qconfigs of what it is a copy of."""
        super().copied(original, copy)
        for (oid, value), span in list(self.qconfig_places.items()):
            if oid == original:
                self.qconfig_places[(copy, value)] = span

    def weights_of(self, qconfig: Value) -> Weights | None:
        """How a qconfig observes weights, None where that is not known."""
        table = self.backend.weights
        if isinstance(qconfig, Symbol):
            return table.qconfigs.get(qconfig.name)
        if not isinstance(qconfig, Unknown) or qconfig.symbol is None or qconfig.symbol[0] != "qconfig":
            return None
        made = qconfig.symbol[1]
        maker = table.makers.get(str(made[0])) if isinstance(made, tuple) else None
        if maker is None or not isinstance(made, tuple):
            return None
        key = _given(made[1:], maker.parameter, maker.position)
        if maker.choices:
            shown = repr(maker.default) if key is None else key[1] if isinstance(key, tuple) else None
            return next((weights for name, weights in maker.choices if repr(name) == shown), None)
        return self._observed_weights(key)

    def _observed_weights(self, key: object) -> Weights | None:
        """How an observer observes: a class or a named one of the library, or one ``with_args``."""
        table = self.backend.weights
        if isinstance(key, str):
            return table.observers.get(key)
        if not isinstance(key, tuple) or len(key) < 2 or key[0] != OBSERVER:
            return None
        arguments = dict(pair for pair in key[2:] if isinstance(pair, tuple) and len(pair) == 2)
        scheme = arguments.get("qscheme")
        if scheme is not None:
            return table.schemes.get(str(scheme))
        inner = arguments.get("observer")
        return self._observed_weights(inner if inner is not None else key[1])

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """``with_args`` of an observer gives equal values for equal arguments."""
        base, _, method = name.rpartition(".")
        if method == "with_args" and base.startswith("torch.ao.quantization."):
            named = tuple((key, self.key_of(a.value, state)) for key, a in sorted(arguments.keywords.items()))
            return Unknown("an observer", (OBSERVER, base, *named))
        return super().library_call(name, arguments, node, state)

    # --- what convert swaps -------------------------------------------------------------------------

    def conversion(self, owner: Ref) -> bool | None:
        """Convert goes by the exact class: a subclass of the project stays what it is."""
        converted = super().conversion(owner)
        if converted and owner.oid in self.derived:
            return self.derived[owner.oid]
        return converted

    def is_derived(self, owner: int) -> bool:
        """Is an instance of a subclass of the project, for which a mapping of the project may say what it becomes?"""
        return owner in self.derived

    def derived_layers(self, root: Ref, state: State) -> dict[int, bool | None]:
        """The instances of subclasses of classes that convert swaps, False for each; None where the project may
        say what convert makes of them."""
        found: dict[int, bool | None] = {}
        for oid in self._names(root, state):
            instance = self.instance(state, Ref(oid))
            if instance is None or not isinstance(instance.cls, ClassValue):
                continue
            base = self.native_base(instance) or ""
            row = self.backend.modules.get(base)
            if base in self.backend.functional_classes or (row is not None and row.swapped):
                names = tuple(entry.name for entry in self.mro(instance.cls) if isinstance(entry, ClassModel))
                if names not in self.mapped:
                    self.mapped[names] = self._maps(names)
                found[oid] = None if self.mapped[names] else False
        return found

    def _maps(self, classes: tuple[str, ...]) -> bool:
        """Does a file that names one of the classes say what convert makes of classes?"""
        named = re.compile(rf"\b(?:{'|'.join(map(re.escape, classes))})\b")
        modules = (module for module in self.finder.modules() if module.shows(_OWN_MAPPING))
        return any(named.search(unit.text) for module in modules for unit in module.syntax.units)

    def _names(self, root: Ref, state: State) -> dict[int, str]:
        """The path of every instance under a root (see ``interpreter``)."""
        raise NotImplementedError

    # --- parameters ---------------------------------------------------------------------------------

    def read(self, value: Value, node: cst.Attribute, state: State) -> Value:
        """``layer.weight``: a tensor of the float layer, a method of the quantized one."""
        name = node.attr.value
        instance = self.instance(state, value) if self.facts is not None else None
        row = self._packing(instance, name)
        if row is None or instance is None or not isinstance(value, Ref):
            return super().read(value, node, state)
        conversion = self.conversion(value)
        if conversion is False:
            without = name == "bias" and _argument(row, instance, "bias") == NONE_BIAS
            return NONE if without else self.unknown_tensor("a parameter")
        assert self.facts is not None
        if conversion and not self.muted:
            span = self.span(node)
            self.facts.parameters[(span, self.path)] = Parameter(span, self.path, value.oid, name, state.guard)
        return Unknown("a parameter of a layer that convert swaps", (PARAMETER, value.oid, name))

    def _packing(self, instance: Instance | None, name: str) -> OpSpec | None:
        """The row of a layer whose quantized class has a method of this name instead of a parameter."""
        if instance is None or name in instance.attributes:
            return None
        if isinstance(instance.cls, ClassValue) and any(
            name in entry.methods or name in entry.attributes
            for entry in self.mro(instance.cls)
            if not isinstance(entry, (Symbol, Unknown))
        ):
            return None
        row = self.backend.modules.get(self.native_base(instance) or "")
        return row if row is not None and name in row.packed else None

    # --- submodules ---------------------------------------------------------------------------------

    def submodule(self, oid: int, path: str, names: dict[int, str], state: State) -> Submodule | None:
        """What an instance under a root is, and the qconfig that reaches it."""
        instance = self.instance(state, Ref(oid))
        if instance is None:
            return None
        qconfig = self.effective.get(oid) if self.effective is not None else None
        row = self.backend.modules.get(self.native_base(instance) or "")
        holder = self._holder(oid, path, names, state) if qconfig is not None else None
        arguments = tuple((_parameter(row, name), self.key_of(value, state)) for name, value in instance.arguments)
        return Submodule(
            path,
            instance.cls.name,
            instance.created,
            qconfig,
            spec=row,
            arguments=arguments,
            weights=self.weights_of(qconfig) if qconfig is not None else None,
            holder=names[holder] if holder is not None else None,
            assigned=self.qconfig_places.get((holder, qconfig)) if holder is not None and qconfig is not None else None,
            several=oid in self.summaries,
            code=self._code(instance) if row is not None else frozenset(),
        )

    def _code(self, instance: Instance) -> frozenset[tuple[str, int]]:
        """The chunks of the methods of a subclass."""
        classes = [entry for entry in self.mro(instance.cls) if isinstance(entry, ClassModel)]
        return frozenset((m.unit.path, m.unit.index) for entry in classes for m in entry.methods.values())

    def _holder(self, oid: int, path: str, names: dict[int, str], state: State) -> int | None:
        """The module on the way from the root whose qconfig attribute an instance gets."""
        paths = {other: each for each, other in names.items()}
        while True:
            holder = oid if path == names.get(oid) else paths.get(path)
            instance = self.instance(state, Ref(holder)) if holder is not None else None
            if instance is not None and "qconfig" in instance.attributes:
                return holder
            if not path:
                return None
            path = path.rpartition(".")[0]


NONE_BIAS = ("bool", "False")


def _given(made: tuple[object, ...], name: str, position: int) -> object:
    """The key of an argument of a call that made a qconfig: (name, key) pairs follow the positional keys."""
    positional: list[object] = []
    for part in made:
        if isinstance(part, tuple) and len(part) == 2 and part[0] == name:
            return part[1]
        named = isinstance(part, tuple) and len(part) == 2 and part[0] in ("activation", "weight", "backend", "version")
        if not named:
            positional.append(part)
    return positional[position] if position < len(positional) else None


def _parameter(row: OpSpec | None, name: str) -> str:
    """A constructor argument's parameter; positional ones are named by their number."""
    if row is not None and name.isdecimal() and int(name) < len(row.constructor):
        return row.constructor[int(name)]
    return name


def _argument(row: OpSpec, instance: Instance, parameter: str) -> object:
    for name, value in instance.arguments:
        if _parameter(row, name) == parameter and isinstance(value, Const):
            return (type(value.value).__name__, repr(value.value))
    return None


__all__ = ["Layers"]
