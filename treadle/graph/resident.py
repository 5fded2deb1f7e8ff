"""Resident values (in an engine's memory) and futures, copied home when read."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from treadle.base.dtypes import DType
from treadle.base.errors import RunError
from treadle.base.locks import lock
from treadle.base.types import Shape, Type
from treadle.core import native

if TYPE_CHECKING:
    from treadle.graph.claim import InPlace

# Who queues a run or waits for one holds it, who begins one that writes over values
# that others may ask for, and who copies such a value.
order = lock()


class Resident:
    """A value in memory that only its engine reads; `numpy` brings it home, once.

    An engine with a memory of its own derives a class, says in `fetch` how a value is
    copied out, and frees the memory when the last reference is gone. The value never
    changes; its copy at home may be in a user's hands and is never overwritten.
    """

    __slots__ = ("__weakref__", "home", "type")

    def __init__(self, type_: Type) -> None:
        self.type = type_
        self.home: np.ndarray[Any, Any] | None = None

    def fetch(self) -> np.ndarray[Any, Any]:
        """A copy of the value in the host's memory."""
        raise NotImplementedError

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value on the host; a second look copies nothing."""
        value = self.home
        if value is None:
            value = self.fetch()
            value.flags.writeable = False
            self.home = value
        return value

    def belongs(self, node: Any) -> None:
        """Know of a node that has this value."""

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def nbytes(self) -> int:
        return self.type.nbytes


class Future(Resident):
    """An array that a `run` is writing; whoever looks at it waits for that.

    When it is known to be written the node that has the value gets the array itself,
    unless more will be written there (`InPlace`). Where writing fails it gets what was
    `before`: nothing was written over, then.
    """

    __slots__ = ("_node", "array", "before", "run")

    def __init__(self, type_: Type, array: np.ndarray[Any, Any], run: Futures) -> None:
        self.type, self.home = type_, None  # as the base does, without the detour
        self.array, self.run = array, run
        self.before: np.ndarray[Any, Any] | Future | None = None
        self._node: Callable[[], Any] | None = None

    def numpy(self) -> np.ndarray[Any, Any]:
        while True:
            run = self.run
            run.wait()
            if run.lost:
                what = f"what was to write this value ({self.type!r}) has failed"
                raise RunError(what)
            array = self.array  # from here on it is counted by who takes it away
            if run.claim is not None:
                return run.claim.value_of(self)
            if run.is_over:
                return array

    def belongs(self, node: Any) -> None:
        if self.run.went_well:
            node.stored = self.array
        else:
            self._node = weakref.ref(node)

    def arrive(self, well: bool = True) -> None:
        """The array has been written, unless that did not go `well`."""
        before, self.before = self.before, None
        if not well:
            if before is None:
                return
            self.run = Futures()  # of one that is not lost
            self.array = before.array if isinstance(before, Future) else before
        flags = self.array.flags
        if flags.writeable:  # to ask takes less than to set
            flags.writeable = False
        node = self._node and self._node()
        if node is not None and node.stored is self:
            node.stored = self.array


if native is not None:
    native.bind_futures(Future)


class LateError(RunError):
    """A run that was begun has failed: that with this `ticket`."""

    ticket: RunTicket


class RunTicket(Protocol):
    """The ticket of an asynchronous run."""

    @property
    def is_over(self) -> bool:
        """True if it is, which nobody may have been told yet."""

    @property
    def is_queued(self) -> bool:
        """True if native code has the run, to the very instruction."""

    def wait(self) -> None:
        """Be there until it is over; raises RunError."""


class Futures:
    """The arrays of one run, which is to have a `ticket` as soon as it has begun. They
    are `lost` if it fails.
    """

    claim: InPlace | None = None  # while a run is about to write over them

    def __init__(self) -> None:
        self.ticket: RunTicket | None = None
        self.lost = self._over = False
        self._every: list[Future] = []

    def of(self, type_: Type, array: np.ndarray[Any, Any]) -> Future:
        """A value that the run writes; it is told when that has been done."""
        future = Future(type_, array, self)
        self._every.append(future)
        return future

    def wait(self) -> None:
        """Be there until the run is over; raises RunError."""
        if self.ticket is not None and (self.lost or not self._over):
            self.ticket.wait()

    @property
    def is_over(self) -> bool:
        """True if the run is, which nobody may have been told yet."""
        return self._over or self.ticket is None or self.ticket.is_over

    @property
    def went_well(self) -> bool:
        """True if the run is known to be over, and has written all."""
        return self._over and not self.lost

    def done(self, well: bool) -> None:
        """The run is over, and went well or not."""
        self._over, self.lost, every = True, not well, self._every
        self._every = []  # they refer to this
        for future in every:
            future.arrive(well)


class Runs(Futures):
    """Runs that write the same arrays, one after the other. One that fails leaves what
    was there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._left = 0  # that are to be over

    @property
    def went_well(self) -> bool:
        return False  # there is always one more to come

    def begin(self) -> None:
        """One more is about to begin."""
        self._left += 1
        self._over = False

    def done(self, well: bool) -> None:
        self._left -= 1
        self._over = not self._left


def soon(value: Any) -> Any:
    """The array of a value, which a run that is queued may yet be writing."""
    if type(value) is Future:
        array = value.array
        return array if value.run.claim is None else value.numpy()
    return value.numpy() if isinstance(value, Resident) else value


def array_of(node: Any, begin: bool) -> Any:
    """The array of a node; where a run only begins it may not be there yet."""
    stored = node.stored
    if not isinstance(stored, Resident):
        return stored
    array = soon(stored) if begin else node.array
    return array if node.stored is stored else node.array  # as in `Tensor.array`


def newer(value: Any, before: Any) -> Any:
    """A value that takes the place of another one: that stays if it is lost."""
    if type(value) is Future and type(value.run) is not Runs:
        value.before = before
    return value
