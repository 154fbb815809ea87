"""What a rule says about its fix is what it does."""

from __future__ import annotations

import re

import pytest
from examples import example, section

from qlsp.config import Config
from qlsp.diagnostics import Applicability
from qlsp.engine import check
from qlsp.fixing import fix_source
from qlsp.rules.api import Rule, all_rules

RULES = [rule for rule in all_rules() if rule.check is not None]
FIXABLE = [rule for rule in RULES if rule.fix is not None]
RANK = {"display": 0, "unsafe": 1, "safe": 2}


def unmarked(code: str) -> str:
    return re.sub(r"  # QL\d{3}$", "", code, flags=re.M)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.meta.name)
def test_meta_says_whether_there_is_a_fix(rule: Rule) -> None:
    assert (rule.meta.fix is not None) == (rule.fix is not None)
    assert rule.meta.fix in (None, *RANK)
    assert (section(rule.page, "Fix safety") is not None) == (rule.fix is not None)


@pytest.mark.parametrize("rule", FIXABLE, ids=lambda rule: rule.meta.name)
def test_the_bad_example_gets_the_best_fix_that_meta_names(rule: Rule) -> None:
    bad = example(rule, "Bad")
    assert bad is not None
    found = [d for d in check(["net.py"], Config(), {"net.py": bad}).diagnostics if d.code == rule.meta.code]
    best = max((RANK[fix.applicability.value] for d in found for fix in d.fixes), default=-1)
    assert rule.meta.fix is not None and best <= RANK[rule.meta.fix]
    assert found and all(d.fixes for d in found)


@pytest.mark.parametrize("rule", [r for r in FIXABLE if r.meta.fix == "safe"], ids=lambda rule: rule.meta.name)
def test_the_fix_makes_the_good_example_of_the_bad_one(rule: Rule) -> None:
    bad, good = example(rule, "Bad"), example(rule, "Good")
    assert bad is not None and good is not None
    fixed = fix_source(unmarked(bad), "net.py", Config()).texts.get("net.py")
    assert fixed == good


LATER = """
import torch
from torch import nn
from torch.ao.quantization import DeQuantStub, QuantStub


def join(*parts):
    return torch.cat(parts, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.other, self.dequant = QuantStub(), QuantStub(), DeQuantStub()
        self.conv, self.last = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)

    def forward(self, x, y):
        x, y = self.quant(x), self.conv(self.other(y))
        z = torch.cat([self.last(x), y], dim=1)
        return self.dequant({later})
"""


@pytest.mark.parametrize(
    ("later", "safe"),
    [
        ("z", True),
        ("torch.cat([z, y], dim=1)", True),
        ("join(z, y)", False),
        ("join(y, z)", True),
    ],
)
def test_a_new_scale_that_decides_a_later_concatenation_is_safe_only_if_that_one_is_fixed(
    later: str, safe: bool
) -> None:
    text = LATER.replace("{later}", later)
    row = text.split("\n").index("        z = torch.cat([self.last(x), y], dim=1)") + 1
    result = check(["net.py"], Config(), {"net.py": text})
    found = [each for each in result.diagnostics if text[: each.place.span.start].count("\n") + 1 == row]
    assert len(found) == 1
    assert (found[0].fixes[0].applicability is Applicability.SAFE) is safe
