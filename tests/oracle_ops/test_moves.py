"""What the table of moved names says is so in the installed torch, and in torchao where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest
from examples import section

from qlsp.backends.spec import NameMove
from qlsp.backends.torch_moves import ELSEWHERE, MOVES, NAMESPACES, PT2E_MOVES, STARS
from qlsp.rules import pt2e_import_moved, removed_name

OWN = ("ABC", "default_eval_fn")
"""What an old namespace does not give on: what it imports for itself, and its own copy of a function."""


def exists(name: str) -> bool:
    """Is there a module or an attribute of this name?"""
    return found(name) is not None


def found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        parent, _, last = name.rpartition(".")
        try:
            return getattr(importlib.import_module(parent), last, None)
        except ImportError:
            return None


@pytest.mark.parametrize("namespace", NAMESPACES, ids=lambda each: each.old)
def test_every_public_name_of_an_old_namespace_is_the_one_of_the_new(namespace: Any) -> None:
    old, new = importlib.import_module(namespace.old), importlib.import_module(namespace.new)
    names = [name for name in vars(old) if not name.startswith("_") and not hasattr(vars(old)[name], "__path__")]
    shared = [name for name in names if not isinstance(vars(old)[name], type(old)) and name not in OWN]
    assert len(shared) > 2
    assert [name for name in shared if getattr(new, name, None) is not getattr(old, name)] == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_modules_that_are_elsewhere(name: str) -> None:
    home = ELSEWHERE[name]
    assert exists(name)
    assert home is None or exists(home)
    namespace = next(each for each in NAMESPACES if name.startswith(f"{each.old}."))
    assert not exists(namespace.new + name[len(namespace.old) :])


@pytest.mark.parametrize("move", MOVES, ids=lambda each: each.name)
def test_a_name_is_missing_and_its_home_has_it(move: NameMove) -> None:
    assert not exists(move.name)
    assert move.home is None or exists(move.home)


@pytest.mark.parametrize("move", PT2E_MOVES, ids=lambda each: each.name)
def test_torch_has_no_pt2e_quantization(move: NameMove) -> None:
    assert not exists(move.name)
    assert move.home is not None
    package = move.home.partition(".")[0]
    if importlib.util.find_spec(package) is not None:
        assert exists(move.home)


@pytest.mark.parametrize("star", STARS, ids=lambda each: each.name)
def test_a_star_import_raises(star: NameMove) -> None:
    kind, _, text = (star.error or "").partition(": ")
    with pytest.raises(AttributeError, match=text) as raised:
        exec(f"from {star.name} import *", {})
    assert type(raised.value).__name__ == kind
    package = importlib.import_module(star.home or "")
    assert [name for name in sorted(star.gives) if not hasattr(package, name)] == []


STATEMENTS = {
    removed_name: [
        "import torch; torch.quantization.fuse_modules_qat",
        "from torch.quantization import QConfigMapping",
        "from torch.ao.quantization import prepare_fx",
        "from torch.ao.quantization import *",
        "from torch.quantization import *",
    ],
    pt2e_import_moved: [
        "from torch.ao.quantization.quantize_pt2e import prepare_pt2e",
        "import torch.ao.quantization.quantizer",
        "from torch.ao.quantization.pt2e import utils",
        "from torch.ao.quantization import move_exported_model_to_eval",
    ],
}


@pytest.mark.parametrize("page", STATEMENTS, ids=lambda each: each.META.name)
def test_a_page_quotes_what_is_raised(page: Any) -> None:
    text = section(page.__doc__ or "", "Why it matters") or ""
    quoted = [line.strip() for line in text.split("\n") if line.startswith("    ")]
    raised = []
    for statement in STATEMENTS[page]:
        with pytest.raises((ImportError, AttributeError)) as error:
            exec(statement, {})
        raised.append(f"{type(error.value).__name__}: {error.value}".split(" (")[0])
    assert sorted(raised) == sorted(quoted)
