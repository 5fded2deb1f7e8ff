"""Native code that moves rows: gathers them, and adds them to where they belong.

Each is a function of (arguments, first, last, worker), as steps of programs are.
"""

from __future__ import annotations

from functools import cache

from treadle.base.dtypes import DType, float32, float64
from treadle.engines.native.codegen.jit import compile_functions

GATHER_BYTES = 65_536  # that one part of a gathering step moves at least
ADD_GRAIN = 8_192  # elements that one part of an adding step adds at least
LANES = 16

# Arguments: where each row is, where the rows go, bytes of a row.
_GATHER = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @treadle_gather(ptr %arguments, i64 %first, i64 %last, i64 %worker) {
entry:
  %sources = load ptr, ptr %arguments, align 8
  %a1 = getelementptr i64, ptr %arguments, i64 1
  %target = load ptr, ptr %a1, align 8
  %a2 = getelementptr i64, ptr %arguments, i64 2
  %bytes = load i64, ptr %a2, align 8
  br label %loop
loop:
  %row = phi i64 [%first, %entry], [%row1, %body]
  %more = icmp slt i64 %row, %last
  br i1 %more, label %body, label %end
body:
  %place = getelementptr ptr, ptr %sources, i64 %row
  %from = load ptr, ptr %place, align 8
  %offset = mul i64 %row, %bytes
  %to = getelementptr i8, ptr %target, i64 %offset
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %row1 = add i64 %row, 1
  br label %loop
end:
  ret void
}
"""

# Arguments: source, target, bytes.
_COPY = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @treadle_copy(ptr %arguments, i64 %first, i64 %last, i64 %worker) {
  %from = load ptr, ptr %arguments, align 8
  %a1 = getelementptr i64, ptr %arguments, i64 1
  %to = load ptr, ptr %a1, align 8
  %a2 = getelementptr i64, ptr %arguments, i64 2
  %bytes = load i64, ptr %a2, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
}
"""

# Arguments: where each row belongs, the rows, rows, elements of a row. Work items are
# columns: who has some adds all their rows in order, whoever shares the work.
_ADD = """
define void @treadle_add_TYPE(ptr %arguments, i64 %first, i64 %last, i64 %worker) {
entry:
  %targets = load ptr, ptr %arguments, align 8
  %a1 = getelementptr i64, ptr %arguments, i64 1
  %source = load ptr, ptr %a1, align 8
  %a2 = getelementptr i64, ptr %arguments, i64 2
  %rows = load i64, ptr %a2, align 8
  %a3 = getelementptr i64, ptr %arguments, i64 3
  %width = load i64, ptr %a3, align 8
  %columns = sub i64 %last, %first
  %tail = and i64 %columns, LESS
  %even = sub i64 %last, %tail
  br label %rows_loop
rows_loop:
  %row = phi i64 [0, %entry], [%row1, %next]
  %more = icmp slt i64 %row, %rows
  br i1 %more, label %body, label %end
body:
  %place = getelementptr ptr, ptr %targets, i64 %row
  %to = load ptr, ptr %place, align 8
  %start = mul i64 %row, %width
  %from = getelementptr TYPE, ptr %source, i64 %start
  br label %vector
vector:
  %c = phi i64 [%first, %body], [%c1, %lanes]
  %inside = icmp slt i64 %c, %even
  br i1 %inside, label %lanes, label %single
lanes:
  %p = getelementptr TYPE, ptr %from, i64 %c
  %q = getelementptr TYPE, ptr %to, i64 %c
  %x = load <COUNT x TYPE>, ptr %p, align SIZE
  %y = load <COUNT x TYPE>, ptr %q, align SIZE
  %z = fadd <COUNT x TYPE> %y, %x
  store <COUNT x TYPE> %z, ptr %q, align SIZE
  %c1 = add i64 %c, COUNT
  br label %vector
single:
  %d = phi i64 [%c, %vector], [%d1, %one]
  %left = icmp slt i64 %d, %last
  br i1 %left, label %one, label %next
one:
  %p1 = getelementptr TYPE, ptr %from, i64 %d
  %q1 = getelementptr TYPE, ptr %to, i64 %d
  %x1 = load TYPE, ptr %p1, align SIZE
  %y1 = load TYPE, ptr %q1, align SIZE
  %z1 = fadd TYPE %y1, %x1
  store TYPE %z1, ptr %q1, align SIZE
  %d1 = add i64 %d, 1
  br label %single
next:
  %row1 = add i64 %row, 1
  br label %rows_loop
end:
  ret void
}
"""

_NAMES: dict[DType, tuple[str, int, int]] = {
    float32: ("float", 4, LANES),
    float64: ("double", 8, LANES // 2),
}


def adds(dtype: DType) -> bool:
    """Return True if rows of a dtype can be added up."""
    return dtype in _NAMES


@cache
def moves() -> dict[str, int]:
    """The functions by what they do: "gather", "copy", and "add" by dtype name."""
    texts = {"treadle_gather": _GATHER, "treadle_copy": _COPY}
    for name, size, count in _NAMES.values():
        text = _ADD.replace("LESS", str(count - 1)).replace("COUNT", str(count))
        text = text.replace("SIZE", str(size)).replace("TYPE", name)
        texts[f"treadle_add_{name}"] = text
    addresses = compile_functions(texts)
    functions = {
        "gather": addresses["treadle_gather"],
        "copy": addresses["treadle_copy"],
    }
    for dtype, (name, _, _) in _NAMES.items():
        functions[f"add {dtype.name}"] = addresses[f"treadle_add_{name}"]
    return functions
