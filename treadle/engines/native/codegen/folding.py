"""Accumulators of loops: where they start, what is folded into them, their last lanes.

A long loop folds into several registers, element k into lane k modulo their lanes, and
a short one into one register. A loop that may be either is written twice, each time
with a rest, unless its body is long and run through once: then it is written for a
single register, and what is folded into goes around among several, so that each turn
finds its own. LLVM has a third to do then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.engines.native.codegen.access import Access
from treadle.engines.native.codegen.builder import (
    LINE,
    PTR,
    Builder,
    Value,
    element,
    lanes,
    vector,
)
from treadle.engines.native.codegen.elementary import FUNCTIONS
from treadle.engines.native.codegen.elements import compute_type
from treadle.engines.native.codegen.scalars import apply
from treadle.engines.native.system.host import host
from treadle.graph.op import Op
from treadle.loops.kernel import (
    Accumulate,
    Accumulator,
    Apply,
    Kernel,
    Loop,
    Statement,
    expressions,
    statements,
)
from treadle.loops.schedule import element_bytes


class Folding(Access):
    """The accumulators of the loops that are being written."""

    def __init__(self, kernel: Kernel, builder: Builder) -> None:
        super().__init__(kernel, builder)
        self.carried: dict[Accumulator, Value] = {}
        self.crossing: list[Accumulator] = []  # folds that run across lanes
        self.width = max(host().vector_bytes // element_bytes(kernel), 1)

    def run(self, body: Sequence[Statement]) -> None:
        raise NotImplementedError

    def even(self, values: Sequence[Value]) -> list[Value]:
        """The values as vectors if one of them is one."""
        count = max((lanes(v.type) for v in values), default=0)
        return [v if lanes(v.type) else self.b.splat(v, count) for v in values]

    def combine(self, op: Op, x: Value, y: Value, dtype: Any) -> Value:
        x, y = self.even([x, y])
        return apply(self.b, op, [x, y], [dtype, dtype], dtype)

    def _fold(self, s: Accumulate) -> None:
        accumulator = s.accumulator
        before = self.carried[accumulator]
        value = self.value(s.value)
        if accumulator.combine is None:
            after = self.even([before, value])[1]
        else:
            after = self.combine(accumulator.combine, before, value, accumulator.dtype)
        if self.mask is not None and accumulator in self.crossing:
            after = self.b.select(self.mask, after, self.even([before, after])[0])
        self.carried[accumulator] = after

    def _starts(self, loop: Loop) -> None:
        """Set the accumulators that begin with a loop to where they start."""
        inside = [s for s in statements((loop,)) if isinstance(s, Loop)]
        count = self.lanes or max([s.lanes for s in inside])
        vectors = [t for s in inside if s.lanes for t in statements(s.body)]
        crossing = {t.accumulator for t in vectors if isinstance(t, Accumulate)}
        for a in loop.folds:
            kind = compute_type(a.dtype)
            wide = vector(kind, count) if self.lanes or a in crossing else kind
            self.carried[a] = self.b.constant(wide, a.start)

    def _ends(self, loop: Loop) -> None:
        """Fold the lanes of accumulators together, in halves."""
        if self.lanes:  # a vector of rows: each lane has a fold of its own
            return
        for a in loop.folds:
            if a.combine is None:  # one value, and no lanes to join
                continue
            x = self._halved(a, self.carried[a], 1)
            self.carried[a] = self.b.lane(x, 0) if lanes(x.type) else x

    def _halved(self, a: Accumulator, x: Value, most: int) -> Value:
        """The lanes of an accumulator folded in halves until they are so many."""
        assert a.combine is not None
        count = lanes(x.type)
        while count > most:
            count //= 2
            low, high = self.b.part(x, 0, count), self.b.part(x, count, count)
            x = self.combine(a.combine, low, high, a.dtype)
        return x

    def _carry(self, loop: Loop) -> list[Accumulator]:
        """The accumulators that change in a loop, in a fixed order."""
        inside = list(statements(loop.body))
        begun = {a for s in inside if isinstance(s, Loop) for a in s.folds}
        folded = [s.accumulator for s in inside if isinstance(s, Accumulate)]
        known = [a for a in folded if a in self.carried and a not in begun]
        return list(dict.fromkeys(known))

    # -- around the registers ----------------------------------------------------------

    def rotates(self, loop: Loop) -> bool:
        """Whether what a loop folds into goes around: its body has elementary functions
        and folds floats into several registers, or one where it is short. In rows it
        would take longer for several hundred columns, by a tenth to a half."""
        folds = [s.accumulator for s in loop.body if isinstance(s, Accumulate)]
        applied = (x for x in expressions(loop.body) if isinstance(x, Apply))
        return (
            loop.kind == "vector"
            and not self.axes  # it is run once, and not long where it may be short
            and loop.lanes > self.width == loop.short_lanes
            and {*folds} == {*loop.folds} != set()
            and all(a.combine and a.dtype.kind == "f" for a in folds)
            and not any(isinstance(s, Loop) for s in loop.body)
            and any(x.op.name in FUNCTIONS for x in applied)
        )

    def rotated(self, loop: Loop, start: Value, stop: Value) -> None:
        """The steps of a loop in single vectors, of which the last has a mask."""
        b, width, count = self.b, self.width, loop.lanes // self.width
        extent, bound = self.integer(loop.axis.extent), b.i64(2 * loop.lanes)
        is_short, length = b.compare("slt", extent, bound), b.sub(stop, start)
        whole = [self.carried[a] for a in loop.folds]
        parts = [b.part(x, k * width, width) for x in whole for k in range(count)]
        middle = b.sub(stop, b.srem(length, b.i64(width)))
        self.lanes = width
        parts = self._around(loop, start, middle, parts, is_short)
        self.limit = stop
        parts = self._around(loop, middle, stop, parts, is_short)
        self.limit = None
        turns = b.sdiv(b.add(length, b.i64(width - 1)), b.i64(width))
        for a in loop.folds:
            several, parts = parts[:count], parts[count:]
            x = self._halved(a, self._in_order(several, turns), width)
            self.carried[a] = b.select(is_short, several[0], x)

    def _around(
        self,
        loop: Loop,
        start: Value,
        stop: Value,
        parts: Sequence[Value],
        is_short: Value,
    ) -> list[Value]:
        """Turns that fold into the first part of each accumulator, which then is its
        last one, or stays the first."""
        b, count = self.b, loop.lanes // self.width
        with b.loop(start, stop, b.i64(self.width), parts) as iteration:
            self.enter(loop.axis, iteration.index)
            self.carried.update(zip(loop.folds, iteration.values[::count], strict=True))
            self.run(loop.body)
            self.leave(loop.axis)
            after: list[Value] = []
            for k, a in enumerate(loop.folds):
                first, *others = iteration.values[k * count + 1 : (k + 1) * count]
                new = self.carried[a]
                after += [b.select(is_short, new, first), *others, new]
            iteration.next(after)
        return iteration.values

    def _in_order(self, parts: Sequence[Value], turns: Value) -> Value:
        """The lanes of an accumulator whose parts have gone around: by way of memory,
        as the number of turns is known when it runs."""
        b, kind = self.b, parts[0].type
        whole = vector(element(kind), lanes(kind) * len(parts))
        place = Value(f"%{b.label('lanes')}", PTR)
        b.lines[0] += f"\n  {place.name} = alloca {whole}, align {LINE}"  # once a call
        for k, x in enumerate(parts):
            at = b.and_(b.add(turns, b.i64(k)), b.i64(len(parts) - 1))
            b.store(x, b.offset(place, at, kind))
        return b.load(whole, place)
