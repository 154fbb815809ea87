"""Chunks of a file as LibCST trees: parsed on demand, cached by text, with spans on demand."""

from __future__ import annotations

import ast
import keyword
import re
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from qlsp.syntax.chunks import Extent, Kind, from_ast, scan
from qlsp.text import LineIndex, Source, Span

CACHED_CHUNKS = 4096
CACHED_CHARACTERS = 2_000_000

_CLASS = "class _:\n"
_PASS = " pass"


class ChunkError(Exception):
    """A chunk that LibCST does not parse; ``legal`` if CPython accepts it."""

    def __init__(self, message: str, offset: int, legal: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.legal = legal


@dataclass(frozen=True, slots=True)
class SyntaxProblem:
    """A syntax error: where it is and what CPython says about it."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why and where a text does not parse, as offsets in that text."""

    message: str
    start: int
    end: int
    legal: bool = False


_Value = TypeVar("_Value")


class _Cache(Generic[_Value]):
    """Values by the texts they come from; the least recently used go first."""

    def __init__(self, entries: int, characters: int) -> None:
        self._entries = entries
        self._characters = characters
        self._size = 0
        self._values: OrderedDict[tuple[str, ...], _Value] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> _Value | None:
        """Return a value and mark it as used."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: tuple[str, ...], value: _Value) -> None:
        """Store a value; what does not fit any more is dropped."""
        if key not in self._values:
            self._size += sum(map(len, key))
        self._values[key] = value
        while len(self._values) > self._entries or self._size > self._characters:
            oldest, _ = self._values.popitem(last=False)
            self._size -= sum(map(len, oldest))


class Unit:
    """A top-level statement of a file, or a statement in the body of a top-level class.

    ``start`` and ``end`` are offsets in the text of the segment.  The text of a class spans its members, its
    tree is that of its header with a body of ``pass``.
    """

    __slots__ = (
        "_deep", "_names", "_segment_text", "_tree", "_wrapped",
        "end", "index", "kind", "members", "name", "path", "segment", "start",
    )  # fmt: skip

    def __init__(
        self,
        path: str,
        index: int,
        segment: int,
        segment_text: str,
        extent: Extent,
        wrapped: tuple[str, str, str],
        members: tuple[Unit, ...],
    ) -> None:
        self.path = path
        self.index = index
        self.segment = segment
        self.kind: Kind = extent.kind
        self.name = extent.name
        self.start = extent.start
        self.end = extent.end
        self.members = members
        self._segment_text = segment_text
        self._wrapped = wrapped
        self._deep = extent.deep
        self._tree: _Tree | None = None
        self._names: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"Unit({self.index}, {self.kind}, {self.name!r}, {self.start}:{self.end})"

    @property
    def text(self) -> str:
        """The source text of the chunk."""
        return self._segment_text[self.start : self.end]

    @property
    def node(self) -> cst.BaseStatement:
        """The tree of the chunk; raises ``ChunkError`` if LibCST does not parse it."""
        return self._parsed().node

    @property
    def names(self) -> frozenset[str]:
        """The names that the chunk may bind; more than it does, never fewer where the text is plain."""
        if self._names is None:
            self._names = bound_names(self.kind, self.name, self.text)
        return self._names

    def ordinal(self, node: cst.CSTNode) -> int:
        """Return the number of a node in the walk of the chunk; raises ``KeyError`` for a foreign node."""
        return self._parsed().ordinals[id(node)]

    def node_at(self, ordinal: int) -> cst.CSTNode:
        """Return the node with a number."""
        return self._parsed().nodes[ordinal]

    def span(self, ordinal: int) -> Span:
        """Return the place of a node in the file: without its own parentheses and leading comments."""
        start, end = self._parsed().spans[ordinal]
        return Span(self.start + start, self.start + end, self.segment)

    def anchor(self, ordinal: int) -> Span:
        """Return the place of a node; that of a call in a chain over several lines begins at the name called."""
        span, node = self.span(ordinal), self.node_at(ordinal)
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return span
        start = self.span(self.ordinal(node.func.attr)).start
        chain = self.source(Span(span.start, start, span.segment))
        return Span(start, span.end, span.segment) if "\n" in chain else span

    def source(self, span: Span) -> str:
        """Return the text of a span of the chunk's segment."""
        return self._segment_text[span.start : span.end]

    def _parsed(self) -> _Tree:
        if self._tree is None:
            tree = self._attempt()
            if isinstance(tree, _Failure):
                raise ChunkError(tree.message, self.start + tree.start, tree.legal)
            self._tree = tree
        return self._tree

    def _attempt(self) -> _Tree | _Failure:
        if not self._deep:
            return _parse(*self._wrapped)
        rejection = _reject("".join(self._wrapped))
        if rejection is None:
            return _Failure(_TOO_DEEP, 0, 0, legal=True)
        return _in_chunk(rejection, *self._wrapped)


class FileSyntax:
    """A file as chunks."""

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self.source = source
        units: list[Unit] = []
        index = 0
        for segment, piece in enumerate(source.segments):
            for extent in _extents(piece.text):
                unit = _unit(source.path, index, segment, piece.text, extent)
                units.append(unit)
                index += 1 + len(unit.members)
        self.units = tuple(units)
        self.all_units: Mapping[int, Unit] = {
            unit.index: unit for top in units for unit in (top, *top.members)
        }
        self._problems: tuple[SyntaxProblem, ...] | None = None

    def problems(self) -> tuple[SyntaxProblem, ...]:
        """Return the syntax errors: chunks that neither CPython nor LibCST parses."""
        if self._problems is None:
            self._problems = tuple(
                problem
                for segment, piece in enumerate(self.source.segments)
                for problem in self._segment_problems(segment, piece.text)
            )
        return self._problems

    def _segment_problems(self, segment: int, text: str) -> Iterator[SyntaxProblem]:
        whole = _reject(text)
        if whole is None:
            return
        explained = False
        for unit in self.all_units.values():
            if unit.segment != segment or _reject("".join(unit._wrapped)) is None:
                continue
            failure = unit._attempt()
            if isinstance(failure, _Failure):
                explained = True
                span = Span(unit.start + failure.start, unit.start + failure.end, segment)
                yield SyntaxProblem(span, failure.message)
        if not explained and not self._unreadable(segment) and _cst_module(text) is None:
            yield SyntaxProblem(Span(whole.start, whole.end, segment), whole.message)

    def _unreadable(self, segment: int) -> bool:
        """Tell whether LibCST fails at a chunk of a segment that CPython accepts."""
        units = (unit for unit in self.all_units.values() if unit.segment == segment)
        return any(isinstance(failure := unit._attempt(), _Failure) and failure.legal for unit in units)


def parse_file(source: Source) -> FileSyntax:
    """Split a file to units; the trees of chunks seen before are used again."""
    return FileSyntax(source)


def _extents(text: str) -> tuple[Extent, ...]:
    """Split a text; where the scan had to repair a text that CPython accepts, believe CPython."""
    found = scan(text)
    if found.repaired:
        module = _ast(text)
        if isinstance(module, ast.Module):
            return from_ast(text, module)
    return found.extents


def _unit(path: str, index: int, segment: int, text: str, extent: Extent) -> Unit:
    first_indent = _indent(text, extent.members[0].start) if extent.members else ""
    members = []
    for number, member in enumerate(extent.members, index + 1):
        indent = _indent(text, member.start)
        prefix = _CLASS + indent
        if indent and indent != first_indent:
            prefix = f"{_CLASS}{first_indent}pass\n{indent}"
        wrapped = (prefix, text[member.start : member.end], "")
        members.append(Unit(path, number, segment, text, member, wrapped, ()))
    if extent.header_end is not None:
        header = text[extent.start : extent.header_end]
        wrapped = ("", header, _PASS if header.endswith(":") else "")
    else:
        wrapped = (_indent(text, extent.start), text[extent.start : extent.end], "")
    return Unit(path, index, segment, text, extent, wrapped, tuple(members))


def _indent(text: str, start: int) -> str:
    """Return the white space before a statement, from the last form feed or the line start on."""
    begin = line = start
    while begin > 0:
        if text[begin - 1] in " \t":
            begin -= 1
            continue
        continued = text.endswith(("\\\n", "\\\r", "\\\r\n"), 0, begin)
        if text[begin - 1] in "\r\n\f" or continued:
            line = begin
        if not continued:
            break
        begin = text.rfind("\\", 0, begin)
    return text[line if begin else 0 : start]


class _Tree:
    """A parsed chunk, and what is derived from it on demand; offsets count from the start of its text."""

    __slots__ = ("_body", "_code", "_module", "_nodes", "_ordinals", "_prefix", "_spans", "node")

    def __init__(
        self, module: cst.Module, node: cst.BaseStatement, code: str, prefix: int, body: int
    ) -> None:
        self.node = node
        self._module = module
        self._code = code
        self._prefix = prefix
        self._body = body
        self._nodes: list[cst.CSTNode] | None = None
        self._ordinals: dict[int, int] | None = None
        self._spans: list[tuple[int, int]] | None = None

    @property
    def nodes(self) -> list[cst.CSTNode]:
        """All nodes in the order of the walk."""
        if self._nodes is None:
            self._nodes = list(walk(self.node))
        return self._nodes

    @property
    def ordinals(self) -> dict[int, int]:
        """The numbers of the nodes, by identity."""
        if self._ordinals is None:
            self._ordinals = {id(node): number for number, node in enumerate(self.nodes)}
        return self._ordinals

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The offsets of the nodes, by number."""
        if self._spans is None:
            places = _places(self._module, self._code, self.ordinals)
            size, prefix = self._body, self._prefix
            whole = (prefix, prefix + size)
            self._spans = [
                (min(max(start - prefix, 0), size), min(max(end - prefix, 0), size))
                for start, end in (places.get(id(node), whole) for node in self.nodes)
            ]
        return self._spans


_trees: _Cache[_Tree | _Failure] = _Cache(CACHED_CHUNKS, CACHED_CHARACTERS)
_rejections: _Cache[tuple[_Failure | None]] = _Cache(CACHED_CHUNKS, CACHED_CHARACTERS)


def _parse(prefix: str, body: str, suffix: str) -> _Tree | _Failure:
    """Parse a chunk between a prefix that holds its indentation and a suffix."""
    key = (prefix, body, suffix)
    tree = _trees.get(key)
    if tree is None:
        tree = _parse_anew(prefix, body, suffix)
        _trees.put(key, tree)
    return tree


def _parse_anew(prefix: str, body: str, suffix: str) -> _Tree | _Failure:
    code = prefix + body + suffix
    module = _cst_module(code)
    node = _only_statement(module, prefix) if module is not None else None
    if module is not None and node is not None:
        return _Tree(module, node, code, len(prefix), len(body))
    rejection = _reject(code)
    if rejection is None:
        return _Failure("legal Python that this parser does not read", 0, 0, legal=True)
    return _in_chunk(rejection, prefix, body, suffix)


def _in_chunk(rejection: _Failure, prefix: str, body: str, suffix: str) -> _Failure:
    """Count the offsets of a rejection from the start of the chunk."""
    start = min(max(rejection.start - len(prefix), 0), len(body))
    end = min(max(rejection.end - len(prefix), start), len(body))
    return _Failure(rejection.message, start, end)


def _only_statement(module: cst.Module, prefix: str) -> cst.BaseStatement | None:
    """Return the one statement of a chunk that was parsed under a prefix."""
    if not prefix.startswith(_CLASS):
        return module.body[0] if len(module.body) == 1 else None
    owner = module.body[0]
    if len(module.body) != 1 or not isinstance(owner, cst.ClassDef):
        return None
    extra = prefix.count("pass\n")
    body = owner.body.body
    node = body[-1]
    return node if len(body) == 1 + extra and isinstance(node, cst.BaseStatement) else None


def _cst_module(code: str) -> cst.Module | None:
    """Parse a text with LibCST; every failure, a panic of its native part included, is None."""
    try:
        return cst.parse_module(code)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:
        return None


def _ast(code: str) -> ast.Module | Exception:
    """Parse a text with CPython, or return its exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error


_TOO_DEEP = "nests too deeply"
_LINE_NUMBER = re.compile(r" \(detected at line \d+\)| on line \d+")


def _reject(code: str) -> _Failure | None:
    """Return CPython's syntax error for a text, as offsets, or None if it accepts the text."""
    found = _rejections.get((code,))
    if found is None:
        found = (_rejection(code),)
        if found[0] is None or found[0].message != _TOO_DEEP:
            _rejections.put((code,), found)
    return found[0]


def _rejection(code: str) -> _Failure | None:
    error = _ast(code)
    if isinstance(error, ast.Module):
        return None
    if isinstance(error, UnicodeEncodeError):
        return _Failure("invalid character: lone surrogate", error.start, error.end)
    null = code.find("\0")
    if null >= 0:
        return _Failure("source code cannot contain null bytes", null, null + 1)
    if not isinstance(error, SyntaxError) or error.lineno is None:
        return _Failure(_TOO_DEEP, 0, 0)
    index = LineIndex(code)
    start = index.offset(error.lineno, error.offset or 1)
    end = start
    if error.end_lineno and error.end_offset and error.end_offset > 0:
        end = index.offset(error.end_lineno, error.end_offset)
    return _Failure(_LINE_NUMBER.sub("", error.msg or "invalid syntax"), start, max(start, end))


# ---- walk -------------------------------------------------------------------------------------------------

_WHITESPACE_TYPES = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.Newline,
    cst.Comment,
)
_WHITESPACE_FIELDS = frozenset(["leading_lines", "lines_after_decorators", "header", "footer", "indent"])


