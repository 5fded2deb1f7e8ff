"""Random numbers: bits from a counter, and distributions made of them.

bits = Philox4x32-10(key = seed, counter = (element, draw)): no state runs from one draw
to the next, so any engine and any number of threads makes the same numbers (Salmon,
Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; 2011).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    float16,
    float32,
    float64,
    int64,
    kind,
    uint64,
)
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.base.options import current
from treadle.base.types import Shape, Type, as_shape, broadcast_shapes, resolve_axis
from treadle.graph.leaves import draw_node
from treadle.graph.op import Array, Traits, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary
from treadle.ops.bounds import Outcome
from treadle.ops.cast import as_float, astype
from treadle.ops.compare import Less
from treadle.ops.create import asked_dtype
from treadle.ops.families import Family

__all__ = [
    "bernoulli",
    "categorical",
    "exponential",
    "gumbel",
    "normal",
    "permutation",
    "randint",
    "restore",
    "seed_state",
    "truncated_normal",
    "uniform",
]


_M = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_W = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# As many bits as a significand holds: one more would round numbers up to 1.
_BITS = {bfloat16: 8, float16: 11, float32: 24}


def philox(counter: Array, key: tuple[int, int]) -> Array:
    """Ten rounds of Philox4x32 on counters uint32[4, n]; uint32[4, n]."""
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in counter)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = _M[0] * c0, _M[1] * c2
        high0, high1 = p0 >> _HALF, p1 >> _HALF
        c0, c1, c2, c3 = (
            high1 ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            high0 ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W[0]) & 0xFFFFFFFF, (k1 + _W[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


def words(draw: Array, count: int) -> Array:
    """`count` random words of a draw (seed, number): word k is of counter k // 4."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    seed, number = int(draw[0]), int(draw[1])
    counter = np.empty((4, blocks.size), dtype=np.uint32)
    counter[0] = blocks & _LOW
    counter[1] = blocks >> _HALF
    counter[2], counter[3] = number & 0xFFFFFFFF, number >> 32
    numbers = philox(counter, (seed & 0xFFFFFFFF, seed >> 32))
    return np.ascontiguousarray(numbers.T).reshape(-1)[:count]


def unit(draw: Array, shape: Shape, dtype: DType) -> Array:
    """Numbers in [0, 1): the top 24 bits of a word, of two words 53 for float64.

    16-bit floats take as many of those bits as they can hold: 11, bfloat16 8.
    """
    count = math.prod(shape)
    if dtype == float64:
        pairs = words(draw, 2 * count).astype(np.uint64).reshape(-1, 2)
        bits = ((pairs[:, 0] << _HALF) | pairs[:, 1]) >> np.uint64(11)
        return (bits * 2.0**-53).reshape(shape)
    kept = _BITS[dtype]
    bits = words(draw, count) >> np.uint32(32 - kept)
    return (bits.astype(np.float32) * np.float32(2.0**-kept)).reshape(shape)


def each_draw(t: Type) -> Shape:
    """The shape of draws without their two words: () of a single one."""
    if t.shape[-1:] != (2,) or t.dtype != uint64:
        raise DTypeError(f"a draw is uint64[2], not {t}")
    return t.shape[:-1]


@family
class Random(Family):
    """Numbers of a draw alone, (seed, number) as uint64[2], or of each of several."""

    __slots__ = ()
    family = "random"
    arity = 1
    traits = Traits(tolerance="E", differentiable=False)
    shape: Shape
    dtype: DType

    def infer(self, *types: Type) -> Type:
        return Type(each_draw(types[0]) + self.shape, self.dtype)

    def numpy(self, draws: Any) -> Array:
        y = np.empty(draws.shape[:-1] + self.shape, self.dtype)
        for place in np.ndindex(draws.shape[:-1]):
            y[place] = self.numbers(draws[place])
        return y

    def numbers(self, draw: Array) -> Array:
        """The numbers of one draw."""
        raise NotImplementedError

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*xs)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        if kind(self.dtype) != "float":
            raise DTypeError(f"random numbers are floats, not {self.dtype.name}")

    def __repr__(self) -> str:
        return f"{self.name}(shape={self.shape!r}, dtype={self.dtype.name!r})"


