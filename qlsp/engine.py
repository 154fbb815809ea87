"""The one path from text to diagnostics, shared by the command line and the editor."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts
from qlsp.analysis.interpreter import Interpreter
from qlsp.analysis.program import ModuleModel
from qlsp.analysis.roots import judge, look
from qlsp.analysis.scales import Scales, describe
from qlsp.backends.torch_eager import EAGER
from qlsp.config import Config, selected, severity_of
from qlsp.diagnostics import Diagnostic, Message, Related, Severity
from qlsp.project import Project
from qlsp.qmap import MapRoot, TensorAt, map_root, tensors
from qlsp.rules.api import Finding, Rule, RuleContext, all_rules
from qlsp.statistics import Statistics, collect
from qlsp.text import LineIndex, Place, Source, SourceError, Span
from qlsp.triage import relevant
from qlsp.values.value import SpanId
from qlsp.values.workflow import Mode, Workflow

if TYPE_CHECKING:
    from qlsp.syntax.parse import Unit

RECURSION_LIMIT = 12_000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Diagnostics sorted by path, place and code; the sources they point into; what stayed undecided."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source]
    statistics: Statistics
    crashed: bool
    analysis: Analysis = field(repr=False)


@dataclass(slots=True)
class Analysis:
    """The facts of a set of files."""

    project: Project
    loaded: dict[str, ModuleModel] = field(default_factory=dict)
    modules: dict[str, ModuleModel] = field(default_factory=dict)
    facts: list[Facts] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)

    def place(self, span: SpanId) -> Place:
        """Where a span id points."""
        module = self.project.module_at(span.path)
        assert module is not None
        unit = module.syntax.all_units[span.unit]
        return Place(span.path, unit.span(span.ordinal))

    def enclosing(self, span: SpanId) -> str:
        """The class and function a span stands in, as ``Net.forward``."""
        module = self.project.module_at(span.path)
        assert module is not None
        unit = module.syntax.all_units[span.unit]
        for top in module.syntax.units:
            if unit in top.members:
                return f"{top.name}.{unit.name}"
        return unit.name or "<module>"


def check(
    paths: Sequence[str],
    config: Config,
    texts: Mapping[str, str] | None = None,
    named: Collection[str] = (),
) -> CheckResult:
    """Check files. ``texts`` gives the content of files that are not (or not yet) on disk; ``named`` are the
    files that the user named one by one: their syntax is checked even if nothing in them is about
    quantization."""
    analysis = analyze(paths, config, texts)
    findings, crashed = _run_rules(analysis, config)
    wanted = set(paths)
    diagnostics = [d for d in findings if d.place.path in wanted]
    diagnostics.extend(_file_problems(analysis, config, named))
    diagnostics = [each for d in diagnostics if (each := _configured(d, config)) is not None]
    unique = {(d.place.path, d.place.span, d.code): d for d in sorted(diagnostics, key=_importance)}
    ordered = sorted(unique.values(), key=lambda d: (d.place.path, d.place.span.start, d.code))
    counts = Counter(d.code for d in ordered)
    statistics = collect(analysis.modules, analysis.facts, analysis.place, ordered, len(paths), counts, EAGER)
    return CheckResult(tuple(ordered), analysis.project.sources, statistics, crashed, analysis)


def _configured(diagnostic: Diagnostic, config: Config) -> Diagnostic | None:
    """The diagnostic as the configuration wants it: left out for this file, or of another severity."""
    meta = next(rule.meta for rule in all_rules() if rule.meta.code == diagnostic.code)
    if not selected(config, meta, diagnostic.place.path):
        return None
    severity = severity_of(config, meta, diagnostic.severity)
    return None if severity is None else replace(diagnostic, severity=severity)


def _importance(diagnostic: Diagnostic) -> int:
    return diagnostic.severity.rank


def analyze(paths: Sequence[str], config: Config, texts: Mapping[str, str] | None = None) -> Analysis:
    """Read the files and interpret every root in them."""
    project = Project(config.src, texts)
    analysis = Analysis(project)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    loaded = analysis.loaded
    for path in paths:
        try:
            loaded[path] = project.load(path)
        except SourceError as error:
            analysis.unreadable[path] = str(error)
    views = []
    for path in relevant(loaded):
        module = analysis.modules[path] = loaded[path]
        views.append(look(Interpreter(project, EAGER), module))
    analysis.facts.extend(judge(views, _workflow(config), _mode(config)))
    return analysis


def _workflow(config: Config) -> Workflow | None:
    return None if config.workflow == "auto" else Workflow(config.workflow)


def _mode(config: Config) -> Mode:
    return Mode.UNKNOWN if config.mode == "auto" else Mode(config.mode)


def _run_rules(analysis: Analysis, config: Config) -> tuple[list[Diagnostic], bool]:
    found: list[Diagnostic] = []
    crashed = False
    for rule in all_rules():
        if rule.check is None or not selected(config, rule.meta):
            continue
        for facts in analysis.facts:
            try:
                found.extend(_diagnostic(analysis, rule, each) for each in rule.check(RuleContext(facts)))
            except Exception as error:
                crashed = True
                found.append(_crash(analysis, rule, facts, error))
    return found, crashed


def _diagnostic(analysis: Analysis, rule: Rule, finding: Finding) -> Diagnostic:
    related = tuple(Related(note.message, analysis.place(note.span)) for note in finding.related)
    return Diagnostic(
        rule.meta.code,
        rule.meta.name,
        finding.message,
        finding.severity or rule.meta.severity,
        analysis.place(finding.span),
        finding.predicts or rule.meta.predicts,
        finding.assumes,
        related,
    )


def _crash(analysis: Analysis, rule: Rule, facts: Facts, error: Exception) -> Diagnostic:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error} ({last.name}, line {last.lineno})"
    message = Message.of("rule-crashed", rule=rule.meta.name, error=text)
    place = analysis.place(facts.context.span)
    return Diagnostic("QL003", "rule-crashed", message, Severity.ERROR, place)


def _file_problems(analysis: Analysis, config: Config, named: Collection[str]) -> list[Diagnostic]:
    meta = next(rule.meta for rule in all_rules() if rule.meta.code == "QL001")
    if not selected(config, meta):
        return []
    found = []
    for path, error in analysis.unreadable.items():
        message = Message.of("unreadable-file", error=error)
        found.append(Diagnostic(meta.code, meta.name, message, meta.severity, Place(path, Span(0, 0))))
    for path, module in analysis.loaded.items():
        if path not in analysis.modules and path not in named:
            continue
        for problem in module.syntax.problems():
            message = Message.of("syntax-error", error=problem.message)
            place = Place(path, problem.span)
            found.append(Diagnostic(meta.code, meta.name, message, meta.severity, place))
    return found


def quant_map(paths: Sequence[str], config: Config, class_name: str | None = None) -> tuple[MapRoot, ...]:
    """The quantization map of every eager root in the files, or of one class."""
    analysis = analyze(paths, config)
    indexes: dict[str, LineIndex] = {}

    def locate(span: SpanId) -> tuple[Place, tuple[int, int], tuple[int, int], str]:
        place = analysis.place(span)
        if place.path not in indexes:
            indexes[place.path] = LineIndex(analysis.project.sources[place.path].text)
        index = indexes[place.path]
        enclosing = analysis.enclosing(span)
        return place, index.position(place.span.start), index.position(place.span.end), enclosing

    return tuple(
        map_root(facts, locate)
        for facts in analysis.facts
        if facts.context.workflow is Workflow.EAGER and class_name in (None, facts.context.root)
    )


def tensors_in(analysis: Analysis, path: str) -> tuple[TensorAt, ...]:
    """What the tensors of a file are, seen from every root that runs through it."""

    @cache
    def locate(span: SpanId) -> Place:
        return analysis.place(span)

    found = (each for facts in analysis.facts for each in tensors(facts, locate))
    return tuple(dict.fromkeys(each for each in found if each.place.path == path))


@dataclass(frozen=True, slots=True)
class Piece:
    """A top-level statement or a member of a class: its place, and whether it parses."""

    span: Span
    broken: bool
    members: tuple[Piece, ...] = ()


def pieces(analysis: Analysis, path: str) -> tuple[Piece, ...]:
    """The statements of a file that does not parse as a whole; nothing for one that does."""
    module = analysis.project.module_at(path)
    problems = [problem.span.start for problem in module.syntax.problems()] if module is not None else []
    if module is None or not problems:
        return ()

    def piece(unit: Unit) -> Piece:
        members = tuple(piece(member) for member in unit.members)
        inside = any(member.broken for member in members)
        broken = not inside and any(unit.start <= start <= unit.end for start in problems)
        return Piece(Span(unit.start, unit.end, unit.segment), broken, members)

    return tuple(piece(unit) for unit in module.syntax.units)


def reveal(
    paths: Sequence[str], config: Config, texts: Mapping[str, str] | None = None
) -> list[tuple[str, int, str]]:
    """What ``reveal_quant`` calls show: (path, row, text), in order of place."""
    analysis = analyze(paths, config, texts)
    found: dict[tuple[str, int], set[str]] = {}
    for facts in analysis.facts:
        scales = Scales(facts)
        for (span, _), value in facts.reveals.items():
            place = analysis.place(span)
            index = LineIndex(analysis.project.sources[place.path].text)
            row, _ = index.position(place.span.start)
            found.setdefault((place.path, row), set()).update(describe(scales, value).split(" | "))
    return [(path, row, " | ".join(sorted(texts))) for (path, row), texts in sorted(found.items())]
