"""Operators of torch eager without a quantized kernel, with the error each of them raises.

The name in the first column is the aten operator that the dispatcher does not find.
"""

from __future__ import annotations

from qlsp.backends.torch_rows import (
    EMPTY_STRIDED,
    FLOAT_DTYPES,
    INTERNAL_ASSERT,
    NOT_QUANTIZED_DTYPE,
    PROMOTE,
    PROMOTE_MIXED,
    Mixed,
    aten,
    linalg,
    no_kernel,
    not_implemented,
    numbers,
    row,
)
from qlsp.ops.spec import Case, Observation, OpSpec, Role, Shape
from qlsp.values.qparams import FixedScale

OWN = Observation.OWN
NONE = Observation.NONE
BOTH = "input other"
PROBABILITY = FixedScale(1 / 256, 0)


def binary(
    op: str,
    spellings: str,
    raises: str,
    integer: str | None = EMPTY_STRIDED,
    floating: str | None = PROMOTE,
    left: Mixed = None,
    mixed: Mixed = PROMOTE_MIXED,
    first: tuple[Case, ...] = (),
    formerly: tuple[str, ...] = (),
) -> OpSpec:
    """Arithmetic of two tensors, or of a tensor and a number on either side."""
    on_left = left or (integer, floating)
    cases = (*first, *numbers("other", integer, floating), *numbers("input", *on_left))
    return row(op, spellings, OWN, BOTH, tensors=BOTH, raises=raises, mixed=mixed, formerly=formerly, cases=cases)


def before_structured(op: str) -> tuple[str, ...]:
    """The errors of arithmetic in torch up to 1.10, with a tensor and with a number.

    Sources: https://github.com/pytorch/pytorch/issues/35595, https://github.com/pytorch/pytorch/issues/89550,
    https://github.com/leimao/PyTorch-Quantization-Aware-Training/issues/6
    """
    return (
        aten(f"{op}.Tensor"),
        aten(f"{op}_.Tensor"),
        no_kernel(f"aten::{op}_.Tensor", "QuantizedCPUTensorId"),
        aten("empty_strided"),
        aten("empty.memory_format"),
    )


def pair(op: str, spellings: str, raises: str, mixed: Mixed = PROMOTE_MIXED, params: str = BOTH) -> OpSpec:
    """A function of two tensors."""
    return row(op, spellings, OWN, params, tensors=params, raises=raises, mixed=mixed)


NOT_COMPLEX = "Expected both inputs to be Half, Float or Double tensors but got"
RECIPROCAL = aten("reciprocal.out")
REMAINDER = aten("remainder.Scalar_Tensor")

