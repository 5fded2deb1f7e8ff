"""Plans of calls for sizes never seen make what the long way makes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from tests.graph.test_calls import told
from treadle.graph import call_sizes
from treadle.graph.call_sizes import SURE, VARIANTS
from treadle.graph.recorded import recorded
from treadle.nn.linear import affine

pytestmark = needs_core  # Python alone follows no plans

W = td.param("w", init=np.ones((4, 6), np.float32))
B = td.param("b", init=np.ones(4, np.float32))
SIZES = [(5, 7), (3, 9), (11, 4), (8, 12), (6, 13), (9, 3)]
NEW = [(23, 17), (14, 31), (40, 41), (64, 14)]


def x(*shape: int, dtype: Any = np.float32) -> Any:
    return td.constant(np.ones(shape, dtype))


def ids(n: int) -> Any:
    return td.constant(np.zeros(n, np.int64))


def heads(n: int, m: int) -> tuple[Any, ...]:
    return x(2, n, 8), (2, n, 4, 2)


# The function, and its arguments for sizes n and m.
CALLS: dict[str, tuple[Any, Callable[[int, int], tuple[Any, ...]]]] = {
    "tanh": (td.tanh, lambda n, m: (x(n, m),)),
    "add": (td.add, lambda n, m: (x(n, m), x(m))),
    "twice the same": (td.add, lambda n, m: (x(n, m),) * 2),
    "matmul": (td.matmul, lambda n, m: (x(n, m), x(m, n))),
    "affine": (affine, lambda n, m: (x(n, 6), W, B)),
    "concat": (td.concat, lambda n, m: ([x(n, 3), x(m, 3)],)),
    "stack": (td.stack, lambda n, m: ([x(n), x(n)], 1)),
    "reshape": (td.reshape, heads),
    "reshape to the rest": (td.reshape, lambda n, m: (x(n, 2, m), (n, -1))),
    "broadcast": (td.broadcast_to, lambda n, m: (x(m), (n, m))),
    "mean": (td.mean, lambda n, m: (x(n, m), 1)),
    "mean of all": (td.mean, lambda n, m: (x(n, m),)),
    "std": (td.std, lambda n, m: (x(n, m), 0)),
    "softmax": (td.softmax, lambda n, m: (x(n, m), 1)),
    "a row": (td.embedding, lambda n, m: (x(n, m), ids(m))),
    "einsum": (td.einsum, lambda n, m: ("ij,jk->ki", x(n, m), x(m, 4))),
    "loss": (td.cross_entropy, lambda n, m: (x(n, m), ids(n))),
    "swapped": (td.swapaxes, lambda n, m: (x(2, n, m), 1, 2)),
    "repeated": (td.tile, lambda n, m: (x(n), m)),
    "whole numbers": (td.mean, lambda n, m: (x(n, m, dtype=np.int32),)),
}


@pytest.fixture(autouse=True)
def fresh() -> None:
    call_sizes._families.clear()


@pytest.mark.parametrize("name", CALLS)
def test_a_new_size_has_the_nodes_of_the_long_way(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, make = CALLS[name]
    for sizes in SIZES:
        assert told(f(*make(*sizes))) == told(f.f(*make(*sizes)))
    wanted = [told(f.f(*make(*sizes))) for sizes in NEW]
    monkeypatch.setattr(f, "f", None)  # nothing runs it any more
    assert [told(f(*make(*sizes))) for sizes in NEW] == wanted


def by_size(x: Any) -> Any:
    return x * 3.0 if x.shape[0] > 20 else x + 3.0


def by_rest(x: Any) -> Any:
    return td.exp(x) if x.shape[0] % 3 == 0 else td.sin(x)


def by_equality(x: Any) -> Any:
    return x.mT if x.shape[0] == x.shape[1] else x


def by_value(x: Any) -> Any:
    return x * 2.0 if float(x.shape[0]) < 30.5 else x * 3.0


def by_text(x: Any) -> Any:
    return x * 2.0 if str(x.shape[0]).startswith("1") else x * 3.0


def by_count(x: Any) -> Any:
    for _ in range(x.shape[0] % 4):
        x = td.sin(x)
    return x


@pytest.mark.parametrize(
    "function", [by_size, by_rest, by_equality, by_value, by_text, by_count]
)
def test_what_a_function_decides_by_a_size_is_a_guard(function: Any) -> None:
    f: Any = recorded(lambda x: td.negative(function(x)))
    rng = np.random.default_rng(0)
    sizes = [(k, 7) for k in (4, 5, 7, 8)] + [(7, 7), (12, 12)]
    sizes += [tuple(rng.integers(2, 60, 2).tolist()) for _ in range(60)]
    for n, m in sizes:
        assert told(f(x(n, m))) == told(f.f(x(n, m))), (n, m)


def test_extents_that_were_equal_by_chance_are_not_taken_for_one() -> None:
    for n in (3, 4, 5, 6, 7):
        assert td.matmul(x(n, n), x(n, n)).shape == (n, n)
    assert td.matmul(x(3, 9), x(9, 5)).shape == (3, 5)
    with pytest.raises(td.ShapeError):
        td.matmul(x(3, 9), x(8, 5))


def test_errors_of_new_sizes_are_those_of_the_long_way() -> None:
    for n in range(3, 10):
        td.add(x(n, 4), x(n, 1))
    for n, m in itertools.product(range(10, 13), range(20, 22)):
        with pytest.raises(td.ShapeError, match=f"{n}.*{m}"):
            td.add(x(n, 4), x(m, 4))


def test_options_and_scopes_around_a_call_count() -> None:
    whole = [x(n, dtype=np.int64) for n in range(3, 14)]
    for dtype in ("float32", "float64"):
        with td.options(dtype=dtype):
            assert {td.exp(y).type.dtype.name for y in whole} == {dtype}
    with td.no_grad():
        assert td.exp(x(90)).mark and td.exp(x(91)).mark
    for n in range(3, 10):
        td.exp(x(n))
    with td.no_grad():
        assert td.exp(x(92)).mark
    assert td.exp(x(93)).mark is None
    with td.metadata(who="me"):
        assert td.exp(x(94)).metadata["who"] == "me"


def test_a_function_without_plans_for_sizes_is_tried_a_few_times() -> None:
    calls: list[Any] = []

    def refuses(x: Any) -> Any:
        calls.append(x.shape[0])
        if type(x.shape[0]) is not int:
            raise TypeError("no symbol")
        return td.tanh(x)

    f: Any = recorded(refuses)
    for n in range(2, 60):
        f(x(n))
    assert sum(type(n) is not int for n in calls) == 3
    (family,) = [v for (g, *_), v in call_sizes._families.items() if g is f]
    assert len(family.variants.failed) == 3 and not family.variants.all


def test_a_function_that_decides_by_each_size_has_few_plans() -> None:
    f: Any = recorded(lambda x: x + float(int(x.shape[0])))
    for n in range(2, 150):
        assert float(f(x(n))[0]) == n + 1
    (family,) = [v for (g, *_), v in call_sizes._families.items() if g is f]
    assert len(family.variants.all) <= VARIANTS


def test_few_sizes_make_no_plan_for_more_and_a_clear_forgets_it() -> None:
    f: Any = recorded(lambda x: td.exp(x))
    families = call_sizes._families
    for n in range(2, SURE + 1):
        f(x(n))
    assert not any(v.variants.all for v in families.values())
    f(x(70))
    assert any(v.variants.all for (g, *_), v in families.items() if g is f)
    td.clear_cache()
    assert not families


def test_threads_that_see_new_sizes_at_once() -> None:
    wrong: list[int] = []

    def work(k: int) -> None:
        for n in range(2 + k, 200, 3):
            y = td.mean(td.add(x(n, 3), x(n, 1)), 1)
            if y.shape != (n,) or y.inputs[0].shape[0] != n:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
