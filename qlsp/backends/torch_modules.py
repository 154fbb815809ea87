"""Module classes of torch eager: what prepare and convert make of them, and what they do to a scale."""

from __future__ import annotations

from qlsp.backends.torch_rows import (
    INTERNAL_ASSERT,
    NOT_QUANTIZED_DTYPE,
    PROMOTE,
    PROMOTE_MIXED,
    Mixed,
    aten,
    not_implemented,
    on_float,
    row,
)
from qlsp.ops.spec import Case, Observation, OpSpec, Role, Shape
from qlsp.values.qparams import FixedScale
from qlsp.values.workflow import Weights

OWN = Observation.OWN
SHARE = Observation.SHARE
NONE = Observation.NONE

CONV_ERROR = "Input type (c10::quint8) and bias type (float) should be the same"
LINEAR_ERROR = "mat1 and mat2 must have the same dtype, but got QUInt8 and Float"
TRANSPOSED_REFUSED = "Per channel weight observer is not supported yet for ConvTranspose{n}d."
TRANSPOSED_TRAINED = "Per Channel Quantization is currently disabled for transposed conv"
TUPLE_REFUSED = "'tuple' object has no attribute 'numel'"
TUPLE_TRAINED = (
    "fused_moving_avg_obs_fake_quant(): argument 'input' (position 1) must be Tensor, not tuple"
)
ATTENTION_TRAINED = "qat.Linear.from_float only works for Linear, got NonDynamicallyQuantizableLinear"
PRELU_REFUSED = "Dimension out of range (expected to be in range of [-1, 0], but got 1)"
PER_CHANNEL = (Weights.PER_CHANNEL,)
PARAMETERS = "weight bias"


def swapped(
    op: str,
    spellings: str,
    kernel: str,
    raises: str | None,
    constructor: str = "",
    *,
    observation: Observation = OWN,
    float_error: str | None = None,
    refused: str | None = None,
    trained_refused: str | None = None,
    refused_weights: tuple[Weights, ...] = (),
    packed: str = "",
    cases: tuple[Case, ...] = (),
    weights: bool = True,
) -> OpSpec:
    """A class that prepare observes and convert swaps for a quantized one."""
    return row(
        op,
        spellings,
        observation,
        constructor=constructor,
        raises=raises,
        on_float=float_error or on_float(kernel),
        refused=refused,
        trained_refused=trained_refused,
        refused_weights=refused_weights,
        packed=packed,
        cases=cases,
        weights=weights,
        swapped=True,
        observed=True,
    )


def no_bias(kernel: str) -> tuple[Case, ...]:
    """The float class without a bias fails elsewhere."""
    return (Case("bias", (False,), raises=aten(kernel)),)


CONV = "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode"
LAZY_CONV = "out_channels kernel_size stride padding dilation groups bias padding_mode"
TRANSPOSED = (
    "in_channels out_channels kernel_size stride padding output_padding groups bias dilation padding_mode"
)
LAZY_TRANSPOSED = "out_channels kernel_size stride padding output_padding groups bias dilation padding_mode"
KERNELS = {1: "conv1d", 2: "conv2d.new", 3: "conv3d.new"}
FLOAT_KERNELS = {1: "_slow_conv2d_forward", 2: "_slow_conv2d_forward", 3: "slow_conv3d_forward"}
FLOAT_TRANSPOSED = {
    1: "slow_conv_transpose2d.out",
    2: "slow_conv_transpose2d.out",
    3: "slow_conv_transpose3d",
}
BATCH_NORM = "num_features eps momentum affine track_running_stats"
LAZY_BATCH_NORM = "eps momentum affine track_running_stats"
NATIVE_NORM = aten("native_batch_norm")


