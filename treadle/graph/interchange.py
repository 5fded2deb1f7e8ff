"""Protocols by which other array libraries read a Tensor or Variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from treadle.base.devices import HOST, as_device
from treadle.base.dtypes import bfloat16
from treadle.base.errors import DTypeError
from treadle.core import native
from treadle.graph.table import functions

if TYPE_CHECKING:
    from treadle.graph.tensor import Tensor

    class _Buffer:
        """The memory of a value, as `__array__` gives it: NumPy asks this first."""

else:
    _Buffer = getattr(native, "Buffer", object)

CPU = (1, 0)  # DLPack's number of the host, and of the one there is
FLAGGED = (1, 0)  # the version of DLPack from which on read-only memory has a flag

# Arrays whose memory was handed out, by their identity.
_shared: WeakValueDictionary[int, np.ndarray[Any, Any]] = WeakValueDictionary()


def is_shared(array: Any) -> bool:
    """True if a value's memory was handed out to a library that may write to it."""
    return array is not None and bool(_shared) and _shared.get(id(array)) is array


class Interchange(_Buffer):
    """The protocols by which other array libraries see an operand."""

    __slots__ = ()
    __array_priority__ = 1000

    if TYPE_CHECKING:

        @property
        def dtype(self) -> np.dtype[Any]: ...

        def node(self) -> Tensor: ...

        def numpy(self) -> np.ndarray[Any, Any]: ...

    # -- NumPy ---------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = self.numpy()
        if dtype is not None and value.dtype != dtype:
            if copy is False:
                raise ValueError(f"{value.dtype} as {dtype} is a copy")
            return value.astype(dtype)
        return value.copy() if copy else value

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The value's memory, which whoever reads the dictionary keeps alive."""
        value = self.numpy()
        if value.dtype == bfloat16:
            raise AttributeError("__array_interface__ has no name for bfloat16")
        if not value.flags.c_contiguous:  # then by __array__
            raise AttributeError("__array_interface__ is of elements in order")
        # The array, not its address: memory must not go where it is looked at.
        return {
            "data": value,
            "shape": value.shape,
            "typestr": value.dtype.str,
            "version": 3,
        }

    def __array_ufunc__(self, ufunc: Any, method: str, *xs: Any, **options: Any) -> Any:
        return functions.array_ufunc(ufunc, method, xs, options)

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any],
        options: Mapping[str, Any],
    ) -> Any:
        return functions.array_function(function, args, options)

    def __reduce__(self) -> Any:
        return functions.pickled(self)

    # -- the array API standard ----------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return functions.array_namespace(api_version)

    @property
    def device(self) -> str:
        """The device of the value for who looks at it: always the host."""
        return HOST

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The same on a device, of which there is one."""
        as_device(device)
        return self.node()

    # -- DLPack --------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The value as a DLPack capsule: its own memory, flagged as read-only.

        It is copied where the consumer knows no flag (`max_version` below 1.0), and
        where anything else has this memory: a Variable, another tensor. So a consumer
        that writes although it is told not to changes no state.
        """
        if dl_device is not None and tuple(dl_device) != CPU:
            raise BufferError(f"values are on the device {CPU}, not {dl_device}")
        if self.dtype == bfloat16:
            raise DTypeError(
                "NumPy exports no bfloat16 by DLPack",
                hint="x.astype('float32'), which holds all its values",
            )
        flagged = max_version is not None and tuple(max_version) >= FLAGGED
        node = functions.settled(self)
        # Asked before the value is held here, for holders are counted.
        shares = copy is not True and flagged and functions.is_sole(node)
        if copy is False and not shares:
            raise BufferError(
                "this memory is not handed out without a copy: it is a Variable's or "
                "another tensor's too, or the consumer knows no read-only flag"
            )
        value = node.numpy()
        if not shares:
            return _exported(value.copy(), flagged)
        _shared[id(value)] = value
        return _exported(value, flagged)


def _exported(value: np.ndarray[Any, Any], flagged: bool) -> Any:
    """NumPy's capsule of an array, in the newest form the consumer knows."""
    return value.__dlpack__(max_version=FLAGGED if flagged else None)
