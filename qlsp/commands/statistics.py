"""What ``--statistics`` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from qlsp.engine import CheckResult
from qlsp.report.changes import share
from qlsp.report.layout import Locator
from qlsp.statistics import Statistics

TOP_REASONS = 10
PLACES_PER_REASON = 3


def statistics_lines(result: CheckResult, every_place: bool) -> Iterator[str]:
    """How much was decided, why the rest was not, and which findings carry a fix."""
    statistics = result.statistics
    yield f"files: {statistics.files} checked, {statistics.parsed} parsed"
    if statistics.importers or statistics.partial:
        more = ", gave up: the project has more than are read" if statistics.partial else ""
        yield f"importers: {statistics.importers} read{more}"
    for kind, (decided, found) in statistics.by_kind.items():
        yield f"{kind}: {decided} of {found} decided"
    locator = Locator(result.sources)
    yield from _undecided_lines(statistics, locator, every_place)
    for reason, count in sorted(Counter(reason for reason, _ in statistics.given_up).items()):
        yield f"gave up: {count} {reason}"
        yield from (f"  {locator.name(place)}" for each, place in statistics.given_up if each == reason)
    counts = ", ".join(f"{code} {count}" for code, count in sorted(statistics.findings.items()))
    yield f"findings: {counts or 'none'}"
    shares = share(result.diagnostics)
    if shares:
        shown = (f"{code} {some} of {found} ({safe} safe)" for code, (found, some, safe) in sorted(shares.items()))
        yield f"findings with a fix: {', '.join(shown)}"


def _undecided_lines(statistics: Statistics, locator: Locator, every_place: bool) -> Iterator[str]:
    reasons = Counter((kind, reason) for kind, reason, _ in statistics.undecided)
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    shown = ranked if every_place else ranked[:TOP_REASONS]
    for (kind, reason), count in shown:
        yield f"undecided: {count} {kind}: {reason}"
        places = [place for *key, place in statistics.undecided if tuple(key) == (kind, reason)]
        listed = places if every_place else places[:PLACES_PER_REASON]
        yield from (f"  {locator.name(place)}" for place in listed)
        if len(places) > len(listed):
            yield f"  and {len(places) - len(listed)} more (-v lists them)"
    if len(ranked) > len(shown):
        yield f"undecided: {len(ranked) - len(shown)} more reasons (-v lists them)"
