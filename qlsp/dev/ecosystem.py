"""``python -m qlsp.dev.ecosystem [PACKAGE==VERSION ...]``: check unpacked wheels and print a Markdown table.

Wheels are downloaded by pip into a cache folder, unpacked and read; nothing of them is imported or run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from qlsp.config import Config
from qlsp.discover import collect
from qlsp.engine import CheckResult, check
from qlsp.text import LineIndex

PACKAGES = ("torchvision==0.28.0", "timm==1.0.31", "ultralytics==8.4.190", "torch==2.13.0")
HEADER = (
    "| package | files | analysed | cat decided | stub decided | findings | seconds |\n"
    "|---|---|---|---|---|---|---|"
)


def main(argv: Sequence[str]) -> int:
    """Check each package, print the table, then every finding and the reasons of what stayed undecided."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "qlsp-ecosystem")
    arguments = parser.parse_args(argv)
    print(HEADER)
    details = []
    for package in arguments.packages:
        folder = unpacked(package, arguments.cache)
        started = time.process_time()
        result = check(collect([str(folder)], Config()).paths, Config(), statistics=True)
        print(row(package, result, time.process_time() - started), flush=True)
        details.extend(findings(package, folder, result))
        details.extend(reasons(package, result))
    print("\n".join(["", *details]))
    return 0


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


def row(package: str, result: CheckResult, seconds: float) -> str:
    """One line of the table."""
    statistics = result.statistics
    decided = [f"{done} of {total}" for done, total in (statistics.by_kind[kind] for kind in ("cat", "stub"))]
    count = sum(statistics.findings.values())
    return (
        f"| {package} | {statistics.files} | {statistics.parsed} | {decided[0]} | {decided[1]} | {count}"
        f" | {seconds:.0f} |"
    )


def findings(package: str, folder: Path, result: CheckResult) -> list[str]:
    """Every finding as code, name and place."""
    lines = []
    for diagnostic in result.diagnostics:
        path = diagnostic.place.path
        line, _ = LineIndex(result.sources[path].text).position(diagnostic.place.span.start)
        place = f"{Path(path).relative_to(folder)}:{line}"
        lines.append(f"- {package}: {diagnostic.code} {diagnostic.name} at {place}")
    return lines


def reasons(package: str, result: CheckResult) -> list[str]:
    """Why calls stayed undecided, most frequent first."""
    counts = Counter((kind, reason) for kind, reason, _ in result.statistics.undecided)
    return [f"- {package}: {count} undecided {kind}: {reason}" for (kind, reason), count in counts.most_common(8)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
