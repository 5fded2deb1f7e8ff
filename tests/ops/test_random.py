"""Random bits: the published vectors, the distributions, the scopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import assert_close
from treadle.base.dtypes import as_dtype
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.ops.random import NormalBits, philox


@pytest.mark.parametrize(
    ("counter", "key", "want"),
    [
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (
            [0xFFFFFFFF] * 4,
            (0xFFFFFFFF, 0xFFFFFFFF),
            [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        ),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers(
    counter: list[int], key: tuple[int, int], want: list[int]
) -> None:
    """The vectors published with the Random123 library."""
    block = np.array(counter, np.uint32).reshape(4, 1)
    assert philox(block, key)[:, 0].tolist() == want


def test_a_seed_is_all_there_is() -> None:
    def draws() -> list[float]:
        with td.options(seed=11):
            return [*td.random.normal((5,)).tolist(), float(td.random.uniform())]

    assert draws() == draws()
    with td.options(seed=12):
        assert td.random.normal((5,)).tolist() != draws()[:5]


def test_an_expression_keeps_its_numbers() -> None:
    x = td.random.uniform((4,))
    assert x.tolist() == x.tolist() and (x + 0.0).tolist() == x.tolist()


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("logits", [[-np.inf] * 3, [0, np.nan, 1], [[0], [-np.inf]]])
def test_a_class_is_not_drawn_where_none_is_possible(logits: Any, engine: str) -> None:
    traced = td.function(lambda x: td.random.categorical(x, shape=(2,)))
    with td.options(engine=engine):
        for draw in (td.random.categorical, traced):
            with pytest.raises(td.RunError, match="no outcome is possible"):
                draw(td.asarray(np.array(logits, "f4"))).numpy()
    with pytest.raises(td.ShapeError, match="no outcome along axis"):
        td.random.categorical(td.zeros((3, 0)))
    assert int(td.random.categorical([-np.inf, 0.0])) == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_moments(dtype: str) -> None:
    with td.options(seed=3):
        u = td.random.uniform((20_000,), dtype=dtype).numpy().astype(np.float64)
        n = td.random.normal((20_000,), dtype=dtype).numpy().astype(np.float64)
        b = td.random.bernoulli((20_000,), 0.3).numpy()
        c = td.random.categorical(td.log([0.2, 0.5, 0.3]), shape=(20_000,)).numpy()
        e = td.random.exponential((20_000,), 2.0).numpy()
    assert abs(u.mean() - 0.5) < 0.02 and abs(u.var() - 1 / 12) < 0.005
    assert abs(n.mean()) < 0.03 and abs(n.std() - 1) < 0.03
    assert abs(b.mean() - 0.3) < 0.02 and set(b) == {0.0, 1.0}
    assert abs((c == 1).mean() - 0.5) < 0.02
    assert abs(e.mean() - 0.5) < 0.02
    assert u.min() >= 0 and u.max() < 1


def test_permutations_and_integers() -> None:
    with td.options(seed=4):
        assert sorted(td.random.permutation(50).tolist()) == list(range(50))
        found = td.random.randint(2, 5, (1000,)).numpy()
    assert set(found) == {2, 3, 4}
    with pytest.raises(td.ArgumentError, match="does not hold"):
        td.random.randint(0, 300, dtype="uint8")


def test_each_parameter_has_a_number_of_its_own() -> None:
    with td.options(seed=5):
        b = td.random.bernoulli(p=np.full(1000, 0.5)).numpy()
        n = td.random.normal(mean=td.zeros((1000,))).numpy()
    assert set(b) == {0.0, 1.0} and len(set(n)) > 990
    with pytest.raises(td.ShapeError, match="do not fit"):
        td.random.bernoulli((2,), p=td.zeros((3, 2)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_tails_are_finite(dtype: str) -> None:
    with td.options(seed=6):
        g = td.random.gumbel((20_000,), dtype=dtype).numpy().astype(np.float64)
        t = td.random.truncated_normal((20_000,), dtype=dtype).numpy()
        e = td.random.exponential((20_000,), dtype=dtype).numpy().astype(np.float64)
    assert np.isfinite(g).all() and abs(g.mean() - np.euler_gamma) < 0.03
    assert g.max() > 8 and np.isfinite(e).all() and e.max() > 8
    assert np.abs(t.astype(np.float64)).max() <= 2
    assert abs(t.astype(np.float64).var() - 0.774) < 0.03


def test_draws_go_on_where_a_checkpoint_was_taken() -> None:
    with td.options(seed=8):
        td.random.uniform()
        saved = td.random.seed_state()
        first = td.random.normal((3,)).tolist()
    with td.options(seed=0):
        td.random.restore(saved)
        assert td.random.normal((3,)).tolist() == first


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("count", [1, 7, 16, 33, 1000, 5001])
def test_kernels_draw_the_normal_numbers_of_the_definition(
    count: int, dtype: str
) -> None:
    draw = np.array([2**40 + 5, 2**33 + 1], np.uint64)
    made = NormalBits((count,), as_dtype(dtype))
    y = made(constant_node(draw))
    want = compute(made, y.type, [draw])
    for threads in (1, 2):
        with td.options(engine="native", threads=threads):
            assert td.lower(y).fallbacks == ()
            got = made(constant_node(draw)).numpy()
        assert_close(got, want, "R")
