"""Programs by the structure of their graphs: bounded, counted, safe in threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from treadle.base.locks import lock
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.translation.families import Families

PROGRAMS = 256
BYTES = 256 << 20  # of tables and constants
Entry = tuple[Linked, list[int]]


class Programs:
    """Compiled programs; those not used for longest go when there are too many.

    Threads that miss the same key wait for one of them to compile it.
    """

    def __init__(self, limit: int = PROGRAMS, most_bytes: int = BYTES) -> None:
        self.limit, self.most_bytes = limit, most_bytes
        self.hits = self.misses = 0
        self.families = Families()
        self._table: OrderedDict[Any, Entry] = OrderedDict()
        self._bytes = 0
        self._lock = lock()
        self._under_way: dict[Any, Any] = {}

    def get(self, key: Any, make: Callable[[], Entry]) -> Entry:
        """The program of a key, made if it is not there."""
        entry = self.find(key)
        if entry is not None:
            return entry
        with self._lock:
            gate = self._under_way.setdefault(key, lock())
        try:
            with gate:
                entry = self.find(key)  # another thread may have made it meanwhile
                if entry is None:
                    entry = make()
                    self._insert(key, entry)
            return entry
        finally:
            self._under_way.pop(key, None)

    def find(self, key: Any) -> Entry | None:
        """The program of a key, if it is there: it was used now."""
        with self._lock:
            entry = self._table.pop(key, None)
            if entry is not None:
                self.hits += 1
                self._table[key] = entry  # the newest
            return entry

    def peek(self, key: Any) -> Entry | None:
        """The program of a key, if it is there, for somebody who does not run it."""
        with self._lock:
            return self._table.get(key)

    def _insert(self, key: Any, entry: Entry) -> None:
        with self._lock:
            self.misses += 1
            self._table[key] = entry
            self._bytes += entry[0].nbytes
            while len(self._table) > 1 and (
                len(self._table) > self.limit or self._bytes > self.most_bytes
            ):
                _, (old, _) = self._table.popitem(last=False)
                self._bytes -= old.nbytes

    def clear(self) -> None:
        """Forget all programs; those that run at this moment end as they would."""
        with self._lock:
            self._table.clear()
            self._bytes = 0
        self.families.clear()

    @property
    def bytes(self) -> int:
        """The bytes of the tables and constants of all programs."""
        return self._bytes

    def values(self) -> list[Entry]:
        """The programs, the longest unused first."""
        with self._lock:
            return list(self._table.values())

    def __len__(self) -> int:
        return len(self._table)
