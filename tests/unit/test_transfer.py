"""Transfer functions on quantized, float, integer, unknown and mixed operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from qlsp.backends.torch_eager import EAGER
from qlsp.ops.spec import Application, Case, Observation, OpSpec, Outcome, Role, Shape
from qlsp.ops.transfer import constant_key, transfer
from qlsp.values.qparams import DerivedScale, Dtype, FixedScale, ObservedScale, ObserverRef, QParams
from qlsp.values.value import Domain, Origin, SpanId, Tensor, TupleValue, Unknown

ADD = EAGER.functionals["add"]
CAT = EAGER.functions["torch.cat"]
CONV = EAGER.modules["torch.nn.Conv2d"]
RELU = EAGER.functions["torch.relu"]


class Run:
    """Value numbers and tensors of one run."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[object, ...], int] = {}

    def number(self, key: tuple[object, ...]) -> int:
        """Equal keys, equal numbers."""
        return self.numbers.setdefault(key, len(self.numbers) + 100)

    def tensor(self, domain: Domain, number: int = 1, scale: object = None) -> Tensor:
        """A tensor; ``scale`` is the observer of a quantized one."""
        if domain is not Domain.QUANTIZED:
            return Tensor(domain, number, number)
        observed = ObservedScale(ObserverRef(int(str(scale or number))))
        return Tensor(domain, number, number, QParams(Dtype.QUINT8, observed), origin(number))

    def apply(
        self,
        spec: OpSpec,
        *inputs: Tensor,
        arguments: tuple[object, ...] = (),
        owner: int | None = None,
        converted: bool = False,
        outputs: int | None = None,
        at: int = 0,
    ) -> Outcome:
        """One call."""
        application = Application(spec, inputs, arguments, origin(at), self.number, owner, converted, outputs)
        return transfer(application)


def origin(ordinal: int) -> Origin:
    """A call site."""
    return Origin(SpanId("m.py", 0, ordinal), ())


@pytest.fixture(name="run")
def _run() -> Run:
    return Run()


@pytest.fixture(name="q")
def _q(run: Run) -> Tensor:
    return run.tensor(Domain.QUANTIZED, 1)


@pytest.fixture(name="r")
def _r(run: Run) -> Tensor:
    return run.tensor(Domain.QUANTIZED, 2)


@pytest.fixture(name="f")
def _f(run: Run) -> Tensor:
    return run.tensor(Domain.FLOAT, 3)


@pytest.fixture(name="u")
def _u(run: Run) -> Tensor:
    return run.tensor(Domain.UNKNOWN, 4)


@pytest.fixture(name="i")
def _i(run: Run) -> Tensor:
    return run.tensor(Domain.INTEGER, 5)


def tensor(outcome: Outcome) -> Tensor:
    """The result, which is one tensor."""
    assert isinstance(outcome.value, Tensor)
    return outcome.value


def items(outcome: Outcome) -> list[Tensor]:
    """The result, which is a tuple of tensors."""
    assert isinstance(outcome.value, TupleValue)
    members = outcome.value.items
    assert all(isinstance(member, Tensor) for member in members)
    return [member for member in members if isinstance(member, Tensor)]


def pair(name: str, value: object) -> tuple[object, ...]:
    """A constant argument."""
    return (name, constant_key(value))


# Stubs


STUB = EAGER.modules["torch.ao.quantization.QuantStub"]
UNSTUB = EAGER.modules["torch.ao.quantization.DeQuantStub"]


def test_stub_quantizes_with_its_observer(run: Run, f: Tensor) -> None:
    result = tensor(run.apply(STUB, f, owner=7, converted=True))
    assert result.domain is Domain.QUANTIZED
    assert result.qparams == QParams(Dtype.QUINT8, ObservedScale(ObserverRef(7)))
    assert (result.number, result.base) == (f.number, f.base)


def test_stub_that_convert_keeps_is_the_identity(run: Run, f: Tensor, q: Tensor) -> None:
    assert run.apply(STUB, f, owner=7) == Outcome(f)
    assert run.apply(STUB, q, owner=7) == Outcome(q)


