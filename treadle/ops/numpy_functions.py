"""NumPy's functions on tensors: `np.mean(t)` is `td.mean(t)`, a node of the graph.

A table tells, for each, the public function and how arguments are handed on. What is
not in it is refused: its values would leave the graph where nobody sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.caches import cached
from treadle.base.errors import CallError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.ufuncs import public

__all__: list[str] = []

# NumPy's parameters in their order, those before "/" handed on by position; "a=b" has
# another name here, "-a" is refused unless it is None, "~a" does not matter.
_SAME = {  # functions that have one name in both, by these
    "x / axis -out keepdims -where": "all any",
    "x / -deg": "angle",
    "x / axis -out keepdims": "argmax argmin",
    "x / axis ~kind -order stable": "argsort sort",
    "x dtype / copy device": "astype",
    "x /": "atleast_1d atleast_2d atleast_3d imag matrix_transpose nonzero real "
    "unique_all unique_counts unique_inverse unique_values linalg.det linalg.eig "
    "linalg.eigvals linalg.inv linalg.slogdet linalg.svdvals",
    "*": "broadcast_arrays einsum meshgrid result_type",
    "x shape / -subok": "broadcast_to",
    "x / a_min=min a_max=max -out min max": "clip",
    "x / axis keepdims": "count_nonzero",
    "x / axis dtype -out include_initial": "cumulative_prod cumulative_sum",
    "x / -k": "diag",
    "x / offset -axis1 -axis2": "diagonal",
    "x / n axis prepend append": "diff",
    "x y / -out": "dot outer",
    "x / dtype ~order -subok -shape device": "empty_like ones_like zeros_like",
    "x axis /": "expand_dims",
    "x / axis": "flip squeeze unstack",
    "x fill_value / dtype ~order -subok -shape device": "full_like",
    "x y /": "inner kron linalg.solve",
    "x y / rtol atol equal_nan": "isclose",
    "x y / ~assume_unique invert ~kind": "isin",
    "start stop / num endpoint -retstep dtype -axis device": "linspace",
    "x / axis -out keepdims -initial -where": "max min",
    "x / axis -dtype -out keepdims -initial -where": "mean",
    "x / axis -out ~overwrite_input keepdims": "median",
    "x q / axis -out ~overwrite_input method keepdims -weights "
    "-interpolation": "quantile",
    "x source destination /": "moveaxis",
    "x / ~copy nan posinf neginf": "nan_to_num",
    "x / axes": "permute_dims fft.fftshift fft.ifftshift",
    "x / axis dtype -out keepdims -initial -where": "prod sum",
    "x repeats / axis": "repeat",
    "x / shape -order copy newshape=shape": "reshape",
    "x shift / axis": "roll",
    "x values / side sorter": "searchsorted",
    "x parts / axis": "split",
    "xs / axis -out -dtype ~casting": "stack",
    "x / axis -dtype -out ddof=correction keepdims -where -mean correction": "std var",
    "x first second /": "swapaxes",
    "x indices / axis -out ~mode": "take",
    "x indices / axis": "take_along_axis",
    "x y / axes": "tensordot",
    "x reps /": "tile",
    "x / offset -axis1 -axis2 dtype -out": "trace",
    "x / k": "tril triu",
    "condition x y /": "where",
    "x / n axis norm -out": "fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft",
    "x / s axes norm -out": "fft.fftn fft.ifftn fft.rfftn fft.irfftn",
    "x / upper": "linalg.cholesky",
    "x / -p": "linalg.cond",
    "x y / axis": "linalg.cross",
    "x / offset": "linalg.diagonal",
    "x / ~UPLO": "linalg.eigh linalg.eigvalsh",
    "x / keepdims ord": "linalg.matrix_norm",
    "x n /": "linalg.matrix_power",
    "x / -tol -hermitian rtol": "linalg.matrix_rank",
    "x / ord axis keepdims": "linalg.norm",
    "x / -rcond -hermitian rtol": "linalg.pinv",
    "x / mode": "linalg.qr",
    "x / full_matrices -compute_uv -hermitian": "linalg.svd",
    "x / offset dtype": "linalg.trace",
    "x / axis keepdims ord": "linalg.vector_norm",
}
FUNCTIONS: dict[str, tuple[str, str]] = {
    **{name: (name, spec) for spec, names in _SAME.items() for name in names.split()},
    "amax": ("max", "x / axis -out keepdims -initial -where"),
    "amin": ("min", "x / axis -out keepdims -initial -where"),
    "concatenate": ("concat", "xs / axis -out -dtype ~casting"),
    "copy": ("asarray", "x / ~order -subok"),
    "cross": ("linalg.cross", "x y / -axisa -axisb -axisc axis"),
    "cumprod": ("cumulative_prod", "x / axis dtype -out"),
    "cumsum": ("cumulative_sum", "x / axis dtype -out"),
    "pad": ("pad", "x widths / mode constant_values=value"),
    "ravel": ("flatten", "x / -order"),
    "array_split": ("split", "x parts / axis"),
    "transpose": ("permute_dims", "x / axes"),
    "unique": (
        "unique_values",
        "x / -return_index -return_inverse -return_counts -axis ~equal_nan ~sorted",
    ),
    "fft.fft2": ("fft.fftn", "x / s axes norm -out"),
    "fft.ifft2": ("fft.ifftn", "x / s axes norm -out"),
    "linalg.matmul": ("matmul", "x y /"),
    "linalg.matrix_transpose": ("matrix_transpose", "x /"),
    "linalg.outer": ("outer", "x y /"),
    "linalg.tensordot": ("tensordot", "x y / axes"),
    "linalg.vecdot": ("vecdot", "x y / axis"),
}
# What is asked of values, and no node.
_VALUES = (
    "allclose array2string array_equal array_equiv array_repr array_str "
    "may_share_memory save savetxt savez savez_compressed shares_memory"
)
VALUES = frozenset(_VALUES.split())
# NumPy's default where the public function has another.
DEFAULTS: dict[str, dict[str, Any]] = {
    "linspace": {"num": 50},
    "ravel": {},
    "fft.fft2": {"axes": (-2, -1)},
    "fft.ifft2": {"axes": (-2, -1)},
}
FLAT = frozenset(("cumsum", "cumprod", "argsort", "sort"))  # where axis is None


def name_of(function: Callable[..., Any]) -> str:
    """The name of one of NumPy's functions, as it is called behind `np.`."""
    module = str(getattr(function, "__module__", "")).removeprefix("numpy")
    return f"{module}.{function.__name__}".removeprefix(".")


