"""The Kernel IR: loops, expressions, loads and stores.

A kernel is a tree of loops over statements. Expressions are shared: the same object is
the same value, computed once in the innermost loop it depends on. Buffers are numbered;
loads and stores say which element, counted from the start of the buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Union

import numpy as np

from treadle.base.caches import lazy
from treadle.base.dtypes import DType
from treadle.base.symbolic import Symbolic, SymbolicNumber, least
from treadle.graph.op import Op
from treadle.loops.index import Index, IndexParameter, LoopAxis


class Node:
    """An expression, equal by structure; its hash is computed once."""

    dtype: DType
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            hash_value = hash((type(self), *self.key()))
            object.__setattr__(self, "_hash", hash_value)
            return hash_value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node) or type(self) is not type(other):
            return False
        return hash(self) == hash(other) and self.key() == other.key()

    def key(self) -> tuple[Any, ...]:
        raise NotImplementedError


@dataclass(frozen=True)
class Guard:
    """The condition `low <= index < high`."""

    index: Index
    low: Any
    high: Any


@dataclass(frozen=True, eq=False)
class Const(Node):
    """A number; equal numbers of one dtype are one literal, and -0.0 is not 0.0.

    The value may be a Parameter, once the kernel has no concrete numbers.
    """

    value: Any
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return self._bits, self.dtype

    @lazy
    def _bits(self) -> Any:
        known = type(self.value) in (IndexParameter, SymbolicNumber, Symbolic)
        return self.value if known else np.asarray(self.value, self.dtype).tobytes()


@dataclass(frozen=True, eq=False)
class Load(Node):
    """An element of a buffer; 0 where a guard does not hold, and then not touched."""

    buffer: int
    index: Index
    dtype: DType
    guards: tuple[Guard, ...] = ()

    def key(self) -> tuple[Any, ...]:
        return self.buffer, self.index, self.dtype, self.guards


@dataclass(frozen=True, eq=False)
class Counter(Node):
    """The value of an index, as data."""

    index: Index
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return self.index, self.dtype


@dataclass(frozen=True, eq=False)
class Inside(Node):
    """Whether all guards hold."""

    guards: tuple[Guard, ...]
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return (self.guards,)


@dataclass(frozen=True, eq=False)
class Apply(Node):
    """A scalar op on values: an op of the element-wise family, by its meaning."""

    op: Op
    inputs: tuple[Expression, ...]
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return self.op, self.inputs, self.dtype


def applied(op: Op, *xs: Expression, dtype: DType | None = None) -> Expression:
    """An op on values, of the dtype of the last one if none is said."""
    return Apply(op, xs, dtype or xs[-1].dtype)


@dataclass(frozen=True)
class Accumulator:
    """The variable of a fold: its number, the op that combines, where it starts.

    Without an op it carries a value: each step replaces it by what is folded, which may
    read the value of the step before.
    """

    number: int
    combine: Op | None
    start: Any
    dtype: DType


@dataclass(frozen=True, eq=False)
class Accumulated(Node):
    """The value of an accumulator: inside its loops so far, after them in all."""

    accumulator: Accumulator
    dtype: DType

    def key(self) -> tuple[Any, ...]:
        return (self.accumulator,)


Expression = Union[Const, Load, Counter, Inside, Apply, Accumulated]  # noqa: UP007


@dataclass(frozen=True)
class Store:
    """Put a value into a buffer; with `combine`, what was there joins it first."""

    buffer: int
    index: Index
    value: Expression
    combine: Op | None = None
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Accumulate:
    """Combine a value into an accumulator; after it the step does not read it.

    Those that replace what is carried, one behind the other, do so at once. Before the
    loops have their order, `place` is where the value would be in memory.
    """

    accumulator: Accumulator
    value: Expression
    place: Index | None = None


@dataclass(frozen=True)
class Fetch:
    """Bring an element nearer, for a load to come; it may lie outside of the buffer."""

    buffer: int
    index: Index


@dataclass(frozen=True)
class Loop:
    """Run the body for each step of `axis`.

    `kind`: "parallel" (independent, outermost), "ordered" (inside of these: rows that
    follow each other, as what they store joins), "serial", or "vector" (`lanes` steps
    at once; folds then combine lane by lane, and at the end in halves). An axis shorter
    than twice its lanes is run `short_lanes` at once, if these are given. `folds` are
    the accumulators that start here. `start` and `stop`, if given, are where the steps
    begin and end within the extent (at the first of several stops): that may be data,
    as the rows of a ragged array are, which lie between two of their starts. A `stride`
    above 1 leaves steps out, which a loop inside does.
    """

    axis: LoopAxis
    body: tuple[Statement, ...]
    kind: str = "serial"
    lanes: int = 0
    folds: tuple[Accumulator, ...] = ()
    start: Index | None = None
    stop: tuple[Index, ...] = ()
    stride: Any = 1
    short_lanes: int = 0

    @property
    def bounds(self) -> tuple[Index, ...]:
        """The bounds of a loop within its extent."""
        return self.stop if self.start is None else (self.start, *self.stop)

    def steps(self) -> int:
        """The number of steps, or about as many where data bound it.

        Such loops share the extent out among the steps of those that bound them.
        """
        data = [x for i in self.bounds for x in i.data()]
        axes = {
            a for x in data for e in inside(x) for i in indices(e) for a in i.axes()
        }
        around = max(math.prod(a.extent for a in axes), 1)
        most = -(-self.axis.extent // around)
        for stop in self.stop if self.start is not None else ():
            apart = stop - self.start
            most = most if apart.terms else least(most, apart.constant)
        return -(-most // self.stride)


Statement = Union[Store, Accumulate, Fetch, Loop]  # noqa: UP007


@dataclass(frozen=True)
class KernelArgument:
    """A buffer of a kernel: its element type, and whether it is written."""

    dtype: DType
    written: bool = False
    scratch: Any = 0  # elements each worker has of its own; 0 for a real buffer
    streamed: bool = False  # larger than caches: written past them


@dataclass(frozen=True)
class Kernel:
    """A tree of loops over numbered buffers.

    Without sizes, it takes `integers` more arguments. `checks`: it reads positions from
    data and notes one that is out of range.
    """

    name: str
    arguments: tuple[KernelArgument, ...]
    body: tuple[Statement, ...]
    integers: int = 0
    checks: bool = False
    ordered: bool = False  # inner steps follow each other and are no lanes
    enumerated: bool = False  # elements are written out: where they lie is structure

    def with_body(self, body: tuple[Statement, ...]) -> Kernel:
        return replace(self, body=body)

    def with_loops(self, body: tuple[Statement, ...]) -> Kernel:
        """The kernel with the same statements, in the same order, in other loops."""
        kernel, known = self.with_body(body), vars(self)
        names = "expressions", "indices"
        kept: dict[str, Any] = {k: known[k] for k in names if k in known}
        vars(kernel).update(kept)
        return kernel

    @lazy
    def expressions(self) -> list[Expression]:
        """All expressions, each once, operands first."""
        return expressions(self.body)

    @lazy
    def indices(self) -> list[Index]:
        """Every index in loads, stores, counters and guards."""
        result = [i for e in self.expressions for i in indices(e)]
        for s in statements(self.body):
            result += places(s)
        return result

    @lazy
    def _hash(self) -> int:
        return hash((self.arguments, self.body, self.integers))

    def __hash__(self) -> int:
        return self._hash


def children(x: Expression) -> tuple[Expression, ...]:
    """The expressions an expression is computed from, those in indices included."""
    if isinstance(x, Apply):
        return x.inputs
    if isinstance(x, Load):
        return (*x.index.data(), *[v for g in x.guards for v in g.index.data()])
    if isinstance(x, Counter):
        return tuple(x.index.data())
    if isinstance(x, Inside):
        return tuple(v for g in x.guards for v in g.index.data())
    return ()


def inside(x: Expression) -> list[Expression]:
    """An expression and all it is computed from, each object once."""
    parts, stack = {id(x): x}, [x]
    while stack:
        for e in children(stack.pop()):
            if id(e) not in parts:
                parts[id(e)] = e
                stack.append(e)
    return list(parts.values())


def indices(x: Expression) -> Iterator[Index]:
    """The indices that stand in an expression itself."""
    if isinstance(x, (Load, Counter)):
        yield x.index
    if isinstance(x, (Load, Inside)):
        yield from (g.index for g in x.guards)


def within(i: Index) -> Iterator[Index]:
    """An index, and all that stand in what it reads."""
    yield i
    for x in i.data():
        for e in inside(x):
            yield from indices(e)


def places(s: Statement) -> list[Index]:
    """The indices that stand in a statement itself, but for what is fetched."""
    if isinstance(s, Loop):
        return list(s.bounds)
    if isinstance(s, Accumulate):
        return [] if s.place is None else [s.place]
    return [s.index, *[g.index for g in s.guards]] if isinstance(s, Store) else []


def replacing(body: Sequence[Statement]) -> list[Accumulate]:
    """The folds that a body begins with which replace what is carried."""
    folds = takewhile(lambda s: isinstance(s, Accumulate), body)
    leading = [s for s in folds if isinstance(s, Accumulate)]
    return [*takewhile(lambda s: s.accumulator.combine is None, leading)]


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from statements(s.body)


def values(body: tuple[Statement, ...]) -> list[Expression]:
    """The values that are stored or folded, with all that they are computed from but
    positions."""
    every: dict[Expression, None] = {}
    stack = [s.value for s in statements(body) if isinstance(s, (Store, Accumulate))]
    while stack:
        e = stack.pop()
        if e not in every:
            every[e] = None
            stack += e.inputs if isinstance(e, Apply) else ()
    return list(every)


def expressions(body: tuple[Statement, ...]) -> list[Expression]:
    """All expressions, each once, operands first."""
    ordered: dict[Expression, None] = {}
    seen: set[int] = set()  # objects: equal ones are told apart from these only once

    def visit(x: Expression) -> None:
        stack = [x]
        while stack:
            e = stack[-1]
            if id(e) not in seen:
                below = [c for c in children(e) if id(c) not in seen]
                if below:
                    stack += below
                    continue
                seen.add(id(e))
                ordered.setdefault(e)
            stack.pop()

    for s in statements(body):
        if isinstance(s, (Store, Accumulate)):
            visit(s.value)
        for i in places(s):
            for e in i.data():
                visit(e)
    return list(ordered)
