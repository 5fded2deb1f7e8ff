"""A kernel under construction: its arguments by name, and arithmetic with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from treadle.engines.native.codegen.builder import Builder, Value
from treadle.engines.native.codegen.contraction.text import least


class KernelFrame:
    """The kernel of the engine's interface over named pointers and integers.

    `scratch` is the worker's own memory, if "scratch" is among the pointers and its
    size among the integers.
    """

    def __init__(self, pointers: Sequence[str], integers: Sequence[str]) -> None:
        parameters = [("args", "ptr")]
        parameters += [(name, "i64") for name in ("begin", "end", "worker")]
        self.b = b = Builder("NAME", parameters)
        self.values: dict[str, Value] = {}
        self.count = len(pointers) + len(integers)
        for i, name in enumerate([*pointers, *integers]):
            kind = "ptr" if i < len(pointers) else "i64"
            key = name if kind == "i64" else f"*{name}"
            at = b.offset(b.arguments["args"], b.i64(i), "i64")
            self.values[key] = b.load(kind, at, 8)
        if "*scratch" in self.values:
            worker = b.arguments["worker"]
            self.scratch = self.at(self.values["*scratch"], (worker, "scratch"))

    def at(self, base: Value, *steps: tuple[Value, str]) -> Value:
        """base plus indices times the integers of the given names, in bytes."""
        b = self.b
        for index, stride in steps:
            base = b.offset(base, b.mul(index, self.values[stride]), "i8")
        return base

    def on(self, base: Value, name: str) -> Value:
        """base plus an integer, in bytes."""
        return self.b.offset(base, self.values[name], "i8")

    def beyond(self, place: Value) -> Value:
        """The argument so many i64 past the named ones."""
        b = self.b
        index = b.add(place, b.i64(self.count))
        return b.offset(b.arguments["args"], index, "i64")

    def ceil(self, x: Value, y: Value) -> Value:
        """x / y rounded up."""
        b = self.b
        return b.sdiv(b.sub(b.add(x, y), b.i64(1)), y)

    def most(self, x: Value, y: Value) -> Value:
        """The larger of two integers."""
        return self.b.select(self.b.compare("sgt", x, y), x, y)

    def clamped(self, x: Value, low: Value, high: Value) -> Value:
        """x, but not below low nor above high."""
        return self.most(low, least(self.b, x, high))

    def evenly(self, total: Value, pieces: Value, index: Value) -> tuple[Value, Value]:
        """The begin and size of piece `index`; the first ones have one more."""
        b = self.b
        low, extra = b.sdiv(total, pieces), b.srem(total, pieces)
        more = b.convert("zext", b.compare("slt", index, extra), "i64")
        return b.add(b.mul(index, low), least(b, index, extra)), b.add(low, more)

    def taken(self, index: Value, counts: Sequence[str]) -> list[Value]:
        """An index over several dimensions as one for each; the last is fastest."""
        b = self.b
        parts = []
        for name in reversed(counts[1:]):
            parts.append(b.srem(index, self.values[name]))
            index = b.sdiv(index, self.values[name])
        return [index, *reversed(parts)]

    def call(self, name: str, arguments: Sequence[Value]) -> None:
        """Call a function by its address among the pointers."""
        listed = ", ".join(map(str, arguments))
        self.b.emit(f"call void {self.values[f'*{name}'].name}({listed})")

    def zero(self, place: Value, size: Value) -> None:
        """Fill memory with zeros."""
        zero, no = Value("0", "i8"), Value("false", "i1")
        self.b.call("llvm.memset.p0.i64", "void", [place, zero, size, no])

    @contextmanager
    def items(self) -> Iterator[Value]:
        """The loop over work items."""
        b = self.b
        with b.loop(b.arguments["begin"], b.arguments["end"], b.i64(1)) as over:
            yield over.index
        b.ret()