def convolutions(n: int) -> tuple[OpSpec, ...]:
    """Convolutions of ``n`` dimensions and their lazy classes."""
    kernel, error = KERNELS[n], no_bias(FLOAT_KERNELS[n])
    transposed = f"conv_transpose{n}d"
    return (
        swapped(f"conv{n}d", f"nn.Conv{n}d", kernel, CONV_ERROR, CONV, cases=error, packed=PARAMETERS),
        swapped(
            f"lazy_conv{n}d",
            f"nn.LazyConv{n}d",
            kernel,
            CONV_ERROR,
            LAZY_CONV,
            cases=error,
            packed=PARAMETERS,
        ),
        swapped(
            transposed,
            f"nn.ConvTranspose{n}d",
            transposed,
            aten(FLOAT_TRANSPOSED[n]),
            TRANSPOSED,
            refused=TRANSPOSED_REFUSED,
            trained_refused=TRANSPOSED_TRAINED,
            refused_weights=PER_CHANNEL,
            packed=PARAMETERS,
        ),
        swapped(
            f"lazy_{transposed}",
            f"nn.LazyConvTranspose{n}d",
            transposed,
            aten(FLOAT_TRANSPOSED[n]),
            LAZY_TRANSPOSED,
            refused=TRANSPOSED_REFUSED,
            trained_refused=TRANSPOSED_TRAINED,
            refused_weights=PER_CHANNEL,
            packed=PARAMETERS,
        ),
    )


def norms(n: int) -> tuple[OpSpec, ...]:
    """Batch and instance norms of ``n`` dimensions; BatchNorm1d has no quantized class."""
    instance = (
        swapped("instance_norm", f"nn.InstanceNorm{n}d", "instance_norm", NATIVE_NORM, BATCH_NORM),
        swapped("instance_norm", f"nn.LazyInstanceNorm{n}d", "instance_norm", NATIVE_NORM, LAZY_BATCH_NORM),
    )
    if n == 1:
        return instance
    kernel = f"batch_norm{n}d"
    return (
        *instance,
        swapped(kernel, f"nn.BatchNorm{n}d", kernel, NATIVE_NORM, BATCH_NORM),
        swapped(kernel, f"nn.LazyBatchNorm{n}d", kernel, NATIVE_NORM, LAZY_BATCH_NORM),
    )


LAYERS = (
    *(spec for n in (1, 2, 3) for spec in (*convolutions(n), *norms(n))),
    swapped(
        "linear",
        "nn.Linear",
        "linear",
        LINEAR_ERROR,
        "in_features out_features bias",
        cases=no_bias("mm.out"),
        packed=PARAMETERS,
    ),
    swapped(
        "linear",
        "nn.LazyLinear",
        "linear",
        LINEAR_ERROR,
        "out_features bias",
        cases=no_bias("mm.out"),
        packed=PARAMETERS,
    ),
    swapped(
        "layer_norm",
        "nn.LayerNorm",
        "layer_norm",
        NATIVE_NORM,
        "normalized_shape eps elementwise_affine bias",
    ),
    swapped(
        "group_norm",
        "nn.GroupNorm",
        "group_norm",
        aten("var_mean.correction"),
        "num_groups num_channels eps affine",
    ),
    swapped(
        "hardswish",
        "nn.Hardswish",
        "hardswish",
        aten("hardswish"),
        "inplace",
        cases=(Case("inplace", (True,), raises=aten("hardswish_")),),
        weights=False,
    ),
    swapped(
        "elu",
        "nn.ELU",
        "elu",
        aten("elu.out"),
        "alpha inplace",
        float_error="Input to 'quantized.elu' must be quantized!",
        weights=False,
    ),
    swapped("leaky_relu", "nn.LeakyReLU", "leaky_relu", None, "negative_slope inplace", weights=False),
    swapped("relu6", "nn.ReLU6", "relu6", None, "inplace", observation=SHARE, weights=False),
    swapped(
        "prelu",
        "nn.PReLU",
        "prelu",
        "prelu: Type promoting not supported. Got QUInt8 and Float",
        "num_parameters init",
        float_error=NOT_QUANTIZED_DTYPE,
        refused=PRELU_REFUSED,
        trained_refused=PRELU_REFUSED,
        refused_weights=PER_CHANNEL,
    ),
)


