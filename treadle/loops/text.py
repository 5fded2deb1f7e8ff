"""Kernels as text: loops by indentation, each shared value named once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.loops.index import Index, IndexParameter, size_text
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Apply,
    Const,
    Counter,
    Expression,
    Fetch,
    Guard,
    Inside,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    children,
    statements,
)


class _Writer:
    """Lines, and the names of values that are used more than once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.names: dict[Expression, str] = {}
        uses: dict[Expression, int] = {}
        for x in kernel.expressions:
            for c in children(x):
                uses[c] = uses.get(c, 0) + 1
        self.shared = {x for x, n in uses.items() if n > 1}
        loops = [s for s in statements(kernel.body) if isinstance(s, Loop)]
        for body in (kernel.body, *[s.body for s in loops]):
            values = [s.value for s in body if isinstance(s, (Accumulate, Store))]
            self.shared |= {x for x in values if values.count(x) > 1}

    def text(self) -> str:
        arguments = ", ".join(
            f"b{k}: {a.dtype.name}{' written' if a.written else ''}"
            f"{' streamed' if a.streamed else ''}"
            f"{f' scratch of {size_text(a.scratch)}' if a.scratch else ''}"
            for k, a in enumerate(self.kernel.arguments)
        )
        sizes = ", ".join(f"n{k}" for k in range(self.kernel.integers))
        head = f"kernel {self.kernel.name or 'kernel'}({arguments})"
        self.lines.append(head + (f" of {sizes}" if sizes else ""))
        self.body(self.kernel.body, 1)
        return "\n".join(self.lines)

    def put(self, depth: int, line: str) -> None:
        self.lines.append("  " * depth + line)

    def body(self, body: Sequence[Statement], depth: int) -> None:
        for s in body:
            if isinstance(s, Loop):
                extent = s.axis.extent
                size = extent if isinstance(extent, int) else f"n{extent.slot}"
                lanes = f" by {s.lanes}" if s.lanes else ""
                if s.short_lanes:
                    lanes += f", below {2 * s.lanes} by {s.short_lanes}"
                for a in s.folds:
                    self.put(depth, f"a{a.number}: {a.dtype.name} = {a.start}")
                bounds = f" from {self.index(s.start)}" if s.start is not None else ""
                bounds += "".join([f" up to {self.index(i)}" for i in s.stop])
                bounds += f" in steps of {size_text(s.stride)}" if s.stride != 1 else ""
                self.put(depth, f"{s.kind} {s.axis.name} < {size}{lanes}{bounds}")
                self.body(s.body, depth + 1)
                self.names = {}
            elif isinstance(s, Accumulate):
                value = self.value(s.value, depth)
                combine = s.accumulator.combine
                joined = f"{combine.name} with " if combine else ""
                self.put(depth, f"a{s.accumulator.number} = {joined}{value}")
            elif isinstance(s, Fetch):
                self.put(depth, f"fetch b{s.buffer}[{self.index(s.index)}]")
            else:
                self.store(s, depth)

    def store(self, s: Store, depth: int) -> None:
        value = self.value(s.value, depth)
        joined = f"{s.combine.name} with " if s.combine else ""
        where = self.where(s.guards)
        self.put(depth, f"b{s.buffer}[{self.index(s.index)}]{where} = {joined}{value}")

    def index(self, i: Index) -> str:
        return str(i.data_mapped(lambda x: self.value(x, 0)) if i.data() else i)

    def where(self, guards: Sequence[Guard]) -> str:
        parts = [
            f"{size_text(g.low)} <= {self.index(g.index)} < {size_text(g.high)}"
            for g in guards
        ]
        return f" where {' and '.join(parts)}" if parts else ""

    def value(self, x: Expression, depth: int) -> str:
        """A value as text; a shared one gets a line and a name first."""
        if x in self.names:
            return self.names[x]
        written = self._written(x, depth)
        if x in self.shared and isinstance(x, (Apply, Load)) and depth:
            name = f"v{len(self.names)}"
            self.put(depth, f"{name} = {written}")
            self.names[x] = name
            return name
        return written

    def _written(self, x: Expression, depth: int) -> str:
        if isinstance(x, Const):
            return _literal(x)
        if isinstance(x, Load):
            return f"b{x.buffer}[{self.index(x.index)}]{self.where(x.guards)}"
        if isinstance(x, Counter):
            return f"({self.index(x.index)})"
        if isinstance(x, Inside):
            return f"({self.where(x.guards).removeprefix(' where ')})"
        if isinstance(x, Accumulated):
            return f"a{x.accumulator.number}"
        inputs = ", ".join(self.value(c, depth) for c in x.inputs)
        fields = ", ".join(f"{k}={v!r}" for k, v in x.op.attributes())
        if x.op.name == "Cast":
            return f"{x.dtype.name}({inputs})"
        return f"{x.op.name.lower()}({inputs}{', ' + fields if fields else ''})"


def _literal(x: Const) -> str:
    """A number as text, the same for all literals that are equal."""
    if isinstance(x.value, IndexParameter):
        return size_text(x.value)
    return str(np.asarray(x.value, x.dtype)[()])


def kernel_text(kernel: Kernel) -> str:
    """A kernel as text."""
    return _Writer(kernel).text()
