"""The one path from text to diagnostics, shared by the command line and the editor."""

from __future__ import annotations

import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress as suppress_errors
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from qlsp import baseline as baselines
from qlsp import suppress
from qlsp.analysis.facts import Context, Facts, ModelStep, ScriptFacts
from qlsp.analysis.interpreter import Interpreter
from qlsp.analysis.program import LIBRARIES, ModuleModel
from qlsp.analysis.roots import Run, Settings, judge, look, overridden, unreached
from qlsp.analysis.roots import View as ModuleView
from qlsp.analysis.scales import Scales, describe
from qlsp.backends.spec import Backend
from qlsp.backends.torch_eager import EAGER
from qlsp.baseline import Baseline, Entry
from qlsp.config import (
    Config,
    ConfigError,
    Configs,
    RuleIdentity,
    did_you_mean,
    require_known,
    selected,
    severity_of,
)
from qlsp.diagnostics import Applicability, Diagnostic, Fix, Message, NoFix, Related, Severity, Suppressed
from qlsp.environment import site_packages
from qlsp.identity import Identity
from qlsp.importers import Importers
from qlsp.layout import source_folders
from qlsp.notebook import rewritten
from qlsp.project import Project
from qlsp.qmap import MapRoot, TensorAt, map_root, tensors
from qlsp.rules.api import Finding, Rule, RuleContext, all_rules, certain
from qlsp.statistics import Statistics, collect
from qlsp.syntax.edits import CodeView, EditBuilder
from qlsp.text import LineIndex, Place, Source, SourceError, Span
from qlsp.triage import MARKERS, relevant
from qlsp.values.value import SpanId
from qlsp.values.workflow import Mode, Workflow
from qlsp.versions import oldest_torch, torch_version

if TYPE_CHECKING:
    from qlsp.syntax.parse import Unit

T = TypeVar("T")

RECURSION_LIMIT = 12_000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Diagnostics sorted by path, place and code; the sources they point into; what stayed undecided; what an
    ignore comment or the baseline hides; the entries of the baseline that no longer occur."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, Source]
    statistics: Statistics
    crashed: bool
    analysis: Analysis = field(repr=False)
    suppressed: tuple[Suppressed, ...] = ()
    stale: tuple[tuple[Entry, int], ...] = ()


