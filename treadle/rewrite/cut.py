"""Long folds to few results cut in two, so that their parts can be done side by side.

The order of a sum is decided here, by its own shape: neither fusion nor threads
change it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_not

from treadle.graph.tensor import Tensor, remade
from treadle.ops.families import Reduction
from treadle.ops.movement import Reshape

__all__ = ["cut_folds"]

LONG = 1 << 18  # elements of a fold that is cut
LARGE = 1 << 21  # the same along two dimensions: no cache of one processor holds them
ROWS = 64  # folds along rows, of which a kernel has enough to do side by side
COLUMNS = 2048  # the same for folds across rows, which are done a vector at a time
PARTS = range(16, 257)
ROWS_OF_PART = 16  # fewer are not worth a sum of their own


def cut_folds(
    roots: Mapping[int, Tensor], nodes: Sequence[Tensor], divided: set[int]
) -> dict[int, Tensor]:
    """The roots, with each long fold as a fold of parts and a fold of these.

    `nodes` are all that the roots depend on. Extents whose divisors decided are added
    to `divided`.
    """
    if not any(map(_is_long, nodes)):
        return dict(roots)
    made: dict[int, Tensor] = {}
    for node in nodes:
        inputs = tuple([made.get(x.serial, x) for x in node.inputs])
        if isinstance(node.op, Reduction):
            found = _cut(node.op, inputs[0], divided)
            if found is not None:
                found.origin = node.origin
                made[node.serial] = found
                continue
        if any(map(is_not, inputs, node.inputs)):
            made[node.serial] = remade(node, node.op, inputs, node.type)
    return {serial: made.get(x.serial, x) for serial, x in roots.items()}


def _is_long(node: Tensor) -> bool:
    return isinstance(node.op, Reduction) and node.inputs[0].type.size >= LONG


def _cut(op: Reduction, x: Tensor, divided: set[int]) -> Tensor | None:
    """The fold in two, or None where it is short or does not divide."""
    shape = x.type.shape
    extents = [shape[k] for k in op.axes]
    results = x.type.size // max(math.prod(extents), 1)
    if x.type.size < LONG or not op.axes:
        return None
    along = set(op.axes) == set(range(x.type.ndim)[-len(op.axes) :])
    if results > (ROWS if along else COLUMNS):
        return None
    first = at = op.axes[0]
    lead, n = 1, shape[first]
    if len(op.axes) > 1 and n in PARTS:
        inner = replace(op, axes=op.axes[1:], keepdims=True)(x)  # type: ignore[type-var]
        return replace(op, axes=op.axes)(inner)  # type: ignore[type-var]
    if op.axes[1:2] == (first + 1,) and n < PARTS.start and x.type.size >= LARGE:
        at, lead, n = first + 1, n, shape[first + 1]  # a few times many rows
    divided.add(n)
    fitting = (c for c in range(2, n // ROWS_OF_PART + 1) if lead * c in PARTS)
    parts = max((c for c in fitting if n % c == 0), default=0)
    if not parts:
        return None
    split = (*shape[:at], parts, n // parts, *shape[at + 1 :])
    wide = Reshape(split)(x)
    inside = tuple(k + 1 for k in op.axes if k >= at)
    part = replace(op, axes=inside, keepdims=True)(wide)  # type: ignore[type-var]
    kept = (*split[: at + 1], *part.type.shape[at + 2 :])
    return replace(op, axes=op.axes)(Reshape(kept)(part))  # type: ignore[type-var]
