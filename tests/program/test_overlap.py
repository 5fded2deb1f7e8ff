"""Steps that wait in two parts: begun early, ended late, in the order written."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td

d = td.distributed
X = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)


def steps(*roots: Any) -> list[str]:
    """What the steps of a program do, in order."""
    text = td.lower(*roots).program
    return re.findall(r"(?m)^(?:  chain \d+ \| )?\d+: .*?= (.*?)\(", text)


def kinds(*roots: Any) -> str:
    """The same, a letter each: begun, ended, done at once, or a product."""
    known = {"begin": "b", "end": "e", "AllReduce": "w"}
    every = steps(*roots)
    return "".join(
        known.get(x.split()[-1], "p" if x.startswith("product") else "") for x in every
    )


def product(x: Any) -> Any:
    return x @ td.constant(X)


def test_a_product_that_reads_nothing_of_it_is_between() -> None:
    x = td.param("x", init=X)
    a, b = d.all_reduce(x), td.softmax(product(td.sin(x)))
    assert kinds(a + b) == "bpe"
    np.testing.assert_allclose((a + b).numpy(), X + b.numpy(), rtol=1e-4, atol=1e-4)


def test_what_is_written_later_is_begun_as_soon_as_its_operand_is_there() -> None:
    x = td.param("x", init=X)
    y = product(x)
    z = product(y)
    total = d.all_reduce(y)
    assert kinds(z, total) == "pbpe"


def test_what_is_read_at_once_is_one_step() -> None:
    x = td.param("x", init=X)
    assert kinds(product(d.all_reduce(x))) == "wp"
    assert kinds(d.all_reduce(product(x))) == "pw"
    assert td.lower(d.all_reduce(product(x))).fallbacks == ("AllReduce",)


def test_all_are_begun_in_the_order_in_which_they_were_written() -> None:
    x = td.param("x", init=X)
    y = product(x)
    late = d.all_reduce(y)
    early = d.all_reduce(x)  # its operand is there at first, but it is the second one
    assert kinds(product(y), late, early) == "pbbpee"


def test_a_chain_of_them_is_ended_in_turn() -> None:
    x = td.param("x", init=X)
    a = d.all_reduce(x)
    b = d.all_reduce(product(a))
    c = product(product(x))
    every = kinds(b, c)
    assert every.count("p") == 3 and every.index("e") < every.rindex("b"), every
    np.testing.assert_allclose(b.numpy(), X @ X, rtol=1e-4, atol=1e-4)


def test_gradients_are_exchanged_while_others_are_made() -> None:
    ps = [td.param(f"w{k}", init=X) for k in range(4)]
    y = td.constant(X)
    for p in ps:
        y = td.tanh(y @ p)
    last_first = td.grad(y.sum(), ps)[::-1]
    found = kinds(*[d.all_reduce(g) for g in last_first])
    assert found.index("b") < found.rindex("p") < found.index("e")
    assert found.count("b") + found.count("w") == 4


def test_no_variable_is_written_over_before_all_are_ended() -> None:
    x, v = td.param("x", init=X), td.Variable(X)
    a = d.all_reduce(x)
    v.assign(product(v))
    assert (a + 1.0).shape == (32, 32)
    np.testing.assert_array_equal(a.numpy(), X)
    np.testing.assert_allclose(v.numpy(), X @ X, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arena", ["fast", "poison", "guard"])
def test_an_operand_may_be_written_over_meanwhile(arena: str) -> None:
    with td.options(arena=arena):
        x = td.param("x", init=X)
        y = product(x)
        total = d.all_reduce(td.sin(y))
        z = product(product(td.cos(y)))
        wanted = np.sin(X @ X), (np.cos(X @ X) @ X) @ X
        for found, value in zip(td.evaluate(total, z), wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-3, atol=1e-2)


def test_in_bodies_of_loops_and_branches() -> None:
    x = td.param("x", init=X)

    def step(h: Any, _: Any) -> Any:
        total = d.all_reduce(h)
        return product(h) * 0.1 + total, h.sum()

    h, _ = td.scan(step, x.node(), td.constant(np.zeros(3, np.float32)))
    wanted = X
    for _ in range(3):
        wanted = wanted @ X * 0.1 + wanted
    np.testing.assert_allclose(h.numpy(), wanted, rtol=1e-3, atol=1e-3)
