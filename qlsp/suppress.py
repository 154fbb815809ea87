"""Ignore comments: which findings they hide, which of them hide nothing, and how to add one.

``# qlsp: ignore[QL101] -- reason`` and ``# noqa: QL101`` on any line of a statement hide findings of that
statement (of a compound statement: of its header); ``# qlsp: ignore-file[QL101]`` above the first statement
hides findings of the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from qlsp.config import RuleIdentity, did_you_mean, matches
from qlsp.diagnostics import Applicability, Diagnostic, Fix, Message, Severity, Suppressed
from qlsp.syntax.chunks import Layout, layout
from qlsp.text import Edit, LineIndex, Place, Source, Span

UNUSED = "QL002"
UNUSED_NAME = "unused-suppression"
NEVER_HIDDEN = frozenset({"QL001", "QL003", "QL004"})
"""What these rules say is about the run or the whole file: no comment hides it."""

REASON = "TODO: reason"
"""The reason in a comment that was added for the user."""


class Scope(Enum):
    """What a directive is about, and who else reads it."""

    STATEMENT = "ignore"
    FILE = "ignore-file"
    NOQA = "noqa"


@dataclass(frozen=True, slots=True)
class Selector:
    """A rule code, a prefix of codes or a rule name in a directive, and its offsets in the segment."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Directive:
    """One ignore comment, or one of several in a comment. Without selectors it is about every rule.

    ``start`` to ``end`` is the directive with its reason, ``comment`` all of the comment it stands in.
    ``line`` is the logical line it is about, None on a line of its own. ``problem`` says why it is no use.
    ``foreign`` are the codes of other tools in a ``noqa``.
    """

    scope: Scope
    segment: int
    start: int
    end: int
    comment: tuple[int, int]
    line: int | None
    selectors: tuple[Selector, ...] = ()
    foreign: tuple[Selector, ...] = ()
    reason: str | None = None
    problem: Message | None = None


Switched = Callable[[str, RuleIdentity], bool]
"""Is a rule on for a file?"""
Judged = Callable[[str, int, int], bool]
"""Was the code at an offset of a segment of a file analysed, so that no finding there means none exists?"""


@dataclass(slots=True)
class FileComments:
    """The ignore comments of one file."""

    source: Source
    layouts: tuple[Layout, ...]
    directives: tuple[Directive, ...]

    def line_of(self, span: Span) -> int | None:
        """The number of the logical line a finding is about: for a decorated definition, that of its name."""
        found = _line_at(self.layouts[span.segment], span.start)
        if found is None:
            return None
        lines, text = self.layouts[span.segment].lines, self.source.segments[span.segment].text
        while text.startswith("@", lines[found][0]) and found + 1 < len(lines) and lines[found + 1][0] < span.end:
            found += 1
        return found

    def about(self, span: Span) -> Iterator[Directive]:
        """The directives that a finding at this span is subject to."""
        line = self.line_of(span) if self.directives else None
        for directive in self.directives:
            if directive.problem is not None:
                continue
            if directive.scope is Scope.FILE or (
                directive.segment == span.segment and self._same(directive, line, span)
            ):
                yield directive

    def _same(self, directive: Directive, line: int | None, span: Span) -> bool:
        """Do a directive and a finding stand in one statement, or in one comment on a line of its own?"""
        if line is not None:
            return directive.line == line
        return directive.comment[0] <= span.start < directive.comment[1]


def read(source: Source, rules: Sequence[RuleIdentity]) -> FileComments:
    """Find the ignore comments of a file."""
    layouts = tuple(layout(segment.text) for segment in source.segments)
    directives = tuple(
        directive
        for number, segment in enumerate(source.segments)
        for directive in _directives(segment.text, layouts[number], number, rules)
    )
    return FileComments(source, layouts, directives)


def mentions(source: Source) -> bool:
    """Can there be an ignore comment in the file at all?"""
    return any(_MENTION.search(segment.text) for segment in source.segments)


