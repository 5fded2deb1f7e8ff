"""LLVM IR as text: typed values, straight-line code, loops and branches.

A value is its name and its LLVM type. Vectors of any length are legal: LLVM splits
them into registers, so a loop over 64 floats is four interleaved loops over 16.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

I1, I8, I16, I32, I64 = "i1", "i8", "i16", "i32", "i64"
F16, F32, F64, PTR = "half", "float", "double", "ptr"
LINE = 64  # bytes of a line of the cache
PARTS = (16, 32)  # of one that are stored past the caches at once
BITS = {I1: 1, I8: 8, I16: 16, I32: 32, I64: 64, F16: 16, F32: 32, F64: 64, PTR: 64}
_VECTOR = re.compile(r"<(\d+) x (\w+)>")


def vector(kind: str, count: int) -> str:
    """The type of `count` elements of `kind`; the element itself for 0."""
    return f"<{count} x {kind}>" if count else kind


def element(kind: str) -> str:
    """The element type of a vector type; a scalar type is its own."""
    match = _VECTOR.fullmatch(kind)
    return match[2] if match else kind


def lanes(kind: str) -> int:
    """The number of elements of a vector type; 0 for a scalar type."""
    match = _VECTOR.fullmatch(kind)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class Value:
    """An SSA value or a constant: how it is written, and its type."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


class LoopBuilder:
    """A counted loop that is being built: its index, and what it carries."""

    def __init__(self, index: Value, values: list[Value]) -> None:
        self.index = index
        self.values = values  # carried values: at the top, and after it the results
        self.after: list[Value] = list(values)  # set by `next`

    def next(self, values: Sequence[Value]) -> None:
        """Give the carried values of the next turn."""
        self.after = list(values)


