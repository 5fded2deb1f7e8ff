"""Memory of an emulated device: allocations with gaps, addresses that are checked."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BASE", "Fault", "GlobalMemory"]

Array = np.ndarray[Any, Any]
BASE = 1 << 40
_GRAIN = 512  # bytes: what allocations are multiples of, with a gap of one
_GARBAGE = 0xA5


class Fault(Exception):
    """What a device would have stopped for, or what races."""


class GlobalMemory:
    """So many bytes; what lies in none of the allocations may not be touched."""

    def __init__(self, capacity: int) -> None:
        self.cells = np.zeros(capacity, np.uint8)
        self.live: dict[int, int] = {}
        self._free = [(0, capacity)]
        self._bounds: tuple[Array, Array] | None = None

    def allocate(self, size: int) -> int:
        """The address of so many bytes; 0 where none are left."""
        room = -(-size // _GRAIN) * _GRAIN + _GRAIN
        for k, (start, length) in enumerate(self._free):
            if length >= room:
                self._free[k] = (start + room, length - room)
                self.cells[start : start + room] = _GARBAGE
                self.live[BASE + start] = size
                self._bounds = None
                return BASE + start
        return 0

    def free(self, address: int) -> bool:
        """Give an allocation back; whether there was one."""
        size = self.live.pop(address, None)
        if size is None:
            return False
        room = -(-size // _GRAIN) * _GRAIN + _GRAIN
        self._free.append((address - BASE, room))
        self._free.sort()
        merged: list[tuple[int, int]] = []
        for start, length in self._free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = merged[-1][0], merged[-1][1] + length
            else:
                merged.append((start, length))
        self._free, self._bounds = merged, None
        return True

    @property
    def free_bytes(self) -> int:
        return sum(length for _, length in self._free)

    def window(self, address: int, size: int) -> Array:
        """The bytes of a part of one allocation."""
        self.check(np.array([address], np.uint64), size)
        return self.cells[address - BASE : address - BASE + size]

    def check(self, addresses: Array, size: int) -> None:
        """Raise Fault unless `size` bytes at each address lie in one allocation."""
        if self._bounds is None:
            starts = np.array(sorted(self.live), np.uint64)
            ends = starts + np.array([self.live[int(s)] for s in starts], np.uint64)
            self._bounds = starts, ends
        starts, ends = self._bounds
        if not len(starts):
            raise Fault("no memory is allocated")
        place = np.searchsorted(starts, addresses, "right").astype(np.int64) - 1
        inside = (place >= 0) & (addresses + np.uint64(size) <= ends[place])
        if not inside.all():
            bad = int(addresses[~inside][0])
            raise Fault(f"{size} bytes at {bad:#x} lie in no allocation")
        if size in (2, 4, 8) and (addresses % np.uint64(size)).any():
            raise Fault(f"an address of {size} bytes is not aligned")

    def place(self, addresses: Array, size: int) -> Array:
        """Addresses as numbers of elements of so many bytes."""
        return (addresses - np.uint64(BASE)).astype(np.int64) // size
