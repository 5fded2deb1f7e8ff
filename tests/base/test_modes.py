"""Options and scopes are those of a task: no other one sees anything of them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.base.test_caches import contents
from treadle.base.options import current, modes

Scope = Callable[[], AbstractContextManager[Any]]


def scoped_name() -> Any:
    try:
        return td.param("a", shape=(1,)).name
    except td.TreadleError as error:
        return type(error)


def tried(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except td.TreadleError as error:
        return type(error)


def derived() -> Any:
    p = td.param("p", init=2.0)
    return tried(lambda: float(td.grad(p * p, [p])[0]))


def called() -> Any:
    """By a plan that machine code follows, where nothing around it has changed."""
    y = _cell(_x)
    y = _cell(_x)
    return tried(lambda: td.grad(y.sum(), [_w])[0].tolist())


def assigned() -> Any:
    v = td.Variable(1.0)
    v.assign(v + 1)
    return float(v)


def undone() -> Any:
    """What another task assigns within its transaction is that one's to undo."""
    return len(modes.get().transactions)


_w = td.param("w", init=np.ones(2, np.float32))
_x = td.asarray(np.full(2, 3.0, np.float32))
_cell = td.function(lambda x: x * _w)
MODES: dict[str, tuple[Scope, Callable[[], Any]]] = {
    "dtype": (lambda: td.options(dtype="float64"), lambda: td.asarray([1.0]).dtype),
    "engine": (lambda: td.options(engine="reference"), lambda: current().engine),
    "eager": (
        lambda: td.options(eager=True),
        lambda: (td.asarray([1.0]) * 2).node().stored is None,
    ),
    "seed": (lambda: td.options(seed=5), lambda: current().seed),
    "no_grad": (td.no_grad, derived),
    "no_grad, a function": (td.no_grad, called),
    "explicit updates": (td.explicit_updates, assigned),
    "scope": (lambda: td.scope("net"), scoped_name),
    "metadata": (
        lambda: td.metadata(part="loss"),
        lambda: dict((td.asarray([1.0]) * 2).metadata),
    ),
    "metadata, a function": (
        lambda: td.metadata(part="loss"),
        lambda: [dict(_cell(_x).metadata) for _ in range(3)],
    ),
    "transaction": (td.transaction, undone),
    "reserve": (lambda: td.options(reserve=1 << 16), lambda: current().reserve),
}


@pytest.mark.parametrize("name", MODES)
def test_a_mode_is_of_its_task(name: str) -> None:
    scope, look = MODES[name]
    plain = look()
    with scope():
        inside = look()
    assert look() == plain != inside

    async def within(first: asyncio.Event, second: asyncio.Event) -> None:
        with scope():
            first.set()
            await second.wait()  # the other enters
            assert look() == inside
            child = await asyncio.create_task(asyncio.sleep(0, look()))
            assert child == inside

    async def beside(first: asyncio.Event, second: asyncio.Event) -> None:
        await first.wait()
        assert look() == plain
        with scope():
            second.set()
            await asyncio.sleep(0.01)  # the first has left
            assert look() == inside
        assert look() == plain

    async def both() -> None:
        events = asyncio.Event(), asyncio.Event()
        await asyncio.gather(within(*events), beside(*events))
        assert look() == plain

    asyncio.run(both())
    assert look() == plain


@pytest.mark.parametrize("name", MODES)
def test_a_thread_begins_with_no_modes_unless_it_is_given_a_context(name: str) -> None:
    scope, look = MODES[name]
    plain = look()
    found: list[Any] = []

    def run(f: Callable[[], Any]) -> None:
        thread = threading.Thread(target=lambda: found.append(f()))
        thread.start()
        thread.join()

    with scope():
        inside = look()
        run(look)
        context = contextvars.copy_context()
        run(lambda: context.run(look))
    assert found == [plain, inside]


def test_a_block_that_the_collector_closes_elsewhere_changes_nothing() -> None:
    left: list[Any] = []

    def leaves() -> None:
        for scope in (td.options(dtype="float64"), td.no_grad(), td.scope("x")):
            scope.__enter__()
            left.append(scope)

    thread = threading.Thread(target=leaves)
    thread.start()
    thread.join()
    with td.options(dtype="float16"):
        left.clear()
        gc.collect()
        assert current().dtype == np.float16
    assert current().dtype == np.float32 and derived() == 4.0


def test_settings_that_stay_are_those_of_tasks_to_come() -> None:
    async def task() -> Any:
        td.set_options(dtype="float16")
        return current().dtype.name

    before = current().dtype.name
    try:
        td.set_options(dtype="float64")
        assert asyncio.run(task()) == "float16"
        assert current().dtype.name == "float64"
    finally:
        td.set_options(dtype=before)


def test_each_thread_draws_from_the_start() -> None:
    found: list[list[float]] = []

    def draws() -> None:
        found.append(td.random.uniform((3,)).tolist())

    for _ in range(2):
        thread = threading.Thread(target=draws)
        thread.start()
        thread.join()
    assert found[0] == found[1]


def test_what_is_of_a_thread_is_what_it_does_now() -> None:
    """What runs without a break between: no task comes in between."""
    every = contents()
    known = {
        "autodiff.gradient._graded",  # which Variables it gave gradients
        "autodiff.reverse._tidying",
        "engines.gpu.cuda.driver._thread",  # the context that CUDA itself has there
        "graph.origin._held",
        "graph.thread.local",
        "rewrite.record._recording",
        "runtime.forests.counts",
        "runtime.history._residuals",
    }
    ids = {id(every[f"treadle.{name}"]) for name in known}
    for name, value in every.items():
        assert not isinstance(value, threading.local) or id(value) in ids, name


def test_a_scope_leaves_what_others_have_changed() -> None:
    before = modes.get()
    with td.no_grad():
        pass
    assert modes.get() is before  # nothing was made anew
    scope = td.no_grad()
    scope.__enter__()
    inner = td.options(seed=5)
    inner.__enter__()
    scope.__exit__(None, None, None)  # the outer one closes first
    assert current().seed == 5 and not modes.get().no_grad
    inner.__exit__(None, None, None)
    assert current().seed == before.options.seed and not modes.get().no_grad
