"""Runs a model under real torch and notes what happens on which line of its source.

A run description (the ``json inputs`` block of a Markdown case) is a table:

- ``inputs``: one entry per argument of ``forward``: a shape for a random tensor (input number N has a
  standard deviation of 3 to the N), ``{"list": [...]}`` or ``{"dict": {...}}`` of entries, ``{"value": X}``,
  ``{"indices": shape, "below": N}`` for whole numbers;
- ``init``: one list of constructor arguments per run, ``[[]]`` if left out; what the runs show is united;
- ``nets``: the classes to run, ``["Net"]`` if left out; ``make``: a function that returns the model instead;
- ``workflow``: ``eager`` (default) or ``fx``; ``mode``: ``ptq`` (default) or ``qat``;
- ``call``: a function of the case that takes the inputs and does all of it itself;
- ``shared``: true where one stub serves several tensors on purpose, so that only the cat is judged;
- ``torch_warns``: true where a ``cat`` of torch's own code, which a flagged object calls, warns of mixed scales;
- ``raises_outside``: true where the exception comes from prepare, convert or the caller, not from a flagged line;
- ``unreached``: rows with ``reveal_quant`` that these inputs do not reach;
- ``skip``: why torch cannot run this case.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import torch
import torch.ao.nn.quantized as nnq
import torch.ao.quantization as tq
from torch import nn
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

CAT_WARNING = (
    "All inputs of this cat operator must share the same quantization parameters. "
    "Otherwise large numerical inaccuracies may occur."
)
QUANTIZED_TWICE = "Could not run 'aten::quantize_per_tensor' with arguments from the 'QuantizedCPU' backend."

Place = tuple[str, int]
"""File name and row."""

_MAIN = "case_under_torch"


@dataclass
class Seen:
    """What a converted model did, by line of its source."""

    cat_warnings: set[Place] = field(default_factory=set)
    quantized_twice: set[Place] = field(default_factory=set)
    stub_reused: set[Place] = field(default_factory=set)
    raised: list[tuple[str, Place | None]] = field(default_factory=list)
    revealed: list[tuple[Place, Any, nn.Module | None]] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Unite with what another run showed."""
        self.cat_warnings |= other.cat_warnings
        self.quantized_twice |= other.quantized_twice
        self.stub_reused |= other.stub_reused
        self.raised += other.raised
        self.revealed += other.revealed


def sqnr(reference: torch.Tensor, value: torch.Tensor) -> float:
    """Signal to quantization-noise ratio in dB."""
    value = value.dequantize() if value.is_quantized else value
    reference, value = reference.detach().double(), value.detach().double()
    noise = (reference - value).pow(2).sum()
    return float("inf") if noise == 0 else float(10 * torch.log10(reference.pow(2).sum() / noise))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide the deprecation warnings that every use of ``torch.ao.quantization`` gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def quantize(
    model: nn.Module,
    batches: Sequence[tuple[Any, ...]],
    qconfig: Any = None,
    between: Callable[[nn.Module], None] = lambda prepared: None,
) -> nn.Module:
    """qconfig, prepare, calibrate, convert; ``between`` may change the prepared model before calibration."""
    with quiet(), torch.no_grad():
        model.eval()
        if qconfig is not None or getattr(model, "qconfig", None) is None:
            model.qconfig = qconfig if qconfig is not None else tq.get_default_qconfig("x86")
        prepared = tq.prepare(model)
        between(prepared)
        for batch in batches:
            prepared(*batch)
        return tq.convert(prepared)


def quantize_aware(model: nn.Module, batches: Sequence[tuple[Any, ...]], qconfig: Any = None) -> nn.Module:
    """qconfig, prepare_qat, forward passes in train mode, convert."""
    with quiet(), torch.no_grad():
        model.train()
        model.qconfig = qconfig if qconfig is not None else tq.get_default_qat_qconfig("x86")
        prepared = tq.prepare_qat(model)
        for batch in batches:
            prepared(*batch)
        return tq.convert(prepared.eval())


def quantize_fx(model: nn.Module, batches: Sequence[tuple[Any, ...]]) -> nn.Module:
    """prepare_fx with the default mapping, calibrate, convert_fx."""
    with quiet(), torch.no_grad():
        prepared = prepare_fx(model.eval(), tq.get_default_qconfig_mapping("x86"), batches[0])
        for batch in batches:
            prepared(*batch)
        return convert_fx(prepared)


