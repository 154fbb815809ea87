"""Models that torch.export made: what scripts do to them."""

from __future__ import annotations

import re

import libcst as cst

from qlsp.analysis.facts import ExportedMode
from qlsp.analysis.machine import Arguments
from qlsp.analysis.mappings import Mappings
from qlsp.analysis.name_uses import made_for_several
from qlsp.syntax.names import dotted
from qlsp.values.state import State
from qlsp.values.value import Const, Unknown, Value

PROGRAM, MODEL = "exported", "exported model"
PT2E = ("torchao.quantization.", "torch.ao.quantization.")
GIVES_BACK = frozenset({"convert_pt2e", "move_exported_model_to_eval", "move_exported_model_to_train"})
"""Functions that give back the model they get."""

ALLOWS = re.compile(r"\ballow_exported_model_train_eval\b")
"""Text that makes ``eval()`` and ``train()`` of exported models work."""


class Exports(Mappings):
    """Follows exported models by the number of their export."""

    def library_call(self, name: str, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """What gives an exported model back."""
        model = arguments.get(0, "model")
        if name.rpartition(".")[2] in GIVES_BACK and name.startswith(PT2E) and model is not None and _exported(model):
            return model
        return super().library_call(name, arguments, node, state)

    def call(self, function: Value, arguments: Arguments, node: cst.Call, state: State) -> Value:
        """``program.module()`` is a model; its ``eval()`` and ``train()`` are remembered."""
        symbol = function.symbol if isinstance(function, Unknown) else None
        if symbol is not None and len(symbol) == 4 and symbol[2] == ".":
            if symbol[0] == PROGRAM and symbol[3] == "module":
                return Unknown("an exported model", (MODEL, symbol[1]))
            if symbol[0] == MODEL and symbol[3] in ("eval", "train"):
                self._switched(str(symbol[3]), arguments, node, state)
        return super().call(function, arguments, node, state)

    def _switched(self, method: str, arguments: Arguments, node: cst.Call, state: State) -> None:
        if self.facts is not None or self.current.module.shows(ALLOWS) or made_for_several(self.current.unit, node):
            return
        mode = arguments.get(0, "mode") if method == "train" else Const(False)
        trains = bool(mode.value) if isinstance(mode, Const) else None if mode is not None else True
        shown = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
        self._emit(ExportedMode(self.span(node), method, trains, shown or "the model", state.guard, self.entry))


def _exported(value: Value) -> bool:
    return isinstance(value, Unknown) and value.symbol is not None and value.symbol[0] == MODEL