def test_stub_on_quantized_raises(run: Run, q: Tensor) -> None:
    outcome = run.apply(STUB, q, owner=7, converted=True)
    assert outcome.value is q
    assert outcome.raises == STUB.raises is not None


def test_quantizing_function_takes_its_constants(run: Run, f: Tensor, q: Tensor) -> None:
    spec = EAGER.functions["torch.quantize_per_tensor"]
    arguments = (pair("scale", 0.5), pair("zero_point", 3), ("dtype", "torch.qint8"))
    result = tensor(run.apply(spec, f, arguments=arguments))
    assert result.qparams == QParams(Dtype.QINT8, FixedScale(0.5, 3))
    unknown = tensor(run.apply(spec, f, arguments=(("scale", ("fresh", 9)),)))
    assert unknown.qparams == QParams(Dtype.QUINT8, None)
    assert run.apply(spec, q).raises == spec.raises


@pytest.mark.parametrize("domain", list(Domain))
def test_dequantize_gives_float(run: Run, domain: Domain) -> None:
    before = run.tensor(domain)
    for owner, spec in ((8, UNSTUB), (None, EAGER.methods["dequantize"])):
        outcome = run.apply(spec, before, owner=owner, converted=owner is not None)
        result = tensor(outcome)
        assert outcome.raises is None
        assert (result.domain, result.dequantized) == (Domain.FLOAT, True)
        assert result.number == before.number
    assert run.apply(UNSTUB, before, owner=8) == Outcome(before)


# Classes that convert swaps


def test_module_has_its_own_scale(run: Run, q: Tensor, u: Tensor) -> None:
    for given in (q, u):
        outcome = run.apply(CONV, given, owner=5, converted=True)
        assert outcome.raises is None
        assert tensor(outcome).qparams == QParams(Dtype.QUINT8, ObservedScale(ObserverRef(5)))


def test_module_on_float_raises(run: Run, f: Tensor) -> None:
    outcome = run.apply(CONV, f, owner=5, converted=True)
    assert (
        outcome.raises
        == CONV.on_float
        == ("Could not run 'quantized::conv2d.new' with arguments from the 'CPU' backend")
    )
    assert tensor(outcome).domain is Domain.QUANTIZED


def test_module_behind_dequantize_stays_float(run: Run, f: Tensor) -> None:
    outcome = run.apply(CONV, replace(f, dequantized=True), owner=5, converted=True)
    assert outcome.raises == CONV.on_float
    assert tensor(outcome).domain is Domain.FLOAT
    assert tensor(outcome).dequantized


def test_float_class_on_quantized_raises(run: Run, q: Tensor) -> None:
    assert run.apply(CONV, q, owner=5).raises == CONV.raises
    without_bias = run.apply(CONV, q, owner=5, arguments=(pair("bias", False),))
    assert without_bias.raises == CONV.cases[0].raises
    by_position = run.apply(CONV, q, owner=5, arguments=(pair("7", False),))
    assert by_position.raises == CONV.cases[0].raises


def test_float_class_with_a_kernel_keeps_the_scale(run: Run, q: Tensor) -> None:
    spec = EAGER.modules["torch.nn.LeakyReLU"]
    assert tensor(run.apply(spec, q, owner=5)).qparams == q.qparams
    assert tensor(run.apply(spec, q, owner=5, converted=True)).qparams != q.qparams
    six = EAGER.modules["torch.nn.ReLU6"]
    assert tensor(run.apply(six, q, owner=5, converted=True)).qparams == q.qparams


def test_functional_cat_that_is_not_swapped_takes_the_first_scale(run: Run, q: Tensor, r: Tensor) -> None:
    spec = EAGER.functionals["cat"]
    assert tensor(run.apply(spec, q, r, owner=5)).qparams == q.qparams
    assert tensor(run.apply(spec, q, r, owner=5, converted=True)).qparams == QParams(
        Dtype.QUINT8, ObservedScale(ObserverRef(5))
    )