@dataclass(slots=True)
class Analysis:
    """The facts of a set of files."""

    project: Project
    loaded: dict[str, ModuleModel] = field(default_factory=dict)
    modules: dict[str, ModuleModel] = field(default_factory=dict)
    facts: list[Facts] = field(default_factory=list)
    scripts: list[ScriptFacts] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    crashes: dict[str, str] = field(default_factory=dict)
    views: list[ModuleView] = field(default_factory=list)
    complete: bool = False
    importers: Importers = Importers()

    def finish(self) -> None:
        """Add the classes that no root reaches; most runs need not know of them."""
        if not self.complete:
            self.complete = True
            self.run(unreached(self.views))

    def read_users(self) -> None:
        """Read all files that use those of the run: what a fix changes must suit them as well."""
        for path in self.importers.leads:
            with suppress_errors(SourceError):
                self.project.load(path)

    def run(self, runs: Iterable[Run]) -> None:
        """Analyse roots; a crash becomes a finding and the others go on."""
        for path, run in runs:
            facts = _guarded(self, path, run)
            if facts is not None:
                self.facts.append(facts)

    def given_up(self) -> Iterator[tuple[str, Place]]:
        """The runs that took more than their budget, and the ways to build a model that are not judged."""
        found = dict.fromkeys(key for view in self.views for key in view.machine.given_up)
        return ((reason, self.place(span)) for span, reason in found)

    def place(self, span: SpanId) -> Place:
        """Where a span id points."""
        module = self.project.module_at(span.path)
        assert module is not None
        unit = module.syntax.all_units[span.unit]
        return Place(span.path, unit.span(span.ordinal))

    def anchor(self, span: SpanId) -> Place:
        """Where a finding about a span stands: a call in a chain over several lines at the name that is called."""
        module = self.project.module_at(span.path)
        assert module is not None
        return Place(span.path, module.syntax.all_units[span.unit].anchor(span.ordinal))

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
    configs: Configs,
    texts: Mapping[str, str] | None = None,
    named: Collection[str] = (),
    statistics: bool = False,
    baseline: Baseline | None = None,
    importers: Importers | None = None,
) -> CheckResult:
    """Check files; findings are judged by the configuration of the file they are in, models by that of the file
    that shows them in use. ``texts`` gives the content of files that are not (or not yet) on disk; ``named`` are the
    files that the user named one by one: their syntax is checked even if nothing in them is about
    quantization. ``importers`` are the files that use them: models in those are judged too, for what they show in the
    files of the run. ``statistics`` also counts what was decided, which takes about as long again. What the
    ``baseline`` knows is hidden."""
    analysis = analyze(paths, configs, texts, importers)
    findings, crashed = _run_rules(analysis, configs)
    wanted = set(paths)
    findings = [found for found in findings if found.diagnostic.place.path in wanted]
    findings.extend(_Found(problem) for problem in _file_problems(analysis, configs, named))
    findings = [each for found in findings if (each := _configured(found, configs)) is not None]
    unique = {found.key: found for found in sorted(findings, key=_importance)}
    by_place = sorted(unique.values(), key=lambda found: _order(found.diagnostic))
    unfixed = list(_first_of_each_line(by_place, analysis))
    everything, broken = _with_fixes(analysis, unfixed)
    ordered, hidden = _without_ignored(analysis, everything, configs)
    sources: Mapping[str, Source] = analysis.project.sources
    stale: tuple[tuple[Entry, int], ...] = ()
    if baseline is not None:
        known = baselines.apply(baseline, ordered, sources, _Judged(analysis, configs))
        sources, stale = {**sources, baseline.path: baseline.source}, tuple(known.stale)
        old = (_configured(_Found(d), configs) for d in baselines.stale_findings(baseline, known.stale))
        ordered, hidden = [*known.kept, *(f.diagnostic for f in old if f is not None)], [*hidden, *known.hidden]
    counts = Counter(d.code for d in ordered)
    flagged = [*ordered, *(each.diagnostic for each in hidden)]
    if statistics:
        analysis.finish()
    modules = {path: module for path, module in analysis.modules.items() if path in wanted} if statistics else {}
    replaced = overridden(analysis.views) if statistics else set()
    collected = collect(modules, analysis.facts, analysis.place, flagged, len(paths), counts, EAGER, replaced)
    around = analysis.importers
    collected = replace(
        collected,
        parsed=len(analysis.modules),
        importers=len(around.paths),
        partial=around.partial,
        given_up=tuple(analysis.given_up()) if statistics else (),
    )
    return CheckResult(tuple(ordered), sources, collected, crashed or broken, analysis, tuple(hidden), stale)


