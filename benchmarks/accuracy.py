"""`python -m benchmarks.accuracy [NAME ...] [--stride N]`: generated functions' errors.

Each function of one argument is computed for all 2**32 float32 and compared with a
float64 reference; its greatest error is printed in units in the last place (ulps) of
the float32 nearest to the true value, with the bound it declares. An infinite error
is a NaN, an infinity or a sign of zero that should not be, or should.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.engines.native.codegen.builder import F32, F64, I64, PTR, Builder, vector
from treadle.engines.native.codegen.elementary import FUNCTIONS, ULPS
from treadle.engines.native.codegen.jit import compile_functions

__all__ = ["DTYPES", "REFERENCES", "Worst", "errors", "over_arrays", "source", "sweep"]

Array = np.ndarray[Any, Any]
DTYPES: dict[str, Any] = {F32: np.float32, F64: np.float64}
REFERENCES: dict[str, Callable[..., Array]] = {
    "Exp": np.exp,
    "Expm1": np.expm1,
    "Log": np.log,
    "Log1p": np.log1p,
    "Log2": np.log2,
    "Log10": np.log10,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Atan2": np.arctan2,
    "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    "Erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "Pow": np.power,
}
TWO = ("Atan2", "Pow")  # operands
CHUNK = 1 << 22


def source(op: str, kind: str, lanes: int) -> tuple[str, str]:
    """Name and text of a loop that applies the function to whole arrays."""
    name = f"{op}_{kind}_{lanes}"
    inputs = ["x", "y"][: 1 + (op in TWO)]
    pointers = [(n, PTR) for n in [*inputs, "result"]]
    b = Builder(name, [*pointers, ("count", I64)])
    whole, step = vector(kind, lanes), b.i64(max(lanes, 1))
    with b.loop(b.i64(0), b.arguments["count"], step) as loop:
        given = [
            b.load(whole, b.offset(b.arguments[n], loop.index, kind)) for n in inputs
        ]
        found = FUNCTIONS[op](b, *given)
        b.store(found, b.offset(b.arguments["result"], loop.index, kind))
    b.ret()
    return name, b.text()


def over_arrays(op: str, kind: str, lanes: int) -> Callable[..., Array]:
    """The generated function on arrays of one length, `lanes` elements at a time."""
    name, text = source(op, kind, lanes)
    address = compile_functions({name: text})[name]
    count = 2 + (op in TWO)
    types = [ctypes.c_void_p] * count + [ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *types)(address)

    def run(*arrays: Array) -> Array:
        size = arrays[0].size
        padded = -(-size // max(lanes, 1)) * max(lanes, 1)
        given = [np.ones(padded, DTYPES[kind]) for _ in arrays]
        for own, array in zip(given, arrays, strict=True):
            own[:size] = array
        result = np.empty(padded, DTYPES[kind])
        function(*(a.ctypes.data for a in [*given, result]), padded)
        return result[:size]

    run.__dict__["address"] = address  # the code lives as long as this
    return run


def errors(got: Array, want: Array) -> Array:
    """Errors in ulps of `got`; `want` are the true values in a wider type."""
    with np.errstate(all="ignore"):
        near = want.astype(got.dtype)
        error = np.abs(got - want) / np.spacing(np.abs(near)).astype(want.dtype)
        exact = (got == near) & ((near != 0) | (np.signbit(got) == np.signbit(near)))
        exact |= np.isnan(got) & np.isnan(near)
        # A zero for a number too small for the type has its sign.
        exact &= np.isfinite(error) == np.isfinite(near)
        wrong = ~np.isfinite(got) | ~np.isfinite(near)
        wrong |= (want == 0) | ((got == 0) & (np.signbit(got) != np.signbit(want)))
    return np.asarray(np.where(wrong, np.where(exact, 0.0, np.inf), error), float)


@dataclass
class Worst:
    """The greatest error, where it is, and what was got there."""

    error: float = -1.0
    x: float = 0.0
    got: float = 0.0
    want: float = 0.0


def sweep(op: str, stride: int, lanes: int = 64) -> Worst:
    """The greatest error over every `stride`-th float32, by its bits."""
    function, worst = over_arrays(op, F32, lanes), Worst()
    for start in range(0, 1 << 32, CHUNK * stride):
        stop = min(start + CHUNK * stride, 1 << 32)
        bits = np.arange(start, stop, stride, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        with np.errstate(all="ignore"):
            want = REFERENCES[op](x.astype(np.float64))
        got = function(x)
        error = errors(got, want)
        k = int(np.argmax(error))
        if error[k] > worst.error:
            worst = Worst(*(float(a[k]) for a in (error, x, got, want)))
    return worst


def main() -> int:
    """Print a line for each function; 1 where one exceeds its bound."""
    names = [name for name in FUNCTIONS if name not in TWO]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--stride", type=int, default=1, help="every N-th float32 only")
    given = parser.parse_args()
    unknown = sorted({*given.names} - {*names})
    if unknown:
        parser.error(f"no such function: {', '.join(unknown)}")
    failed = 0
    for name in given.names or names:
        w, bound = sweep(name, given.stride), ULPS[name][F32]
        line = f"{name:6} {w.error:6.3f} ulps of {bound}, at {w.x!r}: {w.got!r}"
        print(f"{line}, not {w.want!r}", flush=True)
        failed |= w.error > bound
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