class _Fields(dict[type, tuple[str, ...]]):
    """For each class of nodes, the fields that may hold nodes other than white space, last one first."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        names: list[str] = []
        for name, spec in kind.__dataclass_fields__.items():  # type: ignore[attr-defined]
            plain = spec.type in (str, "str", bool, "bool", int, "int")
            if plain or "whitespace" in name or name in _WHITESPACE_FIELDS or name.startswith("_"):
                continue
            names.append(name)
        fields = self[kind] = tuple(reversed(names))
        return fields


class _IsNode(dict[type, bool]):
    """Is a class one of nodes? Asking an abstract class each time takes longer."""

    def __missing__(self, kind: type) -> bool:
        answer = self[kind] = issubclass(kind, cst.CSTNode)
        return answer


_FIELDS = _Fields()
_IS_NODE = _IsNode()


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and all nodes below it, parents first, white space left out."""
    stack: list[Any] = [node]
    pop, push, extend, fields, is_node = stack.pop, stack.append, stack.extend, _FIELDS, _IS_NODE
    while stack:
        current = pop()
        yield current
        for name in fields[type(current)]:
            value = getattr(current, name)
            kind = value.__class__
            if kind is tuple or kind is list:
                if value:
                    extend(value[::-1])
            elif is_node[kind]:
                push(value)


