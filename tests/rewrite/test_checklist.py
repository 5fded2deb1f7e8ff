"""What the optimizer is to know, subject by subject: one row an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.text import bodies_of
from treadle.graph.traversal import reach


def operand(name: str, *shape: int) -> Any:
    values = np.random.default_rng(len(name)).uniform(0.5, 1.5, shape)
    return td.param(name, init=values.astype(np.float32))


x, y, z = (operand(name, 4, 4) for name in "xyz")
v, col, row, cube = (
    operand("v", 4), operand("c", 4, 1), operand("r", 1, 3), operand("u", 3, 4, 5)
)  # fmt: skip
wide, tall, thin = operand("a", 100, 2), operand("b", 2, 100), operand("t", 100, 1)
whole = td.Variable(np.arange(4, dtype=np.int32), name="i")

TABLE: list[tuple[str, Callable[[], Any], str]] = [
    ("neutral", lambda: x * 1, "x"),
    ("neutral", lambda: x - 0, "x"),
    ("neutral", lambda: x / 1, "x"),
    ("neutral", lambda: x**1, "x"),
    ("absorbing", lambda: whole * 0, "0"),
    ("absorbing", lambda: x**0, "1"),
    ("inverses", lambda: td.negative(-x), "x"),
    ("inverses", lambda: 1 / (1 / x), "x"),
    ("inverses", lambda: whole - whole, "0"),
    ("inverses", lambda: td.log(td.exp(x)), "x"),
    ("idempotence", lambda: abs(abs(x)), "abs(x)"),
    ("idempotence", lambda: td.maximum(x, x), "x"),
    ("idempotence", lambda: td.relu(td.relu(x)), "relu(x)"),
    ("powers", lambda: x * x, "x**2"),
    ("powers", lambda: x**0.5, "sqrt(x)"),
    ("powers", lambda: x**-1, "1 / x"),
    ("powers", lambda: td.sqrt(x * x), "abs(x)"),
    ("powers", lambda: 1 / td.sqrt(x), "rsqrt(x)"),
    ("exponentials", lambda: td.exp(x) * td.exp(y), "exp(x + y)"),
    ("exponentials", lambda: td.exp(x) / td.exp(y), "exp(x - y)"),
    ("exponentials", lambda: td.exp(x) ** 2, "exp(2 * x)"),
    ("exponentials", lambda: td.log(td.exp(x) / y), "x - log(y)"),
    ("stability", lambda: td.log(td.exp(x).sum(1)), "log_sum_exp(x, 1)"),
    ("stability", lambda: td.log(1 + x), "log1p(x)"),
    ("stability", lambda: td.exp(x) - 1, "expm1(x)"),
    ("stability", lambda: td.exp(x) / (1 + td.exp(x)), "sigmoid(x)"),
    ("stability", lambda: td.log(td.sigmoid(x)), "log_sigmoid(x)"),
    ("stability", lambda: td.sinh(x) / td.cosh(x), "tanh(x)"),
    ("stability", lambda: td.sin(x) / td.cos(x), "tan(x)"),
    ("casts", lambda: x.astype("float64").astype("float32"), "x"),
    ("movement", lambda: x.T.T, "x"),
    ("movement", lambda: x.reshape(16).reshape(4, 4), "x"),
    ("movement", lambda: td.flip(td.flip(x, 0), 0), "x"),
    ("movement", lambda: td.roll(td.roll(x, 1, 0), -1, 0), "x"),
    ("transposes", lambda: x.T @ y.T, "einsum('ji,kj->ik', x, y)"),
    ("repeats", lambda: td.repeat(col, 3, 1) + operand("y", 4, 3), "c + y"),
    ("repeats", lambda: td.tile(row, (4, 1)) * operand("y", 4, 3), "r * y"),
    (
        "repeats",
        lambda: td.exp(td.broadcast_to(v, (3, 4))),
        "broadcast_to(exp(v), [3, 4])",
    ),
    ("repeats", lambda: td.repeat(x, 1, 0), "x"),
    ("sums of broadcasts", lambda: td.broadcast_to(v, (3, 4)).sum(0), "3 * v"),
    ("sums of broadcasts", lambda: td.broadcast_to(v, (3, 4)).max(0), "v"),
    ("sums of sums", lambda: cube.sum(0).sum(0), "sum(u, (0, 1))"),
    ("sums of sums", lambda: cube.mean(0).mean(0), "mean(u, (0, 1))"),
    ("sums of sums", lambda: (-x).sum(), "-sum(x)"),
    ("slices", lambda: td.concat([x, y], 0)[4:], "y"),
    ("slices", lambda: td.concat([x[:2], x[2:]], 0), "x"),
    ("slices", lambda: td.pad(x, ((1, 1), (0, 2)))[1:5, :4], "x"),
    ("slices", lambda: td.stack([x, y])[1], "y"),
    ("matrix chains", lambda: wide @ (tall @ thin), "a @ (b @ t)"),
    ("matrix chains", lambda: (wide @ tall) @ thin, "a @ (b @ t)"),
    ("multiples", lambda: x + x + x + x + x, "5 * x"),
    ("multiples", lambda: 2 * x + 3 * x, "5 * x"),
    ("multiples", lambda: 3 * x - x, "2 * x"),
    ("multiples", lambda: (x * 2) * 3, "6 * x"),
    ("scaling", lambda: (x * 2) @ y, "2 * x @ y"),
    ("signs", lambda: td.maximum(-x, -y), "-minimum(x, y)"),
    ("signs", lambda: td.cos(-x), "cos(x)"),
    ("truth", lambda: td.where(~(x > y), x, z), "where(x > y, z, x)"),
    ("truth", lambda: (x > y) ^ (x > y), "False"),
    ("truth", lambda: whole == whole, "True"),
    ("truth", lambda: whole < whole, "False"),
    ("limits", lambda: td.minimum(td.minimum(x, 2), 1), "minimum(x, 1)"),
    ("limits", lambda: td.maximum(td.maximum(x, 2), 1), "maximum(x, 2)"),
]


@pytest.mark.parametrize(
    ("make", "want"),
    [row[1:] for row in TABLE],
    ids=[f"{subject}: {want}" for subject, _, want in TABLE],
)
def test_what_is_simplified(make: Any, want: str) -> None:
    found = td.simplify(make())
    assert str(found) == want
    np.testing.assert_allclose(
        found.numpy(), td.evaluate(make()), rtol=1e-5, strict=True
    )


def test_sums_of_what_is_repeated_read_it_once() -> None:
    for made in (td.tile(x, (3, 1)), td.repeat(x, 3, 0)):
        total = td.simplify(made.sum(0))
        sizes = [n.type.size for n in reach([total])]
        assert max(sizes) == x.type.size
        np.testing.assert_allclose(total.numpy(), 3 * x.numpy().sum(0), rtol=1e-6)


def test_what_is_not_a_number_is_not_itself() -> None:
    none = td.asarray(np.array([np.nan, 1.0], np.float32))
    assert (none == none).tolist() == [False, True]
    assert td.simplify(none == none).tolist() == [False, True]
    assert td.tan(none).tolist()[0] != 0


def test_a_loop_is_simplified_too() -> None:
    y = td.scan(lambda c, r: (td.minimum(td.minimum(c + r, 2), 1), ()), v, x)[0]
    inside = [n for b in bodies_of(reach([td.simplify(y)])) for n in b.nodes]
    assert [n.op.name for n in inside].count("Minimum") == 1
