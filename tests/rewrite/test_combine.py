"""Parallel products in the bodies of loops: which are one, and what values come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.rewrite.test_fission import B, Given, H, N, T, checked, zeros

Cell = Callable[[Given], tuple[Callable[[Any, Any], Any], list[Any]]]


def inside(make: Callable[[Given], list[Any]]) -> int:
    """The products in the loops of a program, whose values are right."""
    return checked(make)[1].count("product")


def gated(order: Sequence[int]) -> Cell:
    """An LSTM with weights of their own for each gate, computed in some order."""

    def cell(given: Given) -> Any:
        w = [given.weight(N, H) for _ in range(4)]
        u = [given.weight(H, H) for _ in range(4)]
        b = [given.weight(H) for _ in range(4)]

        def step(state: Any, row: Any) -> Any:
            h, c = state
            z = {k: (row @ w[k], h @ u[k]) for k in order}
            i, f, g, o = (z[k][0] + b[k] + z[k][1] for k in range(4))
            c = td.sigmoid(f) * c + td.sigmoid(i) * td.tanh(g)
            h = td.sigmoid(o) * td.tanh(c)
            return (h, c), h

        return step, [*w, *u, *b]

    return cell


def gru(given: Given) -> Any:
    w = [given.weight(N, H) for _ in range(3)]
    u = [given.weight(H, H) for _ in range(3)]

    def step(state: Any, row: Any) -> Any:
        h, c = state
        r = td.sigmoid(row @ w[0] + h @ u[0])
        z = td.sigmoid(h @ u[1] + row @ w[1])
        h = z * h + (1 - z) * td.tanh(row @ w[2] + (r * h) @ u[2])
        return (h, c), h

    return step, [*w, *u]


def heads(given: Given) -> Any:
    """Weights of unlike widths, on the left, and one that is read by rows."""
    a, b, v = given.weight(H, 5), given.weight(H, 3), given.weight(7, H)
    u, p, q = given.weight(8, H), given.weight(B, 4), given.weight(B, 2)

    def step(state: Any, row: Any) -> Any:
        h, c = state
        x = td.concat([h @ a, h @ b], axis=1) @ u + h @ v.T @ v
        y = p.T @ h, q.T @ h
        h = td.tanh(row[:, :H] + x) + y[0].sum(0) * y[1].mean(0)
        return (h, c), h

    return step, [a, b, v, u, p, q]


CELLS: dict[str, tuple[Cell, int, int]] = {
    # Products in the loops of a value, and of one and its gradients.
    "gates": (gated((0, 1, 2, 3)), 1, 2),
    "gates in another order": (gated((2, 0, 3, 1)), 1, 2),
    "two gates of three": (gru, 2, 4),
}


def layer(cell: Cell, derive: bool) -> Callable[[Given], list[Any]]:
    def make(given: Given) -> list[Any]:
        step, weights = cell(given)
        start = zeros(B, H), zeros(B, H)
        y = td.scan(step, start, given.rows(T, B, max(N, H))[:, :, :N])[1]
        return [y, *td.grad((y * y).sum(), weights)] if derive else [y]

    return make


@pytest.mark.parametrize("derive", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("name", CELLS)
def test_products_that_share_an_operand_are_one(name: str, derive: bool) -> None:
    cell, value, both = CELLS[name]
    assert inside(layer(cell, derive)) == (both if derive else value)


def test_weights_of_any_width_and_side_by_side_either_way() -> None:
    def make(given: Given, derive: bool = True) -> list[Any]:
        step, weights = heads(given)
        y = td.scan(step, (zeros(B, H), zeros(B, H)), given.rows(T, B, H))[1]
        return [y, *td.grad((y * y).sum(), weights)] if derive else [y]

    assert inside(lambda given: make(given, False)) == 4  # h @ [a b v.T], u, v, [p q]
    checked(make)


def test_a_loop_whose_rows_want_gradients() -> None:
    """All four gates' cotangents are one operand, of the state's and of the row's."""

    def make(given: Given) -> list[Any]:
        step, weights = gated((0, 1, 2, 3))(given)
        x = given.weight(T, B, N)
        y = td.scan(step, (zeros(B, H), zeros(B, H)), x)[1]
        return [y, *td.grad((y * y).sum(), [x, *weights])]

    around, products = checked(make)
    assert products.count("product") == 2
    # Of all rows before the loop; of weights twice and of the rows after it.
    assert around.count("product") == 4


def test_large_weights_stay_apart() -> None:
    def make(given: Given, wide: int) -> list[Any]:
        u = [given.weight(wide, wide, scale=0.01) for _ in range(2)]

        def step(h: Any, row: Any) -> Any:
            return td.tanh(row + h @ u[0]) * td.sigmoid(h @ u[1]), None

        return [td.scan(step, zeros(2, wide), given.rows(T, 2, wide))[0]]

    assert inside(lambda given: make(given, 160)) == 1
    assert inside(lambda given: make(given, 200)) == 2


def test_what_is_not_computed_in_a_step_is_not_copied_for_a_sum() -> None:
    """h @ u + c @ v of two states is two products: their states lie where they do."""

    def make(given: Given) -> list[Any]:
        u, v = given.weight(H, H), given.weight(H, H)

        def step(state: Any, row: Any) -> Any:
            h, c = state
            return (td.tanh(h @ u + c @ v + row), h), None

        return list(td.scan(step, (zeros(B, H), zeros(B, H)), given.rows(T, B, H))[0])

    assert inside(make) == 2


def test_what_depends_on_one_another_is_no_part_of_one() -> None:
    """Each of two sums needs a product with an operand of the other one."""

    def make(given: Given) -> list[Any]:
        u, v = given.weight(H, H), given.weight(H, H)

        def step(h: Any, row: Any) -> Any:
            a = td.tanh(h + row)
            m = (row.T @ a).sum(0)
            b = td.sigmoid(h * m)
            n = row.T @ b
            c = td.sin(h + (row.T @ a).sum() + n.sum())
            return td.tanh(a @ u + b @ v) + 0.1 * (a @ v + c @ u), (a, n)

        return list(td.scan(step, zeros(B, H), given.rows(T, B, H))[1])

    checked(make)


def test_parts_have_the_bits_of_products_apart() -> None:
    given = Given()
    u = [given.weight(H, H) for _ in range(3)]
    x = given.rows(T, B, H)

    def together(h: Any, row: Any) -> Any:
        return td.tanh(row + h @ u[0]) * td.sigmoid(h @ u[1]) + h @ u[2], h

    def apart(h: Any, row: Any) -> Any:
        one = td.asarray(np.ones(()))  # data: three operands, by their structure
        z = [(h * one) @ u[0], (h * (one * one)) @ u[1], (h / one) @ u[2]]
        return td.tanh(row + z[0]) * td.sigmoid(z[1]) + z[2], h

    y, wanted = (td.scan(f, zeros(B, H), x)[1].numpy() for f in (together, apart))
    assert y.tobytes() == wanted.tobytes()