_MENTION = re.compile(r"#[ \t]*(?:qlsp|noqa)", re.IGNORECASE)
_START = re.compile(r"#[ \t]*(?P<tool>qlsp|noqa)(?![\w-])", re.IGNORECASE)
_NEXT = re.compile(r"[ \t]+(?=#[ \t]*(?:[A-Za-z][\w.-]*[ \t]*:|(?:noqa|qlsp|nosec|nosemgrep)\b))", re.IGNORECASE)
_QLSP = re.compile(r"#[ \t]*qlsp[ \t]*(?P<colon>:)?[ \t]*(?P<word>[\w-]*)[ \t]*", re.IGNORECASE)
_LIST = re.compile(r"\[(?P<rules>[^\]]*)\](?P<rest>.*)", re.DOTALL)
_NOQA = re.compile(
    r"#[ \t]*noqa(?P<colon>[ \t]*:[ \t]*(?P<codes>[A-Z]+[0-9]+(?:(?:[ \t]*,[ \t]*|[ \t]+)[A-Z]+[0-9]+)*)?)?",
    re.IGNORECASE,
)
_ITEM = re.compile(r"[^,\s](?:[^,]*[^,\s])?")
_CODE = re.compile(r"[A-Za-z]+[0-9]+")
_WORDS = (Scope.STATEMENT.value, Scope.FILE.value)


def _directives(
    text: str, where: Layout, segment: int, rules: Sequence[RuleIdentity]
) -> Iterator[Directive]:
    for comment in where.comments:
        start, stop = comment
        while (match := _START.search(text, start, stop)) is not None:
            following = _NEXT.search(text, match.end(), stop)
            end = following.start() if following else start + len(text[start:stop].rstrip())
            parse = _parse_noqa if match["tool"].lower() == "noqa" else _parse_qlsp
            line = _line_at(where, comment[0])
            base = Directive(Scope.STATEMENT, segment, match.start(), end, comment, line)
            directive = parse(text, base, where, rules)
            if directive is not None:
                yield directive
            start = max(end, match.end())


def _parse_noqa(
    text: str, base: Directive, where: Layout, rules: Sequence[RuleIdentity]
) -> Directive | None:
    match = _NOQA.match(text, base.start, base.end)
    assert match is not None
    if match["colon"] is not None and match["codes"] is None:
        return None
    own: list[Selector] = []
    foreign: list[Selector] = []
    if match["codes"] is not None:
        for code in _CODE.finditer(text, *match.span("codes")):
            ours = code.group().upper().startswith("QL")
            (own if ours else foreign).append(Selector(code.group().upper(), *code.span()))
        if not own:
            return None
    return replace(base, scope=Scope.NOQA, selectors=tuple(own), foreign=tuple(foreign))


def _parse_qlsp(
    text: str, base: Directive, where: Layout, rules: Sequence[RuleIdentity]
) -> Directive | None:
    match = _QLSP.match(text, base.start, base.end)
    assert match is not None
    word, rest = match["word"], text[match.end() : base.end]
    if match["colon"] is None:
        if word.lower() not in _WORDS:
            return None
        return replace(base, problem=Message.of("suppression-colon", word=word))
    if word not in _WORDS:
        if not word and rest.startswith("/"):
            return None
        hint = (did_you_mean(word, _WORDS) if word else "") or "."
        return replace(base, problem=Message.of("suppression-word", word=word or rest[:20], hint=hint))
    scope = Scope(word)
    base = replace(base, scope=scope)
    if not rest.startswith("["):
        if rest and not rest.startswith("--"):
            return replace(base, problem=Message.of("suppression-list", word=word))
        base = replace(base, reason=_reason(rest))
    else:
        listed = _LIST.match(text, match.end(), base.end)
        if listed is None:
            return replace(base, problem=Message.of("suppression-bracket", word=word))
        items = tuple(Selector(item.group(), *item.span()) for item in _ITEM.finditer(text, *listed.span("rules")))
        base = replace(base, selectors=items, reason=_reason(listed["rest"]))
        if not items:
            return replace(base, problem=Message.of("suppression-empty", word=word))
        for item in items:
            if not any(matches(item.text, rule) for rule in rules):
                known = [known for rule in rules for known in (rule.code, rule.name)]
                hint = did_you_mean(item.text, known) or "."
                return replace(base, problem=Message.of("suppression-rule", rule=item.text, hint=hint))
    if scope is Scope.FILE and not _on_top(text, base, where):
        return replace(base, problem=Message.of("suppression-place"))
    return base


