"""Indices and memory of a kernel being written: addresses, loads, stores, masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.engines.native.codegen.builder import (
    I1,
    I8,
    I64,
    LINE,
    PARTS,
    PTR,
    Builder,
    Value,
    lanes,
    vector,
)
from treadle.engines.native.codegen.elements import (
    compute_type,
    from_memory,
    load_type,
    to_memory,
)
from treadle.loops.index import Datum, Index, IndexParameter, LoopAxis, Quotient
from treadle.loops.kernel import (
    Counter,
    Expression,
    Fetch,
    Guard,
    Kernel,
    Load,
    Statement,
    Store,
    children,
    expressions,
    indices,
    statements,
)


class Access:
    """Arguments, loop indices and the values known in each open loop."""

    has_vectors = True  # of what is written, where a loop has no lanes

    def __init__(self, kernel: Kernel, builder: Builder) -> None:
        self.kernel = kernel
        self.b = builder
        self.scopes: list[dict[Any, Value]] = [{}]
        self.axes: dict[LoopAxis, Value] = {}
        self.levels: dict[LoopAxis, int] = {}
        self.vector: LoopAxis | None = None  # the axis whose steps are lanes
        self.lanes = 0
        self.limit: Value | None = None  # the end of a vector loop, under a mask
        self.mask: Value | None = None
        self.wrong: Value | None = None  # memory that notes a position out of range
        self._arguments: dict[int, Value] = {}
        self._read_arguments()

    def value(self, x: Expression) -> Value:
        raise NotImplementedError

    def cached(self, key: Any) -> Value | None:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    # -- arguments -------------------------------------------------------------------

    def _read_arguments(self) -> None:
        """Load all pointers at the start; integers when they are first needed."""
        b, args = self.b, self.b.arguments["args"]
        self.buffers = [
            b.load(PTR, b.offset(args, b.i64(k), I64))
            for k in range(len(self.kernel.arguments))
        ]
        count = len(self.buffers)
        if self.kernel.checks:
            self.status = b.load(PTR, b.offset(args, b.i64(count), I64))
            self.wrong = b.define(PTR, f"alloca {I8}")
            b.store(b.constant(I8, 0), self.wrong)
            count += 1
        for k in range(self.kernel.integers):
            place = b.offset(args, b.i64(count + k), I64)
            self._arguments[k] = b.load(I64, place)
        self._find_scratch()

    def _find_scratch(self) -> None:
        """Place the buffers that each worker has of its own in its part."""
        b = self.b
        scratch_arguments = [
            (k, a) for k, a in enumerate(self.kernel.arguments) if a.scratch
        ]
        before = b.i64(0)
        places = []
        for k, a in scratch_arguments:
            places.append((k, before))
            size = b.mul(self.integer(a.scratch), b.i64(a.dtype.itemsize))
            before = b.add(before, size)
        for k, place in places:
            start = b.add(b.mul(b.arguments["worker"], before), place)
            self.buffers[k] = b.offset(self.buffers[k], start, I8)

    def report(self) -> None:
        """At the end: tell the program of a position that was out of range."""
        if self.wrong is None:
            return
        b = self.b
        bad = b.compare("ne", b.load(I8, self.wrong), b.constant(I8, 0))
        with b.when(bad):
            b.store(b.i64(1), self.status)

    def integer(self, n: Any) -> Value:
        """A size or stride: an argument, or a number that is structure."""
        if not isinstance(n, IndexParameter):
            return self.b.i64(n)
        value = self._arguments[n.slot]
        return self.b.add(value, self.b.i64(n.plus)) if n.plus else value

    # -- loops -----------------------------------------------------------------------

    def enter(self, axis: LoopAxis, index: Value) -> None:
        """Open a loop: its index, and its mask where the last vector is not full."""
        self.scopes.append({})
        self.bind(axis, index)
        if axis == self.vector and self.limit is not None:
            b, count = self.b, self.lanes
            left = b.intrinsic("smin", b.sub(self.limit, index), b.i64(count))
            # A vector that fills a register: LLVM 22 stores by what a narrower mask has
            # above its lanes. It holds the count itself.
            whole = (n for n in (8, 16, 32) if count < 1 << n and count * n >= 128)
            bits = next(whole, 64)
            kind = f"i{bits}"
            few = b.splat(b.convert("trunc", left, kind), count)
            self.mask = b.compare("ult", b.sequence(kind, count), few)

    def bind(self, axis: LoopAxis, index: Value) -> None:
        """Give an axis its index in the innermost open loop."""
        self.axes[axis] = index
        self.levels[axis] = len(self.scopes) - 1

    def leave(self, axis: LoopAxis) -> None:
        self.scopes.pop()
        del self.axes[axis]
        if axis == self.vector:
            self.mask = None

    # -- indices ---------------------------------------------------------------------

    def moves(self, x: Expression, axes: set[LoopAxis], known: set[Expression]) -> bool:
        """Whether a value depends on one of the axes, or on a value that does."""
        if any(c in known for c in children(x)):
            return True
        return any(a in axes for i in indices(x) for a in i.axes())

    def index(self, i: Index) -> Value:
        """An index as an integer, or as a vector of them where lanes differ."""
        known = self.cached(i)
        if known is not None:
            return known
        b = self.b
        total: Value | None = None if i.constant == 0 else self.integer(i.constant)
        for atom, c in i.terms:
            term = self._scaled(self._atom(atom), c)
            total = term if total is None else self._sum(total, term)
        known = b.i64(0) if total is None else total
        self.scopes[-1][i] = known
        return known

    def _atom(self, atom: Any) -> Value:
        b = self.b
        if isinstance(atom, LoopAxis):
            value = self.axes[atom]
            if atom != self.vector:
                return value
            steps = b.sequence(I64, self.lanes)
            return b.add(b.splat(value, self.lanes), steps)
        if isinstance(atom, Datum):
            return self._datum(atom)
        inner = self.index(atom.index)
        divisor = b.splat(self.integer(atom.divisor), lanes(inner.type))
        return b.binary(
            "udiv" if isinstance(atom, Quotient) else "urem", inner, divisor
        )

    def _scaled(self, x: Value, c: Any) -> Value:
        if c == 1:
            return x
        factor = self.b.splat(self.integer(c), lanes(x.type))
        return self.b.mul(x, factor)

    def _sum(self, x: Value, y: Value) -> Value:
        count = max(lanes(x.type), lanes(y.type))
        wide = [v if lanes(v.type) else self.b.splat(v, count) for v in (x, y)]
        return self.b.add(*wide)

    def _datum(self, atom: Datum) -> Value:
        """A position from data; one out of range is noted, and 0 is used instead."""
        b = self.b
        value = self.value(atom.value)
        count = lanes(value.type)
        signed = atom.value.dtype.kind == "i"
        place = b.convert("sext" if signed else "zext", value, I64)
        extent = b.splat(self.integer(atom.extent), count)
        good = b.compare("ult", place, extent)
        bad = b.xor(good, b.constant(good.type, True))
        if count:
            if self.mask is not None:
                bad = b.and_(bad, self.mask)
            bad = b.define(I1, f"call i1 @llvm.vector.reduce.or.v{count}i1({bad})")
            name = f"llvm.vector.reduce.or.v{count}i1"
            b.declared[name] = f"declare i1 @{name}(<{count} x i1>)"
        assert self.wrong is not None
        with b.when(bad):  # a branch that is never taken costs less than a store
            b.store(b.constant(I8, 1), self.wrong)
        return b.select(good, place, b.constant(place.type, 0))

    def counter(self, x: Counter) -> Value:
        """The value of an index as data."""
        whole = self.index(x.index)
        kind = compute_type(x.dtype)
        if kind in ("float", "double"):
            return self.b.convert("sitofp", whole, kind)
        return self.b.convert("trunc", whole, kind)

    def inside(self, guards: Sequence[Guard]) -> Value:
        """Whether all guards hold; a vector where some lane may differ."""
        b = self.b
        result: Value | None = None
        for g in guards:
            index = self.index(g.index)
            count = lanes(index.type)
            low = b.splat(self.integer(g.low), count)
            high = b.splat(self.integer(g.high), count)
            holds = b.and_(b.compare("sge", index, low), b.compare("slt", index, high))
            if result is None:
                result = holds
                continue
            count = max(lanes(result.type), count)
            pair = [v if lanes(v.type) else b.splat(v, count) for v in (result, holds)]
            result = b.and_(*pair)
        return result or b.constant(I1, True)

    # -- memory ----------------------------------------------------------------------

    def is_vector(self, i: Index) -> bool:
        """Whether the index differs from lane to lane."""
        return self.vector is not None and (
            self.vector in i.axes() or any(self._differs(x) for x in i.data())
        )

    def _differs(self, x: Expression) -> bool:
        return bool(lanes(self.value(x).type))

    def _plain(self, i: Index) -> bool:
        """Whether the lanes of an index are evenly spaced."""
        for atom, _ in i.terms:
            if isinstance(atom, LoopAxis):
                continue
            inner = Index(((atom, 1),))
            if self.is_vector(inner):
                return False
        return True

    def pointer(self, buffer: int, i: Index, kind: str) -> Value:
        """The address of an element, in the first lane where lanes are consecutive.

        It is summed up loop by loop, so that an inner loop adds only its own step.
        """
        key = (buffer, i)
        address = self.cached(key)
        if address is not None:
            return address
        levels = [self._level(atom) for atom, _ in i.terms]
        deepest = max(levels, default=0)
        outer = [t for t, k in zip(i.terms, levels, strict=True) if k < deepest]
        base, place = self.buffers[buffer], i
        if outer:
            base = self.pointer(buffer, Index(tuple(outer), i.constant), kind)
            terms = [t for t, k in zip(i.terms, levels, strict=True) if k == deepest]
            place = Index(tuple(terms))
        step = self._first_lane(place)
        address = base if step.name == "0" else self.b.offset(base, step, kind)
        self.scopes[-1][key] = address
        return address

    def _level(self, atom: Any) -> int:
        """The open loop an atom changes in; the innermost one for all but axes."""
        return self.levels[atom] if isinstance(atom, LoopAxis) else len(self.scopes)

    def _first_lane(self, i: Index) -> Value:
        """An index in its first lane, as an integer."""
        b = self.b
        total: Value | None = None if i.constant == 0 else self.integer(i.constant)
        for atom, c in i.terms:
            term = self.axes[atom] if isinstance(atom, LoopAxis) else self._atom(atom)
            term = self._scaled(term, c)
            total = term if total is None else b.add(total, term)
        return b.i64(0) if total is None else total

    def hoist_pointers(
        self, body: Sequence[Statement], changing: set[LoopAxis]
    ) -> None:
        """Compute the parts of addresses that a loop leaves alone."""
        accesses: list[tuple[int, Index]] = []
        for x in expressions(tuple(body)):
            if isinstance(x, Load):
                accesses.append((x.buffer, x.index))
        for s in statements(tuple(body)):
            if isinstance(s, (Fetch, Store)):
                accesses.append((s.buffer, s.index))
        for buffer, i in accesses:
            if not all(isinstance(atom, LoopAxis) for atom, _ in i.terms):
                continue
            fixed = tuple((a, c) for a, c in i.terms if a not in changing)
            if fixed and len(fixed) < len(i.terms):
                kind = load_type(self.kernel.arguments[buffer].dtype)
                self.pointer(buffer, Index(fixed, i.constant), kind)

    def _mask(self, guards: Sequence[Guard], differs: bool) -> Value | None:
        """The mask of the lanes in which an access happens; None for all of them."""
        mask = self.inside(guards) if guards else None
        if not differs:
            return mask
        if mask is not None and not lanes(mask.type):
            mask = self.b.splat(mask, self.lanes)
        if self.mask is None:
            return mask
        return self.mask if mask is None else self.b.and_(mask, self.mask)

    def load(self, x: Load) -> Value:
        """The element, or one for each lane."""
        b, memory = self.b, load_type(x.dtype)
        differs = self.is_vector(x.index)
        guarded = any(self.is_vector(g.index) for g in x.guards)
        mask = self._mask(x.guards, differs or guarded)
        if not differs and not guarded:
            pointer = self.pointer(x.buffer, x.index, memory)
            if mask is None:
                return from_memory(b, b.load(memory, pointer), x.dtype)
            one = b.masked_load(vector(memory, 1), pointer, b.splat(mask, 1))
            return from_memory(b, b.lane(one, 0), x.dtype)
        wide = vector(memory, self.lanes)
        step = x.index.coefficient(self.vector) if self.vector else 0
        if step == 1 and self._plain(x.index):
            pointer = self.pointer(x.buffer, x.index, memory)
            return from_memory(b, b.masked_load(wide, pointer, mask), x.dtype)
        pointers = self._pointers(x.buffer, x.index, memory)
        mask = mask or b.constant(vector(I1, self.lanes), True)
        return from_memory(b, b.gather(wide, pointers, mask), x.dtype)

    def _pointers(self, buffer: int, i: Index, memory: str) -> Value:
        """An address for each lane."""
        place = self.index(i)
        if not lanes(place.type):
            place = self.b.splat(place, self.lanes)
        return self.b.offset(self.buffers[buffer], place, memory)

    def fetch(self, s: Fetch) -> None:
        """Ask for the lines that the lanes lie in."""
        b, dtype = self.b, self.kernel.arguments[s.buffer].dtype
        pointer = self.pointer(s.buffer, s.index, load_type(dtype))
        for k in range(0, max(self.lanes, 1) * dtype.itemsize, LINE):
            b.prefetch(b.offset(pointer, b.i64(k), I8))

    def put(self, s: Store, value: Value) -> None:
        """Store a value, in the lanes that are to be written."""
        b = self.b
        dtype = self.kernel.arguments[s.buffer].dtype
        memory = load_type(dtype)
        if not self.is_vector(s.index):
            assert not lanes(value.type), "a vector has one place only"
            value = to_memory(b, value, dtype)
            pointer = self.pointer(s.buffer, s.index, memory)
            if not s.guards:
                b.store(value, pointer)
                return
            with b.when(self.inside(s.guards)):
                b.store(value, pointer)
            return
        if not lanes(value.type):
            value = b.splat(value, self.lanes)
        value = to_memory(b, value, dtype)
        mask = self._mask(s.guards, True)
        if s.index.coefficient(self.vector) == 1 and self._plain(s.index):  # type: ignore[arg-type]
            pointer = self.pointer(s.buffer, s.index, memory)
            size = self.lanes * dtype.itemsize
            whole = size % LINE == 0 or size in PARTS
            if mask is None and whole and self.kernel.arguments[s.buffer].streamed:
                b.stream(value, pointer, size)
            else:
                b.masked_store(value, pointer, mask)
            return
        pointers = self._pointers(s.buffer, s.index, memory)
        mask = mask or b.constant(vector(I1, self.lanes), True)
        b.scatter(value, pointers, mask)
