"""``qlsp inspect``: the quantization map of models."""

from __future__ import annotations

import argparse
import os

from qlsp import engine
from qlsp.commands.configuration import configs_of
from qlsp.commands.output import FAILED, OK, complain, write
from qlsp.discover import Collection, collect
from qlsp.notebook import read
from qlsp.qmap import MapRoot
from qlsp.report import map as map_report
from qlsp.text import SourceError


def inspect(arguments: argparse.Namespace) -> int:
    """Show the maps; returns the exit status."""
    targets = [split_target(target) for target in arguments.targets]
    configs = configs_of(arguments)
    roots: list[MapRoot] = []
    complaints: list[str] = []
    failed = False
    for class_name in dict.fromkeys(name for _, name in targets):
        files = collect([path for path, name in targets if name == class_name], configs)
        found = engine.quant_map(_readable(files), configs, class_name)
        roots = list(dict.fromkeys([*roots, *found]))
        if class_name is not None and not found:
            files.fail(f"{class_name}: no model of this name")
        complaints += files.complaints
        failed = failed or files.failed
    if arguments.output_format == "json":
        write(map_report.as_json(roots))
    else:
        write(map_report.as_text(roots))
        if not roots and not complaints:
            complaints.append("no quantized model found")
    for line in complaints:
        complain(line)
    return FAILED if failed else OK


def _readable(files: Collection) -> list[str]:
    paths = []
    for path in files.paths:
        try:
            read(path)
        except SourceError as error:
            files.fail(f"{path}: {error}")
        else:
            paths.append(path)
    return paths


def split_target(target: str) -> tuple[str, str | None]:
    """Path and class of ``PATH:CLASS``."""
    path, colon, name = target.rpartition(":")
    if colon and path and name.isidentifier() and not os.path.lexists(target):
        return path, name
    return target, None