ARITHMETIC = (
    binary("add", "add .add_ op:+ op:+= operator.add", aten("add.out"), formerly=before_structured("add")),
    binary(
        "sub",
        "sub subtract .sub_ .subtract_ op:- op:-= operator.sub",
        aten("sub.out"),
        formerly=before_structured("sub"),
    ),
    binary(
        "mul",
        "mul multiply .mul_ .multiply_ op:* op:*= operator.mul",
        aten("mul.out"),
        formerly=before_structured("mul"),
    ),
    binary("rsub", "torch.rsub", aten("rsub.Tensor"), left=(None, None), mixed=None),
    binary(
        "div",
        "div divide .div_ .divide_",
        aten("div.out"),
        left=(None, None),
        first=(Case("rounding_mode", ("floor", "trunc"), raises=aten("div.out_mode")),),
        formerly=before_structured("div"),
    ),
    binary(
        "div",
        "true_divide .true_divide_ op:/ op:/= operator.truediv",
        aten("div.out"),
        left=(RECIPROCAL, RECIPROCAL),
        formerly=before_structured("div"),
    ),
    binary(
        "floor_divide",
        "floor_divide op:// operator.floordiv",
        aten("floor_divide"),
        None,
        None,
        mixed=None,
    ),
    binary(
        "floor_divide_in_place", ".floor_divide_ op://=", aten("floor_divide_.Tensor"), None, None, mixed=None
    ),
    binary(
        "remainder",
        "remainder .remainder_ op:% op:%= operator.mod",
        aten("remainder.Tensor_out"),
        left=(REMAINDER, REMAINDER),
    ),
    binary("fmod", "fmod .fmod_", aten("fmod.Tensor_out"), left=(None, None)),
    row(
        "pow",
        "pow .pow_ op:** op:**= operator.pow",
        OWN,
        "input exponent",
        tensors="input exponent",
        raises=aten("pow.Tensor_Tensor_out"),
        mixed=PROMOTE_MIXED,
        cases=(
            *numbers("exponent", aten("pow.Tensor_Scalar_out"), PROMOTE),
            *numbers("input", aten("pow.Scalar_out"), PROMOTE),
        ),
    ),
    row(
        "float_power",
        "float_power",
        OWN,
        "input exponent",
        tensors="input exponent",
        raises=NOT_QUANTIZED_DTYPE,
    ),
    pair("matmul", "matmul linalg.matmul op:@ op:@= operator.matmul", aten("bmm.out"), None),
    pair("bmm", "bmm", aten("bmm.out"), None, "input mat2"),
    pair("mm", "mm", aten("mm.out"), None, "input mat2"),
    pair("dot", "dot", aten("dot"), None, "input tensor"),
    pair("vdot", "vdot", aten("vdot"), None),
    pair("outer", "outer ger", aten("mul.out"), params="input vec2"),
    pair("inner", "inner", aten("mm.out"), None),
    pair("kron", "kron", aten("mul.out")),
    row(
        "einsum",
        "torch.einsum",
        Observation.SHARE,
        "equation operand0 operand1 operand2 operand3",
        tensors="operand0 operand1 operand2 operand3",
        cases=(Case("operand1", raises=aten("bmm.out"), observation=OWN),),
    ),
    pair("mv", "mv", aten("addmv.out"), None, "input vec"),
    row("tensordot", "torch.tensordot", OWN, "a b dims", tensors="a b", raises=aten("mm.out")),
    pair("cross", "cross linalg.cross", aten("linalg_cross.out"), None),
    row("chain_matmul", "torch.chain_matmul", OWN, "a b c", tensors="a b c", raises=aten("mm.out")),
    row(
        "addbmm",
        "addbmm",
        OWN,
        "input batch1 batch2",
        tensors="input batch1 batch2",
        raises=aten("addbmm"),
    ),
    row(
        "baddbmm_",
        ".baddbmm_",
        OWN,
        "input batch1 batch2",
        tensors="input batch1 batch2",
        raises=aten("baddbmm.out"),
    ),
    row("addmv", "addmv", OWN, "input mat vec", tensors="input mat vec", raises=aten("addmv.out")),
    binary("xlogy", "xlogy .xlogy_ special.xlogy", aten("xlogy.OutTensor"), left=(None, None)),
    binary("copysign", "copysign .copysign_", aten("copysign.out"), left=(None, None)),
    pair("logaddexp2", "logaddexp2", aten("logaddexp2.out")),
    pair("ldexp", "ldexp .ldexp_", INTERNAL_ASSERT, None),
    pair("vecdot", "linalg.vecdot", linalg("linalg.vecdot"), None, "x y"),
    pair("solve", "linalg.solve", linalg("linalg.solve"), None, "A B"),
    pair("complex", "torch.complex", NOT_COMPLEX, None, "real imag"),
    pair("polar", "torch.polar", NOT_COMPLEX, None, "abs angle"),
    row(
        "addmm", "addmm .addmm_", OWN, "input mat1 mat2", tensors="input mat1 mat2", raises=aten("addmm.out")
    ),
    row(
        "baddbmm",
        "baddbmm",
        OWN,
        "input batch1 batch2",
        tensors="input batch1 batch2",
        raises=INTERNAL_ASSERT,
    ),
    row(
        "addcmul",
        "addcmul .addcmul_",
        OWN,
        "input tensor1 tensor2",
        tensors="input tensor1 tensor2",
        raises=aten("addcmul.out"),
        mixed=PROMOTE_MIXED,
    ),
    row(
        "addcdiv",
        "addcdiv .addcdiv_",
        OWN,
        "input tensor1 tensor2",
        tensors="input tensor1 tensor2",
        raises=aten("addcdiv.out"),
        mixed=PROMOTE_MIXED,
    ),
    row(
        "lerp",
        "lerp .lerp_",
        OWN,
        "input end weight",
        tensors="input end",
        raises=aten("lerp.Scalar_out"),
    ),
    pair("atan2", "atan2 arctan2 .atan2_ .arctan2_", aten("atan2.out")),
    pair("hypot", "hypot .hypot_", aten("hypot.out")),
    pair("logaddexp", "logaddexp", aten("logaddexp.out")),
    pair("maximum", "maximum", aten("maximum.out")),
    pair("minimum", "minimum", aten("minimum.out")),
    pair("fmax", "fmax", aten("fmax.out")),
    pair("fmin", "fmin", aten("fmin.out")),
    row(
        "where",
        "torch.where",
        OWN,
        "condition input other",
        tensors=BOTH,
        raises=aten("where.self"),
    ),
    row("where_method", ".where", OWN, "input condition other", tensors=BOTH, raises=aten("where.self")),
    row(
        "sum_of_list",
        "builtins.sum",
        OWN,
        "iterable start",
        tensors="iterable",
        sequence="iterable",
        raises=EMPTY_STRIDED,
    ),
)


def unary(op: str, kernel: str, spellings: str, params: str = "input", cases: tuple[Case, ...] = ()) -> OpSpec:
    """An elementwise function."""
    return row(op, spellings, OWN, params, raises=aten(kernel), cases=cases)