def _reason(rest: str) -> str | None:
    return rest.strip().removeprefix("--").strip() or None


def _on_top(text: str, directive: Directive, where: Layout) -> bool:
    """Is the comment on a line of its own above the first statement? A docstring may stand before it."""
    if directive.line is not None or directive.segment:
        return False
    before = [line for line in where.lines if line[0] < directive.start]
    return not before or (len(before) == 1 and _DOCSTRING.match(text, before[0][0]) is not None)


_DOCSTRING = re.compile(r"[rRuU]?['\"]")


def _line_at(where: Layout, offset: int) -> int | None:
    """The number of the logical line at an offset."""
    number = bisect_right(where.lines, offset, key=lambda line: line[0]) - 1
    return number if number >= 0 and offset <= where.lines[number][1] else None


@dataclass(slots=True)
class Suppressions:
    """The ignore comments of a run, and which of their parts were of use."""

    files: Mapping[str, FileComments]
    rules: Sequence[RuleIdentity]
    used: set[tuple[str, int, int, int]] = field(default_factory=set)

    def apply(self, diagnostics: Iterable[Diagnostic]) -> tuple[list[Diagnostic], list[Suppressed]]:
        """Split findings into those that stay and those that a comment hides."""
        kept: list[Diagnostic] = []
        hidden: list[Suppressed] = []
        for diagnostic in diagnostics:
            found = list(self._hiding(diagnostic))
            for directive, selector in found:
                self.used.add(_key(diagnostic.place.path, directive, selector))
            if found:
                directive, path = found[0][0], diagnostic.place.path
                place = Place(path, Span(directive.start, directive.end, directive.segment))
                hidden.append(Suppressed(diagnostic, place, directive.reason))
            else:
                kept.append(diagnostic)
        return kept, hidden

    def _hiding(self, diagnostic: Diagnostic) -> Iterator[tuple[Directive, Selector | None]]:
        """The directives, and their selectors, that hide a finding."""
        comments = self.files.get(diagnostic.place.path)
        if comments is None or diagnostic.code in NEVER_HIDDEN:
            return
        for directive in comments.about(diagnostic.place.span):
            if not directive.selectors and diagnostic.code != UNUSED:
                yield directive, None
            for selector in directive.selectors:
                if _names(selector, diagnostic):
                    yield directive, selector

    def unused(self, kept: Sequence[Diagnostic], switched: Switched, judged: Judged) -> list[Diagnostic]:
        """A finding for each directive that is malformed, and each that hides nothing although the rules it
        names were on and looked at the code it is about."""
        found = []
        for path, comments in self.files.items():
            for directive in comments.directives:
                place = Place(path, Span(directive.start, directive.end, directive.segment))
                if directive.problem is not None:
                    found.append(_finding(directive.problem, place))
                    continue
                idle = self._idle(path, directive, switched)
                if idle is None or not self._was_judged(path, comments, directive, judged):
                    continue
                message = self._message(directive, idle)
                missed = self._missed(comments, directive, kept)
                fixes = () if missed else (_removal(path, comments, directive, idle),)
                found.append(_finding(message, place, fixes))
        return found

    def _idle(self, path: str, directive: Directive, switched: Switched) -> list[Selector] | None:
        """The selectors that hid nothing, of rules that were on; none for a directive about every rule that
        hid nothing. None if the directive was of use."""
        if directive.selectors:
            idle = [
                selector
                for selector in directive.selectors
                if _key(path, directive, selector) not in self.used and self._on(path, selector.text, switched)
            ]
            return idle or None
        if directive.scope is Scope.NOQA or _key(path, directive, None) in self.used:
            return None
        return [] if self._on(path, "QL", switched) else None

    def _on(self, path: str, selector: str, switched: Switched) -> bool:
        """Were all rules on that a selector is about? For a prefix, preview rules do not count."""
        rules = [rule for rule in self.rules if matches(selector, rule)]
        if any(rule.code == UNUSED and _is_exact(selector, rule) for rule in rules):
            return False
        off = [
            rule
            for rule in rules
            if rule.code not in (UNUSED, *NEVER_HIDDEN) and not switched(path, rule)
        ]
        return not any(_is_exact(selector, rule) or not rule.preview for rule in off)

    def _was_judged(
        self, path: str, comments: FileComments, directive: Directive, judged: Judged
    ) -> bool:
        if directive.scope is not Scope.FILE:
            return judged(path, directive.segment, directive.start)
        return all(
            judged(path, segment, start)
            for segment, where in enumerate(comments.layouts)
            for start, _ in where.lines
        )

    def _message(self, directive: Directive, idle: Sequence[Selector]) -> Message:
        names = ", ".join(dict.fromkeys(selector.text for selector in idle))
        if idle and all(selector.text in NEVER_HIDDEN for selector in idle):
            return Message.of("suppression-never", rules=names)
        if directive.line is None and directive.scope is not Scope.FILE:
            return Message.of("suppression-alone")
        where = "in this file" if directive.scope is Scope.FILE else "on this statement"
        if not directive.selectors:
            return Message.of("unused-suppression-all", where=where)
        return Message.of("unused-suppression", rules=names, where=where)

    def _missed(self, comments: FileComments, directive: Directive, kept: Sequence[Diagnostic]) -> bool:
        """Would a comment on a line of its own hide a finding if it stood on the next statement?"""
        if directive.line is not None or directive.scope is Scope.FILE:
            return False
        lines = comments.layouts[directive.segment].lines
        following = bisect_right(lines, directive.start, key=lambda line: line[0])
        return any(
            diagnostic.place.path == comments.source.path
            and diagnostic.place.span.segment == directive.segment
            and comments.line_of(diagnostic.place.span) == following
            and (not directive.selectors or any(_names(s, diagnostic) for s in directive.selectors))
            for diagnostic in kept
        )


