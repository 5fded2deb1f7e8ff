"""Channel: exchanges that a thread of its own carries out, beside its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from treadle.graph.origin import Origin

if TYPE_CHECKING:
    from treadle.distributed.communicator import Communicator

Action = Callable[["Communicator"], object]


class Channel:
    """Exchanges over a communicator of its own, in the order in which they are begun,
    the same on all ranks. After one that fails, all later ones fail with its error.

    >>> from treadle.distributed.communicator import Alone
    >>> channel = Channel(Alone(), "treadle-exchange")
    >>> end = channel.begin(lambda comm: comm.size)
    >>> end()
    1
    """

    def __init__(self, comm: Communicator, name: str) -> None:
        self.comm, self.name = comm, name
        self._queue: SimpleQueue[tuple[Action, Origin, SimpleQueue[Any]]]
        self._queue = SimpleQueue()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self, action: Action, origin: Origin = (None, 0)) -> Callable[[], Any]:
        """Have an exchange follow those begun so far: what waits for its result.
        `origin` is what errors name."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name=self.name, daemon=True
            )
            self._thread.start()
        result: SimpleQueue[Any] = SimpleQueue()
        self._queue.put((action, origin, result))

        def end() -> Any:
            self.comm.hurry(True)
            try:
                outcome = result.get()
            finally:
                self.comm.hurry(False)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        return end

    def finish(self) -> None:
        """Wait until all that was begun is done."""
        if self._thread is not None:
            self.begin(lambda comm: None)()
        if self._failure is not None:
            raise self._failure

    def break_off(self, failure: BaseException) -> None:
        """Raise this from now on: ranks wait for what will not be begun any more."""
        self._failure = self._failure or failure

    def _work(self) -> None:
        while True:
            action, origin, result = self._queue.get()
            outcome: Any = self._failure
            if outcome is None:
                self.comm.origin = origin
                try:
                    outcome = action(self.comm)
                except BaseException as failure:
                    outcome = self._failure = failure
            result.put(outcome)
            del action, result, outcome
