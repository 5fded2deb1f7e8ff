"""Memory of running programs: leases of planned arenas, and arrays for the user.

Modes: "fast" hands out what is there; "poison" fills it with NaN before use and after;
"guard" gives each buffer pages of its own, so that a kernel that touches a byte beside
its buffers dies there. Kernels may assume the alignment of an element, no neighbors.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from treadle.base.errors import OptionError, RunError
from treadle.engines.native.execution.blocks import (
    KEEP,
    POISON,
    BlockPool,
    Loan,
    mapping_errors,
    next_run,
)
from treadle.engines.native.execution.guarded import Guarded
from treadle.program.memory import MemoryPlan

MODES = ("fast", "poison", "guard")


def _checked(mode: str, side: str) -> None:
    if mode not in MODES:
        raise OptionError(f"an arena's mode is one of {', '.join(MODES)}, not {mode!r}")
    if side not in ("start", "end"):
        raise OptionError(f"a guard's side is 'start' or 'end', not {side!r}")


class _Pooled:
    """Memory of one mode, whose blocks a pool keeps for the next one."""

    fitting = False

    def __init__(
        self, mode: str = "fast", *, side: str = "end", keep: int = KEEP
    ) -> None:
        _checked(mode, side)
        self.mode = mode
        self.side = side
        self.pool = BlockPool(fitting=self.fitting, keep=keep)

    def live_bytes(self) -> int:
        """Bytes leased, or under arrays that are alive."""
        return self.pool.live_bytes()

    def idle_bytes(self) -> int:
        """Bytes kept for the next lease or array."""
        return self.pool.idle_bytes()

    def trim(self) -> None:
        """Gives all idle memory back to the system."""
        self.pool.trim()


class Arena(_Pooled):
    """Gives each run its own memory; runs at the same time have different leases."""

    def lease(self, sizes: Sequence[int], plan: MemoryPlan, scratch: int = 0) -> Lease:
        """Memory for buffers of `sizes` bytes at the offsets of `plan`, for one run.

        Beside them it has `scratch` bytes that no plan knows.
        """
        next_run()
        if self.mode == "guard":
            return GuardLease(self, sizes, scratch)
        if self.mode == "poison":
            return PoisonLease(self, sizes, plan, scratch)
        return Lease(self, sizes, plan, scratch)


class Lease:
    """The memory of one run, until `release`.

    `addresses` holds one pointer a buffer and is not to be written. A lease of the same
    plan on the same block has the very same array, so a table built of it stays right.
    `scratch` is the address of the memory beside the buffers.
    """

    addresses: np.ndarray[Any, np.dtype[np.int64]]
    scratch: int

    def __init__(
        self, arena: Arena, sizes: Sequence[int], plan: MemoryPlan, scratch: int
    ) -> None:
        self._pool = arena.pool
        self._sizes = sizes
        self._plan = plan
        block = self._pool.take(plan.size + scratch or 1)
        self._loan: Loan | None = self._pool.lend(block, self)
        if block.note is None or block.note[0] is not plan:
            addresses = plan.table + block.address
            addresses.flags.writeable = False
            block.note = (plan, addresses)
        self.addresses = block.note[1]
        self.scratch = block.address + plan.size

    def poison(self, number: int) -> None:
        """Says that buffer `number` is dead; in fast mode nothing happens."""

    def release(self) -> None:
        """Ends the lease; a second time does nothing."""
        loan, self._loan = self._loan, None
        if loan is not None:
            self._pool.give(loan)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class PoisonLease(Lease):
    """Every byte is NaN until it is written and after its buffer's last use."""

    def __init__(
        self, arena: Arena, sizes: Sequence[int], plan: MemoryPlan, scratch: int
    ) -> None:
        super().__init__(arena, sizes, plan, scratch)
        self._fill()

    def poison(self, number: int) -> None:
        ctypes.memset(int(self.addresses[number]), POISON, self._sizes[number])

    def release(self) -> None:
        self._fill()
        super().release()

    def _fill(self) -> None:
        if self._loan is not None:
            ctypes.memset(self._loan.block.address, POISON, self._plan.size)


class GuardLease(Lease):
    """Each buffer at a protected page, filled with NaN, untouchable once poisoned."""

    def __init__(self, arena: Arena, sizes: Sequence[int], scratch: int) -> None:
        with mapping_errors(sum(sizes) + scratch):
            pages = Guarded([*sizes, scratch], arena.side)
        arena.pool.note(pages)
        self._pages: Guarded | None = pages
        *places, self.scratch = pages.addresses()
        self.addresses = np.array(places, np.int64)
        self.addresses.flags.writeable = False

    def poison(self, number: int) -> None:
        if self._pages is not None:
            if self._pages.damaged(number):
                self._complain([number])
            self._pages.close(number)

    def release(self) -> None:
        pages, self._pages = self._pages, None
        if pages is None:
            return
        damaged = [k for k in range(len(pages.offsets)) if pages.damaged(k)]
        if damaged:
            self._complain(damaged)

    def _complain(self, numbers: list[int]) -> None:
        raise RunError(
            "a kernel wrote beside "
            + ", ".join(f"buffer {number}" for number in numbers)
        )


class _Owner(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes under a result and all its views; dies with the last of them."""

    pages: Guarded | None = None  # that the bytes are in, in guard mode


class Results(_Pooled):
    """Arrays for the user, whose memory comes back when no view of it is left."""

    fitting = True

    def empty(self, shape: Sequence[int], dtype: DTypeLike) -> np.ndarray[Any, Any]:
        """An array in C order, aligned to 64 bytes (in guard mode to an element)."""
        return self.lend(shape, dtype)[0]

    def lend(
        self, shape: Sequence[int], dtype: DTypeLike, loose: bool = False
    ) -> tuple[np.ndarray[Any, Any], int]:
        """`empty`, and the address of its first element; `loose` as a pool's `take`."""
        kind = np.dtype(dtype)
        bytes = math.prod(shape) * kind.itemsize
        if self.mode == "guard" and not kind.hasobject:
            return self._guarded(shape, kind, bytes)
        if not bytes or kind.hasobject:
            nothing = np.empty(shape, kind)
            return nothing, int(nothing.ctypes.data)
        block = self.pool.take(bytes, loose)
        owner = _Owner((bytes,), np.uint8, block.memory, block.offset)
        self.pool.lend(block, owner)
        if self.mode == "poison":
            owner.fill(POISON)
        return np.ndarray(shape, kind, owner), block.address

    def _guarded(
        self, shape: Sequence[int], kind: np.dtype[Any], bytes: int
    ) -> tuple[np.ndarray[Any, Any], int]:
        with mapping_errors(bytes):
            pages = Guarded([bytes], self.side)
        owner = _Owner((bytes,), np.uint8, pages.memory, pages.offsets[0])
        owner.pages = pages
        self.pool.note(pages)
        return np.ndarray(shape, kind, owner), pages.addresses()[0]
