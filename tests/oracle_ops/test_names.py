"""The names of the torch eager table exist, and an alias names the same object."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.overrides import get_testing_overrides

from oracle_ops.running import named
from qlsp.backends.torch_eager import EAGER
from qlsp.ops.spec import OpSpec

ROW_NAMES = [name for row in EAGER.rows for name in (*row.functions, *row.modules)]
METHODS = [name for row in EAGER.rows for name in row.methods]
PACKAGES = (
    "torch.ao.quantization",
    "torch.quantization",
    "torch.ao.nn",
    "torch.nn.quantized",
    "torch.nn.intrinsic",
    "torch.nn.qat",
    "torch.nn.quantizable",
    "torch.nn.modules",
)
PRIVATE = (
    "._",
    ".fx.",
    "reference",
    "numeric_suite",
    "pt2e",
    "sparsity",
    "backend_config",
    "_mappings",
    "utils",
)


def imported(name: str) -> ModuleType | None:
    """A module of torch, None if the name is no module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def resolved(name: str) -> Any:
    """The object of a name: an attribute, else of the longest prefix that is a module (attributes hide
    submodules of the same name, ``torch.ao.quantization.quantize``)."""
    try:
        return named(name)
    except AttributeError:
        parent, _, last = name.rpartition(".")
        module = imported(parent)
        return getattr(module, last) if hasattr(module, last) else imported(name)


@pytest.mark.parametrize("name", ROW_NAMES)
def test_exists(name: str) -> None:
    """A spelling of a row is an object of torch and canonical."""
    assert callable(named(name))
    assert EAGER.canonical(name) == name


SIGNED = [
    (row, name)
    for row in EAGER.rows
    for name in row.functions
    if inspect.isfunction(named(name)) or name.startswith("torch.fft.")
]


@pytest.mark.parametrize(("row", "name"), SIGNED, ids=[name for _, name in SIGNED])
def test_parameters(row: OpSpec, name: str) -> None:
    """The parameters of a function written in Python are torch's, in order."""
    function = named(name)
    if name.startswith("torch.fft."):
        function = get_testing_overrides()[function]
    signature = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in signature):
        return
    names = [each.name for each in signature if each.kind is not each.KEYWORD_ONLY]
    names = ["input" if each == "self" else each for each in names]
    assert list(row.params[: len(names)]) == names[: len(row.params)]


def test_methods_exist() -> None:
    """Methods are methods of tensors."""
    assert all(hasattr(torch.Tensor, name) for name in METHODS)


def test_one_row_per_spelling() -> None:
    """No spelling has two rows."""
    for kind in ("functions", "methods", "modules", "functionals", "operators"):
        names = [name for row in EAGER.rows for name in getattr(row, kind)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize(("alias", "target"), EAGER.aliases)
def test_alias(alias: str, target: str) -> None:
    """Whatever a name below the alias is, its canonical name is the same object."""
    module = resolved(alias)
    if not isinstance(module, ModuleType):
        assert module is resolved(target)
        return
    compared = 0
    for name, value in vars(module).items():
        if name.startswith("_") or name in OWN_COPIES or isinstance(value, ModuleType):
            continue
        if not hasattr(resolved(target), name):
            continue
        compared += 1
        assert resolved(EAGER.canonical(f"{alias}.{name}")) is value
    assert compared


OWN_COPIES = {"default_eval_fn"}
"""Functions that the old namespace defines again."""


def public_names() -> list[str]:
    """Every public name of the quantization packages of torch, under every module that has it."""
    found = []
    for package in PACKAGES:
        root = imported(package)
        assert root is not None
        modules = [package, *(i.name for i in pkgutil.walk_packages(root.__path__, f"{package}."))]
        for module_name in modules:
            module = imported(module_name)
            if module is None or any(part in module_name for part in PRIVATE):
                continue
            names = [name for name in vars(module) if not name.startswith("_")]
            found += [f"{module_name}.{name}" for name in names]
    return found


def test_every_spelling_has_one_name() -> None:
    """Public spellings of one class or function of the table or of the life cycle have one canonical name."""
    wanted = {id(named(name)): name for row in EAGER.rows for name in row.modules}
    wanted |= {id(named(name)): name for name in EAGER.functional_classes}
    for name, value in vars(imported("torch.ao.quantization")).items():
        defined = getattr(value, "__module__", "")
        if callable(value) and str(defined).startswith("torch.ao.quantization"):
            wanted.setdefault(id(value), f"torch.ao.quantization.{name}")
    names: dict[tuple[int, str], set[str]] = {}
    for spelling in public_names():
        module, _, name = spelling.rpartition(".")
        value = getattr(imported(module), name)
        if id(value) in wanted:
            names.setdefault((id(value), name), set()).add(EAGER.canonical(spelling))
    assert len(names) > 150
    assert not [sorted(each) for each in names.values() if len(each) > 1]