def test_functional_on_mixed_operands(run: Run, q: Tensor, f: Tensor) -> None:
    spec = EAGER.functionals["mul"]
    assert spec.mixed is not None
    behind = run.apply(spec, q, f, owner=5, converted=True)
    before = run.apply(spec, f, q, owner=5, converted=True)
    assert (behind.raises, before.raises) == spec.mixed
    assert tensor(behind).domain is tensor(before).domain is Domain.QUANTIZED


def test_functional_scalar_derives_the_scale(run: Run, q: Tensor, u: Tensor, f: Tensor) -> None:
    spec = EAGER.functionals["mul_scalar"]
    one = tensor(run.apply(spec, q, arguments=(pair("y", 2.0),), owner=5, converted=True))
    two = tensor(run.apply(spec, q, arguments=(pair("y", 2.0),), owner=6, converted=True))
    other = tensor(run.apply(spec, q, arguments=(pair("y", 3.0),), owner=7, converted=True))
    assert one.qparams == two.qparams != other.qparams
    assert one.qparams is not None and isinstance(one.qparams.scale, DerivedScale)
    unknown = tensor(run.apply(spec, u, owner=5, converted=True))
    assert (unknown.domain, unknown.qparams) == (Domain.QUANTIZED, QParams(Dtype.QUINT8, None))
    assert run.apply(spec, f, owner=5, converted=True).raises == spec.on_float


# Plain operators


def test_keeps_the_scale(run: Run, q: Tensor) -> None:
    result = tensor(run.apply(RELU, q))
    assert (result.qparams, result.origin) == (q.qparams, q.origin)
    assert result.number != q.number
    assert result.base == result.number


def test_views_keep_the_base(run: Run, q: Tensor) -> None:
    view = tensor(run.apply(EAGER.methods["view"], q, arguments=(pair("shape", -1),)))
    assert view.base == q.base
    assert view.number != q.number
    copy = tensor(run.apply(EAGER.methods["clone"], q))
    assert (copy.number, copy.base, copy.qparams) == (q.number, q.base, q.qparams)


def test_cat_takes_the_first_scale(run: Run, q: Tensor, r: Tensor, u: Tensor) -> None:
    assert tensor(run.apply(CAT, q, r)).qparams == q.qparams
    assert tensor(run.apply(CAT, r, q)).qparams == r.qparams
    first_unknown = tensor(run.apply(CAT, u, q))
    assert first_unknown.qparams == QParams(Dtype.QUINT8, None)
    assert run.apply(CAT, q, u).raises is None


def test_cat_of_mixed_operands_raises(run: Run, q: Tensor, f: Tensor) -> None:
    expected = "Could not run 'aten::qscheme' with arguments from the 'CPU' backend"
    assert run.apply(CAT, q, f).raises == run.apply(CAT, f, q).raises == expected


def test_fixed_scale(run: Run, q: Tensor) -> None:
    for spec in (EAGER.methods["sigmoid"], EAGER.modules["torch.nn.Sigmoid"]):
        assert tensor(run.apply(spec, q)).qparams == QParams(Dtype.QUINT8, FixedScale(1 / 256, 0))


def test_missing_kernel_gives_the_corrected_result(run: Run, q: Tensor, r: Tensor) -> None:
    spec = EAGER.operators["+"]
    first, again = run.apply(spec, q, r, at=1), run.apply(spec, q, r, at=2)
    assert first.raises == "Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend"
    assert tensor(first).domain is Domain.QUANTIZED
    assert tensor(first).qparams != tensor(again).qparams
    assert tensor(first).number == tensor(again).number
    softmax = run.apply(EAGER.methods["softmax"], q)
    assert softmax.raises is not None
    assert tensor(softmax).qparams == QParams(Dtype.QUINT8, FixedScale(1 / 256, 0))


def test_corrected_loss_and_cast_are_float(run: Run, q: Tensor, f: Tensor) -> None:
    for name in ("torch.nn.functional.huber_loss", "torch.Tensor.float"):
        outcome = run.apply(EAGER.functions[name], q, f)
        assert outcome.raises is not None
        assert (tensor(outcome).domain, tensor(outcome).dequantized) == (Domain.FLOAT, True)


