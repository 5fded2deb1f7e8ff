"""Updates that runs carry out: who else needs one waits for its run."""

from __future__ import annotations

from collections.abc import Iterable

from treadle.base.locks import is_mine, lock
from treadle.core import native
from treadle.graph.tensor import Tensor

_runs: dict[int, Carried] = {}  # by the serials of updates


if native is not None:
    native.bind_carried(_runs)


class Carried:
    """The updates that one run carries out, while it has `lock`: no Python code, which
    an interrupt could end, is needed to tell that it is over."""

    def __init__(self) -> None:
        self.lock = lock()
        self._serials: list[int] = []

    def take(self, updates: Iterable[Tensor]) -> Carried | None:
        """Carry these out, unless another run does so with one: then that, and none."""
        for update in updates:
            self._serials.append(update.serial)
            other = _runs.setdefault(update.serial, self)
            if other is not self:
                self.leave()
                return other
        return None

    def leave(self) -> None:
        """Carry out nothing."""
        for serial in self._serials:
            if _runs.get(serial) is self:
                _runs.pop(serial, None)  # who waited does so as well
        self._serials = []

    @property
    def is_here(self) -> bool:
        """True if this very thread is in that run."""
        return is_mine(self.lock)

    def wait(self) -> None:
        """Be there until this run is over, whether or not it could leave."""
        with self.lock:
            self.leave()
