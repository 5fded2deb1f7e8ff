"""Kernels in OpenCL C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from treadle.engines.gpu.text import FLOATS, ElementPointer, TextBuilder
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
    PTR,
    Value,
)

WORDS = {I8: "char", I16: "short", I32: "int", I64: "long", F32: "float", F64: "double"}
HEAD = """#pragma OPENCL FP_CONTRACT OFF
float narrowed(float x) {
  ushort bits;
  vstore_half_rte(x, 0, (half*)&bits);
  return vload_half(0, (const half*)&bits);
}
"""
FUNCTIONS = {
    **{name: name for name in ("fma", "fabs", "sqrt", "floor", "ceil", "trunc")},
    "copysign": "copysign",
    "roundeven": "rint",
    "smax": "max",
    "smin": "min",
}


class OpenClBuilder(TextBuilder):
    """One kernel in OpenCL C; a 16-bit float is a float, rounded, in registers."""

    types: ClassVar[dict[str, str]] = {**WORDS, I1: "bool", F16: "float"}

    def kernel(self, name: str) -> str:
        """The kernel under a name; tables that it reads are `globals` of a program."""
        count = len(self.work.buffers)
        parameters = [f"__global char* m{k}, long o{k}" for k in range(count)]
        parameters.append("__global const long* n")
        body = "\n".join([*self.heads, *self.lines])
        attribute = f"__attribute__((reqd_work_group_size({self.work.items}, 1, 1)))"
        head = f"void {name}({', '.join(parameters)})"
        return f"__kernel {attribute}\n{head} {{\n{body}\n}}\n"

    def declaration(self, name: str, kind: str, value: str, fixed: bool) -> str:
        return f"{'const ' if fixed else ''}{self.types[kind]} {name} = {value};"

    def unsigned(self, x: Value) -> str:
        return f"(u{self.types[x.type]}){x.name}"

    def signed(self, kind: str, text: str) -> str:
        return f"({self.types[kind]})({text})"

    def number(self, kind: str, value: Any) -> str:
        if kind == I1:
            return "true" if value else "false"
        if kind in FLOATS:
            return _float(kind, float(value))
        number = int(value)
        low = -(1 << BITS[kind] - 1)
        number = (number - low) % (-2 * low) + low  # unsigned ones by their bits
        if kind == I64:
            return f"({number + 1}L - 1)" if number == low else _signed(f"{number}L")
        return f"({number + 1} - 1)" if number == low else _signed(str(number))

    def i64(self, value: int) -> Value:
        small = -(1 << 31) < value < 1 << 31
        return Value(_signed(str(value)) if small else self.number(I64, value), I64)

    def chosen(self, condition: Value, x: Value, y: Value) -> str:
        return f"{condition.name} ? {x.name} : {y.name}"

    def is_nan(self, x: Value) -> str:
        return f"isnan({x.name})"

    def float_remainder(self, x: Value, y: Value) -> str:
        return f"fmod({x.name}, {y.name})"

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].type
        listed = ", ".join(f"({self.types[kind]}){a.name}" for a in arguments)
        return self.define(kind, f"{FUNCTIONS[name]}({listed})")

    def convert(self, how: str, x: Value, kind: str) -> Value:
        if kind == x.type:
            return x
        return self.define(kind, self._converted(how, x, kind))

    def _converted(self, how: str, x: Value, kind: str) -> str:
        target = self.types[kind]
        if how == "bitcast":
            return f"as_{target}({x.name})"
        if how == "trunc" and kind == I1:
            return f"({x.name} & 1) != 0"
        if how == "fptrunc" and kind == F16:
            return f"narrowed((float){x.name})"
        if x.type == I1:
            return f"{x.name} ? {'-1' if how == 'sext' else '1'} : 0"
        if how in ("zext", "uitofp"):
            return f"({target})(u{self.types[x.type]}){x.name}"
        if how == "fptoui":
            return f"({target})(u{target}){x.name}"
        return f"({target}){x.name}"

    # -- memory ----------------------------------------------------------------------

    def _array(self, kind: str, pointer: ElementPointer) -> str:
        """The name of an array; a buffer has one for each kind that is read of it."""
        if pointer.space != "buffer":
            return pointer.name
        word = "half" if kind == F16 else WORDS[kind]
        name, number = f"{pointer.name}_{word}", pointer.name[1:]

        def declared() -> str:
            start = f"(__global {word}*)(m{number} + o{number})"
            self.heads.append(f"  __global {word}* {name} = {start};")
            return name

        return self.once(name, declared)

    def element(self, kind: str, pointer: ElementPointer, place: str) -> str:
        array = self._array(kind, pointer)
        if kind == F16 and pointer.space == "buffer":
            return f"vload_half({place}, {array})"
        return f"{array}[{place}]"

    def store(self, x: Value, pointer: Value, align: int = 0) -> None:
        assert isinstance(pointer, ElementPointer)
        place = pointer.index.name if pointer.index else "0"
        array = self._array(x.type, pointer)
        if x.type == F16 and pointer.space == "buffer":
            self.emit(f"vstore_half_rte({x.name}, {place}, {array});")
        else:
            self.emit(f"{array}[{place}] = {x.name};")

    def shared(self, kind: str, count: int) -> Value:
        name = self.fresh("s")
        self.heads.append(f"  __local {self.types[kind]} {name}[{count}];")
        return ElementPointer(name, PTR, "shared")

    def private(self, kind: str, count: int = 1) -> Value:
        name = self.fresh("p")
        self.heads.append(f"  {self.types[kind]} {name}[{count}];")
        return ElementPointer(name, PTR, "private")

    def listed(self, name: str, entries: Sequence[float]) -> str:
        every = ", ".join(_float(F64, x) for x in entries)
        return f"__constant double {name}[{len(entries)}] = {{{every}}};"

    # -- work items ------------------------------------------------------------------

    def slot(self, k: int, kind: str) -> Value:
        def declared() -> Value:
            text = {I64: f"n[{k}]", F64: f"as_double(n[{k}])"}.get(
                kind, f"as_float((int)n[{k}])"
            )
            name = f"n{k}"
            self.heads.append("  " + self.declaration(name, kind, text, fixed=True))
            return Value(name, kind)

        return self.once((k, kind), declared)

    def group(self) -> Value:
        return self.define(I64, "(long)get_group_id(0)")

    def item(self) -> Value:
        return self.define(I64, "(long)get_local_id(0)")

    def barrier(self) -> None:
        self.emit("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")


def program_of(builders: Sequence[OpenClBuilder]) -> str:
    """The program of kernels, which it calls kernel_0, kernel_1 and so on."""
    tables = dict.fromkeys(table for b in builders for table in b.globals)
    kernels = [b.kernel(f"kernel_{k}") for k, b in enumerate(builders)]
    return "\n".join([HEAD, *tables, *kernels])


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _float(kind: str, value: float) -> str:
    end = "" if kind == F64 else "f"
    if math.isnan(value):
        return f"(({WORDS.get(kind, 'float')})NAN)"
    if math.isinf(value):
        return f"(({WORDS.get(kind, 'float')}){'-' if value < 0 else ''}INFINITY)"
    return _signed(f"{value.hex()}{end}")
