"""Live rows: those that a cotangent reaches; of the others none is computed.

Their cotangents are zeros, but a derivative may be infinite where they are: zero times
infinity is no number, and they have no part in what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.batch.forest import Forest, Groups


class Live:
    """The rows of a forest side by side: those of each instance after the last one's.

    `ends` has those that no other row reads: where all of these have cotangents, every
    row is reached. An instance has fewer than `room`.
    """

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        counts = [x.count for x in forest.instances]
        self.starts = np.cumsum([0, *counts])
        values = forest.all.count
        read = np.zeros(values + len(forest.all.leaves), np.bool_)
        for instance in forest.instances:
            for sources in instance.sources.values():
                read[forest.all.wholes(sources)] = True  # leaves count from the end
        unread = ~np.logical_or.reduceat(read[:values], forest.first)
        units = indices_of(unread & forest.kept)
        self.room = max(counts) + 1
        self.ends = self.starts[forest.instance[units]] + forest.row[units]

    def reached(self, seeds: Iterable[Numbers]) -> list[Marks] | None:
        """The rows of each instance that those `seeds` are, or have read; None if it is
        all of them. A row is told by its instance, an output and its number.
        """
        live = np.zeros(int(self.starts[-1]), np.bool_)
        for spots in seeds:
            live[self.starts[spots[:, 0]] + spots[:, 2]] = True
        if live[self.ends].all():
            return None
        forest = self.forest
        every = [
            (int(turn), number, k)
            for number, instance in enumerate(forest.instances)
            for k, turn in enumerate(instance.groups.turns.tolist())
        ]
        for _, number, k in sorted(every, reverse=True):
            instance, start = forest.instances[number], int(self.starts[number])
            first = int(instance.groups.starts[k])
            last = first + int(instance.groups.counts[k])
            rows = first + indices_of(live[start + first : start + last])
            for sources in instance.sources.values():
                values = sources[rows]
                units = forest.makers(values[values >= 0])
                live[self.starts[forest.instance[units]] + forest.row[units]] = True
            for ahead, _ in instance.aligned.values():
                live[self.starts[ahead] + rows] = True
        return np.split(live, self.starts[1:-1])


def living(groups: Groups, live: Marks | None, room: int) -> Groups:
    """The runs of live rows in groups whose rows follow each other, less than `room`;
    None where all are.

    The turns of each group are `room` now: its runs take theirs one after the other.
    """
    if live is None:
        return Groups(groups.turns * room + groups.starts, groups.starts, groups.counts)
    numbers = np.repeat(np.arange(len(groups.turns)), groups.counts)
    codes = np.where(live, numbers + 1, 0)
    begins = indices_of(np.diff(codes, prepend=-1))
    counts = np.diff(begins, append=len(codes))
    some = codes[begins] > 0
    starts, owners = begins[some], codes[begins[some]] - 1
    return Groups(groups.turns[owners] * room + starts, starts, counts[some])
