"""Triage: which files can matter, told from their text before any of them is parsed."""

from __future__ import annotations

from collections.abc import Mapping

from qlsp.analysis.program import LIBRARIES, ModuleModel

MARKERS = ("quant", "Quant")
"""A file without any of these holds no stub, no qconfig and no prepare call of its own."""


def marked(module: ModuleModel) -> bool:
    """True if the text of a file names quantization."""
    return any(marker in segment.text for segment in module.syntax.source.segments for marker in MARKERS)


def relevant(loaded: Mapping[str, ModuleModel]) -> list[str]:
    """The marked files, and those that use one of their names, directly or through others."""
    found = {path for path, module in loaded.items() if marked(module)}
    taints = {f"{loaded[path].name}.*" for path in found if not _library(loaded[path])}
    rest = set(loaded) - found
    while True:
        added = {path: names for path in rest if (names := _tainted(loaded[path], taints))}
        if not added:
            return [path for path in loaded if path in found]
        for path, names in added.items():
            module = loaded[path]
            if any(unit.kind != "statement" for unit in module.syntax.units):
                taints.add(f"{module.name}.*")
            taints.update(f"{module.name}.{name}" for name in names)
        found |= set(added)
        rest -= set(added)


def _library(module: ModuleModel) -> bool:
    """Files of a library that the tables describe are never looked up by name."""
    return module.name.partition(".")[0] in LIBRARIES


def _tainted(module: ModuleModel, taints: set[str]) -> list[str]:
    """The names a file imports from files that matter."""
    texts = [segment.text for segment in module.syntax.source.segments]
    if not any(_last(taint) in text for taint in taints for text in texts):
        return []
    names = [name for name, target in module.imports.items() if _matches(target, taints)]
    return names + [star for star in module.stars if f"{star}.*" in taints]


def _last(taint: str) -> str:
    return taint.removesuffix(".*").rpartition(".")[2]


def _matches(target: str, taints: set[str]) -> bool:
    """Does an imported name lead to something tainted: the very name, a module, a name of a module?"""
    return target in taints or f"{target}.*" in taints or f"{target.rpartition('.')[0]}.*" in taints
