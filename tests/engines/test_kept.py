"""Packed weights are kept while the weights are the same, and no longer."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import engine
from treadle.engines.native.execution import blocks, linked
from treadle.engines.native.execution.arena import Results
from treadle.engines.native.execution.kept import Kept, PackedBuffers, Panels

RNG = np.random.default_rng(3)
IMAGES = RNG.standard_normal((2, 8, 9, 9), np.float32)


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with td.options(engine="native", optimize=True):
        yield


@pytest.fixture
def left_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many copies each run left out."""
    found: list[int] = []

    class Told(Kept):
        def place(self, *given: Any) -> Panels:
            panels = super().place(*given)
            if self.packed:
                found.append(len(panels.ready))
            return panels

    monkeypatch.setattr(linked, "Kept", Told)
    return found


def weights(side: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal((side, 8, 3, 3), np.float32)


def expected(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    with td.options(engine="reference"):
        y = td.nn.functional.conv2d(td.asarray(IMAGES), td.asarray(w), None, 1, 1)
        return np.asarray(y.numpy())


@pytest.mark.usefixtures("part_by_part")
def test_the_same_weights_are_packed_twice_and_then_kept(left_out: list[int]) -> None:
    drawn = weights(17)
    w, y = td.Variable(drawn), expected(drawn)
    for _ in range(4):
        found = td.nn.functional.conv2d(td.asarray(IMAGES), w, None, 1, 1).numpy()
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-4)
    assert left_out == [0, 0, 1, 1]


@pytest.mark.usefixtures("part_by_part")
def test_new_weights_are_packed_anew(left_out: list[int]) -> None:
    w = td.Variable(weights(18))
    for k in range(3):
        drawn = weights(18)
        w.assign(drawn)
        td.evaluate(w)
        for _ in range(3):
            found = td.nn.functional.conv2d(td.asarray(IMAGES), w, None, 1, 1).numpy()
            np.testing.assert_allclose(found, expected(drawn), rtol=1e-4, atol=1e-4)
        assert left_out[3 * k :] == [0, 0, 1]


def test_weights_updated_in_place_are_packed_anew() -> None:
    w, opt = td.Parameter(weights(19)), td.optim.SGD(lr=0.1)
    for _ in range(2):
        for _ in range(3):
            found = td.nn.functional.conv2d(td.asarray(IMAGES), w, None, 1, 1).numpy()
            np.testing.assert_allclose(found, expected(w.numpy()), rtol=1e-4, atol=1e-4)
        for _ in range(2):
            y = td.nn.functional.conv2d(td.asarray(IMAGES), w, None, 1, 1)
            opt.step((y * y).mean())


def test_nothing_is_kept_of_what_changes_or_under_a_limit(left_out: list[int]) -> None:
    w, opt = td.Parameter(weights(20)), td.optim.SGD(lr=0.1)
    for _ in range(4):
        y = td.nn.functional.conv2d(td.asarray(IMAGES), w, None, 1, 1)
        opt.step((y * y).mean())
    fixed = td.Variable(weights(20))
    with td.options(workspace=1 << 30):
        for _ in range(4):
            td.nn.functional.conv2d(td.asarray(IMAGES), fixed, None, 1, 1).numpy()
    assert not any(left_out)


LEFT = RNG.standard_normal((300, 256), np.float32)


def joined(w: Any, v: Any, x: Any) -> Any:
    """A product with weights that are joined of others, in an order of their own."""
    return x @ td.concat([td.exp(w), v * 2.0], axis=1)


@pytest.mark.usefixtures("part_by_part")
def test_what_depends_on_weights_alone_is_computed_twice_and_then_kept(
    left_out: list[int],
) -> None:
    drawn = [RNG.standard_normal((256, n), np.float32) for n in (200, 100)]
    w, v = map(td.Variable, drawn)
    y = LEFT @ np.concatenate([np.exp(drawn[0]), drawn[1] * 2], 1)
    for _ in range(4):
        found = joined(w, v, td.asarray(LEFT)).numpy()
        np.testing.assert_allclose(found, y, rtol=1e-3, atol=1e-3)
    assert left_out[:2] == [0, 0] and left_out[2] == left_out[3] > 0
    v.assign(v + 1.0)
    td.evaluate(v)
    y = LEFT @ np.concatenate([np.exp(drawn[0]), drawn[1] * 2 + 2], 1)
    for _ in range(3):  # one of them is another: all of it is computed again
        found = joined(w, v, td.asarray(LEFT)).numpy()
        np.testing.assert_allclose(found, y, rtol=1e-3, atol=1e-3)
    assert left_out[4:] == [0, 0, left_out[2]]


@pytest.mark.usefixtures("part_by_part")
def test_what_depends_on_data_is_computed_each_time(left_out: list[int]) -> None:
    x, z = td.asarray(LEFT), td.asarray(RNG.standard_normal((256, 300), np.float32))
    for _ in range(4):
        td.evaluate(td.exp(x) @ td.concat([z, z], axis=1))
    assert not any(left_out)


def test_weights_trained_in_between_are_seen_by_what_is_made_of_them() -> None:
    w = td.Parameter(RNG.standard_normal((256, 200), np.float32))
    v = td.Parameter(RNG.standard_normal((256, 100), np.float32))
    opt, x = td.optim.SGD(lr=0.01), td.asarray(LEFT)
    for _ in range(2):
        for _ in range(3):
            y = LEFT @ np.concatenate([np.exp(w.numpy()), v.numpy() * 2], 1)
            found = joined(w, v, x).numpy()
            np.testing.assert_allclose(found, y, rtol=1e-3, atol=1e-3)
        for _ in range(2):
            opt.step(td.mean(td.square(joined(w, v, x))))


def test_panels_go_with_their_array() -> None:
    kept = Kept([PackedBuffers(((0, 1 << 16),), (1,), (5,))])
    addresses = np.zeros(1, np.int64)
    results = Results()
    x: Any = np.zeros(3)
    x.flags.writeable = False
    for ready in ([], [], [5], [5]):
        panels = kept.place({1: x}, set(), addresses, results.lend)
        assert panels.ready == ready
        panels.done()
    assert results.live_bytes() == 1 << 16
    del x, panels
    gc.collect()
    assert results.live_bytes() == 0


def test_panels_of_a_run_that_fails_are_not_kept() -> None:
    kept = Kept([PackedBuffers(((0, 1 << 10),), (1,), (5,))])
    addresses = np.zeros(1, np.int64)
    lend = Results().lend
    x: Any = np.zeros(3)
    x.flags.writeable = False
    for _ in range(4):
        assert not kept.place({1: x}, set(), addresses, lend).ready
    kept.place({1: x}, {1}, addresses, lend).done()  # the run overwrites it
    assert not kept.place({1: x}, set(), addresses, lend).ready


def test_memory_comes_back_when_modules_are_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = blocks.BlockPool(fitting=True)
    block = pool.take(1 << 10)
    monkeypatch.setattr(blocks, "_clock", None)  # as at the end of the interpreter
    pool.give(block)
    assert pool.live_bytes() == 0


SMALL = RNG.standard_normal((1, 64, 5, 5), np.float32)


def filtered(w: Any) -> Any:
    """A program that the core runs, most of whose work is to pack weights."""
    return td.nn.functional.conv2d(td.asarray(SMALL), w, None, 1, 1).numpy()


def filtered_alone(w: np.ndarray[Any, Any]) -> Any:
    with td.options(engine="reference"):
        return filtered(td.asarray(w))


def test_the_core_runs_small_programs_with_the_panels_of_their_weights(
    left_out: list[int],
) -> None:
    drawn = RNG.standard_normal((64, 64, 3, 3), np.float32)
    w = td.Variable(drawn)
    for _ in range(2):
        y = filtered_alone(w.numpy())
        for _ in range(20):
            np.testing.assert_allclose(filtered(w), y, rtol=1e-4, atol=1e-3)
        assert left_out == [0, 0], "the core runs the others, with panels"
        program: Any = engine("native")
        assert program.latest_linked().kept.all is not None
        w.assign(drawn * 2)
        td.evaluate(w)
        left_out.clear()


def test_a_small_program_of_weights_that_change_each_time_waits_for_none(
    left_out: list[int],
) -> None:
    drawn = RNG.standard_normal((60, 64, 3, 3), np.float32)
    w = td.Variable(drawn)
    for k in range(30):
        w.assign(drawn * (k + 1))
        td.evaluate(w)
        y = filtered_alone(w.numpy())
        np.testing.assert_allclose(filtered(w), y, rtol=1e-4, atol=1e-2)
    assert not any(left_out) and 2 <= len(left_out) < 15
