"""Rewriting a file in a way that changes no meaning must not change what is reported."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from mdtest import cases_of
from metamorphic import MAIN, REWRITERS, Line, Original, Rewrite, Rewriter
from scoring import check_texts, configuration, torch_cases

IMPORT_RULES = frozenset({"deprecated-namespace", "removed-name", "pt2e-import-moved"})
"""Rules about how names are imported: other imports, other findings."""


@cache
def originals() -> dict[str, tuple[str, tuple[str, ...], dict]]:
    """Label to text, settings and configuration table: the torch files, and Markdown cases of one file."""
    files = {case.path.stem: (case.text, case.settings, {}) for case in torch_cases()}
    for case in cases_of("rules"):
        unparsable = case.inputs is not None and case.inputs.get("skip") == "it does not parse"
        if len(case.files) == 1 and not unparsable:
            files[case.id] = (case.files[0].text, (), case.config)
    return files


@cache
def rewrites(rewriter: Rewriter) -> dict[str, Rewrite]:
    """Label to rewritten file, for the files that the rewriter applies to."""
    made = {label: rewriter(Original(text)) for label, (text, _, _) in originals().items()}
    return {label: rewrite for label, rewrite in made.items() if rewrite is not None}


@cache
def original_findings(label: str) -> Counter[tuple[str, int]]:
    text, settings, table = originals()[label]
    return Counter((name, row) for _, name, row in findings({MAIN: text}, settings, table))


def findings(texts: dict[str, str], settings: tuple[str, ...], table: dict) -> list[tuple[str, str, int]]:
    """(file, rule, row) of each finding, but for rules about imports."""
    found = check_texts(texts, configuration(settings, table))
    return [(item.path, item.name, item.row) for item in found if item.name not in IMPORT_RULES]


def mapped(rewrite: Rewrite, found: list[tuple[str, str, int]]) -> Counter[tuple[str, int | None]]:
    return Counter((name, rewrite.origin(path, row)) for path, name, row in found)


@pytest.mark.parametrize("rewriter", REWRITERS, ids=lambda rewriter: rewriter.__name__)
def test_rewrite_keeps_every_verdict(rewriter: Rewriter) -> None:
    differences = []
    for label, rewrite in rewrites(rewriter).items():
        _, settings, table = originals()[label]
        before = original_findings(label)
        after = mapped(rewrite, findings(rewrite.texts(), settings, table))
        differences += [f"{label}:{row} {name} is lost" for name, row in before - after]
        differences += [f"{label}:{row} {name} is new" for name, row in after - before]
    assert len(rewrites(rewriter)) >= 40
    assert not differences, "\n".join(["", *differences])


@pytest.mark.parametrize("rewriter", REWRITERS, ids=lambda rewriter: rewriter.__name__)
def test_rewritten_files_compile(rewriter: Rewriter) -> None:
    for label, rewrite in rewrites(rewriter).items():
        for name, content in rewrite.texts().items():
            compile(content, f"{label}/{name}", "exec")


SOURCE = '''\
# a header
import torch
from torch import nn
import torch.ao.quantization as tq
from torch.ao.nn.quantized import FloatFunctional

WIDTH = 4


class Block(nn.Module):
    """Doc."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 1)
        self.cat = FloatFunctional()

    def forward(self, x):
        return self.cat.cat([x, self.conv(x).relu()], 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.block = tq.QuantStub(), Block(WIDTH)

    def forward(self, x):
        return self.block(self.quant(x))


def build(backend="x86"):
    net = Net().eval()
    tq.fuse_modules(net, [["block.conv", "block"]])
    return tq.prepare(net)
'''


def rewritten(name: str) -> Rewrite:
    (rewriter,) = (each for each in REWRITERS if each.__name__ == name)
    rewrite = rewriter(Original(SOURCE))
    assert rewrite is not None
    return rewrite


def test_lines_keep_their_origin() -> None:
    rewrite = Rewrite({MAIN: (Line("a", 1), Line("b"), Line("c", 2))})
    assert rewrite.texts() == {MAIN: "a\nb\nc\n"}
    assert [rewrite.origin(MAIN, row) for row in (1, 2, 3, 4)] == [1, None, 2, None]


@pytest.mark.parametrize("rewriter", REWRITERS, ids=lambda rewriter: rewriter.__name__)
def test_every_code_line_of_the_sample_survives_once(rewriter: Rewriter) -> None:
    rewrite = rewriter(Original(SOURCE))
    assert rewrite is not None
    kept = Counter(line.origin for lines in rewrite.files.values() for line in lines if line.origin)
    rows = SOURCE.split("\n")
    wanted = {row for row, text in enumerate(rows, 1) if text.strip() and "import" not in text}
    assert {row for row in wanted if kept[row] != 1} == set()


def test_rename_touches_own_names_only() -> None:
    text = rewritten("rename").texts()[MAIN]
    assert "WIDTH" not in text and "Block" not in text and "self.conv" not in text
    assert ".cat([" in text and "self.cat" not in text and ".relu()" in text
    assert '"block' not in text and '"x86"' in text and "tq.fuse_modules" in text
    assert "def forward(self, " in text and "super().__init__()" in text


def test_split_moves_what_the_classes_need() -> None:
    texts = rewritten("split_classes").texts()
    assert "WIDTH = 4" in texts["blocks.py"] and "class Net" in texts["blocks.py"]
    assert "from blocks import Block, Net, WIDTH" in texts[MAIN] and "class" not in texts[MAIN]
    texts = rewritten("split_inner_classes").texts()
    assert "class Block" in texts["blocks.py"] and "class Net" in texts[MAIN]


def test_base_classes() -> None:
    text = rewritten("forward_in_base").texts()[MAIN]
    assert "class NetBase(nn.Module):\n    def forward(self, x):" in text and "class Net(NetBase):" in text
    text = rewritten("init_in_base").texts()[MAIN]
    assert "class BlockBase(nn.Module):\n    def __init__(self, width):" in text


def test_spellings() -> None:
    assert "torch.ao.quantization.QuantStub()" in rewritten("imports_fully_qualified").texts()[MAIN]
    text = rewritten("imports_module_alias").texts()[MAIN]
    assert "import torch.nn as z_torch_nn" in text and "z_torch_nn.Conv2d(width, width, 1)" in text
    text = rewritten("imports_name_alias").texts()[MAIN]
    assert "from torch.nn import Conv2d as z_Conv2d" in text and "z_Conv2d(width, width, 1)" in text
    text = rewritten("imports_old_namespace").texts()[MAIN]
    assert "torch.quantization.prepare(net)" in text and "torch.nn.quantized.FloatFunctional()" in text


BETWEEN = """\
from torch import nn


class Split(nn.Conv2d):
    def forward(self, x):
        return self.run(x)

    def run(self, x):
        return super().forward(x)
"""

PASSED_IN = """\
from torch import nn
import torch.ao.quantization as tq


class Net(nn.Module):
    pass


def train(net):
    return tq.prepare_qat(net)
"""


def test_a_method_that_another_one_passes_over_stays() -> None:
    (rewriter,) = (each for each in REWRITERS if each.__name__ == "forward_in_base")
    assert rewriter(Original(BETWEEN)) is None


def test_classes_that_the_rest_does_not_name_stay() -> None:
    (rewriter,) = (each for each in REWRITERS if each.__name__ == "split_classes")
    assert rewriter(Original(PASSED_IN)) is None
    assert rewriter(Original(PASSED_IN + "\n\ntrain(Net())\n")) is not None


def test_a_name_in_a_text_that_is_put_together_is_kept() -> None:
    text = SOURCE + '\n\ndef names(index):\n    return f"block.{index}.conv"\n'
    (rewriter,) = (each for each in REWRITERS if each.__name__ == "rename")
    rewrite = rewriter(Original(text))
    assert rewrite is not None
    assert "self.conv = " in rewrite.texts()[MAIN] and "self.cat" not in rewrite.texts()[MAIN]
