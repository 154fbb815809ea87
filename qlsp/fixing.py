"""Fixes into files: rounds of check, choose and apply until nothing is left to do.

``fix_texts`` is pure; ``fix_source`` does it for one text; ``fix_files`` writes the result. In a round the fixes
are taken in the order of their findings (file, start of the span, code); one that touches an edit taken before
waits for the next round. Unsafe ones come when no safe one is left: what they tie, for example, is what the safe
ones have made of the scales. A fix whose result does not parse is an error of ours: it is dropped and reported.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from qlsp.baseline import Baseline
from qlsp.config import Configs, fixable
from qlsp.diagnostics import Applicability, Diagnostic, Fix, Severity
from qlsp.engine import CheckResult, check
from qlsp.importers import ImportIndex
from qlsp.notebook import rewritten, source_of
from qlsp.rules.api import all_rules
from qlsp.syntax.parse import parse_file
from qlsp.text import Edit, Source, SourceError, encode

MAX_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Applied:
    """A fix that was made, and the finding it was made for."""

    diagnostic: Diagnostic
    fix: Fix


@dataclass(frozen=True, slots=True)
class Fixed:
    """What the rounds came to.

    ``texts`` are the files that change, by path. ``before`` is the first check, ``after`` the last one. ``broken``
    are fixes that were dropped because their result did not parse, ``withheld`` those that were taken back because a
    warning or an error came with them; ``settled`` is False if the rounds did not come to an end by themselves.
    """

    texts: Mapping[str, str]
    applied: tuple[Applied, ...]
    before: CheckResult
    after: CheckResult
    broken: tuple[Applied, ...] = ()
    settled: bool = True
    withheld: tuple[Applied, ...] = ()


@dataclass(slots=True)
class Written:
    """The result of ``fix_files``: the rounds, the files written, and one line for each that was not."""

    fixed: Fixed
    paths: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def fix_source(text: str, path: str, configs: Configs, unsafe: bool = False) -> Fixed:
    """Fix one text; ``path`` says where it would stand."""
    return fix_texts([path], configs, {path: text}, unsafe)


def fix_files(
    paths: Sequence[str],
    configs: Configs,
    unsafe: bool = False,
    named: Collection[str] = (),
    texts: Mapping[str, str] | None = None,
    baseline: Baseline | None = None,
    index: ImportIndex | None = None,
) -> Written:
    """Fix files and write them. Those with a text in ``texts`` are fixed and not written."""
    texts = dict(texts or {})
    written = Written(fix_texts(paths, configs, texts, unsafe, named, baseline, index))
    sources = written.fixed.before.sources
    for path, text in written.fixed.texts.items():
        if path in texts:
            continue
        try:
            write_fixed(sources[path], text)
        except SourceError as error:
            written.failures.append(f"{path}: {error}")
        else:
            written.paths.append(path)
    return written


def fix_texts(
    paths: Sequence[str],
    configs: Configs,
    texts: Mapping[str, str] | None = None,
    unsafe: bool = False,
    named: Collection[str] = (),
    baseline: Baseline | None = None,
    index: ImportIndex | None = None,
) -> Fixed:
    """Check and fix until nothing changes; nothing is written. What the ``baseline`` knows is left alone; files that
    ``index`` finds to use those of the run are in view, and no fix changes them."""

    def checked(texts: Mapping[str, str]) -> CheckResult:
        importers = index.around(paths, configs, texts) if index is not None else None
        return check(paths, configs, texts, named, baseline=baseline, importers=importers)

    given = dict(texts or {})
    current = dict(given)
    before = result = checked(current)
    applied: list[Applied] = []
    broken: list[Applied] = []
    refused: set[tuple[object, ...]] = set()
    withheld: list[Applied] = []
    seen = {_state(current)}
    settled = singly = False
    for _ in range(MAX_ROUNDS):
        chosen: list[Applied] = []
        for also_unsafe in (False, True) if unsafe else (False,):
            options = choose(result.diagnostics, configs, also_unsafe)
            options = [one for one in options if _key(one) not in refused and not _reaches_out(one, result)]
            chosen = chosen or [one for one in options if not one.fix.last] or options[:1]
        if not chosen:
            settled = True
            break
        made, bad, changed = _apply_parsing(chosen[:1] if singly else chosen, result.sources)
        refused.update(map(_key, bad))
        broken.extend(bad)
        if not made:
            continue
        after = checked({**current, **changed})
        if _worse(result, after, {code for one in made for code in one.fix.reveals}):
            singly = len(made) > 1
            if not singly:
                refused.update(map(_key, made))
                withheld.extend(made)
            continue
        current.update(changed)
        applied.extend(made)
        result = after
        state = _state(current)
        if state in seen:
            break
        seen.add(state)
    originals = {path: given[path] if path in given else before.sources[path].text for path in current}
    changes = {path: text for path, text in current.items() if text != originals[path]}
    return Fixed(changes, tuple(applied), before, result, tuple(broken), settled, tuple(withheld))


def choose(diagnostics: Iterable[Diagnostic], configs: Configs, unsafe: bool = False) -> list[Applied]:
    """The fixes of one round: the first that may be applied of each finding, as far as their edits do not meet."""
    taken: list[Edit] = []
    chosen: list[Applied] = []
    rules = {rule.meta.code: rule.meta for rule in all_rules()}
    for diagnostic in diagnostics:
        meta = rules.get(diagnostic.code)
        if meta is None or not fixable(configs.of(diagnostic.place.path), meta):
            continue
        fix = next((fix for fix in diagnostic.fixes if _may(fix, unsafe)), None)
        if fix is not None and not any(meets(edit, other) for edit in fix.edits for other in taken):
            taken.extend(fix.edits)
            chosen.append(Applied(diagnostic, fix))
    return chosen


def _worse(before: CheckResult, after: CheckResult, revealed: Collection[str]) -> bool:
    """Did a warning or an error come that was not there, or only hidden?"""
    counts = [
        Counter(item.code for item in result.diagnostics if item.severity is not Severity.INFO)
        for result in (before, after)
    ]
    return bool((counts[1] - counts[0]).keys() - set(revealed))


def meets(one: Edit, other: Edit) -> bool:
    """True if two edits overlap or touch."""
    same = one.path == other.path and one.span.segment == other.span.segment
    return same and one.span.start <= other.span.end and other.span.start <= one.span.end


def encoded(source: Source, text: str) -> bytes:
    """A new text in the encoding of a source, with its byte order mark. Raises ``SourceError``."""
    return encode(replace(Source.from_text(source.path, text), encoding=source.encoding, bom=source.bom))


def write_fixed(source: Source, text: str) -> None:
    """Put a new text in a file, all of it or nothing: encoding, byte order mark and mode stay.

    Raises ``SourceError`` if the file is no longer what was read, or cannot be written.
    """
    data = encoded(source, text)
    try:
        path = Path(os.path.realpath(source.path))
        before = path.stat()
        if path.read_bytes() != encode(source):
            raise SourceError("changed while it was checked, so it was left alone")
        if not before.st_mode & 0o222 or not os.access(path, os.W_OK):
            raise SourceError("cannot be written: it is read-only")
        _replace(path, data, before)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SourceError(f"cannot be written: {reason}") from error


def _replace(path: Path, data: bytes, before: os.stat_result) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, before.st_mode & 0o7777)
        if hasattr(os, "chown") and (before.st_uid, before.st_gid) != (os.getuid(), os.getgid()):
            os.chown(name, before.st_uid, before.st_gid)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _reaches_out(one: Applied, result: CheckResult) -> bool:
    """Does a fix change a file that is in view only because it uses one of the run?"""
    return any(edit.path in result.analysis.importers.paths for edit in one.fix.edits)


def _may(fix: Fix, unsafe: bool) -> bool:
    return fix.applicability is Applicability.SAFE or unsafe and fix.applicability is Applicability.UNSAFE


def _key(one: Applied) -> tuple[object, ...]:
    return one.diagnostic.code, one.fix.edits


def _state(texts: Mapping[str, str]) -> int:
    return hash(tuple(sorted(texts.items())))


def _apply_parsing(
    chosen: Sequence[Applied], sources: Mapping[str, Source]
) -> tuple[list[Applied], list[Applied], dict[str, str]]:
    """The fixes made, those whose result does not parse, and the changed texts."""
    texts = _changed(chosen, sources)
    if _parses(texts, sources):
        return list(chosen), [], texts
    if len(chosen) == 1:
        return [], list(chosen), {}
    good = [one for one in chosen if _parses(_changed([one], sources), sources)]
    bad = [one for one in chosen if one not in good]
    texts = _changed(good, sources)
    if not _parses(texts, sources):
        return [], list(chosen), {}
    return good, bad, texts


def _changed(chosen: Iterable[Applied], sources: Mapping[str, Source]) -> dict[str, str]:
    edits: dict[str, list[Edit]] = {}
    for one in chosen:
        for edit in one.fix.edits:
            edits.setdefault(edit.path, []).append(edit)
    return {path: rewritten(sources[path], each) for path, each in edits.items()}


def _parses(texts: Mapping[str, str], sources: Mapping[str, Source]) -> bool:
    """No file has more syntax errors than before."""
    return all(
        len(parse_file(source_of(path, text)).problems()) <= len(parse_file(sources[path]).problems())
        for path, text in texts.items()
    )
