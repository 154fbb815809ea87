"""Text to the extents of its statements, also for text that does not parse."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from qlsp.text import LineIndex

Kind = Literal["statement", "function", "class"]


@dataclass(frozen=True, slots=True)
class Extent:
    """The place of a statement: from its first token to the end of its last line, comment included.

    ``header_end`` is set for a class with members and follows the colon.  ``deep`` says that the statement
    (of a class with members: the header) nests so deeply that recursive code must not touch it.
    """

    kind: Kind
    name: str | None
    start: int
    end: int
    header_end: int | None = None
    members: tuple[Extent, ...] = ()
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """The statements of a text, and whether their extents rest on repairs of broken text."""

    extents: tuple[Extent, ...]
    repaired: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """What is code and what is not, as offsets: logical lines (from their first token to their last character,
    comment included), comments (those that are no part of a string), and strings of more than one line."""

    lines: tuple[tuple[int, int], ...]
    comments: tuple[tuple[int, int], ...]
    strings: tuple[tuple[int, int], ...]


def split(text: str) -> list[Extent]:
    """Return the extents of the top-level statements of a text."""
    return list(scan(text).extents)


def scan(text: str) -> Split:
    """Split a text and say whether anything in it had to be repaired."""
    scanner, lines = _best_scan(text)
    extents = [_extent(text, lines, i, j, True) for i, j in _statements(text, lines, 0, len(lines), 0)]
    return Split(tuple(extents), scanner.repairs > 0)


def layout(text: str) -> Layout:
    """Return the logical lines, comments and long strings of a text."""
    scanner, lines = _best_scan(text)
    return Layout(
        tuple((line.start, line.end) for line in lines), tuple(scanner.comments), tuple(scanner.strings)
    )


def _best_scan(text: str) -> tuple[_Scanner, list[_Line]]:
    """Scan a text; where something had to be repaired, choose the repair that leaves the least damage."""
    scanner, lines = _scanned(text, {})
    if scanner.repairs:
        attempts = [_scanned(text, {place: cut}) for place, cut in _unclosed(text, scanner.triples).items()]
        scanner, lines = min([(scanner, lines), *attempts], key=lambda attempt: attempt[0].damage())
    return scanner, lines


def _scanned(text: str, breaks: Mapping[int, int]) -> tuple[_Scanner, list[_Line]]:
    scanner = _Scanner(text, breaks)
    return scanner, list(scanner.lines())


class _Line(NamedTuple):
    """One logical line: where its code starts, in which column, where code and line end."""

    start: int
    column: int
    code_end: int
    end: int
    deep: bool


_BLANK = r"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n))*"
_SPACE = r"[ \t\f]*(?:\\(?:\r\n?|\n)[ \t\f]*)*"
_LEAD = re.compile(f"\ufeff?{_BLANK}({_SPACE})")

# A token and what stands before it.  Groups: 1 what stands before, 2 opening bracket, 3 closing bracket, 4 quote,
# 5 indentation after a line break, 6 comment.  Brackets and strings with nothing special inside belong to what
# stands before.  One of the branches always matches, so there is nothing to track back to.
_PLAIN = r"[^()\[\]{}'\"#\\\r\n]*"
_TOKEN = re.compile(
    rf"({_PLAIN}(?:(?:[(\[{{]{_PLAIN}[)\]}}]"
    r"|'(?<![fFtT]')(?<![fFtT][rR]')(?!'')[^'\\\r\n]*'"
    r'|"(?<![fFtT]")(?<![fFtT][rR]")(?!"")[^"\\\r\n]*"'
    rf"){_PLAIN})*)"
    r"(?:([(\[{])"
    r"|([)\]}])"
    r"|('''|\"\"\"|['\"])"
    rf"|(?:\r\n?|\n){_BLANK}({_SPACE})"
    r"|(#[^\r\n]*)"
    r"|\\(?:\r\n?|\n)?"
    r"|\Z)"
)
_BEFORE, _OPEN, _CLOSE, _QUOTE, _INDENT, _COMMENT = 1, 2, 3, 4, 5, 6

_ONLY_STATEMENT = re.compile(
    r"(?:def|class|return|while|with|import|raise|del|pass|break|continue|global|nonlocal|assert)\b"
    r"|async[ \t]+(?:def|with)\b"
    r"|(?:try|finally|except|else)[ \t]*:(?!=)"
    r"|except\b"
    r"|elif\b"
    r"|from[ \t]+[\w.]+[ \t]+import\b"
    r"|(?:@[^\W\d][\w.]*(?:\([^\r\n]*\))?[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n)[ \t\f]*){1,8}"
    r"(?:async[ \t]+)?(?:def|class)\b"
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*)+[ \t]*=(?!=)"
)
_LINE_END = re.compile(r"[^\r\n]*")
_COMMENTS = re.compile(r"#[^\r\n]*")
_NEWLINE = re.compile(r"[\r\n]")
_LIKE_STATEMENT = re.compile(
    r"[^\W\d]\w*(?:[ \t]*,[ \t]*[^\W\d]\w*)*[ \t]*(?::[^=\r\n(]*)?=(?!=)"
    r"|(?:if|for)\b[^\r\n]*:[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)"
    r"|[^\W\d][\w.]*\([^\r\n]*\)[ \t]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)"
)
_STRING = {
    "'": re.compile(r"(?:[^'\\\r\n]|\\(?:\r\n|[\s\S]))*(')?"),
    '"': re.compile(r'(?:[^"\\\r\n]|\\(?:\r\n|[\s\S]))*(")?'),
}
_PREFIX = re.compile(r"(?<!\w)(?:[fFtT][rR]?|[rR][fFtT])\Z")


class _Triple(NamedTuple):
    """A triple-quoted string, and the column of the logical line that it stands in."""

    start: int
    end: int
    quote: str
    column: int


class _Scanner:
    """The pass over the characters of a text that finds its logical lines.

    ``breaks`` maps the start of a triple-quoted string to the offset where it has to be cut off.
    """

    def __init__(self, text: str, breaks: Mapping[int, int]) -> None:
        self.text = text
        self.breaks = breaks
        self.repairs = 0
        self.triples: list[_Triple] = []
        self.comments: list[tuple[int, int]] = []
        self.strings: list[tuple[int, int]] = []

    def lines(self) -> Iterator[_Line]:
        """Yield the logical lines; lines that are blank or a comment are in none."""
        text, size = self.text, len(self.text)
        lead = _LEAD.match(text)
        assert lead is not None
        indent, start = lead.span(1)
        self._note_comments(lead.start(), lead.end())
        token = _TOKEN.match
        position, depth, comment = start, 0, -1
        while start < size:
            match = token(text, position)
            assert match is not None
            position = match.end()
            group = match.lastindex
            if group == _BEFORE:
                if position == size:
                    break
            elif group == _INDENT:
                self._note_comments(match.end(_BEFORE), position)
                if depth and (
                    _ONLY_STATEMENT.match(text, position)
                    or (position == match.start(_INDENT) and _LIKE_STATEMENT.match(text, position))
                ):
                    self.repairs += 1
                    depth = 0
                if depth:
                    comment = -1
                    continue
                line = self._line(indent, start, comment, match.end(_BEFORE))
                if line.code_end > start:
                    yield line
                indent, start = match.start(_INDENT), position
                comment = -1
            elif group == _OPEN:
                depth += 1
            elif group == _CLOSE:
                if depth:
                    depth -= 1
                else:
                    self.repairs += 1
            elif group == _QUOTE:
                quote = match.group(_QUOTE)
                begin = match.end(_BEFORE)
                position = self._string(begin, quote)
                if len(quote) == 3:
                    column = _column(text[indent:start])
                    if position < 0:
                        self.triples.append(_Triple(begin, size, quote, column))
                        position = _break(text, begin, size, column)
                    else:
                        self.triples.append(_Triple(begin, position, quote, column))
                if _NEWLINE.search(text, begin, position):
                    self.strings.append((begin, position))
            else:
                comment = match.end(_BEFORE)
                self.comments.append(match.span(_COMMENT))
        if start < size:
            self.repairs += depth > 0
            line = self._line(indent, start, comment, size)
            if line.code_end > start:
                yield line

    def _note_comments(self, start: int, end: int) -> None:
        """Remember the comments of a stretch of blank lines."""
        if self.text.find("#", start, end) >= 0:
            self.comments.extend(match.span() for match in _COMMENTS.finditer(self.text, start, end))

    def damage(self) -> int:
        """Count what is wrong: repairs, and strings that contain definitions."""
        return self.repairs + sum(_defines(self.text, triple.start, triple.end) for triple in self.triples)

    def _line(self, indent: int, start: int, comment: int, end: int) -> _Line:
        text = self.text
        end = _trimmed(text, start, end)
        code_end = end if comment < 0 else _trimmed(text, start, comment)
        column = _column(text[indent:start]) if start > indent else 0
        return _Line(start, column, code_end, end, _is_deep(text, start, code_end))

    def _string(self, start: int, quote: str) -> int:
        """Return the end of the string whose opening quote starts at an offset, negative if it has none."""
        text = self.text
        if start in self.breaks:
            self.repairs += 1
            return self.breaks[start]
        formatted = _PREFIX.search(text, max(0, start - 3), start) is not None
        end = _plain_end(text, start, quote)
        if formatted and end > 0:
            inside = text[start + len(quote) : end]
            if inside.count("{") == inside.count("}") and "{{" not in inside and "}}" not in inside:
                return end
        if formatted:
            raw = "r" in text[max(0, start - 2) : start].lower()
            nested = _formatted_end(text, start + len(quote), quote, raw)
            if nested is not None:
                return nested
        if end > 0:
            return end
        self.repairs += 1
        if len(quote) == 1:
            return -end
        return -1


def _trimmed(text: str, start: int, end: int) -> int:
    """Return an end without the white space and the continued empty lines before it."""
    trimmed = end
    while trimmed > start:
        last = text[trimmed - 1]
        if last not in " \t\f\r\n" and not (last == "\\" and trimmed < end and text[trimmed] in "\r\n"):
            break
        trimmed -= 1
    return trimmed


def _plain_end(text: str, start: int, quote: str) -> int:
    """Return the end of a string without nested quotes, negative where its closing quote is missing."""
    if len(quote) == 1:
        match = _STRING[quote].match(text, start + 1)
        assert match is not None
        return match.end() if match.group(1) else -match.end()
    found = start + 3
    while (found := text.find(quote, found)) >= 0:
        slash = found
        while slash > start + 3 and text[slash - 1] == "\\":
            slash -= 1
        if (found - slash) % 2 == 0:
            return found + 3
        found += 1
    return -len(text)


_CODE = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+[^\W\d]\w*[ \t]*[(:\[]", re.MULTILINE)
_BREAK = re.compile(
    r"(?:\r\n?|\n)([ \t]*)(?:((?:async[ \t]+)?(?:def|class)[ \t]+[^\W\d]\w*[ \t]*[(:\[]|@[^\W\d])"
    r"|from[ \t]+[\w.]+[ \t]+import\b"
    r"|import[ \t]+[\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[\w., \t]*)?(?=[ \t]*[#;\r\n]))"
)


def _break(text: str, start: int, end: int, column: int) -> int:
    """Return where a string without end has to be cut off: before a definition that cannot be part of it.

    That is a definition no deeper than the line that the string stands in, or an import in column zero.
    """
    for match in _BREAK.finditer(text, start, end):
        found = _column(match.group(1))
        if found == 0 or (found <= column and match.group(2) is not None):
            return match.start()
    return end


def _unclosed(text: str, triples: list[_Triple]) -> dict[int, int]:
    """Find triple-quoted strings that may lack their end, and where to cut them off.

    From such a string on, code and strings have changed places.  The likely ones are the first that swallow a
    definition, and the one for which the fewest strings would contain definitions.
    """
    likely = {}
    for triple in triples:
        place = _break(text, triple.start, triple.end, triple.column)
        if place < triple.end:
            likely[triple.start] = place
    if not likely:
        return {}
    same = [triple for triple in triples if triple.quote == triples[-1].quote]
    gaps = zip(same, same[1:], strict=False)
    cost = sum(_defines(text, triple.end, after.start) for triple, after in gaps)
    costs = []
    for triple, after in zip(same, [*same[1:], None], strict=True):
        if triple.start in likely:
            costs.append((cost, -triple.start))
        cost += _defines(text, triple.start, triple.end)
        cost -= after is not None and _defines(text, triple.end, after.start)
    best = [-start for _, start in sorted(costs)[:1]]
    return {start: likely[start] for start in [*best, *list(likely)[:2]]}


def _defines(text: str, start: int, end: int) -> bool:
    return _CODE.search(text, start, end) is not None


_LITERAL = re.compile(r"(?:[^{}\\'\"\r\n]|\{\{|\}\})+")
_NAMED = re.compile(r"\\N\{[^{}\r\n]*\}")
_FIELD = re.compile(
    r"(?P<prefix>(?<!\w)(?:[fFtT][rR]?|[rR][fFtT]))?(?P<quote>'''|\"\"\"|['\"])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<spec>:)|(?P<comment>#[^\r\n]*)|(?P<break>\r\n?|\n)"
)


_NESTED_STRINGS = 8


def _formatted_end(text: str, position: int, quote: str, raw: bool, depth: int = 0) -> int | None:
    """Return the end of a formatted string whose fields may hold any string, None if it has none."""
    size = len(text)
    while position < size and depth < _NESTED_STRINGS:
        if text.startswith(quote, position):
            return position + len(quote)
        character = text[position]
        if character == "\\":
            named = None if raw else _NAMED.match(text, position)
            if named is not None:
                position = named.end()
            elif text.startswith(("{", "}"), position + 1):
                position += 1
            else:
                position += 3 if text.startswith("\r\n", position + 1) else 2
        elif character == "{":
            if text.startswith("{{", position):
                position += 2
                continue
            end = _field_end(text, position + 1, quote, raw, depth)
            if end is None:
                return None
            position = end
        elif character in "\r\n" and len(quote) == 1:
            return None
        else:
            literal = _LITERAL.match(text, position)
            position = literal.end() if literal is not None else position + 1
    return None


def _field_end(text: str, position: int, quote: str, raw: bool, level: int) -> int | None:
    """Return the offset after the closing brace of a replacement field."""
    depth = 0
    if level >= _NESTED_STRINGS:
        return None
    while (match := _FIELD.search(text, position)) is not None:
        position = match.end()
        kind = match.lastgroup
        if kind == "quote":
            inner = match.group("quote")
            if match.group("prefix"):
                inner_raw = "r" in match.group("prefix").lower()
                end = _formatted_end(text, position, inner, inner_raw, level + 1)
            else:
                end = _plain_end(text, match.start("quote"), inner)
            if end is None or end < 0:
                return None
            position = end
        elif kind == "open":
            depth += 1
        elif kind == "close":
            if depth == 0:
                return position if text[position - 1] == "}" else None
            depth -= 1
        elif kind == "spec" and depth == 0:
            return _spec_end(text, position, quote, raw, level + 1)
    return None


def _spec_end(text: str, position: int, quote: str, raw: bool, depth: int) -> int | None:
    """Return the offset after the brace that closes a format specification."""
    size = len(text)
    while position < size:
        character = text[position]
        if character == "}":
            return position + 1
        if text.startswith(quote, position) or (character in "\r\n" and len(quote) == 1):
            return None
        if character == "{":
            end = _field_end(text, position + 1, quote, raw, depth)
            if end is None:
                return None
            position = end
        else:
            position += 2 if character == "\\" else 1
    return None


def _column(indent: str) -> int:
    """Return the column that Python gives an indentation.

    Tabs go to multiples of eight, a form feed to zero; a backslash after white space ends the indentation.
    """
    column = 0
    for character in indent:
        if character == "\f":
            column = 0
        elif character == "\t":
            column += 8 - column % 8
        elif character == " ":
            column += 1
        elif character == "\\" and column:
            break
    return column


_WORD = re.compile(r"@|[^\W\d]\w*")
_DEFINITION = re.compile(r"(?:async[ \t\f]+)?(def|class)\b[ \t\f]*([^\W\d]\w*)?")
_BLOCK_WORDS = frozenset(
    ["def", "class", "if", "elif", "else", "for", "while", "with", "try", "except", "finally", "async"]
)
_DECORATED = frozenset(["@", "def", "class", "async"])
_CLAUSES: dict[str, frozenset[str]] = {
    "else": frozenset(["if", "elif", "for", "while", "try", "except", "async"]),
    "elif": frozenset(["if", "elif"]),
    "except": frozenset(["try", "except"]),
    "finally": frozenset(["try", "except", "else"]),
}


def _statements(
    text: str, lines: list[_Line], first: int, last: int, column: int
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of lines of the statements of a block that is indented to a column."""
    index = first
    while index < last:
        start = index
        own = lines[start].column
        level = max(own, column)
        word = _word(text, lines[start])
        block = _opens(text, lines[start], word)
        index += 1
        while index < last:
            line = lines[index]
            if line.column > level:
                if not block:
                    break
            elif line.column != own:
                break
            else:
                following = _word(text, line)
                if word == "class" and _is_stray(text, lines[index : min(index + 2, last)], level):
                    index += 1
                    continue
                if not (following in _DECORATED if word == "@" else word in _CLAUSES.get(following, ())):
                    break
                word = following
                block = _opens(text, line, word)
            index += 1
        yield start, index