def count_names(node: cst.CSTNode, name: str) -> int:
    """How often a plain name stands in a node; keywords and attributes do not count."""
    skipped: set[int] = set()
    count = 0
    for inner in walk(node):
        if isinstance(inner, cst.Arg) and inner.keyword is not None:
            skipped.add(id(inner.keyword))
        elif isinstance(inner, cst.Attribute):
            skipped.add(id(inner.attr))
        elif isinstance(inner, cst.Name) and inner.value == name and id(inner) not in skipped:
            count += 1
    return count


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes directly below a node, white space left out."""
    for name in reversed(_FIELDS[type(node)]):
        value = getattr(node, name)
        if isinstance(value, (tuple, list)):
            yield from value
        elif isinstance(value, cst.CSTNode):
            yield value


# ---- spans ------------------------------------------------------------------------------------------------


def _places(module: cst.Module, code: str, wanted: Mapping[int, int]) -> Mapping[int, tuple[int, int]]:
    """Return the offsets of the wanted nodes in the code of a module, by identity."""
    places = _recorded(module, code, wanted)
    return _provided(module, code, wanted) if places is None else places


def _provided(module: cst.Module, code: str, wanted: Mapping[int, int]) -> Mapping[int, tuple[int, int]]:
    """Ask LibCST's own provider: slow, but public."""
    index = LineIndex(code)
    ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    return {
        id(node): (
            index.offset(place.start.line, place.start.column + 1),
            index.offset(place.end.line, place.end.column + 1),
        )
        for node, place in ranges.items()
        if id(node) in wanted
    }


