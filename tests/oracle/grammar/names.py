"""How one generated file spells the library names.

Pieces of the grammar are written with five canonical prefixes (`torch.`, `nn.`, `F.`, `tq.`, `nnq.`).
`Imports.spell` turns them into the spelling this file uses and remembers the import it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random

HOME = {
    "torch": "torch",
    "nn": "torch.nn",
    "F": "torch.nn.functional",
    "tq": "torch.ao.quantization",
    "nnq": "torch.ao.nn.quantized",
}

# namespace -> style -> (import line, prefix); "{name}" in the import line means a from-import of the name
STYLES: dict[str, dict[str, tuple[str, str]]] = {
    "torch": {
        "import torch": ("import torch", "torch."),
        "import torch as th": ("import torch as th", "th."),
        "from torch import name": ("from torch import {name}", ""),
    },
    "nn": {
        "import torch.nn as nn": ("import torch.nn as nn", "nn."),
        "from torch import nn": ("from torch import nn", "nn."),
        "torch.nn.name": ("import torch", "torch.nn."),
        "from torch.nn import name": ("from torch.nn import {name}", ""),
    },
    "F": {
        "import torch.nn.functional as F": ("import torch.nn.functional as F", "F."),
        "from torch.nn import functional as F": ("from torch.nn import functional as F", "F."),
        "torch.nn.functional.name": ("import torch", "torch.nn.functional."),
        "from torch.nn.functional import name": ("from torch.nn.functional import {name}", ""),
    },
    "tq": {
        "import torch.ao.quantization as tq": ("import torch.ao.quantization as tq", "tq."),
        "from torch.ao import quantization": ("from torch.ao import quantization", "quantization."),
        "import torch.quantization as tq": ("import torch.quantization as tq", "tq."),
        "torch.ao.quantization.name": ("import torch", "torch.ao.quantization."),
        "torch.quantization.name": ("import torch", "torch.quantization."),
        "from torch.ao.quantization import name": ("from torch.ao.quantization import {name}", ""),
        "from torch.quantization import name": ("from torch.quantization import {name}", ""),
    },
    "nnq": {
        "import torch.ao.nn.quantized as nnq": ("import torch.ao.nn.quantized as nnq", "nnq."),
        "import torch.nn.quantized as nnq": ("import torch.nn.quantized as nnq", "nnq."),
        "torch.ao.nn.quantized.name": ("import torch.ao.nn.quantized", "torch.ao.nn.quantized."),
        "torch.nn.quantized.name": ("import torch.nn.quantized", "torch.nn.quantized."),
        "from torch.ao.nn.quantized import name": ("from torch.ao.nn.quantized import {name}", ""),
        "from torch.nn.quantized import name": ("from torch.nn.quantized import {name}", ""),
    },
}

KEYS: tuple[str, ...] = tuple(f"import: {style}" for styles in STYLES.values() for style in styles)

# `nn.Module` reads badly without its prefix, and these torch names are types or contexts, not operators.
KEEP_PREFIX = {"torch": {"Tensor", "no_grad", "jit", "nn", "ao", "inference_mode"}, "nn": {"init"}}
RENAMED = {("torch", "max"), ("torch", "min"), ("torch", "split"), ("F", "pad")}

_NAME = re.compile(r"(?<![\w.])(torch|nn|F|tq|nnq)\.([A-Za-z_]\w*)")


class Imports:
    """The import block of one file, filled as names are spelled."""

    def __init__(self, rng: Random, styles: dict[str, str]) -> None:
        self._rng = rng
        self._styles = styles
        self._plain: set[str] = set()
        self.library: set[str] = set()
        self._from: dict[str, set[str]] = {}
        self._bound: dict[str, str] = {}
        self.used: set[str] = set()

    def spell(self, text: str) -> str:
        """`text` with every canonical name replaced by this file's spelling of it."""
        return _NAME.sub(lambda match: self._name(match.group(1), match.group(2)), text)

    def standard(self, line: str) -> None:
        """Ask for an import of the standard library."""
        self.library.add(line)

    def keep(self, lines: Iterable[str], text: str) -> None:
        """Of these imports of the standard library, import what `text` uses."""
        self.library = {line for line in lines if re.search(rf"\b{line.split()[-1]}\b", text)}

    def lines(self) -> list[str]:
        """The import block: standard library, blank line, torch; each sorted."""
        gathered = [f"from {module} import {', '.join(sorted(names))}" for module, names in self._from.items()]
        lines = sorted(self._plain | self.library | set(gathered), key=_import_order)
        library = [line for line in lines if re.match(r"(import|from) torch\b", line)]
        standard = [line for line in lines if line not in library]
        return [*standard, "", *library] if standard else library

    def _name(self, space: str, name: str) -> str:
        style = self._styles[space]
        line, prefix = STYLES[space][style]
        if name in KEEP_PREFIX.get(space, ()):
            line, prefix, style = self._prefixed(space)
        elif "{name}" in line:
            return self._from_import(space, name, line)
        self.used.add(f"import: {style}")
        self._plain.add(line)
        return prefix + name

    def _prefixed(self, space: str) -> tuple[str, str, str]:
        style = self._styles[space]
        if "{name}" not in STYLES[space][style][0]:
            return *STYLES[space][style], style
        plain = {"torch": "import torch", "nn": "import torch.nn as nn", "F": "torch.nn.functional.name"}[space]
        return *STYLES[space][plain], plain

    def _from_import(self, space: str, name: str, line: str) -> str:
        qualified = f"{HOME[space]}.{name}"
        local = f"{name}_fn" if (space, name) in RENAMED else name
        if self._bound.setdefault(local, qualified) != qualified:
            plain, prefix, _ = self._prefixed(space)
            self._plain.add(plain)
            return prefix + name
        self.used.add(f"import: {self._styles[space]}")
        module = line.removeprefix("from ").split(" import ")[0]
        self._from.setdefault(module, set()).add(name if local == name else f"{name} as {local}")
        return local


def _import_order(line: str) -> tuple[bool, str]:
    return line.startswith("from"), line


def choose_styles(rng: Random, pick: object) -> dict[str, str]:
    """One style per namespace; `pick(keys)` chooses among coverage keys."""
    assert callable(pick)
    styles = {}
    for space, table in STYLES.items():
        styles[space] = _strip(pick([f"import: {style}" for style in table]))
    return styles


def _strip(key: str) -> str:
    return key.removeprefix("import: ")


def spelled_names(texts: Iterable[str]) -> set[str]:
    """The canonical names a piece of grammar uses; for tests of the tables."""
    return {match.group(0) for text in texts for match in _NAME.finditer(text)}
