"""Roots: which models of the files are judged, under which front end, from which state."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from qlsp.analysis.facts import Context, Facts, Tracing
from qlsp.analysis.interpreter import Interpreter, LifecycleEvent, is_import
from qlsp.analysis.name_uses import name_uses
from qlsp.analysis.program import ClassModel, ModuleModel, definitions
from qlsp.ops.spec import Role
from qlsp.syntax.names import dotted
from qlsp.syntax.parse import ChunkError, Unit, walk
from qlsp.values.state import Instance, State
from qlsp.values.value import Choice, ClassValue, FunctionValue, Ref, SpanId, Symbol, Unknown, Value
from qlsp.values.workflow import Mode, Stage, Workflow

LIFE_CALLS = (".prepare", ".convert", ".quantize")
"""How a life-cycle call of a package looks."""

VENDOR = re.compile(r"\w+_plugin_pytorch")
"""Packages with a front end of their own, Horizon's plugin and its renamed copies: torch's eager rules do not hold for
a model that uses them."""

SETS_OBSERVER = re.compile(r"\bactivation_post_process(?:\s*=[^=]|['\"]\s*,)")
"""Text that gives a module an observer by hand."""

INDUCTOR = re.compile(r"\bX86InductorQuantizer\b")
"""The quantizer that shares observers for ``aten.cat`` alone."""

MAX_CONTEXTS = 6
"""Contexts of one class per file; more ways to build it add nothing that a reader would see."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that may be a root: where it is, from which state, how it is used."""

    root: Ref
    state: State
    cls: ClassValue | Symbol
    span: SpanId
    workflow: Workflow
    mode: Mode
    where: str | None
    assumed: bool
    prepared: SpanId | None = None
    reshaped: bool = False
    fused: bool = True
    copies: Mapping[int, int] | None = None
    tracing: Tracing | None = None


@dataclass(slots=True)
class Evidence:
    """What the entries of a file show about its models. ``stubless``: classes of models that they build without a
    stub."""

    candidates: list[Candidate] = field(default_factory=list)
    judged: list[Candidate] = field(default_factory=list)
    seen: set[SpanId] = field(default_factory=set)
    stubless: set[SpanId] = field(default_factory=set)
    traced_unknown: bool = False
    eager_unknown: bool = False
    unknown_modes: set[Mode] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says about the models of a file; ``roots`` are classes to be judged on their own,
    by name or by qualified name."""

    workflow: Workflow | None = None
    mode: Mode = Mode.UNKNOWN
    roots: tuple[str, ...] = ()


@dataclass(slots=True)
class View:
    """One file of a run: its interpreter, an instance of each of its model classes, what its entries show.
    ``uses`` as in ``look``: models without such a class are not judged."""

    machine: Interpreter
    module: ModuleModel
    models: list[tuple[ClassValue, Ref, State]]
    evidence: Evidence
    settings: Settings = Settings()
    uses: Mapping[str, Collection[str]] | None = None

    def counts(self, candidate: Candidate) -> bool:
        """Does a class of a model, or a base of one, lead to the files of the run?"""
        if self.uses is None:
            return True
        orders = map(self.machine.mro, _classes_of(self.machine, candidate))
        bases = (each for order in orders for each in order if isinstance(each, ClassModel))
        return any(each.name in self.uses.get(each.span.path, ()) for each in bases)


def look(
    machine: Interpreter,
    module: ModuleModel,
    leads: Collection[str] = (),
    settings: Settings | None = None,
    uses: Mapping[str, Collection[str]] | None = None,
) -> View:
    """Run the entries of a file and build its models; ``leads`` are its names that lead to quantization. ``uses`` is
    for a file that only uses those of the run: names by path that lead to them. What does not is left out, but for
    what it says about models of others."""
    evidence = Evidence()
    machine.script.path = module.path
    machine.script.vendor = _uses_vendor(machine, module)
    machine.script.names = name_uses(module, machine.backend.moved)
    matters = _matters(machine, module, leads)
    functions, classes = _definitions(machine, module, matters)
    running = matters
    if uses is not None:
        functions, classes = _using(machine, module, functions, classes, uses.get(module.path, ()))
        running = _both(matters, _naming(machine, module, uses.get(module.path, ())))
    if any(_acts(unit) and running(unit.text) for unit in module.syntax.units):
        _keep(machine, machine.run_script(module), evidence)
    _entries(machine, module, functions, classes, matters, evidence)
    return View(machine, module, _models(machine, classes), evidence, settings or Settings(), uses)


def _using(
    machine: Interpreter,
    module: ModuleModel,
    functions: list[FunctionValue],
    classes: list[ClassValue],
    names: Collection[str],
) -> tuple[list[FunctionValue], list[ClassValue]]:
    """The functions and classes of these names, and those with life-cycle calls."""
    words = (*LIFE_CALLS, *_moving(machine, module))

    def counts(name: str, text: str) -> bool:
        return name in names or any(word in text for word in words)

    models = [machine.functions[each.span] for each in functions]
    chosen = [each for each, model in zip(functions, models, strict=True) if counts(model.name, model.unit.text)]
    return chosen, [each for each in classes if counts(machine.class_model(each).name, _class_text(machine, each))]


Run = tuple[str, Callable[[], Facts]]
"""A file's path, and the analysis of one root of it."""


