"""The order of steps: one in which few bytes are alive at once.

Finding the best order is NP-hard, so several are made and the one with the lowest peak
is kept: the creation order, depth-first orders, and list schedules that run the step
that adds the fewest bytes. Each is improved by scheduling it backwards and forwards in
turn, which moves steps that free memory early and steps that take memory late (the
justification of project scheduling, Li and Willis, 1992). Work is counted, never timed:
equal graphs give equal orders.
"""

from __future__ import annotations

import random
from collections.abc import Sequence, Set

from treadle.program.schedule import Numbers, Steps, ranking

__all__ = ["order", "peak"]

GOOD_ENOUGH = 256  # gains below 1/256 are not looked for; the creation order then stays
ROUNDS = 4  # backwards and forwards, for an order
TRIES = 60  # shaken orders that bring nothing before the search ends
SHAKEN = 12_000  # steps in all of them


def order(
    uses: Numbers,
    makes: Numbers,
    size: Sequence[int],
    outputs: Set[int],
    after: Numbers = (),
) -> list[int]:
    """An order of the steps, which are numbered in an order that is valid.

    Step s reads buffers uses[s], makes buffers makes[s] and runs after the steps
    after[s]. Buffers in `outputs` and those that no step makes count for nothing.
    """
    return _Search(Steps(uses, makes, size, outputs, after)).run()


def peak(
    order: Sequence[int],
    uses: Numbers,
    makes: Numbers,
    size: Sequence[int],
    outputs: Set[int],
) -> int:
    """The most bytes alive in one step when steps run in `order`."""
    return Steps(uses, makes, size, outputs, ()).peak(order)


class _Search:
    """Orders tried and the best so far."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.tries = min(TRIES, SHAKEN // max(1, steps.count))
        self.best: list[int] = list(range(steps.count))
        self.peak = self.first = steps.peak(self.best)
        self.enough = steps.floor + steps.floor // GOOD_ENOUGH

    def run(self) -> list[int]:
        """The best of all orders tried."""
        steps, created = self.steps, self.best
        if steps.count < 3 or self.done():
            return created
        found = [created, steps.forward(created, cheapest=True), steps.depth_first()]
        if not self.tries:
            found = [min(found, key=lambda one: self.keep(one or created))]
        for one in found:
            self.improve(one)
        self.shake()
        if self.first <= self.peak + self.peak // GOOD_ENOUGH:
            return created
        return self.best

    def done(self) -> bool:
        """Whether nothing is left to gain."""
        return self.peak <= self.enough

    def keep(self, found: list[int]) -> int:
        """The peak of an order, which is kept if it is the lowest."""
        height = self.steps.peak(found)
        if height < self.peak:
            self.best, self.peak = found, height
        return height

    def improve(self, found: list[int] | None) -> None:
        """Schedules an order backwards and forwards while that brings something."""
        was = -1
        height = self.keep(found) if found else -1
        rounds = ROUNDS if self.tries else 1
        while height != was and rounds and not self.done():
            was, rounds = height, rounds - 1
            for turn in (self.steps.backward, self.steps.forward):
                found = turn(ranking(found or []))
                height = min(height, self.keep(found or []))

    def shake(self) -> None:
        """Looks for a lower peak near the best order, drawn from a fixed seed.

        Each try moves steps, then schedules under a limit below the lowest peak so
        far and gives up where no step fits.
        """
        draw = random.Random(self.steps.count)
        failed = turn = 0
        while failed < self.tries and not self.done():
            turn += 1
            moved = self._moved(draw) if turn % 2 else self._around_the_peak(draw)
            rank = ranking(sorted(range(len(moved)), key=moved.__getitem__))
            limit = self.peak - 1 - self.peak // GOOD_ENOUGH
            way = self.steps.backward if turn // 2 % 2 else self.steps.forward
            found = way(rank, limit=limit)
            failed += found is None
            self.improve(found)

    def _moved(self, draw: random.Random) -> list[float]:
        """The places of all steps, some way off."""
        reach = self.steps.count * draw.choice((0.05, 0.2, 1.0))
        return [place + draw.uniform(-reach, reach) for place in ranking(self.best)]

    def _around_the_peak(self, draw: random.Random) -> list[float]:
        """The places of all steps, but some that live at the peak are made after it,
        or all their readers, and what these wait for, run before it."""
        steps, place = self.steps, ranking(self.best)
        where, alive = steps.at_the_peak(self.best)
        moved = [float(p) for p in place]
        if not alive:
            return moved
        weights = [steps.size[buffer] for buffer in alive]
        for buffer in draw.choices(alive, weights, k=draw.choice((1, 1, 2, 3))):
            if draw.random() < 0.5:
                moved[steps.maker[buffer]] = where + 0.5 + draw.random()
                continue
            early = [s for s in steps.readers[buffer] if place[s] >= where]
            for step in early:  # grows
                moved[step] = where - 1 + 0.9 * place[step] / len(place)
                early += [
                    s
                    for s in steps.predecessors[step]
                    if place[s] >= where and moved[s] >= where
                ]
        return moved
