"""Ops under torch's names and argument order; layers are thin modules over these."""
# ruff: noqa: F403

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.base.dtypes import is_inexact
from treadle.base.errors import ShapeError
from treadle.base.torch import missing
from treadle.base.types import as_shape
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.nn import bags, criteria, grids, images, norms, unpooling
from treadle.nn.bags import *
from treadle.nn.criteria import *
from treadle.nn.grids import *
from treadle.nn.images import *
from treadle.nn.norms import *
from treadle.nn.unpooling import *
from treadle.ops.activation import (
    gelu,
    log_sigmoid,
    mish,
    relu,
    selu,
    sigmoid,
    silu,
    softsign,
)
from treadle.ops.activation import softplus as plain_softplus
from treadle.ops.attention import attention
from treadle.ops.cast import addend, as_float, carried_wide
from treadle.ops.contract import matmul_transposed
from treadle.ops.convolution import conv1d, conv2d, conv3d
from treadle.ops.dropout import alpha_dropout as plain_alpha
from treadle.ops.dropout import dropout
from treadle.ops.elementary import tanh
from treadle.ops.flow import stop_gradient
from treadle.ops.naming import by_role
from treadle.ops.normalization import group_norm, standardize
from treadle.ops.normalization import rms_norm as root_mean_square
from treadle.ops.pick import one_hot
from treadle.ops.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from treadle.ops.products import bilinear
from treadle.ops.promotion import finfo
from treadle.ops.random import gumbel, uniform
from treadle.ops.rectifier import (
    between,
    celu,
    elu,
    glu,
    hard_sigmoid,
    hard_swish,
    leaky_relu,
    prelu,
    relu6,
    tanh_shrink,
)
from treadle.ops.repeat import repeat
from treadle.ops.select import clip, where
from treadle.ops.softmax import log_softmax, softmax, softmin
from treadle.ops.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from treadle.ops.upsample import upsample as resized

__all__ = [
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "bilinear",
    "celu",
    "channel_dropout",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "gelu",
    "glu",
    "group_norm",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "interpolate",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "one_hot",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
    *bags.__all__,
    *criteria.__all__,
    *grids.__all__,
    *images.__all__,
    *norms.__all__,
    "gumbel_softmax",
    "hardshrink",
    "rrelu",
    "softshrink",
    "threshold",
    "upsample",
    *unpooling.__all__,
]

hardsigmoid, hardswish, logsigmoid = hard_sigmoid, hard_swish, log_sigmoid
tanhshrink = tanh_shrink


@by_role()
def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x Wᵀ + b with W of shape (out, in).

    >>> linear([[1.0, 2.0]], [[3.0, 4.0]]).tolist()
    [[11.0]]
    """
    y = matmul_transposed(x, weight)
    return y if bias is None else y + addend(bias, y)


@carried_wide
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + e^(beta x)) / beta; x itself where beta x is above a `threshold` that is
    lower than 20, from where on the two are one.

    >>> f"{float(softplus(0.0)):.4f}"
    '0.6931'
    """
    y = plain_softplus(x) if beta == 1.0 else plain_softplus(x * beta) / beta
    return y if threshold >= 20.0 else where(x * beta > threshold, x, y)


def hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x brought into [min_val, max_val].

    >>> hardtanh([-3.0, 0.5]).tolist()
    [-1.0, 0.5]
    """
    return between(as_float(x), min_val, max_val)


def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x where it is beyond [-lambd, lambd], else 0.

    >>> hardshrink([-1.0, 0.25]).tolist()
    [-1.0, 0.0]
    """
    node = as_float(x)
    inside = functions.logical_and(node >= -lambd, node <= lambd)
    return where(inside, 0, node)


def softshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """x brought nearer to 0 by lambd, 0 within [-lambd, lambd].

    >>> softshrink([-1.0, 0.25]).tolist()
    [-0.5, 0.0]
    """
    node = as_float(x)
    return node - clip(node, -lambd, lambd)