UNARY = (
    unary("neg", "neg.out", "neg negative neg_ negative_ op:-x operator.neg"),
    unary("abs", "abs.out", "abs absolute abs_ .absolute_ builtins.abs operator.abs"),
    unary("acos", "acos.out", "acos arccos acos_ arccos_"),
    unary("acosh", "acosh.out", "acosh arccosh acosh_ arccosh_"),
    unary("asin", "asin.out", "asin arcsin asin_ arcsin_"),
    unary("asinh", "asinh.out", "asinh arcsinh asinh_ arcsinh_"),
    unary("atan", "atan.out", "atan arctan atan_ arctan_"),
    unary("atanh", "atanh.out", "atanh arctanh atanh_ arctanh_"),
    unary("angle", "angle", "angle"),
    unary("ceil", "ceil.out", "ceil ceil_"),
    unary("cos", "cos.out", "cos cos_"),
    unary("cosh", "cosh.out", "cosh cosh_"),
    unary("deg2rad", "mul.out", "deg2rad deg2rad_"),
    unary("digamma", "digamma.out", "digamma .digamma_ special.digamma special.psi"),
    unary("erf", "erf.out", "erf erf_ special.erf"),
    unary("erfc", "erfc.out", "erfc erfc_ special.erfc"),
    unary("erfinv", "erfinv.out", "erfinv .erfinv_ special.erfinv"),
    unary("exp", "exp.out", "exp exp_"),
    unary("exp2", "exp2.out", "exp2 exp2_ special.exp2"),
    unary("expm1", "expm1.out", "expm1 expm1_ special.expm1"),
    unary("floor", "floor.out", "floor floor_"),
    unary("frac", "frac.out", "frac frac_"),
    unary("i0", "i0.out", "i0 i0_ special.i0"),
    unary("lgamma", "lgamma.out", "lgamma .lgamma_ special.gammaln"),
    unary("log", "log.out", "log log_"),
    unary("log10", "log10.out", "log10 log10_"),
    unary("log1p", "log1p.out", "log1p log1p_ special.log1p"),
    unary("log2", "log2.out", "log2 log2_"),
    unary("logit", "logit", "logit special.logit", "input eps"),
    unary("logit_", "logit_", "logit_", "input eps"),
    unary("nan_to_num", "nan_to_num.out", "nan_to_num nan_to_num_", "input nan posinf neginf"),
    unary("rad2deg", "mul.out", "rad2deg rad2deg_"),
    unary("reciprocal", "reciprocal.out", "reciprocal reciprocal_"),
    row(
        "round",
        "round round_",
        OWN,
        raises=aten("round.out"),
        cases=(Case("decimals", (int,), raises=aten("round.decimals_out")),),
    ),
    row("isneginf", "isneginf", NONE, shape=Shape.INTEGER, raises=aten("isneginf.out")),
    row("isposinf", "isposinf", NONE, shape=Shape.INTEGER, raises=aten("isposinf.out")),
    unary("rsqrt", "rsqrt.out", "rsqrt rsqrt_"),
    unary("sgn", "sgn.out", "sgn .sgn_"),
    unary("sign", "sign.out", "sign .sign_"),
    unary("sin", "sin.out", "sin sin_"),
    unary("sinc", "sinc.out", "sinc sinc_ special.sinc"),
    unary("sinh", "sinh.out", "sinh sinh_"),
    unary("sqrt", "sqrt.out", "sqrt sqrt_"),
    unary("square", "pow.Tensor_Scalar_out", "square square_"),
    unary("tan", "tan.out", "tan tan_"),
    unary("trunc", "trunc.out", "trunc fix trunc_ fix_"),
    unary("clamp_in_place", "clamp.out", "clamp_ clip_", "input min max"),
    unary("clamp_max", "clamp_max.out", "clamp_max clamp_max_", "input max"),
    unary("clamp_min", "clamp_min.out", "clamp_min clamp_min_", "input min"),
    row("sigmoid_", "sigmoid_", Observation.FIXED, fixed=PROBABILITY, raises=aten("sigmoid.out")),
    row("tanh_", "tanh_", Observation.FIXED, fixed=FixedScale(1 / 128, 128), raises=aten("tanh.out")),
    row(
        "invert",
        "op:~x operator.invert",
        OWN,
        raises="~ (operator.invert) is only implemented on integer and Boolean-type tensors",
    ),
)


SOFTMAX_DTYPE = (Case("dtype", FLOAT_DTYPES, raises=NOT_QUANTIZED_DTYPE),)


def softmax(op: str, kernel: str, spellings: str, params: str = "input dim") -> OpSpec:
    """A softmax: probabilities have a fixed scale."""
    return row(
        op,
        spellings,
        Observation.FIXED,
        params,
        tensors=params.split()[0],
        fixed=PROBABILITY,
        raises=aten(kernel),
        cases=SOFTMAX_DTYPE if op == "softmax" else (),
    )


