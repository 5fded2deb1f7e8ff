"""Kernels as C-like text: what the dialects of OpenCL C and WGSL have in common.

A value is a constant with a name, a carried value of a loop a variable. Integers are
signed, as LLVM's have no sign: unsigned operations convert and convert back, which also
makes overflow wrap.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.gpu.work import Work
from treadle.engines.native.codegen.builder import (
    BITS,
    F16,
    F32,
    F64,
    I1,
    PTR,
    LoopBuilder,
    Value,
)

FLOATS = (F16, F32, F64)
_SIGNS = {
    "fadd": "+",
    "fsub": "-",
    "fmul": "*",
    "fdiv": "/",
    "sdiv": "/",
    "srem": "%",
    "ashr": ">>",
}
_UNSIGNED = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "udiv": "/",
    "urem": "%",
    "shl": "<<",
    "lshr": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}
_LOGIC = {"and": "&", "mul": "&", "or": "|", "xor": "!=", "add": "!=", "sub": "!="}
_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(frozen=True)
class ElementPointer(Value):
    """An element of an array that has a name: no language but C adds to pointers."""

    space: str = ""  # "buffer", "shared", "private" or "table"
    index: Value | None = None


class TextBuilder(DeviceBuilder):
    """One kernel as text; `types` has the words of the language for LLVM's types."""

    types: ClassVar[dict[str, str]]

    def __init__(self, work: Work) -> None:
        super().__init__(work.name, [])
        self.work = work
        self.lines = []
        self.heads: list[str] = []  # declarations before the first statement
        self.globals: list[str] = []  # and outside of the function
        self.depth = 1
        self._known: dict[Any, Value] = {}

    # -- text ------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def define(self, kind: str, line: str) -> Value:
        self._count += 1
        name = f"v{self._count}"
        self.emit(self.declaration(name, kind, line, fixed=True))
        return Value(name, kind)

    def fresh(self, letter: str) -> str:
        """A name that no other value has."""
        self._count += 1
        return f"{letter}{self._count}"

    def once(self, key: Any, make: Any) -> Any:
        """The name of a declaration before the first statement, written once."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def ret(self, x: Value | None = None) -> None:
        assert x is None, "a kernel returns nothing"

    # -- what dialects say -----------------------------------------------------------

    @abstractmethod
    def declaration(self, name: str, kind: str, value: str, fixed: bool) -> str:
        """A statement that gives a value a name."""

    @abstractmethod
    def unsigned(self, x: Value) -> str:
        """A signed integer as an unsigned one of the same width."""

    @abstractmethod
    def signed(self, kind: str, text: str) -> str:
        """And back, with the bits that its kind has."""

    def number(self, kind: str, value: Any) -> str:
        """A literal; integers that are unsigned by their bits."""
        if kind == I1:
            return "true" if value else "false"
        if kind in FLOATS:
            return self.float_number(kind, float(value))
        low = -(1 << self.width(kind) - 1)
        number = (int(value) - low) % (-2 * low) + low
        text = self.integer(kind, number)
        if number == low:  # no literal is as low
            text = f"{self.integer(kind, number + 1)} - {self.integer(kind, 1)}"
        return f"({text})" if number < 0 else text

    def width(self, kind: str) -> int:
        """The bits of an integer."""
        return BITS[kind]

    @abstractmethod
    def integer(self, kind: str, value: int) -> str:
        """The literal of an integer, which may have a sign before it."""

    @abstractmethod
    def float_number(self, kind: str, value: float) -> str:
        """The literal of a float."""

    @abstractmethod
    def chosen(self, condition: Value, x: Value, y: Value) -> str:
        """x where a condition holds, else y."""

    @abstractmethod
    def is_nan(self, x: Value) -> str:
        """The test for NaN of a float."""

    # -- constants and arithmetic ----------------------------------------------------

    def constant(self, kind: str, value: Any) -> Value:
        return Value(self.number(kind, value), kind)

    def i64(self, value: int) -> Value:
        return Value(self.number("i64", int(value)), "i64")

    def binary(self, op: str, x: Value, y: Value) -> Value:
        kind, a, b = x.type, x.name, y.name
        if kind == I1:
            return self.define(kind, f"{a} {_LOGIC[op]} {b}")
        if op in _SIGNS:
            right = self.shift(y) if op == "ashr" else b
            return self.define(kind, f"{a} {_SIGNS[op]} {right}")
        right = self.shift(y) if op in ("shl", "lshr") else self.unsigned(y)
        text = f"{self.unsigned(x)} {_UNSIGNED[op]} {right}"
        return self.define(kind, self.signed(kind, text))

    def shift(self, y: Value) -> str:
        """How far bits are moved."""
        return self.unsigned(y)

    def fneg(self, x: Value) -> Value:
        return self.define(x.type, f"-{x.name}")

    def compare(self, how: str, x: Value, y: Value) -> Value:
        if x.type in FLOATS:
            return self.define(I1, self._compared(how, x, y))
        if x.type == I1:
            one, zero = self.constant("i32", 1), self.constant("i32", 0)
            x, y = self.select(x, one, zero), self.select(y, one, zero)
            how = how if how in ("eq", "ne") else "s" + how[1:]
        plain = how in ("eq", "ne") or how[0] == "s"
        sign = _RELATIONS[how if how in _RELATIONS else how[1:]]
        a, b = (x.name, y.name) if plain else (self.unsigned(x), self.unsigned(y))
        return self.define(I1, f"{a} {sign} {b}")

    def _compared(self, how: str, x: Value, y: Value) -> str:
        a, b = x.name, y.name
        if how == "uno":
            both = x.name == y.name
            return self.is_nan(x) if both else f"{self.is_nan(x)} || {self.is_nan(y)}"
        if how == "one":
            return f"({a} < {b}) || ({a} > {b})"
        return f"{a} {_RELATIONS[how[1:]]} {b}"

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return self.define(x.type, self.chosen(condition, x, y))

    def convert(self, how: str, x: Value, kind: str) -> Value:
        if kind == x.type:
            return x
        return self.define(kind, self.converted(how, x, kind))

    @abstractmethod
    def converted(self, how: str, x: Value, kind: str) -> str:
        """A value as one of another kind."""

    def bitcast(self, x: Value, kind: str) -> Value:
        return self.convert("bitcast", x, kind)

    def sequence(self, kind: str, count: int) -> Value:
        raise AssertionError("no lanes on a device")

    def call(self, name: str, kind: str, arguments: Sequence[Value]) -> Value | None:
        raise AssertionError(f"a device has no function {name}")

    # -- memory ----------------------------------------------------------------------

    def buffer(self, k: int) -> Value:
        return ElementPointer(f"b{k}", PTR, "buffer")

    def slot(self, k: int, kind: str) -> Value:
        def declared() -> Value:
            text = self.launch_number(f"n[{k}]", kind)
            line = self.declaration(f"n{k}", kind, text, fixed=True)
            self.heads.append(f"  {line}")
            return Value(f"n{k}", kind)

        return self.once((k, kind), declared)

    @abstractmethod
    def launch_number(self, text: str, kind: str) -> str:
        """An integer of a launch as a value of a kind: a float is given by its bits."""

    def shared(self, kind: str, count: int) -> Value:
        return self._array("shared", kind, count)

    def private(self, kind: str, count: int = 1) -> Value:
        return self._array("private", kind, count)

    def _array(self, space: str, kind: str, count: int) -> Value:
        name = self.fresh(space[0])
        self.declare(space, name, kind, count)
        return ElementPointer(name, PTR, space)

    @abstractmethod
    def declare(self, space: str, name: str, kind: str, count: int) -> None:
        """Declare an array that is "shared" by a group, or "private" to an item."""

    def offset(self, pointer: Value, index: Value, kind: str) -> Value:
        assert isinstance(pointer, ElementPointer)
        if pointer.index is not None:
            index = self.add(pointer.index, index)
        return ElementPointer(pointer.name, PTR, pointer.space, index)

    def load(self, kind: str, pointer: Value, align: int = 0) -> Value:
        assert isinstance(pointer, ElementPointer)
        place = pointer.index.name if pointer.index else "0"
        return self.define(kind, self.element(kind, pointer, place))

    @abstractmethod
    def element(self, kind: str, pointer: ElementPointer, place: str) -> str:
        """The value read at a place."""

    def guarded(self, kind: str, condition: Value, pointer: Value) -> Value:
        variable = Value(self.fresh("g"), kind)
        zero = self.number(kind, 0)
        self.emit(self.declaration(variable.name, kind, zero, fixed=False))
        with self.when(condition):
            self.emit(f"{variable.name} = {self.load(kind, pointer).name};")
        return variable

    def table(self, name: str, entries: Sequence[float]) -> Value:
        self.once(name, lambda: self.globals.append(self.listed(name, entries)))
        return ElementPointer(name, PTR, "table")

    @abstractmethod
    def listed(self, name: str, entries: Sequence[float]) -> str:
        """The declaration of a table of float64."""

    # -- control ---------------------------------------------------------------------

    @contextmanager
    def loop(
        self, start: Value, stop: Value, step: Value, carried: Sequence[Value] = ()
    ) -> Iterator[LoopBuilder]:
        names = [Value(self.fresh("c"), x.type) for x in carried]
        for name, x in zip(names, carried, strict=True):
            self.emit(self.declaration(name.name, name.type, x.name, fixed=False))
        loop = LoopBuilder(self.counted(start, stop, step), list(names))
        yield loop
        pairs = zip(names, loop.after, strict=True)
        changed = [(name, x) for name, x in pairs if name.name != x.name]
        variables = {name.name for name, _ in changed}
        after = [  # all at once: one may be what another was
            self.define(x.type, x.name) if x.name in variables else x
            for _, x in changed
        ]
        for (name, _), x in zip(changed, after, strict=True):
            self.emit(f"{name.name} = {x.name};")
        self.depth -= 1
        self.emit("}")
        loop.values = list(names)

    def counted(self, start: Value, stop: Value, step: Value) -> Value:
        """The index of a loop that begins here."""
        index = Value(self.fresh("j"), start.type)  # "i64" is a type
        head = self.declaration(index.name, index.type, start.name, fixed=False)
        moved = f"{index.name} < {stop.name}; {index.name} += {step.name}"
        self.emit(f"for ({head} {moved}) {{")
        self.depth += 1
        return index

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        self.emit(f"if ({condition.name}) {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.emit("}")
