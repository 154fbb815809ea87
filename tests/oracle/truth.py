"""What torch does with a generated file: the cats of the converted model, input by input.

`observe(text, filename)` imports the text, and the other files of the program, builds `Net()`, gives it random weights,
and runs prepare, calibration, convert and one forward pass, or the function of the file that does so. Every call of the
cat family in that pass is recorded at the file, row and column of its call expression, with the calls that led to it
and the scale and zero point of each input.
"""

from __future__ import annotations

import copy
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.ao import quantization as tq
from torch.ao.nn import quantized as nnq
from torch.ao.quantization.observer import HistogramObserver
from torch.overrides import TorchFunctionMode

from tests.oracle.program import NO_FILES, Line, Place, Positions, Program, Step

CAT_WARNING = "All inputs of this cat operator must share the same quantization parameters"
CATS: dict[Any, str] = {
    getattr(torch, name): f"torch.{name}"
    for name in ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")
}
RANGES = (1.0, 2.4, 0.45)
CALIBRATION = 2

Shape = tuple[int, ...]
QParams = tuple[float, int]
Label = QParams | tuple[QParams, ...]
"""Scale and zero point of an input, or those of several runs."""


@dataclass(frozen=True)
class Cat:
    """One executed call of the cat family; an input is None where it was float."""

    place: Place
    path: tuple[Step, ...]
    spelling: str
    inputs: tuple[Label | None, ...]


@dataclass(frozen=True)
class StubCall:
    """One executed call of a converted QuantStub."""

    place: Place
    path: tuple[Step, ...]
    stub: str
    on_quantized: bool
    storage: int


@dataclass(frozen=True)
class Failure:
    """An exception: in which phase, its type and first line, and file and row of the program's innermost frame."""

    phase: str
    kind: str
    message: str
    row: int | None
    file: str = ""

    @property
    def line(self) -> tuple[str, int | None]:
        return self.file, self.row


@dataclass
class Truth:
    """What was observed."""

    cats: list[Cat] = field(default_factory=list)
    stubs: list[StubCall] = field(default_factory=list)
    warned: list[Line] = field(default_factory=list)
    failure: Failure | None = None
    expected: list[torch.Tensor] = field(default_factory=list)
    actual: list[torch.Tensor] = field(default_factory=list)


# -- recording ----------------------------------------------------------------------------------------------


def qparams(tensor: torch.Tensor) -> QParams | None:
    """Scale, rounded to the float32 kernels compute in, and zero point; None for a float tensor."""
    if not tensor.is_quantized:
        return None
    return float(np.float32(tensor.q_scale())), int(tensor.q_zero_point())


class Recorder(TorchFunctionMode):
    """Records cats and stub calls while it is entered."""

    def __init__(self, positions: Positions, truth: Truth, stubs: dict[int, str]) -> None:
        super().__init__()
        self.positions = positions
        self.truth = truth
        self.stubs = stubs
        self.caught: list[warnings.WarningMessage] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        caller = sys._getframe(1)
        if func not in CATS or not self._counts(caller):
            return func(*args, **kwargs)
        cat = self._record(caller, CATS[func], args[0] if args else kwargs["tensors"])
        before = len(self.caught)
        result = func(*args, **kwargs)
        if any(CAT_WARNING in str(each.message) for each in self.caught[before:]):
            self.truth.warned.append(cat.place.line)
        return result

    def _counts(self, caller: FrameType) -> bool:
        """Whether the program itself calls: library modules join and quantize tensors of their own."""
        return caller.f_code.co_filename in (*self.positions.files, FUNCTIONAL_FILE)

    def _record(self, frame: FrameType, spelling: str, tensors: Sequence[torch.Tensor]) -> Cat:
        frames = self.positions.stack(frame)
        place, path = self.positions.call(frames[0]), self.positions.path(frames)
        cat = Cat(place, path, spelling, tuple(qparams(each) for each in tensors))
        self.truth.cats.append(cat)
        return cat

    def functional_cat(self, module: nnq.QFunctional, x: list[torch.Tensor], dim: int = 0) -> torch.Tensor:
        """Stands in for `QFunctional.cat`."""
        if self._counts(sys._getframe(2)):
            self._record(sys._getframe(2), "FloatFunctional.cat", x)
        return QFUNCTIONAL_CAT(module, x, dim)

    def quantize(self, module: nnq.Quantize, x: torch.Tensor) -> torch.Tensor:
        """Stands in for `Quantize.forward`."""
        name = self.stubs.get(id(module))
        if name is not None:
            frames = self.positions.stack(sys._getframe(2))
            place, path = self.positions.call(frames[0]), self.positions.path(frames)
            storage = 0 if x.is_quantized else x.data_ptr()
            self.truth.stubs.append(StubCall(place, path, name, x.is_quantized, storage))
        return QUANTIZE_FORWARD(module, x)


