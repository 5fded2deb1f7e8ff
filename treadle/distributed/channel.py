"""Channel: exchanges that a thread of its own carries out, beside its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from treadle.graph.origin import Origin

if TYPE_CHECKING:
    from treadle.distributed.communicator import Communicator

__all__ = ["Channel"]

Action = Callable[["Communicator"], object]


class Channel:
    """Exchanges over a communicator of its own, in the order in which they are begun,
    the same on all ranks. What one raises, and no later one after it, `finish` raises.

    >>> from treadle.distributed.communicator import Alone
    >>> channel, done = Alone().channel(), []
    >>> channel.begin(lambda comm: done.append(comm.size)); channel.finish(); done
    [1]
    """

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self._queue: SimpleQueue[tuple[Any, Origin]] = SimpleQueue()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self, action: Action, origin: Origin = (None, 0)) -> None:
        """Have an exchange follow those begun so far; `origin` is what errors name."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="treadle-exchange", daemon=True
            )
            self._thread.start()
        self._queue.put((action, origin))

    def finish(self) -> None:
        """Wait until all that was begun is done."""
        if self._thread is not None:
            done: SimpleQueue[None] = SimpleQueue()
            self.comm.hurry(True)
            self._queue.put((done, (None, 0)))
            done.get()
            self.comm.hurry(False)
        if self._failure is not None:
            raise self._failure

    def break_off(self, failure: BaseException) -> None:
        """Raise this from now on: ranks wait for what will not be begun any more."""
        self._failure = self._failure or failure

    def _work(self) -> None:
        while True:
            action, origin = self._queue.get()
            if isinstance(action, SimpleQueue):
                action.put(None)
            elif self._failure is None:
                self.comm.origin = origin
                try:
                    action(self.comm)
                except BaseException as failure:
                    self._failure = failure
            del action