@dataclass(frozen=True, slots=True)
class _Identity:
    code: str
    name: str
    preview: bool = False


def _names(selector: Selector, diagnostic: Diagnostic) -> bool:
    rule = _Identity(diagnostic.code, diagnostic.name)
    if diagnostic.code == UNUSED:
        return _is_exact(selector.text, rule)
    return matches(selector.text, rule)


def _is_exact(selector: str, rule: RuleIdentity) -> bool:
    return selector in (rule.code, rule.name)


def _key(path: str, directive: Directive, selector: Selector | None) -> tuple[str, int, int, int]:
    return path, directive.segment, directive.start, selector.start if selector else -1


def _finding(message: Message, place: Place, fixes: tuple[Fix, ...] = ()) -> Diagnostic:
    return Diagnostic(UNUSED, UNUSED_NAME, message, Severity.WARNING, place, fixes=fixes)


# ---- edits ------------------------------------------------------------------------------------------------


def _removal(path: str, comments: FileComments, directive: Directive, idle: Sequence[Selector]) -> Fix:
    text = comments.source.segments[directive.segment].text
    if len(idle) == len(directive.selectors) and not directive.foreign:
        start, end = _whole_span(text, directive)
        edit = Edit(path, Span(start, end, directive.segment), "")
        title = Message.of("remove-suppression")
    else:
        edit = _without(path, text, directive, idle)
        title = Message.of("remove-suppressed-rules", rules=", ".join(s.text for s in idle))
    return Fix(title, Applicability.SAFE, Message.of("comment-only"), (edit,))


