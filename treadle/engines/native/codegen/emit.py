"""From a kernel to LLVM IR: its loops, with each value computed where it first can be.

The function reads its pointers and integers from `args`. Leading parallel loops become
one range of work items, begin .. end, taken apart into the steps of each loop. A vector
loop runs full vectors first and then once more under a mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from treadle.engines.native.codegen.builder import (
    F64,
    I64,
    PTR,
    Builder,
    Value,
)
from treadle.engines.native.codegen.elementary import FUNCTIONS
from treadle.engines.native.codegen.elements import compute_type
from treadle.engines.native.codegen.folding import Folding
from treadle.engines.native.codegen.packed import PackedBody, packed_body
from treadle.engines.native.codegen.scalars import apply
from treadle.engines.native.codegen.short import in_short, with_lanes
from treadle.engines.native.codegen.states import states_of
from treadle.engines.native.system.host import host
from treadle.loops.index import IndexParameter, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Counter,
    Expression,
    Fetch,
    Inside,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    expressions,
    replacing,
    statements,
)

SIGNATURE = [("args", PTR), ("begin", I64), ("end", I64), ("worker", I64)]
SERIES = 8  # ops that an elementary function counts for
HEAVY = 24  # ops: a longer loop body is written once, under a mask


class Emitter(Folding):
    """The state of one function that is being written."""

    def __init__(
        self, kernel: Kernel, name: str, builder: Builder | None = None
    ) -> None:
        super().__init__(kernel, builder or Builder(name, SIGNATURE))
        self.packed: PackedBody | None = None  # whose body is being written
        for x in kernel.expressions:
            if isinstance(x, Const) and isinstance(x.value, IndexParameter):
                self.scopes[0][x] = self._number(x)

    # -- expressions -----------------------------------------------------------------

    def value(self, x: Expression) -> Value:
        """The value of an expression, computed now unless an outer loop has it."""
        known = self.cached(x)
        if known is not None:
            return known
        waiting = [x]
        while waiting:  # bodies of loops are deep
            last = waiting[-1]
            inputs = last.inputs if isinstance(last, Apply) else ()
            missing = [v for v in inputs if self.cached(v) is None]
            if missing:
                waiting += reversed(missing)
                continue
            waiting.pop()
            if self.cached(last) is None:
                self.scopes[-1][last] = self._compute(last)
        return self.scopes[-1][x]

    def cached(self, key: Any) -> Value | None:
        known = super().cached(key)
        if known is None and self.packed is not None:
            known = self.packed.lane(key)
            if known is not None:
                self.scopes[-1][key] = known
        return known

    def _number(self, x: Const) -> Value:
        """A literal among the arguments; a float passes as the bits of a double."""
        value, kind = self.integer(x.value), compute_type(x.dtype)
        if x.dtype.kind == "i":
            return value if kind == I64 else self.b.convert("trunc", value, kind)
        value = self.b.bitcast(value, F64)
        return value if kind == F64 else self.b.convert("fptrunc", value, kind)

    def _compute(self, x: Expression) -> Value:
        b = self.b
        if isinstance(x, Const):
            return b.constant(compute_type(x.dtype), x.value)
        if isinstance(x, Load):
            return self.load(x)
        if isinstance(x, Counter):
            return self.counter(x)
        if isinstance(x, Inside):
            return self.inside(x.guards)
        if isinstance(x, Accumulated):
            return self.carried[x.accumulator]
        values = self.even([self.value(v) for v in x.inputs])
        return apply(b, x.op, values, [v.dtype for v in x.inputs], x.dtype)

    # -- statements ------------------------------------------------------------------

    def run(self, body: Sequence[Statement]) -> None:
        new: list[Accumulate] = []
        for k, s in enumerate(body):
            if isinstance(s, Accumulate):
                if s not in new:  # those that are replaced side by side are so at once
                    new = replacing(body[k:])
                    for t in new:
                        self.value(t.value)
                self._fold(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Fetch):
                self.fetch(s)
            elif self.rotates(s):
                self._vector_loop(s)
            elif (short := in_short(s)) is not None:
                self._by_extent(s, short)
            elif s.kind == "vector":
                self._vector_loop(s)
            else:
                self._serial_loop(s)

    def store(self, s: Store) -> None:
        value = self.value(s.value)
        dtype = self.kernel.arguments[s.buffer].dtype
        if s.combine is not None:
            before = self.load(Load(s.buffer, s.index, dtype, s.guards))
            value = self.combine(s.combine, before, value, dtype)
        self.put(s, value)

    # -- loops -----------------------------------------------------------------------

    def hoist(self, body: Sequence[Statement], axis: LoopAxis) -> None:
        """Compute what a loop needs that does not change in it, before it starts."""
        changing = {s.axis for s in statements(tuple(body)) if isinstance(s, Loop)}
        changing.add(axis)
        folding = {
            s.accumulator for s in statements(tuple(body)) if isinstance(s, Accumulate)
        }
        moving: set[Expression] = set()
        for x in expressions(tuple(body)):
            if self.moves(x, changing, moving) or (
                isinstance(x, Accumulated) and x.accumulator in folding
            ):
                moving.add(x)
            elif not isinstance(x, (Const, Inside)):
                known = not isinstance(x, Accumulated) or x.accumulator in self.carried
                if known:
                    self.value(x)
                else:
                    moving.add(x)
        self.hoist_pointers(body, changing)

    def _by_extent(self, loop: Loop, short: Loop) -> None:
        """A loop twice, for a short vector loop within it and for a long one."""
        b, before = self.b, dict(self.carried)
        changed = [*loop.folds, *self._carry(loop)]
        names, end = (b.label("short"), b.label("long")), b.label("end")
        extent, bound = self.integer(short.axis.extent), b.i64(2 * short.lanes)
        b.branch_if(b.compare("slt", extent, bound), *names)
        ends: list[tuple[str, dict[Accumulator, Value]]] = []
        for name, is_short in zip(names, (True, False), strict=True):
            b.start(name)
            self.scopes.append({})
            self.carried = dict(before)
            self.run((with_lanes(loop, is_short),))
            self.scopes.pop()
            ends.append((b.block, self.carried))
            b.branch(end)
        b.start(end)
        for a in changed:
            kind = ends[0][1][a].type
            cases = [f"[{carried[a].name}, %{block}]" for block, carried in ends]
            self.carried[a] = b.define(kind, f"phi {kind} {', '.join(cases)}")

    def _turns(
        self,
        loop: Loop,
        start: Value,
        stop: Value,
        step: Value,
        carried: list[Accumulator],
        states: Mapping[Expression, Accumulator] = MappingProxyType({}),
    ) -> None:
        """The loop itself, carrying accumulators from turn to turn."""
        packed = packed_body(self, loop, states)
        carried = [a for a in carried if a not in packed.accumulators]
        first = [*[self.carried[a] for a in carried], *packed.first(self.carried)]
        with self.b.loop(start, stop, step, first) as iteration:
            self.enter(loop.axis, iteration.index)
            self.carried.update(zip(carried, iteration.values, strict=False))
            singles = {x: self.carried[a] for x, a in states.items() if a in carried}
            self.scopes[-1].update(singles)
            after = self._run_packed(
                packed, loop.body, iteration.values[len(carried) :]
            )
            self.leave(loop.axis)
            iteration.next([*[self.carried[a] for a in carried], *after])
        self.carried.update(zip(carried, iteration.values, strict=False))
        self.carried.update(packed.last(iteration.values[len(carried) :]))

    def _run_packed(
        self, packed: PackedBody, body: Sequence[Statement], values: Sequence[Value]
    ) -> list[Value]:
        """A body some of whose scalars are lanes, and the states that it has so."""
        if not packed.plan.packs:
            self.run(body)
            return []
        self.packed = packed
        packed.enter(values)
        rest = packed.rest(body)
        packed.store()
        self.run(rest)
        after, self.packed = packed.after(body), None
        return after

    def _range(self, loop: Loop) -> tuple[Value, Value]:
        """The begin and end of a loop: never outside of its extent."""
        begin, end = self.b.i64(0), self.integer(loop.axis.extent)
        if loop.start is not None:
            begin = self.b.intrinsic("smax", self.index(loop.start), begin)
        for stop in loop.stop:
            end = self.b.intrinsic("smin", self.index(stop), end)
        return begin, end

    def _serial_loop(self, loop: Loop) -> None:
        self.hoist(loop.body, loop.axis)
        self._starts(loop)
        states = states_of(loop, lambda x: self.cached(x) is not None)
        for x, a in states.items():
            if isinstance(x, Apply):  # it begins with data
                begin = self.value(x.inputs[1])
                _, self.carried[a] = self.even([self.carried[a], begin])
        carried, stride = self._carry(loop), self.integer(loop.stride)
        self._turns(loop, *self._range(loop), stride, carried, states)
        self._ends(loop)

    def _vector_loop(
        self, loop: Loop, begin: Value | None = None, end: Value | None = None
    ) -> None:
        self.hoist(loop.body, loop.axis)
        start, stop = self._range(loop)
        start, stop = begin or start, end or stop
        self._starts(loop)
        carried = self._carry(loop)
        self.vector, self.lanes, self.crossing = loop.axis, loop.lanes, carried
        if self.rotates(loop):
            self.rotated(loop, start, stop)
        else:
            self._in_vectors(loop, start, stop, carried)
        self.vector, self.lanes = None, 0
        self._ends(loop)

    def _in_vectors(
        self, loop: Loop, start: Value, stop: Value, carried: list[Accumulator]
    ) -> None:
        """The steps of a vector loop: full vectors, then the rest under a mask."""
        b, step = self.b, self.b.i64(loop.lanes)
        applied = [x for x in expressions(loop.body) if isinstance(x, Apply)]
        series = 1 if carried else SERIES  # sums are slower under a mask
        ops = sum(series if x.op.name in FUNCTIONS else 1 for x in applied)
        if ops <= HEAVY:  # else it is written once, always under a mask
            length = b.sub(stop, start)
            whole = b.sub(length, b.srem(length, step))
            middle = b.add(start, whole)
            self._turns(loop, start, middle, step, carried)
            start = middle
            if not carried and not loop.lanes % self.width:
                self.lanes, step = self.width, b.i64(self.width)
        self.limit = stop
        self._turns(loop, start, stop, step, carried)
        self.limit = None

    # -- the function ----------------------------------------------------------------

    def function(self) -> str:
        """The text of the whole kernel."""
        b = self.b
        axes: list[LoopAxis] = []
        body = self.kernel.body
        while (
            len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "parallel"
        ):
            axes.append(body[0].axis)
            body = body[0].body
        begin, end = b.arguments["begin"], b.arguments["end"]
        first = body[0] if body else None
        if axes:
            self._rows(axes, body, begin, end)
        elif len(body) == 1 and isinstance(first, Loop) and first.kind == "vector":
            if first.folds:
                with b.when(b.compare("slt", begin, end)):
                    self.run(body)
            else:
                self._vector_loop(first, begin, end)
        else:
            with b.when(b.compare("slt", begin, end)):
                self.run(body)
        self.report()
        if b.metadata and host().triple.startswith(("x86_64", "amd64")):
            b.call("llvm.x86.sse.sfence", "void", [])  # others may read from now on
        b.ret()
        return b.text()

    def _rows(
        self, axes: list[LoopAxis], body: Sequence[Statement], begin: Value, end: Value
    ) -> None:
        """Work items in order, each taken apart into a step of each parallel loop."""
        b = self.b
        extents = [self.integer(a.extent) for a in axes]
        with b.loop(begin, end, b.i64(1)) as iteration:
            self.scopes.append({})
            rest = iteration.index
            for axis, extent in zip(axes[:0:-1], extents[:0:-1], strict=True):
                self.bind(axis, b.urem(rest, extent))
                rest = b.udiv(rest, extent)
            self.bind(axes[0], rest)
            self.run(body)
            self.scopes.pop()


def emit(kernel: Kernel, name: str) -> str:
    """LLVM IR of a function `name` that runs a kernel without sizes."""
    return Emitter(kernel, name).function()