def judge(views: Sequence[View]) -> Iterator[Run]:
    """Every root of the files; what one file does with a class counts in all of them."""
    _spread_vendors(views)
    _without_parts(views)
    _class_roots(views)
    yield from _runs(views)
    _unreached(views, _sets_qconfig)
    yield from _runs(views)


def unreached(views: Sequence[View]) -> Iterator[Run]:
    """The model classes that no root reaches: rules are silent about them, the statistics are not, and a fix
    has to be right in them too."""
    _unreached(views, lambda machine, cls: True)
    yield from _runs(views)


def _runs(views: Sequence[View]) -> Iterator[Run]:
    tying = any(view.module.shows(SETS_OBSERVER) for view in views)
    for view in views:
        candidates, view.evidence.candidates = view.evidence.candidates, []
        counts: dict[object, int] = {}
        candidates = list(filter(view.counts, candidates))
        view.evidence.judged.extend(candidates)
        for candidate in candidates:
            key = (candidate.cls, candidate.workflow)
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > MAX_CONTEXTS:
                view.machine.given_up[candidate.span, f"more than {MAX_CONTEXTS} ways to build a model"] = None
                continue
            model = view.machine.origin_of(candidate.root.oid)
            context = Context(
                _class_name(candidate.cls),
                candidate.span,
                _front_end(view, candidate),
                _mode(view, candidate),
                candidate.where,
                candidate.assumed,
                (view.module.path, model),
                candidate.prepared,
                candidate.fused,
                candidate.reshaped or model in view.machine.fed,
                candidate.reshaped or model in view.machine.feeding,
                candidate.tracing,
            )
            root, state = candidate.root, candidate.state.fork()
            tied = tying and (candidate.prepared is None or root.oid in view.machine.outside)
            run = partial(view.machine.run_root, root, state, context, candidate.copies, tied)
            yield view.module.path, run


def _front_end(view: View, candidate: Candidate) -> Workflow:
    """The configured front end; else that of the calls in view, or of a vendor whose plugin is imported."""
    if candidate.workflow is Workflow.NONE:
        return Workflow.NONE
    if view.settings.workflow is not None:
        return view.settings.workflow
    if view.machine.script.vendor or _has_vendor_parts(view.machine, candidate):
        return Workflow.HORIZON
    return candidate.workflow


def _mode(view: View, candidate: Candidate) -> Mode:
    """The configured mode; else that of the prepare call and of the qconfigs in the model, if they agree; else
    that of every prepare call of the file on a model that is not known."""
    if view.settings.mode is not Mode.UNKNOWN or candidate.workflow is not Workflow.EAGER:
        return view.settings.mode if view.settings.mode is not Mode.UNKNOWN else candidate.mode
    found = _qconfig_modes(view.machine, candidate)
    if candidate.mode is not Mode.UNKNOWN:
        found.add(candidate.mode)
    if not found and candidate.assumed:
        found = view.evidence.unknown_modes
    return next(iter(found)) if len(found) == 1 else Mode.UNKNOWN


