"""Kernels in OpenCL C."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from treadle.engines.gpu.text import ElementPointer, TextBuilder
from treadle.engines.native.codegen.builder import (
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

    def integer(self, kind: str, value: int) -> str:
        return f"{value}L" if kind == I64 else str(value)

    def float_number(self, kind: str, value: float) -> str:
        end = "" if kind == F64 else "f"
        if not math.isfinite(value):
            name = "NAN" if math.isnan(value) else "INFINITY"
            return f"(({self.types[kind]}){'-' if value < 0 else ''}{name})"
        text = f"{value.hex()}{end}"
        return f"({text})" if text.startswith("-") else text

    def chosen(self, condition: Value, x: Value, y: Value) -> str:
        return f"{condition.name} ? {x.name} : {y.name}"

    def is_nan(self, x: Value) -> str:
        return f"isnan({x.name})"

    def frem(self, x: Value, y: Value) -> Value:
        return self.define(x.type, f"fmod({x.name}, {y.name})")

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        kind = arguments[0].type
        listed = ", ".join(f"({self.types[kind]}){a.name}" for a in arguments)
        return self.define(kind, f"{FUNCTIONS[name]}({listed})")

    def converted(self, how: str, x: Value, kind: str) -> str:
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

    def _typed_array(self, kind: str, pointer: ElementPointer) -> str:
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
        array = self._typed_array(kind, pointer)
        if kind == F16 and pointer.space == "buffer":
            return f"vload_half({place}, {array})"
        return f"{array}[{place}]"

    def store(self, x: Value, pointer: Value, align: int = 0) -> None:
        assert isinstance(pointer, ElementPointer)
        place = pointer.index.name if pointer.index else "0"
        array = self._typed_array(x.type, pointer)
        if x.type == F16 and pointer.space == "buffer":
            self.emit(f"vstore_half_rte({x.name}, {place}, {array});")
        else:
            self.emit(f"{array}[{place}] = {x.name};")

    def declare(self, space: str, name: str, kind: str, count: int) -> None:
        word = "__local " if space == "shared" else ""
        self.heads.append(f"  {word}{self.types[kind]} {name}[{count}];")

    def listed(self, name: str, entries: Sequence[float]) -> str:
        every = ", ".join(self.float_number(F64, x) for x in entries)
        return f"__constant double {name}[{len(entries)}] = {{{every}}};"

    # -- work items ------------------------------------------------------------------

    def launch_number(self, text: str, kind: str) -> str:
        if kind == I64:
            return text
        return f"as_double({text})" if kind == F64 else f"as_float((int){text})"

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