@cached(256)
def _parsed(spec: str) -> tuple[int, tuple[tuple[str, str, str], ...]]:
    """The count of positional arguments, and kind, name and own name of each."""
    operands, _, rest = spec.partition("/")
    first = operands.split()
    parameters = [("", name, name) for name in first]
    for word in rest.split():
        kind = word[0] if word[0] in "-~" else ""
        name, _, target = word.removeprefix(kind).partition("=")
        parameters.append((kind, name, target or name))
    return len(first), tuple(parameters)


def _handed_on(
    spec: str, args: Sequence[Any], options: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of NumPy's function as those of ours."""
    if spec == "*":
        return list(args), dict(options)
    count, parameters = _parsed(spec)
    positional, named = list(args[:count]), dict(options)
    for (_, name, _), value in zip(parameters[count:], args[count:], strict=False):
        named[name] = value
    if len(args) > len(parameters):
        raise CallError(f"takes {len(parameters)} arguments, got {len(args)}")
    known = {name: (kind, target) for kind, name, target in parameters[count:]}
    rest: dict[str, Any] = {}
    operands: list[Any] = []
    for name, value in named.items():
        if name not in known:
            operands.append(value)  # an operand by its name in NumPy
            continue
        kind, target = known[name]
        if kind == "" and value is not np._NoValue:
            rest[target] = value
        elif kind == "-" and value is not None and value is not np._NoValue:
            raise CallError(
                f"takes no {name}= for tensors",
                hint="x.numpy() has the value, on which NumPy takes it",
            )
    if len(positional) + len(operands) != count:
        raise CallError(f"takes {count} operands, got {len(positional)}")
    return positional + operands, rest


def _shape(x: Any) -> tuple[int, ...]:
    return as_tensor(x).type.shape


def _size(x: Any, axis: Any = None) -> int:
    t = as_tensor(x).type
    return t.size if axis is None else t.shape[axis]


TYPES: dict[str, Callable[..., Any]] = {
    "shape": _shape,
    "ndim": lambda a: len(_shape(a)),
    "size": _size,
    "iscomplexobj": lambda x: as_tensor(x).type.dtype.kind == "c",
    "isrealobj": lambda x: as_tensor(x).type.dtype.kind != "c",
}


def _rounded(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if out is not None:
        raise CallError("takes no out= for tensors").located("np.round")
    return as_tensor(a).__round__(decimals)


def _percentile(a: Any, q: Any, axis: Any = None, **options: Any) -> Any:
    _, named = _handed_on(FUNCTIONS["quantile"][1], (a, q), options)
    return functions.array_namespace().quantile(a, np.divide(q, 100), axis, **named)


def _in_columns(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    parts = [_at_least(1, x) for x in tup]
    return functions.concat(parts, 0 if parts[0].type.ndim == 1 else 1)


def _in_rows(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    return functions.concat([_at_least(2, x) for x in tup], 0)


def _at_least(ndim: int, x: Any) -> Tensor:
    node = as_tensor(x)
    lead = (1,) * (ndim - node.type.ndim)
    return functions.reshape(node, (*lead, *node.type.shape))


def _appended(arr: Any, values: Any, axis: int | None = None) -> Any:
    parts = [as_tensor(arr), as_tensor(values)]
    if axis is None:
        parts, axis = [functions.reshape(x, (-1,)) for x in parts], 0
    return functions.concat(parts, axis)


def _average(
    a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False
) -> Any:
    if weights is None:
        return functions.mean(a, axis, keepdims=keepdims)
    x, w = as_tensor(a), as_tensor(weights)
    if w.type.shape != x.type.shape:  # one dimension, along an axis
        if axis is None:
            raise CallError("weights of another shape are of one axis=").located(
                "np.average"
            )
        places = (1,) * (x.type.ndim - 1 - axis % x.type.ndim)
        w = functions.reshape(w, (*w.type.shape, *places))
    w = functions.broadcast_to(w, x.type.shape)
    total = functions.sum(w, axis, keepdims=keepdims)
    return functions.sum(x * w, axis, keepdims=keepdims) / total


def _without_nan(name: str, empty: float) -> Callable[..., Any]:
    """A fold of the numbers along axes; NaN where there are none, 0 for a sum."""

    def folded(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if as_tensor(a).type.dtype.kind in "biu":
            return getattr(functions, name)(a, axis, keepdims=keepdims)
        number = functions.equal(a, a)
        chosen = functions.where(number, a, empty)
        fold = functions.sum if name == "mean" else getattr(functions, name)
        y = fold(chosen, axis, keepdims=keepdims)
        if name == "sum":
            return y
        count = functions.sum(number, axis, keepdims=keepdims)
        y = y / count if name == "mean" else y
        return functions.where(count == 0, math.nan, y)

    return folded


def _selected(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    for condition, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        default = functions.where(condition, choice, default)
    return default


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    rows = functions.moveaxis(y, axis, -1)
    steps = dx if x is None else functions.array_namespace().diff(x)
    return functions.sum(steps * (rows[..., 1:] + rows[..., :-1]) * 0.5, -1)


# What NumPy puts together otherwise than a public function of ours.
OWN: dict[str, Callable[..., Any]] = {
    "append": _appended,
    "argwhere": lambda a: functions.array_namespace().stack(
        functions.array_namespace().nonzero(a), -1
    ),
    "around": _rounded,
    "average": _average,
    "hstack": _in_columns,
    "nanmax": _without_nan("max", -math.inf),
    "nanmean": _without_nan("mean", 0.0),
    "nanmin": _without_nan("min", math.inf),
    "nansum": _without_nan("sum", 0.0),
    "percentile": _percentile,
    "ptp": lambda a, axis=None, *, keepdims=False: (
        functions.max(a, axis, keepdims=keepdims)
        - functions.min(a, axis, keepdims=keepdims)
    ),
    "round": _rounded,
    "select": _selected,
    "trapezoid": _trapezoid,
    "vstack": _in_rows,
}


@provide
def array_function(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """The rule of `__array_function__`: the op, or an error with the name."""
    name = name_of(function)
    if name in TYPES:
        return TYPES[name](*args, **options)
    if name in VALUES:
        leaves, tree = trees.flatten((list(args), dict(options)))
        plain = [x.numpy() if isinstance(x, Operand) else x for x in leaves]
        args, options = trees.unflatten(tree, plain)
        return function(*args, **options)
    if name in OWN:
        return OWN[name](*args, **options)
    if name not in FUNCTIONS:
        raise CallError(
            "has no counterpart for tensors",
            hint=f"np.{name}(x.numpy()) computes with the values, outside of the graph",
        ).located(f"np.{name}")
    path, spec = FUNCTIONS[name]
    try:
        operands, named = _handed_on(spec, args, options)
    except CallError as error:
        raise error.located(f"np.{name}") from None
    named = {**DEFAULTS.get(name, {}), **named}
    if name in FLAT and named.get("axis", 0 if "cum" not in name else None) is None:
        operands, named["axis"] = [functions.reshape(operands[0], (-1,))], 0
    module, _, plain_name = path.rpartition(".")
    home = public(module) if module else functions.array_namespace()
    return getattr(home, plain_name)(*operands, **named)