def _qconfig_modes(machine: Interpreter, candidate: Candidate) -> set[Mode]:
    """The modes that the qconfigs in a model are made for."""
    found: set[Mode] = set()
    for oid in {candidate.root.oid, *machine.submodules_of(candidate.root, candidate.state)}:
        instance = machine.instance(candidate.state, Ref(oid))
        qconfig = instance.attributes.get("qconfig") if instance is not None else None
        if qconfig is not None:
            found.add(machine.qconfig_mode(qconfig))
    return found - {Mode.UNKNOWN}


def _uses_vendor(machine: Interpreter, module: ModuleModel) -> bool:
    backend = machine.backend
    names = map(backend.canonical, module.imported) if backend.renames else module.packages
    return any(VENDOR.fullmatch(name.partition(".")[0]) for name in names)


def _spread_vendors(views: Sequence[View]) -> None:
    """A package that uses a vendor's plugin somewhere is written for it, also in files that import torch alone."""
    packages = {_package(view.module) for view in views if view.machine.script.vendor} - {None}
    for view in views:
        if _package(view.module) in packages:
            view.machine.script.vendor = True


def _package(module: ModuleModel) -> str | None:
    """The top-level package of a file, None for a script of its own."""
    top, dot, _ = module.name.partition(".")
    return top if dot or module.is_package else None


def _has_vendor_parts(machine: Interpreter, candidate: Candidate) -> bool:
    """Is a module of the model of a class whose file, or that of a base, uses a vendor's plugin?"""
    classes = set()
    for oid in {candidate.root.oid, *machine.submodules_of(candidate.root, candidate.state)}:
        instance = machine.instance(candidate.state, Ref(oid))
        if instance is not None and isinstance(instance.cls, ClassValue):
            classes.add(instance.cls)
    bases = [each for cls in classes for each in machine.mro(cls) if isinstance(each, ClassModel)]
    modules = {id(each.module): each.module for each in bases}
    return any(_uses_vendor(machine, module) for module in modules.values())


def _class_name(cls: ClassValue | Symbol) -> str:
    return cls.name.rpartition(".")[2]


Test = Callable[[str], bool]
"""May code with this text come to quantization?"""

DEFINES = re.compile(r"\b(?:def|class)\b")


def _definitions(
    machine: Interpreter, module: ModuleModel, matters: Test
) -> tuple[list[FunctionValue], list[ClassValue]]:
    """The functions that matter, and all classes; nothing else is parsed."""
    functions: list[FunctionValue] = []
    classes: list[ClassValue] = []
    for unit in module.syntax.units:
        if unit.kind == "function" and not matters(unit.text):
            continue
        if unit.kind == "statement" and not DEFINES.search(unit.text):
            continue
        try:
            nodes = list(definitions(unit.node))
        except ChunkError:
            continue
        for node in nodes:
            if not isinstance(node, (cst.FunctionDef, cst.ClassDef)):
                continue
            name = node.name.value
            value = machine.definition_value(module, unit, node, name)
            if isinstance(value, FunctionValue) and matters(unit.text):
                functions.append(value)
            elif isinstance(value, ClassValue):
                classes.extend(_with_nested(machine, value))
    return functions, classes


def _with_nested(machine: Interpreter, cls: ClassValue) -> list[ClassValue]:
    """A class and the classes defined in its body."""
    model = machine.class_model(cls)
    found = [cls]
    if not any(unit.kind == "class" for unit in model.members or (model.unit,)):
        return found
    for statement, unit in model.body:
        if isinstance(statement, cst.ClassDef):
            inner = machine.class_value(model.module.class_model(statement, unit, model.closure))
            found.extend(_with_nested(machine, inner))
    return found