_EXTRA_FRAMES = 2000
_SPACE = " \t\f\r\n"
_UNPRINTED = _SPACE + "\\\ufeff"

try:
    from libcst._nodes.internal import CodegenState
except ImportError:

    def _recorded(
        module: cst.Module, code: str, wanted: Mapping[int, int]
    ) -> Mapping[int, tuple[int, int]] | None:
        return None

else:

    class _Syntactic:
        """The part of a node's code that counts as its place."""

        __slots__ = ("end_node", "node", "recorder", "start", "start_node")

        def __init__(
            self,
            recorder: _Recorder,
            node: cst.CSTNode,
            start_node: cst.CSTNode | None,
            end_node: cst.CSTNode | None,
        ) -> None:
            self.recorder = recorder
            self.node = node
            self.start_node = start_node
            self.end_node = end_node
            self.start = 0

        def __enter__(self) -> None:
            self.start = len(self.recorder.tokens)

        def __exit__(self, *_: object) -> None:
            places = self.recorder.places
            start, end = self.start, len(self.recorder.tokens)
            if self.start_node is not None:
                start = places[id(self.start_node)][0]
            if self.end_node is not None:
                end = places[id(self.end_node)][1]
            places[id(self.node)] = (start, end)

    class _Recorder(CodegenState):
        """Prints a tree and notes, for wanted nodes, the numbers of their first and last tokens."""

        def __init__(self, module: cst.Module, wanted: Mapping[int, int]) -> None:
            super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
            self.wanted = wanted
            self.places: dict[int, tuple[int, int]] = {}
            self.begun: list[int] = []

        def before_codegen(self, node: cst.CSTNode) -> None:
            self.begun.append(len(self.tokens))

        def after_codegen(self, node: cst.CSTNode) -> None:
            start = self.begun.pop()
            key = id(node)
            if key in self.wanted and key not in self.places:
                self.places[key] = (start, len(self.tokens))

        def record_syntactic_position(  # type: ignore[override]
            self,
            node: cst.CSTNode,
            *,
            start_node: cst.CSTNode | None = None,
            end_node: cst.CSTNode | None = None,
        ) -> _Syntactic:
            return _Syntactic(self, node, start_node, end_node)

    def _recorded(
        module: cst.Module, code: str, wanted: Mapping[int, int]
    ) -> Mapping[int, tuple[int, int]] | None:
        """Print the module with a recorder; None where that does not work or does not give back the code."""
        recorder = _Recorder(module, wanted)
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(limit + _EXTRA_FRAMES)
        try:
            module._codegen(recorder)
        except Exception:
            return None
        finally:
            sys.setrecursionlimit(limit)
        printed = "".join(recorder.tokens)
        offsets = [*accumulate(map(len, recorder.tokens), initial=0), len(printed)]
        places = ((key, offsets[start], offsets[end]) for key, (start, end) in recorder.places.items())
        if printed == code:
            return {key: (start, end) for key, start, end in places}
        origin = _origin(printed, code)
        if origin is None:
            return None
        return {
            key: (origin[start], origin[end - 1] + 1 if end > start else origin[start])
            for key, start, end in places
        }

    def _origin(printed: str, code: str) -> list[int] | None:
        """Return where the printed characters stand in the code; None if they differ in more than space.

        LibCST prints no form feeds, backslashes and marks that stand before the first token of a line.
        """
        origin: list[int] = []
        position, size = 0, len(code)
        for character in printed:
            if character not in _SPACE:
                while position < size and code[position] != character:
                    if code[position] not in _UNPRINTED:
                        return None
                    position += 1
                if position == size:
                    return None
            origin.append(position)
            if code.startswith(character, position):
                position += 1
        return [*origin, size]


