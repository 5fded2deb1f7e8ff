"""NumPy's functions on tensors: `np.mean(t)` is `td.mean(t)`, a node of the graph.

A table tells, for each, the public function and how arguments are handed on. What is
not in it is refused: its values would leave the graph where nobody sees it.
"""

from __future__ import annotations

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
_FOLD = "x / axis -dtype -out keepdims -initial -where"
_SUM = "x / axis dtype -out keepdims -initial -where"
_PLACE = "x / axis -out keepdims"
_SPREAD = "x / axis -dtype -out ddof=correction keepdims -where -mean correction"
_SCAN = "x / axis dtype -out"
_FFT = "x / n axis norm -out"
_FFTN = "x / s axes norm -out"
FUNCTIONS: dict[str, tuple[str, str]] = {
    "all": ("all", "x / axis -out keepdims -where"),
    "amax": ("max", "x / axis -out keepdims -initial -where"),
    "amin": ("min", "x / axis -out keepdims -initial -where"),
    "angle": ("angle", "x / -deg"),
    "any": ("any", "x / axis -out keepdims -where"),
    "argmax": ("argmax", _PLACE),
    "argmin": ("argmin", _PLACE),
    "argsort": ("argsort", "x / axis ~kind -order stable"),
    "astype": ("astype", "x dtype / copy device"),
    "atleast_1d": ("atleast_1d", "x /"),
    "atleast_2d": ("atleast_2d", "x /"),
    "atleast_3d": ("atleast_3d", "x /"),
    "broadcast_arrays": ("broadcast_arrays", "*"),
    "broadcast_to": ("broadcast_to", "x shape / -subok"),
    "clip": ("clip", "x / a_min=min a_max=max -out min max"),
    "concatenate": ("concat", "xs / axis -out -dtype ~casting"),
    "copy": ("asarray", "x / ~order -subok"),
    "count_nonzero": ("count_nonzero", "x / axis keepdims"),
    "cross": ("linalg.cross", "x y / -axisa -axisb -axisc axis"),
    "cumprod": ("cumulative_prod", _SCAN),
    "cumsum": ("cumulative_sum", _SCAN),
    "cumulative_prod": ("cumulative_prod", "x / axis dtype -out include_initial"),
    "cumulative_sum": ("cumulative_sum", "x / axis dtype -out include_initial"),
    "diag": ("diag", "x / -k"),
    "diagonal": ("diagonal", "x / offset -axis1 -axis2"),
    "diff": ("diff", "x / n axis prepend append"),
    "dot": ("dot", "x y / -out"),
    "einsum": ("einsum", "*"),
    "empty_like": ("empty_like", "x / dtype ~order -subok -shape device"),
    "expand_dims": ("expand_dims", "x axis /"),
    "flip": ("flip", "x / axis"),
    "full_like": ("full_like", "x fill_value / dtype ~order -subok -shape device"),
    "imag": ("imag", "x /"),
    "inner": ("inner", "x y /"),
    "isclose": ("isclose", "x y / rtol atol equal_nan"),
    "isin": ("isin", "x y / ~assume_unique invert ~kind"),
    "kron": ("kron", "x y /"),
    "linspace": (
        "linspace",
        "start stop / num endpoint -retstep dtype -axis device",
    ),
    "matrix_transpose": ("matrix_transpose", "x /"),
    "max": ("max", "x / axis -out keepdims -initial -where"),
    "mean": ("mean", _FOLD),
    "median": ("median", "x / axis -out ~overwrite_input keepdims"),
    "meshgrid": ("meshgrid", "*"),
    "min": ("min", "x / axis -out keepdims -initial -where"),
    "moveaxis": ("moveaxis", "x source destination /"),
    "nan_to_num": ("nan_to_num", "x / ~copy nan posinf neginf"),
    "nonzero": ("nonzero", "x /"),
    "ones_like": ("ones_like", "x / dtype ~order -subok -shape device"),
    "outer": ("outer", "x y / -out"),
    "permute_dims": ("permute_dims", "x / axes"),
    "prod": ("prod", _SUM),
    "ravel": ("flatten", "x / -order"),
    "real": ("real", "x /"),
    "repeat": ("repeat", "x repeats / axis"),
    "reshape": ("reshape", "x / shape -order copy newshape=shape"),
    "result_type": ("result_type", "*"),
    "roll": ("roll", "x shift / axis"),
    "searchsorted": ("searchsorted", "x values / side sorter"),
    "sort": ("sort", "x / axis ~kind -order stable"),
    "split": ("split", "x parts / axis"),
    "array_split": ("split", "x parts / axis"),
    "squeeze": ("squeeze", "x / axis"),
    "stack": ("stack", "xs / axis -out -dtype ~casting"),
    "std": ("std", _SPREAD),
    "sum": ("sum", _SUM),
    "swapaxes": ("swapaxes", "x first second /"),
    "take": ("take", "x indices / axis -out ~mode"),
    "take_along_axis": ("take_along_axis", "x indices / axis"),
    "tensordot": ("tensordot", "x y / axes"),
    "tile": ("tile", "x reps /"),
    "trace": ("trace", "x / offset -axis1 -axis2 dtype -out"),
    "transpose": ("permute_dims", "x / axes"),
    "tril": ("tril", "x / k"),
    "triu": ("triu", "x / k"),
    "unique_all": ("unique_all", "x /"),
    "unique_counts": ("unique_counts", "x /"),
    "unique_inverse": ("unique_inverse", "x /"),
    "unique_values": ("unique_values", "x /"),
    "unstack": ("unstack", "x / axis"),
    "var": ("var", _SPREAD),
    "where": ("where", "condition x y /"),
    "zeros_like": ("zeros_like", "x / dtype ~order -subok -shape device"),
    **{f"fft.{name}": (f"fft.{name}", _FFT) for name in ("fft", "ifft", "rfft")},
    **{f"fft.{name}": (f"fft.{name}", _FFT) for name in ("irfft", "hfft", "ihfft")},
    **{f"fft.{name}": (f"fft.{name}", _FFTN) for name in ("fftn", "ifftn")},
    **{f"fft.{name}": (f"fft.{name}", _FFTN) for name in ("rfftn", "irfftn")},
    "fft.fft2": ("fft.fftn", _FFTN),
    "fft.ifft2": ("fft.ifftn", _FFTN),
    "fft.fftshift": ("fft.fftshift", "x / axes"),
    "fft.ifftshift": ("fft.ifftshift", "x / axes"),
    "linalg.cholesky": ("linalg.cholesky", "x / upper"),
    "linalg.cond": ("linalg.cond", "x / -p"),
    "linalg.cross": ("linalg.cross", "x y / axis"),
    "linalg.det": ("linalg.det", "x /"),
    "linalg.diagonal": ("linalg.diagonal", "x / offset"),
    "linalg.eig": ("linalg.eig", "x /"),
    "linalg.eigh": ("linalg.eigh", "x / ~UPLO"),
    "linalg.eigvals": ("linalg.eigvals", "x /"),
    "linalg.eigvalsh": ("linalg.eigvalsh", "x / ~UPLO"),
    "linalg.inv": ("linalg.inv", "x /"),
    "linalg.matmul": ("matmul", "x y /"),
    "linalg.matrix_norm": ("linalg.matrix_norm", "x / keepdims ord"),
    "linalg.matrix_power": ("linalg.matrix_power", "x n /"),
    "linalg.matrix_rank": ("linalg.matrix_rank", "x / -tol -hermitian rtol"),
    "linalg.matrix_transpose": ("matrix_transpose", "x /"),
    "linalg.norm": ("linalg.norm", "x / ord axis keepdims"),
    "linalg.outer": ("outer", "x y /"),
    "linalg.pinv": ("linalg.pinv", "x / -rcond -hermitian rtol"),
    "linalg.qr": ("linalg.qr", "x / mode"),
    "linalg.slogdet": ("linalg.slogdet", "x /"),
    "linalg.solve": ("linalg.solve", "x y /"),
    "linalg.svd": ("linalg.svd", "x / full_matrices -compute_uv -hermitian"),
    "linalg.svdvals": ("linalg.svdvals", "x /"),
    "linalg.tensordot": ("tensordot", "x y / axes"),
    "linalg.trace": ("linalg.trace", "x / offset dtype"),
    "linalg.vecdot": ("vecdot", "x y / axis"),
    "linalg.vector_norm": ("linalg.vector_norm", "x / axis keepdims ord"),
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


def _in_columns(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    parts = [_at_least(1, x) for x in tup]
    return functions.concat(parts, 0 if parts[0].type.ndim == 1 else 1)


def _in_rows(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    return functions.concat([_at_least(2, x) for x in tup], 0)


def _at_least(ndim: int, x: Any) -> Tensor:
    node = as_tensor(x)
    lead = (1,) * (ndim - node.type.ndim)
    return functions.reshape(node, (*lead, *node.type.shape))


# What NumPy puts together otherwise than a public function of ours.
OWN: dict[str, Callable[..., Any]] = {
    "around": _rounded,
    "hstack": _in_columns,
    "round": _rounded,
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
