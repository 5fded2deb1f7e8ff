"""Random orders of a program's steps, and the most bytes alive in each.

What a step reads must be made before it; what it writes over must have been read.
Bytes are counted without writing operands over, alike for all orders.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["least_of_random", "peak"]


def _waits(program: Any) -> list[set[int]]:
    """For each step the steps that run before it."""
    found: list[set[int]] = []
    wrote: dict[int, int] = {}
    read: dict[int, set[int]] = {}
    over = dict(program.shared)
    for k, step in enumerate(program.steps):
        own = {wrote[n] for n in step.read if n in wrote}
        for n in step.written:
            own |= read.get(n, set()) | ({wrote[n]} if n in wrote else set())
            own |= read.get(over.get(n, -1), set())
        for n in step.read:
            read.setdefault(n, set()).add(k)
        for n in step.written:
            wrote[n] = k
        found.append(own - {k})
    return found


def _touched(program: Any) -> list[tuple[int, list[int]]]:
    """The bytes of each buffer of the arena, and the steps that touch it."""
    steps: dict[int, list[int]] = {}
    for k, step in enumerate(program.steps):
        for n in {*step.read, *step.written}:
            if program.buffers[n].place == "arena":
                steps.setdefault(n, []).append(k)
    return [(program.buffers[n].type.nbytes, own) for n, own in steps.items()]


def _height(touched: Sequence[tuple[int, list[int]]], order: Sequence[int]) -> int:
    place = np.empty(len(order), np.int64)
    place[np.array(order)] = np.arange(len(order))
    change = np.zeros(len(order) + 1, np.int64)
    for size, own in touched:
        places = place[own]
        change[places.min()] += size
        change[places.max() + 1] -= size
    return int(np.cumsum(change).max(initial=0))


def peak(program: Any) -> int:
    """The most bytes alive at once as the steps stand."""
    return _height(_touched(program), range(len(program.steps)))


def least_of_random(program: Any, count: int, seed: int = 0) -> int:
    """The least of the most bytes alive over so many random orders."""
    before = _waits(program)
    after: list[list[int]] = [[] for _ in before]
    for k, own in enumerate(before):
        for other in own:
            after[other].append(k)
    touched, draw, best = _touched(program), random.Random(seed), None
    for _ in range(count):
        wait = [len(own) for own in before]
        ready = [k for k, n in enumerate(wait) if not n]
        order = []
        while ready:
            at = draw.randrange(len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
            step = ready.pop()
            order.append(step)
            for k in after[step]:
                wait[k] -= 1
                if not wait[k]:
                    ready.append(k)
        height = _height(touched, order)
        best = height if best is None else min(best, height)
    return best or 0