ACTIVATIONS = (
    softmax("softmax", "_softmax.out", "softmax special.softmax F.softmax"),
    softmax("softmin", "neg.out", "F.softmin"),
    softmax("gumbel_softmax", "exponential_", "F.gumbel_softmax", "logits tau hard eps dim"),
    unary("log_softmax", "_log_softmax.out", "log_softmax special.log_softmax F.log_softmax", "input dim"),
    unary("elu", "elu.out", "F.elu F.elu_", "input alpha inplace"),
    unary("celu", "elu.out", "torch.celu torch.celu_ F.celu", "input alpha inplace"),
    unary("selu", "elu.out", "torch.selu torch.selu_ F.selu", "input inplace"),
    unary("silu", "silu.out", "F.silu", "input inplace"),
    unary("mish", "mish.out", "F.mish", "input inplace"),
    unary("softplus", "softplus.out", "F.softplus", "input beta threshold"),
    row(
        "hardswish",
        "F.hardswish",
        OWN,
        "input inplace",
        raises=aten("hardswish"),
        cases=(Case("inplace", (True,), raises=aten("hardswish_")),),
    ),
    unary("glu", "glu.out", "F.glu", "input dim"),
    unary("hardshrink", "hardshrink.out", "torch.hardshrink .hardshrink", "input lambd"),
    row("softshrink", "F.softshrink", OWN, "input lambd", raises=not_implemented("softshrink_check")),
    unary("softsign", "abs.out", "F.softsign"),
    unary("tanhshrink", "sub.out", "F.tanhshrink"),
    unary("logsigmoid", "log_sigmoid_forward", "F.logsigmoid"),
    unary("rrelu", "rrelu_with_noise", "torch.rrelu F.rrelu", "input lower upper training inplace"),
    unary("rrelu_", "rrelu_with_noise_", "torch.rrelu_", "input lower upper training"),
    unary("threshold_", "threshold.out", "torch.threshold_", "input threshold value"),
    row(
        "prelu",
        "torch.prelu .prelu",
        OWN,
        "input weight",
        raises="prelu: Type promoting not supported. Got QUInt8 and Float",
    ),
)


def reduction(op: str, kernel: str, spellings: str, params: str = "input dim keepdim") -> OpSpec:
    """A reduction to numbers."""
    return row(op, spellings, OWN, params, tensors=params.split()[0], raises=aten(kernel))


def indices(op: str, kernel: str, spellings: str, params: str = "input dim keepdim") -> OpSpec:
    """A reduction to flags or indices."""
    return row(op, spellings, NONE, params, shape=Shape.INTEGER, raises=aten(kernel))


def with_indices(op: str, kernel: str, spellings: str, params: str) -> OpSpec:
    """Values and their indices."""
    return row(op, spellings, OWN, params, shape=Shape.PAIR, raises=aten(kernel))


def where_dim(op: str, kernel: str, with_dim: str) -> OpSpec:
    """A value, or with ``dim`` values and their indices."""
    cases = (Case("dim", raises=aten(with_dim), shape=Shape.PAIR),)
    return row(op, op, OWN, "input dim keepdim", raises=aten(kernel), cases=cases)


VECTOR_NORM = linalg("linalg.vector_norm")