@pytest.mark.parametrize(
    ("operator", "arguments", "expected"),
    [
        ("+", (("other", ("int", "1")),), "empty_strided"),
        ("-", (("input", ("int", "1")),), "empty_strided"),
        ("*", (("other", ("float", "2.0")),), "promoteTypes"),
        ("/", (("input", ("float", "1.0")),), "Could not run 'aten::reciprocal.out'"),
        ("**", (("exponent", ("int", "2")),), "Could not run 'aten::pow.Tensor_Scalar_out'"),
        ("+", (("other", ("fresh", 3)),), "Could not run 'aten::add.out'"),
        ("+", (), "Could not run 'aten::add.out'"),
    ],
)
def test_numbers_have_their_own_errors(
    run: Run, q: Tensor, operator: str, arguments: tuple[object, ...], expected: str
) -> None:
    assert (run.apply(EAGER.operators[operator], q, arguments=arguments).raises or "").startswith(expected)


def test_float_operand_beside_a_quantized_one(run: Run, q: Tensor, f: Tensor, i: Tensor) -> None:
    spec = EAGER.operators["*"]
    assert (run.apply(spec, q, f).raises or "").endswith("QUInt8 Float")
    assert (run.apply(spec, f, q).raises or "").endswith("Float QUInt8")
    assert (run.apply(spec, q, i).raises or "").startswith("promoteTypes")
    fill = EAGER.methods["masked_fill"]
    assert run.apply(fill, q, i).raises is None


@pytest.mark.parametrize("operator", ["+", "@", "<", "=="])
def test_float_operands_are_silent(run: Run, f: Tensor, u: Tensor, operator: str) -> None:
    for given in ((f, f), (f, u), (u, u)):
        assert run.apply(EAGER.operators[operator], *given).raises is None


def test_comparison_is_integer(run: Run, q: Tensor, f: Tensor) -> None:
    for given in ((q, q), (q, f), (f, f)):
        assert tensor(run.apply(EAGER.operators["<"], *given)).domain is Domain.INTEGER


def test_domains_without_quantized_operands(run: Run, f: Tensor, u: Tensor, i: Tensor) -> None:
    add, view = EAGER.operators["+"], EAGER.methods["view"]
    assert tensor(run.apply(add, f, f)).domain is Domain.FLOAT
    assert tensor(run.apply(add, f, i)).domain is Domain.FLOAT
    assert tensor(run.apply(add, f, u)).domain is Domain.UNKNOWN
    assert tensor(run.apply(add, i, i)).domain is Domain.UNKNOWN
    assert tensor(run.apply(view, i)).domain is Domain.INTEGER
    assert tensor(run.apply(EAGER.methods["float"], i)).domain is Domain.FLOAT
    assert tensor(run.apply(EAGER.modules["torch.nn.Embedding"], i, owner=5)).domain is Domain.FLOAT


def test_dequantized_is_passed_on(run: Run, f: Tensor) -> None:
    left = replace(f, dequantized=True)
    assert tensor(run.apply(EAGER.operators["+"], left, f)).dequantized
    assert not tensor(run.apply(EAGER.operators["+"], f, f)).dequantized


# Value numbers


def test_equal_calls_have_equal_numbers(run: Run, q: Tensor, r: Tensor) -> None:
    one = tensor(run.apply(ADD, q, r, owner=5, converted=True, at=1))
    two = tensor(run.apply(ADD, q, r, owner=6, converted=True, at=2))
    assert one.number == two.number
    assert one.qparams != two.qparams
    assert tensor(run.apply(ADD, r, q, owner=5, converted=True)).number != one.number


def test_modules_with_weights_differ(run: Run, q: Tensor) -> None:
    one = tensor(run.apply(CONV, q, owner=5, converted=True))
    two = tensor(run.apply(CONV, q, owner=6, converted=True))
    again = tensor(run.apply(CONV, q, owner=5, converted=True))
    assert one.number == again.number != two.number


