"""NumPy's universal functions on tensors: `np.exp(t)` is `td.exp(t)`.

What has no op here is a function of the host, of elements and without a gradient.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.errors import CallError
from treadle.base.types import Type, broadcast_shapes
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float
from treadle.ops.host import py_function

# The public functions that compute what NumPy's do, where names differ.
OTHERWISE = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "fabs": "abs",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
}
SAME = (
    "add subtract multiply divide floor_divide remainder negative positive sign "
    "maximum minimum exp expm1 log log1p log2 log10 logaddexp sqrt square "
    "reciprocal sin cos tan sinh cosh tanh hypot floor ceil trunc rint "
    "isnan isinf isfinite signbit copysign nextafter matmul vecdot "
    "equal not_equal less less_equal greater greater_equal "
    "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor"
)
NUMPY = {**{name: name for name in SAME.split()}, **OTHERWISE}
SCIPY = {
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "psi": "digamma",
}
REDUCE = {
    "add": "sum",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}
ACCUMULATE = {
    "add": "cumulative_sum",
    "maximum": "cumulative_max",
    "multiply": "cumulative_prod",
}


def public(name: str) -> Any:
    """A public function of the package, whichever layer it is of; None if none is."""
    return getattr(functions.array_namespace(), name, None)


def _of_numpy(ufunc: Any) -> bool:
    known: Any = getattr(np, ufunc.__name__, None)
    return known is ufunc


def counterpart(ufunc: Any) -> Any:
    """The public function that computes what a ufunc does, or None."""
    name = ufunc.__name__
    if _of_numpy(ufunc):
        return public(NUMPY[name]) if name in NUMPY else None
    special = sys.modules.get("scipy.special")
    if special is not None and getattr(special, name, None) is ufunc:
        return public(SCIPY[name]) if name in SCIPY else None
    return None


@provide
def array_ufunc(
    ufunc: Any, method: str, xs: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """The rule of `Tensor.__array_ufunc__`: the op, or an error that names the call."""
    name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
    if options.get("out") is not None:
        raise CallError(
            "writes to no array what it makes of tensors, which may be yet to come",
            hint="without out= (and with x = x + y for x += y) it makes a tensor; "
            "x[...] = y.numpy() writes its value",
        ).located(name)
    chosen = {k: v for k, v in options.items() if v is not None}
    if method == "__call__":
        dtype = chosen.pop("dtype", None)
        if chosen:
            raise _unknown(chosen).located(name)
        if dtype is not None:
            xs = [functions.astype(x, dtype) for x in xs]
        f = counterpart(ufunc)
        return f(*xs) if f is not None else _on_host(ufunc, xs)
    if method == "outer" and not chosen and len(xs) == 2:
        x, y = map(as_tensor, xs)
        wide = (*x.type.shape, *[1] * y.type.ndim)
        return array_ufunc(ufunc, "__call__", (functions.reshape(x, wide), y), {})
    table = {"reduce": REDUCE, "accumulate": ACCUMULATE}.get(method, {})
    if _of_numpy(ufunc) and ufunc.__name__ in table:
        x, *axis = xs
        chosen.setdefault("axis", axis[0] if axis else 0)
        known = {"axis", "dtype", "keepdims"} if method == "reduce" else {"axis"}
        if len(axis) > 1 or not set(chosen) <= known:
            raise _unknown(chosen).located(name)
        return public(table[ufunc.__name__])(x, **chosen)
    raise CallError(
        "has no counterpart for tensors", hint=f"{name}(x.numpy()) takes the values"
    ).located(name)


def _unknown(options: Mapping[str, Any]) -> CallError:
    return CallError(
        f"takes no {', '.join(f'{k}=' for k in options)} for tensors",
        hint="x.numpy() has the value, on which NumPy takes it",
    )


def _on_host(ufunc: Any, xs: Sequence[Any]) -> Tensor:
    """A ufunc of which no op is known, as a function of the host."""
    if ufunc.nout != 1 or ufunc.signature is not None:
        raise CallError(
            "has several results, or works on more than elements",
            hint="td.py_function makes a function of tensors of it",
        ).located(f"np.{ufunc.__name__}")
    nodes = [as_float(x) if isinstance(x, (int, float)) else as_tensor(x) for x in xs]

    def declared(*types: Type) -> tuple[tuple[int, ...], Any]:
        parts = [np.empty(0, t.dtype) for t in types]
        shape = broadcast_shapes(*[t.shape for t in types])
        return shape, ufunc(*parts).dtype

    f = py_function(ufunc, declared, pure=True, label=ufunc.__name__)
    return f(*nodes)
