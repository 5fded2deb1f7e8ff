"""Calls on one rank while the others wait: a download, a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from treadle.distributed.communicator import Communicator, DistributedError
from treadle.distributed.world import world

T = TypeVar("T")


def once(action: Callable[[], T], communicator: Communicator | None = None) -> T | None:
    """The result of `action()` on rank 0, which alone calls it; None on the others, who
    wait until it is done. An error there ends it on all ranks.

    Waiting is bounded by the communicator's `timeout`.

    >>> once(lambda: "downloaded")
    'downloaded'
    """
    comm = communicator or world()
    result, failure = None, None
    if comm.rank == 0:
        try:
            result = action()
        except Exception as error:
            failure = error
    message = "" if failure is None else f"{type(failure).__name__}: {failure}"
    reason = comm.messages(message.encode())[0].decode()
    if failure is not None:
        raise failure
    if reason:
        raise DistributedError(f"rank 0 has failed, for which this one waits: {reason}")
    return result
