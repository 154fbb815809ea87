"""Recursion that leads nowhere: a function calls itself on values of which as little is known as before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from qlsp.values.state import DictObject, HeapObject, ListObject
from qlsp.values.value import (
    ClassValue,
    Const,
    FunctionValue,
    Ref,
    Symbol,
    TupleValue,
    Unknown,
    Value,
    options_of,
)

PLAIN = (Const, Symbol, ClassValue, FunctionValue)
"""What is the same for both calls if it is equal."""

Load = Callable[[Ref], HeapObject | None]
"""Gives the object that a reference points to."""


def leads_nowhere(outer: Sequence[Value], inner: Sequence[Value], load: Load) -> bool:
    """Does the inner call of a function get what the outer one got, with something unknown in it? A run of the inner
    one would end in the same call again."""
    return any(map(_is_unknown, inner)) and _all_same(outer, inner, load)


def _all_same(outer: Sequence[Value | None], inner: Sequence[Value | None], load: Load) -> bool:
    return len(outer) == len(inner) and all(_same(a, b, load) for a, b in zip_longest(outer, inner))


def _same(outer: Value | None, inner: Value | None, load: Load) -> bool:
    if isinstance(outer, PLAIN) or outer is None or inner is None:
        return outer == inner
    if _is_unknown(outer):
        return _is_unknown(inner)
    if isinstance(outer, TupleValue) and isinstance(inner, TupleValue):
        return _all_same(outer.items, inner.items, load)
    if isinstance(outer, Ref) and isinstance(inner, Ref) and outer != inner:
        return _same_objects(load(outer), load(inner), load)
    return False


def _same_objects(outer: HeapObject | None, inner: HeapObject | None, load: Load) -> bool:
    """Are two lists or dicts made for the calls alike? ``*args`` and ``**kwargs`` are."""
    if isinstance(outer, ListObject) and isinstance(inner, ListObject):
        return _all_same([*(outer.items or ()), outer.element], [*(inner.items or ()), inner.element], load)
    if isinstance(outer, DictObject) and isinstance(inner, DictObject):
        keys = [[key for key, _ in each.entries] for each in (outer, inner)]
        mine, theirs = ([*(value for _, value in each.entries), each.rest] for each in (outer, inner))
        return keys[0] == keys[1] and _all_same(mine, theirs, load)
    return False


def _is_unknown(value: Value | None) -> bool:
    return value is not None and all(isinstance(option, Unknown) for _, option in options_of(value))
