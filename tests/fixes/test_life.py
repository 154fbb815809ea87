"""What the fixes of the life-cycle rules write."""

from __future__ import annotations

from textwrap import dedent

import pytest
from contract import fixed_texts, problems
from scoring import configuration

from qlsp.diagnostics import Applicability
from qlsp.engine import check

HEAD = "import torch.ao.quantization as tq\nfrom torch import nn\n"
SAFE, UNSAFE, DISPLAY = Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY


def fixed(code: str, applicability: Applicability, settings: tuple[str, ...] = ()) -> str | None:
    """The code after the only fix of this kind, None where there is none; every fix keeps the contract."""
    texts = {"test.py": HEAD + dedent(code)}
    configs = configuration(settings)
    assert list(problems(texts, configs)) == []
    result = check(list(texts), configs, texts)
    fixes = [f for d in result.diagnostics for f in d.fixes if f.applicability is applicability]
    assert len(fixes) <= 1
    return fixed_texts(texts, fixes[0])["test.py"].removeprefix(HEAD) if fixes else None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tq.prepare(net)", "tq.prepare(net, inplace=True)"),
        ("tq.prepare(net,)", "tq.prepare(net, inplace=True,)"),
        ("tq.prepare(net, inplace=False)", "tq.prepare(net, inplace=True)"),
        ("tq.prepare(net, False)", "tq.prepare(net, True)"),
        ("tq.convert(net).eval()", "tq.convert(net, inplace=True).eval()"),
        ("tq.fuse_modules(net, [['0', '1']])", "tq.fuse_modules(net, [['0', '1']], inplace=True)"),
        ("tq.quantize_dynamic(net, {nn.Linear})", "tq.quantize_dynamic(net, {nn.Linear}, inplace=True)"),
        (
            "tq.convert(\n        net,  # the model\n    )",
            "tq.convert(\n        net, inplace=True,  # the model\n    )",
        ),
    ],
)
def test_result_ignored_works_in_place(before: str, after: str) -> None:
    code = f"def run(net):\n    {before}\n    return net\n"
    assert fixed(code, SAFE) == f"def run(net):\n    {after}\n    return net\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tq.prepare(net)\n    net.load_state_dict(state)", "tq.prepare(net, inplace=True)"),
        ("net.load_state_dict(state)\n    tq.fuse_modules(net, names)", "tq.fuse_modules(net, names, inplace=True)"),
        ("tq.fuse_modules(net, names)\n    save(net.state_dict())", "tq.fuse_modules(net, names, inplace=True)"),
    ],
)
def test_result_ignored_is_unsafe_where_checkpoints_have_the_names(before: str, after: str) -> None:
    code = f"def run(net, state, names):\n    {before}\n    return net\n"
    wanted = code.replace(after.replace(", inplace=True", ""), after)
    assert (fixed(code, SAFE), fixed(code, UNSAFE)) == (None, wanted)


@pytest.mark.parametrize(
    ("value", "applicability"),
    [("True", SAFE), ("None", SAFE), ("'all'", SAFE), ("0", SAFE), ("self.b", UNSAFE), ("share", UNSAFE)],
)
def test_an_attribute_that_may_register_a_module(value: str, applicability: Applicability) -> None:
    code = f"""\
    class Net(nn.Module):
        def __init__(self, share):
            super().__init__()
            self.a = nn.Conv2d(3, 3, 1)
            self.b = nn.Conv2d(3, 3, 1)
            self.a.share_observer = {value}
    """
    assert fixed(code, applicability) == dedent(code).replace(f"        self.a.share_observer = {value}\n", "")


FUSE = "tq.fuse_modules"
CONVS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.bn1, self.b, self.bn, self.relu = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 3, 1), \
            nn.BatchNorm2d(3), nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn(self.b(self.bn1(self.a(x)))))