@dataclass(frozen=True, slots=True)
class _Found:
    """A diagnostic with the finding it was made of."""

    diagnostic: Diagnostic
    rule: Rule | None = None
    context: RuleContext | None = None
    finding: Finding | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Findings with one key are one."""
        diagnostic = self.diagnostic
        where = diagnostic.related if self.rule is None else ()
        return diagnostic.place.path, diagnostic.place.span, diagnostic.code, where


def _first_of_each_line(findings: Iterable[_Found], analysis: Analysis) -> Iterator[_Found]:
    """The findings without those that share their line with an earlier one of a rule which reports one per line."""
    lines: dict[tuple[str, int], LineIndex] = {}
    seen: set[tuple[str, str, int, int]] = set()
    for found in findings:
        if found.rule is not None and found.rule.meta.one_per_line:
            path, span = found.diagnostic.place.path, found.diagnostic.place.span
            if (path, span.segment) not in lines:
                source = analysis.project.sources[path].segments[span.segment]
                lines[path, span.segment] = LineIndex(source.text)
            row, _ = lines[path, span.segment].position(span.start)
            key = (found.diagnostic.code, path, span.segment, row)
            if key in seen:
                continue
            seen.add(key)
        yield found


def _configured(found: _Found, configs: Configs) -> _Found | None:
    """The finding as the configuration wants it: left out for this file, or of another severity."""
    diagnostic = found.diagnostic
    config = configs.of(diagnostic.place.path)
    meta = next(rule.meta for rule in all_rules() if rule.meta.code == diagnostic.code)
    if not selected(config, meta, diagnostic.place.path):
        return None
    severity = severity_of(config, meta, diagnostic.severity)
    if severity is None:
        return None
    return replace(found, diagnostic=replace(diagnostic, severity=severity))


def _without_ignored(
    analysis: Analysis, diagnostics: Sequence[Diagnostic], configs: Configs
) -> tuple[list[Diagnostic], list[Suppressed]]:
    """What stays where ignore comments are honoured, those that ignore nothing added, and what they hide."""
    rules = [rule.meta for rule in all_rules()]
    files = {
        path: suppress.read(module.syntax.source, rules)
        for path, module in analysis.loaded.items()
        if path not in analysis.importers.paths and suppress.mentions(module.syntax.source)
    }
    if not files:
        return list(diagnostics), []
    suppressions = suppress.Suppressions(files, rules)
    kept, hidden = suppressions.apply(diagnostics)
    crashed = {value for d in diagnostics if d.code == "QL003" for key, value in d.message.params if key == "rule"}

    def switched(path: str, rule: RuleIdentity) -> bool:
        return rule.name not in crashed and selected(configs.of(path), rule, path)

    unused = suppressions.unused(kept, switched, _Coverage(analysis).judged)
    configured = [each.diagnostic for d in unused if (each := _configured(_Found(d), configs)) is not None]
    also_kept, also_hidden = suppressions.apply(configured)
    return sorted([*kept, *also_kept], key=_order), sorted([*hidden, *also_hidden], key=lambda s: _order(s.diagnostic))


def _order(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    place = diagnostic.place
    return place.path, place.span.segment, place.span.start, diagnostic.code


class _Coverage:
    """Which code the run has judged: where it found nothing, there is nothing."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.reached: set[tuple[str, int]] = set()
        self.blind: dict[str, bool] = {}
        for facts in analysis.facts:
            if facts.gave_up is not None:
                self.blind[facts.context.span.path] = True
            if facts.context.workflow is not Workflow.NONE:
                self.reached.update((call.span.path, call.span.unit) for call in facts.op_calls.values())
        for script in analysis.scripts:
            events = (event for event in script.events if not isinstance(event, ModelStep))
            self.reached.update((event.span.path, event.span.unit) for event in events)

    def judged(self, path: str, segment: int, offset: int) -> bool:
        """True outside functions and classes, and in those that a model in view runs; never in a file with a
        syntax error, which may hide what leads there."""
        syntax = self.analysis.loaded[path].syntax
        if path not in self.blind:
            self.blind[path] = bool(syntax.problems())
        if self.blind[path] or self.analysis.crashes:
            return False
        units = (u for u in syntax.units if u.segment == segment and u.start <= offset <= u.end)
        unit = next(units, None)
        if unit is None or unit.kind == "statement":
            return True
        if unit.kind == "function" and any(marker in unit.text for marker in MARKERS):
            return True
        return any((path, each.index) in self.reached for each in (unit, *unit.members))


class _Judged:
    """Can this run tell that a finding of the baseline no longer occurs?"""

    def __init__(self, analysis: Analysis, configs: Configs) -> None:
        self.analysis, self.configs = analysis, configs
        self.coverage = _Coverage(analysis)
        self.paths = {os.path.abspath(path): path for path in analysis.loaded}

    def __call__(self, identity: Identity) -> bool:
        """True for a file that is gone; else if rule, file and function were part of the run."""
        path = self.paths.get(identity.path)
        if path is None:
            return not os.path.lexists(identity.path)
        rule = next((rule.meta for rule in all_rules() if rule.meta.code == identity.code), None)
        if rule is not None and not selected(self.configs.of(path), rule, path):
            return False
        units = self.analysis.loaded[path].syntax.units
        name, _, member = identity.symbol.partition(".")
        unit = next((unit for unit in units if unit.name == name), None) if name else None
        if unit is not None:
            unit = next((each for each in unit.members if each.name == member.partition(".")[0]), unit)
        return self.coverage.judged(path, unit.segment if unit else 0, unit.start if unit else 0)


