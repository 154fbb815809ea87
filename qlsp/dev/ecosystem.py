"""Check code that nobody wrote for qlsp, and print Markdown tables of what was found and what stayed undecided.

``python -m qlsp.dev.ecosystem [PACKAGE==VERSION ...]`` checks wheels: pip downloads them into a cache folder, where
they are unpacked. ``python -m qlsp.dev.ecosystem --checkouts FOLDER [NAME ...]`` checks the repositories
below a folder. Files are read; nothing of them is imported or run, and no installed package is looked at: the version
of torch is what the code base itself pins. ``--json FILE`` also writes the results for a comparison.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qlsp.analysis.globals import WRAPPER
from qlsp.analysis.program import ModuleModel
from qlsp.backends.spec import Backend
from qlsp.backends.torch_eager import EAGER
from qlsp.config import Config
from qlsp.discover import collect
from qlsp.engine import CheckResult, check
from qlsp.ops.spec import Role
from qlsp.statistics import KINDS
from qlsp.text import LineIndex, Place
from qlsp.values.workflow import Workflow

PACKAGES = (
    "torchvision==0.28.0",
    "timm==1.0.31",
    "ultralytics==8.4.190",
    "torchao==0.18.0",
    "brevitas==0.13.4",
    "torch==2.13.0",
)
HEADER = (
    "| code base | version | files | analysed | eager | classes | elsewhere | cat | stub | op | findings | seconds |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True, slots=True)
class CodeBase:
    """A wheel or a checkout: ``version`` is a release or a commit."""

    name: str
    version: str
    folder: Path


def main(argv: Sequence[str]) -> int:
    """Check each code base, print the table, then every finding and the reasons of what stayed undecided."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m qlsp.dev.ecosystem"
    )
    parser.add_argument("names", nargs="*", help="packages, or folders below the checkouts; default: all")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "qlsp-ecosystem")
    parser.add_argument("--checkouts", type=Path, help="a folder whose subfolders are repositories")
    parser.add_argument("--json", type=Path, help="where to write findings and undecided calls")
    arguments = parser.parse_args(argv)
    if arguments.checkouts is not None:
        bases = checkouts(arguments.checkouts, arguments.names)
    else:
        bases = wheels(arguments.names or PACKAGES, arguments.cache)
    print(HEADER)
    details: list[str] = []
    results = []
    for base in bases:
        started = time.process_time()
        config = Config(root=str(base.folder), environment="")
        result = check(collect([str(base.folder)], config).paths, config, statistics=True)
        report = summary(base, result, time.process_time() - started)
        print(row(report), flush=True)
        details.extend(lines(report))
        results.append(report)
    print("\n".join([total(results), "", *details]))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def wheels(packages: Iterable[str], cache: Path) -> Iterator[CodeBase]:
    """Released packages; downloaded on first use."""
    for package in packages:
        name, _, version = package.partition("==")
        yield CodeBase(name, version, unpacked(package, cache))


def unpacked(package: str, cache: Path) -> Path:
    """The folder of an unpacked wheel; downloaded on first use."""
    folder = cache / package
    if not folder.exists():
        wheels = cache / "wheels" / package
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), package]
        subprocess.run(command, check=True)
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [name for name in archive.namelist() if name.endswith(".py")])
    return folder


def checkouts(parent: Path, names: Sequence[str]) -> Iterator[CodeBase]:
    """The repositories below a folder; ``owner+name`` stands for owner/name."""
    for folder in sorted(path for path in parent.iterdir() if path.is_dir()):
        if not names or folder.name in names:
            yield CodeBase(folder.name.replace("+", "/"), commit(folder), folder)


def commit(folder: Path) -> str:
    """The commit of a checkout: what git says, or the file ``.commit`` of an exported tree."""
    if (folder / ".git").exists():
        command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    exported = folder / ".commit"
    return exported.read_text(encoding="utf-8").strip() if exported.exists() else "unknown"


