"""Numbers that a run may yet be writing."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from treadle.graph.resident import Resident


class Awaited(NDArrayOperatorsMixin):
    """A number that is waited for when somebody looks at it: then it is NumPy's scalar.

    >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.25)
    >>> loss = opt.step(x * x)
    >>> loss, loss + 1, f"{loss:.2f}", loss.dtype
    (np.float32(4.0), np.float32(5.0), '4.00', dtype('float32'))
    """

    __slots__ = ("_stored",)

    def __init__(self, stored: Any) -> None:
        self._stored = stored

    @property
    def value(self) -> Any:
        """The number, as NumPy's scalar; raises what the run has raised."""
        stored = self._stored
        if isinstance(stored, Resident):
            stored = self._stored = stored.numpy()
        return stored[()]

    def numpy(self) -> Any:
        """The number as an array without dimensions, as that of a Tensor.

        >>> td.optim.SGD(lr=0.5).step(td.param("x", init=3.0)).numpy()
        array(3., dtype=float32)
        """
        return np.asarray(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.value, dtype)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **more: Any
    ) -> Any:
        arrays = map(waited, inputs)
        return getattr(ufunc, method)(*arrays, **more)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.value, digits)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(self.value)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __reduce__(self) -> Any:
        return self.value.__reduce__()


numbers.Real.register(Awaited)

NUMBERS = (np.generic, Awaited)  # single ones that computing gives out


def waited(x: Any) -> Any:
    """The value, or the number that it is once it is there."""
    return x.value if isinstance(x, Awaited) else x