def _entries(
    machine: Interpreter,
    module: ModuleModel,
    functions: list[FunctionValue],
    classes: list[ClassValue],
    matters: Test,
    evidence: Evidence,
) -> None:
    """Run every function, and every class that is no model; keep the models they build."""
    for function in functions:
        _keep(machine, machine.run_function(function), evidence)
    for cls in classes:
        if not machine.is_model_class(cls) and matters(_class_text(machine, cls)):
            _keep(machine, machine.run_methods(cls, matters), evidence)
    moving = _life_words(machine, module)
    for cls in classes:
        if machine.is_model_class(cls) and any(word in _class_text(machine, cls) for word in moving):
            machine.run_own_methods(cls, moving)


def _matters(machine: Interpreter, module: ModuleModel, leads: Collection[str]) -> Test:
    """A test of the text of a function: without it, it builds no model of interest and moves none through its life."""
    named, telling = _words([*leads, *_moving(machine, module)]), machine.backend.telling
    return lambda text: telling.search(text) is not None or named.search(text) is not None


def _naming(machine: Interpreter, module: ModuleModel, names: Collection[str]) -> Test:
    """A test of the text of a statement: it uses one of the names or a life-cycle call."""
    named = _words([*names, *_moving(machine, module)])
    return lambda text: named.search(text) is not None or any(word in text for word in LIFE_CALLS)


def _both(first: Test, second: Test) -> Test:
    return lambda text: first(text) and second(text)


def _words(names: Collection[str]) -> re.Pattern[str]:
    """A pattern for any of the names."""
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, set(names))))})\b" if names else r"(?!)")


def _moving(machine: Interpreter, module: ModuleModel) -> list[str]:
    """The names of a file that stand for life-cycle calls."""
    calls = machine.backend.lifecycle_calls
    return [name for name, target in module.imports.items() if machine.backend.canonical(target) in calls]


def _acts(unit: Unit) -> bool:
    """Is a chunk a statement that may do something? Imports and the names that a file offers do nothing."""
    return unit.kind == "statement" and not is_import(unit) and not unit.text.lstrip().startswith("__all__")


def _life_words(machine: Interpreter, module: ModuleModel) -> tuple[str, ...]:
    """Names by which a file may reach a life-cycle call."""
    words = ["quantiz"]
    for name, target in module.imports.items():
        if "quant" in target or machine.backend.canonical(target) in machine.backend.lifecycle_calls:
            words.append(name)
    return tuple(words)


def _class_text(machine: Interpreter, cls: ClassValue) -> str:
    return machine.class_model(cls).unit.text


def _keep(machine: Interpreter, state: State, evidence: Evidence) -> None:
    created, machine.created = machine.created, []
    events, machine.events = machine.events, []
    used: set[int] = set()
    moved: set[ClassValue | Symbol] = set()
    shares = _prepared_for_inductor(machine, events)
    for event in events:
        if event.row.stage is Stage.FUSE:
            continue
        for ref in _refs(event.model):
            used.add(ref.oid)
            model = machine.instance(event.state, ref)
            if model is not None:
                moved.add(model.cls)
            used |= machine.submodules_of(ref, event.state)
            tracing = shares if event.row.stage is Stage.EXPORT else event.tracing
            _event_candidate(machine, ref, event, evidence, tracing)
        if isinstance(event.model, Unknown) and event.row.stage is Stage.PREPARE:
            traced = event.row.workflow is not Workflow.EAGER
            evidence.traced_unknown = evidence.traced_unknown or traced
            evidence.eager_unknown = evidence.eager_unknown or not traced
            evidence.unknown_modes.add(event.row.mode)
    used |= {machine.origin_of(oid) for oid in used}
    if machine.cut:
        built = (cls for ref, cls, _ in created if machine.instance(state, ref) is None)
        evidence.seen.update(cls.span for cls in built if isinstance(cls, ClassValue))
    children: set[int] = set()
    for ref, _, _ in created:
        if machine.instance(state, ref) is not None:
            children |= machine.submodules_of(ref, state)
    for ref, cls, span in created:
        instance = machine.instance(state, ref)
        if instance is None or ref.oid in used or ref.oid in children or span is None:
            continue
        if isinstance(cls, ClassValue) and not machine.is_model_class(cls):
            continue
        if not machine.owns_stub(ref, state):
            evidence.stubless.update([cls.span] if isinstance(cls, ClassValue) else [])
            continue
        if cls in moved:
            continue
        where = _place(machine, cls, span)
        candidate = Candidate(ref, state, cls, where, Workflow.EAGER, Mode.UNKNOWN, None, True)
        evidence.candidates.append(candidate)
        if isinstance(cls, ClassValue):
            evidence.seen.add(cls.span)


