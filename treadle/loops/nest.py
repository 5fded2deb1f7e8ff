"""From a group of nodes to a kernel: one loop nest, in passes over its inner loops.

The axes of a group are its rows and, where it reduces, inner axes. A reduction is known
after a pass over the inner axes; what depends on it is computed in the next pass, so a
softmax is three passes over a row that stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from treadle.base.types import equal_shapes
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Expression,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Statement,
    Store,
    inside,
)
from treadle.loops.lower import Lowering, Strides, combiner, placed, row_major, wide
from treadle.loops.region import Nodes, Region, passes, read_by
from treadle.ops.cast import Cast
from treadle.ops.families import Reduction


class _Buffers:
    """The buffers of a kernel: what it writes, then what it reads as it is met."""

    def __init__(
        self,
        stored: Sequence[Tensor],
        members: Sequence[Tensor],
        has_buffer: Callable[[Tensor], bool],
    ) -> None:
        self.members = {n.serial for n in members}
        self.has_buffer = has_buffer
        self.nodes = list(stored)
        self.numbers: dict[int, int] = {}

    def __call__(self, node: Tensor) -> int | None:
        if node.serial in self.members:
            return None
        if node.serial not in self.numbers:
            if not self.has_buffer(node):
                return None
            self.numbers[node.serial] = len(self.nodes)
            self.nodes.append(node)
        return self.numbers[node.serial]


def kernel_of(
    region: Region,
    stored: Sequence[Tensor],
    has_buffer: Callable[[Tensor], bool],
    strides: Strides = row_major,
) -> tuple[Kernel, list[Tensor]]:
    """The kernel that computes a region, and the nodes its buffers belong to.

    `stored` are the members it writes; `has_buffer` tells of nodes outside of it, and
    `strides` how nodes lie in memory.
    """
    buffers = _Buffers(stored, region.nodes, has_buffer)
    work = _Work(region, Lowering(buffers, strides), stored)
    work.compute()
    arguments = tuple(
        KernelArgument(n.type.dtype, k < len(stored))
        for k, n in enumerate(buffers.nodes)
    )
    name = "_".join(dict.fromkeys(n.op.name.lower() for n in region.nodes))[:48]
    return Kernel(name, arguments, work.nest()), buffers.nodes


class _Work:
    """The work of each pass over the inner loops, and the stores of a row.

    A costly value that a later pass needs again waits in a buffer that this pass has
    not written yet, so that an exponential is computed once an element.
    """

    def __init__(
        self, region: Region, lowering: Lowering, stored: Sequence[Tensor]
    ) -> None:
        self.region = region
        self.lowering = lowering
        self.stored = stored
        self.kept = Nodes(stored)
        self.known_after = passes(region)
        count = 1 + max(self.known_after.values(), default=0)
        self.folds: list[list[Accumulate]] = [[] for _ in range(count)]
        self.stores: list[list[Store]] = [[] for _ in range(count)]
        self.at_rows: list[list[Store]] = [[] for _ in range(count)]
        self.starts: list[Store] = []  # of what is folded from row to row
        self.waiting: set[int] = set()  # buffers in which another value waits
        self.loaded: dict[int, Load] = {}
        self.last = self._last_uses()

    def turn(self, node: Tensor) -> int:
        """The pass that computes a member; one that folds is known after it."""
        return self.known_after[node.serial] - self.region.folds(node)

    def compute(self) -> None:
        """Write out all members, pass by pass."""
        done: list[Tensor] = []
        for turn in range(len(self.folds)):
            for node in self.region.nodes:
                if self.turn(node) == turn:
                    self.add(node)
                    done.append(node)
            self._keep(turn, done)
        for stores in self.stores:  # what waits in a buffer is read before it goes
            stores.sort(key=lambda s: s.buffer in self.waiting)
        for turn, stores in enumerate(self.at_rows):
            self.at_rows[turn] = [self._gathered(turn, s) for s in stores]

    def _gathered(self, turn: int, store: Store) -> Store:
        """A row's store; what it reads where data say so waits in its place at first.

        Later passes may then write over the operand that it was read from.
        """
        if turn == 0:
            return store
        dtype = self.stored[store.buffer].type.dtype
        reads = {
            x
            for x in inside(store.value)
            if isinstance(x, Load) and x.index.data() and x.dtype == dtype
        }
        if len(reads) != 1:
            return store
        (load,) = reads
        self.at_rows[0].append(Store(store.buffer, store.index, load))
        there = Load(store.buffer, store.index, dtype)
        return replace(store, value=_replaced(store.value, load, there))

    def add(self, node: Tensor) -> None:
        """Write out a member, whose operands have been."""
        region, lowering = self.region, self.lowering
        at = region.placement[node.serial]
        if region.gathers(node):
            self._gather(node)
            return
        if region.folds(node):
            number = sum(map(len, self.folds))
            accumulator, value = _fold(region, lowering, node, number)
            place = place_of_operand(region, node, lowering.strides)
            accumulator = self._fold(self.turn(node), accumulator, value, place)
            member_value: Expression = Accumulated(accumulator, accumulator.dtype)
            if accumulator.dtype != node.type.dtype:
                member_value = _cast(member_value, node)
        else:
            member_value = self._value(node)
        lowering.known[node.serial] = at, member_value
        for k, stored in enumerate(self.stored):
            if stored is node:
                self._store(node, k, member_value)

    def _gather(self, node: Tensor) -> None:
        """Join each row to what rows before it have stored in the result."""
        accumulator, value = _fold(self.region, self.lowering, node, 0)
        for k, stored in enumerate(self.stored):
            if stored is node:
                place = self._place(node, node)
                start = Const(accumulator.start, accumulator.dtype)
                self.starts.append(Store(k, place, start))
                joined = Store(k, place, value, accumulator.combine)
                self.stores[self.turn(node)].append(joined)

    def _fold(
        self, turn: int, accumulator: Accumulator, value: Expression, place: Index
    ) -> Accumulator:
        """Fold a value in a pass, or find the accumulator that does so already."""
        for known in self.folds[turn]:
            same = (
                replace(accumulator, number=known.accumulator.number)
                == known.accumulator
            )
            if same and known.value == value:
                return known.accumulator
        self.folds[turn].append(Accumulate(accumulator, value, place))
        return accumulator

    def _value(self, node: Tensor) -> Expression:
        if isinstance(node.op, Reduction):  # of one element: that element
            at = self.region.reads[node.serial]
            return self.lowering.value(node.inputs[0], at)
        return self.lowering.value(node, self.region.placement[node.serial])

    def _store(self, node: Tensor, buffer: int, value: Expression) -> None:
        """Store a member where its value is known: in its pass, or once a row."""
        store = Store(buffer, self._place(node, node), value)
        if self.region.is_full(node):
            self.stores[self.known_after[node.serial]].append(store)
        else:
            self.at_rows[self.known_after[node.serial]].append(store)

    def _place(self, node: Tensor, like: Tensor) -> Index:
        """The place of a node's element in the buffer of one like it."""
        at = self.region.placement[node.serial]
        return placed(at, self.lowering.strides(like))

    def _keep(self, turn: int, done: Sequence[Tensor]) -> None:
        """Load stored values, and costly ones that wait, in later passes."""
        loads = self._stored_in(turn, done)
        for node in done:
            last = self.last[node.serial]
            costly = node.op.traits.tolerance == "U" and node not in self.kept
            if last <= turn or not costly or self.turn(node) != turn or self.waiting:
                continue  # one waits at a time, and goes after all have read it
            for k, result in enumerate(self.stored):
                if self.region.is_full(node) and self._fits(node, result, last):
                    self.waiting.add(k)
                    place = self._place(node, result)
                    value = self.lowering.known[node.serial][1]
                    self.stores[turn].append(Store(k, place, value))
                    loads[node.serial] = Load(k, place, node.type.dtype)
                    break
        if loads:
            self._reload(done, loads)

    def _stored_in(self, turn: int, done: Sequence[Tensor]) -> dict[int, Load]:
        """The members stored in a pass and needed by later ones, as loads."""
        loads = {}
        for k, result in enumerate(self.stored):
            if result in Nodes(done) and self.region.is_full(result):
                later = self.last[result.serial] > turn
                if later and self.known_after[result.serial] == turn:
                    place = self._place(result, result)
                    loads[result.serial] = Load(k, place, result.type.dtype)
        return loads

    def _fits(self, node: Tensor, result: Tensor, last: int) -> bool:
        """Whether a value can wait in the buffer of a result until its last use."""
        same = (
            equal_shapes(node.type.shape, result.type.shape)
            and node.type.dtype == result.type.dtype
        )
        at = self.region.placement
        return (
            same
            and at[node.serial] == at[result.serial]
            and self.known_after[result.serial] >= last
        )

    def _reload(self, done: Sequence[Tensor], loads: Mapping[int, Load]) -> None:
        """Write out what later passes read, over the values that are loaded."""
        self.lowering.forget()
        self.loaded |= loads
        for node in done:
            if node.serial in self.lowering.known and not self.region.folds(node):
                at, _ = self.lowering.known.pop(node.serial)
                value = self.loaded.get(node.serial) or self._value(node)
                self.lowering.known[node.serial] = at, value

    def _last_uses(self) -> dict[int, int]:
        """The last pass that needs each member, written out again where it is used.

        What is stored is loaded afterwards, and what is folded is known.
        """
        last_use = {n.serial: -1 for n in self.region.nodes}
        for node in reversed(self.region.nodes):
            last = self.turn(node)
            if not self.region.folds(node) and node not in self.kept:
                last = max(last, last_use[node.serial])
            for x in read_by(node):
                if x.serial in last_use:
                    last_use[x.serial] = max(last_use[x.serial], last)
        return last_use

    def nest(self) -> tuple[Statement, ...]:
        """The loops around it all."""
        body: list[Statement] = []
        for rows, folds, stores in zip(
            self.at_rows, self.folds, self.stores, strict=True
        ):
            body += rows
            if folds or stores:
                starts = tuple(f.accumulator for f in folds)
                body += _nest(self.region, [*folds, *stores], starts)
        nest: tuple[Statement, ...] = tuple(body)
        turns = [a for a in self.region.rows if a in self.region.turns]
        for axis in reversed(turns):
            nest = (Loop(axis, nest, "ordered"),)
        if self.starts:
            nest = (*_nest(self.region, [*self.starts], ()), *nest)
        for axis in reversed(self.region.rows):
            if axis not in turns:
                nest = (Loop(axis, nest, "parallel"),)
        return nest


