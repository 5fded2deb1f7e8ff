"""A stamp that moves when objects change that others have looked at.

Modules and Variables move it when an attribute is set. Who has looked at many of them
looks again when the stamp is another one, not each time.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable


class Changes:
    """`now` is a number that no moment before had."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = 0


changes = Changes()
_numbers = itertools.count(1)


def changed() -> None:
    """Something is not what it was; to be called after it was changed."""
    changes.now = next(_numbers)


class StampCheck:
    """A check of what moves the stamp, which holds from one stamp to the next.

    Who asks often compares `seen` with the stamp himself, and calls if it is another.
    """

    __slots__ = ("check", "seen")

    def __init__(self, check: Callable[[], bool]) -> None:
        self.check = check
        self.seen = -1

    def __call__(self) -> bool:
        now = changes.now
        if not self.check():
            return False
        self.seen = now
        return True


def unheard(name: str) -> None:
    """Warn that what is set to train does not, for a module around it is not."""
    warnings.warn(
        f"{name!r} is not trained: a module around it has trainable = False; set that "
        "one True, or freeze by requires_grad_(False), which parameters may undo",
        stacklevel=3,
    )
