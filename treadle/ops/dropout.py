"""Values dropped or disturbed at random in training, and passed on in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import float32, kind
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.base.types import Shape, Type, broadcast_shapes, normalize_axes
from treadle.graph.leaves import draw_node
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.rows import repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, astype, operands
from treadle.ops.families import Composite
from treadle.ops.random import UniformBits, each_draw, normal

__all__ = [
    "alpha_dropout",
    "block_dropout",
    "dropout",
    "gaussian_dropout",
    "gaussian_noise",
    "zoneout",
]

SELU_LOW = -1.7580993408473766  # the limit of selu at minus infinity


@op(linear=True)
class Dropout(Composite):
    """x / (1 - p) where a number drawn for it is at least p, else 0.

    Inputs x, p and a draw; `mask` is the shape of the numbers drawn, 1 where elements
    share one. The mask is made again from the draw for the derivative, never kept.
    """

    mask: Shape
    arity = 3

    def infer(self, x: Type, p: Type, draw: Type) -> Type:
        each_draw(draw)
        if kind(x.dtype) != "float" or kind(p.dtype) != "float":
            raise DTypeError(f"takes float operands, not {x} and {p}")
        if p.shape:
            raise ShapeError(f"the probability is a scalar, not {p}")
        mask = self.drawn(x, draw)
        if broadcast_shapes(mask, x.shape) != x.shape:
            raise ShapeError(f"a mask of shape {mask} does not fit {x}")
        return x

    def drawn(self, x: Any, draw: Any) -> Shape:
        """The shape of all numbers drawn: those of several draws stand in front."""
        lead = draw.shape[:-1]
        between = x.ndim - len(lead) - len(self.mask) if lead else 0
        return (*lead, *[1] * between, *self.mask)

    def numpy(self, x: Any, p: Any, draw: Any) -> Array:
        p = p.astype(np.float32)
        numbers = UniformBits(self.mask, float32).numpy(draw)
        kept = numbers.reshape(self.drawn(x, draw)) >= p
        return np.where(kept, x / (1 - p).astype(x.dtype), np.zeros((), x.dtype))

    def expand(self, *xs: Tensor) -> Tensor:
        x, p, draw = functions.unname(xs[0]), astype(xs[1], float32), xs[2]
        numbers = UniformBits(self.mask, float32)(draw)
        kept = functions.reshape(numbers, self.drawn(x, draw)) >= p
        return functions.where(kept, x / astype(1.0 - p, x.type.dtype), 0)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return Dropout(self.mask)(g, xs[1], xs[2]), None, None

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        if has_rows[1]:
            return super().rows(has_rows, *xs)
        x, p, draw = xs
        many, has_draws = has_rows[0], has_rows[2]
        if has_draws:
            x = x if many else repeated(x, row_count(has_rows, xs))
        elif draw.type.ndim > 1:
            draw = repeated(draw, row_count(has_rows, xs))
        return self(x, p, draw)


def _idle(p: Any, training: bool, name: str) -> bool:
    """Whether nothing is to be dropped; a probability out of range is an error."""
    if isinstance(p, Operand):
        return not training
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"a probability is from 0 to 1, got {p}").located(name)
    return not training or p == 0.0


def _drops_all(p: Any) -> bool:
    """Whether nothing is kept, which no scale makes up for."""
    return not isinstance(p, Operand) and p == 1.0


def _scalar(p: Any) -> Tensor:
    return astype(as_float(p), float32)


@provide
def dropout(x: Any, p: Any = 0.5, training: bool = True, shared: Any = ()) -> Tensor:
    """x with elements 0 with probability p in training, else x / (1 - p).

    `shared` are axes along which elements are kept or dropped together. Srivastava et
    al., Dropout, 2014.

    >>> td.dropout([1.0, 2.0], 0.5, training=False).tolist()
    [1.0, 2.0]
    >>> rows = td.dropout(td.ones((4, 3)), 0.5, shared=1)
    >>> set(rows.sum(1).tolist()) <= {0.0, 6.0}
    True
    """
    node = as_float(x)
    if _idle(p, training, "dropout"):
        return node
    if _drops_all(p):
        return functions.where(False, node, 0)
    together = normalize_axes(shared, node.type)
    mask = tuple(1 if k in together else n for k, n in enumerate(node.type.shape))
    return Dropout(mask)(node, _scalar(p), draw_node())


def block_dropout(x: Any, p: Any = 0.5, training: bool = True) -> Tensor:
    """All of x, or 0 with probability p in training, else x / (1 - p).

    >>> float(td.block_dropout([1.0, 1.0], 0.5).sum()) in (0.0, 4.0)
    True
    """
    return dropout(x, p, training, shared=None)


def _kept(node: Tensor, p: Any) -> Tensor:
    """True with probability 1 - p, for each element."""
    drawn = UniformBits(node.type.shape, float32)(draw_node())
    kept: Tensor = drawn >= _scalar(p)
    names = node.type.axes
    return kept if names is None else functions.name_axes(kept, *names)


def alpha_dropout(x: Any, p: Any = 0.5, training: bool = True) -> Tensor:
    """Dropout to SELU's lower limit l, scaled to keep mean 0 and variance 1.

    a x + b where kept, a l + b where dropped; a = ((1 - p)(1 + p l²))^-1/2 and
    b = -a p l. Klambauer et al., Self-normalizing neural networks, 2017.

    >>> td.alpha_dropout([1.0], 0.5, training=False).tolist()
    [1.0]
    """
    node = as_float(x)
    if _idle(p, training, "alpha_dropout"):
        return node
    if _drops_all(p):
        return functions.where(False, node, 0)
    a = ((1.0 - p) * (1.0 + p * SELU_LOW**2)) ** -0.5
    return functions.where(_kept(node, p), node, SELU_LOW) * a - a * p * SELU_LOW


def gaussian_dropout(x: Any, p: Any = 0.5, training: bool = True) -> Tensor:
    """x times normal numbers of mean 1 and variance p / (1 - p) in training.

    Srivastava et al., Dropout, 2014, section 10.

    >>> td.gaussian_dropout([1.0, 2.0], 0.0).tolist()
    [1.0, 2.0]
    """
    node = as_float(x)
    if _idle(p, training, "gaussian_dropout"):
        return node
    if _drops_all(p):
        raise ArgumentError("p is below 1").located("gaussian_dropout")
    return node * (_noise(node, (p / (1.0 - p)) ** 0.5) + 1.0)


def gaussian_noise(x: Any, std: Any = 1.0, training: bool = True) -> Tensor:
    """x plus normal numbers of mean 0 in training.

    >>> td.gaussian_noise([1.0, 2.0], 0.1, training=False).tolist()
    [1.0, 2.0]
    """
    node = as_float(x)
    return node + _noise(node, std) if training else node


def _noise(node: Tensor, std: Any) -> Tensor:
    """Normal numbers like the elements of a node, of mean 0."""
    drawn = normal(node.type.shape, dtype=node.type.dtype)
    if node.type.axes is not None:
        drawn = functions.name_axes(drawn, *node.type.axes)
    return drawn * astype(as_float(std), node.type.dtype)


def zoneout(new: Any, old: Any, p: Any = 0.5, training: bool = True) -> Tensor:
    """In training each element keeps its old value with probability p; else their mean.

    In use p old + (1 - p) new. Krueger et al., Zoneout, 2017.

    >>> td.zoneout([1.0], [3.0], 0.25, training=False).tolist()
    [1.5]
    """
    fresh, kept = align(operands(as_float(new), as_float(old)))
    if fresh.type.shape != kept.type.shape:
        raise ShapeError(f"new values {fresh.type} for old {kept.type}").located(
            "zoneout"
        )
    if _idle(p, training, "zoneout"):
        return fresh + (kept - fresh) * p
    return functions.where(_kept(fresh, p), fresh, kept)