def batch_of(inputs: Sequence[Any], generator: torch.Generator) -> tuple[Any, ...]:
    """Fresh data for the ``inputs`` of a run description."""
    counter = iter(range(1000))

    def build(entry: Any) -> Any:
        if isinstance(entry, list):
            return torch.randn(*entry, generator=generator) * 3.0 ** next(counter)
        if "list" in entry:
            return [build(item) for item in entry["list"]]
        if "dict" in entry:
            return {key: build(item) for key, item in entry["dict"].items()}
        if "indices" in entry:
            return torch.randint(0, entry["below"], entry["indices"], generator=generator)
        return entry["value"]

    return tuple(build(entry) for entry in inputs)


@contextlib.contextmanager
def loaded(texts: Mapping[str, str], folder: Path) -> Iterator[ModuleType]:
    """Write the files of a case and import its last one."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    builtins.reveal_quant = lambda value: value  # type: ignore[attr-defined]
    try:
        main = folder / list(texts)[-1]
        spec = importlib.util.spec_from_file_location(_MAIN, main)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[_MAIN] = module
        with quiet():
            spec.loader.exec_module(module)
        yield module
    finally:
        del builtins.reveal_quant  # type: ignore[attr-defined]
        for name in [name for name in set(sys.modules) - before if name == _MAIN or _is_in(folder, sys.modules[name])]:
            del sys.modules[name]
        sys.path.remove(str(folder))


def _is_in(folder: Path, module: ModuleType) -> bool:
    """Is a module, or a package without a file of its own, in a folder?"""
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", ())]
    return any(place.startswith(str(folder)) for place in places)


def run(texts: Mapping[str, str], folder: Path, description: Mapping[str, Any]) -> Seen:
    """Run a case as its description says."""
    seen = Seen()
    with loaded(texts, folder) as module:
        if "call" in description:
            function = getattr(module, description["call"])
            seen.add(_watched(function, _batches(description)[0], folder, None))
            return seen
        for build in _builders(module, description):
            torch.manual_seed(0)
            batches = _batches(description)
            try:
                converted = _converted(build(), batches, description)
            except Exception as error:  # what a mistake raises before or during convert
                seen.raised.append(_failure(error, folder))
                continue
            watched = _watched(converted, batches[0], folder, converted)
            seen.add(watched)
            if not watched.raised:
                seen.raised += _plain_run(converted, batches[0], folder)
    return seen


def _converted(model: nn.Module, batches: list[tuple[Any, ...]], description: Mapping[str, Any]) -> nn.Module:
    if description.get("workflow") == "fx":
        return quantize_fx(model, batches)
    if description.get("mode") == "qat":
        return quantize_aware(model, batches)
    return quantize(model, batches)


def _builders(module: ModuleType, description: Mapping[str, Any]) -> Iterator[Callable[[], nn.Module]]:
    if "make" in description:
        yield getattr(module, description["make"])
        return
    for name in description.get("nets", ["Net"]):
        for arguments in description.get("init", [[]]):
            yield lambda name=name, arguments=arguments: getattr(module, name)(*arguments)


def _batches(description: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [batch_of(description["inputs"], generator) for _ in range(3)]


def _watched(call: Callable[..., Any], batch: tuple[Any, ...], folder: Path, model: nn.Module | None) -> Seen:
    """One call with notes taken; a stub that meets a quantized tensor hands it on instead of raising.

    Stubs are told apart by scale and zero point: convert makes two modules of one stub under two parents.
    """
    seen = Seen()
    calls: dict[tuple[float, int], list[tuple[Place, torch.Tensor]]] = {}
    original = nnq.Quantize.forward

    def forward(stub: nnq.Quantize, tensor: torch.Tensor) -> torch.Tensor:
        place = _place(sys._getframe(1), folder)
        if tensor.is_quantized:
            seen.quantized_twice.add(place)
            return tensor
        calls.setdefault((float(stub.scale), int(stub.zero_point)), []).append((place, tensor))
        return original(stub, tensor)

    def reveal(value: Any) -> Any:
        place = _place(sys._getframe(1), folder)
        seen.revealed.append((place, _snapshot(value), model))
        return value

    nnq.Quantize.forward = forward
    builtins.reveal_quant = reveal  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings(record=True) as caught, torch.no_grad():
            warnings.simplefilter("always")
            call(*batch)
    except Exception as error:  # the message is what is looked at
        seen.raised.append(_failure(error, folder))
    finally:
        nnq.Quantize.forward = original
        builtins.reveal_quant = lambda value: value  # type: ignore[attr-defined]
    for warning in caught:
        if CAT_WARNING in str(warning.message):
            seen.cat_warnings.add((_name(warning.filename, folder), warning.lineno))
    for uses in calls.values():
        seen.stub_reused |= set(_reused(uses))
    return seen


def _snapshot(value: Any) -> Any:
    return [_snapshot(item) for item in value] if isinstance(value, list | tuple) else value


def shown(value: Any) -> str:
    """A run-time value in the words of the pages."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if not isinstance(value, torch.Tensor):
        return "-"
    if value.is_quantized:
        return f"quantized({value.q_scale():.6g}, {value.q_zero_point()})"
    return "float" if value.is_floating_point() else "integer"


