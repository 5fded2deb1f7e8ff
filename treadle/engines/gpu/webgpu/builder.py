"""Kernels in WGSL."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from treadle.engines.gpu.text import ElementPointer, TextBuilder
from treadle.engines.gpu.webgpu import long
from treadle.engines.gpu.work import Work
from treadle.engines.native.codegen.builder import (
    BITS,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Value,
)

FUNCTIONS = {
    **{name: name for name in ("fma", "sqrt", "floor", "ceil", "trunc")},
    "fabs": "abs",
    "roundeven": "round",
    "smax": "max",
    "smin": "min",
}
LITERAL = re.compile(r"\(?(-?\d+)l?i\)?")
GIVEN = """@builtin(local_invocation_index) own_item: u32,
  @builtin(workgroup_id) own_group: vec3<u32>,
  @builtin(num_workgroups) all_groups: vec3<u32>"""


class WiderError(Exception):
    """A kernel needs integers of 64 bits."""


class WgslBuilder(TextBuilder):
    """One kernel in WGSL; integers are of 32 bits, those of 64 too unless it is `wide`.

    Narrower ones are kept with their sign in 32 bits, a 16-bit float is a float.
    """

    types: ClassVar[dict[str, str]] = {
        I1: "bool",
        **dict.fromkeys((I8, I16, I32), "i32"),
        I64: "i64",
        **dict.fromkeys((F16, F32), "f32"),
        F64: "f64",
    }

    def __init__(self, work: Work, wide: bool) -> None:
        super().__init__(work)
        self.wide = wide
        self.words = self.types if wide else {**self.types, I64: "i32"}

    def text(self) -> str:
        """The module, with the entry point `main`."""
        lines = []
        count = len(self.work.buffers)
        zero = f"  let zero: u32 = u32(n[{len(self.work.slots)}]);"
        for k in range(count):
            kind = "atomic<u32>" if self._is_atomic(k) else "u32"
            lines.append(
                f"@group(0) @binding({k}) var<storage, read_write> b{k}: array<{kind}>;"
            )
        number = self.words[I64]
        place = f"@group(0) @binding({count})"
        lines.append(f"{place} var<storage, read> n: array<{number}>;")
        head = f"@compute @workgroup_size({self.work.items})\nfn main({GIVEN}) {{"
        return "\n".join(
            [*lines, *self.globals, head, zero, *self.heads, *self.lines, "}\n"]
        )

    def _is_atomic(self, k: int) -> bool:
        """Return True if parts of words of a buffer are stored."""
        buffer = self.work.buffers[k]
        return buffer.written and buffer.dtype.itemsize < 4

    # -- numbers -----------------------------------------------------------------------

    def declaration(self, name: str, kind: str, value: str, fixed: bool) -> str:
        return f"{'let' if fixed else 'var'} {name}: {self.words[kind]} = {value};"

    def _is_long(self, kind: str) -> bool:
        return kind == I64 and self.wide

    def unsigned(self, x: Value) -> str:
        if x.type in (I8, I16):
            return f"(bitcast<u32>({x.name}) & {(1 << BITS[x.type]) - 1}u)"
        return f"bitcast<{'u64' if self._is_long(x.type) else 'u32'}>({x.name})"

    def signed(self, kind: str, text: str) -> str:
        if self._is_long(kind):
            return f"bitcast<i64>({text})"
        whole = f"bitcast<i32>({text})"
        if kind in (I8, I16):
            return self._short(kind, whole)
        return whole

    def _short(self, kind: str, text: str) -> str:
        bits = 32 - BITS[kind]
        return f"(({text}) << {bits}u) >> {bits}u"

    def width(self, kind: str) -> int:
        return 64 if self._is_long(kind) else min(BITS[kind], 32)

    def integer(self, kind: str, value: int) -> str:
        return f"{value}{'li' if self._is_long(kind) else 'i'}"

    def float_number(self, kind: str, value: float) -> str:
        rounded: Any = np.float64(value)
        if kind != F64:
            with np.errstate(all="ignore"):
                rounded = np.float32(value)
        if not math.isfinite(rounded):  # no constant may be
            bits = int(np.float32(rounded).view(np.uint32))
            word = f"bitcast<f32>({bits}u | zero)"
            return f"f64({word})" if kind == F64 else word
        if kind != F64 and 0 < abs(rounded) < 2.0**-126:
            return f"bitcast<f32>({int(rounded.view(np.uint32))}u)"
        head, _, power = float(rounded).hex().partition("p")
        text = f"{head.rstrip('0') if '.' in head else head}"
        text = f"{text}0p{power}" if text.endswith((".", "x")) else f"{text}p{power}"
        text += "lf" if kind == F64 else "f"
        return f"({text})" if text.startswith("-") else text

    def binary(self, op: str, x: Value, y: Value) -> Value:
        result = super().binary(op, x, y)
        return self._rounded(result) if x.type in (F32, F64) else result

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self._rounded(super().fma(x, y, z))

    def _rounded(self, x: Value) -> Value:
        """A result that no compiler joins with others: WGSL lets it reorder sums, and
        none knows that the number which is mixed in is 0."""
        if x.type == F64:
            return self.define(F64, f"bitcast<f64>(bitcast<u64>({x.name}) ^ u64(zero))")
        return self.define(F32, f"bitcast<f32>(bitcast<u32>({x.name}) ^ zero)")

    def compare(self, how: str, x: Value, y: Value) -> Value:
        if self._is_long(x.type):
            return long.compared(self, how, x, y)
        return super().compare(how, x, y)

    def _compared(self, how: str, x: Value, y: Value) -> str:
        if x.type != F64 or how == "uno":
            return super()._compared(how, x, y)
        ordered = long.floats_compared(self, how, x, y).name
        numbers = f"!({self.is_nan(x)} || {self.is_nan(y)})"
        return (
            f"{ordered} || !{numbers}" if how[0] == "u" else f"{ordered} && {numbers}"
        )

    def chosen(self, condition: Value, x: Value, y: Value) -> str:
        return f"select({y.name}, {x.name}, {condition.name})"

    def is_nan(self, x: Value) -> str:
        if x.type == F64:
            return long.is_nan(self, x)
        return f"((bitcast<u32>({x.name}) & 0x7fffffffu) > 0x7f800000u)"

    def shift(self, y: Value) -> str:
        last = 63 if self._is_long(y.type) else 31
        return f"(u32({self.unsigned(y)}) & {last}u)"

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].type
        names = [a.name for a in arguments]
        if name == "copysign":
            word, sign = "u32", "0x80000000u"
            if kind == F64:
                word, sign = "u64", "0x8000000000000000lu"
            x, y = (f"bitcast<{word}>({a})" for a in names)
            rest = f"({x} & ~{sign}) | ({y} & {sign})"
            return self.define(kind, f"bitcast<{self.words[kind]}>({rest})")
        return self.define(kind, f"{FUNCTIONS[name]}({', '.join(names)})")

    def convert(self, how: str, x: Value, kind: str) -> Value:
        literal = LITERAL.fullmatch(x.name)
        if literal and how in ("trunc", "sext", "zext"):
            return self.constant(kind, int(literal[1]))
        return super().convert(how, x, kind)

    def converted(self, how: str, x: Value, kind: str) -> str:
        target = self.words[kind]
        if how == "bitcast":
            if F64 in (x.type, kind) and not self.wide:
                raise WiderError
            return f"bitcast<{target}>({x.name})"
        if how == "trunc" and kind == I1:
            return f"({x.name} & {self.number(x.type, 1)}) != {self.number(x.type, 0)}"
        if how == "fptrunc" and kind == F16:
            return f"unpack2x16float(pack2x16float(vec2<f32>(f32({x.name}), 0f))).x"
        if x.type == I1:
            one = self.number(kind, -1 if how == "sext" else 1)
            return f"select({self.number(kind, 0)}, {one}, {x.name})"
        if how == "zext":
            unsigned = self.unsigned(x)
            if self._is_long(kind):
                return f"bitcast<i64>(u64({unsigned}))"
            return f"bitcast<i32>({unsigned})"
        if how == "trunc" and kind in (I8, I16):
            return self._short(kind, f"i32({x.name})")
        if how == "uitofp":
            return f"{target}({self.unsigned(x)})"
        if how == "fptoui":
            word = "u64" if self._is_long(kind) else "u32"
            return self.signed(kind, f"{word}({x.name})")
        return f"{target}({x.name})"

    def counted(self, start: Value, stop: Value, step: Value) -> Value:
        """An index of 32 bits, where integers are of 64 (see `compare`)."""
        if not self._is_long(start.type):
            return super().counted(start, stop, step)
        short = [self.convert("trunc", x, I32) for x in (start, stop, step)]
        return self.convert("sext", super().counted(*short), I64)

    # -- memory ------------------------------------------------------------------------

    def _at(self, kind: str, pointer: ElementPointer, place: str) -> str:
        """The place of an element in a buffer, which begins some bytes behind where it
        is bound: that is at multiples of an alignment alone."""
        size = max(BITS[kind] // 8, 1)
        name = f"{pointer.name}_{size}"

        def declared() -> str:
            slot = len(self.work.slots) + 1 + int(pointer.name[1:])
            self.heads.append(f"  let {name}: u32 = u32(n[{slot}]) / {size}u;")
            return name

        return f"({_position(place)} + {self.once(name, declared)})"

    def element(self, kind: str, pointer: ElementPointer, place: str) -> str:
        if pointer.space != "buffer":
            return f"{pointer.name}[{_position(place)}]"
        at, bits = self._at(kind, pointer, place), BITS[kind]
        if bits == 64:
            low, high = (f"u64({pointer.name}[2u * {at} + {k}u])" for k in (0, 1))
            return f"bitcast<{self._long(kind)}>({low} | ({high} << 32u))"
        if bits == 32:
            return f"bitcast<{self.words[kind]}>({self._word(pointer, at)})"
        many = 32 // bits
        word = self._word(pointer, f"{at} / {many}u")
        moved = f"({word} >> ({bits}u * ({at} % {many}u)))"
        if kind == F16:
            return f"unpack2x16float({moved}).x"
        return self._short(kind, f"bitcast<i32>({moved})")

    def _long(self, kind: str) -> str:
        """The name of a type of 64 bits, which are two words in memory."""
        if not self.wide:
            raise WiderError
        return self.words[kind]

    def _word(self, pointer: ElementPointer, at: str) -> str:
        name = f"{pointer.name}[{at}]"
        return (
            f"atomicLoad(&{name})" if self._is_atomic(int(pointer.name[1:])) else name
        )

    def store(self, x: Value, pointer: Value, align: int = 0) -> None:
        assert isinstance(pointer, ElementPointer)
        place = pointer.index.name if pointer.index else "0"
        if pointer.space != "buffer":
            self.emit(f"{pointer.name}[{_position(place)}] = {x.name};")
            return
        at, bits = self._at(x.type, pointer, place), BITS[x.type]
        if bits == 64:
            self._long(x.type)
            whole = f"bitcast<u64>({x.name})"
            self.emit(f"{pointer.name}[2u * {at}] = u32({whole} & 0xfffffffflu);")
            self.emit(f"{pointer.name}[2u * {at} + 1u] = u32({whole} >> 32u);")
            return
        if bits == 32:
            self.emit(f"{pointer.name}[{at}] = bitcast<u32>({x.name});")
        else:
            self._store_part(x, pointer.name, at, bits)

    def _store_part(self, x: Value, name: str, at: str, bits: int) -> None:
        """Some bits of a word, which others may be storing to."""
        mask, many = (1 << bits) - 1, 32 // bits
        value = f"bitcast<u32>({x.name})"
        if x.type == F16:
            value = f"pack2x16float(vec2<f32>({x.name}, 0f))"
        moved = self.fresh("w")
        self.emit(f"let {moved} = {bits}u * ({at} % {many}u);")
        place = f"&{name}[{at} / {many}u]"
        self.emit(f"atomicAnd({place}, ~({mask}u << {moved}));")
        self.emit(f"atomicOr({place}, ({value} & {mask}u) << {moved});")

    def declare(self, space: str, name: str, kind: str, count: int) -> None:
        type_ = f"array<{self.words[kind]}, {count}>;"
        if space == "shared":
            self.globals.append(f"var<workgroup> {name}: {type_}")
        else:
            self.heads.append(f"  var {name}: {type_}")

    def listed(self, name: str, entries: Sequence[float]) -> str:
        every = ", ".join(self.float_number(F64, x) for x in entries)
        type_ = f"array<f64, {len(entries)}>"
        return f"var<private> {name}: {type_} = {type_}({every});"

    # -- work items --------------------------------------------------------------------

    def launch_number(self, text: str, kind: str) -> str:
        if kind == F64 and not self.wide:
            raise WiderError
        if kind == I64:
            return text
        word = text if kind == F64 else f"i32({text})"
        return f"bitcast<{self.words[kind]}>({word})"

    def group(self) -> Value:
        place = "own_group.x + own_group.y * all_groups.x"
        return self.define(I64, f"{self.words[I64]}({place})")

    def item(self) -> Value:
        return self.define(I64, f"{self.words[I64]}(own_item)")

    def barrier(self) -> None:
        self.emit("storageBarrier();")
        self.emit("workgroupBarrier();")

    def only(self, condition: Value) -> None:
        self.emit(f"if (!{condition.name}) {{ return; }}")


def _position(place: str) -> str:
    """An index as WGSL takes it; a literal is one already."""
    number = place.rstrip("li")
    return f"{number}u" if number.isdecimal() else f"u32({place})"
