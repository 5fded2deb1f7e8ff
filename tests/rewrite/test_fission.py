"""Loops in parts: what is done before, in and after them, and what values come out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import engine
from treadle.program.program import Fallback, Product

T, B, N, H = 6, 9, 14, 16


class Given:
    """Weights and data, always the same."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)

    def weight(self, *shape: int, scale: float = 0.4) -> Any:
        return td.param("w", init=self.rng.normal(size=shape) * scale)

    def rows(self, *shape: int) -> Any:
        return td.asarray(self.rng.normal(size=shape))


def zeros(*shape: int) -> Any:
    return td.zeros(shape, dtype="float64")


def parts(ys: Any) -> tuple[list[str], list[str]]:
    """The steps of a program by their titles: those around loops, and those inside."""
    found: tuple[list[str], list[str]] = [], []
    for line in td.lower(ys).program.split("\n"):
        step = re.match(r"( *)\d+: .* = ([\w ]+?)(?=[\[(]| [a-z]+\()", line)
        if step:
            found[bool(step[1])].append(step[2])
    return found


def checked(make: Callable[[Given], list[Any]]) -> tuple[list[str], list[str]]:
    """The steps of what is made, whose values are those of the reference engine."""
    with td.options(seed=4):
        native = [np.asarray(x) for x in td.evaluate(make(Given()))]
    with td.options(seed=4, engine="reference"):
        wanted = [np.asarray(x) for x in td.evaluate(make(Given()))]
    assert len(native) == len(wanted)
    for a, b in zip(native, wanted, strict=True):
        assert a.shape == b.shape and np.abs(b).max() > 0
        np.testing.assert_allclose(a, b, 1e-10, 1e-12)
    with td.options(seed=4):
        return parts(make(Given()))


def recurrent(given: Given, reverse: bool = False) -> tuple[Any, list[Any]]:
    w, u, b = given.weight(N, H), given.weight(H, H), given.weight(H)

    def step(h: Any, row: Any) -> Any:
        h = td.tanh(row @ w + h @ u + b)
        return h, h

    x = given.rows(T, B, N)
    return td.scan(step, zeros(B, H), x, reverse=reverse)[1], [w, u, b]


@pytest.mark.parametrize("reverse", [False, True])
def test_products_of_rows_come_before_and_sums_after(reverse: bool) -> None:
    around, inside = checked(lambda given: [recurrent(given, reverse)[0]])
    assert around.count("product") == inside.count("product") == 1

    def both(given: Given) -> list[Any]:
        y, weights = recurrent(given, reverse)
        return [y, *td.grad((y * y).sum(), weights)]

    # One loop each way, each with the product of its state; the product of all rows,
    # and the gradients of w and u.
    around, inside = checked(both)
    assert around.count("Scan") == inside.count("product") == 2
    assert around.count("product") == 3


def test_what_no_state_needs_comes_after() -> None:
    def make(given: Given) -> list[Any]:
        w, v, x = given.weight(H, H), given.weight(H, 3), given.rows(T, B, H)

        def step(h: Any, row: Any) -> Any:
            h = td.tanh(row + h @ w)
            return h, td.softmax(h @ v, axis=-1)

        return [td.scan(step, zeros(B, H), x)[1]]

    around, inside = checked(make)
    assert around.count("product") == inside.count("product") == 1


def test_a_map_of_products_is_no_loop() -> None:
    def make(given: Given) -> list[Any]:
        w, x = given.weight(N, H), given.rows(T, B, N)
        return [td.map(lambda row: td.tanh(row @ w).sum(), x)]

    assert "Scan" not in checked(make)[0]


def test_what_takes_much_more_memory_stays() -> None:
    def make(given: Given) -> list[Any]:
        wide, x = given.weight(N, 64 * N), given.rows(T, B, N)
        return [td.map(lambda row: td.exp(row @ wide).sum(), x)]

    around, inside = checked(make)
    assert around.count("Scan") == inside.count("product") == 1


def checkpointed_scan(n: int) -> int:
    """The bytes that the gradient of n * n checkpointed steps takes in the arena."""
    given = Given()
    w, rows = given.weight(H, H), given.rows(n, n, B, H)

    @td.checkpoint
    def part(state: Any, rows: Any) -> Any:
        return td.scan(lambda c, x: (td.tanh(c @ w + x), None), state, rows)[0]

    last, _ = td.scan(lambda c, x: (part(c, x), None), zeros(B, H), rows)
    td.grad((last * last).sum(), [w])[0].numpy()
    return td.latest_program().memory.arena


def test_a_checkpointed_scan_needs_the_root_of_its_length_of_memory() -> None:
    few, many = checkpointed_scan(10), checkpointed_scan(40)
    assert 3 * few < many < 5 * few  # of 16 times the steps


def test_a_user_s_sum_of_products_is_one() -> None:
    def make(given: Given) -> list[Any]:
        pairs = given.rows(T, B, N), given.rows(T, B, H)
        start = td.ones((N, H), dtype="float64")
        return [td.scan(lambda s, p: (s + p[0].T @ p[1], ()), start, pairs)[0]]

    around, _ = checked(make)
    assert "Scan" not in around and around.count("product") == 1