def _importance(found: _Found) -> int:
    return found.diagnostic.severity.rank


def _with_fixes(analysis: Analysis, findings: Sequence[_Found]) -> tuple[list[Diagnostic], bool]:
    """The diagnostics with what the rules offer to do about them."""
    result: list[Diagnostic] = []
    crashes: list[Diagnostic] = []
    everywhere: tuple[Facts, ...] | None = None
    for found in findings:
        rule, context, finding = found.rule, found.context, found.finding
        fixes: tuple[Fix, ...] = ()
        if rule is not None and rule.fix is not None and context is not None and finding is not None:
            if everywhere is None:
                analysis.read_users()
                analysis.finish()
                everywhere = tuple(analysis.facts)
            context = replace(context, everywhere=everywhere)
            try:
                offered = (_in_part(fix) if analysis.importers.partial else fix for fix in rule.fix(context, finding))
                fixes = tuple(sorted(offered, key=lambda fix: _ORDER[fix.applicability]))
            except NoFix:
                pass
            except Exception as error:
                crashes.append(_crash(analysis, rule, context.facts, error))
        result.append(replace(found.diagnostic, fixes=fixes))
    return [*result, *crashes], bool(crashes)


def _in_part(fix: Fix) -> Fix:
    """A fix where not every file is in view that uses the code: nobody knows that it is right in all of them."""
    if fix.applicability is not Applicability.SAFE:
        return fix
    return replace(fix, applicability=Applicability.UNSAFE, reason=Message.of("fix-importers-unread"))


_ORDER = {Applicability.SAFE: 0, Applicability.UNSAFE: 1, Applicability.DISPLAY: 2}


def analyze(
    paths: Sequence[str],
    configs: Configs,
    texts: Mapping[str, str] | None = None,
    importers: Importers | None = None,
) -> Analysis:
    """Read the files, and those that use them, and interpret every root in them."""
    project = Project(
        lambda path: source_folders(path, configs.of(path)), texts, lambda path: site_packages(configs.of(path))
    )
    around = importers or Importers()
    analysis = Analysis(project, importers=around)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    loaded = analysis.loaded
    for path in paths:
        try:
            loaded[path] = project.load(path)
        except SourceError as error:
            analysis.unreadable[path] = str(error)
    for path in around.paths:
        with suppress_errors(SourceError):
            loaded.setdefault(path, project.load(path))
    views = analysis.views
    backends = [_backend(config) for config in _distinct(configs, loaded)]
    chosen = relevant(loaded, backends, project.find, project.locate)
    for path, names in around.quantizing.items():
        if path in loaded:
            chosen[path] = chosen.get(path, frozenset()) | names
    for path, leads in chosen.items():
        module = analysis.modules[path] = loaded[path]
        config = configs.of(path)
        settings = Settings(_workflow(config), _mode(config), config.roots)
        machine, uses = Interpreter(project, _backend(config)), around.leads if path in around.paths else None
        view = _guarded(analysis, path, partial(look, machine, module, leads, settings, uses))
        if view is not None:
            views.append(view)
            analysis.scripts.append(view.machine.script)
    analysis.run(judge(views))
    return analysis


def _guarded(analysis: Analysis, path: str, work: Callable[[], T]) -> T | None:
    """The result of a part of the analysis; a crash becomes a finding and the other parts go on."""
    try:
        return work()
    except Exception as error:
        analysis.crashes.setdefault(path, _crash_text(error))
        return None


def _distinct(configs: Configs, paths: Iterable[str]) -> list[Config]:
    """The configurations of a run, each once."""
    return list({id(config): config for config in map(configs.of, paths)}.values())


@lru_cache(maxsize=16)
def _renamed(renames: tuple[tuple[str, str], ...]) -> Backend:
    return replace(EAGER, renames=renames)


def _backend(config: Config) -> Backend:
    """The table, with the names that the configuration gives to its packages and operators."""
    renames = (*config.packages.items(), *config.ops.items())
    return _renamed(renames) if renames else EAGER


