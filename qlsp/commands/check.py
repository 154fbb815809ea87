"""``qlsp check``: findings, fixes, ignore comments and baselines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from qlsp import __version__, baseline, engine, fixing
from qlsp.baseline import Baseline, BaselineError
from qlsp.commands.configuration import configs_of
from qlsp.commands.output import (
    FAILED,
    FINDINGS,
    OK,
    STDIN,
    UsageError,
    complain,
    complain_lines,
    count,
    write,
    write_bytes,
)
from qlsp.commands.statistics import statistics_lines
from qlsp.config import Resolver, selected
from qlsp.diagnostics import Diagnostic, Message, Severity
from qlsp.discover import Collection, collect
from qlsp.engine import CheckResult
from qlsp.importers import ImportIndex
from qlsp.notebook import decode
from qlsp.report import changes, full
from qlsp.report.findings import Findings, RuleText
from qlsp.report.formats import FORMATS
from qlsp.report.page import as_markdown, summary
from qlsp.rules.api import all_rules
from qlsp.text import Place, Source, SourceError, Span, read_source


def check(arguments: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    _refuse_contradictions(arguments)
    run = _Run(arguments, configs_of(arguments))
    run.read()
    fixing_files = arguments.fix or arguments.fix_only or arguments.diff
    if fixing_files:
        result, changed = run.fix()
        if arguments.diff or arguments.fix_only:
            complain_lines(f"qlsp: {line}" for line in run.files.complaints)
            if result.crashed or run.files.failed:
                return FAILED
            return FINDINGS if arguments.diff and changed and not arguments.exit_zero else OK
    else:
        result = run.check()
    if arguments.add_ignore and _add_ignores(result, run.files):
        result = run.check()
    if arguments.write_baseline:
        return run.write_baseline(result)
    return run.report(result, to_stderr=fixing_files and bool(run.texts))


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    fixing_files = arguments.fix or arguments.fix_only or arguments.diff
    if STDIN not in arguments.paths and arguments.stdin_filename is not None:
        raise UsageError("--stdin-filename needs - among the paths")
    if STDIN in arguments.paths and arguments.files_from == STDIN:
        raise UsageError("standard input cannot be both a file and a list of files")
    if sum(file is None for _, file in arguments.output_format) > 1:
        raise UsageError("only one --output-format can go to one place, give the others as FORMAT=FILE")
    if fixing_files and arguments.add_ignore:
        raise UsageError("--add-ignore cannot be used with fixes")
    if STDIN in arguments.paths and arguments.add_ignore:
        raise UsageError("--add-ignore cannot change standard input")
    if arguments.write_baseline and (fixing_files or arguments.add_ignore):
        raise UsageError("--write-baseline cannot be used with fixes or --add-ignore")
    if arguments.write_baseline and arguments.baseline:
        raise UsageError("--write-baseline writes all findings: leave --baseline out")


@dataclass(slots=True)
class _Run:
    """What is checked, and how."""

    arguments: argparse.Namespace
    configs: Resolver
    files: Collection = field(default_factory=Collection)
    given: dict[str, Source] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    unreadable: list[Diagnostic] = field(default_factory=list)
    baseline: Baseline | None = None
    index: ImportIndex = field(default_factory=ImportIndex)

    def read(self) -> None:
        """Find the files, and read standard input and the baseline."""
        arguments, configs = self.arguments, self.configs
        given = [*arguments.paths, *_listed(arguments.files_from)]
        if not given and arguments.files_from is None:
            given = ["."]
        name = arguments.stdin_filename or STDIN
        for path in given:
            configs.of(name if path == STDIN else path)
        self.files = collect([path for path in given if path != STDIN], configs)
        if STDIN in given:
            self._read_stdin(name)
        self.paths = [*self.texts, *(path for path in self.files.paths if path not in self.texts)]
        if arguments.baseline:
            self.baseline = _read_baseline(arguments.baseline)

    def _read_stdin(self, name: str) -> None:
        try:
            self.given[name] = decode(name, sys.stdin.buffer.read())
        except SourceError as error:
            rule = next(rule.meta for rule in all_rules() if rule.meta.code == "QL001")
            if selected(self.configs.of(name), rule, name):
                message = Message.of("unreadable-file", error=error)
                place = Place(name, Span(0, 0))
                self.unreadable.append(Diagnostic(rule.code, rule.name, message, Severity.ERROR, place))

    @property
    def texts(self) -> dict[str, str]:
        """Standard input, by the name it goes by."""
        return {path: source.text for path, source in self.given.items()}

    @property
    def named(self) -> set[str]:
        """The files that were named one by one."""
        return {*self.files.named, *self.texts}

    def check(self, texts: Mapping[str, str] | None = None) -> CheckResult:
        """Check all files, standard input as it was read or as ``texts`` says."""
        given = self.texts if texts is None else texts
        importers = self.index.around(self.paths, self.configs, given)
        statistics = self.arguments.statistics
        return engine.check(self.paths, self.configs, given, self.named, statistics, self.baseline, importers)

    def fix(self) -> tuple[CheckResult, bool]:
        """Apply fixes, or show them as a diff. The result is that of the fixed files; True if any file changes."""
        arguments, configs, texts, unsafe = self.arguments, self.configs, self.texts, self.arguments.unsafe_fixes
        if arguments.diff:
            fixed = fixing.fix_texts(self.paths, configs, texts, unsafe, self.named, self.baseline, self.index)
        else:
            written = fixing.fix_files(self.paths, configs, unsafe, self.named, texts, self.baseline, self.index)
            fixed = written.fixed
        sources, result = fixed.before.sources, fixed.after
        if arguments.diff:
            write("".join(changes.diff(path, sources[path].text, text) for path, text in sorted(fixed.texts.items())))
        else:
            for path, source in self.given.items():
                write_bytes(fixing.encoded(source, fixed.texts.get(path, source.text)))
            for line in written.failures:
                self.files.fail(line)
            shrunk = self._shrink_baseline(result)
            if written.failures or arguments.statistics or shrunk:
                result = self.check({path: fixed.texts.get(path, text) for path, text in texts.items()})
        for one in fixed.broken:
            where, code = one.diagnostic.place.path, one.diagnostic.code
            self.files.fail(f"{where}: a fix of {code} gave no Python, please report it")
        for one in fixed.withheld:
            where, code = one.diagnostic.place.path, one.diagnostic.code
            complain(f"{where}: a fix of {code} was taken back, because another finding came with it")
        if not fixed.settled:
            self.files.fail("the fixes did not come to an end, please report it")
        if arguments.show_fixes:
            complain_lines(changes.applied((one.diagnostic, one.fix) for one in fixed.applied))
        done = "would be fixed" if arguments.diff else "fixed"
        complain(f"{count(len(fixed.applied), 'finding')} {done} in {count(len(fixed.texts), 'file')}")
        return result, bool(fixed.texts)

    def _shrink_baseline(self, result: CheckResult) -> bool:
        """Take what no longer occurs out of the baseline; True if the file changed."""
        if self.baseline is None or not any(item.code == baseline.STALE for item in result.diagnostics):
            return False
        try:
            fixing.write_fixed(self.baseline.source, baseline.shrunk(self.baseline, result.stale))
        except SourceError as error:
            self.files.fail(f"{self.baseline.path}: {error}")
            return False
        complain(f"{self.baseline.path}: {count(len(result.stale), 'line')} corrected")
        self.baseline = _read_baseline(self.baseline.path)
        return True

    def write_baseline(self, result: CheckResult) -> int:
        """Write all findings that a baseline can know to a file."""
        path = self.arguments.write_baseline
        known = [item for item in result.diagnostics if item.code not in baseline.NEVER_KNOWN]
        entries = baseline.entries_of(known, result.sources, os.path.dirname(os.path.abspath(path)))
        write(baseline.render(entries), path)
        complain(f"{path}: {count(len(known), 'finding')} in {count(len(entries), 'line')}")
        return FAILED if result.crashed or self.files.failed else OK

    def report(self, result: CheckResult, to_stderr: bool) -> int:
        """Write the report; returns the exit status."""
        diagnostics = [*self.unreadable, *result.diagnostics]
        failed = result.crashed or self.files.failed
        _write_reports(self.arguments, _findings(result, diagnostics, failed), to_stderr)
        if self.arguments.statistics:
            complain_lines(statistics_lines(result, self.arguments.verbose))
        for line in self.files.complaints:
            complain(line)
        if failed:
            return FAILED
        limits = ((item, self.configs.of(item.place.path).fail_on) for item in diagnostics)
        left = any(item.severity.rank >= limit.rank for item, limit in limits)
        return FINDINGS if left and not self.arguments.exit_zero else OK


def _listed(files_from: str | None) -> list[str]:
    """The paths that a file, or standard input, names one a line."""
    if files_from is None:
        return []
    try:
        if files_from == STDIN:
            data = sys.stdin.buffer.read()
        else:
            with open(files_from, "rb") as file:
                data = file.read()
    except OSError as error:
        raise UsageError(f"--files-from {files_from}: {error.strerror}") from error
    return [line for line in os.fsdecode(data).splitlines() if line.strip()]


def _read_baseline(path: str) -> Baseline:
    try:
        return baseline.read(read_source(path))
    except (SourceError, BaselineError) as error:
        text = str(error) if isinstance(error, BaselineError) else f"{path}: {error}"
        raise UsageError(text) from error


def _add_ignores(result: CheckResult, files: Collection) -> bool:
    """Add an ignore comment for each finding that one can hide; True if a file changed."""
    lines = written = 0
    for source, text, number in engine.with_ignores(result):
        try:
            fixing.write_fixed(source, text)
        except SourceError as error:
            files.fail(f"{source.path}: {error}")
        else:
            lines, written = lines + number, written + 1
    complain(f"ignore comments added: {lines} in {count(written, 'file')}")
    return written > 0


def _findings(result: CheckResult, diagnostics: Sequence[Diagnostic], failed: bool) -> Findings:
    rules = tuple(
        RuleText(
            rule.meta.code,
            rule.meta.name,
            summary(rule.page),
            as_markdown(rule.meta, rule.page),
            rule.meta.severity.value,
        )
        for rule in all_rules()
    )
    sources: Mapping[str, Source] = result.sources
    return Findings(diagnostics, sources, result.suppressed, result.statistics.files, failed, rules, __version__)


def _write_reports(arguments: argparse.Namespace, findings: Findings, to_stderr: bool) -> None:
    """Write the findings in every format asked for; ``to_stderr``: standard output is taken."""
    outputs: list[tuple[str | None, str | None]] = list(arguments.output_format) or [(None, None)]
    for name, file in outputs:
        target = file or arguments.output_file
        on_terminal = target is None and sys.stdout.isatty()
        chosen = name or ("full" if on_terminal else "concise")
        color = on_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        text = full.report(findings, color=color) if chosen == "full" else FORMATS[chosen](findings)
        if to_stderr and target is None:
            complain_lines(text.splitlines())
        else:
            write(text, target)