@pytest.mark.parametrize("layer", [False, True])
def test_products_of_many_rows_stay_in_long_loops(layer: bool) -> None:
    def make(given: Given, length: int = 80) -> list[Any]:
        w, b = given.weight(64, H), given.weight(64)
        u = given.weight(64, 64, scale=0.04)
        x, start = given.rows(length, 40, H), zeros(40, 64)
        own = x @ w.T + b if layer else x

        def step(h: Any, row: Any) -> Any:
            h = td.tanh((row if layer else row @ w.T + b) + h @ u)
            return h, h

        y = td.scan(step, start, own)[1]
        return [y, *td.grad((y * y).sum(), [w, u, b])]

    around, inside = checked(lambda given: make(given)[:1])
    assert (around.count("product"), inside.count("product")) == (0, 2)
    around, inside = checked(lambda given: make(given, 20)[:1])
    assert around.count("product") == inside.count("product") == 1
    # The way back reads what the way there has given out.
    around, inside = checked(make)
    if layer:
        assert around.count("product") == 2 and inside.count("product") == 3


def test_products_that_are_cut_into_gates_stay_in_long_loops() -> None:
    def make(given: Given) -> list[Any]:
        w, u = given.weight(3 * H, H), given.weight(H, 3 * H, scale=0.1)

        def step(h: Any, row: Any) -> Any:
            (a, b, c), (d, e, f) = td.split(row @ w.T, 3, -1), td.split(h @ u, 3, -1)
            n = td.tanh(c + td.sigmoid(a + d) * f)
            h = n + td.sigmoid(b + e) * (h - n)
            return h, h

        y = td.scan(step, zeros(48, H), given.rows(80, 48, H))[1]
        return [y, *td.grad((y * y).sum(), [w, u])]

    around, inside = checked(lambda given: make(given)[:1])
    assert (around.count("product"), inside.count("product")) == (0, 2)
    checked(make)


def test_what_is_the_same_at_every_step_is_done_once() -> None:
    def make(given: Given) -> list[Any]:
        u, mask, x = given.weight(H, H), given.weight(H, H), given.rows(T, B, H)

        def step(h: Any, row: Any) -> Any:
            h = td.tanh(row + h @ (u * mask @ mask))
            return h, h

        y = td.scan(step, zeros(B, H), x)[1]
        return [y, *td.grad((y * y).sum(), [u, mask])]

    checked(make)
    around, inside = checked(lambda given: make(given)[:1])
    assert around.count("product") == inside.count("product") == 1


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_with_columns_that_are_not_adjacent_is_by_rows(turned: bool) -> None:
    def make(given: Given) -> list[Any]:
        u, x = given.weight(H, H), given.rows(T, B, H)

        def step(h: Any, row: Any) -> Any:
            return td.tanh(row + h @ (u.T if turned else u)), h.T

        y = td.scan(step, zeros(B, H), x)[1]
        return [y, *td.grad((y * y).sum(), [u])]

    checked(make)
    td.evaluate(make(Given())[:1])
    program = engine("native").latest_linked().program  # type: ignore[attr-defined]
    (loop,) = [s for s in program.steps if isinstance(s, Fallback)]
    products = [s for s in loop.bodies[0].program.steps if isinstance(s, Product)]
    assert products and all(s.layout.b[2] == 1 for s in products)