REDUCTIONS = (
    reduction("sum", "sum.IntList_out", "sum"),
    reduction("nansum", "nansum", "nansum"),
    row(
        "prod",
        "prod",
        OWN,
        "input dim keepdim",
        raises=aten("prod"),
        cases=(Case("dim", raises=aten("prod.int_out")),),
    ),
    reduction("amax", "amax.out", "amax"),
    reduction("amin", "amin.out", "amin"),
    reduction("var", "var.correction", "var", "input dim unbiased keepdim"),
    row(
        "var_mean",
        "torch.var_mean",
        OWN,
        "input dim unbiased keepdim",
        shape=Shape.TWO,
        raises=aten("var_mean.correction"),
    ),
    row(
        "std_mean",
        "torch.std_mean",
        OWN,
        "input dim unbiased keepdim",
        shape=Shape.TWO,
        raises=aten("std_mean.correction"),
    ),
    row("aminmax", "aminmax", OWN, shape=Shape.TWO, raises=aten("aminmax.out")),
    row(
        "logsumexp",
        "logsumexp special.logsumexp",
        OWN,
        "input dim keepdim",
        raises="logsumexp(): Expected floating point type for result tensor, but got: QUInt8",
    ),
    row("norm", "norm", OWN, "input p dim keepdim", raises=VECTOR_NORM),
    row("vector_norm", "linalg.norm linalg.vector_norm", OWN, "input ord dim keepdim", raises=VECTOR_NORM),
    row(
        "matrix_norm",
        "linalg.matrix_norm",
        OWN,
        "input ord dim keepdim",
        raises=linalg("linalg.matrix_norm"),
    ),
    row("normalize", "F.normalize", OWN, "input p dim eps", raises=VECTOR_NORM),
    row(
        "nanmean",
        "nanmean",
        OWN,
        "input dim keepdim",
        raises="nanmean(): expected input to have floating point or complex dtype but got QUInt8",
    ),
    row("quantile", "quantile", OWN, "input q dim keepdim", raises=not_implemented("fill_out")),
    row("nanquantile", "nanquantile", OWN, "input q dim keepdim", raises=not_implemented("fill_out")),
    where_dim("median", "median", "median.dim_values"),
    where_dim("nanmedian", "nanmedian", "nanmedian.dim_values"),
    with_indices("mode", "mode", "mode", "input dim keepdim"),
    with_indices("kthvalue", "kthvalue.values", "kthvalue", "input k dim keepdim"),
    with_indices("cummax", "_cummax_helper", "cummax", "input dim"),
    with_indices("cummin", "_cummin_helper", "cummin", "input dim"),
    reduction("cumsum", "cumsum.out", "cumsum .cumsum_", "input dim"),
    reduction("cumprod", "cumprod.out", "cumprod .cumprod_", "input dim"),
    reduction("logcumsumexp", "_logcumsumexp", "logcumsumexp", "input dim"),
    reduction("diff", "sub.out", "diff", "input n dim"),
    reduction("trace", "trace", "trace", "input"),
    reduction("cov", "sum.IntList_out", "cov", "input"),
    reduction("corrcoef", "sum.IntList_out", "corrcoef", "input"),
    indices("argmax", "argmax.out", "argmax"),
    indices("argmin", "argmin.out", "argmin"),
    *(
        row(
            name,
            name,
            NONE,
            "input dim keepdim",
            shape=Shape.INTEGER,
            raises=aten(f"{name}.all_out"),
            cases=(Case("dim", raises=aten(f"{name}.out")),),
        )
        for name in ("all", "any")
    ),
    indices("bucketize", "bucketize.Tensor", "torch.bucketize", "input boundaries"),
    row(
        "searchsorted",
        "torch.searchsorted",
        NONE,
        "sorted_sequence input",
        tensors="sorted_sequence input",
        shape=Shape.INTEGER,
        raises=aten("searchsorted.Tensor"),
    ),
    row(
        "isin",
        "torch.isin",
        NONE,
        "elements test_elements",
        tensors="elements test_elements",
        shape=Shape.INTEGER,
        raises=aten("isin.Tensor_Tensor_out"),
    ),
    reduction("histc", "histc", "histc", "input bins min max"),
    reduction("trapezoid", "add.out", "torch.trapezoid torch.trapz", "y"),
    indices("count_nonzero", "count_nonzero.dim_IntList", "count_nonzero", "input dim"),
    indices("nonzero", "nonzero", "nonzero argwhere", "input"),
    indices("isnan", "isnan", "isnan", "input"),
    indices("signbit", "signbit.out", "signbit", "input"),
    indices("logical_not", "logical_not.out", "logical_not .logical_not_", "input"),
    row("isinf", "isinf", NONE, shape=Shape.INTEGER, raises=not_implemented("isinf")),
    row("isfinite", "isfinite", NONE, shape=Shape.INTEGER, raises=not_implemented("isfinite")),
    indices("unique", "_unique2", "unique", "input sorted"),
    indices("unique_consecutive", "unique_consecutive", "unique_consecutive", "input"),
    indices("multinomial", "multinomial", "multinomial", "input num_samples"),
    indices("bincount", "bincount", "bincount", "input"),
    row(
        "isclose",
        "isclose",
        NONE,
        BOTH,
        tensors=BOTH,
        shape=Shape.INTEGER,
        raises="isclose is not supported for quantized inputs.",
    ),
    row(
        "allclose",
        "allclose",
        NONE,
        BOTH,
        tensors=BOTH,
        shape=Shape.SCALAR,
        raises="isclose is not supported for quantized inputs.",
    ),
)


def logical(op: str, kernel: str, spellings: str, number: bool = False) -> OpSpec:
    """A logical function of two tensors."""
    mixed = PROMOTE_MIXED if number else None
    cases = numbers("other", EMPTY_STRIDED, None) if number else ()
    return row(
        op,
        spellings,
        NONE,
        BOTH,
        tensors=BOTH,
        shape=Shape.INTEGER,
        raises=aten(kernel),
        mixed=mixed,
        cases=cases,
    )


LOGIC = (
    logical("logical_and", "logical_and.out", "logical_and .logical_and_"),
    logical("logical_or", "logical_or.out", "logical_or .logical_or_"),
    logical("logical_xor", "logical_xor.out", "logical_xor .logical_xor_"),
    logical(
        "bitwise_and", "bitwise_and.Tensor_out", "bitwise_and .bitwise_and_ op:& op:&= operator.and_", True
    ),
    logical("bitwise_or", "bitwise_or.Tensor_out", "bitwise_or .bitwise_or_ op:| op:|= operator.or_", True),
    logical(
        "bitwise_xor", "bitwise_xor.Tensor_out", "bitwise_xor .bitwise_xor_ op:^ op:^= operator.xor", True
    ),
)


def moved(op: str, kernel: str, spellings: str, params: str, tensors: str = "input") -> OpSpec:
    """Data at other places."""
    return row(op, spellings, OWN, params, tensors=tensors, raises=aten(kernel))


SCATTER = "input dim index src"