"""


@pytest.mark.parametrize(
    ("second", "is_fixed"),
    [
        (f"{FUSE}(net, [['b', 'bn']])", True),
        (f"net = {FUSE}(net, [['a', 'bn1']])", False),
        (f"{FUSE}(net, names)", False),
        (f"{FUSE}(net, [['a', 'relu']])", False),
    ],
)
def test_result_ignored_does_not_fuse_twice(second: str, is_fixed: bool) -> None:
    body = f"    net = Net()\n    {FUSE}(net, [['a', 'bn1']])\n    {second}\n    return net\n"
    code = f"{CONVS}\n\ndef run(names):\n{body}"
    result = check(["test.py"], configuration(), {"test.py": HEAD + code})
    first = next(item for item in result.diagnostics if item.code == "QL303")
    assert bool(first.fixes) is is_fixed


def test_result_ignored_binds_in_fx() -> None:
    code = """\
    from torch.ao.quantization.quantize_fx import prepare_fx
    def run(net, mapping, example):
        prepare_fx(net, mapping, example)
        return net
    """
    wanted = dedent(code).replace("    prepare_fx(net", "    net = prepare_fx(net")
    assert fixed(code, SAFE) == wanted


@pytest.mark.parametrize("rest", ["pass", "return 1", "return len([1])", "holder.net = net"])
def test_result_ignored_does_not_bind_what_others_keep(rest: str) -> None:
    code = f"""\
    from torch.ao.quantization.quantize_fx import prepare_fx
    def run(holder, net, mapping, example):
        prepare_fx(net, mapping, example)
        {rest}
    """
    assert fixed(code, SAFE) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "net = tq.prepare(net)\nnet.qconfig = tq.default_qconfig\n",
            "net.qconfig = tq.default_qconfig\nnet = tq.prepare(net)\n",
        ),
        (
            "tq.prepare(net, inplace=True)\n\n# how\nnet.qconfig = tq.default_qconfig  # so\nnet(x)\n",
            "net.qconfig = tq.default_qconfig  # so\ntq.prepare(net, inplace=True)\n\n# how\nnet(x)\n",
        ),
        (
            "ready = tq.prepare(net)\nready.qconfig = tq.default_qconfig\nready(x)\n",
            "net.qconfig = tq.default_qconfig\nready = tq.prepare(net)\nready(x)\n",
        ),
    ],
)
def test_qconfig_after_prepare_moves(before: str, after: str) -> None:
    head = "def run(net, x):\n"
    lines = [f"    {line}" if line else line for line in before.splitlines()]
    wanted = [f"    {line}" if line else line for line in after.splitlines()]
    assert fixed("\n".join([head.rstrip(), *lines, ""]), SAFE) == "\n".join([head.rstrip(), *wanted, ""])


@pytest.mark.parametrize(
    "body",
    [
        "net = tq.prepare(net)\nbackend = x\nnet.qconfig = tq.get_default_qconfig(backend)",
        "net = tq.prepare(net)\nif x:\n    net.qconfig = tq.default_qconfig",
        "net = tq.prepare(net)\nfrom torch.ao.quantization import default_qconfig\nnet.qconfig = default_qconfig",
    ],
)
def test_qconfig_after_prepare_stays_where_something_stands_between(body: str) -> None:
    lines = [f"    {line}" for line in body.splitlines()]
    assert fixed("\n".join(["def run(net, x):", *lines, ""]), SAFE) is None


def test_missing_qconfig_takes_the_backend_of_the_project() -> None:
    code = """\
    def other(net):
        net.qconfig = tq.get_default_qconfig("qnnpack")
    def run():
        net = tq.QuantWrapper(nn.Linear(4, 4)).eval()
        return tq.prepare(net)
    """
    line = '    net.qconfig = tq.get_default_qconfig("qnnpack")\n    return tq.prepare'
    assert fixed(code, UNSAFE) == dedent(code).replace("    return tq.prepare", line)


@pytest.mark.parametrize(
    ("other", "value"),
    [
        ('net.qconfig = tq.get_default_qat_qconfig("qnnpack")', '{get}("qnnpack")'),
        ('BACKEND = "fbgemm"\ntorch.backends.quantized.engine = BACKEND', '{get}("fbgemm")'),
        (
            "def setup(net, backend: str = 'onednn'):\n    net.qconfig = tq.get_default_qconfig(backend)",
            '{get}("onednn")',
        ),
        ("net.qconfig = tq.{default}", "tq.{default}"),
        ("from torch.ao.quantization import {default}\nnet.qconfig = {default}", "tq.{default}"),
        ('net.qconfig = tq.get_default_qconfig("x86")\ntwo.qconfig = tq.get_default_qconfig("qnnpack")', None),
        ("net.qconfig = tq.get_default_qconfig(args.backend)", None),
        ('backend = "cuda"\nnet.qconfig = tq.get_default_qconfig(backend)', None),
        ("net.qconfig = tq.{opposite}", None),
        ("net.qconfig = tq.default_embedding_qat_qconfig", None),
    ],
)
@pytest.mark.parametrize("call", ["prepare", "prepare_qat"])
def test_missing_qconfig_takes_what_another_file_names(other: str, value: str | None, call: str) -> None:
    """In a method, on an attribute, in a block of its own indentation."""
    qat = call == "prepare_qat"
    kinds = ("default_qat_qconfig", "default_qconfig") if qat else ("default_qconfig", "default_qat_qconfig")
    code = HEAD + dedent(
        f"""\
        class Trainer:
            def __init__(self):
                self.model = tq.QuantWrapper(nn.Linear(4, 4))
            def run(self, ready):
              if ready:
                self.model.train()
                self.model = tq.{call}(self.model)
        """
    )
    names = {"default": kinds[0], "opposite": kinds[1]}
    texts = {"test.py": code, "other.py": "import torch\nimport torch.ao.quantization as tq\n" + other.format(**names)}
    result = check(list(texts), configuration(), texts)
    (fix,) = (fix for d in result.diagnostics if d.code == "QL301" for fix in d.fixes)
    get = "tq.get_default_qat_qconfig" if qat else "tq.get_default_qconfig"
    assert fix.applicability is (DISPLAY if value is None else UNSAFE)
    written = '{get}("x86")' if value is None else value
    line = f"        self.model.qconfig = {written.format(get=get, **names)}\n"
    indent = "        self.model = tq.prep"
    assert fixed_texts(texts, fix)["test.py"] == code.replace(indent, line + indent)


def test_missing_qconfig_takes_the_configured_backend_and_the_mode() -> None:
    code = """\
    net = tq.QuantWrapper(nn.Linear(4, 4)).train()
    net = tq.prepare_qat(net.train())
    """
    wanted = dedent(code).replace("net = tq.prep", 'net.qconfig = tq.get_default_qat_qconfig("fbgemm")\nnet = tq.prep')
    assert fixed(code, UNSAFE, ('qconfig-backend = "fbgemm"',)) == wanted
    assert fixed(code, UNSAFE) is None
    assert fixed(code, DISPLAY) == wanted.replace("fbgemm", "x86")


def test_missing_qconfig_is_not_put_before_a_comprehension() -> None:
    code = """\
    def run():
        nets = [tq.QuantWrapper(nn.Linear(4, 4)).eval(), tq.QuantWrapper(nn.Linear(4, 4)).eval()]
        return [tq.prepare(net) for net in nets]
    """
    assert fixed(code, UNSAFE, ('qconfig-backend = "x86"',)) is None


def test_stray_attribute_is_deleted() -> None:
    code = """\
    config = tq.get_default_qconfig("x86")
    config.share_observation = True
    def share(config=config):
        tq.default_qconfig.share_observer = True
    """
    texts = {"test.py": HEAD + dedent(code)}
    result = check(list(texts), configuration(), texts)
    first, second = (fix for d in result.diagnostics for fix in d.fixes)
    assert {first.applicability, second.applicability} == {SAFE}
    assert "config.share_observation" not in fixed_texts(texts, first)["test.py"]
    assert fixed_texts(texts, second)["test.py"].endswith("def share(config=config):\n    pass\n")


def test_stray_attribute_with_a_call_stays() -> None:
    code = """\
    def run(compute):
        tq.default_qconfig.share_observer = compute()
    """
    assert fixed(code, SAFE) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tq.default_qconfig()", "tq.default_qconfig"),
        ('tq.get_default_qconfig("x86")()', 'tq.get_default_qconfig("x86")'),
        ("(tq.default_qconfig)( )", "(tq.default_qconfig)"),
        ("tq.default_qconfig(backend)", None),
        ("tq.default_qconfig(  # why\n    )", None),
    ],
)
def test_qconfig_is_not_called(before: str, after: str | None) -> None:
    wanted = None if after is None else f"def run(net, backend):\n    net.qconfig = {after}\n"
    assert fixed(f"def run(net, backend):\n    net.qconfig = {before}\n", SAFE) == wanted


def test_qconfig_of_a_tensor_is_deleted() -> None:
    code = """\
    class Tagged(nn.Module):
        def forward(self, x):
            x.qconfig = tq.default_qconfig
            return x
    """
    assert fixed(code, UNSAFE) == dedent(code).replace("        x.qconfig = tq.default_qconfig\n", "")


def test_an_island_is_shown_with_a_functional() -> None:
    code = """\
    import torch
    class Island(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
            self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)
            self.again = tq.QuantStub()
            self.out = nn.Conv2d(8, 2, 1)
        def forward(self, x):
            x = self.quant(x)
            y = self.again(torch.cat([self.dequant(self.a(x)), self.dequant(self.b(x))], 1))
            return self.dequant(self.out(y))
    """
    after = fixed(code, DISPLAY)
    assert after is not None
    assert "y = self.cat.cat([self.a(x), self.b(x)], dim=1)\n" in after
    assert "self.cat = FloatFunctional()\n" in after


def trained(between: str) -> str:
    """A function that builds an optimizer, prepares the model and trains it."""
    lines = [
        "def train(net: nn.Module, batches):",
        "    net.qconfig = tq.default_qat_qconfig",
        *between.splitlines(),
        "    for batch in batches:",
        "        net(batch).sum().backward()",
        "        optimizer.step()",
    ]
    return "\n".join(lines) + "\n"


SGD = "    optimizer = torch.optim.SGD(\n        net.parameters(), lr=0.1,  # a rate\n    )  # for all\n"
PREPARE = "    net = tq.prepare_qat(net.train())\n"


def test_an_optimizer_is_built_for_the_copy() -> None:
    rest = "    batches = list(batches)\n"
    code = "import torch\n" + trained(SGD + rest + PREPARE)
    assert fixed(code, SAFE) == "import torch\n" + trained(rest + PREPARE + SGD)


@pytest.mark.parametrize(
    "between",
    [
        SGD + "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)\n" + PREPARE,
        SGD + "    for p in optimizer.param_groups:\n        print(p)\n" + PREPARE,
        "    if batches:\n    " + SGD.replace("\n", "\n    ").rstrip(" ") + PREPARE,
    ],
)
def test_an_optimizer_that_is_used_stays(between: str) -> None:
    assert fixed("import torch\n" + trained(between), SAFE) is None
