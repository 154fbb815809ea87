"""A backend: its operator rows, the names of its life-cycle calls and its module containers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from qlsp.ops.spec import OpSpec, Role
from qlsp.values.workflow import Mode, Stage, Weights, Workflow

NAMESPACES = (
    r"\btorch\.(?:ao|quantization|export|_export)\b",
    r"\btorchao\b",
    r"\bao\.(?:nn|quantization)\b",
    r"\bnn\.(?:quantized|quantizable|intrinsic|qat)\b",
    r"_plugin_pytorch\b",
    "qconfig",
    "QConfig",
    "Stub",
    "QuantWrapper",
    "activation_post_process",
    "share_observ",
)
"""Packages of quantization, as they are imported or written out, and attributes that only quantized models have."""

PLAIN_NAMES = frozenset({"prepare", "convert", "quantize", "export"})
"""Names of life-cycle calls that mean something else in most programs: an import tells which."""


@dataclass(frozen=True, slots=True)
class LifecycleRow:
    """A library function that moves a model through its life. ``params`` are its parameters by position, the
    model first; without one called ``inplace`` it always works on a copy. ``keywords`` are its further parameters,
    None where they are not listed."""

    stage: Stage
    workflow: Workflow
    names: tuple[str, ...]
    mode: Mode = Mode.UNKNOWN
    params: tuple[str, ...] = ("model",)
    keywords: tuple[str, ...] | None = None

    @property
    def model(self) -> str:
        """The name of the model parameter."""
        return self.params[0]


@dataclass(frozen=True, slots=True)
class ModelMaker:
    """A function that calls what is registered in a package under a name. ``parameter`` is the name, its first;
    ``left_out`` are those it does not pass on. Behind ``tag``, a name says which weights are loaded."""

    package: str
    parameter: str
    left_out: tuple[str, ...] = ()
    tag: str = ""


@dataclass(frozen=True, slots=True)
class ModelBuilder:
    """A function that calls a class, its first parameter, with what it is given. ``positional`` and ``left_out`` are
    not passed on, ``changing`` make something else of the model, ``config`` is passed on under another name."""

    positional: tuple[str, ...]
    left_out: tuple[str, ...]
    changing: tuple[str, ...]
    config: tuple[str, str]


@dataclass(frozen=True, slots=True)
class QconfigMaker:
    """A function or class that returns a QConfig, and the parameter that decides how it observes weights: a name
    out of ``choices``, or an observer."""

    name: str
    parameter: str
    position: int
    choices: tuple[tuple[str, Weights], ...] = ()
    default: str | None = None


@dataclass(frozen=True)
class WeightTable:
    """How the qconfigs, observers and quantization schemes of a library observe weights, by qualified name.
    ``factories`` are all classes and functions that build an observer or a fake-quantize module."""

    qconfigs: dict[str, Weights] = field(default_factory=dict)
    observers: dict[str, Weights] = field(default_factory=dict)
    schemes: dict[str, Weights] = field(default_factory=dict)
    makers: dict[str, QconfigMaker] = field(default_factory=dict)
    factories: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FuserRow:
    """A sequence of module classes that can be fused: the class that takes the place of the first one, in eval mode
    and by the function for training (None: that one refuses it). The others become ``Identity``."""

    parts: tuple[str, ...]
    fused: str
    trained: str | None


@dataclass(frozen=True, slots=True)
class Namespace:
    """An old package and the one whose names it gives on, from a version of the library on."""

    old: str
    new: str
    since: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NameMove:
    """A qualified name that does not exist: where it is (None: nowhere), and the first version of the library without
    it (None: none ever had it). ``error`` is what its use raises where that is not the usual ``ImportError``,
    ``gives`` the names that a star import is meant to give."""

    name: str
    home: str | None
    until: tuple[int, ...] | None = None
    error: str | None = None
    gives: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MovedNames:
    """Names of a library that are elsewhere. ``elsewhere`` are the modules of old namespaces that the new one has
    under another name, or not at all; ``stars`` the packages whose star import raises."""

    namespaces: tuple[Namespace, ...] = ()
    elsewhere: Mapping[str, str | None] = field(default_factory=dict)
    moves: tuple[NameMove, ...] = ()
    stars: tuple[NameMove, ...] = ()

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """The packages that such a name begins with."""
        return tuple(dict.fromkeys([*(each.old for each in self.namespaces), *(each.name for each in self.stars)]))

    @cached_property
    def _missing(self) -> dict[str, NameMove]:
        return {move.name: move for move in self.moves}

    def namespace(self, name: str) -> Namespace | None:
        """The old namespace that a name is in, with the name that is to be used for it there."""
        found = next((each for each in self.namespaces if _inside(name, each.old)), None)
        if found is None:
            return None
        for module, home in self.elsewhere.items():
            if _inside(name, module):
                return None if home is None else Namespace(name, home + name[len(module) :], found.since)
        return Namespace(name, found.new + name[len(found.old) :], found.since)

    def missing(self, name: str) -> NameMove | None:
        """What is known of a name that does not exist, or of the module it would be in."""
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            move = self._missing.get(".".join(parts[:length]))
            if move is not None:
                rest = "".join(f".{part}" for part in parts[length:])
                return NameMove(name, move.home and move.home + rest, move.until)
        return None

    def star(self, name: str) -> NameMove | None:
        """What is known of the star import of a package."""
        return next((each for each in self.stars if each.name == name), None)


def _inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@dataclass(frozen=True)
class Backend:
    """A table of operators. ``aliases`` maps a prefix of a qualified name to its canonical prefix; the longest
    matching prefix wins and is applied once. ``renames`` are a user's: names that stand for names of the table,
    whatever else they are. ``qconfigs`` are names of QConfig objects, ``qconfig_makers`` are
    classes and functions that return one; ``qconfig_modes`` says for which mode those of both kinds are made, if
    it is one; ``embedding_qconfigs`` suit nothing but embeddings. ``trained_modules`` are the classes that
    prepare_qat swaps, ``weights`` tells how a qconfig observes weights,
    ``moved`` are the names that moved. ``model_makers``, ``model_builders`` and ``plain_decorators`` (which change
    neither arguments nor results) are functions of other packages, by where they are defined."""

    name: str
    rows: tuple[OpSpec, ...]
    aliases: tuple[tuple[str, str], ...]
    functional_classes: tuple[str, ...]
    lifecycle: tuple[LifecycleRow, ...] = ()
    qconfigs: tuple[str, ...] = ()
    qconfig_makers: tuple[str, ...] = ()
    qconfig_modes: tuple[tuple[str, Mode], ...] = ()
    embedding_qconfigs: tuple[str, ...] = ()
    trained_modules: tuple[str, ...] = ()
    weights: WeightTable = WeightTable()
    fusers: tuple[FuserRow, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    moved: MovedNames = MovedNames()
    model_makers: Mapping[str, ModelMaker] = field(default_factory=dict)
    model_builders: Mapping[str, ModelBuilder] = field(default_factory=dict)
    plain_decorators: frozenset[str] = frozenset()

    @cached_property
    def functions(self) -> dict[str, OpSpec]:
        """Qualified function name to row."""
        return {name: row for row in self.rows for name in row.functions}

    @cached_property
    def methods(self) -> dict[str, OpSpec]:
        """Tensor method name to row."""
        return {name: row for row in self.rows for name in row.methods}

    @cached_property
    def modules(self) -> dict[str, OpSpec]:
        """Module class to row."""
        return {name: row for row in self.rows for name in row.modules}

    @cached_property
    def functionals(self) -> dict[str, OpSpec]:
        """Method of FloatFunctional to row."""
        return {name: row for row in self.rows for name in row.functionals}

    @cached_property
    def operators(self) -> dict[str, OpSpec]:
        """Python operator to row."""
        return {name: row for row in self.rows for name in row.operators}

    @cached_property
    def fuser_rows(self) -> dict[tuple[str, ...], FuserRow]:
        """Sequence of module classes to row."""
        return {row.parts: row for row in self.fusers}

    @cached_property
    def lifecycle_calls(self) -> dict[str, LifecycleRow]:
        """Qualified function name to life-cycle row."""
        return {name: row for row in self.lifecycle for name in row.names}

    @cached_property
    def telling(self) -> re.Pattern[str]:
        """What stands in every text that makes a stub, a qconfig or a quantization-aware module of this table, or
        moves a model through its life, unless it names them by means of other chunks."""
        stubs = (name for row in self.rows if row.role in (Role.QUANTIZE, Role.DEQUANTIZE) for name in row.modules)
        names = [*stubs, *self.functional_classes, *self.lifecycle_calls, *self.qconfigs, *self.qconfig_makers]
        last = {name.rpartition(".")[2] for name in names} - PLAIN_NAMES
        own = {part for name, _ in self.renames for part in name.split(".")}
        words = "|".join(sorted(map(re.escape, last | own)))
        return re.compile(rf"{'|'.join(NAMESPACES)}|\b(?:{words})\b")

    @cached_property
    def _prefixes(self) -> dict[str, str]:
        return dict(self.aliases)

    @cached_property
    def _renames(self) -> dict[str, str]:
        return dict(self.renames)

    def renamed(self, name: str) -> bool:
        """Does the user say that a qualified name stands for one of the table?"""
        return bool(self._renames) and _replaced(name, self._renames) is not None

    def canonical(self, name: str) -> str:
        """The canonical spelling of a qualified name: ``torch.quantization.QuantStub`` is
        ``torch.ao.quantization.QuantStub``."""
        if name not in self._canonical:
            meant = (_replaced(name, self._renames) or name) if self._renames else name
            self._canonical[name] = _replaced(meant, self._prefixes) or meant
        return self._canonical[name]

    @cached_property
    def _canonical(self) -> dict[str, str]:
        """The canonical spellings of the names that were asked for."""
        return {}


def _replaced(name: str, prefixes: Mapping[str, str]) -> str | None:
    """The name with its longest known prefix replaced, None if it has none."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        target = prefixes.get(".".join(parts[:length]))
        if target is not None:
            rest = parts[length:]
            return ".".join([target, *rest]) if rest else target
    return None