def fused(n: int) -> tuple[OpSpec, ...]:
    """Fused classes of ``n`` dimensions. Those with a BatchNorm are swapped only after prepare_qat."""
    conv, relu = KERNELS[n], KERNELS[n].replace("d", "d_relu", 1)
    with_norm = aten("zero_")
    rows = (
        swapped(f"conv{n}d_relu", f"nni.ConvReLU{n}d nni.ConvBnReLU{n}d", relu, CONV_ERROR),
        swapped(f"conv{n}d", f"nni.ConvBn{n}d", conv, CONV_ERROR),
        swapped(f"conv{n}d_relu", f"nniqat.ConvBnReLU{n}d", relu, with_norm),
        swapped(f"conv{n}d", f"nniqat.ConvBn{n}d", conv, with_norm),
    )
    if n == 1:
        return rows
    return (
        *rows,
        swapped(f"conv{n}d_relu", f"nniqat.ConvReLU{n}d", relu, CONV_ERROR, cases=no_bias(FLOAT_KERNELS[n])),
        swapped(f"conv{n}d", f"nnqat.Conv{n}d", conv, CONV_ERROR, cases=no_bias(FLOAT_KERNELS[n])),
        swapped(f"batch_norm{n}d_relu", f"nni.BNReLU{n}d", f"batch_norm{n}d_relu", NATIVE_NORM),
    )


FUSED = (
    *(spec for n in (1, 2, 3) for spec in fused(n)),
    swapped("linear_relu", "nni.LinearReLU nniqat.LinearReLU", "linear_relu", LINEAR_ERROR),
    swapped("linear", "nni.LinearBn1d nniqat.LinearBn1d nnqat.Linear", "linear", LINEAR_ERROR),
)

ATTENTION = "query key value key_padding_mask need_weights attn_mask average_attn_weights is_causal"

RECURRENT = (
    *(
        row(
            "lstm",
            spelling,
            OWN,
            "input hx",
            constructor="input_size hidden_size num_layers bias batch_first dropout bidirectional",
            shape=Shape.STATE,
            raises=raises,
            on_float=on_float("linear"),
            weights=True,
            swapped=True,
        )
        for spelling, raises in (("nn.LSTM", aten("zero_")), ("nnqa.LSTM", LINEAR_ERROR))
    ),
    *(
        row(
            "multihead_attention",
            spelling,
            OWN,
            ATTENTION,
            tensors="query key value",
            constructor="embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first",
            shape=Shape.TWO,
            raises=LINEAR_ERROR,
            on_float=on_float("linear"),
            trained_refused=refused,
            weights=True,
            swapped=True,
        )
        for spelling, refused in (("nn.MultiheadAttention", ATTENTION_TRAINED), ("nnqa.MultiheadAttention", None))
    ),
    row(
        "gru",
        "nn.GRU",
        OWN,
        "input hx",
        constructor="input_size hidden_size num_layers bias batch_first dropout bidirectional",
        shape=Shape.TWO,
        raises=aten("zero_"),
        refused=TUPLE_REFUSED,
        trained_refused=TUPLE_TRAINED,
        weights=True,
        observed=True,
    ),
    row(
        "rnn",
        "nn.RNN",
        OWN,
        "input hx",
        constructor="input_size hidden_size num_layers nonlinearity bias batch_first dropout bidirectional",
        shape=Shape.TWO,
        raises=aten("zero_"),
        weights=True,
    ),
    row(
        "gru_cell",
        "nn.GRUCell",
        OWN,
        "input hx",
        constructor="input_size hidden_size bias",
        raises=aten("zero_"),
        weights=True,
        observed=True,
    ),
    row(
        "rnn_cell",
        "nn.RNNCell",
        OWN,
        "input hx",
        constructor="input_size hidden_size bias nonlinearity",
        raises=aten("zero_"),
        weights=True,
        observed=True,
    ),
    row(
        "lstm_cell",
        "nn.LSTMCell",
        OWN,
        "input hx",
        constructor="input_size hidden_size bias",
        shape=Shape.TWO,
        raises=aten("zero_"),
        refused=TUPLE_REFUSED,
        trained_refused=TUPLE_TRAINED,
        weights=True,
        observed=True,
    ),
)