MOVING = (
    moved("gather", "gather.out", "gather", "input dim index"),
    moved("take", "take", "take", "input index"),
    moved("take_along_dim", "gather.out", "take_along_dim", "input indices dim"),
    moved("masked_select", "masked_select", "masked_select", "input mask"),
    moved("roll", "roll", "roll", "input shifts dims"),
    moved("fftshift", "roll", "fft.fftshift", "input dim"),
    moved("ifftshift", "roll", "fft.ifftshift", "input dim"),
    moved("tril", "tril.out", "tril .tril_", "input diagonal"),
    moved("triu", "triu.out", "triu .triu_", "input diagonal"),
    moved("diag_embed", "zero_", "diag_embed", "input offset dim1 dim2"),
    moved("diagflat", "zero_", "diagflat", "input offset"),
    moved("block_diag", "zero_", "torch.block_diag", "a b c d", "a b c d"),
    row(
        "scatter",
        "scatter .scatter_",
        OWN,
        SCATTER,
        tensors="input src",
        raises=aten("scatter.src_out"),
        cases=(
            Case("src", (int, float), raises=aten("scatter.value_out")),
            Case("value", raises=aten("scatter.value_out")),
        ),
    ),
    moved(
        "scatter_reduce",
        "scatter_reduce.two_out",
        "scatter_reduce .scatter_reduce_",
        f"{SCATTER} reduce",
        "input src",
    ),
    moved(
        "index_reduce",
        "index_reduce.out",
        "index_reduce .index_reduce_",
        "input dim index source reduce",
        "input source",
    ),
    moved("renorm", "renorm.out", "renorm .renorm_", "input p dim maxnorm"),
    moved("scatter_add", "scatter_add.out", "scatter_add .scatter_add_", SCATTER, "input src"),
    moved("index_add", "index_add.out", "index_add .index_add_", "input dim index source", "input source"),
    moved(
        "index_copy", "index_copy.out", "index_copy .index_copy_", "input dim index source", "input source"
    ),
    moved("index_fill", "index_fill_.int_Scalar", "index_fill .index_fill_", "input dim index value"),
    moved(
        "masked_scatter",
        "masked_scatter_",
        "masked_scatter .masked_scatter_",
        "input mask source",
        "input source",
    ),
    moved("unfold", "im2col", "F.unfold", "input kernel_size dilation padding stride"),
    moved("fold", "col2im", "F.fold", "input output_size kernel_size dilation padding stride"),
    moved("view_as_complex", "view_as_complex", "torch.view_as_complex", "input"),
    moved("zero_", "zero_", "zero_", "input"),
)

ADAPTIVE = "input output_size return_indices"

POOLING = (
    row(
        "adaptive_max_pool1d",
        "torch.adaptive_max_pool1d F.adaptive_max_pool1d",
        OWN,
        ADAPTIVE,
        raises=aten("adaptive_max_pool2d.out"),
    ),
    row(
        "adaptive_max_pool2d", "F.adaptive_max_pool2d", OWN, ADAPTIVE, raises=aten("adaptive_max_pool2d.out")
    ),
    row(
        "adaptive_max_pool3d", "F.adaptive_max_pool3d", OWN, ADAPTIVE, raises=aten("adaptive_max_pool3d.out")
    ),
    unary(
        "lp_pool1d", "pow.Tensor_Scalar_out", "F.lp_pool1d", "input norm_type kernel_size stride ceil_mode"
    ),
    unary(
        "lp_pool2d", "pow.Tensor_Scalar_out", "F.lp_pool2d", "input norm_type kernel_size stride ceil_mode"
    ),
    unary(
        "lp_pool3d", "pow.Tensor_Scalar_out", "F.lp_pool3d", "input norm_type kernel_size stride ceil_mode"
    ),
    unary("fractional_max_pool2d", "uniform_", "F.fractional_max_pool2d", "input kernel_size output_size"),
    unary("fractional_max_pool3d", "uniform_", "F.fractional_max_pool3d", "input kernel_size output_size"),
    unary("max_unpool1d", "max_unpool2d", "F.max_unpool1d", "input indices kernel_size stride padding"),
    unary("max_unpool2d", "max_unpool2d", "F.max_unpool2d", "input indices kernel_size stride padding"),
    unary("max_unpool3d", "max_unpool3d", "F.max_unpool3d", "input indices kernel_size stride padding"),
)

CONV_BIAS = "Input type (c10::quint8) and bias type (float) should be the same"
LINEAR_BIAS = "mat1 and mat2 must have the same dtype, but got QUInt8 and Float"
WITH_BIAS = (Case("bias", raises=CONV_BIAS),)
CONV = "input weight bias stride padding dilation groups"
TRANSPOSED = "input weight bias stride padding output_padding groups dilation"
NORM = "input running_mean running_var weight bias"

