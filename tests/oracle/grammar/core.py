"""The writer under the grammar: tensors with a scale owner, classes being filled, and the body being written.

A *piece* of grammar is a function that takes a `Scope` and writes a few statements into it. It describes what
it wrote by the tensors it leaves in `Scope.pool`: their text, shape and *origin*, the name of whoever decides
their scale. Origins inside a class are relative to its instance and are rebased where an instance is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.oracle.grammar.names import Imports, choose_styles

Shape = tuple[int, ...]
Origin = tuple[str, ...]
Line = tuple[str, int]
"""A line of a program: the path of the file below the root, empty for the one that holds `Net`, and the row."""

FLOAT: Origin = ("float",)
BATCH = 2
MARK_OPEN, MARK_CLOSE = "\u27e6", "\u27e7"


class NotHere(Exception):
    """A piece does not apply in this scope; nothing was written."""


@dataclass(frozen=True)
class Tensor:
    """An expression of the generated program that holds a tensor."""

    text: str
    shape: Shape
    origin: Origin
    nonneg: bool = False
    shadows: frozenset[Origin] = frozenset()  # other owners that may have seen the very same range
    content: frozenset[Origin] = frozenset()  # whose values it holds beside its owner's: an observer sees them all

    @property
    def quantized(self) -> bool:
        return self.origin != FLOAT

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def size(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    @property
    def ranges(self) -> frozenset[Origin]:
        """The owners whose range an observer of this tensor may find."""
        return self.shadows | self.content | {self.origin}

    def named(self, text: str) -> Tensor:
        return replace(self, text=text)

    def like(self, other: Tensor) -> bool:
        """Whether torch gives both the same range by their values alone, though two observers own them."""
        if self.origin == other.origin:
            return False
        return self.origin in other.shadows or other.origin in self.shadows or bool(self.shadows & other.shadows)


class Coverage:
    """How often each key of the tables was written, and the choice that fills the emptiest first."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def choose(self, rng: Random, keys: Sequence[str], pending: Counter[str]) -> str:
        """Usually a key with the lowest count so far, sometimes any."""
        if rng.random() < 0.1:
            return rng.choice(keys)
        lowest = min(self.counts[key] + pending[key] for key in keys)
        return rng.choice([key for key in keys if self.counts[key] + pending[key] <= lowest + 1])

    def add(self, used: Counter[str]) -> None:
        self.counts.update(used)


@dataclass(frozen=True)
class Mark:
    """What a mark in the text stands for."""

    kind: str
    rule: str
    raises: bool = False
    elsewhere: bool = False


@dataclass(frozen=True)
class Planted:
    """A planted mistake: its kind, the rule that names it, and the call where it is reported.

    `raises`: torch raises because of it; `elsewhere`: in another line than the one reported. `file` is its path below
    the root of the program, empty for the file that holds `Net`.
    """

    kind: str
    rule: str
    row: int
    column: int
    raises: bool
    elsewhere: bool = False
    file: str = ""

    @property
    def line(self) -> Line:
        return self.file, self.row


@dataclass
class SourceFile:
    """One program being generated; `layout.render` makes the text of its files."""

    rng: Random
    coverage: Coverage
    engine: str = "x86"
    used: Counter[str] = field(default_factory=Counter)
    constants: list[str] = field(default_factory=list)
    functions: list[list[str]] = field(default_factory=list)
    factories: list[list[str]] = field(default_factory=list)
    classes: list[ClassText | Verbatim] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    faults: list[Mark] = field(default_factory=list)
    imports: Imports = field(init=False)
    _names: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.imports = Imports(self.rng, choose_styles(self.rng, self.choose))

    def choose(self, keys: Sequence[str]) -> str:
        """Choose among coverage keys, the emptiest first."""
        return self.coverage.choose(self.rng, keys, self.used)

    def cover(self, key: str) -> None:
        self.used[key] += 1

    def fresh(self, stem: str) -> str:
        """A name for a class, function or constant no other place of the file uses."""
        self._names[stem] += 1
        number = self._names[stem]
        return stem if number == 1 else f"{stem}{number}"

    def mark(self, kind: str, rule: str, raises: bool = False, elsewhere: bool = False) -> str:
        """A mark to put right before the call that is reported; it vanishes from the text."""
        self.faults.append(Mark(kind, rule, raises, elsewhere))
        return f"{MARK_OPEN}{len(self.faults) - 1}{MARK_CLOSE}"


