"""Exponentials, logarithms, trigonometric and error functions, as generated code.

`FUNCTIONS` has for each op, by its name, a function of a builder and values that
appends straight-line code; `ULPS` how many units in the last place (of the float
nearest to the true value) its result may be off, for any arguments.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.engines.native.codegen.builder import F32, F64, Value
from treadle.engines.native.codegen.elementary.error import erf, erfc
from treadle.engines.native.codegen.elementary.exponential import exp, expm1
from treadle.engines.native.codegen.elementary.hyperbolic import (
    acosh,
    asinh,
    atanh,
    cosh,
    sinh,
    tanh,
)
from treadle.engines.native.codegen.elementary.inverse import acos, asin, atan, atan2
from treadle.engines.native.codegen.elementary.logarithm import log, log1p, log2, log10
from treadle.engines.native.codegen.elementary.power import pow
from treadle.engines.native.codegen.elementary.trigonometric import cos, sin, tan

# The op's name, its code, and its bounds for float32 and float64.
_ROWS: tuple[tuple[str, Callable[..., Value], float, float], ...] = (
    ("Exp", exp, 1.0, 1.0),
    ("Expm1", expm1, 2.0, 2.0),
    ("Log", log, 1.5, 1.5),
    ("Log1p", log1p, 2.0, 2.0),
    ("Log2", log2, 2.0, 1.5),
    ("Log10", log10, 1.5, 1.5),
    ("Sin", sin, 2.0, 1.0),
    ("Cos", cos, 2.0, 1.0),
    ("Tan", tan, 3.5, 2.5),
    ("Asin", asin, 2.5, 2.5),
    ("Acos", acos, 1.5, 1.5),
    ("Atan", atan, 1.5, 1.5),
    ("Sinh", sinh, 2.5, 3.0),
    ("Cosh", cosh, 2.0, 2.0),
    ("Tanh", tanh, 3.0, 3.0),
    ("Asinh", asinh, 2.5, 2.5),
    ("Acosh", acosh, 3.0, 2.5),
    ("Atanh", atanh, 3.0, 2.5),
    ("Atan2", atan2, 2.0, 2.0),
    ("Erf", erf, 2.0, 1.5),
    ("Erfc", erfc, 4.0, 4.0),
    ("Pow", pow, 1.0, 1.0),
)
FUNCTIONS: dict[str, Callable[..., Value]] = {row[0]: row[1] for row in _ROWS}
ULPS: dict[str, dict[str, float]] = {
    name: {F32: single, F64: double} for name, _, single, double in _ROWS
}
