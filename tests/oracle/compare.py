"""The analyzer's map of a file against what torch did with it, cat by cat.

Torch says which inputs of a cat have the same scale and zero point, and so does the map; the two must split
the inputs in the same way. The unit of comparison is one call expression on one call path, however often a
loop runs it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.oracle.program import Line
from tests.oracle.truth import Cat, Label, Truth

CAT_NAMES = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")
FLOAT = "float"

Site = dict[str, Any]
Position = tuple[str, int, int]
"""The file below the root of the program, empty for the one that holds `Net`; row and column."""
Path = tuple[int, ...]
Split = tuple[int | str, ...]
"""Inputs in order: `"float"`, the number of the first input with the same scale, or `"?"` if not known."""


class Verdict(Enum):
    """How one cat compares."""

    EQUAL = "equal"
    UNDECIDED = "undecided"
    WRONG_SAME = "WRONG-same"
    WRONG_DIFFERENT = "wrong-different"
    WRONG_DOMAIN = "wrong-domain"


@dataclass(frozen=True)
class Unit:
    """One cat on one call path, judged."""

    file: str
    row: int
    column: int
    path: tuple[int, ...]
    verdict: Verdict
    torch: tuple[Split, ...]
    qlsp: tuple[Split, ...]
    note: str = ""


@dataclass
class Comparison:
    """The units of one file, scales that clash between cats, and lines of cats in the map that never ran."""

    units: list[Unit] = field(default_factory=list)
    clashes: list[str] = field(default_factory=list)
    idle: list[Line] = field(default_factory=list)

    def counts(self) -> Counter[Verdict]:
        return Counter(unit.verdict for unit in self.units)


def split(labels: Sequence[Hashable | None]) -> Split:
    """Number the inputs by the first one with the same label; None is float."""
    seen: dict[Hashable, int] = {}
    found: list[int | str] = []
    for index, label in enumerate(labels):
        found.append(FLOAT if label is None else seen.setdefault(label, index))
    return tuple(found)


def split_of_cat(cat: Cat) -> Split:
    return split(cat.inputs)


def split_of_site(site: Site) -> Split:
    """What the map says of the inputs of one site."""
    labels: list[Hashable | None] = []
    for index, each in enumerate(site["inputs"]):
        match each["domain"], each["scale"]:
            case "float", _:
                labels.append(None)
            case "quantized", str(scale):
                labels.append(("scale", scale))
            case _:
                labels.append(("unknown", index))
    found = split(labels)
    unknown = {index for index, label in enumerate(labels) if isinstance(label, tuple) and label[0] == "unknown"}
    return tuple("?" if index in unknown else each for index, each in enumerate(found))


def is_cat(site: Site) -> bool:
    return site["op"] in CAT_NAMES or site["spelling"].rsplit(".", 1)[-1] in CAT_NAMES


def path_rows(call_path: Iterable[str]) -> tuple[int, ...]:
    """The rows of a call path such as `["Net.forward:31"]`."""
    return tuple(int(step.rsplit(":", 1)[-1]) for step in call_path)


# -- judging one unit ---------------------------------------------------------------------------------------


def judge(torch: Sequence[Split], qlsp: Sequence[Split]) -> Verdict:
    """Compare the distinct splits of one call path."""
    if not qlsp or any("?" in each for each in qlsp):
        claims = [each for each in qlsp if _claims_too_much(each, torch)]
        return Verdict.WRONG_SAME if claims else Verdict.UNDECIDED
    if set(torch) == set(qlsp):
        return Verdict.EQUAL
    if any(_claims_too_much(each, torch) for each in qlsp):
        return Verdict.WRONG_SAME
    if any(_other_domains(each, torch) for each in qlsp):
        return Verdict.WRONG_DOMAIN
    if set(qlsp) < set(torch):
        return Verdict.UNDECIDED
    return Verdict.WRONG_DIFFERENT


def _claims_too_much(claim: Split, torch: Sequence[Split]) -> bool:
    """Whether `claim` says "same scale" of two inputs that never have it."""
    comparable = [each for each in torch if len(each) == len(claim)]
    if not comparable:
        return False
    return all(_joins_apart(claim, each) for each in comparable)


def _joins_apart(claim: Split, truth: Split) -> bool:
    known = [index for index, label in enumerate(claim) if isinstance(label, int)]
    pairs = ((a, b) for a in known for b in known if a < b and claim[a] == claim[b])
    return any(isinstance(truth[a], int) and isinstance(truth[b], int) and truth[a] != truth[b] for a, b in pairs)


def _other_domains(claim: Split, torch: Sequence[Split]) -> bool:
    comparable = [each for each in torch if len(each) == len(claim)]
    return bool(comparable) and all(_domains(claim) != _domains(each) for each in comparable)


def _domains(labels: Split) -> tuple[bool, ...]:
    return tuple(label == FLOAT for label in labels)


# -- judging a file -----------------------------------------------------------------------------------------


def compare(found: dict[str, Any], truth: Truth, root: str = "Net") -> Comparison:
    """Judge every cat that torch ran."""
    listed = sites_by_call(found, root)
    ran = cats_by_call(truth)
    result = Comparison()
    pairs: list[tuple[Cat, Site]] = []
    for place, paths in ran.items():
        for path, cats in paths.items():
            sites, note = _match(listed.get(place, {}), path, alone=len(paths) == 1)
            torch = _distinct(split_of_cat(cat) for cat in cats)
            qlsp = _distinct(split_of_site(site) for site in sites)
            result.units.append(Unit(*place, path, judge(torch, qlsp), torch, qlsp, note))
            if len(cats) == len(sites) == 1 and len(cats[0].inputs) == len(sites[0]["inputs"]):
                pairs.append((cats[0], sites[0]))
    result.clashes = clashes(pairs)
    if truth.failure is None:
        result.idle = sorted(place[:2] for place in listed if place not in ran)
    return result


def sites_by_call(found: dict[str, Any], root: str) -> dict[Position, dict[Path, list[Site]]]:
    """The cats of the map by file, row and column, then by call path."""
    grouped: dict[Position, dict[Path, list[Site]]] = defaultdict(lambda: defaultdict(list))
    for each in found["roots"]:
        for site in each["sites"]:
            if each["name"] == root and is_cat(site):
                grouped[site["file"], site["row"], site["column"]][path_rows(site["call_path"])].append(site)
    return grouped


def cats_by_call(truth: Truth) -> dict[Position, dict[Path, list[Cat]]]:
    """The cats that ran by file, row and column, then by call path."""
    grouped: dict[Position, dict[Path, list[Cat]]] = defaultdict(lambda: defaultdict(list))
    for cat in truth.cats:
        grouped[cat.place.file, cat.place.row, cat.place.column][tuple(step.row for step in cat.path)].append(cat)
    return grouped


def _match(paths: dict[Path, list[Site]], path: Path, *, alone: bool) -> tuple[list[Site], str]:
    """The sites of a call path. A call with one path on both sides needs no equal rows."""
    if path in paths:
        return paths[path], ""
    if alone and len(paths) == 1:
        (sites,) = paths.values()
        return sites, ""
    return [], f"other call paths: {sorted(paths)}" if paths else "no site"


def _distinct(splits: Iterable[Split]) -> tuple[Split, ...]:
    return tuple(dict.fromkeys(splits))


def clashes(pairs: Iterable[tuple[Cat, Site]]) -> list[str]:
    """Scales that the map calls equal at different cats and torch does not."""
    seen: dict[str, tuple[Label, Line]] = {}
    found = []
    for cat, site in pairs:
        for qparams, each in zip(cat.inputs, site["inputs"], strict=True):
            scale = each["scale"]
            if qparams is None or each["domain"] != "quantized" or scale is None:
                continue
            first = seen.setdefault(scale, (qparams, cat.place.line))
            if first[0] != qparams:
                found.append(f"scale {scale!r} is {first[0]} in {first[1]} and {qparams} in {cat.place.line}")
    return found
