"""Contractions as matrix products on strided memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from treadle.base.caches import cached
from treadle.base.dtypes import DType, bfloat16, float16, float32, int8, int32, uint8
from treadle.base.types import Shape, Type
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.lower import At, Strides, flat, placed, row_major, steps, unflatten
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract, letters
from treadle.ops.families import Movement

# What products of a dtype read as it.
NARROW: dict[DType, tuple[DType, ...]] = {
    float32: (float16, bfloat16, int8),
    int32: (int8, uint8),
}
Steps = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class View:
    """A view of another node's memory: an offset and a stride a dimension."""

    base: Tensor
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A contraction as c[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n].

    Strides are in elements, over the dimensions in this order.
    """

    sizes: tuple[int, int, int, int]
    a: Steps
    b: Steps
    c: Steps
    image: bool = False  # rows are the pixels of images, columns their channels

    @property
    def finishes(self) -> bool:
        """Whether an element-wise unit can be done on vectors of the result."""
        sizes = self.sizes[:3]
        straight = zip(self.c, steps(sizes), sizes, strict=True)
        return sizes[2] > 1 and all(s == to or n == 1 for s, to, n in straight)

    def element(self, at: At, shape: Shape) -> At:
        """The indices in a result of `shape` of what stands at a batch, row, column."""
        if self.image:
            pixels = (shape[0], *shape[2:])
            image, *place = unflatten(at[1], pixels)
            return image, at[2], *place
        return unflatten(flat(at, self.sizes[:3]), shape)


def is_widened(node: Tensor) -> bool:
    """Whether a node is what a product reads, once it has widened what is there."""
    if not isinstance(node.op, Cast):
        return False
    return node.inputs[0].type.dtype in NARROW.get(node.type.dtype, ())


def is_narrow(view: View) -> bool:
    """Whether what lies there is widened as it is read."""
    return any(view.base.type.dtype in narrow for narrow in NARROW.values())


def widens(layout: object, views: Sequence[View]) -> bool:
    """Whether a product can read such operands: rows or columns are side by side."""
    if not isinstance(layout, Layout):
        return False
    pairs = zip(views, (layout.a, layout.b), strict=True)
    return all(1 in strides[1:] for v, strides in pairs if is_narrow(v))


def view_of(
    x: Tensor, transparent: Callable[[Tensor], bool], strides: Strides = row_major
) -> View | None:
    """The strided view of stored memory that a node is; None where it is none.

    A value that is widened and looked through is what it is widened from.
    """
    if not transparent(x):
        pairs = zip(strides(x), x.type.shape, strict=True)
        return View(x, 0, tuple([0 if n == 1 else step for step, n in pairs]))
    base, moves = x, []
    while transparent(base):
        if isinstance(base.op, Movement):
            moves.append((base.op, base.inputs[0].type))
        elif not is_widened(base):
            break  # what is computed for its reader lies in memory of its own
        (base,) = base.inputs
    strided = _strided(x.type.shape, tuple(moves), strides(base))
    return None if strided is None else View(base, *strided)


@cached(4096)
def _strided(
    shape: Shape, moves: Sequence[tuple[Movement, Type]], strides: tuple[int, ...]
) -> tuple[int, tuple[int, ...]] | None:
    """The offset and strides that moves of what lies so come to, if they are such."""
    axes = [LoopAxis(f"d{k}", n) for k, n in enumerate(shape)]
    at = tuple(map(Index.of, axes))
    for op, type_ in moves:
        at = tuple(Index.of(i) for i in op.index(at, type_))
    place = placed(at, strides)
    if any(not isinstance(atom, LoopAxis) for atom, _ in place.terms):
        return None
    return place.constant, tuple(place.coefficient(a) for a in axes)


def _merged(
    group: Sequence[str], sizes: Mapping[str, int], strides: Mapping[str, int]
) -> int | None:
    """The one stride of several dimensions in a row; None where there is none."""
    real = [c for c in group if sizes[c] != 1]
    for outer, inner in itertools.pairwise(real):
        if strides[outer] != strides[inner] * sizes[inner]:
            return None
    return strides[real[-1]] if real else 0


def layout_of(
    node: Tensor,
    a_strides: Sequence[int],
    b_strides: Sequence[int],
    c_strides: Sequence[int],
) -> Layout | None:
    """A contraction on operands that lie so; None where the dimensions do not merge."""
    assert isinstance(node.op, Contract)
    x, y = node.inputs
    lie = tuple(a_strides), tuple(b_strides), tuple(c_strides)
    return _laid_out(node.op.spec, x.type.shape + y.type.shape, *lie)


@cached(4096)
def _laid_out(
    spec: str,
    shape: Shape,
    a_strides: Sequence[int],
    b_strides: Sequence[int],
    c_strides: Sequence[int],
) -> Layout | None:
    a, b, out = letters(spec)
    sizes = dict(zip(a + b, shape, strict=True))
    batch = [c for c in out if c in a and c in b]
    m = [c for c in out if c not in b]
    n = [c for c in out if c not in a]
    k = [c for c in a if c in b and c not in out]
    of_a = dict(zip(a, a_strides, strict=True))
    of_b = dict(zip(b, b_strides, strict=True))
    of_c = dict(zip(out, c_strides, strict=True))
    merged = [
        [_merged(group, sizes, by_letter) for group in groups]
        for by_letter, groups in (
            (of_a, (batch, m, k)),
            (of_b, (batch, k, n)),
            (of_c, (batch, m, n)),
        )
    ]
    if any(s is None for strides in merged for s in strides):
        return None
    extents = [math.prod(sizes[c] for c in group) for group in (batch, m, n, k)]
    at, bt, ct = (tuple(s or 0 for s in strides) for strides in merged)
    return Layout(tuple(extents), at, bt, ct)  # type: ignore[arg-type]
