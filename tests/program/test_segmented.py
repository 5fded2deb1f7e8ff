"""Gradients of scans under a workspace: segments computed again, the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

H = 32


def gradient(
    n: int, workspace: int, reverse: bool = False, drawn: bool = False, state: int = 8
) -> tuple[list[Any], int]:
    """Loss and gradients of a scan of n steps, and the workspace that they take."""
    td.set_options(seed=3)
    draws = np.random.default_rng(0)
    w = td.param("w", init=draws.normal(size=(H, H)) / H**0.5)
    x = td.param("x", init=draws.normal(size=(n, H)))
    first = td.param("first", init=draws.normal(size=(state, H)))

    def step(carry: Any, row: Any) -> Any:
        after = td.tanh(carry @ w + row)
        if drawn:
            after = td.dropout(after, 0.2)
        return after, after.mean()

    with td.options(workspace=workspace):
        last, ys = td.scan(step, first, x, reverse=reverse)
        loss = (last * last).sum() + (ys * td.arange(n)).sum()
        found = td.evaluate(loss, *td.grad(loss, [w, x, first]))
        told = td.latest_program().memory
    return list(found), told.workspace


@pytest.mark.parametrize("n", [100, 117, 401])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_scan_fits_a_workspace_with_the_same_gradients(
    n: int, reverse: bool, drawn: bool
) -> None:
    wanted, natural = gradient(n, 0, reverse, drawn)
    limit = natural // 2
    found, taken = gradient(n, limit, reverse, drawn)
    assert taken <= limit
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-11, 1e-13)


def test_ten_thousand_steps_need_the_root_of_their_number() -> None:
    natural = gradient(10_000, 0)[1]
    kept = 10_000 * 8 * H * 8
    assert natural > kept
    limit = 10_000 * H * 8 * 2 + kept // 20  # x is read, and has a gradient
    wanted, _ = gradient(10_000, 0)
    found, taken = gradient(10_000, limit)
    assert taken <= limit
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9)


def test_a_function_that_was_derived_without_a_limit_obeys_one() -> None:
    w = td.param("w", init=np.eye(H) * 0.9)

    @td.function
    def last(x: Any) -> Any:
        return td.scan(lambda c, _: (td.tanh(c @ w), None), x, length=400)[0].sum()

    def run(workspace: int) -> tuple[Any, int]:
        with td.options(workspace=workspace):
            loss = last(td.ones((8, H), dtype="float64"))
            (found,) = (td.evaluate(*td.grad(loss, [w])),)
            return found, td.latest_program().memory.workspace

    wanted, natural = run(0)
    found, taken = run(natural // 3)
    assert taken <= natural // 3
    np.testing.assert_allclose(found, wanted, 1e-11, 1e-13)