EMBEDDING_REFUSED = "Embedding quantization is only supported with float_qparams_weight_only_qconfig."
INDICES = "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int"
SCALED = (Weights.PER_TENSOR, Weights.PER_CHANNEL)
BAG_REFUSED = "EmbeddingBag quantization is only supported with float_qparams_weight_only_qconfig."

EMBEDDINGS = (
    row(
        "embedding",
        "nn.Embedding",
        NONE,
        constructor="num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse",
        raises=INDICES,
        refused=EMBEDDING_REFUSED,
        trained_refused=EMBEDDING_REFUSED,
        refused_weights=SCALED,
        packed="weight",
        weights=True,
        swapped=True,
    ),
    row(
        "embedding_bag",
        "nn.EmbeddingBag",
        NONE,
        "input offsets per_sample_weights",
        constructor="num_embeddings embedding_dim max_norm norm_type scale_grad_by_freq mode sparse",
        raises=aten("arange.start_out"),
        refused=BAG_REFUSED,
        trained_refused=BAG_REFUSED,
        refused_weights=SCALED,
        packed="weight",
        weights=True,
        swapped=True,
    ),
)


def passes(
    op: str, spellings: str, constructor: str = "", cases: tuple[Case, ...] = (), shape: Shape = Shape.NEW
) -> OpSpec:
    """A class without observer whose kernel keeps the scale."""
    return row(op, spellings, SHARE, constructor=constructor, cases=cases, shape=shape)


def fixed(op: str, spellings: str, scale: float, zero_point: int, constructor: str = "") -> OpSpec:
    """A class whose kernel has a constant scale."""
    return row(
        op,
        spellings,
        Observation.FIXED,
        constructor=constructor,
        fixed=FixedScale(scale, zero_point),
    )


MAX_POOL = "kernel_size stride padding dilation return_indices ceil_mode"
AVG_POOL = "kernel_size stride padding ceil_mode count_include_pad"
RESIZE = "size scale_factor mode align_corners recompute_scale_factor"


def with_indices(kernel: str) -> tuple[Case, ...]:
    """Max pooling that returns its indices."""
    return (Case("return_indices", (True,), raises=aten(kernel), shape=Shape.PAIR),)


PASSING = (
    passes("identity", "nn.Identity", shape=Shape.SAME),
    passes("relu", "nn.ReLU", "inplace"),
    passes("hardtanh", "nn.Hardtanh", "min_val max_val inplace"),
    passes("gelu", "nn.GELU", "approximate"),
    passes(
        "threshold",
        "nn.Threshold",
        "threshold value inplace",
        (Case("inplace", (True,), raises=aten("threshold.out")),),
    ),
    fixed("sigmoid", "nn.Sigmoid", 1 / 256, 0),
    fixed("hardsigmoid", "nn.Hardsigmoid", 1 / 256, 0, "inplace"),
    fixed("tanh", "nn.Tanh", 1 / 128, 128),
    passes("max_pool1d", "nn.MaxPool1d", MAX_POOL, with_indices("max_pool2d_with_indices.out")),
    passes("max_pool2d", "nn.MaxPool2d", MAX_POOL, with_indices("max_pool2d_with_indices.out")),
    passes("max_pool3d", "nn.MaxPool3d", MAX_POOL, with_indices("max_pool3d_with_indices")),
    passes("avg_pool1d", "nn.AvgPool1d", AVG_POOL),
    passes("avg_pool2d", "nn.AvgPool2d", f"{AVG_POOL} divisor_override"),
    passes("avg_pool3d", "nn.AvgPool3d", f"{AVG_POOL} divisor_override"),
    *(passes(f"adaptive_avg_pool{n}d", f"nn.AdaptiveAvgPool{n}d", "output_size") for n in (1, 2, 3)),
    passes(
        "interpolate",
        "nn.Upsample",
        RESIZE,
        (
            Case("mode", ("bicubic",), raises=aten("upsample_bicubic2d.out")),
            Case("mode", ("trilinear",), raises=aten("upsample_trilinear3d.out")),
            Case("mode", ("linear",), raises=aten("upsample_linear1d.out")),
        ),
    ),
    passes("upsample_nearest", "nn.UpsamplingNearest2d", "size scale_factor"),
    passes("upsample_bilinear", "nn.UpsamplingBilinear2d", "size scale_factor"),
    passes("flatten", "nn.Flatten", "start_dim end_dim", shape=Shape.VIEW),
    passes("unflatten", "nn.Unflatten", "dim unflattened_size", shape=Shape.VIEW),
    passes("pixel_shuffle", "nn.PixelShuffle", "upscale_factor", shape=Shape.VIEW),
    passes("pixel_unshuffle", "nn.PixelUnshuffle", "downscale_factor", shape=Shape.VIEW),
    passes("channel_shuffle", "nn.ChannelShuffle", "groups", shape=Shape.VIEW),
    passes("zero_pad", "nn.ZeroPad1d nn.ZeroPad2d nn.ZeroPad3d", "padding"),
    passes("constant_pad", "nn.ConstantPad1d nn.ConstantPad2d nn.ConstantPad3d", "padding value"),
    passes("reflection_pad", "nn.ReflectionPad1d nn.ReflectionPad2d", "padding"),
    row("dropout", "nn.Dropout", SHARE, constructor="p inplace", swapped=True),
    passes("dropout", "nn.Dropout1d nn.Dropout2d nn.Dropout3d nn.AlphaDropout", "p inplace"),
    passes("dropout", "nn.FeatureAlphaDropout", "p inplace"),
)