def _word(text: str, line: _Line) -> str:
    match = _WORD.match(text, line.start)
    return match.group() if match is not None else ""


def _is_stray(text: str, lines: list[_Line], level: int) -> bool:
    """Tell whether the first of two lines stands left of the methods of a class that goes on after it."""
    if len(lines) < 2 or lines[1].column <= level or _opens(text, lines[0], _word(text, lines[0])):
        return False
    return _word(text, lines[0]) != "@" and _word(text, lines[1]) in _DECORATED


def _opens(text: str, line: _Line, word: str) -> bool:
    """Tell whether a logical line is the header of an indented block."""
    return word in _BLOCK_WORDS or text[line.code_end - 1] == ":"


def _extent(text: str, lines: list[_Line], first: int, last: int, split_class: bool) -> Extent:
    start, end = lines[first].start, lines[last - 1].end
    head = first
    while head < last - 1 and text[lines[head].start] == "@":
        head += 1
    definition = _DEFINITION.match(text, lines[head].start)
    kind: Kind = "statement"
    name = None
    if definition is not None:
        kind, name = "function" if definition.group(1) == "def" else "class", definition.group(2)
    if kind != "class" or not split_class or head + 1 >= last:
        deep = any(line.deep for line in lines[first:last])
        return Extent(kind, name, start, end, deep=deep or text.count("elif", start, end) > _DEEP)
    body = lines[head + 1].column
    ranges = _statements(text, lines, head + 1, last, body)
    members = tuple(_extent(text, lines, i, j, False) for i, j in ranges)
    deep = any(line.deep for line in lines[first : head + 1])
    return Extent(kind, name, start, end, lines[head].code_end, members, deep)


