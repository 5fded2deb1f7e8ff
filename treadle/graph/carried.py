"""Updates that runs carry out: who else needs one waits for its run."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from treadle.base.locks import lock
from treadle.graph.tensor import Tensor

__all__ = ["Carried"]

_runs: dict[int, Carried] = {}  # by the serials of updates


class Carried:
    """The updates that one run carries out, which is the block that is entered."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self._lock = lock()
        self._serials: list[int] = []

    def take(self, updates: Iterable[Tensor]) -> Carried | None:
        """Carry these out, unless another run does so with one: then that, and none."""
        for update in updates:
            other = _runs.setdefault(update.serial, self)
            if other is not self:
                self.leave()
                return other
            self._serials.append(update.serial)
        return None

    def leave(self) -> None:
        """Carry out nothing."""
        while self._serials:
            serial = self._serials.pop()
            if _runs.get(serial) is self:
                del _runs[serial]

    @property
    def is_here(self) -> bool:
        """Whether this very thread is in that run."""
        return self.thread == threading.get_ident()

    def wait(self) -> None:
        """Be there until this run is over."""
        with self._lock:
            pass

    def __enter__(self) -> Carried:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
        self._lock.release()