def refuses(
    op: str, spellings: str, raises: str, constructor: str = "", cases: tuple[Case, ...] = ()
) -> OpSpec:
    """A class without a quantized kernel."""
    return row(op, spellings, OWN, constructor=constructor, raises=raises, cases=cases)


def softmax(op: str, spellings: str, raises: str, constructor: str = "") -> OpSpec:
    """Probabilities: corrected, they have a fixed scale."""
    scale = FixedScale(1 / 256, 0)
    return row(op, spellings, Observation.FIXED, constructor=constructor, raises=raises, fixed=scale)


def weighted(op: str, spellings: str, raises: str, constructor: str = "") -> OpSpec:
    """A class with parameters and without a quantized kernel."""
    return row(op, spellings, OWN, constructor=constructor, raises=raises, weights=True)


def transformer(op: str, spellings: str, constructor: str, tensors: str = "input") -> OpSpec:
    """A block that adds its input to what it computed, with attention inside."""
    return row(
        op,
        spellings,
        OWN,
        tensors,
        tensors=tensors,
        constructor=constructor,
        raises=aten("add.out"),
        trained_refused=ATTENTION_TRAINED,
        weights=True,
    )


TRANSFORMER = "d_model nhead dim_feedforward dropout activation layer_norm_eps batch_first norm_first bias"
SOFTMAX_ERROR = aten("_softmax.out")