def _whole_span(text: str, directive: Directive) -> tuple[int, int]:
    """The directive with the space before it; its whole line where nothing else stands on it."""
    start, (first, last) = directive.start, directive.comment
    if text[directive.end : last].strip():
        return start, last - len(text[directive.end : last].lstrip())
    index = LineIndex(text)
    row, _ = index.position(start)
    line_start = index.offset(row, 1)
    blank = not text[line_start:start].strip(" \t")
    if start == first and blank and not text[:line_start].rstrip("\r\n").endswith("\\"):
        return line_start, index.offset(row + 1, 1) if row < len(index) else len(text)
    if not blank or start != first:
        start = line_start + len(text[line_start:start].rstrip(" \t"))
    return start, last


def _without(path: str, text: str, directive: Directive, idle: Sequence[Selector]) -> Edit:
    """Leave selectors out of a list; the others keep what stands between them."""
    items = sorted((*directive.selectors, *directive.foreign), key=lambda item: item.start)
    content = ""
    before: Selector | None = None
    for item in items:
        if item not in idle:
            content += text[before.end : item.start] if content and before is not None else ""
            content += text[item.start : item.end]
        before = item
    return Edit(path, Span(items[0].start, items[-1].end, directive.segment), content)


def ignore_edits(
    comments: FileComments, diagnostics: Iterable[Diagnostic], reason: str | None = REASON
) -> list[Edit]:
    """Edits that add an ignore comment for each finding: one comment for a statement, and an existing one is
    extended. Findings that no comment can hide, or that have no line to put one on, are left out."""
    groups: dict[tuple[int, int | None, tuple[int, int] | None], list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        span = diagnostic.place.span
        line, comment = comments.line_of(span), None
        if line is None:
            comment = next((c for c in comments.layouts[span.segment].comments if c[0] <= span.start < c[1]), None)
        if diagnostic.code not in NEVER_HIDDEN and (line, comment) != (None, None):
            groups.setdefault((span.segment, line, comment), []).append(diagnostic)
    edits = []
    for (_, line, _), found in groups.items():
        codes = sorted({diagnostic.code for diagnostic in found})
        edit = _extension(comments, found[0], codes) or _addition(comments, line, found, codes, reason)
        if edit is not None:
            edits.append(edit)
    return edits


def _extension(comments: FileComments, diagnostic: Diagnostic, codes: Sequence[str]) -> Edit | None:
    """Add codes to an ignore comment that is about the same statement."""
    for directive in comments.about(diagnostic.place.span):
        if directive.scope is Scope.STATEMENT and directive.selectors:
            end = directive.selectors[-1].end
            content = "".join(f", {code}" for code in codes)
            return Edit(comments.source.path, Span(end, end, directive.segment), content)
    return None


def _addition(
    comments: FileComments, line: int | None, found: Sequence[Diagnostic], codes: Sequence[str], reason: str | None
) -> Edit | None:
    """A new comment: on the row where a finding starts, or on the last row of the statement."""
    segment = found[0].place.span.segment
    text, where = comments.source.segments[segment].text, comments.layouts[segment]
    index = LineIndex(text)
    offsets = [diagnostic.place.span.start for diagnostic in found]
    if line is not None:
        first, last = where.lines[line]
        offsets = [offset for offset in offsets if offset >= first] + [last]
    for row in (index.position(offset)[0] for offset in offsets):
        content = index.line_text(row)
        end = index.offset(row, len(content) + 1)
        if _takes_comment(where, content, end):
            start = end - len(content) + len(content.rstrip(" \t"))
            why = f" -- {reason}" if reason else ""
            comment = f"  # qlsp: ignore[{', '.join(codes)}]{why}"
            return Edit(comments.source.path, Span(start, end, segment), comment)
    return None


def _takes_comment(where: Layout, content: str, end: int) -> bool:
    """Can a comment be put at the end of a row: not in a string, not behind a backslash?"""
    if any(start < end < stop for start, stop in where.strings):
        return False
    return not content.endswith("\\") or any(start < end <= stop for start, stop in where.comments)
