"""ShardSums: what a rank's shards have come to, summed in Variables as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import Array
from treadle.distributed.buffers import Statistics
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Buffers, Rows, levels
from treadle.graph.leaves import constant_node
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.runtime.store import Changes


@dataclass(frozen=True)
class Partial:
    """The sum of some neighboring shards: how often pairs were made for it, the number
    of its memory, and the parameters that the shards use."""

    level: int
    memory: int
    used: frozenset[int]


class SumTarget:
    """The sum that the next shard is to end: those before that are added to it, the
    last one first, and where it goes; `key` is what decides the graph of it."""

    def __init__(self, merged: Sequence[Partial], level: int, memory: int) -> None:
        self.merged, self.level, self.memory = merged, level, memory
        self.key = memory, *[(x.memory, x.used) for x in merged]


class SumState:
    """The sums of the shards so far: `target` is the sum that the next shard is to end
    of several, `rest` all of them, which the last shard ends.

    Updates go through the same states, so that each has the one after it.
    """

    def __init__(self, partials: Sequence[Partial], levels: int) -> None:
        self.partials, self.levels = partials, levels
        merged, level, memory = list[Partial](), 0, 0
        for x in reversed(partials):
            if x.level != level:
                break
            merged.append(x)
            level = min(level + 1, levels)
        taken = [x.memory for x in partials]
        while memory in taken:
            memory += 1
        self.target = SumTarget(merged, level, memory)
        self.rest = SumTarget(partials[::-1], 0, -1)
        self._after: tuple[frozenset[int], SumState] | None = None

    def after(self, used: frozenset[int]) -> SumState:
        """The state after a shard that uses these parameters."""
        known, target = self._after, self.target
        if known is None or (known[0] is not used and known[0] != used):
            every = used.union(*[x.used for x in target.merged])
            kept = self.partials[: len(self.partials) - len(target.merged)]
            partials = [*kept, Partial(target.level, target.memory, every)]
            known = self._after = used, SumState(partials, self.levels)
        return known[1]


class ShardSums:
    """The sums of a rank's shards in the order of `fixed.tree`: one for each level of
    the tree is held, not one for each shard. A sum never lies where one that it is made
    of does, so that a shard that fails can come again.

    Dense gradients and statistics are summed by graphs, in programs of their own: no
    rule sees where a gradient comes from, so that bits are those of arrays from other
    ranks. A parameter that a shard has not used counts as zeros there. Rows of sparse
    gradients are kept as they are, and summed by the update.
    """

    def __init__(
        self, layout: GradientLayout, statistics: Statistics, shards: int
    ) -> None:
        self.layout, self.statistics = layout, statistics
        self._first = self.state = SumState([], levels(shards))
        self._rows: dict[int, list[Array]] = {}  # of each shard that has some
        # By memory and parameter, in the order in which they were made.
        self.variables: dict[tuple[int, int], Variable] = {}
        self.count = 0  # shards so far

    def used(self, target: SumTarget, used: frozenset[int]) -> frozenset[int]:
        """The parameters that a shard or one before it uses."""
        for x in target.merged:
            used = used if used >= x.used else used | x.used
        return used

    def rows(self, last: Rows) -> Rows:
        """The rows of all shards, of which these are the last one's."""
        parts = {n: [*x] for n, x in self._rows.items()} if last else self._rows
        for n, array in last.items():
            parts.setdefault(n, []).append(array)
        return {n: np.concatenate(x) for n, x in parts.items()}

    def changes(self, target: SumTarget, gradients: Mapping[int, Tensor]) -> Changes:
        """The assignments that add a shard's dense gradients and statistics, and have
        the next shard begin with the statistics that this one began with."""
        totals = self.totals(target, gradients)
        pairs = [(self._sum(target, k, x), x) for k, x in totals.items()]
        for j, x in enumerate(self.statistics_of(target)):
            pairs.append((self._sum(target, ~j, x), x))
        return [*pairs, *self.statistics.restored()]

    def totals(
        self, target: SumTarget, gradients: Mapping[int, Tensor]
    ) -> dict[int, Tensor]:
        """The dense gradients of a shard and those before it, as expressions."""
        used, totals = self.used(target, frozenset(gradients)), dict[int, Tensor]()
        for k in sorted(used):
            place = self.layout.places[k]
            if place.variable.sparse:
                continue
            zero = constant_node(np.zeros((), place.dtype))
            total = gradients.get(k, zero)
            for x in target.merged:
                before = self.variables[x.memory, k].node() if k in x.used else zero
                total = before + total
            totals[k] = total
        return totals

    def statistics_of(self, target: SumTarget) -> list[Tensor]:
        """What a shard and those before it have made of each buffer."""
        totals = []
        for j, total in enumerate(self.statistics.wide()):
            for x in target.merged:
                before = self.variables[x.memory, ~j].node()
                total = self.statistics.combined(j, before, total)
            totals.append(total)
        return totals

    def _sum(self, target: SumTarget, k: int, like: Tensor) -> Variable:
        """The Variable of a parameter's sum, or of that of buffer ~k."""
        known = self.variables.get((target.memory, k))
        if known is None:
            zeros = np.zeros(like.type.shape, like.type.dtype)
            known = Variable(zeros, dtype=like.type.dtype, copy=False)
            self.variables[target.memory, k] = known
        return known

    def _value(self, partial: Partial, k: int) -> Array:
        """The value of a sum, by no run: it may be asked for within one."""
        array = self.variables[partial.memory, k].committed.array
        assert array is not None
        return array

    def add(self, used: frozenset[int], rows: Mapping[int, Array]) -> None:
        """The dense gradients and statistics of the next shard have been added."""
        self.state = self.state.after(used)
        for n, array in rows.items():
            self._rows.setdefault(n, []).append(array)
        self.count += 1

    def complete(self, k: int, gradient: Array | None, total: Array) -> None:
        """Put the last shard's flat gradient with the sums before where it lies."""
        zero = total.dtype.type(0)
        x = zero if gradient is None else gradient
        for y in self.state.rest.merged:
            before = self._value(y, k).reshape(-1) if k in y.used else zero
            with np.errstate(all="ignore"):
                x = np.add(before, x, out=total)
        if x is not total:
            total[...] = x

    def buffers(self, last: Buffers) -> Buffers:
        """The statistics of all shards, of which these are the last one's."""
        for x in self.state.rest.merged:
            known = range(len(self.statistics.variables))
            sums = [self._value(x, ~j) for j in known]
            last = self.statistics.vectors(sums).plus(last)
        return last

    def clear(self) -> None:
        """Begin anew; the memory stays."""
        self.state, self._rows, self.count = self._first, {}, 0