def _reused(uses: Sequence[tuple[Place, torch.Tensor]]) -> Iterator[Place]:
    """The calls that bring one stub a tensor unlike an earlier one and not a part of the same tensor."""
    for index, (place, tensor) in enumerate(uses):
        if any(_different(tensor, earlier) for _, earlier in uses[:index]):
            yield place


def _different(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr():
        return False
    return left.shape != right.shape or not torch.equal(left, right)


def _plain_run(model: nn.Module, batch: tuple[Any, ...], folder: Path) -> list[tuple[str, Place | None]]:
    """The exception of an unwatched forward and the line of the case it came from, if there is one."""
    try:
        with quiet(), torch.no_grad():
            model(*batch)
    except Exception as error:  # the message is what is looked at
        return [_failure(error, folder)]
    return []


def _failure(error: Exception, folder: Path) -> tuple[str, Place | None]:
    """Type and text of an exception, and the innermost line of the case it came from, if there is one."""
    place = None
    trace = error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).is_relative_to(folder):
            place = (_name(trace.tb_frame.f_code.co_filename, folder), trace.tb_lineno)
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}", place


def _place(frame: FrameType | None, folder: Path) -> Place:
    """The innermost line of the case; a call that the library makes by itself has none."""
    while frame is not None:
        if Path(frame.f_code.co_filename).is_relative_to(folder):
            return _name(frame.f_code.co_filename, folder), frame.f_lineno
        frame = frame.f_back
    return "", 0


def _name(filename: str, folder: Path) -> str:
    path = Path(filename)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else filename


def agrees(text: str, value: Any, model: nn.Module | None) -> bool:
    """Is a run-time value one that the revealed text allows?"""
    return any(_agrees_with(each, value, model) for each in split(text, " | "))


def _agrees_with(text: str, value: Any, model: nn.Module | None) -> bool:
    if text == "unknown":
        return True
    if text.startswith("["):
        if not isinstance(value, list | tuple):
            return False
        parts = split(text[1:-1], ", ") if text != "[]" else []
        pairs = zip(parts, value, strict=False)
        return len(parts) == len(value) and all(agrees(part, item, model) for part, item in pairs)
    if not isinstance(value, torch.Tensor):
        return text == "-"
    if not text.startswith("quantized("):
        kind = "float" if value.is_floating_point() else "integer"
        return not value.is_quantized and text == kind
    return value.is_quantized and _same_scale(text[len("quantized(") : -1], value, model)


def _same_scale(text: str, value: torch.Tensor, model: nn.Module | None) -> bool:
    scale, zero_point = value.q_scale(), value.q_zero_point()
    if text.startswith("scale of "):
        if model is None:
            return True
        pattern = text.removeprefix("scale of ")
        owners = [module for name, module in model.named_modules(remove_duplicate=False) if fnmatchcase(name, pattern)]
        return any(_owns(owner, scale, zero_point) for owner in owners)
    if text == "unknown scale" or " of (" in text:
        return True
    number, _, zero = text.partition(", ")
    top, _, bottom = number.partition("/")
    return abs(scale - float(top) / float(bottom or 1)) < 1e-12 and zero_point == int(zero)


def _owns(module: nn.Module, scale: float, zero_point: int) -> bool:
    """Is it the module's scale? A ``*`` in a path stands for some child."""
    if not hasattr(module, "scale"):
        return False
    return math.isclose(scale, float(module.scale), rel_tol=1e-6) and zero_point == int(module.zero_point)


def split(text: str, separator: str) -> list[str]:
    """Split at a separator outside brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and text.startswith(separator, index):
            parts.append(text[start:index])
            start = index + len(separator)
    return [*parts, text[start:]]
