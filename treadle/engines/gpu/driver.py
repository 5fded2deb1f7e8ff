"""The interface of a GPU driver: memory, copies, kernels and launches.

The engine plans memory and launches; a driver knows one API (OpenCL, WebGPU, CUDA) and
nothing of graphs. All calls of one driver come from one thread at a time, and what is
launched runs in the order of the calls: a copy waits for the launches before it.

A kernel reaches a driver as `Work` (`work.py`), which has no sizes. The driver gives
it a builder of its own, a `DeviceBuilder` (`builder.py`): `work.write(builder)` appends
the whole kernel to that, and `builder.text()` is what the driver's compiler reads. So
what a kernel computes, item by item, is written once for all drivers.

    entry = driver.compile(work)                 # once for all sizes
    numbers = driver.numbers(work, values)       # once for each size
    launch = driver.bind(entry, groups, [(memory, 0), (memory, 4096)], numbers)
    driver.submit([launch, launch])
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import Cache
from treadle.base.errors import OutOfMemoryError, RunError
from treadle.engines.gpu.work import Work

KERNELS = 4096
STEP = 128  # bytes where work items go in step, 32 of them
# Of numbers that all devices have: a 16-bit float is computed as one of 32.
NARROW = frozenset(
    [
        *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32"),
        *("float16", "bfloat16", "float32"),
    ]
)


class UnsupportedKernelError(RunError):
    """A kernel that the device has no instructions for: its graph runs by NumPy."""


@dataclass(frozen=True)
class DeviceTraits:
    """A device and what kernels may ask of it.

    name: as its vendor calls it; api: the driver's name; vector_bytes: what lanes of a
    fold are counted by, 128 where 32 work items go in step; buffers: the most that a
    kernel may have; alignment: of what begins within an allocation, in bytes; dtypes:
    the names of those that kernels load, store and compute with (a 16-bit float is
    computed as float32).
    """

    name: str
    api: str
    vector_bytes: int
    buffers: int
    alignment: int
    dtypes: frozenset[str]

    def __str__(self) -> str:
        return f"{self.api}: {self.name}"


class Allocation:
    """Memory of a device, by the handle that its API has for it; it is freed by
    `DeviceDriver.free` and in no other way."""

    __slots__ = ("bytes", "handle")

    def __init__(self, handle: Any, bytes: int) -> None:
        self.handle, self.bytes = handle, bytes


Place = tuple[Allocation, int]  # an allocation, and a byte where a buffer begins
Call = Callable[[], Any]


def place_at(place: Place, bytes: int) -> Place:
    """The place so many bytes behind another one."""
    memory, start = place
    return (memory, start + bytes) if bytes else place


class DeviceDriver(Protocol):
    """One device behind one API.

    Every method raises RunError where the device refuses or is lost, with what the API
    said, and OutOfMemoryError where it has no memory left: nothing has happened then.
    """

    device: DeviceTraits

    def allocate(self, bytes: int) -> Any:
        """Memory of so many bytes, at least 1, its content anything."""

    def free(self, memory: Any) -> None:
        """Give memory back, as soon as what has been launched is done with it."""

    def upload(self, array: Array, memory: Any, offset: int) -> None:
        """Copy a contiguous array of the host to `offset`; it may change afterwards."""

    def download(self, memory: Any, offset: int, array: Array) -> None:
        """Fill a contiguous array of the host from `offset`, after all before."""

    def copy(self, source: Place, target: Place, bytes: int) -> None:
        """Copy within the device; the two do not overlap."""

    def fill(self, place: Place, bytes: int, byte: int) -> None:
        """Set bytes to a value; they and where they begin are multiples of 4."""
        self.upload(np.full(bytes, byte, np.uint8), *place)

    def compile(self, work: Work) -> Any:
        """The kernel of some work as it is launched; the driver keeps what it has."""

    def text(self, work: Work) -> str:
        """The text of a kernel that is compiled."""

    def numbers(self, work: Work, values: Sequence[int]) -> Any:
        """The integers of a launch, in a form that is used many times: `values` has
        one for each of `work.slots`, as `Work.encoded` gives them.
        """

    def bind(
        self, entry: Any, groups: int, buffers: Sequence[Place], numbers: Any
    ) -> Call:
        """A launch of `groups` work groups of `work.items` items each, for any number
        of times: `buffers` has one for each of `work.buffers`, in their order.
        """

    def submit(self, calls: Sequence[Call]) -> None:
        """Make launches that are bound, and calls of `copy`, one after the other."""
        for call in calls:
            call()


class CompilingDriver(DeviceDriver):
    """A driver that compiles texts, and allocates as many bytes at once as `most`.

    What an API raises is told as an error of the library; `full` where there is no
    memory left.
    """

    def __init__(
        self,
        title: str,
        most: int,
        errors: tuple[type[Exception], ...],
        full: type[Exception],
    ) -> None:
        self._title, self._most = title, most
        self._raised, self._full = (full, *errors), full
        self._entries: Cache[Work, Any] = Cache(f"{title} kernels", KERNELS)

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except RunError:
            raise
        except self._raised as error:
            raise self._told(error) from error

    def _told(self, error: Exception) -> RunError:
        """An error of the API as one of the library."""
        if isinstance(error, self._full):
            return OutOfMemoryError(f"the device has no memory left: {error}")
        return RunError(f"the {self._title} device refuses: {error}")

    def _check(self, bytes: int) -> None:
        """Raise OutOfMemoryError if an allocation is larger than one may be."""
        if bytes > self._most:
            raise OutOfMemoryError(
                f"{bytes:,} bytes are more than the device allocates at once, "
                f"{self._most:,}"
            )

    def submit(self, calls: Sequence[Call]) -> None:
        with self._refusals():
            super().submit(calls)

    def compile(self, work: Work) -> Any:
        entry = self._entries.get(work)
        if entry is None:
            entry = self._entries[work] = self._compiled(work)
        return entry

    @abstractmethod
    def _compiled(self, work: Work) -> Any:
        """The kernel of some work, compiled now."""