# ---- names ------------------------------------------------------------------------------------------------

_NOISE = re.compile(
    r"#[^\r\n]*|\\(?:\r\n?|\n)|'''[\s\S]*?(?:'''|\Z)|\"\"\"[\s\S]*?(?:\"\"\"|\Z)"
    r"|'(?:[^'\\\r\n]|\\.)*'?|\"(?:[^\"\\\r\n]|\\.)*\"?"
)
_MARK = re.compile(r"([(\[{])|([)\]}])|([;\r\n])|(:)(?!=)|(?<![=!<>:])(=)(?!=)|\bfor\s+([^:]+?)\s+in\b")
_TARGET = re.compile(r"(?<![\w.])[^\W\d]\w*\b(?!\s*[.(\[])")
_ALONE = re.compile(r"\s*([^\W\d]\w*)\s*")
_WORDS = (
    re.compile(r"\bimport\b\s*(\([^)]*\)?|[^;\r\n]*)"),
    re.compile(r"\bas\b\s*(\([^)]*\)?|\[[^\]]*\]?|\w+)"),
    re.compile(r"([^\W\d]\w*)\s*:="),
    re.compile(r"\b(?:def|class|type|global)[ \t\f]+([^\W\d][\w, \t]*)"),
    re.compile(r"^[ \t\f]*case\b(.*)", re.MULTILINE),
)
_IDENTIFIER = re.compile(r"(?<![\w.])[^\W\d]\w*")


def bound_names(kind: Kind, name: str | None, text: str) -> frozenset[str]:
    """Return names that a statement may bind in its scope."""
    if kind != "statement":
        return frozenset([name] if name is not None else [])
    text = _NOISE.sub(" ", text)
    names: set[str] = set()
    for pattern in _WORDS:
        for match in pattern.finditer(text):
            names.update(_IDENTIFIER.findall(match.group(1)))
    depth = start = 0
    annotated = False
    for match in _MARK.finditer(text):
        mark = match.lastindex
        if mark == 1:
            depth += 1
        elif mark == 2:
            depth -= 1
        elif depth > 0:
            continue
        elif mark == 6:
            names.update(_IDENTIFIER.findall(match.group(6)))
        elif mark == 4:
            alone = _ALONE.fullmatch(text, start, match.start())
            annotated = alone is not None and not keyword.iskeyword(alone.group(1))
            if alone is not None:
                names.add(alone.group(1))
            start = match.end()
        else:
            if mark == 5 and not annotated:
                names.update(_TARGET.findall(text, start, match.start()))
            annotated = False
            start = match.end()
    return frozenset(name for name in names if not keyword.iskeyword(name))
