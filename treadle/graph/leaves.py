"""Leaves: nodes that come from outside the graph and carry or are given a value."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.allocate import memory_for
from treadle.base.caches import Cache, cached
from treadle.base.dtypes import (
    FLOATS,
    OWN,
    DType,
    as_dtype,
    converted,
    default_of,
    int64,
    uint64,
    weak,
    whole,
)
from treadle.base.errors import DTypeError, UnboundError
from treadle.base.options import current
from treadle.base.symbolic import Symbolic, SymbolicNumber, bits, plain, zeros
from treadle.base.types import Names, Shape, Type, as_names
from treadle.graph.awaited import NUMBERS, waited
from treadle.graph.interchange import is_shared
from treadle.graph.op import Op, op
from treadle.graph.operators import Operand
from treadle.graph.origin import is_written
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor, new_node

_SMALL = 8  # rules look for no larger number
_LARGE = 1024  # elements from which a copy is worth a place of its own choosing
_FEW = 65_536  # the integers from 0 whose arrays are kept once they were made
integers: Cache[int, np.ndarray[Any, Any]] = Cache("arrays of integers", _FEW)
SIZES = (Symbolic, SymbolicNumber)
SCALARS = (bool, int, float, complex, *NUMBERS, *SIZES)


class Leaf(Op):
    """An op without inputs; its value is stored in the node or bound at a run."""

    __slots__ = ()
    family = "leaf"
    arity = 0

    @property
    def name(self) -> str:
        return type(self).__name__.lower()


@op(differentiable=False)
class Constant(Leaf):
    """Data: an array that does not change."""


@op(differentiable=False)
class Literal(Constant):
    """A small number written in an expression: part of the structure, not data."""

    @property
    def name(self) -> str:
        return "constant"


@op(differentiable=False)
class Argument(Leaf):
    """The k-th input of a Body, given at each call."""

    position: int = 0


@op(differentiable=False)
class Draw(Leaf):
    """Seed and number of one random draw, as data: uint64[2]; rows have one each."""


@op(differentiable=False)
class Cut(Leaf):
    """The leaf that an evaluated node becomes when its recipe is cut.

    `carried` tells whether trainable Variables were behind it: a gradient that
    arrives there raises then, and stops silently otherwise. `trained` has their ids
    where no others were: a gradient by others stops there.
    """

    of: str = ""
    carried: bool = False
    trained: frozenset[int] | None = None


@cached(1024)
def cut_of(of: str, carried: bool, trained: frozenset[int] | None = None) -> Cut:
    """A Cut: one for all nodes alike."""
    return Cut(of, carried, trained)


@op(differentiable=False)
class Version(Leaf):
    """One stored state of a Variable."""

    variable: Any = None

    @property
    def name(self) -> str:
        return type(self.variable).__name__.lower()

    def __repr__(self) -> str:
        return f"variable {self.variable.name!r}"


def is_older(node: Tensor) -> bool:
    """Return True if a node is a version of a Variable that has a newer one."""
    return type(node.op) is Version and node.op.variable.committed is not node


@op(differentiable=False)
class Unbound(Leaf):
    """A placeholder that has no value of its own."""

    variable: Any = None

    @property
    def name(self) -> str:
        return "placeholder"

    def __repr__(self) -> str:
        return f"placeholder {self.variable.name!r}"

    def refusal(self) -> UnboundError:
        """The error for a run that needs its value."""
        return UnboundError(
            f"{self} has no value",
            hint="bind it in td.computation(outputs, placeholder), or give it an "
            "initial_value",
        )


def constant_node(array: Any, axes: Names | None = None) -> Tensor:
    """A leaf holding this very array, which nobody may change any more; it may yet be
    to come, as a Future.
    """
    if isinstance(array, Resident):
        node = new_node(CONSTANT, (), array.type, 2, array)
        array.belongs(node)
        return node
    array.setflags(write=False)
    type_ = Type(array.shape, OWN[array.dtype], axes)
    return new_node(CONSTANT, (), type_, 2, array)


def as_nodes(values: Sequence[Any]) -> list[Tensor]:
    """Nodes for values of which some are arrays that nobody may change any more."""
    return [constant_node(x) if isinstance(x, np.ndarray) else x for x in values]


def zeros_of(t: Type) -> Tensor:
    """A leaf of zeros, such as a cotangent that is missing."""
    return constant_node(zeros(t.shape, t.dtype), t.axes)


def integer_node(value: int) -> Tensor:
    """A leaf with one position, id or label, as data.

    Each is a node of its own: which positions are equal is no part of the structure.
    """
    return new_node(CONSTANT, (), INTEGER, 2, integer_array(value))


def integer_array(value: int) -> np.ndarray[Any, Any]:
    """A whole number as an array."""
    array = integers.get(value)
    if array is None:
        try:
            array = np.array(value, int64)
        except OverflowError as error:
            raise _no_array(value, error) from None
        array.setflags(write=False)
        if 0 <= value < _FEW:
            integers[value] = array
    return array


def bits_of(x: Tensor) -> Any:
    """The value of a number that is written in the graph; None of any other node."""
    return bits(x.array) if x.op is LITERAL and x.array is not None else None


def literal_node(value: Any, dtype: DType) -> Tensor:
    """A leaf with a number that stands in a rule of the library."""
    array: Any = (
        SymbolicNumber(np.array, value, dtype) if isinstance(value, SIZES) else None
    )
    if array is None:
        array = np.array(value, dtype=dtype)
        array.setflags(write=False)
    return Tensor(LITERAL, (), Type((), OWN[array.dtype]), array)


def _is_literal(value: Any) -> bool:
    """Return True if a number is one that rules look for, and stands in code.

    Python's whole numbers and halves up to 8: NumPy's scalars are data.
    """
    return is_small(value) and is_written(value, sys._getframe(2))


def is_small(value: Any) -> bool:
    """Return True if a number of Python's is whole or a half, and no more than 8."""
    if type(value) is int:
        return -_SMALL <= value <= _SMALL
    within = type(value) is float and -_SMALL <= value <= _SMALL
    return within and (value + value).is_integer()


