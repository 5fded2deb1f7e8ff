"""Signs that a graph may run as rows, by its columns alone."""

from __future__ import annotations

import numpy as np

from treadle.base.arrays import Numbers, distinct, indices_of
from treadle.batch.columns import Columns
from treadle.batch.forest import OFTEN
from treadle.runtime.forests import FEW

LOOK = 512  # nodes that may be enough to see it
ALIKE = 2  # nodes of a kind there have to be at a depth, on average


def irregular(table: Columns, once: bool) -> bool:
    """Return True if it may pay to look for rows: many nodes do the same at one depth,
    or even one after the other."""
    count = len(table.nodes)
    if count < FEW:
        return False
    codes = table.depths * table.count + table.kinds
    if count > LOOK and ALIKE * len(distinct(codes[:LOOK])) <= LOOK:
        return True
    if ALIKE * len(distinct(codes)) <= count:
        return True
    if not once:
        return False
    alike = _repeats(table.types * table.count + table.kinds)
    return 2 * int(alike[alike >= OFTEN].sum()) >= count


def _repeats(codes: Numbers) -> Numbers:
    """How often each number is there, of at least one."""
    ordered = np.sort(codes)
    ends = indices_of(ordered[1:] != ordered[:-1])
    return np.diff(ends, prepend=-1, append=len(codes) - 1)