@op()
class UniformBits(Random):
    """Numbers equally likely in [0, 1)."""

    def numbers(self, draw: Array) -> Array:
        return unit(draw, self.shape, self.dtype)


@op(tolerance="R")
class NormalBits(Random):
    """Numbers of the standard normal distribution, by Box and Muller (1958).

    Elements 2k and 2k + 1 are the cosine and the sine of one pair of uniform numbers.
    """

    def numbers(self, draw: Array) -> Array:
        count = math.prod(self.shape)
        wide = float64 if self.dtype == float64 else float32
        pairs = unit(draw, ((count + 1) // 2, 2), wide).astype(np.float64)
        radius = np.sqrt(-2.0 * np.log1p(-pairs[:, 0]))
        angle = 2.0 * np.pi * pairs[:, 1]
        values = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
        return values.reshape(-1)[:count].reshape(self.shape).astype(self.dtype)


def _wide(dtype: DType) -> DType:
    """The type a distribution is computed in: 16-bit floats lose its tails."""
    return float64 if dtype == float64 else float32


def _extents(shape: Any, *parameters: Any) -> Shape:
    """The shape asked for, or that of the parameters: one number for each of them."""
    shapes = [p.shape if hasattr(p, "shape") else np.shape(p) for p in parameters]
    common = broadcast_shapes(*shapes)
    if shape is None:
        return common
    wanted = as_shape(shape)
    if common and broadcast_shapes(wanted, common) != wanted:
        raise ShapeError(f"parameters of shape {common} do not fit shape {wanted}")
    return wanted


@provide
def uniform(
    shape: Any = None, low: Any = 0.0, high: Any = 1.0, dtype: Any = None
) -> Tensor:
    """Numbers equally likely in [low, high), of the bounds' shape unless one is given.

    With bounds other than 0 and 1, rounding may give `high` itself.

    >>> with td.options(seed=1):
    ...     x, y = td.random.uniform((3,)), td.random.uniform((3,))
    >>> x.tolist() == y.tolist(), 0 <= float(x.min()) and float(x.max()) < 1
    (False, True)
    """
    drawn = UniformBits(_extents(shape, low, high), asked_dtype(dtype))(draw_node())
    if type(low) in (int, float) and type(high) in (int, float):
        if (low, high) == (0, 1):
            return drawn
        return drawn * float(high - low) + float(low)
    return drawn * (as_float(high) - low) + low


@provide
def normal(
    shape: Any = None, mean: Any = 0.0, std: Any = 1.0, dtype: Any = None
) -> Tensor:
    """Numbers of the normal distribution, of the parameters' shape unless one is given.

    >>> with td.options(seed=1):
    ...     abs(float(td.random.normal((1000,), mean=5.0).mean()) - 5.0) < 0.2
    True
    """
    drawn = NormalBits(_extents(shape, mean, std), asked_dtype(dtype))(draw_node())
    return drawn * std + mean


@provide
def bernoulli(shape: Any = None, p: Any = 0.5, dtype: Any = None) -> Tensor:
    """1 with probability p, else 0; of the shape of p unless one is given.

    >>> td.random.bernoulli(p=[0.0, 1.0]).tolist()
    [0.0, 1.0]
    """
    if type(p) in (int, float) and not 0.0 <= p <= 1.0:
        raise ArgumentError(f"a probability is from 0 to 1, got {p}").located(
            "bernoulli"
        )
    wanted = asked_dtype(dtype)
    # 16-bit floats cannot hold the uniform numbers below 1, so those stay wide.
    drawn = uniform(_extents(shape, p), dtype=_wide(wanted))
    return astype(binary(Less(), drawn, p), wanted)


def gumbel(shape: Any = (), dtype: Any = None) -> Tensor:
    """Numbers of the standard Gumbel distribution: -log(-log(u)).

    >>> td.random.gumbel((2, 3)).shape
    (2, 3)
    """
    wanted = asked_dtype(dtype)
    u = uniform(shape, dtype=_wide(wanted))
    safe = functions.maximum(u, float(np.finfo(np.float32).tiny))
    return astype(-functions.log(-functions.log(safe)), wanted)


def exponential(shape: Any = None, rate: Any = 1.0, dtype: Any = None) -> Tensor:
    """Numbers of the exponential distribution: -log(1 - u) / rate.

    >>> float(td.random.exponential((4,)).min()) >= 0
    True
    """
    wanted = asked_dtype(dtype)
    u = uniform(_extents(shape, rate), dtype=_wide(wanted))
    return astype(-functions.log1p(-u), wanted) / rate


def truncated_normal(
    shape: Any = None, mean: Any = 0.0, std: Any = 1.0, dtype: Any = None
) -> Tensor:
    """Normal numbers within two standard deviations of the mean.

    A number further out is replaced by one of eight other draws; the few that are left
    after those (one in 10**12) are held at the bound.

    >>> float(td.abs(td.random.truncated_normal((100,))).max()) <= 2
    True
    """
    wanted, extents = asked_dtype(dtype), _extents(shape, mean, std)
    numbers = normal(extents, dtype=_wide(wanted))
    for _ in range(8):
        redrawn = normal(extents, dtype=_wide(wanted))
        numbers = functions.where(functions.abs(numbers) > 2.0, redrawn, numbers)
    return astype(functions.clip(numbers, -2.0, 2.0), wanted) * std + mean


def randint(low: int, high: int, shape: Any = (), dtype: Any = "int64") -> Tensor:
    """Whole numbers equally likely in [low, high).

    >>> td.random.randint(3, 4, (2,)).tolist()
    [3, 3]
    """
    if high <= low:
        raise ArgumentError(f"no number lies in [{low}, {high})").located("randint")
    wanted = as_dtype(dtype)
    if kind(wanted) == "integer":
        limits = np.iinfo(wanted)
        if low < limits.min or high - 1 > limits.max:
            raise ArgumentError(
                f"{wanted.name} does not hold all of [{low}, {high})"
            ).located("randint")
    if high - low > 2**53:
        raise ArgumentError(
            f"[{low}, {high}) has more numbers than one draw tells apart, 2**53"
        ).located("randint")
    u = uniform(shape, dtype=float64)
    steps = astype(functions.floor(u * float(high - low)), int64)
    return astype(steps + low, wanted)


def permutation(n: int) -> Tensor:
    """The numbers 0 .. n-1 in random order.

    >>> sorted(td.random.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    return functions.argsort(uniform((n,), dtype=float64))


@provide
def categorical(logits: Any, axis: Any = -1, shape: Any = None) -> Tensor:
    """Classes drawn with probabilities softmax(logits) along `axis`: int64.

    By the Gumbel-max method; `shape` draws so many of each, in front. Logits that are
    all -inf, or of which one is NaN, are a RunError.

    >>> td.random.categorical([0.0, -1e9, 0.0]).shape
    ()
    """
    node = as_float(logits)
    place = resolve_axis(axis, node.type) - node.type.ndim
    full = (*as_shape(() if shape is None else shape), *node.type.shape)
    noise = gumbel(full, dtype=float64)
    return Outcome(len(full) + place)(astype(node, float64) + noise)


def seed_state() -> tuple[int, int]:
    """The seed of this thread's scope and the count of draws taken from it.

    >>> with td.options(seed=9):
    ...     _ = td.random.uniform()
    ...     td.random.seed_state()
    (9, 1)
    """
    scope = current().scope
    return scope.seed, scope.count


def restore(saved: tuple[int, int]) -> None:
    """Go on with the draws from where `seed_state` was taken.

    >>> saved, x = seed_state(), float(uniform())
    >>> restore(saved); float(uniform()) == x
    True
    """
    scope = current().scope
    scope.seed, scope.count = int(saved[0]), int(saved[1])
