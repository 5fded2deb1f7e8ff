"""`python -m tests.fuzz.large --count 500`: random graphs whose arrays count as large.

What is streamed, cut in parts, fused or computed again as large arrays are begins at a
few elements here, so that small graphs go through all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import treadle as td
from tests.fuzz.campaign import campaign
from tests.fuzz.graphs import compare, draw
from treadle.base import caches
from treadle.loops import stream
from treadle.program import group, program, recompute
from treadle.rewrite import cut

# By modules: from which size on, and how much is a part.
BEGIN = {
    stream: {"STREAM": 64, "AHEAD": 64},
    group: {"MANY": 16},
    recompute: {"LARGE": 16},
    program: {"SMALL": 64},
    cut: {"LONG": 64, "LARGE": 256, "PARTS": range(2, 9), "ROWS": 4, "COLUMNS": 16},
}


@contextmanager
def large() -> Iterator[None]:
    """Inside, small arrays count as large; no program is known before or after."""
    changed = [patch.multiple(module, **own) for module, own in BEGIN.items()]
    for one in changed:
        one.start()
    try:
        caches.clear()
        td.clear_cache()
        yield
    finally:
        for one in changed:
            one.stop()
        caches.clear()
        td.clear_cache()


def differing(number: int) -> str:
    """What a graph comes to as large arrays, and does not as the reference has it."""
    with large():
        return compare(draw(number), optimize=number % 4 != 3)


if __name__ == "__main__":
    raise SystemExit(campaign(differing, 500))
