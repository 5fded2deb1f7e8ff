"""The ops of Nervana Graph: a table of their meaning by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.base.dtypes import DType
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.contract import Contract

Names = tuple[str, ...]

# By the names of Treadle's ops, which `save` looks them up by.
UNARY = {
    "Negative": "NegativeOp", "Abs": "AbsoluteOp", "Sin": "SinOp", "Cos": "CosOp",
    "Tanh": "TanhOp", "Exp": "ExpOp", "Log": "LogOp", "Reciprocal": "ReciprocalOp",
    "Sign": "SignOp", "Square": "SquareOp", "Sqrt": "SqrtOp",
    "Sigmoid": "SigmoidAtomicOp", "StopGradient": "StopGradient",
}  # fmt: skip
BINARY = {
    "Add": "Add", "Subtract": "Subtract", "Multiply": "Multiply", "Divide": "Divide",
    "FloorDivide": "FloorDivide", "Remainder": "Mod", "Maximum": "Maximum",
    "Minimum": "Minimum", "Pow": "Power", "Equal": "Equal", "NotEqual": "NotEqual",
    "Greater": "Greater", "Less": "Less", "GreaterEqual": "GreaterEqual",
    "LessEqual": "LessEqual",
}  # fmt: skip
REDUCTIONS = {"Sum": "Sum", "Max": "Max", "Min": "Min", "Prod": "Prod"}
_FUNCTIONS = {
    "Abs": "abs", "StopGradient": "stop_gradient", "FloorDivide": "floor_divide",
    "NotEqual": "not_equal", "GreaterEqual": "greater_equal",
    "LessEqual": "less_equal",
}  # fmt: skip


@dataclass(frozen=True)
class NamedTensor:
    """A tensor with a name for each dimension."""

    tensor: Tensor
    names: Names


@dataclass(frozen=True)
class FileOp:
    """An op of a file: what it reads, what it says of itself."""

    args: Sequence[NamedTensor]
    attrs: Mapping[str, Any]
    names: Names  # and lengths of the result
    lengths: tuple[int, ...]
    dtype: DType

    def axes(self, key: str) -> Names:
        """The names of axes that are an attribute."""
        entry = self.attrs.get(key, {}).get("axes")
        if entry is None:
            raise ValueError(f"it has no {key}")
        return tuple(axis.get("name", "") for axis in entry.get("axes", ()))

    def axis(self, key: str) -> str:
        axis = self.attrs.get(key, {}).get("scalar", {}).get("axis")
        if axis is None:
            raise ValueError(f"it has no {key}")
        return str(axis.get("name", ""))

    def whole(self, key: str) -> int:
        number = self.attrs.get(key, {}).get("scalar", {}).get("int_val")
        if number is None:
            raise ValueError(f"it has no {key}")
        return int(number)


Rule = Callable[[FileOp], NamedTensor]


@dataclass(frozen=True)
class OpRow:
    """A row of the table: the maker of an op's value, and the attributes it reads.

    A rule sees those alone; a file whose op has others is refused.
    """

    rule: Rule
    reads: frozenset[str] = frozenset()


def _row(rule: Rule, reads: str = "") -> OpRow:
    return OpRow(rule, frozenset(reads.split()))


def _only(call: FileOp, count: int = 1) -> list[NamedTensor]:
    if len(call.args) != count:
        raise ValueError(f"it takes {count} operands, not {len(call.args)}")
    return list(call.args)


def _ordered(x: NamedTensor, names: Names) -> Tensor:
    """The tensor with its dimensions in this order."""
    if sorted(x.names) != sorted(names):
        raise ValueError(f"axes {x.names} are not {names}")
    if x.names == names:
        return x.tensor
    order = tuple(x.names.index(name) for name in names)
    return functions.permute_dims(x.tensor, order)


def _spread(x: NamedTensor, names: Names, lengths: tuple[int, ...]) -> Tensor:
    """The tensor with more dimensions, along which it is the same."""
    known = tuple(name for name in names if name in x.names)
    kept = dict(zip(x.names, x.tensor.shape, strict=True))
    shape = tuple(kept.get(name, 1) for name in names)
    reshaped: Tensor = functions.reshape(_ordered(x, known), shape)
    return reshaped if shape == lengths else functions.broadcast_to(reshaped, lengths)


def _unary(name: str) -> Rule:
    function = getattr(functions, _FUNCTIONS.get(name, name.lower()))

    def rule(call: FileOp) -> NamedTensor:
        (x,) = _only(call)
        return NamedTensor(function(x.tensor), x.names)

    return rule


def _binary(name: str) -> Rule:
    function = getattr(functions, _FUNCTIONS.get(name, name.lower()))

    def rule(call: FileOp) -> NamedTensor:
        x, y = _only(call, 2)
        return NamedTensor(function(x.tensor, _ordered(y, x.names)), x.names)

    return rule


def _reduction(name: str) -> Rule:
    function = getattr(functions, name)

    def rule(call: FileOp) -> NamedTensor:
        (x,) = _only(call)
        gone = call.axes("reduction_axes")
        if not set(gone) <= set(x.names):
            raise ValueError(f"axes {gone} are not all of {x.names}")
        kept = tuple(name for name in x.names if name not in gone)
        if name.startswith("arg"):
            # The place among all that is folded, in the order of the attribute.
            last = NamedTensor(x.tensor, x.names)
            flat = functions.reshape(
                _ordered(last, (*kept, *gone)), (*_lengths(x, kept), -1)
            )
            return NamedTensor(function(flat, -1), kept)
        places = tuple(x.names.index(n) for n in gone)
        return NamedTensor(function(x.tensor, places) if places else x.tensor, kept)

    return rule


def _lengths(x: NamedTensor, names: Names) -> tuple[int, ...]:
    return tuple(x.tensor.shape[x.names.index(name)] for name in names)


def _dot(call: FileOp) -> NamedTensor:
    x, y = _only(call, 2)
    letter = {name: chr(97 + k) for k, name in enumerate({*x.names, *y.names})}
    if len(letter) > 26:
        raise ValueError(f"{len(letter)} axes are too many")
    a = tuple(name for name in x.names if name not in y.names)
    b = tuple(name for name in y.names if name not in x.names)
    spec = [["".join(letter[n] for n in part)] for part in (x.names, y.names, a + b)]
    product = Contract(f"{spec[0][0]},{spec[1][0]}->{spec[2][0]}")
    return NamedTensor(product(x.tensor, y.tensor), a + b)


def _broadcast(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    if not set(x.names) <= set(call.names):
        raise ValueError(f"axes {x.names} are not all of {call.names}")
    return NamedTensor(_spread(x, call.names, call.lengths), call.names)


def _reorder(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    return NamedTensor(_ordered(x, call.names), call.names)


def _rename(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    return NamedTensor(x.tensor, call.names)


def _reshape(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    if math.prod(x.tensor.shape) != math.prod(call.lengths):
        raise ValueError(f"{list(x.tensor.shape)} is not {list(call.lengths)}")
    return NamedTensor(functions.reshape(x.tensor, call.lengths), call.names)


def _expand(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    place, name = call.whole("dim"), call.axis("axis")
    if not 0 <= place <= len(x.names):
        raise ValueError(f"dim {place} of {len(x.names)}")
    names = (*x.names[:place], name, *x.names[place:])
    return NamedTensor(_spread(x, names, call.lengths), names)


def _slice(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    slices = call.attrs.get("slices", {}).get("repeated_scalar", {}).get("val", ())
    if len(slices) != len(x.names):
        raise ValueError(f"{len(slices)} slices of {len(x.names)} axes")
    key: list[Any] = []
    for one in slices:
        if "int_val" in one:
            key.append(int(one["int_val"]))
        elif "slice_val" in one:
            parts = (one["slice_val"].get(k) for k in ("start", "stop", "step"))
            # A number that is zero may be a message without a field.
            key.append(
                slice(*(None if p is None else p.get("value", 0) for p in parts))
            )
        else:
            raise ValueError("a slice is a number or a slice")
    return NamedTensor(functions.getitem(x.tensor, tuple(key)), call.names)


def _one_hot(call: FileOp) -> NamedTensor:
    (x,) = _only(call)
    name = call.axis("axis")
    if name not in call.names:
        raise ValueError(f"the axis {name!r} is not one of {call.names}")
    count = call.lengths[call.names.index(name)]
    encoded = functions.one_hot(functions.astype(x.tensor, "int64"), count, call.dtype)
    return NamedTensor(
        _ordered(NamedTensor(encoded, (*x.names, name)), call.names), call.names
    )


_FOLDS = {theirs: name.lower() for name, theirs in REDUCTIONS.items()}
_FOLDS |= {"Argmax": "argmax", "Argmin": "argmin"}
# Names of axes say what these attributes of a product and of new names say again.
_DOT = "reduction_axes x_out_axes y_out_axes bias"
OPS: dict[str, OpRow] = {
    **{theirs: _row(_unary(name)) for name, theirs in UNARY.items()},
    **{theirs: _row(_binary(name), "kwargs") for name, theirs in BINARY.items()},
    **{k: _row(_reduction(f), "reduction_axes kwargs") for k, f in _FOLDS.items()},
    "ContiguousOp": _row(lambda call: _only(call)[0]),
    "DotOp": _row(_dot, _DOT),
    "BroadcastOp": _row(_broadcast),
    "ReorderAxes": _row(_reorder),
    "Transpose": _row(lambda call: NamedTensor(_only(call)[0].tensor.T, call.names)),
    "AxesCastOp": _row(_rename),
    "RoleCastOp": _row(_rename),
    "MapRolesOp": _row(_rename, "axes_map"),
    "ExpandDims": _row(_expand, "axis dim"),
    "TensorSliceOp": _row(_slice, "slices"),
    "Flatten": _row(_reshape),
    "Unflatten": _row(_reshape),
    "OneHotOp": _row(_one_hot, "axis"),
}
