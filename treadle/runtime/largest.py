"""The largest batch that fits in a workspace, found by planning alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.base.errors import ArgumentError, WorkspaceError
from treadle.base.options import options
from treadle.runtime.memory import Stepping, bounded, memory

__all__ = ["largest_batch"]

MOST = 1 << 20
SOME = 16  # by how much a batch is larger that tells how memory grows


def largest_batch(
    step: Callable[[int], Any],
    workspace: int | str | None = None,
    optimizer: Stepping | None = None,
    *,
    most: int = MOST,
    recompute: bool = True,
) -> int:
    """The size whose graph fits in a workspace while that of one more does not.

    `step(n)` builds the graph of a batch of n, on placeholders for instance; nothing is
    run. With an `optimizer` it is the loss that is stepped on. Values are computed
    again where that makes it fit, unless `recompute` is False. The workspace is that of
    the options if none is given; `most` is returned where even that fits. Raises
    WorkspaceError if a batch of one does not fit.

    >>> w = td.param("w", (256, 256))
    >>> def step(n):
    ...     return td.sum(td.tanh(td.placeholder((n, 256)) @ w) @ w)
    >>> n = td.largest_batch(step, workspace="1 MB", optimizer=td.optim.SGD())
    >>> [td.fits(step(k), workspace="1 MB", optimizer=td.optim.SGD()) for k in (n, n+1)]
    [True, False]
    """
    limit = bounded(workspace)
    if most < 1:
        raise ArgumentError(f"most is at least 1, not {most}")

    def needed(size: int, within: int) -> int:
        """The workspace a size takes: the least there is if it is more than allowed."""
        with options(workspace=within):
            try:
                return memory(step(size), optimizer=optimizer).workspace
            except WorkspaceError as error:
                if size == 1 and within == limit:
                    raise
                return error.needed

    def plain(size: int) -> int:
        """The same with no value computed again: sooner known."""
        return needed(size, 0)

    def again(size: int) -> int:
        return needed(size, limit)

    low, one = 1, plain(1)
    if one > limit and not recompute:
        error = WorkspaceError(
            f"a batch of 1 needs a workspace of {one:,} bytes, not {limit:,}"
        )
        error.needed = one
        raise error
    if one <= limit:
        more = max((plain(1 + SOME) - one) // SOME, 1)
        low = _largest(plain, limit, 1, 1 + (limit - one) // more, most)
    if not recompute or low == most or again(low) > limit:
        return low
    return _largest(again, limit, low, low * limit // needed(low, 1), most)


def _largest(
    needed: Callable[[int], int], limit: int, low: int, guess: int, most: int
) -> int:
    """A size that needs no more than a limit while one more does, or `most`.

    `low` is known to fit. Guesses by what was needed so far, as if it lay on a line; if
    that leads nowhere it doubles its stride, and then halves what is left.
    """
    high, stride, slow = most + 1, 1, 0
    size, need = low, 0
    while high - low > 1:
        known, before = (size, need), high - low
        size = min(max(guess, low + 1), high - 1)
        need = needed(size)
        if need > limit:
            high = size
        else:
            low = size
        slow = slow + 1 if 2 * (high - low) > before else 0
        rise = (need - known[1]) * (1 if size > known[0] else -1)
        if not known[1] or rise <= 0:
            guess = size * limit // max(need, 1)
        else:
            guess = size + (limit - need) * abs(size - known[0]) // rise
        if slow > 1 and high <= most:
            guess = (low + high) // 2
        elif high > most:  # nothing is known yet to be too large
            guess, stride = max(guess, low + stride), 2 * stride
    return low
