"""Conversion between dtypes, and the operands of an expression brought to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import Any, TypeVar, cast

import numpy as np

from treadle.base import trees
from treadle.base.devices import as_device
from treadle.base.dtypes import (
    HALF,
    DType,
    as_dtype,
    converted,
    default_of,
    float32,
    float64,
    int64,
    is_inexact,
    kind,
    promote,
    uint64,
)
from treadle.base.errors import DTypeError
from treadle.base.options import current
from treadle.base.types import Type
from treadle.graph.awaited import NUMBERS
from treadle.graph.leaves import SCALARS, Leaf, as_tensor, constant_node, weak_operand
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.origin import warn
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.families import Elementwise

__all__ = ["Cast", "astype"]


@op(primitive=True, linear=True)
class Cast(Elementwise):
    """Each element as the nearest value of another dtype; to integers toward zero.

    Of NaN an integer is 0. Integers keep the low bits that a narrower type has.
    """

    dtype: DType
    arity = 1

    def infer(self, *types: Type) -> Type:
        source = types[0].dtype
        if kind(source) == "complex" and kind(self.dtype) not in ("complex", "bool"):
            raise DTypeError(
                f"{source.name} does not convert to {self.dtype.name}",
                hint="take td.real(x), td.imag(x) or td.abs(x)",
            )
        return types[0].with_dtype(self.dtype)

    def numpy(self, *arrays: Any) -> Array:
        return converted(arrays[0], self.dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if not (is_inexact(self.dtype) and is_inexact(xs[0].type.dtype)):
            return (None,)
        if kind(self.dtype) == "complex":
            g = functions.real(g) if kind(xs[0].type.dtype) == "float" else g
        return (astype(g, xs[0].type.dtype),)

    def __repr__(self) -> str:
        return f"Cast(dtype={self.dtype.name!r})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))


@provide
@recorded
def astype(x: Any, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` with its elements converted to `dtype`; the same node where it has it, with
    or without `copy`, for nobody can write there.

    Floats become integers toward zero, the least or the greatest of `dtype` where it
    holds no such value, and 0 for NaN; integers keep the low bits that `dtype` has.

    >>> td.astype(td.asarray([1.7, -1.7]), "int32").numpy()
    array([ 1, -1], dtype=int32)
    """
    if device is not None:
        as_device(device)
    node = as_tensor(x)
    wanted = as_dtype(dtype)
    return node if node.type.dtype == wanted else Cast(wanted)(node)


def as_float(x: Any) -> Tensor:
    """The operand of a function of the reals: integers and bools become floats."""
    if type(x) is Tensor and x.type.dtype.kind == "f":
        return x
    if isinstance(x, (bool, int)):
        x = float(x)
    node = as_tensor(x)
    if is_inexact(node.type.dtype):
        return node
    return astype(node, current().dtype)


def scored(x: Any) -> Tensor:
    """The scores of a loss: floats, under `td.autocast` of float32 or wider."""
    node = as_float(x)
    return node if current().autocast is None else _widened(node)


F = TypeVar("F", bound=Callable[..., Any])


def carried_wide(f: F) -> F:
    """A function that takes 16-bit floats to float32, and rounds its results once.

    Sums and squares on the way may be greater, or smaller, than 16 bits can hold. Under
    `td.autocast` results stay float32.
    """

    @wraps(f)
    def wrapper(*args: Any, **options: Any) -> Any:
        positional = list(args)
        if args and not isinstance(args[0], (Operand, *SCALARS)):
            positional[0] = as_tensor(args[0])
        known = *positional, *options.values()
        dtypes = [y.dtype for y in known if isinstance(y, (Operand, np.ndarray))]
        if not any(d in HALF for d in dtypes):
            return f(*positional, **options)
        wide = {k: _widened(y) for k, y in options.items()}
        leaves, tree = trees.flatten(f(*map(_widened, positional), **wide))
        dtype = reduce(promote, filter(is_inexact, dtypes))
        if current().autocast is not None:
            dtype = promote(dtype, float32)
        return trees.unflatten(
            tree, [astype(y, dtype) if y.dtype == float32 else y for y in leaves]
        )

    return cast(F, wrapper)


def _widened(x: Any) -> Any:
    """An operand in float32 if it is of 16-bit floats."""
    half = isinstance(x, (Operand, np.ndarray)) and x.dtype in HALF
    return astype(x, float32) if half else x


def summand(x: Any, dtype: Any = None) -> Tensor:
    """The operand of a sum or product: in `dtype`, or bools and integers in 64 bits."""
    node = as_tensor(x)
    if dtype is None:
        if node.type.dtype.kind not in "biu":
            return node
        dtype = uint64 if node.type.dtype.kind == "u" else int64
    return astype(node, dtype)


def _weakly(x: Any, y: Any) -> list[Tensor] | None:
    """A node and a scalar beside it, in their order; None where it is not that."""
    if isinstance(y, SCALARS) and isinstance(x, Operand):
        node = x.node()
        return [node, weak_operand(y, node)]
    if isinstance(x, SCALARS) and isinstance(y, Operand):
        node = y.node()
        return [weak_operand(x, node), node]
    return None


def operands(*values: Any) -> list[Tensor]:
    """The operands of one op in a common dtype; Python and NumPy scalars are weak."""
    tensors: list[Tensor] = []
    for v in values:
        if not isinstance(v, Operand):
            break
        tensors.append(v.node())
        if tensors[-1].type.dtype is not tensors[0].type.dtype:
            break
    else:
        return tensors
    if len(values) == 2:
        pair = _weakly(*values)
        if pair is not None and pair[0].type.dtype is pair[1].type.dtype:
            return pair
    anchors = [as_tensor(v) for v in values if not isinstance(v, SCALARS)]
    if not anchors:
        scalars = [v.item() if isinstance(v, NUMBERS) else v for v in values]
        dtypes = [default_of(v, current().dtype) for v in scalars]
        anchors = [constant_node(np.zeros((), d)) for d in dtypes]
    dtype = anchors[0].type.dtype
    for anchor in anchors[1:]:
        dtype = promote(dtype, anchor.type.dtype)
    guide = constant_node(np.zeros((), dtype))
    rest = iter(anchors)
    nodes = [
        weak_operand(v, guide) if isinstance(v, SCALARS) else next(rest) for v in values
    ]
    for node in nodes:
        dtype = promote(dtype, node.type.dtype)
    if dtype is float64:
        _tell_widened(nodes)
    return [astype(node, dtype) for node in nodes]


def factors(*values: Any) -> list[Tensor]:
    """The operands of a product in a common dtype: under `td.autocast` in 16 bits,
    where one is of float32."""
    nodes = operands(*values)
    narrow = current().autocast
    if narrow is None or nodes[0].type.dtype is not float32:
        return nodes
    return [astype(node, narrow) for node in nodes]


def addend(x: Any, product: Tensor) -> Any:
    """The addend of a product: under `td.autocast` in the product's dtype."""
    return x if current().autocast is None else astype(x, product.type.dtype)


def _tell_widened(nodes: Sequence[Tensor]) -> None:
    """Warn where data of float64 meet a float32 parameter: all that follows is wide."""
    data = any(isinstance(x.op, Leaf) and x.type.dtype is float64 for x in nodes)
    for x in nodes if data else ():
        note = getattr(x.op, "variable", None)
        variable: Any = (x.mark or {}).get("variable") if note is None else note
        if x.type.dtype is float32 and getattr(variable, "trainable", False):
            warn(
                f"float64 data meet the float32 parameter {variable.name!r}: the "
                "result is float64; convert the data by .astype('float32'), or the "
                "parameters"
            )
            return