def take_marks(lines: Sequence[str], marks: Sequence[Mark], file: str) -> tuple[str, list[Planted]]:
    """The text of `lines` without its marks, and the mistakes that they stand for."""
    faults = []
    clean = []
    for row, line in enumerate("\n".join(lines).split("\n"), start=1):
        while MARK_OPEN in line:
            start, end = line.index(MARK_OPEN), line.index(MARK_CLOSE)
            mark = marks[int(line[start + 1 : end])]
            faults.append(Planted(mark.kind, mark.rule, row, start + 1, mark.raises, mark.elsewhere, file))
            line = line[:start] + line[end + 1 :]
        clean.append(line)
    return "\n".join(clean) + "\n", faults


@dataclass
class Verbatim:
    """Lines at module level that stand among the classes."""

    lines: list[str]

    def render(self) -> list[str]:
        return self.lines


@dataclass
class ClassText:
    """One `nn.Module` subclass being filled."""

    name: str
    file: SourceFile
    base: str = "nn.Module"
    params: list[str] = field(default_factory=list)
    width: int | None = None
    attributes: list[str] = field(default_factory=list)
    init: list[str] = field(default_factory=list)
    methods: list[list[str]] = field(default_factory=list)
    doc: str | None = None
    decorators: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    root: bool = False
    closed: bool = False
    _names: Counter[str] = field(default_factory=Counter)

    def fresh(self, stem: str) -> str:
        """An attribute or method name the class does not use yet."""
        self._names[stem] += 1
        number = self._names[stem]
        return stem if number == 1 else f"{stem}{number}"

    def add(self, line: str) -> None:
        """Append a line to `__init__`."""
        if self.closed:
            raise NotHere
        self.init.append(line)

    def width_text(self, channels: int) -> str:
        """How the constructor writes a channel count: its parameter, where it has that value."""
        if self.width == channels and self.file.rng.random() < 0.7:
            return "channels"
        return str(channels)

    def construct(self, *extra: str) -> str:
        """A constructor call for this class."""
        width = [] if self.width is None else [str(self.width)]
        return f"{self.name}({', '.join([*width, *extra, *self.arguments])})"

    def render(self) -> list[str]:
        lines = [*self.decorators, f"class {self.name}({self.base}):"]
        if self.doc:
            lines += [f'    """{self.doc}"""', ""]
        lines += [f"    {line}" for line in self.attributes]
        if self.attributes and (self.init or self.methods):
            lines.append("")
        if self.init:
            width = [] if self.width is None else ["channels"]
            signature = ", ".join(["self", *width, *self.params])
            lines += [f"    def __init__({signature}):", *(f"        {line}" for line in self.init), ""]
        for method in self.methods:
            lines += [*(f"    {line}" if line else "" for line in method), ""]
        while lines[-1] == "":
            lines.pop()
        return lines


