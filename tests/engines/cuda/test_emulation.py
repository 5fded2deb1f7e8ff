"""The emulated card: what a card would stop for, and what no card tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines.cuda.works import ITEMS, card, ran, written
from treadle.base.errors import RunError
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.native.codegen.builder import F32, Value
from treadle.loops.kernel import KernelArgument

Array = np.ndarray[Any, Any]


def run(
    name: str,
    body: Callable[[DeviceBuilder], None],
    *arrays: Array,
    items: int = ITEMS,
) -> list[Array]:
    """What some work for one group leaves, or the card's fault raised."""
    arguments = tuple(KernelArgument(a.dtype, True) for a in arrays)
    functions, driver = card()
    try:
        work = written(name, arguments, body, slots=(), items=items)
        return ran(driver, work, 1, arrays)
    except RunError:
        raise AssertionError(functions.fault) from None


def at(b: DeviceBuilder, k: int, place: Value) -> Value:
    return b.offset(b.buffer(k), place, F32)


def test_a_neighbor_that_is_read_before_a_barrier_is_a_race() -> None:
    def body(b: DeviceBuilder) -> None:
        there, item = b.shared(F32, ITEMS + 1), b.item()
        b.store(b.load(F32, at(b, 0, item)), b.offset(there, item, F32))
        next_ = b.offset(there, b.urem(b.add(item, b.i64(1)), b.i64(ITEMS)), F32)
        b.store(b.load(F32, next_), at(b, 0, item))

    with pytest.raises(AssertionError, match="race for shared memory"):
        run("race", body, np.zeros(ITEMS, "f4"))


def test_what_is_written_over_while_others_read_it_is_a_race() -> None:
    def body(b: DeviceBuilder) -> None:
        there, item = b.shared(F32, ITEMS), b.item()
        own = b.offset(there, item, F32)
        b.store(b.load(F32, at(b, 0, item)), own)
        b.barrier()
        x = b.load(F32, there)
        b.store(x, own)

    with pytest.raises(AssertionError, match="race for shared memory"):
        run("overwritten", body, np.zeros(ITEMS, "f4"))


def test_a_barrier_that_half_of_a_group_reaches_is_a_fault() -> None:
    def body(b: DeviceBuilder) -> None:
        with b.when(b.compare("slt", b.item(), b.i64(ITEMS // 2))):
            b.barrier()

    with pytest.raises(AssertionError, match="not all items of a group"):
        run("half", body, np.zeros(ITEMS, "f4"))


def test_items_that_part_meet_again() -> None:
    def body(b: DeviceBuilder) -> None:
        item = b.item()
        with b.loop(b.i64(0), item, b.i64(1), [b.constant(F32, 0)]) as turn:
            turn.next([b.fadd(turn.values[0], b.constant(F32, 2))])
        b.barrier()
        b.store(turn.values[0], at(b, 0, item))

    (found,) = run("parting", body, np.zeros(ITEMS, "f4"))
    assert found.tolist() == [2.0 * k for k in range(ITEMS)]


def test_a_fold_in_a_warp_goes_in_halves() -> None:
    for dtype, kind in (("f4", F32), ("f8", "double"), ("i8", "i64"), ("i4", "i32")):

        def body(b: DeviceBuilder, kind: str = kind) -> None:
            item = b.item()
            add = b.add if kind.startswith("i") else b.fadd
            x = b.load(kind, b.offset(b.buffer(0), item, kind))
            folded = b.folded(x, 32, add)
            assert folded is not None
            b.store(folded, b.offset(b.buffer(0), item, kind))

        random = np.random.default_rng(1)
        want = x = (1e3 * random.normal(size=32)).astype(dtype)
        (found,) = run(f"fold_{dtype}", body, x, items=32)
        while len(want) > 1:
            want = want[: len(want) // 2] + want[len(want) // 2 :]
        assert found.tobytes() == np.repeat(want, 32).tobytes()  # in all items


def test_items_that_part_wait_for_each_other_at_a_shuffle() -> None:
    def body(b: DeviceBuilder) -> None:
        item = b.item()
        with b.loop(b.i64(0), b.i64(3), b.i64(1), [b.constant(F32, 0)]) as turn:
            folded = b.folded(b.load(F32, at(b, 0, item)), 32, b.fadd)
            assert folded is not None
            with b.when(b.compare("eq", item, b.i64(0))):
                b.store(folded, at(b, 1, turn.index))
            turn.next([b.fadd(turn.values[0], folded)])
        b.store(turn.values[0], at(b, 0, item))

    x, sums = np.arange(32, dtype="f4"), np.zeros(32, "f4")
    found = run("waiting", body, x, sums, items=32)
    assert found[0].tolist() == [3 * 496.0] * 32
    assert found[1][:3].tolist() == [496.0] * 3


def test_a_shuffle_that_half_of_a_warp_reaches_is_a_fault() -> None:
    def body(b: DeviceBuilder) -> None:
        item = b.item()
        with b.when(b.compare("slt", item, b.i64(16))):
            b.store(b.folded(b.load(F32, at(b, 0, item)), 32, b.fadd), at(b, 0, item))

    with pytest.raises(AssertionError, match="not all items of a warp"):
        run("half a warp", body, np.zeros(32, "f4"), items=32)
