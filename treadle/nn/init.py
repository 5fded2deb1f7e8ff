"""Initializers: functions of (shape, dtype) for the first value of a parameter.

Called with settings alone they give the same function with those settings, so both
`init=normal` and `init=normal(std=0.02)` work. Draws come from the thread's seed scope:
the same seed gives the same bits.

Fans: a weight of shape (out, in) has fan-in `in` and fan-out `out`; a convolution's
(out, in, *kernel) has in * k and out * k with k the product of the kernel's extents; a
vector has its length for both. `layout="io"` reads (in, out) and (*kernel, in, out), as
Marian does.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.base.allocate import memory_for
from treadle.base.arrays import Array
from treadle.base.dtypes import accumulator
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import Shape, as_shape
from treadle.ops import random
from treadle.ops.create import asked_dtype

__all__ = [
    "Initializer",
    "bernoulli",
    "by_name",
    "constant",
    "eye",
    "fans",
    "gain",
    "glorot_normal",
    "glorot_uniform",
    "gumbel",
    "he_normal",
    "he_uniform",
    "identity",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "names",
    "normal",
    "ones",
    "orthogonal",
    "saxe",
    "sinusoidal",
    "standard",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]


class Initializer:
    """A rule with settings: `init(shape, dtype)` is an array, `init(setting=...)` the
    same rule with other settings.

    >>> constant(value=2.0)((2,), "float32").tolist()
    [2.0, 2.0]
    """

    fresh = True  # each call makes an array of its own

    def __init__(self, rule: Callable[..., Array], **settings: Any) -> None:
        self.rule, self.settings = rule, settings
        self.names = [*inspect.signature(rule).parameters][2:]  # of settings
        self.plain = self  # without the settings
        functools.update_wrapper(self, rule)

    def __reduce__(self) -> Any:
        """A name, as of any function, and the settings."""
        if self.plain is self:
            return self.rule.__qualname__
        return functools.partial(self.plain, **self.settings), ()

    def __call__(self, shape: Any = None, dtype: Any = None, **settings: Any) -> Any:
        merged = {**self.settings, **settings}
        unknown = [name for name in merged if name not in self.names]
        if unknown:
            raise ArgumentError(
                f"initializer {self.rule.__name__!r} has no setting {unknown[0]!r}",
                hint=f"settings: {', '.join(self.names) or 'none'}",
            )
        if shape is None:
            other = object.__new__(Initializer)
            vars(other).update(vars(self), settings=merged)
            return other
        wanted = asked_dtype(dtype)
        extents = as_shape(shape)
        with memory_for(math.prod(extents) * wanted.itemsize):
            return np.asarray(self.rule(extents, wanted, **merged), dtype=wanted)

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings.items())
        return f"{self.rule.__name__}({settings})"


def fans(shape: Any, layout: str = "oi") -> tuple[int, int]:
    """(fan-in, fan-out) of a weight: see the head of this file.

    >>> fans((8, 3, 5, 5)), fans((4, 2)), fans((4, 2), "io")
    ((75, 200), (2, 4), (4, 2))
    """
    extents = as_shape(shape)
    if layout not in ("oi", "io"):
        raise ArgumentError(f'layout is "oi" or "io", not {layout!r}')
    if not extents:
        return 1, 1
    if len(extents) == 1:
        return extents[0], extents[0]
    if layout == "io":
        k = math.prod(extents[:-2])
        return extents[-2] * k, extents[-1] * k
    k = math.prod(extents[2:])
    return extents[1] * k, extents[0] * k


def gain(nonlinearity: str, slope: float = 0.01) -> float:
    """The gain of a nonlinearity: the factor by which weights before it are wider.

    Source: He et al., "Delving deep into rectifiers", 2015; values as in torch.

    >>> round(gain("relu") ** 2, 6)
    2.0
    """
    known = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1.0 + slope**2)),
        "selu": 0.75,
    }
    if nonlinearity not in known:
        raise ArgumentError(
            f"no gain is known for {nonlinearity!r}", hint=f"one of {', '.join(known)}"
        )
    return known[nonlinearity]


def _uniform(shape: Shape, dtype: Any, low: float, high: float) -> Array:
    draws = random.uniform(shape, low, high, dtype=accumulator(dtype))
    return np.asarray(draws.numpy())


def _normal(shape: Shape, dtype: Any, mean: float, std: float) -> Array:
    draws = random.normal(shape, mean, std, dtype=accumulator(dtype))
    return np.asarray(draws.numpy())


@Initializer
def zeros(shape: Shape, dtype: Any) -> Array:
    """0 everywhere."""
    return np.zeros(shape, dtype)


@Initializer
def ones(shape: Shape, dtype: Any) -> Array:
    """1 everywhere."""
    return np.ones(shape, dtype)


@Initializer
def constant(shape: Shape, dtype: Any, value: float = 0.0) -> Array:
    """One value everywhere."""
    return np.full(shape, value, dtype)


@Initializer
def eye(shape: Shape, dtype: Any, value: float = 1.0) -> Array:
    """A matrix with `value` on its diagonal, 0 elsewhere."""
    if len(shape) != 2:
        raise ShapeError(f"eye makes a matrix, not shape {shape}")
    return np.asarray(value * np.eye(*shape, dtype=dtype))


@Initializer
def identity(shape: Shape, dtype: Any, value: float = 1.0) -> Array:
    """Identity weights: an eye; for (out, in, *kernel) at the kernel's center.

    Zagoruyko and Komodakis, DiracNets, 2017.
    """
    if len(shape) < 2:
        raise ShapeError(f"identity makes at least a matrix, not shape {shape}")
    array = np.zeros(shape, dtype)
    center = tuple(n // 2 for n in shape[2:])
    for k in range(min(shape[:2])):
        array[(k, k, *center)] = value
    return array


@Initializer
def uniform(shape: Shape, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
    """Uniform from `low` to `high`."""
    return _uniform(shape, dtype, low, high)


@Initializer
def normal(shape: Shape, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Array:
    """Normal with `mean` and standard deviation `std`."""
    return _normal(shape, dtype, mean, std)


@Initializer
def truncated_normal(
    shape: Shape, dtype: Any, mean: float = 0.0, std: float = 1.0, bound: float = 2.0
) -> Array:
    """Normal, drawn again where it is more than `bound` deviations off the mean."""
    if not bound > 0:
        raise ArgumentError(f"bound is above 0, got {bound}")
    draws = _normal(shape, dtype, 0.0, 1.0).copy()
    outside = np.abs(draws) > bound
    while outside.any():
        draws[outside] = _normal((int(outside.sum()),), dtype, 0.0, 1.0)
        outside = np.abs(draws) > bound
    return np.asarray(mean + std * draws)


@Initializer
def gumbel(shape: Shape, dtype: Any, eps: float = 1e-5) -> Array:
    """-log(-log(u)) with u uniform from eps to 1 - eps (Marian)."""
    if not 0.0 < eps < 0.5:
        raise ArgumentError(f"eps is above 0 and below 1/2, got {eps}")
    return np.asarray(-np.log(-np.log(_uniform(shape, dtype, eps, 1.0 - eps))))


@Initializer
def bernoulli(
    shape: Shape, dtype: Any, p: float = 0.5, scale: float = 1.0, shift: float = 0.0
) -> Array:
    """scale b + shift with b = 1 with probability p, else 0 (Marian)."""
    return (_uniform(shape, dtype, 0.0, 1.0) < p) * scale + shift


@Initializer
def variance_scaling(
    shape: Shape,
    dtype: Any,
    scale: float = 1.0,
    mode: str = "in",
    distribution: str = "uniform",
    layout: str = "oi",
) -> Array:
    """Draws of variance scale / fan, the fan being "in", "out" or their mean "both"."""
    fan_in, fan_out = fans(shape, layout)
    chosen = {"in": fan_in, "out": fan_out, "both": (fan_in + fan_out) / 2.0}
    if mode not in chosen:
        raise ArgumentError(f'mode is "in", "out" or "both", not {mode!r}')
    variance = scale / max(chosen[mode], 1.0)
    if distribution == "uniform":
        limit = math.sqrt(3.0 * variance)
        return _uniform(shape, dtype, -limit, limit)
    if distribution == "normal":
        return _normal(shape, dtype, 0.0, math.sqrt(variance))
    raise ArgumentError(f'distribution is "uniform" or "normal", not {distribution!r}')


def _scaled(name: str, doc: str, distribution: str, rule: Callable[..., Any]) -> Any:
    """A named member of the variance-scaling family: `rule` gives (scale, mode)."""
    parameters = inspect.signature(rule).parameters

    def scaled(shape: Shape, dtype: Any, layout: str = "oi", **settings: Any) -> Array:
        scale, mode = rule(**settings)
        how = {"distribution": distribution, "layout": layout}
        return variance_scaling(shape, dtype, scale=scale, mode=mode, **how)

    kinds = inspect.Parameter
    heads = [kinds(k, kinds.POSITIONAL_OR_KEYWORD) for k in ("shape", "dtype")]
    last = kinds("layout", kinds.POSITIONAL_OR_KEYWORD, default="oi")
    scaled.__name__, scaled.__qualname__, scaled.__doc__ = name, name, doc
    scaled.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*heads, *parameters.values(), last]
    )
    return Initializer(scaled)


def _glorot(gain: float = 1.0, mode: str = "both") -> tuple[float, str]:
    return gain**2, mode


def _kaiming(
    a: float = 0.0, mode: str = "in", nonlinearity: str = "leaky_relu"
) -> tuple[float, str]:
    return gain(nonlinearity, a) ** 2, mode


def _fan_in(gain: float = 1.0) -> tuple[float, str]:
    return gain**2, "in"


glorot_uniform = _scaled(
    "glorot_uniform",
    "Within gain sqrt(6 / (in + out)); sqrt(3 / in) or sqrt(3 / out) by `mode`. Glorot "
    "and Bengio 2010.",
    "uniform",
    _glorot,
)
glorot_normal = _scaled(
    "glorot_normal",
    "Deviation gain sqrt(2 / (in + out)); sqrt(1 / in) or sqrt(1 / out) by `mode`.",
    "normal",
    _glorot,
)
kaiming_uniform = _scaled(
    "kaiming_uniform",
    "Within sqrt(6 / ((1 + a²) fan)). He et al., Delving deep into rectifiers, 2015.",
    "uniform",
    _kaiming,
)
kaiming_normal = _scaled(
    "kaiming_normal", "Deviation sqrt(2 / ((1 + a²) fan)).", "normal", _kaiming
)
lecun_uniform = _scaled("lecun_uniform", "Within sqrt(3 / in).", "uniform", _fan_in)
lecun_normal = _scaled("lecun_normal", "Deviation sqrt(1 / in).", "normal", _fan_in)
xavier = lecun_uniform  # Nervana Graph's name for sqrt(3 / in)
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
he_uniform, he_normal = kaiming_uniform, kaiming_normal


@Initializer
def standard(shape: Shape, dtype: Any, layout: str = "oi") -> Array:
    """Within sqrt(1 / in) (Owl)."""
    limit = 1.0 / math.sqrt(max(fans(shape, layout)[0], 1))
    return _uniform(shape, dtype, -limit, limit)


@Initializer
def orthogonal(shape: Shape, dtype: Any, gain: float = 1.0) -> Array:
    """Orthonormal rows or columns of the weight seen as (first, all others).

    Saxe, McClelland and Ganguli, Exact solutions to the nonlinear dynamics of learning
    in deep linear neural networks, 2014.
    """
    if len(shape) < 2:
        raise ShapeError(f"orthogonal makes at least a matrix, not shape {shape}")
    rows, columns = shape[0], math.prod(shape[1:])
    draw = _normal((max(rows, columns), min(rows, columns)), dtype, 0.0, 1.0)
    q, r = np.linalg.qr(draw.astype(np.float64))
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return np.asarray(gain * (q if rows >= columns else q.T).reshape(shape))


saxe = orthogonal


@Initializer
def sinusoidal(
    shape: Shape, dtype: Any, start: int = 0, interleaved: bool = False
) -> Array:
    """sin and cos of position / 10000^(2k / width), sines first (Marian) or in turns.

    Vaswani et al., Attention is all you need, 2017; there they are `interleaved`.
    """
    if len(shape) != 2 or shape[1] % 2:
        raise ShapeError(f"sinusoidal makes (positions, even width), not {shape}")
    half = shape[1] // 2
    steps = max(half if interleaved else half - 1, 1)
    rates = np.exp(-math.log(10000.0) * np.arange(half) / steps)
    angles = (start + np.arange(shape[0]))[:, None] * rates
    parts = [np.sin(angles), np.cos(angles)]
    if interleaved:
        return np.stack(parts, -1).reshape(shape)
    return np.concatenate(parts, -1)


_TABLE: dict[str, Initializer] = {
    name: entry
    for name, entry in list(globals().items())
    if isinstance(entry, Initializer)
}


def names() -> list[str]:
    """The names `by_name` takes."""
    return list(_TABLE)


def by_name(name: str, **settings: Any) -> Initializer:
    """The initializer of that name with these settings.

    >>> by_name("constant", value=2.0)((2,), "float32").tolist()
    [2.0, 2.0]
    """
    if name not in _TABLE:
        raise ArgumentError(
            f"there is no initializer {name!r}", hint=f"one of {', '.join(_TABLE)}"
        )
    return _TABLE[name](**settings)
