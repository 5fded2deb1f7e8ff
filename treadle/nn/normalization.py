"""Normalizations: over features, the batch, groups of channels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from treadle.base.dtypes import accumulator
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import as_shape
from treadle.graph.assign import update_all
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions
from treadle.graph.recorded import recorded
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Variable
from treadle.nn import functional as F
from treadle.nn.applied import Applied
from treadle.nn.linear import above_zero
from treadle.nn.module import Module
from treadle.ops.cast import as_float, carried_wide
from treadle.ops.create import asked_dtype
from treadle.ops.families import outputs_of
from treadle.ops.flow import stop_gradient
from treadle.ops.movement import reshape
from treadle.ops.naming import by_role
from treadle.ops.normalization import (
    Running,
    RunningStatistics,
    share_of,
    standardize,
    updated_statistics,
)
from treadle.ops.window import batched

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "RMSNorm",
]


def _shape_of(normalized_shape: Any) -> tuple[int, ...]:
    above_zero(normalized_shape=normalized_shape)
    shape = as_shape(normalized_shape)
    if not shape:
        raise ArgumentError("a normalization needs at least one dimension")
    return shape


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions.

    Ba, Kiros and Hinton 2016.

    >>> td.nn.LayerNorm(2)([[1.0, 3.0]]).numpy().round(3).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = _shape_of(normalized_shape), eps
        shape = self.normalized_shape
        affine = elementwise_affine
        self.weight = param(shape=shape, init=1.0, dtype=dtype) if affine else None
        self.bias = param(shape=shape, dtype=dtype) if affine and bias else None

    def forward(self, x: Any) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        affine = self.weight is not None
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={affine}"


class RMSNorm(Module):
    """x / sqrt(mean(x²) + eps) * weight over the last dimensions. Zhang, Sennrich 2019.

    Without an `eps` it is that of the input's dtype, as in torch.

    >>> td.nn.RMSNorm(2, eps=0.0)([[3.0, 3.0]]).tolist()
    [[1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps = _shape_of(normalized_shape), eps
        shape = self.normalized_shape
        scaled = elementwise_affine
        self.weight = param(shape=shape, init=1.0, dtype=dtype) if scaled else None

    def forward(self, x: Any) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


def _per_channel(v: Variable | Tensor, ndim: int) -> Tensor:
    """A vector over channels, to broadcast over (n, channels, ...)."""
    return reshape(v, (1, -1) + (1,) * (ndim - 2))


@recorded
def _affine(y: Tensor, weight: Any, bias: Any) -> Tensor:
    """y weight + bias, a number for each channel; None is none."""
    if weight is not None:
        y = y * _per_channel(weight, y.ndim)
    if bias is not None:
        y = y + _per_channel(bias, y.ndim)
    return y


@carried_wide
def _scaled(x: Tensor, mean: Tensor, var: Tensor, eps: float) -> Tensor:
    """x standardized by statistics that are known."""
    return (x - mean) * functions.rsqrt(var + eps)


class _Channels(Applied):
    """Weight and bias for each channel, and the ranks an input may have."""

    ranks: ClassVar[tuple[int, ...]] = ()
    num_features: int
    weight: Parameter | None
    bias: Parameter | None

    def _checked(self, x: Any) -> Tensor:
        node = as_tensor(x)
        shape = node.type.shape
        if len(shape) not in self.ranks or shape[1] != self.num_features:
            ranks = " or ".join(str(k) for k in self.ranks)
            raise ShapeError(
                f"takes (n, {self.num_features}, ...) of {ranks} dimensions, "
                f"got {node.type}"
            ).located(type(self).__name__)
        return node

    def _refuse_one(self, x: Tensor, count: int) -> None:
        """Refuse statistics of one value: they say nothing, and the result is 0."""
        if count == 1:
            raise ShapeError(
                f"{x.type} has one value for each channel to take statistics of",
                hint="give it more rows, or call .eval() where it has statistics",
            ).located(type(self).__name__)

    def _affine(self, y: Tensor) -> Tensor:
        return _affine(y, self.weight, self.bias)

    def _make_affine(self, affine: bool, dtype: Any, bias: bool) -> None:
        shape = (self.num_features,)
        self.weight = param(shape=shape, init=1.0, dtype=dtype) if affine else None
        self.bias = param(shape=shape, dtype=dtype) if affine and bias else None


@recorded
def _normalized(
    x: Tensor, axes: tuple[int, ...], eps: float, weight: Any, bias: Any
) -> Tensor:
    """x standardized over `axes`, times weight + bias of each channel."""
    return _affine(standardize(x, axes, eps), weight, bias)


@recorded
def _followed(
    x: Tensor, axes: tuple[int, ...], momentum: float | None, *running: Any
) -> Running:
    """The running statistics after a batch x, of which its own are over `axes`."""
    # One version of each, whatever other threads assign.
    count, mean, var = map(as_tensor, running)
    x, size = as_float(x), math.prod(x.shape[k] for k in axes)
    dtype = accumulator(x.dtype)
    ratio = constant_node(np.array(size / max(size - 1, 1), dtype))
    part = share_of(momentum, count, mean, dtype)
    moved = outputs_of(RunningStatistics(axes)(x, ratio, part, count, mean, var))
    return moved[0], moved[1], moved[2]


@recorded
def _toward(
    mean: Tensor, unbiased: Tensor, momentum: float | None, *running: Any
) -> Running:
    """The same after one whose mean and unbiased variance are known."""
    count, *statistics = map(as_tensor, running)
    part = share_of(momentum, count, statistics[0], mean.dtype)
    known = stop_gradient(mean), stop_gradient(unbiased)
    return updated_statistics(*known, part, count, *statistics)


class BatchNorm(_Channels):
    """(x - mean) / sqrt(var + eps) * weight + bias with the batch's own statistics.

    In training the running statistics move by `momentum` toward the batch's (the
    variance unbiased, as torch's), with the next run; momentum None is the plain mean
    of all batches, and an empty batch is none. In use the running statistics take the
    batch's place. Ioffe and Szegedy 2015.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        above_zero(num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self._make_affine(affine, dtype, bias)
        self.track_running_stats = track_running_stats
        if track_running_stats:
            shape = (num_features,)
            kept = asked_dtype(dtype)
            self.running_mean = Variable(np.zeros(shape, kept))
            self.running_var = Variable(np.ones(shape, kept))
            self.num_batches_tracked = Variable(np.zeros((), np.int64))

    @by_role(1)
    def forward(self, x: Any) -> Tensor:
        node = self._checked(x)
        if not self.training and self.track_running_stats:
            mean, var = self.running_mean.node(), self.running_var.node()
            mean, var = (_per_channel(v, node.ndim) for v in (mean, var))
            return self._affine(_scaled(node, mean, var, self.eps))
        size, axes = node.type.size, (0, *range(2, node.type.ndim))
        shared = self.shared_statistics(node, axes) if self.training else None
        if shared is not None:
            mean, var, unbiased = shared
            if self.track_running_stats:
                self._track(_toward, mean, unbiased)
            mean, var = (_per_channel(v, node.ndim) for v in (mean, var))
            return self._affine(_scaled(node, mean, var, self.eps))
        self._refuse_one(node, size // self.num_features)
        if self.training and self.track_running_stats and size:
            self._track(_followed, node, axes)
        return _normalized(node, axes, self.eps, self.weight, self.bias)

    def shared_statistics(self, x: Tensor, axes: tuple[int, ...]) -> Any:
        """The mean, the variance and the unbiased variance of each channel of a batch
        over `axes`, of which x is a part; None where x is all of it."""
        return None

    def _track(self, follow: Callable[..., Running], *batch: Any) -> None:
        """Let the running statistics `follow` those of a batch."""
        running = self.num_batches_tracked, self.running_mean, self.running_var
        moved = follow(*batch, self.momentum, *running)
        update_all([*zip(running, moved, strict=True)])

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.weight is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(BatchNorm, ranks=(2, 3)):
    """Batch normalization of (n, channels) or (n, channels, length).

    >>> td.nn.BatchNorm1d(1)([[1.0], [3.0]]).numpy().round(3).tolist()
    [[-1.0], [1.0]]
    """


class BatchNorm2d(BatchNorm, ranks=(4,)):
    """Batch normalization of (n, channels, height, width).

    >>> layer = td.nn.BatchNorm2d(3)
    >>> layer(td.ones((2, 3, 4, 4))).shape, layer.running_mean.numpy()[0].round(1)
    ((2, 3, 4, 4), np.float32(0.1))
    """


class BatchNorm3d(BatchNorm, ranks=(5,)):
    """Batch normalization of (n, channels, depth, height, width).

    >>> td.nn.BatchNorm3d(2)(td.ones((1, 2, 2, 2, 2))).shape
    (1, 2, 2, 2, 2)
    """


class GroupNorm(Module):
    """Normalization of each sample over groups of channels. Wu and He 2018.

    >>> td.nn.GroupNorm(2, 4)(td.ones((3, 4, 5))).shape
    (3, 4, 5)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        above_zero(num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ArgumentError(f"{num_groups} groups do not divide {num_channels}")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        shape = (num_channels,)
        self.weight = param(shape=shape, init=1.0, dtype=dtype) if affine else None
        self.bias = param(shape=shape, dtype=dtype) if affine and bias else None

    def forward(self, x: Any) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _InstanceNorm(BatchNorm):
    """Each channel of each sample normalized by its own statistics; (channels, ...) is
    one sample. With `track_running_stats` running ones follow the samples' mean in
    training and take their place in use. Ulyanov 2016."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        settings = (num_features, eps, momentum, affine, track_running_stats, dtype)
        super().__init__(*settings, bias=bias)

    def forward(self, x: Any) -> Tensor:
        y: Tensor = batched(as_tensor(x), self.ranks[0] - 2, self._normed)
        return y

    def _normed(self, x: Tensor) -> Tensor:
        if not self.training and self.track_running_stats:
            return super().forward(x)
        node = self._checked(x)
        self._refuse_one(node, math.prod(node.shape[2:]))
        running: tuple[Any, Any] = None, None
        if self.track_running_stats:
            running = self.running_mean, self.running_var
        share = self.momentum or 0.0
        weights = self.weight, self.bias
        return F.instance_norm(node, *running, *weights, True, share, self.eps)


class InstanceNorm1d(_InstanceNorm, ranks=(3,)):
    """Instance normalization of (n, channels, length).

    >>> td.nn.InstanceNorm1d(1)([[[1.0, 3.0]]]).numpy().round(3).tolist()
    [[[-1.0, 1.0]]]
    """


class InstanceNorm2d(_InstanceNorm, ranks=(4,)):
    """Instance normalization of (n, channels, height, width).

    >>> td.nn.InstanceNorm2d(1)(td.ones((1, 1, 2, 2))).shape
    (1, 1, 2, 2)
    """


class InstanceNorm3d(_InstanceNorm, ranks=(5,)):
    """Instance normalization of (n, channels, depth, height, width).

    >>> td.nn.InstanceNorm3d(1)(td.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 2, 2, 2)
    """
