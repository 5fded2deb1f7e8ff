"""A kernel's body with its parts replaced: indices, loops, numbers, loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import is_not
from typing import Any

from treadle.loops.index import Index
from treadle.loops.kernel import (
    Accumulate,
    Apply,
    Const,
    Counter,
    Expression,
    Fetch,
    Guard,
    Inside,
    Load,
    Loop,
    Statement,
    Store,
    expressions,
)


@dataclass(frozen=True)
class _Rewriting:
    """A rewriting of the parts of a body, and the expressions made so far."""

    index: Callable[[Index], Index]
    loop: Callable[[Loop], Loop]
    number: Callable[[Any], Any]
    load: Callable[[Load], Expression]
    literal: Callable[[Const], Const]
    shared: Callable[[Any], Any]
    memo: dict[Expression, Expression] = field(default_factory=dict)
    same: dict[int, Expression] = field(default_factory=dict)  # by objects

    def guards(self, gs: tuple[Guard, ...]) -> tuple[Guard, ...]:
        return tuple(
            Guard(self.mapped(g.index), self.number(g.low), self.number(g.high))
            for g in gs
        )

    def mapped(self, i: Index) -> Index:
        data = i.terms and i.data()
        return self.index(i.data_mapped(self.value) if data else i)

    def value(self, x: Expression) -> Expression:
        replacement = self.same.get(id(x))
        if replacement is None:
            replacement = self.memo.get(x)
            if replacement is None:
                replacement = self.memo[x] = self.shared(self._made(x))
            self.same[id(x)] = replacement
        return replacement

    def _made(self, x: Expression) -> Expression:
        if isinstance(x, Apply):
            inputs = tuple([self.value(v) for v in x.inputs])
            changed = any(map(is_not, inputs, x.inputs))
            return Apply(x.op, inputs, x.dtype) if changed else x
        if isinstance(x, Const):
            return self.literal(x)
        if isinstance(x, Load):
            place, guards = self.mapped(x.index), self.guards(x.guards)
            differs = place is not x.index or guards
            return self.load(Load(x.buffer, place, x.dtype, guards) if differs else x)
        if isinstance(x, Counter):
            return Counter(self.mapped(x.index), x.dtype)
        return Inside(self.guards(x.guards), x.dtype) if isinstance(x, Inside) else x

    def statement(self, s: Statement) -> Any:
        return self.shared(self._statement(s))

    def _statement(self, s: Statement) -> Statement:
        if isinstance(s, Loop):
            s = self.loop(s)
            inner = tuple([self.statement(t) for t in s.body])
            start = s.start if s.start is None else self.mapped(s.start)
            stop = tuple([self.mapped(i) for i in s.stop])
            stride = self.number(s.stride)
            return replace(s, body=inner, start=start, stop=stop, stride=stride)
        if isinstance(s, Accumulate):
            there = s.place if s.place is None else self.mapped(s.place)
            return Accumulate(s.accumulator, self.value(s.value), there)
        if isinstance(s, Fetch):
            return Fetch(s.buffer, self.mapped(s.index))
        place, value = self.mapped(s.index), self.value(s.value)
        return Store(s.buffer, place, value, s.combine, self.guards(s.guards))


def rewritten(
    body: tuple[Statement, ...],
    index: Callable[[Index], Index],
    loop: Callable[[Loop], Loop] = lambda s: s,
    number: Callable[[Any], Any] = lambda n: n,
    load: Callable[[Load], Expression] = lambda x: x,
    literal: Callable[[Const], Const] = lambda x: x,
    shared: Callable[[Any], Any] = lambda x: x,
    known: Sequence[Expression] = (),
) -> tuple[Statement, ...]:
    """The body with every index, loop, guard bound, load and literal mapped.

    `shared` gets each expression and statement made, operands first. `known`: the
    expressions of the body, where they are.
    """
    work = _Rewriting(index, loop, number, load, literal, shared)
    for e in known or expressions(body):  # operands first: `value` never recurses deep
        work.value(e)
    return tuple([work.statement(s) for s in body])
