"""Pools of memory blocks: a free list of idle ones for each size class."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.allocate import memory_for
from treadle.base.locks import is_mine, lock
from treadle.base.sizes import as_text
from treadle.engines.native.system.block import MAPPED, Block, rounded

if TYPE_CHECKING:
    from treadle.engines.native.execution.guarded import Guarded

log = logging.getLogger("treadle")

KEEP = 1 << 26  # idle bytes a pool may always keep
LOOSE = 4  # how many times as large a block is that serves nevertheless
WINDOW = 64  # runs over which the most in use is remembered, and as many before
POISON = 0xFF  # NaN in every float type, -1 in every signed integer


class BlockPool:
    """Blocks in use are counted, blocks given back are kept for the next taker.

    Idle blocks take at most `keep` bytes, or as many as are in use, or what was in use
    beside them in one of the last runs, or one block, the newest: a loop whose steps
    take much and give it back asks the system once. `fitting` pools reuse blocks of the
    same class only, others any that holds the bytes; where no more are kept, one of a
    class near by is made as large, with the pages it has. A block that is lent comes
    back when its holder dies, at any moment and in any thread: no Python runs then.

    What a pool asks of the system anew is first paid for by blocks of all pools that
    lay idle for `patience` runs. Where one is missed later, patience grows: a loop over
    several programs keeps the blocks of each.

    An interrupt may come at any line. Which blocks are idle or reserved is one dict and
    one list; what follows from them is computed anew if a change was not finished.
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
        self._returned: deque[Block | Loan] = deque()
        self._loans: dict[int, Loan] = {}
        self._known: list[weakref.ref[Block | Guarded]] = []  # all that was made,
        self._most_known = 64  # before those that are gone are forgotten
        self._changing = False  # whether a change has begun and not ended
        self._doubted = False  # whether what is in use has to be counted
        self._lock = lock()
        self._clock = _clock  # at exit memory comes back when modules are empty
        _pools[:] = [known for known in _pools if known() is not None]
        _pools.append(weakref.ref(self))

    def take(self, bytes: int, loose: bool = False) -> Block:
        """A block of at least so many bytes, its content anything.

        A `loose` one may be some times larger, or a smaller one that grows: pages never
        written to cost more than those that are there.
        """
        size = rounded(bytes)
        if is_mine(self._lock):  # a signal handler within one of these very methods
            self._doubted = True
            return self._make(size)
        with self._lock:
            self._begin()
            block = self._reuse(size, loose)
            if block is not None:
                self._taken(block)
                return block
            self.made += 1
            reserved = self._reserved
            if size in self._dropped:
                self._patience *= 4
                self._dropped.clear()
            self._changing = False
        if reserved:
            sizes = as_text(size), as_text(reserved)
            log.info("workspace: %s more are taken than the %s reserved", *sizes)
        if size >= MAPPED:
            _make_room(size)
        block = self._make(size)
        with self._lock:
            self._begin()
            self._taken(block)
        return block

    def lend(self, block: Block, holder: Any, reserves: bool = False) -> Loan:
        """Has a block that was taken come back when its holder dies, if not before."""
        loan = Loan(holder, self._returned.append)
        loan.block, loan.reserves = block, reserves
        self._loans[id(loan)] = loan
        return loan

    def reserve(self, bytes: int) -> Reserved:
        """A block that stays with the pool for its takers; its pages are there now."""
        block = self._make(rounded(bytes))
        np.frombuffer(block.memory, np.uint8)[:] = 0
        block.reserved = True
        holder = Reserved()
        with self._lock:
            self._begin()
            self.lend(block, holder, reserves=True)
            self._ready.append(block)
            self._reserved += block.bytes
            self._changing = False
        return holder

    def give(self, block: Block | Loan) -> None:
        """Takes a block back."""
        self._returned.append(block)
        if not is_mine(self._lock):  # else what goes on will sort it in, or the next
            with self._lock:
                self._begin()
                self._changing = False

    def note(self, memory: Block | Guarded) -> None:
        """Counts memory as in use while it lives, unless it is idle."""
        self._known.append(weakref.ref(memory))
        if len(self._known) > self._most_known:
            self._known = [known for known in self._known if known() is not None]
            self._most_known = 2 * len(self._known) + 64

    def live_bytes(self) -> int:
        """Bytes in use."""
        with self._lock:
            self._doubted = True
            self._begin()
            self._changing = False
            return self._live

    def idle_bytes(self) -> int:
        """Bytes kept for the next taker."""
        with self._lock:
            self._begin()
            self._changing = False
            return self._idle_bytes

    def trim(self, keep: int = 0) -> None:
        """Gives idle blocks back to the system until `keep` bytes are left."""
        if is_mine(self._lock):
            return
        with self._lock:
            self._begin()
            self._shrink(keep)
            self._changing = False

    def drop_idle(self, bytes: int) -> int:
        """Gives back up to so many bytes or one block more, if long idle; how many."""
        freed = 0
        if is_mine(self._lock):
            return freed
        with self._lock:
            self._begin()
            for block, since in list(self._idle.items()):
                if freed >= bytes or _clock.runs - since < self._patience:
                    break
                if block.bytes >= MAPPED:
                    self._out(block)
                    self._dropped.add(block.bytes)
                    freed += block.bytes
            self._changing = False
        return freed

    def _taken(self, block: Block) -> None:
        """Ends a change: a block is in use now."""
        self._live += block.bytes
        self._high = max(self._high, self._live)
        self._changing = False

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
        try:
            block = Block(size)
        except (MemoryError, OSError, OverflowError):
            for pool in pools():
                pool.trim()
            with mapping_errors(size):
                block = Block(size)
        self.note(block)
        return block

    def _begin(self) -> None:
        """Begins a change, whole and with all that came back meanwhile sorted in."""
        if self._changing or self._doubted:
            self._count()
        self._changing = True
        self._sort_in()

    def _sort_in(self) -> None:
        while self._returned:
            block = self._returned.popleft()
            if isinstance(block, Loan):
                loan = block
                if self._loans.pop(id(loan), None) is None:
                    continue  # it came back before
                block = loan.block
                if loan.reserves:
                    self._release(block)
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

    def _count(self) -> None:
        """Computes what follows from the idle and the reserved blocks."""
        classes: dict[int, list[Block]] = {}
        for block in self._idle:
            classes.setdefault(block.bytes, []).append(block)
        self._classes = classes
        self._idle_bytes = sum(block.bytes for block in self._idle)
        reserved = {id(b): b.bytes for b in self._ready}
        live = 0
        for known in self._known:
            memory = known()
            if memory is None or memory in self._idle or id(memory) in reserved:
                continue
            live += memory.bytes
            if memory.reserved:
                reserved[id(memory)] = memory.bytes
        self._live, self._reserved = live, sum(reserved.values())
        self._doubted = False

    def _most_kept(self, newest: int) -> int:
        """How many idle bytes are kept beside what is in use."""
        runs = self._clock.runs
        if runs - self._since >= WINDOW:
            self._before, self._high = self._high, self._live
            self._since = runs
        again = max(self._high, self._before) - self._live
        return max(self._keep, self._live, newest, again)

    def _release(self, block: Block) -> None:
        """Lets a reserved block go, as soon as nobody uses it."""
        block.reserved = False
        self._ready = [b for b in self._ready if b is not block]
        self._reserved -= block.bytes

    def _shrink(self, keep: int) -> None:
        while self._idle and self._idle_bytes > keep:
            self._out(next(iter(self._idle)))

    def _out(self, block: Block) -> Block:
        """Take a block out of the idle ones."""
        del self._idle[block]
        self._idle_bytes -= block.bytes
        held = self._classes[block.bytes]
        held.remove(block)
        if not held:
            del self._classes[block.bytes]
        return block


class Loan(weakref.ref[Any]):
    """A block in somebody's hands, which comes back when its holder dies."""

    __slots__ = ("block", "reserves")

    block: Block
    reserves: bool  # whether it is held in reserve for the takers of the pool


class Reserved:
    """Holds a block in reserve for the takers of a pool, as long as it lives."""

    __slots__ = ("__weakref__",)


class _Clock:
    """Counts the runs of programs, by which the age of idle blocks is told."""

    runs = 0


_clock = _Clock()
_pools: list[weakref.ref[BlockPool]] = []


def next_run() -> None:
    """Says that a program begins to run."""
    _clock.runs += 1


def _make_room(bytes: int) -> None:
    """Gives idle memory back before so much is asked of the system."""
    for pool in pools():
        if bytes > 0:
            bytes -= pool.drop_idle(bytes)


def pools() -> list[BlockPool]:
    """All pools that are alive."""
    return [pool for known in list(_pools) if (pool := known()) is not None]


def live_bytes() -> int:
    """Bytes in use over all pools."""
    return sum(pool.live_bytes() for pool in pools())


def mapping_errors(asked: int) -> contextlib.AbstractContextManager[None]:
    """Turns the system's refusals into an OutOfMemoryError."""
    return memory_for(asked, live_bytes)
