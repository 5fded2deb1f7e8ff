"""Branches and LSTMs as graphs, and what threads may do to a program's memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import treadle as td
from tests.judge import conflicts, replay
from treadle.engines.base import engine
from treadle.engines.native.execution.linked import Linked
from treadle.program.alias import overwrites
from treadle.program.lives import Lives
from treadle.program.program import Program

RNG = np.random.default_rng(11)
ROWS, WIDTH, STEPS = 8, 32, 4
X = RNG.standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32)


WIDE = RNG.standard_normal((3, 16, 64)).astype(np.float32)


def weights(count: int, width: int = 64) -> list[td.Parameter]:
    drawn = RNG.standard_normal((count, width, width)).astype(np.float32)
    return [td.param(init=w / width**0.5) for w in drawn]


def linked_of(*roots: td.Tensor) -> Linked:
    """The program that computes roots, run once."""
    td.evaluate(*roots)
    found: Linked = engine("native").latest_linked()  # type: ignore[attr-defined]
    return found


def lengths(program: Program) -> list[tuple[int, ...]]:
    return [r.chains for r in program.regions]


class Both:
    """Two LSTMs over a sequence, cell by cell, and the loss of their states."""

    def __init__(self) -> None:
        self.ahead, self.back = (td.nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))

    def states(self, cell: Any, xs: Sequence[Any]) -> list[Any]:
        state, found = (td.zeros((ROWS, WIDTH)), td.zeros((ROWS, WIDTH))), []
        for x in xs:
            state = cell(x, state)
            found.append(state[0])
        return found

    def __call__(self, x: Any, steps: int = STEPS) -> td.Tensor:
        xs = [x[t] for t in range(steps)]
        ahead = self.states(self.ahead, xs)
        back = self.states(self.back, xs[::-1])
        return td.concat([td.stack(ahead), td.stack(back[::-1])], axis=-1)

    def all(self, x: Any, steps: int = STEPS) -> list[td.Tensor]:
        """The states and the gradients."""
        y = self(x, steps)
        own = [*self.ahead.parameters(), *self.back.parameters()]
        return [y, *td.grad((y * y).sum(), own)]


def sequence(steps: int) -> td.Tensor:
    return td.asarray(RNG.standard_normal((steps, ROWS, WIDTH)).astype(np.float32))


def branch(x: Any, w: Any, count: int = 24) -> Any:
    for _ in range(count):
        x = td.tanh(x @ w)
    return x


def wrong(linked: Linked, tries: int = 20) -> list[str]:
    """What goes wrong with a program's memory in some orders that threads may take."""
    program, found = linked.program, linked.lives
    makes = [list(s.written) for s in program.steps]
    for own in (linked.workspaces, linked.scratches):
        for k, n in own.items():
            makes[k].append(n)
    uses = [list(s.read) for s in program.steps]
    over = overwrites(program)
    return wrong_with(program, found, uses, makes, over, tries)


def wrong_with(
    program: Program,
    found: Lives,
    uses: list[list[int]],
    makes: list[list[int]],
    over: dict[int, int],
    tries: int,
) -> list[str]:
    count = 1 + max([len(program.buffers) - 1, *found.place])
    offsets, sizes = [0] * count, [0] * count
    for n, k in found.place.items():
        offsets[n], sizes[n] = found.plan.offsets[k], found.ranges[k].bytes
    elsewhere = [b.number for b in program.buffers if b.place != "arena"]
    problems: list[str] = []
    for region in program.regions:
        touched = [
            {n for k in range(a, b) for n in (*uses[k], *makes[k])}
            for a, b in region.bounds
        ]
        problems += conflicts(offsets, sizes, touched)
    draw = random.Random(1)
    for _ in range(tries):
        order = interleaved(program, draw)
        in_place = {
            (at, over[n], n)
            for at, k in enumerate(order)
            for n in makes[k]
            if n in over
        }
        problems += replay(
            offsets,
            sizes,
            found.plan.size,
            [uses[k] for k in order],
            [makes[k] for k in order],
            elsewhere=elsewhere,
            in_place=in_place,
        )
    return problems


def interleaved(program: Program, draw: random.Random) -> list[int]:
    """The steps in an order in which threads might take them."""
    order: list[int] = []
    k = 0
    starts = {r.first: r for r in program.regions}
    while k < len(program.steps):
        if k not in starts:
            order.append(k)
            k += 1
            continue
        left = [list(range(a, b)) for a, b in starts[k].bounds]
        while any(left):
            # For a while one goes on alone.
            one = draw.choice([x for x in left if x])
            for _ in range(draw.choice([1, 1, 2, 5, 1000])):
                if one:
                    order.append(one.pop(0))
        k = starts[k].stop
    return order