def test_random_numbers_differ(run: Run, f: Tensor) -> None:
    spec = EAGER.functions["torch.randn_like"]
    assert tensor(run.apply(spec, f, at=1)).number != tensor(run.apply(spec, f, at=2)).number


def test_arguments_count(run: Run, q: Tensor) -> None:
    spec = EAGER.methods["flatten"]
    one = tensor(run.apply(spec, q, arguments=(pair("start_dim", 1),)))
    two = tensor(run.apply(spec, q, arguments=(pair("start_dim", 2),)))
    assert one.number != two.number


# Forms of the result


def test_max_has_three_forms(run: Run, q: Tensor, r: Tensor, u: Tensor) -> None:
    spec = EAGER.methods["max"]
    assert tensor(run.apply(spec, q)).qparams == q.qparams
    for name in ("dim", "axis"):
        values, indices = items(run.apply(spec, q, arguments=(pair(name, 1),)))
        assert values.qparams == q.qparams
        assert indices.domain is Domain.INTEGER
    assert run.apply(spec, q, r).raises == EAGER.methods["maximum"].raises
    assert isinstance(run.apply(spec, q, u).value, Unknown)
    assert run.apply(spec, q, u).raises is None


def test_parts(run: Run, q: Tensor) -> None:
    spec = EAGER.methods["chunk"]
    first, second = items(run.apply(spec, q, outputs=2))
    assert first.number != second.number
    assert first.base == second.base == q.base
    assert first.qparams == second.qparams == q.qparams
    assert tensor(run.apply(spec, q)).qparams == q.qparams


def test_each(run: Run, q: Tensor, r: Tensor) -> None:
    first, second = items(run.apply(EAGER.functions["torch.broadcast_tensors"], q, r))
    assert (first.qparams, second.qparams) == (q.qparams, r.qparams)
    assert (first.base, second.base) == (q.base, r.base)


def test_recurrent_and_attention(run: Run, q: Tensor) -> None:
    outcome = run.apply(EAGER.modules["torch.nn.LSTM"], q, owner=5, converted=True)
    assert isinstance(outcome.value, TupleValue)
    output, state = outcome.value.items
    assert isinstance(output, Tensor) and isinstance(state, TupleValue)
    assert output.qparams == QParams(Dtype.QUINT8, ObservedScale(ObserverRef(5)))
    attention = EAGER.modules["torch.nn.MultiheadAttention"]
    values, weights = items(run.apply(attention, q, q, q, owner=6, converted=True))
    assert values.qparams != weights.qparams == QParams(Dtype.QUINT8, None)


def test_numbers_are_unknown(run: Run, q: Tensor) -> None:
    assert isinstance(run.apply(EAGER.methods["size"], q).value, Unknown)
    numpy = run.apply(EAGER.methods["numpy"], q)
    assert isinstance(numpy.value, Unknown)
    assert numpy.raises == "Got unsupported ScalarType QUInt8"


def test_without_operands(run: Run) -> None:
    assert isinstance(run.apply(CAT).value, Unknown)


# Cases


def test_dropout_trains_by_default(run: Run, q: Tensor) -> None:
    spec = EAGER.functions["torch.nn.functional.dropout"]
    assert run.apply(spec, q).raises is not None
    assert run.apply(spec, q, arguments=(pair("training", True),)).raises is not None
    assert run.apply(spec, q, arguments=(pair("training", False),)).raises is None
    assert run.apply(spec, q, arguments=(("training", ("fresh", 1)),)).raises is None


def test_cast_changes_the_domain(run: Run, q: Tensor) -> None:
    spec = EAGER.methods["to"]
    assert tensor(run.apply(spec, q, arguments=(pair("dtype", "cuda"),))).qparams == q.qparams
    outcome = run.apply(spec, q, arguments=(("dtype", "torch.float32"),))
    assert outcome.raises is not None
    assert tensor(outcome).domain is Domain.FLOAT


