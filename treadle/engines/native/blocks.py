"""Pools of blocks of memory, which keep idle ones."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator

import numpy as np

from treadle.base.errors import RunError
from treadle.base.sizes import as_text
from treadle.engines.native.block import MAPPED, Block, rounded

__all__ = ["POISON", "Pool", "Reserved", "live_bytes", "next_run", "pools"]

log = logging.getLogger("treadle")

KEEP = 1 << 26  # idle bytes a pool may always keep
LOOSE = 4  # how many times as large a block is that serves nevertheless
WINDOW = 64  # runs over which the most in use is remembered, and as many before
POISON = 0xFF  # NaN in every float type, -1 in every signed integer


class Pool:
    """Blocks in use are counted, blocks given back are kept for the next taker.

    Idle blocks take at most `keep` bytes, or as many as are in use, or what was in use
    beside them in one of the last runs, or one block, the newest: a loop whose steps
    take much and give it back asks the system once. `fitting` pools reuse blocks of the
    same class only, others any that holds the bytes; where no more are kept, one of a
    class near by is made as large, with the pages it has. `give` may be called from a
    destructor, at any moment and in any thread.

    What a pool asks of the system anew is first paid for by blocks of all pools that
    lay idle for `patience` runs. Where one is missed later, patience grows: a loop over
    several programs keeps the blocks of each.
    """

    def __init__(self, *, fitting: bool, keep: int = KEEP) -> None:
        self.made = 0  # blocks asked of the system so far
        self._fitting = fitting
        self._keep = keep
        self._high = self._before = 0  # most bytes in use, in this window and the last
        self._since = 0  # the run this window began with
        self._live = 0
        self._idle: dict[Block, int] = {}  # the oldest first, and since which run
        self._patience = 1  # runs
        self._dropped: set[int] = set()  # classes of blocks that were idle too long
        self._idle_bytes = 0
        self._classes: dict[int, list[Block]] = {}
        self._ready: list[Block] = []  # reserved ones that nobody uses
        self._reserved = 0  # bytes
        self._returned: deque[Block | int] = deque()
        self._lock = threading.Lock()
        self._clock = _clock  # at exit memory comes back when modules are empty
        _pools[:] = [known for known in _pools if known() is not None]
        _pools.append(weakref.ref(self))

    def take(self, bytes: int, loose: bool = False) -> Block:
        """A block of at least so many bytes, its content anything.

        A `loose` one may be some times larger, or a smaller one that grows: pages never
        written to cost more than those that are there.
        """
        size = rounded(bytes)
        with self._lock:
            self._sort_in()
            block = self._reuse(size, loose)
            self._live += size if block is None else block.bytes
            self._high = max(self._high, self._live)
            if block is not None:
                return block
            self.made += 1
            reserved = self._reserved
            if size in self._dropped:
                self._patience *= 4
                self._dropped.clear()
        if reserved:
            told = as_text(size), as_text(reserved)
            log.info("workspace: %s more are taken than the %s reserved", *told)
        if size >= MAPPED:
            _make_room(size)
        try:
            return self._make(size)
        except BaseException:
            self.give(size)
            raise

    def reserve(self, bytes: int) -> Reserved:
        """A block that stays with the pool for its takers; its pages are there now."""
        size = rounded(bytes)
        self.count(size)
        try:
            block = self._make(size)
        finally:
            self.give(size)
        np.frombuffer(block.memory, np.uint8)[:] = 0
        block.reserved = True
        with self._lock:
            self._ready.append(block)
            self._reserved += block.bytes
        return Reserved(self, block)

    def unreserve(self, block: Block) -> None:
        """Lets a reserved block go, as soon as nobody uses it."""
        block.reserved = False
        self.give(0)

    def give(self, block: Block | int) -> None:
        """Takes a block back, or so many counted bytes out of the count."""
        # A destructor may run while this very thread holds the lock, so none waits
        # for it: whoever holds it sorts in what was returned meanwhile.
        self._returned.append(block)
        while self._returned and not self._lock.locked():
            with self._lock:
                self._sort_in()

    def count(self, bytes: int) -> None:
        """Counts memory in use that is no block of the pool."""
        with self._lock:
            self._live += bytes

    def live_bytes(self) -> int:
        """Bytes in use."""
        with self._lock:
            self._sort_in()
            return self._live

    def idle_bytes(self) -> int:
        """Bytes kept for the next taker."""
        with self._lock:
            self._sort_in()
            return self._idle_bytes

    def trim(self, keep: int = 0) -> None:
        """Gives idle blocks back to the system until `keep` bytes are left."""
        with self._lock:
            self._sort_in()
            self._idle_bytes = sum(block.bytes for block in self._idle)
            self._shrink(keep)

    def drop_idle(self, bytes: int) -> int:
        """Gives back up to so many bytes or one block more, if long idle; how many."""
        freed = 0
        with self._lock:
            self._sort_in()
            for block, since in list(self._idle.items()):
                if freed >= bytes or _clock.runs - since < self._patience:
                    break
                if block.bytes >= MAPPED:
                    self._out(block)
                    self._dropped.add(block.bytes)
                    freed += block.bytes
        return freed

    def _reuse(self, size: int, loose: bool) -> Block | None:
        fit = [b for b in self._ready if b.bytes >= size] if self._ready else None
        if fit:
            least = min(fit, key=lambda b: b.bytes)
            self._ready.remove(least)
            return least
        able = [size] if size in self._classes else []
        if not able and (loose or not self._fitting):
            able = [s for s in self._classes if s > size]
        if able and (not self._fitting or min(able) <= LOOSE * size):
            return self._out(self._classes[min(able)][-1])
        if not self._fitting:  # what comes will serve in place of smaller ones
            self._shrink(0)
        if loose or self._idle_bytes + size > self._most_kept(size):
            return self._resized(size, loose)
        return None

    def _resized(self, size: int, loose: bool) -> Block | None:
        """An idle block that was smaller, or had any size not too far off."""
        able = [s for s in self._classes if s >= MAPPED and size <= LOOSE * s]
        able = [s for s in able if s < size or (not loose and s <= LOOSE * size)]
        if not able:
            return None
        near = min(able, key=lambda s: abs(s - size))
        block = self._out(self._classes[near][-1])
        return block if block.resize(size) else None

    def _make(self, size: int) -> Block:
        with contextlib.suppress(MemoryError, OSError):
            return Block(size)
        for pool in pools():
            pool.trim()
        try:
            return Block(size)
        except (MemoryError, OSError) as error:
            raise out_of_memory(size, live_bytes() - size) from error

    def _sort_in(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            if isinstance(block, int):
                self._live -= block
                self._release()
                continue
            self._live -= block.bytes
            if block.reserved:
                self._ready.append(block)
                continue
            self._idle[block] = self._clock.runs
            self._idle_bytes += block.bytes
            self._classes.setdefault(block.bytes, []).append(block)
            if self._idle_bytes > self._keep:
                self._shrink(self._most_kept(block.bytes))

    def _most_kept(self, newest: int) -> int:
        """How many idle bytes are kept beside what is in use."""
        runs = self._clock.runs
        if runs - self._since >= WINDOW:
            self._before, self._high = self._high, self._live
            self._since = runs
        again = max(self._high, self._before) - self._live
        return max(self._keep, self._live, newest, again)

    def _release(self) -> None:
        """Drops the blocks that are no longer reserved."""
        if self._ready:
            gone = [b for b in self._ready if not b.reserved]
            self._ready = [b for b in self._ready if b.reserved]
            self._reserved -= sum(b.bytes for b in gone)

    def _shrink(self, keep: int) -> None:
        while self._idle and self._idle_bytes > keep:
            self._out(next(iter(self._idle)))

    def _out(self, block: Block) -> Block:
        """Take a block out of the idle ones."""
        # An interrupt in a destructor may have kept it from being sorted in wholly.
        if self._idle.pop(block, None) is not None:
            self._idle_bytes -= block.bytes
        held = self._classes.get(block.bytes, [])
        if block in held:
            held.remove(block)
        if not held:
            self._classes.pop(block.bytes, None)
        return block


class Reserved:
    """Holds a block in reserve for the takers of a pool, as long as it lives."""

    def __init__(self, pool: Pool, block: Block) -> None:
        self._pool, self._block = pool, block

    def __del__(self) -> None:
        self._pool.unreserve(self._block)


class _Clock:
    """Counts the runs of programs, by which the age of idle blocks is told."""

    runs = 0


_clock = _Clock()
_pools: list[weakref.ref[Pool]] = []


def next_run() -> None:
    """Says that a program begins to run."""
    _clock.runs += 1


def _make_room(bytes: int) -> None:
    """Gives idle memory back before so much is asked of the system."""
    for pool in pools():
        if bytes > 0:
            bytes -= pool.drop_idle(bytes)


def pools() -> list[Pool]:
    """All pools that are alive."""
    return [pool for known in list(_pools) if (pool := known()) is not None]


def live_bytes() -> int:
    """Bytes in use over all pools."""
    return sum(pool.live_bytes() for pool in pools())


def out_of_memory(asked: int, live: int) -> RunError:
    """The error of a request the system refused."""
    return RunError(
        f"out of memory: {asked:,} bytes asked with {live:,} bytes live",
        hint="smaller batches or td.options(workspace=...) need less",
    )


@contextlib.contextmanager
def mapping_errors(asked: int) -> Iterator[None]:
    """Turns the system's refusals into a RunError."""
    try:
        yield
    except (MemoryError, OSError) as error:
        raise out_of_memory(asked, live_bytes()) from error


_held: list[Pool] = []


def _before_fork() -> None:
    # No other thread may be inside a pool: its state would never settle in the child.
    for pool in pools():
        if pool._lock.acquire(timeout=1.0):
            _held.append(pool)


def _after_fork() -> None:
    while _held:
        _held.pop()._lock.release()


def _after_fork_in_child() -> None:
    _held.clear()
    for pool in pools():
        pool._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