def threshold(x: Any, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, else `value`.

    >>> threshold([0.5, 2.0], 1.0, -1.0).tolist()
    [-1.0, 2.0]
    """
    node = as_tensor(x)
    return where(node <= threshold, value, node)


def rrelu(
    x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Tensor:
    """LeakyReLU with slopes drawn from [lower, upper] in training, else their mean.

    Xu et al., Empirical evaluation of rectified activations, 2015.

    >>> rrelu([-2.0, 2.0], 0.25, 0.75).tolist()
    [-1.0, 2.0]
    """
    node = as_float(x)
    if not training:
        return leaky_relu(node, (lower + upper) / 2)
    return where(node >= 0, node, node * uniform(node.shape, lower, upper, node.dtype))


def gumbel_softmax(
    logits: Any, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau): a draw of a class that has a gradient.

    `hard` gives 1 at the largest and 0 elsewhere, with the gradient of the soft one;
    `eps` is taken for torch's sake. Jang, Gu and Poole 2017.

    >>> float(gumbel_softmax([0.0, 1.0], hard=True).sum())
    1.0
    """
    node = as_float(logits)
    y = softmax((node + gumbel(node.shape, node.dtype)) / tau, dim)
    if not hard:
        return y
    hot = one_hot(functions.argmax(y, dim), y.shape[dim], y.dtype)
    return y + stop_gradient(functions.moveaxis(hot, -1, dim) - y)


def channel_dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Whole channels of (n, channels, ...) dropped.

    >>> channel_dropout(td.ones((1, 2, 3)), 1.0).numpy().any()
    np.False_
    """
    node = as_tensor(x)
    return dropout(node, p, training, shared=tuple(range(2, node.ndim)))


dropout1d = dropout2d = dropout3d = channel_dropout


def alpha_dropout(x: Any, p: float = 0.5, training: bool = False) -> Tensor:
    """Dropout to SELU's negative limit, scaled to keep mean 0 and variance 1; as
    torch's, only where it is asked for by `training`.

    Klambauer et al., Self-normalizing neural networks, 2017.

    >>> alpha_dropout([1.0]).tolist()
    [1.0]
    """
    return plain_alpha(x, p, training)


def _last(x: Tensor, normalized_shape: Any, name: str) -> tuple[int, ...]:
    shape = as_shape(normalized_shape)
    if x.shape[x.ndim - len(shape) :] != shape:
        raise ShapeError(
            f"normalizes the last dimensions {shape}, got {x.type}"
        ).located(name)
    return tuple(range(x.ndim - len(shape), x.ndim))


@recorded
@by_role()
def layer_norm(
    x: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions.

    >>> layer_norm([[1.0, 3.0]], 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    node = as_tensor(x)
    y = standardize(node, _last(node, normalized_shape, "layer_norm"), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@recorded
@by_role()
def rms_norm(
    x: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions; without an `eps` that
    of the dtype, `td.finfo(x.dtype).eps`.

    >>> rms_norm([[3.0, 3.0]], 2, eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    node = as_tensor(x)
    axes = _last(node, normalized_shape, "rms_norm")
    if eps is None:
        dtype = node.type.dtype
        eps = finfo(dtype if is_inexact(dtype) else "float32").eps
    y = root_mean_square(node, axis=axes, eps=eps)
    return y if weight is None else y * weight


def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Tensor:
    """x[n, c, *spatial] with the extents of `size`, or `scale_factor` times as large;
    `recompute_scale_factor` goes by the whole extents that this comes to.

    >>> interpolate(td.ones((1, 1, 4, 6)), scale_factor=1.5, mode="bicubic").shape
    (1, 1, 6, 9)
    """
    corners = bool(align_corners)
    if recompute_scale_factor and size is None:
        spatial = as_tensor(x).shape[2:]
        several = isinstance(scale_factor, (tuple, list))
        times = scale_factor if several else (scale_factor,) * len(spatial)
        size = tuple(int(n * k) for n, k in zip(spatial, times, strict=True))
        scale_factor = None
    return resized(x, scale_factor, mode, align_corners=corners, size=size)


upsample = interpolate


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(Q Kᵀ scale + mask) V; scale is 1 / sqrt(width) unless given.

    A bool mask is True where a key may be attended to; a float one is added. With
    `enable_gqa` each head of keys and values, on axis -3, serves several of queries.

    >>> x = td.ones((1, 3, 2))
    >>> scaled_dot_product_attention(x, x, x).shape
    (1, 3, 2)
    """
    if enable_gqa:
        heads = as_tensor(query).shape[-3]
        key, value = (
            repeat(x, heads // max(as_tensor(x).shape[-3], 1), -3) for x in (key, value)
        )
    drop = (lambda w: dropout(w, dropout_p)) if dropout_p else None
    return attention(
        query, key, value, attn_mask, causal=is_causal, scale=scale, dropout=drop
    )


if not TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