def _refs(value: Value) -> list[Ref]:
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Choice):
        return [option for _, option in value.options if isinstance(option, Ref)]
    return []


def _prepared_for_inductor(machine: Interpreter, events: Sequence[LifecycleEvent]) -> Tracing | None:
    """What a run that prepares an exported model with ``X86InductorQuantizer`` asks for; None for other runs."""
    prepares = [e for e in events if e.row.workflow is Workflow.PT2E and e.row.stage is Stage.PREPARE]
    modules = (machine.finder.module_at(event.span.path) for event in prepares)
    return Tracing(None, True) if any(each is not None and each.shows(INDUCTOR) for each in modules) else None


def _event_candidate(
    machine: Interpreter, ref: Ref, event: LifecycleEvent, evidence: Evidence, tracing: Tracing | None
) -> None:
    instance = machine.instance(event.state, ref)
    if instance is None:
        return
    row = event.row
    if isinstance(instance.cls, ClassValue):
        evidence.seen.add(instance.cls.span)
        for oid in machine.submodules_of(ref, event.state):
            child = machine.instance(event.state, Ref(oid))
            if child is not None and isinstance(child.cls, ClassValue):
                evidence.seen.add(child.cls.span)
    if row.stage in (Stage.PREPARE, Stage.EXPORT):
        span = _place(machine, instance.cls, event.span)
        evidence.candidates.append(
            Candidate(
                ref,
                event.state,
                instance.cls,
                span,
                row.workflow,
                row.mode,
                event.where,
                False,
                event.span,
                event.reshaped,
                event.fused,
                event.copies,
                tracing,
            )
        )


def _place(machine: Interpreter, cls: ClassValue | Symbol, fallback: SpanId) -> SpanId:
    return cls.span if isinstance(cls, ClassValue) else fallback


def _models(machine: Interpreter, classes: list[ClassValue]) -> list[tuple[ClassValue, Ref, State]]:
    """An instance of each model class on unknown or default arguments."""
    found = []
    for cls in classes:
        if not machine.is_model_class(cls):
            continue
        state = State()
        machine.entry_steps = 0
        ref = machine.build(cls, state)
        if ref is not None:
            found.append((cls, ref, state))
    machine.created = []
    machine.events = []
    return found


def _without_parts(views: Sequence[View]) -> None:
    """Drop what a function builds for the constructor of a model: it is judged as a part of that one."""
    models = {cls.span for view in views for cls, _, _ in view.models}
    parts = {site for view in views for site, builders in view.machine.sites.items() if builders & models}
    for view in views:
        view.evidence.candidates = [each for each in view.evidence.candidates if not _is_part(view, each, parts)]


def _is_part(view: View, candidate: Candidate, parts: Collection[SpanId]) -> bool:
    instance = view.machine.instance(candidate.state, candidate.root)
    return candidate.assumed and instance is not None and instance.created in parts


def _class_roots(views: Sequence[View]) -> None:
    """Classes with stubs that no model class in view builds and no script uses, and those the user names."""
    seen = {span for view in views for span in view.evidence.seen}
    others = {span for view in views for span in _base_classes(view) | view.evidence.stubless}
    built: dict[SpanId, set[SpanId]] = {}
    for view in views:
        for cls_span, builders in view.machine.built.items():
            built.setdefault(cls_span, set()).update(b for b in builders if b is not None and b != cls_span)
    model_spans = {cls.span for view in views for cls, _, _ in view.models}
    for view in views:
        for cls, ref, state in view.models:
            if cls.span in seen:
                continue
            if not _is_named(view, cls):
                if cls.span in others or built.get(cls.span, set()) & model_spans:
                    continue
                if not view.machine.owns_stub(ref, state) and not _makes_stub(view.machine, cls):
                    continue
            traced = view.evidence.traced_unknown and not view.evidence.eager_unknown
            front_end = Workflow.FX if traced else Workflow.EAGER
            candidate = Candidate(ref, state, cls, cls.span, front_end, Mode.UNKNOWN, None, True)
            view.evidence.candidates.append(candidate)