def _cast(total: Expression, node: Tensor) -> Expression:
    from_wide = Cast(node.type.dtype)
    return Apply(from_wide, (total,), node.type.dtype)


def _replaced(x: Expression, old: Expression, new: Expression) -> Expression:
    """An expression with a part of it replaced."""
    if x == old:
        return new
    if isinstance(x, Apply):
        return Apply(x.op, tuple(_replaced(v, old, new) for v in x.inputs), x.dtype)
    return x


def _fold(
    region: Region, lowering: Lowering, node: Tensor, number: int
) -> tuple[Accumulator, Expression]:
    """The accumulator of a reduction and what is folded into it."""
    op = node.op
    assert isinstance(op, Reduction)
    (x,) = node.inputs
    at = region.reads[node.serial]
    dtype = wide(node.type.dtype)
    combine = combiner(op, x.type.dtype)
    start = op.start(x.type.dtype)
    value = lowering.value(x, at)
    if value.dtype != dtype:
        value = Apply(Cast(dtype), (value,), dtype)
    return Accumulator(number, combine, start, dtype), value


def place_of_operand(region: Region, node: Tensor, strides: Strides) -> Index:
    """The place where the operand of a reduction would be in memory, which decides the
    order of the fold: whether it is there, grouping chooses."""
    return placed(region.reads[node.serial], strides(node.inputs[0]))


def _nest(
    region: Region, body: list[Statement], folds: tuple[Accumulator, ...]
) -> list[Statement]:
    """The inner loops around a pass; the outermost one starts the accumulators."""
    inner = [a for a in region.axes if a in region.inner]
    nest: tuple[Statement, ...] = tuple(body)
    for axis in reversed(inner):
        outermost = axis is inner[0]
        nest = (Loop(axis, nest, "serial", folds=folds if outermost else ()),)
    return list(nest)
