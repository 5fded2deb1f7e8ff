"""The table that methods of tensors look their functions up in, by name.

The table is filled by the layers below (`ops/`, `autodiff/`, `runtime/`), so the graph
needs no import of theirs and a new op reaches the user in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from treadle.base.errors import StateError
from treadle.base.locks import imported

F = TypeVar("F", bound=Callable[..., Any])

# The modules of ops, each with its names in `td`: one is loaded when it is first named.
_OPS = {
    "activation": "gelu log_sigmoid mish relu selu sigmoid silu softplus softsign",
    "attention": "additive_scores alibi_bias attention rotary sinusoidal_positions",
    "bitwise": "bitwise_and bitwise_invert bitwise_left_shift bitwise_or "
    "bitwise_right_shift bitwise_xor",
    "cast": "Cast astype",
    "compare": "allclose equal greater greater_equal isclose less less_equal "
    "logical_and logical_not logical_or logical_xor not_equal",
    "contract": "matmul matmul_transposed",
    "control": "cond",
    "convolution": "conv1d conv2d conv3d",
    "create": "arange asarray constant empty empty_like eye from_dlpack full full_like "
    "linspace ones ones_like zeros zeros_like",
    "ctc": "ctc_loss",
    "custom": "custom_gradient",
    "distance": "cosine_embedding_loss cosine_similarity huber_loss kl_div l1_distance "
    "l1_loss mse_loss poisson_nll_loss smooth_l1_loss squared_distance "
    "triplet_margin_loss",
    "dropout": "alpha_dropout block_dropout dropout gaussian_dropout gaussian_noise "
    "zoneout",
    "einops": "register_einops",
    "einsum": "diagonal dot einsum inner outer tensordot trace vecdot",
    "elementary": "acos acosh asin asinh atan atan2 atanh cos cosh degrees exp radians "
    "sin sinh tan tanh",
    "elementwise": "add conj copysign divide floor_divide fma fmod hypot lerp "
    "logaddexp multiply negative positive remainder subtract",
    "extrema": "all any argmax argmin max min prod",
    "fft": "",
    "flow": "clip_by_norm clip_gradient debug flip_gradient print scale_gradient "
    "stop_gradient",
    "host": "callback py_function",
    "index": "IndexRangeError nonzero",
    "join": "concat split stack unstack",
    "linalg": "",
    "lookup": "combine_rows embedding rows sparse_rows",
    "loop": "foldl map scan",
    "loss": "cross_entropy nll_loss sparsemax_loss unlikelihood",
    "margin": "binary_cross_entropy binary_cross_entropy_with_logits binary_log_loss "
    "class_hinge_loss focal_loss hinge_loss margin_ranking_loss multi_margin_loss "
    "pairwise_rank_loss",
    "movement": "broadcast_to permute_dims reshape",
    "naming": "axes_of broadcast_axes name_axes order_axes rename_axes slice_axes "
    "unname",
    "nearest": "nearest_codes sign_codes",
    "normalization": "batch_norm group_norm instance_norm layer_norm "
    "local_response_norm normalize rms_norm standardize weight_norm",
    "norms": "l1_norm l2_norm norm squared_l2_norm",
    "order": "argsort kth_value quantile searchsorted sort top_k",
    "padding": "diag pad shift tril triu",
    "parts": "angle imag isfinite isinf isnan nextafter real signbit",
    "pick": "cols gather index_select one_hot pick pick_range scatter scatter_add take "
    "take_along_axis",
    "pooling": "adaptive_avg_pool avg_pool avg_pool1d avg_pool2d avg_pool3d "
    "global_avg_pool global_max_pool global_sum_pool l2_pool max_pool max_pool1d "
    "max_pool2d max_pool3d sum_pool",
    "power": "cube expm1 log log10 log1p log2 pow reciprocal rsqrt safelog sqrt square",
    "products": "affine bilinear circular_convolution circular_correlation contract3d "
    "kron trace_of_product",
    "promotion": "__array_api_version__ __array_namespace_info__ can_cast finfo iinfo "
    "isdtype result_type",
    "quantize": "dequantize fixed_point int16_linear int8_linear quantize "
    "quantize_fixed quantize_log",
    "random": "",
    "rearrange": "atleast_1d atleast_2d atleast_3d broadcast_arrays contiguous "
    "expand_dims flatten flatten_at matrix_transpose meshgrid moveaxis squeeze "
    "swapaxes transpose unflatten",
    "rectifier": "celu clipped_relu elu gelu_tanh glu hard_sigmoid hard_swish "
    "leaky_relu prelu relu6 swish tanh_shrink thresholded_relu trelu",
    "recurrence": "linear_recurrence",
    "recurrent": "gru_cell lstm_cell",
    "reduce": "median sum",
    "repeat": "flip repeat roll tile",
    "rounding": "abs ceil floor rint round sign trunc",
    "scan": "cumulative_logsumexp cumulative_max cumulative_prod cumulative_sum diff",
    "segments": "kmax_pool masked_avg_pool masked_max_pool segment_sum",
    "select": "clip maximum minimum nan_to_num where",
    "sets": "isin unique_all unique_counts unique_inverse unique_values",
    "softmax": "constrained_softmax log_softmax softmax softmin sparsemax",
    "sparse": "CSR csr_matmul",
    "special": "bump dawsn digamma erf erfc lgamma polygamma sinc",
    "state": "assign doall fill sequential set_item value_of",
    "statistics": "count_nonzero logsumexp mean moment moments std var "
    "weighted_average",
    "transposed": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "upsample": "upsample",
    "vmap": "vmap",
    "while_loop": "while_loop",
    "window": "fold unfold",
}
PUBLIC = {name: f"ops.{module}" for module in _OPS for name in _OPS[module].split()}
LATER = {
    **PUBLIC,
    "array_function": "ops.numpy_functions",
    "array_namespace": "ops.promotion",
    "array_ufunc": "ops.ufuncs",
    "at": "ops.at",
    "by_name": "ops.naming",
    "called": "ops.call",
    "expressions_in": "autodiff.expressions",
    "getitem": "ops.index",
    "inlined": "autodiff.expressions",
    "is_sole": "ops.create",
    "item_step": "ops.index",
    "judge": "rewrite.checked",
    "mismatch": "rewrite.checked",
    "norm_of": "ops.power",
    "rerolled": "runtime.rows",
    "row_step": "ops.lookup",
    "run_as_rows": "runtime.rows",
    "stabilized": "rewrite.simplify",
    "sum_to": "ops.reduce",
}


def late(module: str, name: str) -> Any:
    """A name of a module that is loaded now; a StateError where this very call has
    interrupted its loading.
    """
    loaded = imported(f"treadle.{module}")
    if hasattr(loaded, name):
        return getattr(loaded, name)
    raise StateError(
        f"{name} is being loaded by what this call interrupts",
        hint="what a signal handler or a finalizer calls is named once before",
    )


def load_ops() -> None:
    """Load the modules of all ops."""
    for module in _OPS:
        imported(f"treadle.ops.{module}")


class Table:
    """Functions by name; a missing one says which."""

    def __getattr__(self, name: str) -> Any:
        if name in LATER:
            return late(LATER[name], name)
        raise AttributeError(f"no layer has provided the function {name!r}")


functions: Any = Table()


def provide(function: F) -> F:
    """Put a function into the table under its own name."""
    setattr(functions, function.__name__, function)
    return function