FUNCTIONAL_FILE = nnq.FloatFunctional.cat.__code__.co_filename
QFUNCTIONAL_CAT = nnq.QFunctional.cat
QUANTIZE_FORWARD = nnq.Quantize.forward


@contextmanager
def recording(model: nn.Module, positions: Positions, truth: Truth) -> Iterator[None]:
    """Record what the converted `model` does."""
    recorder = Recorder(positions, truth, stubs_of(model))
    nnq.QFunctional.cat = lambda module, x, dim=0: recorder.functional_cat(module, x, dim)  # type: ignore[method-assign]
    nnq.Quantize.forward = lambda module, x: recorder.quantize(module, x)  # type: ignore[method-assign]
    try:
        with warnings.catch_warnings(record=True) as recorder.caught, recorder:
            warnings.simplefilter("always")
            yield
    finally:
        nnq.QFunctional.cat = QFUNCTIONAL_CAT  # type: ignore[method-assign]
        nnq.Quantize.forward = QUANTIZE_FORWARD  # type: ignore[method-assign]


def stubs_of(model: nn.Module) -> dict[int, str]:
    """The converted stubs of the file's own modules, by identity."""
    return {
        id(stub): f"{path}.{name}".removeprefix(".")
        for path, module in model.named_modules()
        if not type(module).__module__.startswith("torch.ao")
        for name, stub in module.named_children()
        if isinstance(stub, nnq.Quantize)
    }


# -- running ------------------------------------------------------------------------------------------------


def randomize(model: nn.Module, generator: torch.Generator) -> None:
    """Give every parameter and buffer continuous values of a sane size, as training would.

    Copies made by `deepcopy` part ways, and normalization layers do not stay the identity.
    """
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if name.endswith("running_var"):
            value = noise.abs() + 0.5
        elif tensor.dim() > 1:
            value = noise / math.sqrt(tensor[0].numel())
        elif name.endswith("weight"):
            value = 1 + 0.2 * noise
        else:
            value = 0.3 * noise
        tensor.data.copy_(value)


def inputs(shapes: Sequence[Shape], call: str, generator: torch.Generator, gain: float) -> tuple[Any, ...]:
    """The arguments of one forward pass; inputs differ in range."""
    tensors = [
        gain * RANGES[index % len(RANGES)] * torch.randn(shape, generator=generator) + 0.1 * index
        for index, shape in enumerate(shapes)
    ]
    if call == "list":
        return (tensors,)
    if call == "dict":
        return ({f"t{index}": tensor for index, tensor in enumerate(tensors)},)
    return tuple(tensors)


def observe(
    text: str,
    filename: str,
    *,
    shapes: Sequence[Shape],
    call: str = "args",
    engine: str = "x86",
    seed: int = 0,
    gain: float = 1.0,
    entry: str = "",
    batches: int = 1,
    main: str = "",
    others: Mapping[str, str] = NO_FILES,
) -> Truth:
    """Run the life of the model of `text` and record the converted forward pass.

    `main` and `others`: of a program of several files, the path of this one below the root, and the other files.

    `batches`: on how many inputs the results of the float and the converted model are taken. `entry` names a function
    of the file that takes batches and returns the converted model.
    """
    torch.set_num_threads(1)
    truth = Truth()
    program = Program(text, filename, main, others)
    positions = Positions(program)
    generator = torch.Generator().manual_seed(seed)
    phase = "import"
    try:
        with warnings.catch_warnings(), torch.no_grad(), fast_search():
            warnings.simplefilter("ignore")
            module = program.load()
            _randomized(module.Net, seed)
            phase = "build"
            model = module.Net().eval()
            phase = "float"
            arguments = inputs(shapes, call, generator, gain)
            more = [inputs(shapes, call, torch.Generator().manual_seed(n), gain) for n in range(1, batches)]
            for each in (arguments, *more):
                truth.expected += flat(model(*copy.deepcopy(each)))  # it may write into its inputs
            data = [inputs(shapes, call, generator, gain) for _ in range(CALIBRATION)]
            phase = "deploy"
            if entry:
                converted = getattr(module, entry)(data)
            else:
                model.qconfig = tq.get_default_qconfig(engine)
                phase = "prepare"
                prepared = tq.prepare(model, inplace=True)  # a copy would be the slowest part of the run
                phase = "calibrate"
                for batch in data:
                    prepared(*batch)
                phase = "convert"
                converted = tq.convert(prepared, inplace=True)
            phase = "converted"
            with recording(converted, positions, truth):
                truth.actual = flat(converted(*arguments))
            for each in more:
                truth.actual += flat(converted(*each))
    except Exception as error:
        truth.failure = failure(phase, error, program)
    return truth