LAYERS = (
    unary("conv1d", "_slow_conv2d_forward", "torch.conv1d", CONV, WITH_BIAS),
    unary("conv2d", "_slow_conv2d_forward", "torch.conv2d", CONV, WITH_BIAS),
    unary("conv3d", "slow_conv3d_forward", "torch.conv3d", CONV, WITH_BIAS),
    unary("conv_transpose1d", "slow_conv_transpose2d.out", "torch.conv_transpose1d", TRANSPOSED),
    unary("conv_transpose2d", "slow_conv_transpose2d.out", "torch.conv_transpose2d", TRANSPOSED),
    unary("conv_transpose3d", "slow_conv_transpose3d", "torch.conv_transpose3d", TRANSPOSED),
    unary("linear", "mm.out", "F.linear", "input weight bias", (Case("bias", raises=LINEAR_BIAS),)),
    row(
        "affine_grid",
        "F.affine_grid",
        OWN,
        "theta size align_corners",
        tensors="theta",
        raises="Expected theta to have floating point type, but got torch.quint8",
    ),
    row(
        "stft", "stft", OWN, "input n_fft hop_length win_length window", raises="stft(QuantizedCPUQUInt8Type"
    ),
    row(
        "bilinear",
        "torch.bilinear",
        OWN,
        "input1 input2 weight bias",
        tensors="input1 input2",
        raises="All tensors must have the same dtype, got input1: c10::quint8, input2: c10::quint8",
    ),
    unary("batch_norm", "native_batch_norm", "F.batch_norm", f"{NORM} training momentum eps"),
    unary("instance_norm", "native_batch_norm", "F.instance_norm", f"{NORM} use_input_stats momentum eps"),
    unary(
        "layer_norm",
        "native_batch_norm",
        "torch.layer_norm F.layer_norm",
        "input normalized_shape weight bias eps",
    ),
    unary(
        "group_norm",
        "var_mean.correction",
        "torch.group_norm F.group_norm",
        "input num_groups weight bias eps",
    ),
    row(
        "rms_norm",
        "torch.rms_norm F.rms_norm",
        OWN,
        "input normalized_shape weight eps",
        raises=not_implemented("rms_norm"),
    ),
    unary("local_response_norm", "mul.out", "F.local_response_norm", "input size alpha beta k"),
    row(
        "attention",
        "F.scaled_dot_product_attention",
        OWN,
        "query key value attn_mask dropout_p is_causal",
        tensors="query key value",
        raises=PROMOTE,
    ),
    row(
        "embedding_bag",
        "F.embedding_bag",
        OWN,
        "input weight",
        tensors="input weight",
        raises=aten("_embedding_bag_forward_only"),
    ),
    row(
        "fake_quantize",
        "torch.fake_quantize_per_tensor_affine",
        OWN,
        "input scale zero_point quant_min quant_max",
        raises=aten("fake_quantize_per_tensor_affine_cachemask"),
    ),
)


def random(op: str, kernel: str, spellings: str, params: str = "input") -> OpSpec:
    """Random numbers: no two calls agree."""
    return row(op, spellings, OWN, params, raises=aten(kernel), weights=True)


CREATION = (
    unary("zeros_like", "zero_", "torch.zeros_like"),
    unary("new_zeros", "zero_", ".new_zeros", "input size"),
    row("new_ones", ".new_ones", OWN, "input size", raises=INTERNAL_ASSERT),
    row("new_full", ".new_full", OWN, "input size fill_value", raises=INTERNAL_ASSERT),
    random("exponential_", "exponential_", ".exponential_"),
    random("random_", "random_", ".random_"),
    random("poisson", "poisson", "torch.poisson"),
    random("rand_like", "uniform_", "torch.rand_like .uniform_"),
    random("randn_like", "normal_", "torch.randn_like .normal_"),
    random("randint_like", "random_.from", "torch.randint_like", "input low high"),
    random("bernoulli_", "bernoulli_.float", ".bernoulli_", "input p"),
    row(
        "bernoulli",
        "bernoulli",
        OWN,
        "input p",
        raises=aten("bernoulli_.Tensor"),
        cases=(Case("p", raises=aten("bernoulli_.float")),),
        weights=True,
    ),
)


def cast(op: str, spellings: str, shape: Shape) -> OpSpec:
    """A cast, which is no dequantize."""
    return row(op, spellings, NONE, shape=shape, raises=NOT_QUANTIZED_DTYPE)


CASTS = (
    cast("float", ".float", Shape.NEW),
    cast("half", ".half", Shape.NEW),
    cast("bfloat16", ".bfloat16", Shape.NEW),
    cast("double", ".double", Shape.NEW),
    *(cast(name, f".{name}", Shape.INTEGER) for name in ("int", "long", "short", "char", "byte", "bool")),
    row(
        "numpy", ".numpy", NONE, "input force", shape=Shape.SCALAR, raises="Got unsupported ScalarType QUInt8"
    ),
    row("tolist", ".tolist", NONE, shape=Shape.SCALAR, raises="load_scalar: invalid type"),
    row(
        "requires_grad_",
        ".requires_grad_",
        Observation.SHARE,
        "input requires_grad",
        shape=Shape.VIEW,
        raises="only Tensors of floating point dtype can require gradients",
    ),
)


def three(op: str, raises: str, params: str, tensors: str = "") -> OpSpec:
    """A loss with other tensors than input and target, or of the input alone."""
    return row(op, f"F.{op}", NONE, params, tensors=tensors or params, raises=raises, role=Role.LOSS)


def distance(
    op: str, spellings: str, raises: str, params: str, mixed: Mixed = None, role: Role | None = None
) -> OpSpec:
    """A distance of two tensors: a float number behind the quantized region."""
    tensors = " ".join(params.split()[:2])
    return row(op, spellings, NONE, params, tensors=tensors, raises=raises, mixed=mixed, role=role)


