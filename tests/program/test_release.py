"""Steps that give back more than they take run early; nothing passes what can fail."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.ops.contract import Contract
from treadle.program.arrange import Arrangement
from treadle.program.release import release_early
from treadle.program.timeline import Timeline

RNG = np.random.default_rng(12)
ROWS, COLUMNS, WIDTH = 512, 9216, 64


def normal(*shape: int) -> Tensor:
    return td.asarray(RNG.standard_normal(shape).astype(np.float32))


def placed(risky: bool) -> list[str]:
    """The steps, by name: of some that follow from the first reader of much that lies
    in memory, one perhaps by positions that are data, and of the last reader.
    """
    large = td.tanh(normal(ROWS, WIDTH) @ normal(WIDTH, COLUMNS))
    first = large @ normal(COLUMNS, WIDTH)
    rows = td.asarray(RNG.integers(0, ROWS, ROWS))
    middle = td.take(first, rows, axis=0) if risky else td.erf(first)
    below = middle @ normal(WIDTH, WIDTH)
    last = normal(3, ROWS) @ large
    of = {first.serial: "first", below.serial: "below", last.serial: "last"}
    of |= {middle.serial: "taken"} if risky else {}
    roots = {x.serial: x for x in (below, last)}
    arranged = Arrangement(roots, [], lambda x: not isinstance(x.op, Contract), True)
    arranged.units.sort(key=lambda u: u.nodes[0].serial == last.serial)  # to the end
    before = Timeline(arranged).demands()
    units = set(arranged.units)
    release_early(arranged)
    assert units == set(arranged.units)
    assert sum(Timeline(arranged).demands()) < sum(before)
    steps = [n for u in arranged.steps() for n in u.nodes]
    return [of[n.serial] for n in steps if n.serial in of]


def test_the_last_reader_of_much_runs_after_the_one_before() -> None:
    assert placed(risky=False) == ["first", "last", "below"]


def test_it_passes_no_step_that_could_fail() -> None:
    assert placed(risky=True) == ["first", "taken", "last", "below"]