_DEEP = 200
_LINKS = (*"+-*/%@|&^~.([{\"'", " and ", " or ", "not ", " if ", " for ", "lambda", "await ")
_LINK = re.compile(
    r"(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>[,;])|(?P<comment>#[^\r\n]*)"
    r"|(?P<string>'''[\s\S]*?(?:'''|\Z)|\"\"\"[\s\S]*?(?:\"\"\"|\Z)"
    r"|'(?:[^'\\\r\n]|\\.)*'?|\"(?:[^\"\\\r\n]|\\.)*\"?)"
    r"|(?P<link>\*\*|//|<<|>>|[-+*/%@|&^~.]|\b(?:and|or|not|if|for|lambda|await)\b)"
)


def _is_deep(text: str, start: int, end: int) -> bool:
    """Tell whether a logical line may nest more than ``_DEEP`` expressions; never false where it does."""
    if end - start <= _DEEP or sum(text.count(link, start, end) for link in _LINKS) <= _DEEP:
        return False
    links = [0]
    total = 0
    for match in _LINK.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "open":
            links.append(0)
            total += 1
        elif kind == "close":
            if len(links) > 1:
                total -= links.pop() + 1
            links[-1] += 1
            total += 1
        elif kind == "comma":
            total -= links[-1]
            links[-1] = 0
        elif kind == "string":
            links[-1] += 1
            total += 1
            if _bracket_depth(match.group()) > _DEEP:
                return True
        elif kind == "link":
            links[-1] += 1
            total += 1
        if total > _DEEP:
            return True
    return False


