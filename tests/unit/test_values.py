"""The laws of the abstract values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qlsp.values.qparams import Dtype, FixedScale, ObservedScale, ObserverRef, QParams
from qlsp.values.state import DictObject, ListObject, State, merge
from qlsp.values.value import (
    MAX_OPTIONS,
    NO_GUARD,
    TOO_MANY,
    Choice,
    Const,
    Domain,
    Symbol,
    Tensor,
    TupleValue,
    Unknown,
    Value,
    choice,
    exclusive,
    feasible,
    join,
    options_of,
)

GUARDS = st.frozensets(st.tuples(st.integers(1, 3), st.integers(0, 1)), max_size=3)
SCALES = st.one_of(
    st.builds(FixedScale, st.sampled_from([1 / 256, 1 / 128]), st.sampled_from([0, 128])),
    st.builds(lambda owner: ObservedScale(ObserverRef(owner)), st.integers(1, 3)),
)
TENSORS = st.builds(
    lambda number, scale: Tensor(Domain.QUANTIZED, number, number, QParams(Dtype.QUINT8, scale)),
    st.integers(1, 4),
    SCALES,
)
PLAIN: st.SearchStrategy[Value] = st.one_of(
    TENSORS,
    st.builds(Const, st.sampled_from([None, True, 1, 1.0, "a"])),
    st.builds(Symbol, st.sampled_from(["torch.cat", "torch.add"])),
    st.builds(Unknown, st.sampled_from(["not followed", "too many alternatives"])),
    st.builds(lambda item: TupleValue((item,)), TENSORS),
)
VALUES = st.lists(st.tuples(GUARDS, PLAIN), min_size=1, max_size=4).map(choice)


@given(VALUES)
def test_join_is_idempotent(value: Value) -> None:
    assert join(value, value) == value


@given(VALUES, VALUES)
def test_join_is_commutative(left: Value, right: Value) -> None:
    assert join(left, right) == join(right, left)


@given(VALUES, VALUES, VALUES)
def test_join_is_associative(one: Value, two: Value, three: Value) -> None:
    assert join(join(one, two), three) == join(one, join(two, three))


@given(VALUES, VALUES)
def test_join_covers_both_sides(left: Value, right: Value) -> None:
    joined = join(left, right)
    covered = {option for _, option in options_of(joined)}
    if joined != TOO_MANY:
        assert {option for side in (left, right) for _, option in options_of(side)} == covered


def test_more_than_the_cap_becomes_unknown() -> None:
    values = [(NO_GUARD, Const(number)) for number in range(MAX_OPTIONS + 1)]
    assert isinstance(choice(values[:-1]), Choice)
    assert choice(values) == TOO_MANY


def test_constants_of_different_type_differ() -> None:
    assert Const(1) != Const(True)
    assert Const(1) != Const(1.0)
    assert Const(1) == Const(1)


def test_arms_of_one_branch_exclude_each_other() -> None:
    left, right = frozenset({(1, 0)}), frozenset({(1, 1), (2, 0)})
    assert exclusive(left, right)
    assert not exclusive(left, frozenset({(2, 0)}))
    assert not exclusive(NO_GUARD, right)


def test_feasible_drops_what_the_guard_rules_out() -> None:
    options = ((frozenset({(1, 0)}), Const("then")), (frozenset({(1, 1)}), Const("else")))
    assert feasible(options, frozenset({(1, 1)})) == [options[1]]


def test_a_merge_keeps_what_the_arms_decided() -> None:
    base = State({"x": Const(0)})
    left, right = base.fork((7, 1)), base.fork((7, 0))
    left.names["x"], right.names["x"] = Const(1), Const(2)
    merged = merge([left, right], base.guard)
    assert merged is not None
    value = merged.names["x"]
    assert isinstance(value, Choice)
    assert dict((option, guard) for guard, option in value.options) == {
        Const(1): frozenset({(7, 1)}),
        Const(2): frozenset({(7, 0)}),
    }
    assert merged.guard == base.guard


def test_lists_of_other_length_merge_to_unknown_length() -> None:
    left = State({}, {1: ListObject((Const(1),))})
    right = State({}, {1: ListObject((Const(1), Const(2)))})
    merged = merge([left, right], NO_GUARD)
    assert merged is not None
    assert merged.heap[1] == ListObject(None, choice([(NO_GUARD, Const(1)), (NO_GUARD, Const(2))]))


def test_dicts_merge_key_by_key() -> None:
    left = State({}, {1: DictObject((("a", Const(1)),))})
    right = State({}, {1: DictObject((("a", Const(1)), ("b", Const(2))))})
    merged = merge([left, right], NO_GUARD)
    assert merged is not None
    assert merged.heap[1] == DictObject((("a", Const(1)), ("b", Const(2))))
