"""What a rule file is made of: ``META``, ``check(ctx)`` and a docstring that is the rule's page."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from qlsp.analysis.facts import Facts, ScriptFacts
from qlsp.diagnostics import Fix, Message, NoFix, Predicts, Severity
from qlsp.values.value import CallPath, SpanId

if TYPE_CHECKING:
    from qlsp.syntax.edits import EditBuilder


@dataclass(frozen=True, slots=True)
class RuleMeta:
    """Identity of a rule. ``fix`` names the best applicability it offers, or None. ``one_per_line``: of several
    findings on one line the first is reported."""

    code: str
    name: str
    severity: Severity
    since: str
    predicts: Predicts = Predicts.SILENT
    fix: str | None = None
    preview: bool = False
    one_per_line: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A related place of a finding, by span id."""

    message: Message
    span: SpanId


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule yields. Severity and prediction default to the rule's; ``assumes`` names an assumption.

    ``subject`` is for the rule's own ``fix``: the key of the fact the finding is about. It must be picklable.
    """

    span: SpanId
    message: Message
    severity: Severity | None = None
    predicts: Predicts | None = None
    assumes: Message | None = None
    related: tuple[Note, ...] = ()
    subject: object = None


def _no_edits() -> EditBuilder:
    raise NoFix("no source in view")


@dataclass(frozen=True, slots=True)
class RuleContext:
    """What a rule may look at: the facts of one context.

    A fix has to be right in every context of the run: ``everywhere`` holds the facts of all of them, those of
    classes that no root reaches (``Workflow.NONE``) too. ``edits()`` begins the edits of one fix. ``script``
    is set in one context per file of its own, in which ``facts`` are empty. ``backend`` is the one that the
    configuration names for fixes that add a qconfig, ``torch`` the version of torch that the project uses, ``oldest``
    the oldest that its requirements allow, if they say.
    ``scripts`` are the events of every file of the run: a function of one file may also run in the events of another.
    """

    facts: Facts
    everywhere: tuple[Facts, ...] = ()
    edits: Callable[[], EditBuilder] = field(default=_no_edits)
    script: ScriptFacts | None = None
    backend: str | None = None
    torch: tuple[int, ...] | None = None
    oldest: tuple[int, ...] | None = None
    scripts: tuple[ScriptFacts, ...] = ()


def assumption(ctx: RuleContext) -> Message | None:
    """What a finding takes for granted where no life-cycle call names the front end."""
    return Message.of("assuming-eager") if ctx.facts.context.assumed else None


def certain(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a rule without those in one alternative of a callee, of which another one has none: a call is
    wrong if every alternative of what it calls is."""
    kept = list(findings)
    while facts.callees:
        wrong = {path[:end] for path in map(_path, kept) for end in range(1, len(path) + 1)}
        left = [each for each in kept if _everywhere(facts, _path(each), wrong)]
        if len(left) == len(kept):
            break
        kept = left
    return kept


def _everywhere(facts: Facts, path: CallPath, wrong: set[CallPath]) -> bool:
    """Is there a finding in every alternative of each callee on the way to a call?"""
    return all(
        (*path[:step], (span, number)) in wrong
        for step, (span, _) in enumerate(path)
        for number in facts.callees.get((span, path[:step]), ())
    )


def _path(finding: Finding) -> CallPath:
    """The path of the call that a finding is about."""
    match finding.subject:
        case (SpanId(), tuple(path)):
            return path
        case _:
            return ()


CheckFunction = Callable[[RuleContext], Iterator[Finding]]
FixFunction = Callable[[RuleContext, Finding], Iterator[Fix]]


def attempts(*rewrites: Callable[[], Fix]) -> Iterator[Fix]:
    """The fixes of the rewrites that can be made right, best first."""
    for rewrite in rewrites:
        try:
            yield rewrite()
        except NoFix:
            continue


@dataclass(frozen=True, slots=True)
class Rule:
    """A discovered rule file. ``check`` is None for rules that the tool itself applies (QL001, QL003).

    ``fix`` yields the fixes of one finding, the best first; it is asked once for each finding that is reported.
    """

    meta: RuleMeta
    page: str
    check: CheckFunction | None
    fix: FixFunction | None = None


@lru_cache(maxsize=1)
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the package, by code."""
    package = importlib.import_module("qlsp.rules")
    modules = [
        importlib.import_module(f"qlsp.rules.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
        if info.name != "api" and not info.name.startswith("_")
    ]
    rules = [_rule(module) for module in modules if hasattr(module, "META")]
    return tuple(sorted(rules, key=lambda rule: rule.meta.code))


def _rule(module: ModuleType) -> Rule:
    return Rule(module.META, module.__doc__ or "", getattr(module, "check", None), getattr(module, "fix", None))
