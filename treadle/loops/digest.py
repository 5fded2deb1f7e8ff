"""Fingerprints of kernels: a digest of the content, the same in every process.

All that code is written from goes into it. What is shared is named once, so the text
grows with the number of expressions, however often each of them is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from treadle.base.caches import cached
from treadle.graph.op import Op
from treadle.loops.index import Datum, Index, IndexParameter, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Counter,
    Expression,
    Fetch,
    Guard,
    Inside,
    Kernel,
    Load,
    Statement,
    Store,
)


@cached(4096)
def digest(kernel: Kernel) -> str:
    """A name for the structure of a kernel, whatever it is called."""
    return hashlib.sha256(_Speller(kernel).text().encode()).hexdigest()


class _Speller:
    """Lines that say all of a kernel; expressions and indices have a line each."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}

    def text(self) -> str:
        k = self.kernel
        for x in k.expressions:  # operands first: nothing is nested deeply
            self.value(x)
        head = f"{k.integers} {k.checks} {k.ordered}"
        arguments = [
            f"{a.dtype.str} {a.dtype.name} {a.written} {self.size(a.scratch)} "
            f"{a.streamed}"
            for a in k.arguments
        ]
        body = self.statements(k.body)
        return "\n".join([head, *arguments, *self.lines, body])

    def _named(self, key: Any, line: str) -> str:
        name = self.names[key] = f"%{len(self.names)}"
        self.lines.append(line)
        return name

    def statements(self, body: Sequence[Statement]) -> str:
        return "{" + ";".join(map(self.statement, body)) + "}"

    def statement(self, s: Statement) -> str:
        if isinstance(s, Store):
            where = self.guards(s.guards)
            to = f"{s.buffer} {self.index(s.index)}"
            return f"store {to} {self.value(s.value)} {_op(s.combine)} {where}"
        if isinstance(s, Accumulate):
            return f"fold {self.accumulator(s.accumulator)} {self.value(s.value)}"
        if isinstance(s, Fetch):
            return f"fetch {s.buffer} {self.index(s.index)}"
        folds = " ".join(map(self.accumulator, s.folds))
        ends = ["" if s.start is None else self.index(s.start)]
        ends += map(self.index, s.stop)
        ends.append(self.size(s.stride))
        lanes = f"{s.lanes} {s.short_lanes}" if s.short_lanes else s.lanes
        head = f"{s.kind} {self.atom(s.axis)} {lanes} <{folds}> <{'> <'.join(ends)}>"
        return head + self.statements(s.body)

    def accumulator(self, a: Accumulator) -> str:
        return f"({a.number} {_op(a.combine)} {self.size(a.start)} {a.dtype.name})"

    def guards(self, guards: Sequence[Guard]) -> str:
        return " ".join(
            f"({self.index(g.index)} {self.size(g.low)} {self.size(g.high)})"
            for g in guards
        )

    def value(self, x: Expression) -> str:
        name = self.names.get(x)
        return name if name is not None else self._named(x, self._text(x))

    def _text(self, x: Expression) -> str:
        dtype = x.dtype.name
        if isinstance(x, Apply):
            inputs = " ".join(map(self.value, x.inputs))
            return f"{_op(x.op)} {dtype} {inputs}"
        if isinstance(x, Load):
            where = self.guards(x.guards)
            return f"load {dtype} {x.buffer} {self.index(x.index)} {where}"
        if isinstance(x, Const):
            bits, _ = x.key()
            known = self.size(bits) if isinstance(bits, IndexParameter) else bits.hex()
            return f"literal {dtype} {known}"
        if isinstance(x, Counter):
            return f"counter {dtype} {self.index(x.index)}"
        if isinstance(x, Inside):
            return f"inside {dtype} {self.guards(x.guards)}"
        assert isinstance(x, Accumulated)
        return f"folded {dtype} {self.accumulator(x.accumulator)}"

    def index(self, i: Index) -> str:
        # Equal indices may have their terms in another order, which code follows.
        key = i.terms, i.constant
        name = self.names.get(key)
        if name is None:
            terms = " ".join(f"{self.atom(a)}*{self.size(c)}" for a, c in i.terms)
            name = self._named(key, f"[{terms}] {self.size(i.constant)}")
        return name

    def atom(self, a: Any) -> str:
        if isinstance(a, LoopAxis):
            return f"{a.name}<{self.size(a.extent)}"
        if isinstance(a, Datum):
            return f"datum({self.value(a.value)} {self.size(a.extent)})"
        kind = type(a).__name__
        return f"{kind}({self.index(a.index)} {self.size(a.divisor)})"

    def size(self, n: Any) -> str:
        return f"n{n.slot}+{n.plus}" if isinstance(n, IndexParameter) else repr(n)


def _op(op: Op | None) -> str:
    return "" if op is None else f"{type(op).__name__}{tuple(op.attributes())!r}"