def validate(config: Config) -> None:
    """Refuse a configuration that names rules, packages or operators which do not exist."""
    require_known(config, [rule.meta for rule in all_rules()])
    for name, package in config.packages.items():
        if package.partition(".")[0] not in LIBRARIES:
            hint = did_you_mean(package, LIBRARIES)
            raise ConfigError(f"packages.{name}: no table is about {package}" + hint, "packages")
    for name, target in config.ops.items():
        canonical = EAGER.canonical(target)
        if not any(canonical in known for known in _operators()):
            hint = did_you_mean(target, [each for known in _operators() for each in known])
            raise ConfigError(f"ops.{name}: no operator is called {target}" + hint, "ops")


def _operators() -> tuple[Collection[str], ...]:
    return EAGER.functions, EAGER.modules, EAGER.functional_classes


def with_ignores(result: CheckResult) -> Iterator[tuple[Source, str, int]]:
    """Each file in which a comment can hide a finding, its text with such comments, and the number of them."""
    rules = [rule.meta for rule in all_rules()]
    for path in dict.fromkeys(diagnostic.place.path for diagnostic in result.diagnostics):
        source = result.sources.get(path)
        if source is None:
            continue
        own = [diagnostic for diagnostic in result.diagnostics if diagnostic.place.path == path]
        edits = suppress.ignore_edits(suppress.read(source, rules), own)
        if edits:
            yield source, rewritten(source, edits), len(edits)


def _workflow(config: Config) -> Workflow | None:
    return None if config.workflow == "auto" else Workflow(config.workflow)


def _mode(config: Config) -> Mode:
    return Mode.UNKNOWN if config.mode == "auto" else Mode(config.mode)


def _run_rules(analysis: Analysis, configs: Configs) -> tuple[list[_Found], bool]:
    found = [
        _Found(
            Diagnostic(
                "QL003",
                "rule-crashed",
                Message.of("analysis-crashed", error=error),
                Severity.ERROR,
                Place(path, Span(0, 0)),
            )
        )
        for path, error in analysis.crashes.items()
    ]
    crashed = bool(found)
    view = CodeView(analysis.project.modules, EAGER.canonical)
    everywhere = tuple(analysis.facts)
    subjects: list[tuple[Facts, ScriptFacts | None]] = [(facts, None) for facts in everywhere]
    subjects.extend((_empty(script), script) for script in analysis.scripts if script.events or script.names)
    scripts = tuple(analysis.scripts)
    every = _distinct(configs, analysis.loaded)
    for rule in all_rules():
        if rule.check is None or not any(selected(config, rule.meta) for config in every):
            continue
        for facts, script in subjects:
            config = configs.of(facts.context.span.path)
            backend, torch = config.qconfig_backend, torch_version(config)
            oldest = oldest_torch(config)
            context = RuleContext(facts, everywhere, lambda: EditBuilder(view), script, backend, torch, oldest, scripts)
            try:
                for each in certain(facts, list(rule.check(context))):
                    found.append(_found(analysis, rule, context, each))
            except Exception as error:
                crashed = True
                found.append(_Found(_crash(analysis, rule, facts, error)))
    return found, crashed


def _empty(script: ScriptFacts) -> Facts:
    """The context in which rules look at what a file does to models."""
    first = script.events[0].span if script.events else script.names[0].span
    return Facts(Context("<script>", first, Workflow.NONE, Mode.UNKNOWN))


def _found(analysis: Analysis, rule: Rule, context: RuleContext, finding: Finding) -> _Found:
    """The diagnostic of a finding. One in an installed package stands at the user's call that brings it in, names the
    way there, and has no fix."""
    diagnostic = _diagnostic(analysis, rule, finding)
    own = context.facts.context.span.path
    if context.script is None and not analysis.project.installed(own):
        diagnostic = replace(diagnostic, related=(*diagnostic.related, *_way(analysis, context, finding)))
    if not analysis.project.installed(diagnostic.place.path) or analysis.project.installed(own):
        return _Found(diagnostic, rule, context, finding)
    call = context.facts.op_calls.get(finding.subject) if isinstance(finding.subject, tuple) else None
    spans = [span for span, _ in call.path] if call is not None else []
    module = context.facts.submodules.get(call.receiver or 0) if call is not None else None
    users = [span for span in spans if not analysis.project.installed(span.path)]
    inside = [analysis.enclosing(span) for span in spans if analysis.project.installed(span.path)]
    way = " > ".join([*inside, analysis.enclosing(finding.span)])
    where = module.path if module is not None else context.facts.context.root
    note = Related(Message.of("found-in-package", module=where, way=way), diagnostic.place)
    place = analysis.place(users[-1] if users else context.facts.context.span)
    return _Found(replace(diagnostic, place=place, related=(note, *diagnostic.related)))