class Builder:
    """One function under construction: `build.fadd(x, y)` appends an instruction.

    >>> b = Builder("twice", [("x", "float")])
    >>> b.ret(b.fadd(b.arguments["x"], b.arguments["x"]))
    >>> print(b.text())
    define float @twice(float %x) {
    entry:
      %1 = fadd float %x, %x
      ret float %1
    }
    """

    def __init__(
        self, name: str, parameters: Sequence[tuple[str, str]], returns: str = "void"
    ) -> None:
        self.name = name
        self.parameters = list(parameters)
        self.arguments = {n: Value(f"%{n}", t) for n, t in parameters}
        self.returns = returns
        self.lines: list[str] = ["entry:"]
        self.block = "entry"
        self.declared: dict[str, str] = {}
        self.metadata = ""
        self._count = 0
        self._labels = 0

    # -- text ----------------------------------------------------------------------

    def text(self) -> str:
        """The function with the declarations it needs."""
        head = ", ".join(f"{t} %{n}" for n, t in self.parameters)
        body = "\n".join(self.lines)
        definition = f"define {self.returns} @{self.name}({head}) {{\n{body}\n}}"
        return "\n".join([*sorted(self.declared.values()), definition]) + self.metadata

    def emit(self, line: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {line}")

    def define(self, kind: str, line: str) -> Value:
        """Append an instruction and name its result of type `kind`."""
        self._count += 1
        self.lines.append(f"  %{self._count} = {line}")
        return Value(f"%{self._count}", kind)

    def label(self, hint: str) -> str:
        """A new name for a block."""
        self._labels += 1
        return f"{hint}{self._labels}"

    def start(self, label: str) -> None:
        """Begin a block; the one before must have ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def ret(self, x: Value | None = None) -> None:
        """Return from the function."""
        if x is not None:
            self.returns = x.type
        self.emit(f"ret {x or 'void'}")

    # -- constants -----------------------------------------------------------------

    def constant(self, kind: str, value: Any) -> Value:
        """A number of scalar or vector type, the same in all lanes."""
        base = element(kind)
        if base in (F16, F32, F64):
            written = _float(base, float(value))
        elif base == I1:
            written = "true" if value else "false"
        else:
            written = str(int(value))
        if lanes(kind):
            return Value(f"splat ({base} {written})", kind)
        return Value(written, kind)

    def i64(self, value: int) -> Value:
        return Value(str(int(value)), I64)

    def sequence(self, kind: str, count: int) -> Value:
        """0, 1, 2 ... as a vector of integers."""
        body = ", ".join(f"{kind} {k}" for k in range(count))
        return Value(f"<{body}>", vector(kind, count))

    # -- arithmetic ----------------------------------------------------------------

    def binary(self, op: str, x: Value, y: Value) -> Value:
        """Any two-operand instruction of LLVM; both operands have one type."""
        assert x.type == y.type, f"{op} {x}, {y}"
        return self.define(x.type, f"{op} {x}, {y.name}")

    def __getattr__(self, op: str) -> Any:
        """`b.fadd`, `b.add`, `b.and_`, ...: two-operand instructions by name, `b.plus`
        and `b.times` of integers or floats."""
        if op in _EITHER:
            return lambda x, y: self.binary(_EITHER[op][_is_float(x.type)], x, y)
        name = op.rstrip("_")
        if name not in _BINARY:
            raise AttributeError(op)
        return lambda x, y: self.binary(name, x, y)

    def fneg(self, x: Value) -> Value:
        return self.define(x.type, f"fneg {x}")

    def compare(self, how: str, x: Value, y: Value) -> Value:
        """`fcmp` or `icmp` by the type: "olt", "une", ... or "slt", "ult", "eq"."""
        assert x.type == y.type, f"compare {x}, {y}"
        word = "fcmp" if _is_float(x.type) else "icmp"
        return self.define(vector(I1, lanes(x.type)), f"{word} {how} {x}, {y.name}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        assert x.type == y.type, f"select {x}, {y}"
        return self.define(x.type, f"select {condition}, {x}, {y}")

    def convert(self, how: str, x: Value, kind: str) -> Value:
        """`sext`, `zext`, `trunc`, `fpext`, `fptrunc`, `sitofp`, `bitcast`, ... .

        `kind` is the element type; the number of lanes stays.
        """
        target = vector(kind, lanes(x.type))
        return x if target == x.type else self.define(target, f"{how} {x} to {target}")

    def bitcast(self, x: Value, kind: str) -> Value:
        """The same bits as another whole type, written out with its lanes."""
        return self.define(kind, f"bitcast {x} to {kind}")

    def opaque(self, x: Value) -> Value:
        """x in a register, while the optimizer no longer knows where it came from."""
        return self.define(x.type, f'call {x.type} asm "", "=r,0"({x})')

    def call(self, name: str, kind: str, arguments: Sequence[Value]) -> Value | None:
        """Call a function by name, declaring it; None when it returns nothing."""
        types = ", ".join(a.type for a in arguments)
        self.declared.setdefault(name, f"declare {kind} @{name}({types})")
        listed = ", ".join(map(str, arguments))
        if kind == "void":
            self.emit(f"call void @{name}({listed})")
            return None
        return self.define(kind, f"call {kind} @{name}({listed})")

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """`llvm.NAME` over the type of the first argument: "fma", "floor", "fabs"."""
        kind = arguments[0].type
        result = self.call(f"llvm.{name}.{suffix(kind)}", kind, arguments)
        assert result is not None
        return result

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x y + z, rounded once."""
        return self.intrinsic("fma", x, y, z)

    # -- vectors -------------------------------------------------------------------

    def splat(self, x: Value, count: int) -> Value:
        """A scalar in all lanes; a constant stays one."""
        if not count:
            return x
        kind = vector(x.type, count)
        if not x.name.startswith(("%", "@")):
            return Value(f"splat ({x})", kind)
        one = self.define(kind, f"insertelement {kind} poison, {x}, i32 0")
        zeros = f"<{count} x i32> zeroinitializer"
        return self.define(kind, f"shufflevector {one}, {kind} poison, {zeros}")

    def part(self, x: Value, first: int, count: int) -> Value:
        """`count` consecutive lanes of a vector, from `first` on."""
        places = ", ".join(f"i32 {first + k}" for k in range(count))
        kind = vector(element(x.type), count)
        mask = f"<{count} x i32> <{places}>"
        return self.define(kind, f"shufflevector {x}, {x.type} poison, {mask}")

    def lane(self, x: Value, k: int) -> Value:
        return self.define(element(x.type), f"extractelement {x}, i32 {k}")

    def insert(self, x: Value, y: Value, k: int) -> Value:
        return self.define(x.type, f"insertelement {x}, {y}, i32 {k}")

    # -- memory --------------------------------------------------------------------

    def offset(self, pointer: Value, index: Value, kind: str) -> Value:
        """`pointer` plus `index` elements of `kind` (or a vector of pointers)."""
        target = vector(PTR, lanes(index.type))
        line = f"getelementptr {kind}, {pointer}, {index}"
        return self.define(target, line)

    def load(self, kind: str, pointer: Value, align: int = 0) -> Value:
        """Load from memory aligned to one element unless said otherwise."""
        align = align or max(BITS[element(kind)] // 8, 1)
        return self.define(kind, f"load {kind}, {pointer}, align {align}")

    def store(self, x: Value, pointer: Value, align: int = 0) -> None:
        align = align or max(BITS[element(x.type)] // 8, 1)
        self.emit(f"store {x}, {pointer}, align {align}")

    def stream(self, x: Value, pointer: Value, size: int) -> None:
        """Store so many bytes past the caches, where a line of them begins at the
        address, or a part of one as large as what is stored.
        """
        align = min(size, LINE)
        place = self.define("i64", f"ptrtoint {pointer} to i64")
        low = self.and_(place, self.i64(align - 1))
        aligned = self.compare("eq", low, self.i64(0))
        with self.when(aligned):
            self.emit(f"store {x}, {pointer}, align {align}, !nontemporal !0")
        with self.when(self.xor(aligned, self.constant("i1", 1))):
            self.store(x, pointer)
        self.metadata = "\n!0 = !{i32 1}"

    def prefetch(self, pointer: Value) -> None:
        """Bring the line at an address into the caches; any address will do."""
        how = [Value(n, I32) for n in ("0", "3", "1")]  # to be read, kept, data
        self.call("llvm.prefetch.p0", "void", [pointer, *how])

    def masked_load(self, kind: str, pointer: Value, mask: Value | None) -> Value:
        """The lanes of a vector whose mask is true; 0 elsewhere, and not touched.
        Without a mask, all of them."""
        if mask is None:
            return self.load(kind, pointer)
        align = max(BITS[element(kind)] // 8, 1)
        zero = Value("zeroinitializer", kind)
        name = f"llvm.masked.load.{suffix(kind)}.p0"
        result = self._masked(name, kind, [pointer], align, [mask, zero])
        assert result is not None
        return result

    def masked_store(self, x: Value, pointer: Value, mask: Value | None) -> None:
        if mask is None:
            return self.store(x, pointer)
        align = max(BITS[element(x.type)] // 8, 1)
        name = f"llvm.masked.store.{suffix(x.type)}.p0"
        self._masked(name, "void", [x, pointer], align, [mask])

    def gather(self, kind: str, pointers: Value, mask: Value) -> Value:
        """One element from each pointer whose mask is true; 0 elsewhere."""
        align = max(BITS[element(kind)] // 8, 1)
        zero = Value("zeroinitializer", kind)
        name = f"llvm.masked.gather.{suffix(kind)}.{suffix(pointers.type)}"
        result = self._masked(name, kind, [pointers], align, [mask, zero])
        assert result is not None
        return result

    def scatter(self, x: Value, pointers: Value, mask: Value) -> None:
        """x stored through the pointers whose mask is true, lane after lane."""
        align = max(BITS[element(x.type)] // 8, 1)
        name = f"llvm.masked.scatter.{suffix(x.type)}.{suffix(pointers.type)}"
        self._masked(name, "void", [x, pointers], align, [mask])

    def _masked(
        self, name: str, kind: str, first: list[Value], align: int, rest: list[Value]
    ) -> Value | None:
        return self.call(name, kind, [*first, Value(str(align), I32), *rest])

    def table(self, name: str, entries: Sequence[float]) -> Value:
        """The address of numbers that are part of the text, in double precision."""
        every = ", ".join(str(self.constant(F64, entry)) for entry in entries)
        start = f"@{name} = internal unnamed_addr constant"
        self.declared[name] = f"{start} [{len(entries)} x {F64}] [{every}]"
        return Value(f"@{name}", PTR)

    # -- control -------------------------------------------------------------------

    def branch(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch_if(self, condition: Value, then: str, other: str) -> None:
        self.emit(f"br {condition}, label %{then}, label %{other}")

    @contextmanager
    def loop(
        self, start: Value, stop: Value, step: Value, carried: Sequence[Value] = ()
    ) -> Iterator[LoopBuilder]:
        """for index in range(start, stop, step), with values carried from turn to turn.

        Inside, `loop.values` are the carried values and `loop.next(...)` gives those of
        the next turn; after the block `loop.values` are the last ones. Addresses are
        opaque: LLVM spends a fifth of its time on other forms of them, none faster.
        """
        head, body, end = self.label("head"), self.label("body"), self.label("end")
        before = self.block
        self.branch(head)
        self.start(head)
        place = len(self.lines)
        index, *values = [self.define(x.type, "") for x in (start, *carried)]
        self.branch_if(self.compare("slt", index, stop), body, end)
        self.start(body)
        loop = LoopBuilder(index, values)
        yield loop
        following = [self.add(index, step), *loop.after]
        following = [self.opaque(x) if x.type in (I64, PTR) else x for x in following]
        last = self.block
        self.branch(head)
        rows = zip([index, *values], [start, *carried], following, strict=True)
        for k, (phi, first, then) in enumerate(rows, place):  # known only now
            incoming = f"[{first.name}, %{before}], [{then.name}, %{last}]"
            self.lines[k] = f"  {phi.name} = phi {phi.type} {incoming}"
        self.start(end)
        loop.values = values

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the block only where a scalar condition holds."""
        then, end = self.label("then"), self.label("end")
        self.branch_if(condition, then, end)
        self.start(then)
        yield
        self.branch(end)
        self.start(end)


_INTEGER = ["add", "sub", "mul", "sdiv", "udiv", "srem", "urem"]
_BITS = ["shl", "lshr", "ashr", "and", "or", "xor"]
_EITHER = {"plus": ("add", "fadd"), "times": ("mul", "fmul")}
_BINARY = frozenset([*_INTEGER, *_BITS, "fadd", "fsub", "fmul", "fdiv", "frem"])


def _is_float(kind: str) -> bool:
    return element(kind) in (F16, F32, F64)


def suffix(kind: str) -> str:
    """The type as intrinsic names spell it: v16f32, i64, v8p0."""
    base = {F16: "f16", F32: "f32", F64: "f64", PTR: "p0"}
    scalar = base.get(element(kind), element(kind))
    return f"v{lanes(kind)}{scalar}" if lanes(kind) else scalar


def _float(kind: str, value: float) -> str:
    """A float constant as LLVM reads it back exactly: by its bits."""
    if kind == F16:
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if kind == F32:
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
