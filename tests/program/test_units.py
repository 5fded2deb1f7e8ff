"""What units know of themselves as they grow: what their members read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import engine
from treadle.loops.region import read_by
from treadle.program.arrange import Arrangement
from treadle.program.timeline import Timeline
from treadle.program.units import Unit

RNG = np.random.default_rng(12)


def rows(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


def recurrence() -> td.Tensor:
    cell = td.nn.LSTMCell(8, 8)
    h = c = td.zeros((4, 8))
    total = td.constant(0.0)
    for x in rows(6, 4, 8):
        h, c = cell(x, (h, c))
        total = total + ((h - x) ** 2).mean()
    return total


def images() -> td.Tensor:
    network = td.nn.Sequential(
        td.nn.Conv2d(1, 4, 3), td.nn.ReLU(), td.nn.Flatten(), td.nn.Linear(144, 5)
    )
    y = network(td.constant(rows(70, 1, 8, 8)))
    return td.nn.functional.cross_entropy(y, np.arange(70) % 5)


@pytest.fixture
def arrangements(monkeypatch: pytest.MonkeyPatch) -> list[Arrangement]:
    found: list[Arrangement] = []

    class Noted(Arrangement):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            found.append(self)

    monkeypatch.setattr("treadle.program.build.Arrangement", Noted)
    engine("native").clear_cache()
    return found


@pytest.mark.parametrize("loss", [recurrence, images])
def test_operands_are_what_members_read(loss: Any, arrangements: Any) -> None:
    with td.options(autobatch=False):
        td.optim.Adam(lr=0.01).step(loss())
    units: list[Unit] = [u for own in arrangements for u in own.units if u.region]
    assert len(units) > 10
    for unit in units:
        assert unit.operands == {x.serial for n in unit.nodes for x in read_by(n)}


@pytest.mark.parametrize("loss", [recurrence, images])
def test_a_value_is_read_after_it_is_made(loss: Any, arrangements: Any) -> None:
    with td.options(autobatch=False):
        td.optim.Adam(lr=0.01).step(loss())
    times = [Timeline(arranged) for arranged in arrangements]
    assert max(len(time.kept) for time in times) > 5
    for time in times:
        assert time.kept.keys() <= time.at.keys()
        for k, read in enumerate(time.read):
            assert all(time.at[s] <= k for s in read if s in time.at)
        # Readers find a node where its step has run, or the last of what it is made of.
        for serial in time.kept:
            assert time.when[serial] <= time.at[serial]
