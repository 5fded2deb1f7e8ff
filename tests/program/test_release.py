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


def placed(risky: bool = False, more: int = 0) -> list[str]:
    """The products, by name, that read much, first and last, and one that follows from
    the first, perhaps by positions that are data; before them `more` columns.
    """
    x = normal(ROWS, WIDTH)
    if more:
        x = td.tanh(x @ normal(WIDTH, more)) @ normal(more, WIDTH)
    large = td.tanh(x @ normal(WIDTH, COLUMNS))
    first = large @ normal(COLUMNS, WIDTH)
    rows = td.asarray(RNG.integers(0, ROWS, ROWS))
    middle = td.take(first, rows, axis=0) if risky else td.erf(first)
    end = td.tanh(middle @ normal(WIDTH, COLUMNS)) @ normal(COLUMNS, 3)
    last = normal(3, ROWS) @ large
    of = {first.serial: "first", end.serial: "below", last.serial: "last"}
    of |= {middle.serial: "taken"} if risky else {}
    roots = {x.serial: x for x in (end, last)}
    arranged = Arrangement(roots, [], lambda x: not isinstance(x.op, Contract), True)
    arranged.units.sort(key=lambda u: u.nodes[0].serial == last.serial)  # to the end
    before = Timeline(arranged).demands()
    units = set(arranged.units)
    release_early(arranged)
    assert units == set(arranged.units)
    less = max(Timeline(arranged).demands()) < max(before)
    assert less == (not more)
    steps = [n for u in arranged.steps() for n in u.nodes]
    return [of[n.serial] for n in steps if n.serial in of]


def test_the_last_reader_of_much_runs_after_the_one_before() -> None:
    assert placed() == ["first", "last", "below"]


def test_an_order_that_needs_no_less_stays() -> None:
    """An earlier step needs more than all that follows."""
    assert placed(more=3 * COLUMNS) == ["first", "below", "last"]


def test_it_passes_no_step_that_could_fail() -> None:
    assert placed(risky=True) == ["first", "taken", "last", "below"]