def _makes_stub(machine: Interpreter, cls: ClassValue) -> bool:
    """Does forward build a stub, or does the class have one as an attribute of its own?"""
    for entry in machine.mro(cls):
        if not isinstance(entry, ClassModel) or "Stub" not in entry.unit.text:
            continue
        forward = entry.methods.get("forward")
        nodes: list[cst.CSTNode] = [forward.node] if forward is not None else []
        nodes.extend(expression for expression, _ in entry.attributes.values())
        for node in nodes:
            calls = (inner.func for inner in walk(node) if isinstance(inner, cst.Call))
            names = (dotted(function) for function in calls)
            if any(_is_stub(machine, entry.module, name) for name in names if name is not None and "Stub" in name):
                return True
    return False


def _is_stub(machine: Interpreter, module: ModuleModel, name: str) -> bool:
    first, _, rest = name.partition(".")
    target = module.imports.get(first)
    qualified = machine.backend.canonical(f"{target}.{rest}" if rest else target) if target is not None else ""
    row = machine.backend.modules.get(qualified)
    return row is not None and row.role in (Role.QUANTIZE, Role.DEQUANTIZE)


def _is_named(view: View, cls: ClassValue) -> bool:
    """Does the configuration name the class as a root? Folders above the package may be part of the name."""
    name = cls.name.rpartition(".")[2]
    qualified = f".{view.module.name}.{name}"
    return any(root == name or f".{root}".endswith(qualified) for root in view.settings.roots)


def _base_classes(view: View) -> set[SpanId]:
    """Classes that another class in view derives from: they are judged through it."""
    found: set[SpanId] = set()
    for cls, _, _ in view.models:
        found.update(entry.span for entry in view.machine.mro(cls)[1:] if isinstance(entry, ClassModel))
    return found


def _sets_qconfig(machine: Interpreter, cls: ClassValue) -> bool:
    """Does the forward of a class name a qconfig? What it does to one is told whoever uses the class."""
    forward = machine.class_model(cls).methods.get("forward")
    return forward is not None and ".qconfig" in forward.unit.text


def overridden(views: Sequence[View]) -> set[tuple[str, int]]:
    """The methods (path and chunk) that every judged object of their class replaces by those of a derived class."""
    replaced: set[tuple[str, int]] = set()
    live: set[tuple[str, int]] = set()
    for view in views:
        used = [candidate for candidate in view.evidence.judged if candidate.workflow is not Workflow.NONE]
        for cls in {cls for candidate in used for cls in _classes_of(view.machine, candidate)}:
            seen: set[str] = set()
            for entry in view.machine.mro(cls):
                methods = entry.methods if isinstance(entry, ClassModel) else {}
                for name, method in methods.items():
                    (replaced if name in seen else live).add((method.unit.path, method.unit.index))
                seen |= methods.keys()
    return replaced - live


def _classes_of(machine: Interpreter, candidate: Candidate) -> Iterator[ClassValue | Symbol]:
    for oid in machine.submodules_of(candidate.root, candidate.state) | {candidate.root.oid}:
        instance = machine.instance(candidate.state, Ref(oid))
        if instance is not None:
            yield instance.cls


def _unreached(views: Sequence[View], wanted: Callable[[Interpreter, ClassValue], bool]) -> None:
    """Candidates of unknown use: nothing is known of their inputs."""
    reached: set[SpanId] = set()
    for view in views:
        machine = view.machine
        for candidate in view.evidence.judged:
            for each in _classes_of(machine, candidate):
                reached.update(entry.span for entry in machine.mro(each) if isinstance(entry, ClassModel))
    for view in views:
        for cls, ref, state in view.models:
            if cls.span not in reached and wanted(view.machine, cls):
                candidate = Candidate(ref, state, cls, cls.span, Workflow.NONE, Mode.UNKNOWN, None, True)
                view.evidence.candidates.append(candidate)


__all__ = ["Instance", "View", "judge", "look"]
