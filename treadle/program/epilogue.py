"""Element-wise units done by the product they read, on each vector of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace

from treadle.base.caches import cached
from treadle.base.types import Shape
from treadle.graph.tensor import Tensor
from treadle.loops.apart import taken_apart
from treadle.loops.index import Index, LoopAxis, Quotient, Remainder
from treadle.loops.kernel import Kernel, Loop
from treadle.loops.lower import At, Strides, flat, is_virtual, unflatten
from treadle.loops.nest import kernel_of
from treadle.loops.region import Region
from treadle.program.contract import Layout
from treadle.program.convolution import Convolution
from treadle.program.places import operand_places, producers, run_of, sources
from treadle.program.units import Unit, between, spread


def epilogues(
    units: Sequence[Unit],
    products: Mapping[int, Layout | Convolution],
    asked: Collection[int],
) -> dict[int, Unit]:
    """The unit that can be done on a product's result, by the product's serial.

    The unit must be the only one that reads the product, read each element where its
    own loops are, and wait for nothing that waits for the product.
    """
    readers: dict[int, list[Unit]] = {}
    product_serials = frozenset(products)
    for unit in units:
        for serial in product_serials & _read(unit):
            readers.setdefault(serial, []).append(unit)
    finishes: dict[int, Unit] = {}
    taken: set[int] = set()
    for product in units:
        (node, *rest) = product.nodes
        if rest or node.serial not in product_serials or node.serial in asked:
            continue
        reading = readers.get(node.serial, [])
        if len(reading) != 1 or reading[0].number in taken:
            continue
        (unit,) = reading
        if between(product, unit) or not _fits(unit, node, products):
            continue
        finishes[node.serial] = unit
        taken.add(unit.number)
        # The product now waits for what its unit waits for, and so do its readers.
        unit.done_by = product
        spread(product, unit.before & ~(1 << product.number))
    return finishes


def _read(unit: Unit) -> Set[int]:
    """The serials of what a unit reads, through all movement."""
    if unit.region is not None:
        return unit.operands
    operands = [x for node in unit.nodes for x in node.inputs]
    return {p.serial for x in operands for p in producers(x)}


def _fits(
    unit: Unit, node: Tensor, products: Mapping[int, Layout | Convolution]
) -> bool:
    """Whether a unit's loops run over a product as it lies in memory."""
    region = unit.region
    if region is None or region.inner or not products[node.serial].finishes:
        return False
    return _place(unit, node) is not None


def _place(unit: Unit, node: Tensor) -> At | None:
    """The place where all members read a product, if loops are its dimensions.

    Loops that run through it in one go are fitting too: the place is one index then.
    """
    region = unit.region
    assert region is not None
    places: set[At] = set()
    for member in unit.nodes:
        if not any(_leads_to(x, node) for x in member.inputs):
            continue
        for x, at in operand_places(member, region.placement[member.serial]):
            if not _leads_to(x, node):
                continue
            for p, place in sources(x, at):
                if p is node:
                    if place is None:
                        return None
                    places.add(place)
    if len(places) != 1:
        return None
    return _covered(places.pop(), region.axes, node.type.shape)


@cached(4096)
def _covered(place: At, axes: tuple[LoopAxis, ...], shape: Shape) -> At | None:
    """A place in an array that loops over axes run through, as `_place` gives it."""
    if math.prod(a.extent for a in axes) != math.prod(shape):
        return None
    whole = flat(place, shape)
    if whole == run_of(axes):
        return (whole,)
    read_axes = [i.terms[0][0] for i in place if i.terms]
    covered = len(read_axes) == len(axes) and set(read_axes) == set(axes)
    return place if covered and all(map(_is_whole, place, shape)) else None


def _leads_to(x: Tensor, node: Tensor) -> bool:
    """Whether an operand is a node, or is computed from it where it is read."""
    return x is node or (is_virtual(x) and any(p is node for p in producers(x)))


def _is_whole(i: Index, extent: int) -> bool:
    """Whether an index runs once through a dimension, from its start to its end."""
    if not i.terms:
        return i.constant == 0 and extent == 1
    axis = i.terms[0][0]
    return isinstance(axis, LoopAxis) and i == Index.of(axis) and axis.extent == extent


@cached(4096)
def result_places(
    layout: Layout | Convolution, shape: Shape
) -> tuple[tuple[LoopAxis, ...], At]:
    """Batch, rows and columns of a product, and the element of the result there.

    What the product is a sum of is nothing to what follows.
    """
    batch, m, n, _ = layout.sizes
    axes = (LoopAxis("b", batch), LoopAxis("m", m), LoopAxis("n", n))
    return axes, layout.element(tuple(map(Index.of, axes)), shape)


def epilogue_kernel(
    unit: Unit,
    node: Tensor,
    layout: Layout | Convolution,
    stored: Sequence[Tensor],
    has_buffer: Callable[[Tensor], bool],
    strides: Strides,
    lanes: int,
) -> tuple[Kernel, list[Tensor]] | None:
    """The unit as a kernel over batch, rows and columns of the product it reads.

    None where its columns would not be even steps through memory.
    """
    region = unit.region
    assert region is not None
    axes, dims = result_places(layout, node.type.shape)
    known = _place(unit, node)
    assert known is not None
    by: dict[LoopAxis, Index] = {}
    if len(known) == 1:
        extents = tuple(a.extent for a in region.axes)
        place = flat(dims, node.type.shape)
        by |= zip(region.axes, unflatten(place, extents), strict=True)
    else:
        for i, whole in zip(known, dims, strict=True):
            by |= dict.fromkeys(i.axes(), whole)
    rebased = Region(axes, nodes=list(region.nodes))
    for old, new in (
        (region.placement, rebased.placement),
        (region.reads, rebased.reads),
    ):
        for serial, at in old.items():
            new[serial] = tuple(i.replaced(by) for i in at)
    kernel, nodes = kernel_of(rebased, stored, has_buffer, strides)
    for i in kernel.indices:
        for atom, _ in i.terms:
            divided = isinstance(atom, (Quotient, Remainder))
            if divided and axes[2] in atom.index.axes():  # type: ignore[union-attr]
                return None
    if any(i.data() for i in kernel.indices):
        return None
    passes = taken_apart(kernel).passes
    body = tuple(p for p in passes)
    nest: tuple[Loop, ...] = (Loop(axes[2], body, "vector", lanes),)  # type: ignore[arg-type]
    for axis in (axes[1], axes[0]):
        nest = (Loop(axis, nest, "parallel"),)
    return replace(kernel, body=nest), nodes