class Scope:
    """The body of one method or function being written."""

    def __init__(
        self,
        file: SourceFile,
        cls: ClassText | None,
        pool: Sequence[Tensor] = (),
        *,
        tidy: bool = False,
        level: int = 0,
    ) -> None:
        self.file = file
        self.rng = file.rng
        self.cls = cls
        self.tidy = tidy  # every result keeps the shape of a feature map, so that it may follow itself in a container
        self.level = level  # how many methods and blocks stand around this one
        self.lines: list[str] = []
        self.pool: list[Tensor] = list(pool)
        self.leaves: dict[str, Tensor] = {each.text: each for each in pool}
        self.depth = 0
        self.dead = 0
        self._names: Counter[str] = Counter(each.text for each in pool)

    def inner(self, pool: Sequence[Tensor], cls: ClassText | None, *, tidy: bool | None = None) -> Scope:
        """The body of another function, which runs if this one does."""
        found = Scope(self.file, cls, pool, tidy=self.tidy if tidy is None else tidy, level=self.level + 1)
        found.dead = self.dead
        return found

    # -- writing --------------------------------------------------------------------------------------------

    def emit(self, *texts: str) -> None:
        """Append statements at the current depth."""
        for text in texts:
            self.lines += [f"{'    ' * self.depth}{line}" for line in text.split("\n")]

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Write `header` and indent what follows."""
        self.emit(header)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        """A variable name the body does not use yet."""
        name, number = stem, 1
        while self._names[name]:
            number += 1
            name = f"{stem}{number}"
        self._names[name] = 1
        return name

    def cover(self, key: str) -> None:
        """Count `key`, unless what is written now never runs."""
        if not self.dead:
            self.file.cover(key)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """What is written here never runs: it leaves no tensors and counts for nothing."""
        pool, leaves = list(self.pool), dict(self.leaves)
        self.dead += 1
        yield
        self.dead -= 1
        self.pool, self.leaves = pool, leaves

    # -- tensors --------------------------------------------------------------------------------------------

    def pick(self, where: Callable[[Tensor], bool] = lambda _: True, *, rank: int | None = 4) -> Tensor:
        """A quantized tensor of the pool, preferably one nothing has used yet."""
        found = [
            each for each in self.pool if each.quantized and (rank is None or len(each.shape) == rank) and where(each)
        ]
        if not found:
            raise NotHere
        unused = [each for each in found if each.text in self.leaves]
        return self.rng.choice(unused if unused and self.rng.random() < 0.7 else found)

    def pick_name(self, where: Callable[[Tensor], bool] = lambda _: True, *, rank: int | None = 4) -> Tensor:
        """As `pick`, but a tensor that is a plain variable."""
        return self.pick(lambda each: each.text.isidentifier() and where(each), rank=rank)

    def use(self, *tensors: Tensor) -> None:
        for each in tensors:
            self.leaves.pop(each.text, None)

    def keep(self, *tensors: Tensor) -> None:
        """Put tensors into the pool that the text written so far made available."""
        for each in tensors:
            self.pool.append(each)
            self.leaves[each.text] = each
            self._names[each.text] = 1

    def bind(self, value: Tensor, stem: str | None = None) -> Tensor:
        """Write `name = value` and keep the name."""
        name = self.fresh(stem or self.rng.choice(VARIABLES))
        self.emit(f"{name} = {value.text}")
        bound = value.named(name)
        self.keep(bound)
        return bound

    def rebind(self, old: Tensor, value: Tensor) -> Tensor:
        """Write `old = value`: the name now means the new tensor."""
        self.emit(f"{old.text} = {value.text}")
        return self.replace(old, value)

    def replace(self, old: Tensor, value: Tensor) -> Tensor:
        """Let the name of `old` mean `value` from now on."""
        self.forget(old)
        bound = value.named(old.text)
        self.keep(bound)
        return bound

    def forget(self, tensor: Tensor) -> None:
        self.use(tensor)
        self.pool = [each for each in self.pool if each.text != tensor.text]

    # -- trying ---------------------------------------------------------------------------------------------

    def attempt(self, producer: Callable[[Scope], None]) -> bool:
        """Run a piece; where it turns out not to apply, everything it wrote is taken back."""
        saved = [_snapshot(part) for part in (self, self.cls, self.file) if part is not None]
        try:
            producer(self)
        except NotHere:
            for part, state in saved:
                vars(part).update(state)
            return False
        return True

    # -- submodules -----------------------------------------------------------------------------------------

    @property
    def owner(self) -> ClassText:
        """The class whose method this is."""
        if self.cls is None or self.cls.closed:
            raise NotHere
        return self.cls

    def submodule(self, constructor: str, stem: str) -> str:
        """Register a submodule; returns its attribute name."""
        name = self.owner.fresh(stem)
        self.owner.add(f"self.{name} = {constructor}")
        return name

    def constant(self, stem: str, value: str) -> str:
        """Store a constant attribute in `__init__`; returns its name."""
        name = self.owner.fresh(stem)
        self.owner.add(f"self.{name} = {value}")
        return name


def _snapshot(part: Scope | ClassText | SourceFile) -> tuple[object, dict[str, Any]]:
    kinds = (list, dict, Counter)
    state = {name: copy(value) for name, value in vars(part).items() if isinstance(value, (*kinds, int, bool))}
    return part, state


@dataclass
class Life:
    """The function `deploy(batches)` of a file that quantizes its `Net` itself."""

    engine: str
    qconfig: str = ""
    fuse: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    prepare: str = ""
    qat: bool = False

    def lines(self) -> list[str]:
        """The function; `fuse` comes before the qconfig is set, `before` between that and prepare."""
        default = "get_default_qat_qconfig" if self.qat else "get_default_qconfig"
        qconfig = self.qconfig or f'net.qconfig = tq.{default}("{self.engine}")'
        prepare = self.prepare or f"tq.prepare{'_qat' * self.qat}(net)"
        body = [
            f"net = Net().{'train' if self.qat else 'eval'}()",
            *self.fuse,
            qconfig,
            *self.before,
            f"prepared = {prepare}",
            "for batch in batches:",
            "    prepared(*batch)",
            *(["prepared.eval()"] if self.qat else []),
            "converted = tq.convert(prepared)",
            *self.after,
            "return converted",
        ]
        return ["", "", "def deploy(batches):", *(f"    {line}" for line in body)]


@dataclass
class Net:
    """The root class `Net` while it is written."""

    file: SourceFile
    text: ClassText
    scope: Scope
    signature: str = "x"
    call: str = "args"
    shapes: list[Shape] = field(default_factory=list)
    life: Life | None = None
    leak: tuple[str, Tensor] | None = None  # a mark, and a quantized tensor that is returned as it is


VARIABLES = ("x", "y", "z", "out", "feat", "feature", "left", "right", "skip", "hidden", "low", "high")


def own(*path: str) -> Origin:
    """The origin of a tensor whose scale the submodule at `path` owns."""
    return ("self", *".".join(path).split("."))


def certain(origin: Origin) -> bool:
    """Whether the origin is known without the caller."""
    while origin[0] == "scaled":
        origin = origin[2:]
    return origin[0] != "arg"


def rebase(origin: Origin, instance: Sequence[str], arguments: Sequence[Tensor]) -> Origin:
    """An origin relative to a class, seen from the method that calls an instance of it."""
    match origin:
        case ("self", *path):
            return ("self", *instance, *path)
        case ("arg", index):
            return arguments[int(index)].origin
        case ("scaled", how, *inner):
            return ("scaled", how, *rebase(tuple(inner), instance, arguments))
        case _:
            return origin


def rebased(tensor: Tensor, instance: Sequence[str], arguments: Sequence[Tensor]) -> Tensor:
    """`tensor`, a result of a method, seen from the caller."""
    origin = rebase(tensor.origin, instance, arguments)
    shadows, content = (
        {rebase(each, instance, arguments) for each in names} for names in (tensor.shadows, tensor.content)
    )
    for index, argument in enumerate(arguments):
        if ("arg", str(index)) in tensor.shadows | {tensor.origin}:
            shadows |= argument.shadows
        if ("arg", str(index)) in tensor.ranges:
            content |= argument.ranges
    return replace(tensor, origin=origin, shadows=frozenset(shadows - {origin}), content=frozenset(content))


def parameters(names: Sequence[str], tensors: Sequence[Tensor]) -> list[Tensor]:
    """The arguments of a method as its body sees them: origins unknown, perhaps without negatives."""
    return [
        replace(tensor, text=name, origin=("arg", str(index)), nonneg=True, shadows=frozenset(), content=frozenset())
        for index, (name, tensor) in enumerate(zip(names, tensors, strict=True))
    ]
