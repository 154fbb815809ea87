"""The root class `Net`: how inputs come in, and how results leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.oracle.grammar import joins, statements
from tests.oracle.grammar.blocks import CHOICES, add_forward, write_body
from tests.oracle.grammar.core import BATCH, FLOAT, ClassText, Net, NotHere, Scope, Shape, SourceFile, Tensor, own
from tests.oracle.grammar.faults.plant import Fault, plant
from tests.oracle.grammar.joins import any_cat, listed

INPUT = (BATCH, 4, 8, 8)
RESHAPING = [f"stmt: {name}" for name in ("reshaping operator", "two reshaping operators", "cat of reshaped tensors")]


Opening = Callable[[Net], None]
Closing = Callable[[Net, Sequence[Tensor]], None]
OPENINGS: dict[str, Opening] = {}
CLOSINGS: dict[str, Closing] = {}
COMPLETE = ("output: tuple", "output: dictionary")
"""Closings that return every result."""
SCRIPTS: dict[str, Opening] = {}


def opening(name: str) -> Callable[[Opening], Opening]:
    def register(function: Opening) -> Opening:
        OPENINGS[f"input: {name}"] = function
        return function

    return register


def closing(name: str) -> Callable[[Closing], Closing]:
    def register(function: Closing) -> Closing:
        CLOSINGS[f"output: {name}"] = function
        return function

    return register


def script(name: str) -> Callable[[Opening], Opening]:
    def register(function: Opening) -> Opening:
        SCRIPTS[f"script: {name}"] = function
        return function

    return register


# -- inputs -------------------------------------------------------------------------------------------------


def _stub(net: Net, text: str, stem: str = "quant", shape: Shape = INPUT) -> Tensor:
    """A stub of its own applied to the float tensor `text`, as an expression."""
    name = net.scope.submodule("tq.QuantStub()", stem)
    return Tensor(f"self.{name}({text})", shape, own(name))


@opening("one tensor")
def one_tensor(net: Net) -> None:
    net.signature, net.shapes = "x", [INPUT]
    name = net.scope.submodule("tq.QuantStub()", "quant")
    net.scope.emit(f"x = self.{name}(x)")
    net.scope.keep(Tensor("x", INPUT, own(name)))


@opening("two tensors, a stub each")
def two_tensors(net: Net) -> None:
    net.signature, net.shapes = "image, depth", [INPUT, INPUT]
    for text in ("image", "depth"):
        name = net.scope.submodule("tq.QuantStub()", f"quant_{text}")
        net.scope.emit(f"{text} = self.{name}({text})")
        net.scope.keep(Tensor(text, INPUT, own(name)))


@opening("three tensors in one assignment")
def three_tensors(net: Net) -> None:
    net.signature, net.shapes = "a, b, c", [INPUT] * 3
    made = [_stub(net, text, f"quant_{text}") for text in "abc"]
    net.scope.emit(f"a, b, c = {', '.join(each.text for each in made)}")
    net.scope.keep(*(each.named(text) for each, text in zip(made, "abc", strict=True)))


@opening("star arguments and a ModuleList of stubs")
def star_inputs(net: Net) -> None:
    net.signature, net.shapes = "*inputs", [INPUT, INPUT]
    net.text.fresh("quants")
    net.text.add("self.quants = nn.ModuleList([tq.QuantStub() for _ in range(2)])")
    net.scope.emit("left, right = [quant(x) for quant, x in zip(self.quants, inputs)]")
    net.scope.fresh("left"), net.scope.fresh("right")
    net.scope.keep(Tensor("left", INPUT, own("quants", "0")), Tensor("right", INPUT, own("quants", "1")))


@opening("list of tensors")
def list_input(net: Net) -> None:
    net.signature, net.shapes, net.call = "images", [INPUT, INPUT], "list"
    made = [_stub(net, f"images[{index}]", stem) for index, stem in enumerate(("quant_first", "quant_second"))]
    for each, stem in zip(made, ("first_image", "second_image"), strict=True):
        net.scope.bind(each, stem)


@opening("dictionary of tensors")
def dict_input(net: Net) -> None:
    net.signature, net.shapes, net.call = "batch", [INPUT, INPUT], "dict"
    net.scope.bind(_stub(net, 'batch["t0"]', "quant_image"), "image")
    net.scope.bind(_stub(net, 'batch["t1"]', "quant_lidar"), "lidar")


@opening("stub inside a Sequential")
def stub_in_sequential(net: Net) -> None:
    net.signature, net.shapes = "x", [INPUT]
    net.text.fresh("stem")
    net.text.add("self.stem = nn.Sequential(tq.QuantStub(), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU())")
    net.scope.emit("feat = self.stem(x)")
    net.scope.fresh("feat")
    net.scope.keep(Tensor("feat", (BATCH, 8, 8, 8), own("stem", "1"), True))


@opening("float operators before the stub")
def float_before(net: Net) -> None:
    net.signature, net.shapes = "x, y", [INPUT, INPUT]
    net.scope.emit("x = (x - x.mean()) / (x.std() + 1e-5)", "y = F.normalize(y, dim=1)")
    for text in ("x", "y"):
        name = net.scope.submodule("tq.QuantStub()", f"quant_{text}")
        net.scope.emit(f"{text} = self.{name}({text})")
        net.scope.keep(Tensor(text, INPUT, own(name)))


@opening("float cat, then one stub")
def float_cat(net: Net) -> None:
    net.signature, net.shapes = "x, y", [INPUT, INPUT]
    name = net.scope.submodule("tq.QuantStub()", "quant")
    net.scope.emit(f"x = self.{name}(torch.cat([x, y], dim=1))")
    net.scope.keep(Tensor("x", (BATCH, 8, 8, 8), own(name)))


@opening("stubs on parts of one float tensor")
def float_parts(net: Net) -> None:
    net.signature, net.shapes = "x", [(BATCH, 8, 8, 8)]
    net.scope.emit("low, high = x.chunk(2, dim=1)")
    for text in ("low", "high"):
        name = net.scope.submodule("tq.QuantStub()", f"quant_{text}")
        net.scope.emit(f"{text} = self.{name}({text})")
        net.scope.keep(Tensor(text, INPUT, own(name)))


# -- results ------------------------------------------------------------------------------------------------


def _dequant(net: Net, tensor: Tensor) -> str:
    if not tensor.quantized:
        return tensor.text
    return f"self.{joins.dequant(net.scope)}({tensor.text})"


@closing("tensor")
def return_tensor(net: Net, results: Sequence[Tensor]) -> None:
    net.scope.emit(f"return {_dequant(net, results[0])}")


@closing("tensor after a head")
def return_head(net: Net, results: Sequence[Tensor]) -> None:
    result = results[0]
    scope = net.scope
    head = scope.submodule(f"nn.Linear({result.shape[-1]}, 3)", "head")
    scope.emit(f"logits = self.{head}({result.text})", f"logits = self.{joins.dequant(scope)}(logits)")
    scope.emit("return torch.softmax(logits, dim=-1)")


@closing("tuple")
def return_tuple(net: Net, results: Sequence[Tensor]) -> None:
    net.scope.emit(f"return {', '.join(_dequant(net, each) for each in results)}")


@closing("dictionary")
def return_dict(net: Net, results: Sequence[Tensor]) -> None:
    items = ", ".join(f'"out{index}": {_dequant(net, each)}' for index, each in enumerate(results))
    net.scope.emit(f"return {{{items}}}")


@closing("list comprehension that dequantizes")
def return_list(net: Net, results: Sequence[Tensor]) -> None:
    quantized = [each for each in results if each.quantized]
    name = joins.dequant(net.scope)
    net.scope.emit(f"return [self.{name}(out) for out in {listed(quantized)}]")


# -- what every closing gives way to ------------------------------------------------------------------------


def _leak(net: Net) -> None:
    """The model returns a quantized tensor."""
    assert net.leak is not None
    mark, x = net.leak
    net.scope.emit(f"{mark}return {x.text}")


# -- what else the file does --------------------------------------------------------------------------------


@script("none")
def no_script(net: Net) -> None:
    """The file defines the model only."""


@script("function that quantizes any model")
def quantize_function(net: Net) -> None:
    net.file.tail += [
        "",
        "",
        "def quantize(model, batches):",
        "    model.eval()",
        f'    model.qconfig = tq.get_default_qconfig("{net.file.engine}")',
        "    prepared = tq.prepare(model)",
        "    for batch in batches:",
        "        prepared(*batch)",
        "    return tq.convert(prepared)",
    ]


@script("main block that quantizes the model")
def main_block(net: Net) -> None:
    if net.call != "args":
        raise NotHere
    data = ", ".join(f"torch.randn{shape}" for shape in net.shapes)
    net.file.tail += [
        "",
        "",
        'if __name__ == "__main__":',
        "    net = Net().eval()",
        f'    net.qconfig = tq.get_default_qconfig("{net.file.engine}")',
        "    tq.prepare(net, inplace=True)",
        "    with torch.no_grad():",
        f"        net({data})",
        "    tq.convert(net, inplace=True)",
        "    print(net)",
    ]


# -- the class ----------------------------------------------------------------------------------------------


def flatten_leaves(scope: Scope) -> list[Tensor]:
    """What nothing has used yet, joined flat: every scale owner that is left meets in one call."""
    left = [each for each in scope.leaves.values() if each.quantized]
    if not left:
        return [scope.pick(rank=None)]
    flat = [_flat(each) for each in left]
    if len(flat) == 1:
        return left
    picked: list[Tensor] = []
    for each in flat:
        if not any(each.like(other) for other in picked):
            picked.append(each)
    scope.use(*left)
    names = [each.text for each in left]
    uniform = all(len(each.shape) > 1 for each in left) and len(picked) == len(left)
    seq = None
    if uniform and scope.rng.random() < 0.4:
        seq = f"[t.reshape({BATCH}, -1) for t in ({', '.join(names)})]"
    return [scope.bind(any_cat(scope, picked, seq), "merged")]


def _flat(tensor: Tensor) -> Tensor:
    if not tensor.shape:
        return replace(tensor, text=f"{tensor.text}.reshape(1, 1).repeat({BATCH}, 1)", shape=(BATCH, 1))
    width = tensor.size // BATCH
    return replace(tensor, text=f"{tensor.text}.reshape({BATCH}, -1)", shape=(BATCH, width))


def write_net(file: SourceFile, budget: int, planted: Fault | None) -> Net:
    """Write `Net` into `file`, with a mistake in it where one is given."""
    text = ClassText("Net", file, root=True)
    text.init.append(file.rng.choice(("super().__init__()", "super(Net, self).__init__()")))
    net = Net(file, text, Scope(file, text))
    key = file.choose(list(OPENINGS))
    OPENINGS[key](net)
    file.cover(key)
    write_body(net.scope, budget)
    statements.anything(net.scope, CHOICES)
    for _ in range(4):
        statements.anything(net.scope, RESHAPING)
    results = flatten_leaves(net.scope)
    if planted:
        made = plant(net, planted)
        results += [made] if made else []
    results += [each for each in net.scope.leaves.values() if each.origin == FLOAT]
    finish(net, results, everything=planted is not None)
    if not net.life:
        _write_script(net)
    return net


def finish(net: Net, results: Sequence[Tensor], *, everything: bool) -> None:
    """Write the end of `forward`, and the class and its life into the file."""
    _write_closing(net, results, everything=everything)
    add_forward(net.text, net.signature.split(", "), net.scope.lines)
    net.file.classes.append(net.text)
    if net.life:
        net.file.tail += net.life.lines()


def _write_closing(net: Net, results: Sequence[Tensor], *, everything: bool) -> None:
    """Return the results, or some of them."""
    if net.leak:
        _leak(net)
        return
    key = net.file.choose([each for each in CLOSINGS if not everything or each in COMPLETE])
    try:
        CLOSINGS[key](net, results)
    except NotHere:
        return_tensor(net, results)
    else:
        net.file.cover(key)


def _write_script(net: Net) -> None:
    key = net.file.choose(list(SCRIPTS))
    try:
        SCRIPTS[key](net)
    except NotHere:
        return
    net.file.cover(key)