def scalar_array(value: float, type_: Type) -> np.ndarray[Any, Any]:
    """The array of a number that is data beside a tensor."""
    array = np.array(value, dtype=type_.dtype)
    array.flags.writeable = False
    return array


CONSTANT = Constant()
INTEGER = Type((), int64)
LITERAL = Literal()
_DRAW = Draw()


def draw_node(shape: Shape = ()) -> Tensor:
    """A leaf with the next draws of this thread's seed scope, uint64[*shape, 2]."""
    count = math.prod(shape)
    seed, first = current().scope.draw(count)
    value = np.empty((*shape, 2), dtype=np.uint64)
    value[..., 0] = seed
    value[..., 1] = np.arange(first, first + count, dtype=np.uint64).reshape(shape)
    value.flags.writeable = False
    return Tensor(_DRAW, (), Type(value.shape, uint64), value)


def to_array(value: Any, dtype: Any = None, copy: bool = True) -> np.ndarray[Any, Any]:
    """A C-ordered array of a known dtype from anything array-like; fresh if a copy.

    A copy of an array begins where a vector of the machine may, unless it is small.
    """
    if type(value) is np.ndarray and copy:
        known = OWN.get(value.dtype)
        if known is value.dtype and (dtype is None or dtype is known):
            return _copied(value, known)
    value = whole(waited(value))
    if dtype is not None:
        wanted = as_dtype(dtype)
        if value is None or (isinstance(value, (list, tuple)) and _has_none(value)):
            raise DTypeError(f"{value!r} holds no numbers")  # NumPy takes it for NaN
    elif isinstance(value, (np.ndarray, np.generic)):
        wanted = as_dtype(value.dtype)
    elif isinstance(value, (int, float)):
        wanted = default_of(value, current().dtype)
    else:
        probe = _probed(value)
        if probe.dtype.kind not in "biufc":
            hint = "what it gives for tensors is a graph: f(x)" * callable(value)
            raise DTypeError(f"{value!r} holds no numbers", hint=hint)
        scalar = {"b": True, "i": 0, "u": 0, "f": 0.0, "c": 0j}[probe.dtype.kind]
        wanted = default_of(scalar, current().dtype)
    array = isinstance(value, (np.ndarray, np.generic))
    if array and wanted.kind in "iu" and value.dtype in FLOATS:
        # As a cast has it, not as this machine does.
        value, copy = converted(np.asarray(value), wanted), False
    try:
        if copy and isinstance(value, np.ndarray):
            return _copied(value, wanted)
        make = np.array if copy else np.asarray
        return make(value, dtype=wanted, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_array(value, error) from None


def _copied(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    if array.size < _LARGE:
        return np.array(array, dtype=dtype, order="C")
    copy = _aligned(array.shape, dtype)
    np.copyto(copy, array, casting="unsafe")
    return copy


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array of any content at a multiple of 64 bytes: its rows straddle no lines."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    with memory_for(size):
        raw = np.empty(size + 63, np.uint8)
    return np.ndarray(shape, dtype, raw, -raw.ctypes.data % 64)


def _has_none(value: Any) -> bool:
    """Return True if None is among the items of lists in lists."""
    if isinstance(value, (list, tuple)):
        return any(map(_has_none, value))
    return value is None


def _probed(value: Any) -> np.ndarray[Any, Any]:
    """`value` as NumPy takes it, to see which kind of numbers it holds."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise _no_array(value, error) from None


def _no_array(value: Any, error: Exception) -> DTypeError:
    if isinstance(error, OverflowError):
        return DTypeError(str(error), hint="choose a wider dtype")
    return DTypeError(f"{type(value).__name__} is no array of numbers: {error}")


def as_tensor(value: Any, dtype: Any = None, axes: Any = None) -> Tensor:
    """The node of a Tensor or Variable; a constant made from anything else."""
    if isinstance(value, Operand):
        return value.node()
    if isinstance(value, (list, tuple)) and any(isinstance(v, Operand) for v in value):
        from_stack = "td.stack([...]) joins tensors into one"
        raise DTypeError("a list of tensors is not an array", hint=from_stack)
    array = to_array(value, dtype)
    return constant_node(array, as_names(axes, array.shape))


def weak_operand(value: Any, partner: Tensor) -> Tensor:
    """`value` as the operand beside `partner`: scalars are weak and take its dtype."""
    if isinstance(value, Operand):
        return value.node()
    value = waited(value)
    if isinstance(value, SCALARS):
        dtype = weak(plain(value), partner.type.dtype, current().dtype)
        try:
            if type(value) is SymbolicNumber or (
                type(value) is Symbolic and value > _SMALL
            ):
                return constant_node(SymbolicNumber(np.array, value, dtype))
            if type(value) is Symbolic:
                value = int(value)
            if _is_literal(value):
                return literal_node(value, dtype)
            if isinstance(value, np.integer):
                value = int(value)  # which raises where an array of it wraps
            return constant_node(np.array(value, dtype=dtype))
        except OverflowError:
            raise DTypeError(
                f"{value} does not fit into {dtype.name}, the dtype of its partner",
                hint="convert the partner to a wider dtype with x.astype(...)",
            ) from None
    return as_tensor(value)


def is_lent(array: np.ndarray[Any, Any]) -> bool:
    """True if an array lies in memory that others hold too: a file's, an array's."""
    base = array.base
    while isinstance(base, np.ndarray):
        # Referred to by what it is the base of, by `base` and by the call alone?
        if sys.getrefcount(base) > 3:
            return True
        base = base.base
    return base is not None


def unshared(node: Tensor) -> Tensor:
    """The node, or a copy where its memory was handed out to another library."""
    value = node.stored
    if not is_shared(value):
        return node
    assert isinstance(value, np.ndarray)
    return constant_node(value.copy(), node.type.axes)