REFUSING = (
    softmax("softmax", "nn.Softmax", SOFTMAX_ERROR, "dim"),
    softmax("softmax2d", "nn.Softmax2d", SOFTMAX_ERROR),
    softmax("softmin", "nn.Softmin", aten("neg.out"), "dim"),
    refuses("log_softmax", "nn.LogSoftmax", aten("_log_softmax.out"), "dim"),
    refuses("silu", "nn.SiLU", aten("silu.out"), "inplace"),
    refuses("mish", "nn.Mish", aten("mish.out"), "inplace"),
    refuses("softplus", "nn.Softplus", aten("softplus.out"), "beta threshold"),
    refuses("softsign", "nn.Softsign", aten("abs.out")),
    refuses("softshrink", "nn.Softshrink", not_implemented("softshrink_check"), "lambd"),
    refuses("hardshrink", "nn.Hardshrink", aten("hardshrink.out"), "lambd"),
    refuses("tanhshrink", "nn.Tanhshrink", aten("sub.out")),
    refuses("logsigmoid", "nn.LogSigmoid", aten("log_sigmoid_forward")),
    refuses("celu", "nn.CELU", aten("elu.out"), "alpha inplace"),
    refuses("selu", "nn.SELU", aten("elu.out"), "inplace"),
    refuses("rrelu", "nn.RReLU", aten("rrelu_with_noise"), "lower upper inplace"),
    refuses("glu", "nn.GLU", aten("glu.out"), "dim"),
    weighted("batch_norm1d", "nn.BatchNorm1d", NATIVE_NORM, BATCH_NORM),
    weighted("batch_norm1d", "nn.LazyBatchNorm1d", NATIVE_NORM, LAZY_BATCH_NORM),
    weighted("sync_batch_norm", "nn.SyncBatchNorm", NATIVE_NORM, BATCH_NORM),
    row(
        "rms_norm",
        "nn.RMSNorm",
        OWN,
        "x",
        tensors="x",
        constructor="normalized_shape eps elementwise_affine",
        raises=not_implemented("rms_norm"),
        weights=True,
    ),
    refuses("local_response_norm", "nn.LocalResponseNorm", aten("mul.out"), "size alpha beta k"),
    *(
        refuses(
            f"adaptive_max_pool{n}d",
            f"nn.AdaptiveMaxPool{n}d",
            aten("adaptive_max_pool3d.out" if n == 3 else "adaptive_max_pool2d.out"),
            "output_size return_indices",
            (Case("return_indices", (True,), shape=Shape.PAIR),),
        )
        for n in (1, 2, 3)
    ),
    refuses(
        "lp_pool", "nn.LPPool1d nn.LPPool2d nn.LPPool3d", PROMOTE, "norm_type kernel_size stride ceil_mode"
    ),
    refuses(
        "fractional_max_pool",
        "nn.FractionalMaxPool2d nn.FractionalMaxPool3d",
        aten("uniform_"),
        "kernel_size output_size output_ratio return_indices",
    ),
    *(
        row(
            f"max_unpool{n}d",
            f"nn.MaxUnpool{n}d",
            OWN,
            "input indices",
            constructor="kernel_size stride padding",
            raises=aten("max_unpool3d" if n == 3 else "max_unpool2d"),
        )
        for n in (1, 2, 3)
    ),
    refuses("reflection_pad", "nn.ReflectionPad3d", aten("reflection_pad3d.out"), "padding"),
    *(
        refuses("replication_pad", f"nn.ReplicationPad{n}d", aten(f"replication_pad{n}d.out"), "padding")
        for n in (1, 2, 3)
    ),
    refuses("circular_pad", "nn.CircularPad1d nn.CircularPad2d nn.CircularPad3d", INTERNAL_ASSERT, "padding"),
    refuses(
        "cross_map_lrn",
        "nn.CrossMapLRN2d",
        "new(): expected key in DispatchKeySet",
        "size alpha beta k",
    ),
    refuses("unfold", "nn.Unfold", aten("im2col"), "kernel_size dilation padding stride"),
    refuses("fold", "nn.Fold", aten("col2im"), "output_size kernel_size dilation padding stride"),
    row(
        "bilinear",
        "nn.Bilinear",
        OWN,
        "input1 input2",
        tensors="input1 input2",
        constructor="in1_features in2_features out_features bias",
        raises="All tensors must have the same dtype, got input1: c10::quint8, input2: c10::quint8",
        weights=True,
    ),
    transformer("transformer_encoder_layer", "nn.TransformerEncoderLayer", TRANSFORMER),
    transformer(
        "transformer_encoder",
        "nn.TransformerEncoder",
        "encoder_layer num_layers norm enable_nested_tensor mask_check",
    ),
    transformer("transformer_decoder_layer", "nn.TransformerDecoderLayer", TRANSFORMER, "tgt memory"),
    transformer("transformer_decoder", "nn.TransformerDecoder", "decoder_layer num_layers norm", "tgt memory"),
    transformer(
        "transformer",
        "nn.Transformer",
        "d_model nhead num_encoder_layers num_decoder_layers dim_feedforward dropout activation",
        "src tgt",
    ),
)


def loss(
    spelling: str,
    raises: str,
    constructor: str,
    params: str = "input target",
    tensors: str = "input target",
    mixed: Mixed = None,
) -> OpSpec:
    """A loss: a float number behind the quantized region."""
    return row(
        spelling.lower(),
        f"nn.{spelling}",
        NONE,
        params,
        tensors=tensors,
        constructor=constructor,
        raises=raises,
        mixed=mixed,
        role=Role.LOSS,
    )


