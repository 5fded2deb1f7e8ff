"""The order of groups: all nodes of one signature that are ready are done at once.

By signature first, and among those that are ready the one whose nodes lie lowest on
average (Neubig et al., "On-the-fly operation batching in dynamic computation graphs",
2017). Nodes of one signature and depth are one class; the agenda looks at classes.

The core does it where it was built (`core/agenda.cpp`), with equal results.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.core import native


class KindRows(NamedTuple):
    """The rows of a kind: their places among its units, in order; the steps, the first
    rows and the numbers of rows of its groups; and whether all that is read by each
    argument is there before the first of them."""

    places: Numbers
    steps: Numbers
    starts: Numbers
    counts: Numbers
    early: Marks


class Schedule(NamedTuple):
    """The step in which each unit is done, which of them are rows, and those of each
    kind, None of one that has none."""

    steps: Numbers
    kept: Marks
    kinds: list[KindRows | None]


def scheduled(
    depths: Numbers,
    makers: Numbers,
    units: Sequence[Numbers],
    read: Sequence[Numbers],
    often: Marks,
    heavy: Marks,
) -> Schedule:
    """The schedule of units, which lie at some depths.

    Each kind has some `units` and what these read, a row a unit: values, of which
    `makers` has the units that make them, or leaves, which are negative. Rows are not
    those whose kind is alone in every group, or in pairs on average where it is not
    `heavy`, and not there `often`, if no row reads them: as rows a pair takes no fewer
    records than its two do one by one.

    >>> units, read = [np.array([0, 1])], [np.array([[-1], [0]])]
    >>> yes = np.array([True])
    >>> scheduled(np.array([1, 2]), np.array([0, 1]), units, read, yes, yes).steps
    array([0, 1])
    """
    if native is not None:
        every = native.scheduled(depths, makers, units, read, often, heavy)
        steps, kept, kinds = every
        return Schedule(steps, kept, [x and KindRows(*x) for x in kinds])
    kind_of = np.zeros(len(depths), np.int64)
    for kind, mine in enumerate(units):
        kind_of[mine] = kind
    classes = list(zip(kind_of.tolist(), depths.tolist(), strict=True))
    edges = [
        (reader, int(makers[x]))
        for mine, rows in zip(units, read, strict=True)
        for reader, values in zip(mine.tolist(), rows.tolist(), strict=True)
        for x in values
        if x >= 0
    ]
    step = _agenda(Counter(classes), {(classes[a], classes[b]) for a, b in edges})
    steps = np.array([step[x] for x in classes], np.int64)
    sizes = np.bincount(steps)[steps] if len(steps) else steps
    kept = np.zeros(len(steps), np.bool_)
    for kind, mine in enumerate(units):
        pays = heavy[kind] or len(mine) > 2 * len(np.unique(steps[mine]))
        kept[mine] = often[kind] or (pays and sizes[mine].max(initial=0) > 1)
    for reader, maker in sorted(edges, key=lambda x: -steps[x[0]]):
        kept[maker] |= kept[reader]
    kinds = [
        _rows(steps, kept, makers, mine, rows)
        for mine, rows in zip(units, read, strict=True)
    ]
    return Schedule(steps, kept, kinds)


Class = tuple[int, int]  # a kind and a depth


def _agenda(
    counts: Counter[Class], edges: set[tuple[Class, Class]]
) -> dict[Class, int]:
    """The step of each class; of each edge the first one reads the second."""
    waits, readers = Counter(reader for reader, _ in edges), defaultdict(list)
    for reader, read in edges:
        readers[read].append(reader)
    left, depth = Counter[int](), Counter[int]()
    for (kind, deep), n in counts.items():
        left[kind] += n
        depth[kind] += n * deep
    ready = defaultdict[int, list[Class]](list)
    for each in counts:
        if not waits[each]:
            ready[each[0]].append(each)
    step: dict[Class, int] = {}
    while ready:
        kind = min(ready, key=lambda k: (depth[k] / left[k], k))
        done = 1 + max(step.values(), default=-1)
        for each in ready.pop(kind):
            step[each] = done
            left[kind] -= counts[each]
            depth[kind] -= counts[each] * each[1]
            for reader in readers[each]:
                waits[reader] -= 1
                if not waits[reader]:
                    ready[reader[0]].append(reader)
    return step


def _rows(
    steps: Numbers, kept: Marks, makers: Numbers, units: Numbers, read: Numbers
) -> KindRows | None:
    """The rows of a kind."""
    places = indices_of(kept[units])
    if not len(places):
        return None
    places = places[np.argsort(steps[units[places]], kind="stable")]
    mine = steps[units[places]]
    starts = indices_of(np.diff(mine, prepend=-1))
    values = read[places]
    there = (values < 0) | (steps[makers[np.maximum(values, 0)]] < mine[0])
    counts = np.diff(starts, append=len(mine))
    return KindRows(places, mine[starts], starts, counts, there.all(0))
