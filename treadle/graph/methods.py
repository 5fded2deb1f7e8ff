"""Methods of tensors under torch's names, where torch means what they do here."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from treadle.base.dtypes import kind
from treadle.base.errors import ShapeError
from treadle.base.types import Shape, Type, as_integers
from treadle.graph.elementwise import ElementwiseMethods
from treadle.graph.table import functions

if TYPE_CHECKING:
    from treadle.graph.tensor import Tensor


class Size(int):
    """The number of elements of a tensor; called, as torch does, its shape.

    >>> x = td.zeros((2, 3))
    >>> x.size, x.size(), x.size(-1)
    (6, (2, 3), 3)
    """

    shape: Shape

    def __call__(self, dim: Any = None) -> Any:
        """The shape, or the extent of one dimension."""
        if dim is None:
            return self.shape
        try:
            return self.shape[dim]
        except (IndexError, TypeError):
            raise ShapeError(f"there is no dimension {dim!r} in {self.shape}") from None


def _listed(items: tuple[Any, ...]) -> Any:
    """The items, passed one by one or as one sequence."""
    return items[0] if len(items) == 1 else items


class Methods(ElementwiseMethods):
    """Methods of Tensor and Variable under torch's names.

    A dimension is an `axis`, which may be called `dim` wherever it is given by name.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def type(self) -> Type: ...

        def node(self) -> Tensor: ...

    # -- shapes --------------------------------------------------------------------

    @property
    def size(self) -> Size:
        """The number of elements; `x.size()` is the shape, as in torch."""
        size = Size(self.type.size)
        size.shape = self.type.shape
        return size

    def dim(self) -> builtins.int:
        """The number of dimensions."""
        return len(self.type.shape)

    def numel(self) -> builtins.int:
        """The number of elements."""
        return self.type.size

    def element_size(self) -> builtins.int:
        """The bytes of one element."""
        return self.type.dtype.itemsize

    def view(self, *shape: Any) -> Tensor:
        """The elements under another shape, of which one extent may be -1.

        >>> td.zeros((2, 3)).view(-1, 2).shape
        (3, 2)
        """
        return functions.reshape(self, _listed(shape))

    def view_as(self, other: Any) -> Tensor:
        """The elements under the shape of another tensor."""
        return functions.reshape(self, other.shape)

    reshape_as = view_as

    def permute(self, *axes: Any) -> Tensor:
        """The dimensions in this order.

        >>> td.zeros((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return functions.permute_dims(self, _listed(axes))

    def t(self) -> Tensor:
        """A matrix transposed; a vector or a scalar as it is."""
        if len(self.type.shape) > 2:
            raise ShapeError(
                f"t() is of two dimensions at most, got {self.type}",
                hint="x.mT transposes the last two, x.permute(...) any",
            )
        return functions.permute_dims(self, None)

    def unsqueeze(self, axis: Any) -> Tensor:
        """A new dimension of extent 1 at this place of the result."""
        return functions.expand_dims(self, axis)

    def squeeze(self, axis: Any = None) -> Tensor:
        """Dimensions of extent 1 dropped: those named, or all."""
        return functions.squeeze(self, axis)

    def flatten(
        self, start_dim: builtins.int = 0, end_dim: builtins.int = -1
    ) -> Tensor:
        """The dimensions from one to another as one."""
        return functions.flatten(self, start_dim, end_dim)

    def ravel(self) -> Tensor:
        """All elements in one dimension."""
        return functions.reshape(self, (-1,))

    def unflatten(self, axis: Any, sizes: Any) -> Tensor:
        """A dimension as several, whose extents multiply to its own."""
        return functions.unflatten(self, axis, sizes)

    def expand(self, *shape: Any) -> Tensor:
        """Broadcast to a shape; -1 leaves an extent as it is.

        >>> td.zeros((3, 1)).expand(2, -1, 4).shape
        (2, 3, 4)
        """
        wanted, current = as_integers(_listed(shape)), self.type.shape
        if wanted is None or len(wanted) < len(current):
            raise ShapeError(f"{self.type} cannot be expanded to {_listed(shape)!r}")
        new = len(wanted) - len(current)
        if -1 in wanted[:new]:
            raise ShapeError("-1 stands for an extent that is there, not a new one")
        kept = zip(wanted[new:], current, strict=True)
        extents = wanted[:new] + tuple(n if m == -1 else m for m, n in kept)
        return functions.broadcast_to(self, extents)

    def expand_as(self, other: Any) -> Tensor:
        """Broadcast to the shape of another tensor."""
        return functions.broadcast_to(self, other.shape)

    def tile(self, *counts: Any) -> Tensor:
        """Copies of the whole side by side, so many along each dimension."""
        return functions.tile(self, _listed(counts))

    def swapaxes(self, first: Any, second: Any) -> Tensor:
        """Two dimensions exchanged."""
        return functions.swapaxes(self, first, second)

    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Dimensions moved to other places."""
        return functions.moveaxis(self, source, destination)

    movedim, swapdims = moveaxis, swapaxes

    def unbind(self, axis: Any = 0) -> tuple[Tensor, ...]:
        """The parts along a dimension, without it."""
        return tuple(functions.unstack(self, axis))

    def flip(self, axis: Any) -> Tensor:
        """The elements in the reverse order along dimensions."""
        return functions.flip(self, axis)

    def roll(self, shifts: Any, axis: Any = None) -> Tensor:
        """The elements moved along dimensions; those beyond the end come first."""
        return functions.roll(self, shifts, axis)

    def index_select(self, axis: Any, index: Any) -> Tensor:
        """The parts at these places of a dimension."""
        return functions.index_select(self, axis, index)

    # -- types, copies, and what needs nothing here ------------------------------------

    def type_as(self, other: Any) -> Tensor:
        """The elements in the dtype of another tensor."""
        return functions.astype(self, other.dtype)

    def float(self) -> Tensor:
        """The elements as float32."""
        return functions.astype(self, "float32")

    def double(self) -> Tensor:
        """The elements as float64."""
        return functions.astype(self, "float64")

    def half(self) -> Tensor:
        """The elements as float16."""
        return functions.astype(self, "float16")

    def bfloat16(self) -> Tensor:
        """The elements as bfloat16."""
        return functions.astype(self, "bfloat16")

    def int(self) -> Tensor:
        """The elements as int32."""
        return functions.astype(self, "int32")

    def long(self) -> Tensor:
        """The elements as int64."""
        return functions.astype(self, "int64")

    def bool(self) -> Tensor:
        """Which elements are not 0."""
        return functions.astype(self, "bool")

    def is_floating_point(self) -> builtins.bool:
        """Return True if the elements are floats."""
        return kind(self.type.dtype) == "float"

    def detach(self) -> Tensor:
        """The same value, which passes no gradient on."""
        return functions.stop_gradient(self)

    def clone(self) -> Tensor:
        """The tensor itself, as it never changes; of a Variable its present value."""
        return self.node()

    contiguous = cpu = clone

    # -- elements ------------------------------------------------------------------

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """`value` where the mask is True."""
        return functions.where(mask, value, self)

    def where(self, condition: Any, other: Any) -> Tensor:
        """The elements where the condition holds, else those of `other`."""
        return functions.where(condition, self, other)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """The elements held between two bounds."""
        return functions.clip(self, min, max)

    clamp = clip

    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """The elements on and below a diagonal, 0 above."""
        return functions.tril(self, diagonal)

    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """The elements on and above a diagonal, 0 below."""
        return functions.triu(self, diagonal)

    def argsort(self, axis: Any = -1, *, descending: builtins.bool = False) -> Tensor:
        """The places of the elements in sorted order, along a dimension."""
        return functions.argsort(self, axis, descending=descending)

    def cumsum(self, axis: Any) -> Tensor:
        """The sums of each element and those before it."""
        return functions.cumulative_sum(self, axis)

    def cumprod(self, axis: Any) -> Tensor:
        """The products of each element and those before it."""
        return functions.cumulative_prod(self, axis)

    def amax(self, axis: Any = None, *, keepdims: builtins.bool = False) -> Tensor:
        """The greatest elements over dimensions."""
        return functions.max(self, axis, keepdims=keepdims)

    def amin(self, axis: Any = None, *, keepdims: builtins.bool = False) -> Tensor:
        """The least elements over dimensions."""
        return functions.min(self, axis, keepdims=keepdims)

    def softmax(self, axis: Any = -1) -> Tensor:
        """e**x / sum(e**x) along a dimension."""
        return functions.softmax(self, axis)

    def log_softmax(self, axis: Any = -1) -> Tensor:
        """log(softmax(x)) along a dimension."""
        return functions.log_softmax(self, axis)

    def logsumexp(self, axis: Any = None, *, keepdims: builtins.bool = False) -> Tensor:
        """log(sum(e**x)) over dimensions."""
        return functions.logsumexp(self, axis, keepdims=keepdims)