def _randomized(kind: type[nn.Module], seed: int) -> None:
    """Give every new instance of `kind` the same random weights."""
    construct = kind.__init__

    def build(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        randomize(self, torch.Generator().manual_seed(seed))

    kind.__init__ = build  # type: ignore[method-assign]


def flat(value: Any) -> list[torch.Tensor]:
    """The tensors of a result, as floats."""
    if isinstance(value, torch.Tensor):
        return [value.dequantize().detach().clone()]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in flat(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in flat(item)]
    return []


def sqnr(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> float:
    """The signal to quantization noise ratio of all results together, in dB."""
    signal = sum(float(each.double().pow(2).sum()) for each in expected)
    noise = sum(float((a.double() - b.double()).pow(2).sum()) for a, b in zip(expected, actual, strict=True))
    return math.inf if noise == 0 else 10 * math.log10(max(signal, 1e-30) / noise)


def failure(phase: str, error: Exception, program: Program) -> Failure:
    """What went wrong, and where in the program."""
    row, file = None, ""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in program.files:
            row, file = trace.tb_lineno, program.files[trace.tb_frame.f_code.co_filename]
        trace = trace.tb_next
    message = (str(error).strip().splitlines() or [""])[0]
    return Failure(phase, type(error).__name__, message, row, file)


# -- speed --------------------------------------------------------------------------------------------------


def search_range(self: HistogramObserver) -> tuple[torch.Tensor, torch.Tensor]:
    """`HistogramObserver._non_linear_param_search` on plain numbers: same steps, a hundredth of the time."""
    histogram = self.histogram.double().numpy()
    width = (self.max_val.item() - self.min_val.item()) / self.bins
    sums = np.cumsum(histogram).tolist()
    total, step = sums[-1], 1e-5
    alpha, beta, start, end, best = 0.0, 1.0, 0, self.bins - 1, math.inf
    while alpha < beta:
        next_alpha, next_beta = alpha + step, beta - step
        left, right = start, end
        while left < end and sums[left] < next_alpha * total:
            left += 1
        while right > start and sums[right] > next_beta * total:
            right -= 1
        if left - start > end - right:
            next_start, next_end, alpha = left, end, next_alpha
        else:
            next_start, next_end, beta = start, right, next_beta
        if (next_start, next_end) == (start, end):
            continue
        error = _error(histogram, width, next_start, next_end, self.dst_nbins)
        if error > best:
            break
        best, start, end = error, next_start, next_end
    return self.min_val + width * start, self.min_val + width * (end + 1)


def _error(histogram: np.ndarray, width: float, start: int, end: int, levels: int) -> float:
    step = width * (end - start + 1) / levels
    if step == 0:
        return 0.0
    begins = (np.arange(len(histogram)) - start) * width
    ends = begins + width
    first = np.clip(begins // step, 0, levels - 1)
    last = np.clip(ends // step, 0, levels - 1)
    half = step / 2
    norm = _cube(begins - (first + 0.5) * step, half)
    norm += (last - first - 1) * _cube(-half, half)
    norm += _cube(-half, ends - (last * step + half))
    return float((histogram / width * norm).sum())


def _cube(low: Any, high: Any) -> Any:
    return (high * high * high - low * low * low) / 3


TORCH_SEARCH = HistogramObserver._non_linear_param_search


@contextmanager
def fast_search() -> Iterator[None]:
    """Use `search_range` in every histogram observer."""
    HistogramObserver._non_linear_param_search = search_range  # type: ignore[method-assign]
    try:
        yield
    finally:
        HistogramObserver._non_linear_param_search = TORCH_SEARCH  # type: ignore[method-assign]
