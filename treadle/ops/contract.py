"""Products summed over shared letters, and the matrix product."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.errors import ArityError, AxisError, ShapeError, TreadleError
from treadle.base.types import Type
from treadle.graph.op import Array, Cotangents, Traits, matched, op
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import located
from treadle.ops.cast import factors
from treadle.ops.elementwise import conj
from treadle.ops.families import Family, same_dtype
from treadle.ops.movement import reshape

__all__ = ["matmul", "matmul_transposed"]


@cached(1024)
def letters(spec: str) -> tuple[str, str, str]:
    """The letters of both operands and of the result."""
    ab, out = spec.split("->")
    a, b = ab.split(",")
    return a, b, out


@op()
class Contract(Family):
    """The sum over shared letters of products, by einsum letters `spec` = "ij,jk->ik".

    Each letter stands once in an operand; one that is not in the result is in both.
    """

    spec: str
    family = "contraction"
    arity = 2
    takes = "numeric"
    traits = Traits(tolerance="R")

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        return _contracted(self.spec, *types)

    def work(self, *types: Type) -> int:
        """The number of products that are added up."""
        a, b, _ = letters(self.spec)
        shapes = types[0].shape + types[1].shape
        return math.prod(dict(zip(a + b, shapes, strict=True)).values())

    def numpy(self, *arrays: Any) -> Array:
        a, b, out = letters(self.spec)
        x, y = arrays
        batch = [c for c in a if c in b and c in out]
        left = [c for c in a if c not in b]
        right = [c for c in b if c not in a]
        inner = [c for c in a if c in b and c not in out]
        size = dict(zip(a + b, x.shape + y.shape, strict=True))
        x = np.transpose(x, [a.index(c) for c in batch + left + inner])
        y = np.transpose(y, [b.index(c) for c in batch + inner + right])

        def grouped(array: Array, *groups: list[str]) -> Array:
            extents = [size[c] for c in batch]
            extents += [int(np.prod([size[c] for c in g], dtype=int)) for g in groups]
            return array.reshape(extents)

        z = np.matmul(grouped(x, left, inner), grouped(y, inner, right))
        order = batch + left + right
        z = z.reshape([size[c] for c in order])
        return np.transpose(z, [order.index(c) for c in out])

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        a, b, out = letters(self.spec)
        gx = Contract(f"{out},{b}->{a}")(g, conj(xs[1]))
        gy = Contract(f"{a},{out}->{b}")(conj(xs[0]), g)
        return gx, gy

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        # One letter more, so rows that share an operand are one product with it.
        n = next(c for c in string.ascii_letters if c not in self.spec)
        a, b, out = letters(self.spec)
        first, second = (n * g for g in has_rows)
        return Contract(f"{first}{a},{second}{b}->{n}{out}")(*xs)


@cached(1024)
def _contracted(spec: str, x: Type, y: Type) -> Type:
    """The type of what is left by the letters of a product."""
    a, b, out = letters(spec)
    extent: dict[str, int] = {}
    for part, t in ((a, x), (b, y)):
        if len(part) != t.ndim:
            raise ShapeError(f"{t} has {t.ndim} dimensions, {part!r} names {len(part)}")
        for k, letter in enumerate(part):
            n = t.shape[k]
            if extent.setdefault(letter, n) != n:
                raise ShapeError(
                    f"shapes {x.shape} and {y.shape} do not meet: "
                    f"{letter!r} of {spec!r} is {extent[letter]} and {n}"
                )
    shape = tuple(extent[letter] for letter in out)
    return Type(shape, x.dtype, matched(((x, a), (y, b)), out))


# The products without batch dimensions, by the dimensions of the operands.
_PLAIN = {
    (1, 1): Contract("j,j->"),
    (1, 2): Contract("j,jk->k"),
    (2, 1): Contract("ij,j->i"),
    (2, 2): Contract("ij,jk->ik"),
}


@provide
@recorded
def matmul(x: Any, y: Any) -> Tensor:
    """The matrix product over the last dimension of x and the last but one of y.

    Vectors are rows on the left and columns on the right; leading dimensions broadcast.
    Named operands must agree on the name of the axis that is summed over.

    >>> td.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
    [[11.0]]
    """
    a, b = factors(x, y)
    if not a.type.shape or not b.type.shape:
        raise ShapeError(
            "matmul takes no scalar", hint="use * to scale a tensor"
        ).located("matmul", f"{a.type}, {b.type}")
    if a.type.axes is not None or b.type.axes is not None:
        try:
            _agree(a.type, b.type)
        except TreadleError as error:
            raise located(error, Contract("j,j->"), [a, b]) from None
    plain = _PLAIN.get((len(a.type.shape), len(b.type.shape)))
    if plain is not None:
        return plain(a, b)
    pool = "abcdefghopqrstuvwxyz"
    lead_a, lead_b = a.type.shape[:-2], b.type.shape[:-2]
    ndim = max(len(lead_a), len(lead_b))
    if ndim > len(pool):
        raise ArityError(f"matmul takes at most {len(pool)} batch dimensions")
    batch = pool[:ndim]
    own_a, a = _dropped(a, batch, lead_b)
    own_b, b = _dropped(b, batch, lead_a)
    out = "".join(c for c in batch if c in own_a or c in own_b)
    rows = "i" if len(a.type.shape) > len(own_a) + 1 else ""
    columns = "k" if len(b.type.shape) > len(own_b) + 1 else ""
    spec = f"{own_a}{rows}j,{own_b}j{columns}->{out}{rows}{columns}"
    result = Contract(spec)(a, b)
    if len(out) == ndim:
        return result
    full = tuple(1 for c in batch if c not in out)
    return reshape(result, full + result.type.shape) if full else result


def matmul_transposed(x: Any, y: Any) -> Tensor:
    """The matrix product of x and y transposed: over the last dimensions of both.

    >>> matmul_transposed([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]).tolist()
    [[11.0, 17.0]]
    """
    a, b = factors(x, y)
    named = a.type.axes is not None or b.type.axes is not None
    if named or not a.type.shape or len(b.type.shape) != 2:
        return matmul(a, b.mT)
    return _with_rows(len(a.type.shape))(a, b)


@cached(1024)
def _with_rows(ndim: int) -> Contract:
    """The product of so many dimensions with the rows of a matrix."""
    lead = (string.ascii_uppercase[: ndim - 2] + "i")[: ndim - 1]
    return Contract(f"{lead}j,kj->{lead}k")


def _agree(a: Type, b: Type) -> None:
    """Refuse named operands whose summed axes have not the same name."""
    if a.axes is None or b.axes is None:
        raise AxisError(
            f"{a} and {b}: one operand has axis names, the other has none",
            hint="name it with td.name_axes(x, ...), or drop the names with td.unname",
        )
    last, first = a.axes[-1], b.axes[max(b.ndim - 2, 0)]
    if last != first or last is None:
        raise AxisError(
            f"matmul sums the last axis of x, {last!r}, with axis {first!r} of y",
            hint="td.dot(x, y) sums over the names that x and y share",
        )


def _dropped(x: Tensor, batch: str, other: tuple[int, ...]) -> tuple[str, Tensor]:
    """The batch letters of x, without those where it is 1 and its partner is not."""
    t = x.type
    lead = t.shape[:-2]
    lead_letters = batch[len(batch) - len(lead) :]
    kept = []
    for k, (letter, n) in enumerate(zip(lead_letters, lead, strict=True)):
        partner = other[k - len(lead)] if len(lead) - k <= len(other) else 1
        if not (n == 1 and partner != 1):
            kept.append((letter, n))
    if len(kept) == len(lead):
        return lead_letters, x
    letters_kept = "".join(c for c, _ in kept)
    shape = tuple(n for _, n in kept) + t.shape[-2:]
    names = None
    if t.axes is not None:
        lead_names = zip(lead_letters, t.axes[:-2], strict=True)
        names = [n for c, n in lead_names if c in letters_kept] + [*t.axes[-2:]]
    return letters_kept, reshape(x, shape, axes=names)