def summary(base: CodeBase, result: CheckResult, seconds: float) -> dict[str, Any]:
    """What the table and a comparison need. Calls are counted in the files with eager quantization code, not in those
    written for a vendor's front end; so are the model classes that judged models run, ``elsewhere`` those in the
    other files."""
    vendor = {view.module.path for view in result.analysis.views if view.machine.script.vendor}
    named = (path for path, module in result.analysis.modules.items() if uses_eager(module, EAGER))
    eager = set(named) - vendor
    statistics = result.statistics

    def place(where: Place) -> str:
        line, _ = LineIndex(result.sources[where.path].text).position(where.span.start)
        return f"{Path(where.path).relative_to(base.folder)}:{line}"

    undecided = [(kind, reason, place(where)) for kind, reason, where in statistics.undecided if where.path in eager]
    done = Counter(kind for kind, where in statistics.decided if where.path in eager)
    missing = Counter(kind for kind, _, _ in undecided)
    classes = [reached for where, reached in statistics.classes if where.path in eager]
    return {
        "name": base.name,
        "version": base.version,
        "files": statistics.files,
        "analysed": statistics.parsed,
        "eager": len(eager),
        "classes": [sum(classes), len(classes)],
        "elsewhere": sum(reached for where, reached in statistics.classes if where.path not in eager),
        "decided": {kind: [done[kind], done[kind] + missing[kind]] for kind in KINDS},
        "findings": sorted(f"{d.code} {d.name} at {place(d.place)}" for d in result.diagnostics),
        "undecided": sorted(undecided),
        "crashes": len(result.analysis.crashes),
        "gave up": sorted(facts.context.root for facts in result.analysis.facts if facts.gave_up is not None),
        "seconds": round(seconds, 1),
    }


def uses_eager(module: ModuleModel, backend: Backend) -> bool:
    """Does a file name what only eager mode has: stubs, FloatFunctional, prepare, convert?"""
    names = eager_names(backend)
    if any(backend.canonical(target) in names for target in module.imports.values()):
        return True
    last = "|".join(sorted({name.rpartition(".")[2] for name in names}))
    pattern = re.compile(rf"\b([^\W\d]\w*)((?:\.\w+)*\.(?:{last}))\b")
    texts = (segment.text for segment in module.syntax.source.segments)
    dotted = {(match[1], match[2]) for text in texts for match in pattern.finditer(text)}
    return any(backend.canonical(module.imports.get(first, first) + rest) in names for first, rest in dotted)


def eager_names(backend: Backend) -> set[str]:
    """The qualified names that stand in eager quantization code."""
    stubs = {name for row in backend.rows if row.role in (Role.QUANTIZE, Role.DEQUANTIZE) for name in row.modules}
    moving = {name for row in backend.lifecycle if row.workflow is Workflow.EAGER for name in row.names}
    return {*stubs, *moving, *backend.functional_classes, WRAPPER}


def row(report: dict[str, Any]) -> str:
    """One line of the table."""
    decided = " | ".join(fraction(*report["decided"][kind]) for kind in KINDS)
    counts = Counter(finding.split(" ")[0] for finding in report["findings"])
    found = ", ".join(f"{code} {count}" for code, count in sorted(counts.items())) or "-"
    counted = " | ".join(str(report[key]) for key in ("files", "analysed", "eager"))
    classes = f"{fraction(*report['classes'])} | {report['elsewhere'] or '-'}"
    name, version = report["name"], report["version"][:10]
    return f"| {name} | {version} | {counted} | {classes} | {decided} | {found} | {report['seconds']:.0f} |"


def fraction(some: int, found: int) -> str:
    """A count of decided calls or reached classes, as a cell of the table."""
    return f"{some} of {found}" if found else "-"


def total(reports: Sequence[dict[str, Any]]) -> str:
    """What was decided in all code bases together."""
    shown = []
    for kind in KINDS:
        done, found = (sum(report["decided"][kind][place] for report in reports) for place in (0, 1))
        shown.append(f"{kind} {fraction(done, found)}" + (f" ({done / found:.0%})" if found else ""))
    return f"\nDecided: {', '.join(shown)}"


def lines(report: dict[str, Any]) -> list[str]:
    """Every finding, and why calls stayed undecided, most frequent first."""
    name = report["name"]
    found = [f"- {name}: {finding}" for finding in report["findings"]]
    reasons = Counter((kind, reason) for kind, reason, _ in report["undecided"])
    undecided = [f"- {name}: {count} undecided {kind}: {reason}" for (kind, reason), count in reasons.most_common(8)]
    broken = [f"- {name}: {report['crashes']} crashes"] if report["crashes"] else []
    return [*found, *undecided, *broken, *(f"- {name}: gave up on {root}" for root in report["gave up"])]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
