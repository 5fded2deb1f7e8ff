"""The runner of records in Python, for one thread: what `core/pool.cpp` does faster."""

from __future__ import annotations

import ctypes
from time import perf_counter_ns

_FIELDS = 8  # integers of a record
_STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)


class SerialRunner:
    """A pool without workers, where there is no core: nothing is shared or queued."""

    workers = queued = over = failed = 0

    def run(
        self, records: int, count: int, table: int, status: int, times: int = 0
    ) -> int:
        """Run records in order; how many, the one that sets the status too.

        The chains of a region follow each other as the records do.
        """
        every = (ctypes.c_int64 * (_FIELDS * count)).from_address(records)
        verdict = ctypes.c_int64.from_address(status)
        for k in range(count):
            function, first, total, _, inner = every[_FIELDS * k : _FIELDS * k + 5]
            if inner or total < 1:
                continue
            begin = perf_counter_ns()
            _STEP(function)(table + 8 * first, 0, total, 0)
            if times:
                _note(times, k, begin)
            if verdict.value:
                return k + 1
        return count

    run_brief = run

    def close(self) -> None:
        """There is nobody to leave."""


def _note(times: int, number: int, begin: int) -> None:
    """Note when a record ran, where there is room."""
    noted, room = (ctypes.c_int64 * 2).from_address(times)
    if noted < room:
        entry = (ctypes.c_int64 * 4).from_address(times + 16 + 32 * noted)
        entry[:] = [number, 0, begin, perf_counter_ns()]
    ctypes.c_int64.from_address(times).value = noted + 1