def _bracket_depth(text: str) -> int:
    depth = deepest = 0
    for match in re.finditer(r"[(\[{]|[)\]}]", text):
        depth += 1 if match.group() in "([{" else -1
        deepest = max(deepest, depth)
    return deepest


_REST = re.compile(r"[ \t\f]*;?[ \t\f]*(#[^\r\n]*)?")
_COLON = re.compile(r"(?:[^:#]|#[^\r\n]*)*:")
_NEWLINE = re.compile(r"[\r\n]")


def from_ast(text: str, module: ast.Module) -> tuple[Extent, ...]:
    """Return the extents of the statements of a module that CPython parsed."""
    return _Extents(text).block(module.body, True)


class _Extents:
    """The conversion of CPython's positions, which count bytes, to extents."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.index = LineIndex(text)

    def block(self, body: Sequence[ast.stmt], split_class: bool) -> tuple[Extent, ...]:
        """Return the extents of a block; simple statements that share a line are one."""
        extents: list[Extent] = []
        for node in body:
            extent = self.statement(node, split_class)
            if extents and not _NEWLINE.search(self.text, extents[-1].end, extent.start):
                extents[-1] = Extent("statement", None, extents[-1].start, extent.end)
            else:
                extents.append(extent)
        return tuple(extents)

    def statement(self, node: ast.stmt, split_class: bool) -> Extent:
        """Return the extent of a statement with its decorators and the comment on its last line."""
        start = self.offset(node.lineno, node.col_offset)
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        rest = _REST.match(self.text, end)
        if rest is not None:
            end += len(rest.group().rstrip(" \t\f"))
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return Extent("statement", None, start, end)
        colon = self.offset(node.lineno, node.col_offset)
        for decorator in node.decorator_list:
            first = self.offset(decorator.lineno, decorator.col_offset)
            start = min(start, self.text.rfind("@", 0, first))
        if not isinstance(node, ast.ClassDef):
            return Extent("function", node.name, start, end)
        keywords = (keyword.value for keyword in node.keywords)
        for part in (*node.bases, *keywords, *getattr(node, "type_params", ())):
            colon = max(colon, self.offset(part.end_lineno, part.end_col_offset))
        match = _COLON.match(self.text, colon)
        members = self.block(node.body, False)
        if not split_class or match is None or not _NEWLINE.search(self.text, match.end(), members[0].start):
            return Extent("class", node.name, start, end)
        return Extent("class", node.name, start, end, match.end(), members)

    def offset(self, row: int, column: int) -> int:
        """Return the offset of one of CPython's positions."""
        return self.index.from_units(row - 1, column, "utf-8")
