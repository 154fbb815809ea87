"""In which files the definitions of a program stand, and how the files import each other.

A definition moves to another file only with everything it uses, so files import in one direction. A file of which
nobody needs a name is imported for what it does, as registries need it. To add a layout, write a row of `LAYOUTS`;
to add a way to import, a function with `@way("name")`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.oracle.grammar.core import MARK_CLOSE, MARK_OPEN, Planted, SourceFile, take_marks
from tests.oracle.grammar.names import Imports, choose_styles

MAIN = ""
"""What the file that holds `Net` is called in a place."""
ALONE = "layout: one file"
EFFECT = "names: none, for its side effects"
ELSEWHERE = "place: another file"
LAYOUTS: dict[str, tuple[str, str, str]] = {
    "layout: modules beside the script": ("net", "{upper}", "{lower}"),
    "layout: package beside the script": ("net", "{package}.{upper}", "{package}.{lower}"),
    "layout: inside a package": ("{package}.net", "{package}.{upper}", "{package}.{lower}"),
    "layout: packages in a package": ("{package}.models.net", "{package}.models.{upper}", "{package}.layers.{lower}"),
}
"""The dotted names of the file with `Net`, of one that it imports, and of one that both import."""
PACKAGES = ("detector", "mylib", "vision")
UPPERS, LOWERS = ("units", "building", "bricks"), ("basics", "common", "util")
WHOLE_SHARE = 0.4
"""How many programs stay in one file."""

_DEFINED = re.compile(r"^(?:(?:def|class) (\w+)|(\w+)(?:: [^=]+)? = )", re.MULTILINE)
_LITERAL = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''


@dataclass(frozen=True)
class Rendered:
    """The files of a program: the text that holds `Net`, its path below the root, the other files by their paths.

    Of a program in one file the path is empty.
    """

    text: str
    main: str
    others: dict[str, str]
    faults: list[Planted]


@dataclass
class Definition:
    """One block of lines at module level; `level` is the file it stands in, 0 the one with `Net`."""

    text: str
    level: int = 0

    @property
    def names(self) -> set[str]:
        return {kind or value for kind, value in _DEFINED.findall(_unmarked(self.text))}


@dataclass
class Part:
    """One file: its dotted name, its module-level blocks, the import lines for the other files, what it exports."""

    module: str
    texts: list[str]
    names: set[str]
    imports: list[str] = field(default_factory=list)
    public: list[str] = field(default_factory=list)

    @property
    def package(self) -> str:
        return self.module.rpartition(".")[0]

    @property
    def stem(self) -> str:
        return self.module.rpartition(".")[2]

    @property
    def path(self) -> str:
        return f"{self.module.replace('.', '/')}.py"

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def render(file: SourceFile, *, whole: bool = False) -> Rendered:
    """The text of `file`, in one piece (`whole`) or spread over the files of a layout."""
    blocks = _definitions(file)
    key = ALONE
    if not whole and file.rng.random() > WHOLE_SHARE and any(each.level for each in blocks):
        key = file.choose(list(LAYOUTS))
    file.cover(key)
    parts = _parts(file, blocks, key)
    packages = _connect(file, parts)
    texts, faults = {}, []
    library = frozenset(file.imports.library)
    for part in parts:
        name = MAIN if part is parts[0] else part.path
        texts[name], marked = take_marks(_lines(file, part, parts[0], library), file.faults, name)
        faults += marked
    if any(each.file != MAIN for each in faults):
        file.cover(ELSEWHERE)
    text = texts.pop(MAIN)
    return Rendered(text, parts[0].path if key != ALONE else "", texts | packages, faults)


def _unmarked(text: str) -> str:
    return re.sub(f"{MARK_OPEN}\\d+{MARK_CLOSE}", "", text)


def _word(names: Iterable[str]) -> str:
    return rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(names)))})\b"


def _uses(text: str, names: Iterable[str]) -> set[str]:
    """Which of `names` the text writes, as names or in quotes."""
    return {name for name in names if re.search(_word([name]), text)}


# -- which definition stands where --------------------------------------------------------------------------


def _definitions(file: SourceFile) -> list[Definition]:
    """What stands at module level, each in a file no deeper than the files of what it uses."""
    blocks = [*([each] for each in file.constants), *file.functions, *file.factories]
    blocks += [each.render() for each in file.classes]
    found = [Definition("\n".join(lines)) for lines in blocks]
    for each in found:
        each.level = 0 if "Net" in each.names else file.rng.choice((0, 1, 1, 2, 2, 2))
    changed = True
    while changed:
        changed = False
        for each in found:
            used = [other.level for other in found if other is not each and _uses(each.text, other.names)]
            level = min([each.level, *used])
            changed = changed or level != each.level
            each.level = level
    return found


def _parts(file: SourceFile, blocks: Sequence[Definition], key: str) -> list[Part]:
    """The files that have something in them, the one with `Net` first."""
    if key == ALONE:
        return [_part("net", blocks)]
    whole = "\n".join([each.text for each in blocks] + file.tail)
    words = {
        name: file.rng.choice([each for each in choices if not _uses(whole, [each])])
        for name, choices in (("package", PACKAGES), ("upper", UPPERS), ("lower", LOWERS))
    }
    modules = [each.format(**words) for each in LAYOUTS[key]]
    return [
        _part(module, [each for each in blocks if each.level == level])
        for level, module in enumerate(modules)
        if level == 0 or any(each.level == level for each in blocks)
    ]


def _part(module: str, blocks: Sequence[Definition]) -> Part:
    return Part(module, [each.text for each in blocks], {name for each in blocks for name in each.names})


# -- imports between the files ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """`names` of the file `target`, needed in the file `user`; `packages` are the texts of the `__init__.py`."""

    rng: Random
    user: Part
    target: Part
    names: list[str]
    packages: dict[str, str]

    def source(self, module: str) -> str:
        """How the using file spells a module in `from ... import`: with dots, where it stands in the same package."""
        top = self.user.module.split(".")[0]
        if "." not in self.user.module or module.split(".")[0] != top or self.rng.random() < 0.25:
            return module
        here, there = self.user.package.split("."), module.split(".")
        common = 0
        while common < min(len(here), len(there)) and here[common] == there[common]:
            common += 1
        return "." * (len(here) - common + 1) + ".".join(there[common:])

    def qualify(self, prefix: str, names: Iterable[str]) -> None:
        """Write `prefix.name` for the names in the using file."""
        pattern = re.compile(rf"({_LITERAL})|({_word(names)})(?!\s*=(?!=))")
        for index, text in enumerate(self.user.texts):
            self.user.texts[index] = pattern.sub(lambda match: match[1] or f"{prefix}.{match[2]}", text)

    def free(self) -> list[str]:
        """The names that mean nothing else anywhere in the using file."""
        return [name for name in self.names if not _shadowed(name, self.user.text)]

    def say(self, line: str) -> None:
        if line not in self.user.imports:
            self.user.imports.append(line)

    def plainly(self, names: Sequence[str], source: str) -> None:
        """A from-import of `names`."""
        if names:
            self.say(f"from {source} import {', '.join(sorted(names))}")

    def rest(self, done: Iterable[str]) -> None:
        """A from-import of what is left."""
        left = set(self.names) - set(done)
        self.plainly(sorted(left), self.source(self.target.module))


def _shadowed(name: str, text: str) -> bool:
    """Whether the text binds the name in some body, too."""
    bound = rf"(?:\bfor {name}\b|\bas {name}\b|^\s+{name}(?:, \w+)* = |, {name} = |def \w+\([^)]*\b{name}\b)"
    return re.search(bound, text, re.MULTILINE) is not None


Way = Callable[[Link], None]
WAYS: dict[str, Way] = {}


def way(name: str) -> Callable[[Way], Way]:
    def register(function: Way) -> Way:
        WAYS[f"names: {name}"] = function
        return function

    return register


class Unfit(Exception):
    """A way to import does not apply between two files."""


@way("from module import name")
def from_module(link: Link) -> None:
    link.rest([])


@way("from module import name as other")
def renamed(link: Link) -> None:
    chosen = link.free()[:2]
    if not chosen:
        raise Unfit
    for name in chosen:
        other = f"Local{name}" if name[0].isupper() else f"{name}_of_{link.target.stem}"
        link.say(f"from {link.source(link.target.module)} import {name} as {other}")
        pattern = re.compile(rf"({_LITERAL})|({_word([name])})(?!\s*=(?!=))")
        for index, text in enumerate(link.user.texts):
            link.user.texts[index] = pattern.sub(lambda match, other=other: match[1] or other, text)
    link.rest(chosen)


@way("from module import star")
def star(link: Link) -> None:
    link.say(f"from {link.source(link.target.module)} import *")
    link.rest(name for name in link.names if not name.startswith("_"))


@way("from module import star, with __all__")
def star_with_list(link: Link) -> None:
    link.target.public = sorted(link.target.names)
    link.say(f"from {link.source(link.target.module)} import *")


def _qualified(link: Link, line: str, prefix: str) -> None:
    chosen = link.free()
    if not chosen or _uses(link.user.text, [prefix.split(".")[0]]):
        raise Unfit
    link.say(line)
    link.rest(chosen)
    link.qualify(prefix, chosen)


@way("import module")
def import_module(link: Link) -> None:
    _qualified(link, f"import {link.target.module}", link.target.module)


@way("import module as alias")
def import_alias(link: Link) -> None:
    alias = f"{link.target.stem}_lib"
    _qualified(link, f"import {link.target.module} as {alias}", alias)


@way("from package import module")
def from_package(link: Link) -> None:
    if not link.target.package:
        raise Unfit
    _qualified(link, f"from {link.source(link.target.package)} import {link.target.stem}", link.target.stem)


@way("from package import module as alias")
def from_package_alias(link: Link) -> None:
    if not link.target.package:
        raise Unfit
    line = f"from {link.source(link.target.package)} import {link.target.stem} as {link.target.stem}_lib"
    _qualified(link, line, f"{link.target.stem}_lib")


def _through_package(link: Link, line: str) -> None:
    """Import from the package, whose `__init__.py` gets `line`; only in the file that no other imports."""
    package = link.target.package
    if not package or not link.user.names & {"Net"} or any(name.startswith("_") for name in link.names):
        raise Unfit
    path = f"{package.replace('.', '/')}/__init__.py"
    link.packages[path] = link.packages.get(path, "") + line
    link.plainly(link.names, link.source(package))


@way("name that the package re-exports")
def re_exported(link: Link) -> None:
    _through_package(link, f"from .{link.target.stem} import {', '.join(sorted(link.names))}\n")


@way("name that the package re-exports by a star")
def re_exported_star(link: Link) -> None:
    _through_package(link, f"from .{link.target.stem} import *\n")


@way("star of a package that re-exports")
def star_of_package(link: Link) -> None:
    _through_package(link, f"from .{link.target.stem} import {', '.join(sorted(link.names))}\n")
    link.user.imports[-1] = f"from {link.source(link.target.package)} import *"


def _connect(file: SourceFile, parts: Sequence[Part]) -> dict[str, str]:
    """Write the imports between the files; returns the `__init__.py` of their packages."""
    packages: dict[str, str] = {}
    for part in parts:
        folders = part.package.split(".") if part.package else []
        for count in range(1, len(folders) + 1):
            packages.setdefault(f"{'/'.join(folders[:count])}/__init__.py", "")
    for target in reversed(parts[1:]):
        for user in parts[: parts.index(target)]:
            names = sorted(_needed(user, target))
            if names:
                _import(file, Link(file.rng, user, target, names, packages))
            elif user is parts[0] and not any(_needed(other, target) for other in parts[1 : parts.index(target)]):
                file.cover(EFFECT)
                user.imports.append(_effect(Link(file.rng, user, target, [], packages)))
    return packages


def _needed(user: Part, target: Part) -> set[str]:
    return _uses(re.sub(_LITERAL, '""', user.text), target.names)


def _import(file: SourceFile, link: Link) -> None:
    keys = list(WAYS)
    while True:
        key = file.choose(keys)
        try:
            WAYS[key](link)
        except Unfit:
            keys.remove(key)
            continue
        file.cover(key)
        return


def _effect(link: Link) -> str:
    """An import of a file of which no name is needed."""
    if link.target.package and link.rng.random() < 0.5:
        return f"from {link.source(link.target.package)} import {link.target.stem}  # noqa: F401"
    return f"import {link.target.module}  # noqa: F401"


# -- text ---------------------------------------------------------------------------------------------------


def _lines(file: SourceFile, part: Part, main: Part, library: frozenset[str]) -> list[str]:
    """The lines of one file, with the marks still in them."""
    imports = file.imports if part is main else Imports(file.rng, choose_styles(file.rng, file.choose))
    body = list(part.texts)
    tail = file.tail if part is main else []
    spelled = [imports.spell(each) for each in body]
    ending = [imports.spell(each) for each in tail]
    imports.keep(library, "\n".join([*spelled, *ending]))
    for key in imports.used:
        file.cover(key)
    head = imports.lines()
    if part.imports:
        head += ["", *part.imports]
    if part.public:
        head += ["", f"__all__ = {part.public!r}".replace("'", '"')]
    lines, before = head, None
    for each in spelled:
        constant = re.match(r"\w+ = ", each) is not None
        gap = ["", ""] if not constant or before is False else [""] if before is None else []
        lines += [*gap, *each.split("\n")]
        before = constant
    return [*lines, *ending]
