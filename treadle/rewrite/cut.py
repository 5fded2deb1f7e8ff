"""Long folds to few results cut in two, so that their parts can be done side by side.

The cut follows from the shape of a fold alone: neither fusion nor threads change it.
How exact a sum is does not hang on it: kernels add up in blocks.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_not

from treadle.graph.leaves import literal_node
from treadle.graph.tensor import Tensor, remade
from treadle.ops.contract import Contract, letters
from treadle.ops.elementwise import Add
from treadle.ops.families import Reduction
from treadle.ops.movement import PermuteDims, Reshape
from treadle.ops.padding import Pad
from treadle.ops.reduce import Sum
from treadle.ops.slice import Slice

LONG = 1 << 18  # elements of a fold that is cut
LARGE = 1 << 21  # the same along two dimensions: no cache of one processor holds them
ROWS = 64  # folds along rows, of which a kernel has enough to do side by side
COLUMNS = 2048  # the same for folds across rows, which are done a vector at a time
STEPS = 16  # additions in a row that one sum of a kernel takes
WIDE = 64  # columns, from which on a part has no more rows than a sum takes at once
PARTS = range(16, 257)
TERMS = 1 << 14  # of a product that its kernel sums up; more are several products
PART = 1 << 13  # elements of a part of a row: a multiple of the blocks of a kernel


def cut_folds(
    roots: Mapping[int, Tensor], nodes: Sequence[Tensor]
) -> dict[int, Tensor]:
    """The roots, with each long fold as a fold of parts and a fold of these.

    `nodes` are all that the roots depend on.
    """
    if not any(map(_is_long, nodes)):
        return dict(roots)
    rewritten: dict[int, Tensor] = {}
    for node in nodes:
        inputs = tuple([rewritten.get(x.serial, x) for x in node.inputs])
        folded = None
        if isinstance(node.op, Reduction):
            folded = _cut(node.op, inputs[0])
        elif isinstance(node.op, Contract):
            folded = _cut_product(node.op, *inputs)
        if folded is not None:
            folded.origin = node.origin
            rewritten[node.serial] = folded
            continue
        if any(map(is_not, inputs, node.inputs)):
            rewritten[node.serial] = remade(node, node.op, inputs, node.type)
    return {serial: rewritten.get(x.serial, x) for serial, x in roots.items()}


def _is_long(node: Tensor) -> bool:
    if isinstance(node.op, Reduction):
        return node.inputs[0].type.size >= LONG
    # Not by the size of an operand: short sums of any number leave no guard.
    return isinstance(node.op, Contract) and _terms(node.op, node.inputs[0]) > TERMS


def _terms(op: Contract, x: Tensor) -> int:
    """How many terms each sum of a product has."""
    a, _, out = letters(op.spec)
    pairs = zip(a, x.type.shape, strict=True)
    return math.prod([extent for c, extent in pairs if c not in out])


def _cut(op: Reduction, x: Tensor) -> Tensor | None:
    """The fold in two, or None where it is short or has enough to do side by side."""
    shape = x.type.shape
    extents = [shape[k] for k in op.axes]
    results = x.type.size // max(math.prod(extents), 1)
    if x.type.size < LONG or not op.axes:
        return None
    along = set(op.axes) == set(range(x.type.ndim)[-len(op.axes) :])
    if results > (ROWS if along else COLUMNS):
        return None
    if results >= WIDE and x.type.ndim - 1 not in op.axes:
        at, size = _few_rows(op, shape)
    else:
        at, size = _few_parts(op, shape)
    if at == op.axes[0] and size == 1:
        if math.prod(extents) == shape[at]:  # parts would be no fewer elements
            return None
        inner = replace(op, axes=op.axes[1:], keepdims=True)(x)
        return _fold_parts(op, inner)
    n = shape[at]
    if size >= n:
        return None
    parts = -(-n // size)
    if parts * size > n:
        widths = [(0, 0)] * x.type.ndim
        widths[at] = 0, parts * size - n
        border = literal_node(op.start(x.type.dtype), x.type.dtype)
        x = Pad(tuple(widths))(x, border)
    split = (*shape[:at], parts, size, *shape[at + 1 :])
    wide = Reshape(split)(x)
    inside = tuple(k + 1 for k in op.axes if k >= at)
    part = replace(op, axes=inside, keepdims=True)(wide)
    kept = (*split[: at + 1], *part.type.shape[at + 2 :])
    return _fold_parts(op, Reshape(kept)(part))


def _cut_product(op: Contract, x: Tensor, y: Tensor) -> Tensor | None:
    """A product with a long sum as products of parts of it, and their sum."""
    a, b, out = letters(op.spec)
    extents = dict(zip(a, x.type.shape, strict=True))
    folded = [c for c in a if c not in out]
    terms = _terms(op, x)
    if terms <= TERMS or x.type.dtype.kind != "f":
        return None
    along = max(folded, key=extents.__getitem__)
    n = extents[along]
    parts = min(-(-terms // TERMS), n)
    size = n // parts
    label = next(c for c in string.ascii_letters if c not in a + b)
    several = Contract(f"{label}{a},{label}{b}->{label}{out}")
    pieces = [_pieces(v, c.index(along), parts, size) for v, c in ((x, a), (y, b))]
    products = _cut_product(several, *pieces)
    total = _fold_parts(Sum((0,)), several(*pieces) if products is None else products)
    if parts * size < n:
        rest = [
            _within(v, c.index(along), parts * size, n) for v, c in ((x, a), (y, b))
        ]
        total = Add()(total, op(*rest))
    return total


def _pieces(x: Tensor, axis: int, parts: int, size: int) -> Tensor:
    """Parts of a tensor along an axis, side by side along a new first one."""
    shape = x.type.shape
    split = (*shape[:axis], parts, size, *shape[axis + 1 :])
    wide = Reshape(split)(_within(x, axis, 0, parts * size))
    if axis == 0:
        return wide
    order = axis, *(k for k in range(len(split)) if k != axis)
    return PermuteDims(order)(wide)


def _within(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """The elements of a tensor from `start` to `stop` along an axis."""
    shape = x.type.shape
    if (start, stop) == (0, shape[axis]):
        return x
    starts, stops = [0] * len(shape), list(shape)
    starts[axis], stops[axis] = start, stop
    return Slice(tuple(starts), tuple(stops), (1,) * len(shape))(x)


def _fold_parts(op: Reduction, parts: Tensor) -> Tensor:
    """The fold of parts, which may be many."""
    folded = _cut(op, parts)
    return op(parts) if folded is None else folded


def _few_rows(op: Reduction, shape: tuple[int, ...]) -> tuple[int, int]:
    """The axis that columns are cut along, and how many of its steps a part has.

    A part is one sum of a kernel's, so its rows can be done beside what others do.
    """
    inside = 1
    for at in reversed(op.axes[1:]):
        if inside * shape[at] > STEPS:
            return at, STEPS // inside
        inside *= shape[at]
    return op.axes[0], max(STEPS // inside, 1)


def _few_parts(op: Reduction, shape: tuple[int, ...]) -> tuple[int, int]:
    """The axis that a fold is cut along, and how many of its steps a part has."""
    first, n = op.axes[0], shape[op.axes[0]]
    if len(op.axes) > 1 and PARTS.start <= n < PARTS.stop:
        return first, 1
    at, lead = first, 1
    size = math.prod([shape[k] for k in op.axes])
    if op.axes[1:2] == (first + 1,) and n < PARTS.start and size >= LARGE:
        at, lead, n = first + 1, n, shape[first + 1]  # a few times many rows
    inside = math.prod([shape[k] for k in op.axes if k > at])
    least = max(-(-PART // inside), -(-lead * n // PARTS[-1]))
    if least > PART:
        return at, -(-least // PART) * PART
    return at, 1 << (least - 1).bit_length()