def _way(analysis: Analysis, context: RuleContext, finding: Finding) -> Iterator[Related]:
    """Where the model of a finding in another file is used: the root, and the calls that lead to the finding."""
    used = context.facts.context
    where = used.prepared or used.span
    if finding.span.path in (used.span.path, where.path):
        return
    match finding.subject:
        case (SpanId(), tuple(path)):
            calls = [analysis.enclosing(span) for span, _ in path if isinstance(span, SpanId)]
        case _:
            calls = []
    way = " > ".join([*calls, analysis.enclosing(finding.span)])
    yield Related(Message.of("judged-in-root", root=used.root, way=way), analysis.place(where))


def _diagnostic(analysis: Analysis, rule: Rule, finding: Finding) -> Diagnostic:
    related = tuple(Related(note.message, analysis.place(note.span)) for note in finding.related)
    return Diagnostic(
        rule.meta.code,
        rule.meta.name,
        finding.message,
        finding.severity or rule.meta.severity,
        analysis.anchor(finding.span),
        finding.predicts or rule.meta.predicts,
        finding.assumes,
        related,
    )


def _crash_text(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.name}, line {last.lineno})"


def _crash(analysis: Analysis, rule: Rule, facts: Facts, error: Exception) -> Diagnostic:
    message = Message.of("rule-crashed", rule=rule.meta.name, error=_crash_text(error))
    place = analysis.place(facts.context.span)
    return Diagnostic("QL003", "rule-crashed", message, Severity.ERROR, place)


def _file_problems(analysis: Analysis, configs: Configs, named: Collection[str]) -> list[Diagnostic]:
    meta = next(rule.meta for rule in all_rules() if rule.meta.code == "QL001")
    found = []
    for path, error in analysis.unreadable.items():
        message = Message.of("unreadable-file", error=error)
        found.append(Diagnostic(meta.code, meta.name, message, meta.severity, Place(path, Span(0, 0))))
    for path, module in analysis.loaded.items():
        if path in analysis.importers.paths or (path not in analysis.modules and path not in named):
            continue
        for problem in module.syntax.problems():
            message = Message.of("syntax-error", error=problem.message)
            place = Place(path, problem.span)
            found.append(Diagnostic(meta.code, meta.name, message, meta.severity, place))
    return found


def quant_map(paths: Sequence[str], configs: Configs, class_name: str | None = None) -> tuple[MapRoot, ...]:
    """The quantization map of every eager root in the files, or of one class."""
    analysis = analyze(paths, configs)
    indexes: dict[tuple[str, int], LineIndex] = {}

    def locate(span: SpanId) -> tuple[Place, tuple[int, int], tuple[int, int], str]:
        place = analysis.place(span)
        key = (place.path, place.span.segment)
        if key not in indexes:
            indexes[key] = LineIndex(analysis.project.sources[place.path].segments[place.span.segment].text)
        index = indexes[key]
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
    paths: Sequence[str], configs: Configs, texts: Mapping[str, str] | None = None
) -> list[tuple[str, int, str]]:
    """What ``reveal_quant`` calls show: (path, row, text), in order of place."""
    analysis = analyze(paths, configs, texts)
    found: dict[tuple[str, int], set[str]] = {}
    for facts in analysis.facts:
        scales = Scales(facts)
        for (span, _), value in facts.reveals.items():
            place = analysis.place(span)
            index = LineIndex(analysis.project.sources[place.path].segments[place.span.segment].text)
            row, _ = index.position(place.span.start)
            found.setdefault((place.path, row), set()).update(describe(scales, value).split(" | "))
    return [(path, row, " | ".join(sorted(texts))) for (path, row), texts in sorted(found.items())]