REDUCE = "size_average reduce reduction"
INPUTS = "input1 input2 target"
REVERSED = (PROMOTE_MIXED[1], PROMOTE_MIXED[0])

LOSSES = (
    loss("MSELoss", INTERNAL_ASSERT, REDUCE, mixed=PROMOTE_MIXED),
    loss("SmoothL1Loss", INTERNAL_ASSERT, f"{REDUCE} beta", mixed=PROMOTE_MIXED),
    loss("L1Loss", aten("sub.out"), REDUCE, mixed=PROMOTE_MIXED),
    loss("HuberLoss", aten("huber_loss"), "reduction delta"),
    loss(
        "CrossEntropyLoss",
        aten("_log_softmax.out"),
        "weight size_average ignore_index reduce reduction label_smoothing",
    ),
    loss("NLLLoss", aten("nll_loss_forward.output"), "weight size_average ignore_index reduce reduction"),
    loss("BCELoss", aten("binary_cross_entropy"), f"weight {REDUCE}"),
    loss("BCEWithLogitsLoss", aten("log_sigmoid_forward"), f"weight {REDUCE} pos_weight"),
    loss("KLDivLoss", aten("mul.out"), f"{REDUCE} log_target", mixed=REVERSED),
    loss(
        "PoissonNLLLoss",
        aten("mul.out"),
        "log_input full size_average eps reduce reduction",
        "log_input target",
        "log_input target",
        REVERSED,
    ),
    loss(
        "CTCLoss",
        aten("_ctc_loss"),
        "blank reduction zero_infinity",
        "log_probs targets input_lengths target_lengths",
        "log_probs",
    ),
    loss("GaussianNLLLoss", aten("sub.out"), "full eps reduction", "input target var"),
    loss("SoftMarginLoss", aten("neg.out"), REDUCE),
    loss("HingeEmbeddingLoss", aten("zero_"), f"margin {REDUCE}", tensors="input"),
    loss("MultiLabelMarginLoss", aten("multilabel_margin_loss_forward"), REDUCE),
    loss("MultiLabelSoftMarginLoss", aten("log_sigmoid_forward"), f"weight {REDUCE}"),
    loss("MultiMarginLoss", aten("multi_margin_loss"), f"p margin weight {REDUCE}"),
    loss("MarginRankingLoss", aten("sub.out"), f"margin {REDUCE}", INPUTS, "input1 input2"),
    loss("CosineEmbeddingLoss", aten("mul.out"), f"margin {REDUCE}", INPUTS, "input1 input2"),
    loss(
        "TripletMarginLoss",
        aten("sub.out"),
        f"margin p eps swap {REDUCE}",
        "anchor positive negative",
        "anchor positive negative",
    ),
    row(
        "cosine_similarity",
        "nn.CosineSimilarity",
        NONE,
        "x1 x2",
        tensors="x1 x2",
        constructor="dim eps",
        raises="expected common dtype to be floating point, yet common dtype is QUInt8",
        mixed=PROMOTE_MIXED,
    ),
    row(
        "pairwise_distance",
        "nn.PairwiseDistance",
        NONE,
        "x1 x2",
        tensors="x1 x2",
        constructor="p eps keepdim",
        raises=aten("sub.out"),
        mixed=PROMOTE_MIXED,
    ),
)

MODULES = (*LAYERS, *FUSED, *RECURRENT, *EMBEDDINGS, *PASSING, *REFUSING, *LOSSES)

TRAINED = (
    *(f"torch.nn.{name}" for name in ("Conv2d", "Conv3d", "Linear")),
    *(f"torch.ao.nn.intrinsic.{name}{n}d" for n in (1, 2, 3) for name in ("ConvBn", "ConvBnReLU")),
    *(f"torch.ao.nn.intrinsic.{name}" for name in ("ConvReLU2d", "ConvReLU3d", "LinearReLU", "LinearBn1d")),
)
"""Classes with a quantization-aware twin. Source: ``DEFAULT_QAT_MODULE_MAPPINGS`` of
torch/ao/quantization/quantization_mappings.py, torch 2.13.0."""