def loss(op: str, spellings: str, raises: str, mixed: Mixed = None) -> OpSpec:
    """A loss of an input and a target."""
    return distance(op, spellings, raises, "input target", mixed, Role.LOSS)


TARGET = "input target"
REVERSED = (PROMOTE_MIXED[1], PROMOTE_MIXED[0])

LOSSES = (
    loss("mse_loss", "F.mse_loss", INTERNAL_ASSERT, PROMOTE_MIXED),
    loss("l1_loss", "F.l1_loss", aten("sub.out"), PROMOTE_MIXED),
    loss("smooth_l1_loss", "F.smooth_l1_loss", INTERNAL_ASSERT, PROMOTE_MIXED),
    loss("huber_loss", "F.huber_loss", aten("huber_loss")),
    loss("cross_entropy", "F.cross_entropy", aten("_log_softmax.out")),
    loss("nll_loss", "F.nll_loss", aten("nll_loss_forward.output")),
    loss("binary_cross_entropy", "F.binary_cross_entropy", aten("binary_cross_entropy")),
    loss(
        "binary_cross_entropy_with_logits",
        "torch.binary_cross_entropy_with_logits F.binary_cross_entropy_with_logits",
        aten("log_sigmoid_forward"),
    ),
    loss("kl_div", "torch.kl_div F.kl_div", aten("mul.out")),
    loss("poisson_nll_loss", "F.poisson_nll_loss", aten("mul.out"), REVERSED),
    loss("soft_margin_loss", "F.soft_margin_loss", aten("neg.out")),
    distance(
        "cosine_similarity",
        "torch.cosine_similarity",
        "expected common dtype to be floating point, yet common dtype is QUInt8",
        "x1 x2 dim eps",
        PROMOTE_MIXED,
    ),
    distance("pairwise_distance", "torch.pairwise_distance", aten("sub.out"), "x1 x2 p eps", PROMOTE_MIXED),
    three("hinge_embedding_loss", aten("zero_"), TARGET, "input"),
    loss("multi_margin_loss", "F.multi_margin_loss", aten("multi_margin_loss")),
    loss(
        "multilabel_margin_loss",
        "F.multilabel_margin_loss",
        aten("multilabel_margin_loss_forward"),
    ),
    loss(
        "multilabel_soft_margin_loss",
        "F.multilabel_soft_margin_loss",
        aten("log_sigmoid_forward"),
    ),
    three("margin_ranking_loss", aten("sub.out"), "input1 input2 target", "input1 input2"),
    three("cosine_embedding_loss", aten("mul.out"), "input1 input2 target", "input1 input2"),
    three("triplet_margin_loss", aten("sub.out"), "anchor positive negative"),
    three("ctc_loss", aten("_ctc_loss"), "log_probs targets input_lengths target_lengths", "log_probs"),
    three("gaussian_nll_loss", aten("sub.out"), "input target var", TARGET),
    distance("dist", "dist", aten("sub.out"), "input other p", PROMOTE_MIXED),
    distance("cdist", "torch.cdist", aten("_cdist_forward"), "x1 x2 p"),
)

LINEAR_ALGEBRA = tuple(
    row(op, spellings, OWN, raises=linalg(name))
    for op, spellings, name in (
        ("inverse", "inverse linalg.inv", "linalg.inv"),
        ("det", "det linalg.det", "linalg.det"),
        ("svd", "svd linalg.svd", "linalg.svd"),
        ("svdvals", "linalg.svdvals", "linalg.svd"),
        ("qr", "qr linalg.qr", "linalg.qr"),
        ("slogdet", "slogdet linalg.slogdet", "linalg.slogdet"),
        ("logdet", "logdet", "logdet"),
        ("cholesky", "linalg.cholesky", "linalg.cholesky"),
    )
)

MATRICES = (
    row("pinverse", "pinverse linalg.pinv", OWN, raises="linalg.pinv(QUInt8"),
    row("eigh", "linalg.eigh", OWN, "A UPLO", tensors="A", shape=Shape.TWO, raises=EMPTY_STRIDED),
    row("matrix_exp", "matrix_exp linalg.matrix_exp", OWN, raises=aten("linalg_matrix_exp")),
    row("matrix_power", "matrix_power linalg.matrix_power", OWN, "input n", raises=aten("mm.out")),
)

FOURIER = tuple(
    row(
        name,
        f"fft.{name}",
        OWN,
        "input s dim norm" if name[-1] in "2n" else "input n dim norm",
        raises=NOT_QUANTIZED_DTYPE,
    )
    for name in ("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn")
)

REFUSE = (
    *ARITHMETIC,
    *UNARY,
    *ACTIVATIONS,
    *REDUCTIONS,
    *LOGIC,
    *MOVING,
    *POOLING,
    *LAYERS,
    *CREATION,
    *CASTS,
    *LOSSES,
    *LINEAR_ALGEBRA,
    *MATRICES,
    *FOURIER,
)
