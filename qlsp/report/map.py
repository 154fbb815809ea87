"""The quantization map as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from qlsp.qmap import MapInput, MapRoot, MapSite
from qlsp.report.layout import display_width


def as_text(roots: Sequence[MapRoot]) -> str:
    """A table for each root: one line per operator, with domain and scale of its inputs and its output."""
    return "\n".join(_table(root) for root in roots)


def as_json(roots: Sequence[MapRoot]) -> str:
    """The map for scripts."""
    return json.dumps({"roots": [_root(root) for root in roots]}, indent=2) + "\n"


def _table(root: MapRoot) -> str:
    built = f" at {root.instance}" if root.instance else ""
    head = f"{root.name}{built} ({root.filename}:{root.row}): {root.backend}, {root.mode}"
    rows = [("place", "operator", "inputs", "output", "called from")]
    rows += [_line(site, root) for site in root.sites]
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(_pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([head, *lines, f"  {_rescales(root)} predicted rescales"]) + "\n"


def _line(site: MapSite, root: MapRoot) -> tuple[str, str, str, str, str]:
    place = f"{site.row}:{site.column}"
    if site.filename != root.filename:
        place = f"{site.filename}:{place}"
    inputs = ", ".join(map(_tensor, site.inputs))
    return place, site.spelling, inputs, _tensor(site.output), " > ".join(site.call_path)


def _tensor(tensor: MapInput) -> str:
    return f"{tensor.domain} ({tensor.scale})" if tensor.scale is not None else tensor.domain


def _pad(cell: str, width: int) -> str:
    return cell + " " * (width - display_width(cell))


def _rescales(root: MapRoot) -> int:
    return root.rescales or 0


def _root(root: MapRoot) -> dict[str, Any]:
    return {
        "name": root.name,
        "instance": root.instance,
        "filename": root.filename,
        "row": root.row,
        "backend": root.backend,
        "mode": root.mode,
        "rescales": _rescales(root),
        "sites": [_site(site) for site in root.sites],
    }


def _site(site: MapSite) -> dict[str, Any]:
    return {
        "op": site.op,
        "spelling": site.spelling,
        "filename": site.filename,
        "row": site.row,
        "column": site.column,
        "end_row": site.end_row,
        "end_column": site.end_column,
        "call_path": list(site.call_path),
        "inputs": [_input(tensor) for tensor in site.inputs],
        "output": _input(site.output),
    }


def _input(tensor: MapInput) -> dict[str, Any]:
    return {"domain": tensor.domain, "scale": tensor.scale}
