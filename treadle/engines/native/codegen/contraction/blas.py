"""Plain products by OpenBLAS, where it is installed and `blas_is_faster` says so.

The kernel calls cblas_?gemm on fixed blocks of C, one a work item, on the calling
thread: the results do not depend on the number of threads, as with generated tiles.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path

from treadle.base.caches import cached
from treadle.engines.native.codegen.builder import Builder, Value
from treadle.engines.native.codegen.contraction.text import FunctionText, join, least
from treadle.engines.native.codegen.texts import lasting

BLAS_FIELDS = (
    *("function", "m", "n", "k", "rows", "columns", "blocks_m", "blocks_n"),
    *("batch_a", "row_a", "lead_a", "transposed_a"),
    *("batch_b", "column_b", "lead_b", "transposed_b", "batch_c", "lead_c"),
)
_ROW_MAJOR = 101
# Least m, n, k from which OpenBLAS is used, by dtype. None is known: on the machines
# measured the generated tiles are between 0.89 and 8 times as fast; see README.md.
_FASTER: dict[str, tuple[tuple[int, int, int], ...]] = {"float": (), "double": ()}


def blas_is_faster(dtype: str, m: int, n: int, k: int) -> bool:
    """Whether a product of these sizes goes to OpenBLAS."""
    return any(m >= x and n >= y and k >= z for x, y, z in _FASTER[dtype])


@cached(128)
def blas_address(dtype: str) -> int:
    """The address of cblas_sgemm or cblas_dgemm of 64-bit sizes; 0 without OpenBLAS."""
    spec = find_spec("scipy_openblas64")  # optional, and found without being imported
    if spec is None or spec.origin is None:
        return 0
    word = "s" if dtype == "float" else "d"
    place = Path(spec.origin).parent / "lib"
    for path in sorted(place.glob("libscipy_openblas64_*")):
        try:
            library = ctypes.CDLL(str(path))
            library.scipy_openblas_set_num_threads64_(1)
            gemm = getattr(library, f"scipy_cblas_{word}gemm64_")
        except (OSError, AttributeError):
            continue
        return ctypes.cast(gemm, ctypes.c_void_p).value or 0
    return 0


@lasting
def blas_kernel(dtype: str, accumulate: bool) -> FunctionText:
    """Blocks of C by OpenBLAS: args = A, B, C, scratch memory, then BLAS_FIELDS.

    The address of the function is an argument: code on disk must not hold one.
    """
    names = [("begin", "i64"), ("end", "i64"), ("worker", "i64")]
    b = Builder("NAME", [("args", "ptr"), *names])
    g: dict[str, Value] = {}
    for i, name in enumerate(["A", "B", "C", "scratch memory", *BLAS_FIELDS]):
        at = b.offset(b.arguments["args"], b.i64(i), "i64")
        g[name] = b.load("ptr" if i < 4 or name == "function" else "i64", at, 8)
    one = b.constant(dtype, 1)
    beta = b.constant(dtype, 1 if accumulate else 0)
    with b.loop(b.arguments["begin"], b.arguments["end"], b.i64(1)) as items:
        column = b.mul(b.srem(items.index, g["blocks_n"]), g["columns"])
        rest = b.sdiv(items.index, g["blocks_n"])
        row = b.mul(b.srem(rest, g["blocks_m"]), g["rows"])
        batch = b.sdiv(rest, g["blocks_m"])
        left = b.add(b.mul(batch, g["batch_a"]), b.mul(row, g["row_a"]))
        right = b.add(b.mul(batch, g["batch_b"]), b.mul(column, g["column_b"]))
        result = b.add(b.mul(batch, g["batch_c"]), b.mul(row, g["lead_c"]))
        order = Value(str(_ROW_MAJOR), "i32")
        kinds = [b.convert("trunc", g[f"transposed_{x}"], "i32") for x in "ab"]
        sizes = [
            least(b, g["rows"], b.sub(g["m"], row)),
            least(b, g["columns"], b.sub(g["n"], column)),
            g["k"],
        ]
        arguments = [
            *(order, *kinds, *sizes, one),
            *(b.offset(g["A"], left, dtype), g["lead_a"]),
            *(b.offset(g["B"], right, dtype), g["lead_b"], beta),
            *(b.offset(g["C"], b.add(result, column), dtype), g["lead_c"]),
        ]
        b.emit(f"call void {g['function'].name}({', '.join(map(str, arguments))})")
    b.ret()
    return join("blas", [b])


def blas_fields(
    sizes: tuple[int, int, int],
    a: tuple[int, int, int],
    b: tuple[int, int, int],
    c: tuple[int, int, int],
    address: int,
) -> dict[str, int] | None:
    """The integers of the kernel; None where strides are not those of BLAS.

    Strides are in elements: a by batch, row, k; b by batch, k, column; c by batch,
    row, column.
    """
    m, n, k = sizes
    flip_a, flip_b = a[2] != 1, b[2] != 1
    lead_a, lead_b = (a[2] if flip_a else a[1]), (b[2] if flip_b else b[1])
    unit = (a[1] if flip_a else a[2]) == (b[1] if flip_b else b[2]) == c[2] == 1
    wide = lead_a >= (m if flip_a else k) and lead_b >= (k if flip_b else n)
    if not (unit and wide and c[1] >= n and min(sizes) > 0 and address):
        return None
    rows, columns = min(m, 512), min(n, 512)
    return {
        "function": address,
        "m": m,
        "n": n,
        "k": k,
        "rows": rows,
        "columns": columns,
        "blocks_m": -(-m // rows),
        "blocks_n": -(-n // columns),
        "batch_a": a[0],
        "row_a": a[1],
        "lead_a": lead_a,
        "batch_b": b[0],
        "column_b": b[2],
        "lead_b": lead_b,
        "transposed_a": 112 if flip_a else 111,
        "transposed_b": 112 if flip_b else 111,
        "batch_c": c[0],
        "lead_c": c[1],
    }