SPELLINGS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "as they lie": (1, lambda h, ws: h @ ws[0]),
    "turned": (1, lambda h, ws: h @ ws[0].T),
    "joined": (2, lambda h, ws: td.concat([h @ w for w in ws], -1)),
    "joined, turned": (2, lambda h, ws: td.concat([h @ w.T for w in ws], -1)),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_rows_of_weights_do_not_fall_on_the_same_lines(spelling: str) -> None:
    count, product = SPELLINGS[spelling]

    def make(given: Given, columns: int = 256) -> list[Any]:
        shape = (columns // count, 8) if "turned" in spelling else (8, columns // count)
        ws, x = [given.weight(*shape) for _ in range(count)], given.rows(3, B, columns)

        def step(h: Any, row: Any) -> Any:
            gates = td.tanh(product(h, ws) + row)
            return gates[:, :8] * gates[:, -8:], gates

        y = td.scan(step, zeros(B, 8), x)[1]
        return [y, *td.grad((y * y).sum(), ws)]

    _, inside = checked(make)
    _, others = checked(lambda given: make(given, 250))
    assert inside.count("product") == others.count("product")
    td.evaluate(make(Given()))
    program = engine("native").latest_linked().program  # type: ignore[attr-defined]
    loops = [s for s in program.steps if isinstance(s, Fallback)]
    steps = [s for loop in loops for s in loop.bodies[0].program.steps]
    products = [s for s in steps if isinstance(s, Product)]
    assert len(products) == inside.count("product")
    assert all(s.layout.b[1] * 8 % 2048 for s in products)  # type: ignore[union-attr]


@pytest.mark.parametrize("every", [False, True])
def test_what_is_drawn_or_not_read_is_as_it_was(every: bool) -> None:
    def make(given: Given) -> list[Any]:
        w, x = given.weight(N, N), given.rows(T, B, N)

        def step(h: Any, row: Any) -> Any:
            noise = td.random.normal((B, N), dtype="float64")
            h = td.tanh(h @ w + row + noise)
            return h, (noise @ w, td.sin(h), h @ w)

        last, (noisy, sine, after) = td.scan(step, x[0], x)
        return [last, noisy, after] if every else [sine]

    checked(make)


def test_states_that_change_places_and_sums_that_are_read() -> None:
    def make(given: Given) -> list[Any]:
        w, x = given.weight(H, H), given.rows(T, B, H)

        def step(c: Any, row: Any) -> Any:
            a, b, total = c
            return (b, td.tanh(a @ w + row), total + a @ w + row.sum(0)), total

        last, totals = td.scan(step, (x[0], x[1], zeros(B, H)), x)
        return [*last, totals, *td.grad(totals.sum(), [w])]

    checked(make)


def test_second_derivatives_go_through_the_parts() -> None:
    def make(given: Given) -> list[Any]:
        y, weights = recurrent(given)
        slopes = td.grad((y * y).sum(), weights)
        total = sum((g * g).sum() for g in slopes)
        return list(td.grad(total, weights))

    checked(make)


def test_any_length_and_width_has_the_bits_of_its_own_program() -> None:
    given = Given()
    w, u = given.weight(N, H), given.weight(H, H)

    def loss(length: int, width: int) -> Any:
        x = td.asarray(np.random.default_rng(length).normal(size=(length, width, N)))

        def step(h: Any, row: Any) -> Any:
            h = td.tanh(row @ w + h @ u)
            return h, h

        y = td.scan(step, zeros(width, H), x)[1]
        return [y, *td.grad((y * y).sum(), [w, u])]

    sizes = [(4, 5), (5, 6), (9, 11), (17, 6), (2, 13), (1, 3), (30, 5)]
    served = [[np.asarray(x) for x in td.evaluate(loss(*size))] for size in sizes]
    for size, found in zip(sizes, served, strict=True):
        td.clear_cache()
        for a, b in zip(found, td.evaluate(loss(*size)), strict=True):
            assert a.tobytes() == np.asarray(b).tobytes(), size


def test_gradients_of_weights_of_what_is_the_same_at_every_step() -> None:
    """A part of what stays is computed of it for the product after the loop, too."""

    def make(given: Given) -> list[Any]:
        w, u = given.weight(N, H), given.weight(H, H)
        source = td.tanh(given.rows(B, T, N))
        rows = td.permute_dims(source, (1, 0, 2))

        def step(h: Any, x: Any) -> Any:
            h = td.tanh(x @ w + source[:, 3] @ w + h @ u)
            return h, h

        last, _ = td.scan(step, zeros(B, H), rows)
        loss = (last**2).mean()
        return [loss, *td.grad(loss, [w, u])]

    checked(make)


def derived(f: Callable[[Any], Any], n: int) -> list[Any]:
    """A sum of squares of the last state of a loop, and its gradient."""
    rng = np.random.default_rng(1)
    s, x = td.param("s", init=rng.normal(size=4)), td.asarray(rng.normal(size=(n, 4)))
    y, _ = td.scan(lambda c, row: (f(c * 0.7 + row), ()), s + 0.0, x)
    loss = (y * y).sum()
    return [loss, td.grad(loss, s)]


def tangents(values: list[Any]) -> list[int]:
    """How many hyperbolic tangents stand in each loop."""
    text = td.lower(values).kernels.split("kernel ")
    return [t.count("tanh(") for t in text if t.startswith("loop(")]


def test_a_gradient_reads_the_functions_of_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all steps of them stay in a cache, and with the bits of computing again."""
    values = derived(td.tanh, 50)
    assert tangents(values) == [1, 0]
    read = [np.asarray(v).tobytes() for v in td.evaluate(values)]
    td.clear_cache()
    with monkeypatch.context() as m:
        m.setattr("treadle.rewrite.fission.FAR", 0)
        values = derived(td.tanh, 50)
        assert tangents(values) == [1, 1]
        assert [np.asarray(v).tobytes() for v in td.evaluate(values)] == read
    td.clear_cache()
    assert tangents(derived(td.tanh, 1 << 16)) == [1, 1]


def test_a_gradient_reads_functions_of_functions() -> None:
    def nested(z: Any) -> Any:
        return td.tanh(td.exp(td.tanh(z)))

    values = derived(nested, 9)
    assert tangents(values)[1] == 0
    native = td.evaluate(values)
    with td.options(engine="reference"):
        for a, b in zip(native, td.evaluate(derived(nested, 9)), strict=True):
            np.testing.assert_allclose(a, b, 1e-12)