def test_a_case_that_changes_the_form_must_be_decided(run: Run, q: Tensor) -> None:
    spec = EAGER.functions["torch.nn.functional.max_pool2d"]
    assert isinstance(run.apply(spec, q, arguments=(("return_indices", ("fresh", 1)),)).value, Unknown)
    assert tensor(run.apply(spec, q, arguments=(pair("return_indices", False),))).qparams == q.qparams


def test_true_is_no_one() -> None:
    case = Case("inplace", (True,), raises="in place")
    spec = OpSpec("f", Observation.SHARE, "a test", cases=(case,))
    run = Run()
    q = run.tensor(Domain.QUANTIZED)
    assert run.apply(spec, q, arguments=(pair("inplace", True),)).raises == "in place"
    assert run.apply(spec, q, arguments=(pair("inplace", 1),)).raises is None
    assert run.apply(spec, q, arguments=(pair("inplace", None),)).raises is None


# All rows


def sizes(row: OpSpec) -> range:
    """Possible numbers of operands."""
    return range(1, 4) if row.sequence else range(1, min(len(row.tensors), 3) + 1)


ROWS = pytest.mark.parametrize("row", EAGER.rows, ids=lambda row: row.op)


@ROWS
def test_unknown_is_silent(row: OpSpec) -> None:
    """No error without a quantized operand, unless convert swaps the class."""
    run = Run()
    for domain in (Domain.UNKNOWN, Domain.FLOAT, Domain.INTEGER):
        for size in sizes(row):
            given = [run.tensor(domain, number) for number in range(1, size + 1)]
            owner = 5 if row.modules or row.functionals else None
            assert run.apply(row, *given, owner=owner).raises is None
            if domain is not Domain.FLOAT:
                assert run.apply(row, *given, owner=owner, converted=owner is not None).raises is None


@ROWS
@pytest.mark.parametrize("converted", [False, True])
def test_quantized_operands_give_a_known_result(row: OpSpec, converted: bool) -> None:
    """The result of quantized operands has a known domain; an error is one of the row's texts."""
    run = Run()
    texts = {row.raises, row.on_float, *(row.mixed or ()), *(case.raises for case in row.cases), None}
    owner = 5 if row.modules or row.functionals else None
    for size in sizes(row):
        given = [run.tensor(Domain.QUANTIZED, number) for number in range(1, size + 1)]
        outcome = run.apply(row, *given, owner=owner, converted=converted and owner is not None)
        assert outcome.raises in texts
        for result in flat(outcome.value):
            assert result.domain is not Domain.UNKNOWN


def flat(value: object) -> list[Tensor]:
    """The tensors of a result."""
    if isinstance(value, TupleValue):
        return [each for item in value.items for each in flat(item)]
    return [value] if isinstance(value, Tensor) else []


@ROWS
def test_row_is_consistent(row: OpSpec) -> None:
    """What the fields of a row say fits together."""
    assert row.functions or row.methods or row.modules or row.functionals or row.operators
    assert row.source
    assert (row.fixed is not None) == (row.observation is Observation.FIXED) or row.role is Role.QUANTIZE
    assert not row.observed or row.modules or row.functionals
    assert row.on_float is None or row.swapped
    assert set(row.tensors) - {row.sequence, "other"} <= set(row.params)
    if row.observation is Observation.OWN and row.raises is None and row.shape is Shape.NEW:
        assert row.on_float or row.op == "copy_" or row.role


def test_spellings_by_kind() -> None:
    """The tables of the backend find rows by every kind of spelling."""
    tables: list[Callable[[], dict[str, OpSpec]]] = [
        lambda: EAGER.functions,
        lambda: EAGER.methods,
        lambda: EAGER.modules,
        lambda: EAGER.functionals,
        lambda: EAGER.operators,
    ]
    assert [len(table()) > 5 for table in tables] == [True] * 5
    assert EAGER.methods["relu_"] is EAGER.functions["torch.nn.functional.relu"]
    assert EAGER.functions["torch.Tensor.exp"] is EAGER.methods["exp_"]
