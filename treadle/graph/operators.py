"""Operators and methods of Tensor and Variable: functions looked up in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.boundary import shorten
from treadle.base.errors import (
    AxisError,
    CallError,
    DTypeError,
    ShapeError,
    TraceError,
    TreadleError,
)
from treadle.base.torch import name_elsewhere
from treadle.base.types import Names, Shape, Type
from treadle.graph.interchange import Interchange
from treadle.graph.methods import Methods
from treadle.graph.table import functions, provide

if TYPE_CHECKING:
    from treadle.graph.tensor import Tensor

__all__ = ["Operand", "functions", "provide"]


Binary = Callable[[Any, Any], "Tensor"]


def _both(name: str) -> tuple[Binary, Binary]:
    """The operator that a function of the table is, and the one from the right.

    Both have the names of operators, which only hand numbers on (`origin.py`).
    """

    def __operator__(self: Any, other: Any) -> Tensor:
        return getattr(functions, name)(self, other)

    def __reflected__(self: Any, other: Any) -> Tensor:
        return getattr(functions, name)(other, self)

    return __operator__, __reflected__


class Operand(Methods, Interchange):
    """The operators and methods that Tensor and Variable share."""

    __slots__ = ()
    if TYPE_CHECKING:

        @property
        def type(self) -> Type: ...

    def node(self) -> Tensor:
        """The graph node this stands for."""
        raise NotImplementedError

    # -- what is known without running ---------------------------------------------

    @property
    def shape(self) -> Shape:
        """The extents of the dimensions."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.type.dtype

    @property
    def axes(self) -> Names | None:
        """The names of the dimensions; None where none has one."""
        return self.type.axes

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.type.nbytes

    # -- arithmetic ----------------------------------------------------------------
    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("subtract")
    __mul__, __rmul__ = _both("multiply")
    __truediv__, __rtruediv__ = _both("divide")
    __floordiv__, __rfloordiv__ = _both("floor_divide")
    __mod__, __rmod__ = _both("remainder")
    __pow__, __rpow__ = _both("pow")
    __matmul__, __rmatmul__ = _both("matmul")
    __and__, __rand__ = _both("bitwise_and")
    __or__, __ror__ = _both("bitwise_or")
    __xor__, __rxor__ = _both("bitwise_xor")
    __lshift__, __rlshift__ = _both("bitwise_left_shift")
    __rshift__, __rrshift__ = _both("bitwise_right_shift")
    __eq__ = _both("equal")[0]  # type: ignore[assignment]
    __ne__ = _both("not_equal")[0]  # type: ignore[assignment]
    __lt__ = _both("less")[0]
    __le__ = _both("less_equal")[0]
    __gt__ = _both("greater")[0]
    __ge__ = _both("greater_equal")[0]
    __hash__ = object.__hash__

    def __neg__(self) -> Tensor:
        return functions.negative(self)

    def __pos__(self) -> Tensor:
        return self.node()

    def __abs__(self) -> Tensor:
        return functions.abs(self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __invert__(self) -> Tensor:
        return functions.bitwise_invert(self)

    # -- shape and reduction methods -----------------------------------------------

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions reversed."""
        return functions.permute_dims(self, None)

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions swapped."""
        return functions.matrix_transpose(self)

    @property
    def at(self) -> Any:
        """`x.at[i].set(e)` and `.add(e)`: a new tensor with some elements changed."""
        return functions.at(self)

    def __getitem__(self, key: Any) -> Tensor:
        return functions.getitem(self, key)

    def reshape(self, *shape: Any) -> Tensor:
        """The elements under another shape, of which one extent may be -1."""
        wanted = shape[0] if len(shape) == 1 else shape
        return functions.reshape(self, wanted)

    def transpose(self, *axes: Any) -> Tensor:
        """The dimensions in another order, reversed without one: as NumPy's.

        Two of them are torch's word for exchanging these, which `swapaxes` does.
        """
        two = len(axes) == 2 and all(isinstance(k, int) for k in axes)
        if two and (self.type.ndim != 2 or [k % 2 for k in axes] == [0, 1]):
            raise AxisError(
                f"{axes} are exchanged in torch, and the order of all in NumPy",
                hint=f"x.swapaxes{axes}, or x.permute(...)",
            ).located("transpose", repr(self.type))
        order = (
            axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes
        )
        return functions.permute_dims(self, order or None)

    def astype(self, dtype: Any) -> Tensor:
        """The elements in another dtype."""
        return functions.astype(self, dtype)

    def sum(
        self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
    ) -> Tensor:
        """The sum over dimensions."""
        return functions.sum(self, axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The mean over dimensions."""
        return functions.mean(self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The greatest elements over dimensions."""
        return functions.max(self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The least elements over dimensions."""
        return functions.min(self, axis, keepdims=keepdims)

    def prod(
        self, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
    ) -> Tensor:
        """The product over dimensions."""
        return functions.prod(self, axis, dtype=dtype, keepdims=keepdims)

    def all(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The truth of all elements over dimensions."""
        return functions.all(self, axis, keepdims=keepdims)

    def any(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The truth of any element over dimensions."""
        return functions.any(self, axis, keepdims=keepdims)

    def var(
        self, axis: Any = None, *, correction: float = 0, keepdims: bool = False
    ) -> Tensor:
        """The variance over dimensions: squared distances over n - correction."""
        return functions.var(self, axis, correction=correction, keepdims=keepdims)

    def std(
        self, axis: Any = None, *, correction: float = 0, keepdims: bool = False
    ) -> Tensor:
        """The standard deviation over dimensions: the root of the variance."""
        return functions.std(self, axis, correction=correction, keepdims=keepdims)

    def argmin(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The places of the least elements along a dimension, or among all."""
        return functions.argmin(self, axis, keepdims=keepdims)

    def argmax(self, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        """The places of the greatest elements along a dimension, or among all."""
        return functions.argmax(self, axis, keepdims=keepdims)

    # -- values --------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a read-only NumPy array; runs what is needed."""
        try:
            return functions.value(self)
        except TreadleError as error:
            shorten(error)
            raise

    def item(self) -> Any:
        """The value of a tensor of one element as a Python scalar."""
        value = self.numpy()
        if value.size != 1:
            raise ShapeError(f"item() needs one element, {self.type} has {value.size}")
        return value.item()

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers."""
        return self.numpy().tolist()

    def backward(
        self, gradient: Any = None, retain_graph: Any = None, create_graph: Any = None
    ) -> None:
        """Add the gradient of this scalar into `p.grad` of its parameters; of another
        tensor, that of the sum of its products with `gradient`.

        A graph stays, and gradients are graphs: torch's flags ask for nothing.
        """
        if gradient is None:
            functions.backward(self)
        else:
            along = functions.stop_gradient(gradient)
            functions.backward(functions.sum(functions.multiply(self, along)))

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def _real_item(self, kind: str) -> Any:
        """The value of a real scalar, to be made a Python number of."""
        value = self.item()
        if isinstance(value, complex):
            raise DTypeError(f"{self.type} is no {kind}", hint="take td.real(x)")
        return value

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.type.size != 1:
            raise ShapeError(
                f"{self.type} has {self.type.size} elements, so it is no one truth",
                hint="x.all() and x.any() are",
            )
        return bool(self.item())

    def __round__(self, digits: int | None = None) -> Tensor:
        """The nearest whole numbers, or numbers of so many decimals, as NumPy's."""
        if not digits:
            return functions.round(self)
        if self.type.dtype.kind in "biu":
            raise DTypeError(f"{self.type} has no decimals to round to")
        scale = 10.0**digits
        return functions.round(self * scale) / scale

    def __index__(self) -> int:
        if self.type.dtype.kind not in "iu" or self.type.shape:
            raise DTypeError(f"only an integer scalar can be an index, not {self.type}")
        return int(self.item())

    def __len__(self) -> int:
        if not self.type.shape:
            raise CallError("a scalar tensor has no length")
        return self.type.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        try:
            return bool(np.asarray(self.numpy() == value).any())
        except (TypeError, ValueError) as error:  # other extents, or no numbers
            raise ShapeError(f"{value!r} is no item of {self.type}: {error}") from None

    def __format__(self, spec: str) -> str:
        return self._shown(lambda: format(self.item(), spec)) if spec else str(self)

    def __str__(self) -> str:
        return self._shown(lambda: str(self.numpy()))

    def _shown(self, value: Callable[[], str]) -> str:
        """A value as text; while a function is traced, what is known without one."""
        try:
            return value()
        except TraceError:
            return repr(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError(
            "a tensor is immutable, its items cannot be assigned",
            hint="x = x.at[i].set(e) makes a changed copy; v[i] = e assigns a Variable",
        )


for _name, _f in vars(Operand).items():  # to pickle
    if getattr(_f, "__name__", None) in ("__operator__", "__reflected__"):
        _f.__qualname__ = f"{Operand.__qualname__}.{_name}"
name_elsewhere(Operand, "Tensor", "x")
