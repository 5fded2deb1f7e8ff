"""Fusion clusters, here called units: which nodes one kernel computes together.

Nodes are taken in order and join a unit of one of their producers where that keeps the
loops one nest: every member is read at the very step that computes it. Reductions join
what they reduce, and what follows joins them in a further pass. Movement is no work: it
is looked through by index arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import ge

from treadle.base.symbolic import at_least, is_same
from treadle.base.types import TupleType, equal_shapes
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.lower import At, Strides, is_virtual, placed, row_major
from treadle.loops.nest import place_of_operand
from treadle.loops.region import Region
from treadle.ops.extrema import Prod
from treadle.ops.families import Output, Reduction
from treadle.ops.reduce import Sum
from treadle.program.places import (
    carried_up,
    domain,
    operand_places,
    producers,
    run_through,
)
from treadle.program.units import (
    MEMBERS,
    OPERANDS,
    Unit,
    absorb,
    between,
    compatible,
    depend,
    fits,
    rebase,
    waited_for,
)

NEAR = 12  # units back, in which one is sought that reads the same operand
MANY = 4096  # elements: reading fewer a second time costs nothing


class Grouping:
    """The units made so far, and the one that each node belongs to."""

    def __init__(
        self,
        fuses: Callable[[Tensor], bool],
        operands: Callable[[Tensor], Sequence[Tensor]],
        most: int,
        summed: Sequence[int] = (),
        strides: Strides = row_major,
    ) -> None:
        self.fuses = fuses
        self.strides = strides
        self.operands = operands  # of what no kernel computes with others
        self.most = most
        self.summed = summed  # elements of what is summed over several axes
        self.units: list[Unit] = []
        self.sizes: dict[int, int] = {}  # elements of operands
        self.unit_of: dict[int, Unit] = {}
        self.reads: dict[int, Sequence[Tensor]] = {}  # by nodes of kernels

    def add(self, node: Tensor) -> None:
        """Put a node into a unit: one of its producers', or a new one."""
        if self.fuses(node):
            candidates, awaited = self._candidates(node)
            for unit in candidates:
                # The node may wait for what waits for this unit.
                if not awaited >> unit.number & 1 and self._join(node, unit):
                    for other in candidates:
                        if other is not unit:
                            self._unite(unit, other)
                    return
            unit = self._begin(node)
            if self.most > 1:
                self._join_siblings(unit)
        else:
            self._new(node, None)

    def _join_siblings(self, unit: Unit) -> None:
        """Make a new unit one with another that runs the same loops over an operand."""
        region = unit.region
        assert region is not None
        size = math.prod([a.extent for a in region.axes])
        # Bits of a sum over several axes hang on it: what is done beside it tells which
        # of them are one loop.
        enough = ge if any(is_same(size, n) for n in self.summed) else at_least
        if not enough(size, MANY):
            return
        near = self.units[-NEAR - 1 : -1]
        for other in reversed(near):
            if other.region is None or not other.nodes:
                continue
            shared = unit.operands & other.operands
            if any(enough(self.sizes[x], size) for x in shared):
                self._unite(unit, other)
                if not other.nodes:
                    return

    def unit(self, x: Tensor) -> Unit | None:
        """The unit that computes a node; a part of several results is of their unit."""
        unit = self.unit_of.get(x.serial)
        if unit is None and isinstance(x.op, Output):
            unit = self.unit_of.get(x.inputs[0].serial)
        return unit

    def _new(self, node: Tensor, region: Region | None) -> Unit:
        unit = Unit(len(self.units), [node], region)
        self.units.append(unit)
        self.unit_of[node.serial] = unit
        self._depend(unit, node)
        return unit

    def _begin(self, node: Tensor) -> Unit:
        """A unit of its own, over the element's loops or those of what it reduces."""
        reduces = isinstance(node.op, Reduction)
        shape = node.inputs[0].type.shape if reduces else node.type.shape
        axes, at = domain(shape)
        region = Region(axes)
        if isinstance(node.op, Reduction):
            folded = set(node.op.axes)
            inner = {LoopAxis(f"i{k}", shape[k]) for k in folded if shape[k] != 1}
            region.inner = frozenset(inner)
            region.reads[node.serial] = at
            keep = node.op.keepdims
            at = tuple(
                Index() if k in folded else i
                for k, i in enumerate(at)
                if keep or k not in folded
            )
        region.nodes.append(node)
        region.placement[node.serial] = at
        return self._new(node, region)

    def _reads(self, node: Tensor) -> Sequence[Tensor]:
        """The nodes that a node reads: computed, or in memory for it alone."""
        known = self.reads.get(node.serial)
        if known is not None:
            return known
        if not self.fuses(node):
            return self.operands(node)
        reads: Sequence[Tensor] = node.inputs
        if True in map(is_virtual, reads):
            computed, stack = [], list(reversed(reads))
            while stack:
                x = stack.pop()
                if is_virtual(x):
                    stack += reversed(x.inputs)
                else:
                    computed.append(x)
            reads = computed
        self.reads[node.serial] = reads
        return reads

    def _depend(self, unit: Unit, node: Tensor) -> None:
        """Note what a member of a unit reads and waits for."""
        operands, sizes, unit_of = unit.operands, self.sizes, self.unit_of
        for x in self.reads.get(node.serial) or self._reads(node):
            serial = x.serial
            if serial in operands:
                continue  # it waits for that already
            operands.add(serial)
            if serial not in sizes:
                several = isinstance(x.type, TupleType)
                sizes[serial] = 0 if several else x.type.size
            other = unit_of.get(serial) or self.unit(x)
            if other is not None and other is not unit:
                depend(unit, other)
        after = waited_for(node) if node.mark else None
        last = None if after is None else self.unit(after)
        if last is not None and last is not unit:
            depend(unit, last)

    # -- joining ---------------------------------------------------------------------

    def _candidates(self, node: Tensor) -> tuple[list[Unit], int]:
        """The units of a node's producers, the newest first, and bits of all units that
        what the node waits for waits for.
        """
        units: dict[int, Unit] = {}
        awaited, unit_of = 0, self.unit_of
        for x in self._reads(node):
            unit = unit_of.get(x.serial) or self.unit(x)
            if unit is not None and unit.number not in units:
                awaited |= unit.before
                if unit.region is not None:
                    units[unit.number] = unit
        after = waited_for(node) if node.mark else None
        last = None if after is None else self.unit(after)
        if last is not None:
            awaited |= last.before
        if len(units) < 2:
            return [*units.values()], awaited
        return [units[k] for k in sorted(units, reverse=True)], awaited

    def _join(self, node: Tensor, unit: Unit) -> bool:
        """Make a node a member of a unit if its loops serve; whether that was done."""
        region = unit.region
        assert region is not None
        if len(region.nodes) >= self.most or len(unit.operands) >= OPERANDS:
            return False
        if isinstance(node.op, Reduction):
            done = self._join_reduction(node, region)
        else:
            done = self._join_element(node, region)
        if done:
            unit.nodes.append(node)
            region.nodes.append(node)
            self.unit_of[node.serial] = unit
            self._depend(unit, node)
        return done

    def _unite(self, unit: Unit, other: Unit) -> None:
        """Make two units one, where their loops are the same and no third lies between.

        `unit` has just taken in a node that reads a member of `other`.
        """
        a, b = unit.region, other.region
        assert a is not None and b is not None
        if a.axes != b.axes or a.inner != b.inner:
            return
        if len(a.nodes) + len(b.nodes) > self.most or not compatible(unit, other):
            return
        if a.inner and len(self._orders(a) | self._orders(b)) > 1:
            return
        if between(other, unit) or between(unit, other):
            return
        absorb(unit, other)
        for node in unit.nodes:
            self.unit_of[node.serial] = unit

    def _join_element(self, node: Tensor, region: Region) -> bool:
        tried = None
        for at in self._places(node, region):
            if at is tried:
                continue
            for x, i in operand_places(node, at):
                if not fits(region, x, i):
                    break
            else:
                region.placement[node.serial] = at
                return True
            tried = at
        return False

    def _places(self, node: Tensor, region: Region) -> Iterator[At]:
        """The placements that a node may have among the loops of a region."""
        shape = node.type.shape
        for x in node.inputs:
            if x.type.shape is not shape and not equal_shapes(x.type.shape, shape):
                continue
            for p in producers(x):
                known = region.placement.get(p.serial)
                if known is None:
                    continue
                place = known if p is x else carried_up(x, p, known)
                if place is not None:
                    yield place
        if is_same(node.type.size, math.prod([a.extent for a in region.axes])):
            yield run_through(region.axes, shape)
        rows = region.rows if region.inner else ()
        if region.inner and is_same(
            node.type.size, math.prod([a.extent for a in rows])
        ):
            yield run_through(rows, shape)

    def _join_reduction(self, node: Tensor, region: Region) -> bool:
        """A fold over the inner axes of a region, or over axes that become them."""
        op = node.op
        assert isinstance(op, Reduction)
        (x,) = node.inputs
        if x.type.size == 0:
            return False
        size = math.prod(a.extent for a in region.axes)
        if not region.inner and is_same(x.type.size, size):
            rebase(region, domain(x.type.shape)[0])
        for at in self._of(x, region):
            if not fits(region, x, at):
                continue
            folded = {a for k in op.axes for a in at[k].axes()}
            kept = {a for k, i in enumerate(at) if k not in op.axes for a in i.axes()}
            if folded & kept or folded | kept != set(region.axes):
                continue
            if region.inner and region.inner != folded:
                continue
            if not region.inner and not folded:
                continue
            if self._orders(region) - {placed(at, self.strides(x))}:
                continue
            region.inner = frozenset(folded)
            region.reads[node.serial] = at
            region.placement[node.serial] = tuple(
                Index() if k in op.axes else i
                for k, i in enumerate(at)
                if op.keepdims or k not in op.axes
            )
            return True
        return False

    def _orders(self, region: Region) -> set[Index]:
        """The places in memory of a region's folded operands: one for a kernel."""
        folding = filter(region.folds, region.nodes if region.inner else ())
        return {place_of_operand(region, node, self.strides) for node in folding}

    def _of(self, x: Tensor, region: Region) -> Iterator[At]:
        """The placements that the operand of a reduction may have."""
        for p in producers(x):
            if p.serial in region.placement:
                place = carried_up(x, p, region.placement[p.serial])
                if place is not None:
                    yield place
        if is_same(x.type.size, math.prod(a.extent for a in region.axes)):
            yield run_through(region.axes, x.type.shape)


def group(
    nodes: Sequence[Tensor],
    fuses: Callable[[Tensor], bool],
    operands: Callable[[Tensor], Sequence[Tensor]],
    most: int = MEMBERS,
    strides: Strides = row_major,
) -> list[Unit]:
    """Units for all nodes that compute something, in an order in which they can run.

    `fuses` tells which nodes a kernel can compute; the others are units by themselves,
    of which `operands` has what they read from memory, where they lie by `strides`.
    """
    summed = dict.fromkeys(n.inputs[0].type.size for n in nodes if _sums_several(n))
    grouping = Grouping(fuses, operands, most, [*summed], strides)
    for node in nodes:
        grouping.add(node)
    return ordered([u for u in grouping.units if u.nodes])


def _sums_several(node: Tensor) -> bool:
    """Whether a node folds over several axes: the order may hang on its kernel."""
    if not isinstance(node.op, (Sum, Prod)) or node.type.dtype.kind not in "fV":
        return False
    return len(node.op.axes) > 1 or is_virtual(node.inputs[0])


def ordered(units: Sequence[Unit]) -> list[Unit]:
    """The units with each after those it waits for, else in the order of creation."""
    return sorted(units, key=lambda u: (u.before.bit_count(), u.number))
