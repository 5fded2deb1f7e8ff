"""Loops in parts: what is done before, in and after them, and what values come out."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td

T, B, N, H = 6, 9, 14, 16
RNG = np.random.default_rng(3)


def weight(*shape: int) -> Any:
    return td.param("w", init=RNG.normal(size=shape) * 0.4)


def rows(*shape: int) -> Any:
    return td.asarray(RNG.normal(size=shape))


def parts(y: Any) -> tuple[list[str], list[str]]:
    """The steps of a program by their titles: those around loops, and those inside."""
    lines = td.lower(y).program.split("\n")
    found: tuple[list[str], list[str]] = [], []
    for line in lines:
        step = re.match(r"( *)\d+: .* = ([\w ]+?)(?=[\[(]| [a-z]+\()", line)
        if step:
            found[bool(step[1])].append(step[2])
    return found


def around(y: Any, title: str) -> int:
    return parts(y)[0].count(title)


def inside(y: Any, title: str) -> int:
    return parts(y)[1].count(title)


def agrees(y: Any) -> None:
    native = td.evaluate(y)
    with td.options(engine="reference"):
        wanted = td.evaluate(y)
    for a, b in zip(native, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-10, 1e-12)


def recurrent(reverse: bool = False) -> tuple[Any, list[Any]]:
    w, u, b, x = weight(N, H), weight(H, H), weight(H), rows(T, B, N)

    def step(h: Any, row: Any) -> Any:
        h = td.tanh(row @ w + h @ u + b)
        return h, h

    start = td.zeros((B, H), dtype="float64")
    return td.scan(step, start, x, reverse=reverse)[1], [w, u, b]


@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_rows_come_before_and_sums_after(reverse: bool) -> None:
    y, weights = recurrent(reverse)
    assert around(y, "product") == inside(y, "product") == 1
    # With its gradient: one loop each way, each with the product of its state.
    both = [y, *td.grad((y * y).sum(), weights)]
    assert around(both, "Scan") == inside(both, "product") == 2
    assert around(both, "product") == 3  # of all rows, and the gradients of w and u
    agrees(both)


def test_what_no_state_needs_comes_after() -> None:
    w, v, x = weight(H, H), weight(H, 3), rows(T, B, H)

    def step(h: Any, row: Any) -> Any:
        h = td.tanh(row + h @ w)
        return h, td.softmax(h @ v, axis=-1)

    y = td.scan(step, td.zeros((B, H), dtype="float64"), x)[1]
    assert inside(y, "product") == 1 and around(y, "product") == 1
    agrees([y])


def test_a_map_of_products_is_no_loop() -> None:
    w, x = weight(N, H), rows(T, B, N)
    y = td.map(lambda row: td.tanh(row @ w).sum(), x)
    assert around(y, "Scan") == 0
    agrees([y])


def test_what_takes_much_more_memory_stays() -> None:
    wide, x = weight(N, 64 * N), rows(T, B, N)
    y = td.map(lambda row: td.exp(row @ wide).sum(), x)
    assert around(y, "Scan") == inside(y, "product") == 1
    agrees([y])


def test_a_user_s_sum_of_products_is_one() -> None:
    x, y = rows(T, B, N), rows(T, B, H)

    def step(total: Any, pair: Any) -> Any:
        a, b = pair
        return total + a.T @ b, ()

    found = td.scan(step, td.ones((N, H), dtype="float64"), (x, y))[0]
    assert around(found, "Scan") == 0 and around(found, "product") == 1
    agrees([found])


def test_what_is_drawn_or_not_read_is_as_it_was() -> None:
    w, x = weight(N, N), rows(T, B, N)

    def step(h: Any, row: Any) -> Any:
        noise = td.random.normal((B, N), dtype="float64")
        h = td.tanh(h @ w + row + noise)
        return h, ((noise @ w), td.sin(h), h @ w)

    with td.options(seed=4):
        last, (noisy, _, after) = td.scan(step, x[0], x)
        agrees([last, noisy, after])
    with td.options(seed=4):
        _, (_, only, _) = td.scan(step, x[0], x)
        agrees([only])


def test_states_that_change_places_and_sums_that_are_read() -> None:
    w, x = weight(H, H), rows(T, B, H)

    def step(c: Any, row: Any) -> Any:
        a, b, total = c
        return (b, td.tanh(a @ w + row), total + a @ w + row.sum(0)), total

    start = x[0], x[1], td.zeros((B, H), dtype="float64")
    last, totals = td.scan(step, start, x)
    agrees([*last, totals, *td.grad(totals.sum(), [w])])


def test_second_derivatives_go_through_the_parts() -> None:
    y, weights = recurrent()
    slopes = td.grad((y * y).sum(), weights)
    total = sum((g * g).sum() for g in slopes)
    agrees(td.grad(total, weights))


def test_any_length_and_width_has_the_bits_of_its_own_program() -> None:
    w, u = weight(N, H), weight(H, H)

    def loss(length: int, width: int) -> Any:
        x = td.asarray(np.random.default_rng(length).normal(size=(length, width, N)))

        def step(h: Any, row: Any) -> Any:
            h = td.tanh(row @ w + h @ u)
            return h, h

        y = td.scan(step, td.zeros((width, H), dtype="float64"), x)[1]
        return [y, *td.grad((y * y).sum(), [w, u])]

    sizes = [(4, 5), (5, 6), (9, 11), (17, 6), (2, 13), (1, 3), (30, 5)]
    served = [[np.asarray(x) for x in td.evaluate(loss(*size))] for size in sizes]
    for size, found in zip(sizes, served, strict=True):
        td.clear_cache()
        for a, b in zip(found, td.evaluate(loss(*size)), strict=True):
            assert a.tobytes() == np.asarray(b).tobytes(), size
