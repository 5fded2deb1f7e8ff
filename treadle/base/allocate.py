"""Memory that may not be there."""

from __future__ import annotations

import contextlib
import mmap
import sys
from collections.abc import Callable, Iterator

from treadle.base.errors import OutOfMemoryError

HEADROOM = 16 << 20  # bytes: a compiler that gets none ends the process


@contextlib.contextmanager
def memory_for(bytes: int, live: Callable[[], int] | None = None) -> Iterator[None]:
    """Turns the system's refusal of so many bytes into an OutOfMemoryError.

    `live` tells how many are in use.

    >>> with memory_for(1 << 70):  # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     pass
    Traceback (most recent call last):
    treadle.base.errors.OutOfMemoryError: out of memory
    """
    try:
        if bytes > sys.maxsize:
            raise MemoryError
        yield
    except (MemoryError, OSError) as error:
        if isinstance(error, OutOfMemoryError):
            raise
        live_bytes = f" with {live():,} bytes live" if live else ""
        raise OutOfMemoryError(
            f"out of memory: {bytes:,} bytes asked{live_bytes}",
            hint="smaller batches or td.options(workspace=...) need less",
        ) from error


def headroom(bytes: int = 0) -> None:
    """Raises OutOfMemoryError where so many bytes, and what a compiler takes, are not
    to be had: code that cannot go on without them asks before it begins.
    """
    wanted = HEADROOM + bytes
    with memory_for(wanted):
        mmap.mmap(-1, wanted).close()
