"""Scalars of loops as lanes of vectors: which they are, and the same bits."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.native.codegen.packs import Packing

RNG = np.random.default_rng(5)
N = 6
UNARY = ["exp", "expm1", "log1p", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh"]
UNARY += ["asinh", "erf", "sigmoid", "sqrt"]


def mixed(a: Any, s: Any, rows: Any, f: Any = td.tanh) -> Any:
    """A state that a product mixes, and what each step of it says."""

    def step(c: Any, x: Any) -> Any:
        y = f(c @ a + x)
        return y, (y * 0.5, c)

    return td.scan(step, s, rows)


def data(k: int, n: int = N, dtype: str = "float64") -> tuple[Any, Any, Any]:
    shapes = (k, k), (k, k), (n, k, k)
    return tuple([td.asarray(RNG.normal(size=s).astype(dtype) * 0.5) for s in shapes])  # type: ignore[return-value]


def bits(*values: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in td.evaluate(list(values))]


def test_functions_of_the_elements_of_a_state_are_one_vector() -> None:
    """The nine quotients of a hyperbolic tangent."""
    y, (half, _) = mixed(*data(3))
    text = td.lower([y, half]).llvm
    assert len(re.findall(r"fdiv <\d+ x double>", text)) == 1
    assert not re.search(r"fdiv double", text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_rows_have_the_bits_of_loops_by_themselves(k: int, dtype: str) -> None:
    """Rows that do not meet: lanes of one loop, and loops of fewer lanes each."""
    a, s, x = data(k, dtype=dtype)
    y, (half, before) = mixed(a, s, x)
    whole = [np.asarray(v) for v in td.evaluate(y, half, before)]
    for i in range(k):
        row = td.asarray(s.numpy()[i : i + 1]), td.asarray(x.numpy()[:, i : i + 1])
        z, (part, here) = mixed(a, *row)
        assert np.array_equal(z.numpy()[0], whole[0][i])
        assert np.array_equal(part.numpy()[:, 0], whole[1][:, i])
        assert np.array_equal(here.numpy()[:, 0], whole[2][:, i])


@pytest.mark.parametrize("name", UNARY)
def test_states_have_the_bits_of_scalars(name: str) -> None:
    """States that do not meet, as lanes of one loop and each alone."""
    f = getattr(td, name)
    starts, weights = RNG.uniform(0.1, 0.9, (2, 5))
    rows = td.asarray(RNG.uniform(0.1, 0.9, N))

    def step(i: int, v: Any, x: Any) -> Any:
        return f(v * float(weights[i]) + x) * 0.3

    def together(c: Any, x: Any) -> Any:
        new = {i: step(i, c[i], x) for i in c}
        return new, new[2] + x

    first = {i: td.asarray(starts[i]) for i in range(5)}
    last, _ = td.scan(together, first, rows)
    for i in range(5):
        alone, _ = td.scan(lambda v, x, i=i: (step(i, v, x), ()), first[i], rows)
        assert bits(last[i]) == bits(alone)


def test_bits_and_gradients_without_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of many kinds, with the code for scalars alone."""

    def several() -> list[Any]:
        rng = np.random.default_rng(2)
        values: list[Any] = []
        for k, f in (
            (2, td.tanh),
            (3, td.sigmoid),
            (4, lambda z: td.where(z > 0, td.exp(-z), z)),
        ):
            a, s, x = [
                td.asarray(rng.normal(size=shape))
                for shape in ((k, k), (k, k), (N, k, k))
            ]
            y, (half, before) = mixed(a, s, x, f)
            loss = (y * y).sum() + (half * before).sum()
            values += [loss, *td.grad(loss, [a, s, x])]
        whole = td.asarray(rng.integers(1, 9, (3, 3)))
        flags, _ = td.scan(
            lambda c, x: ((td.where(c[1], c[0] // x, (c[0] @ x) % 11), c[0] > x), ()),
            (whole, whole > 4),
            td.asarray(rng.integers(1, 5, (N, 3, 3))),
        )
        return [*values, *flags]

    packed = bits(*several())
    td.clear_cache()
    with monkeypatch.context() as m:
        m.setattr("treadle.engines.native.codegen.packed.packing", lambda b: Packing())
        m.setattr(
            "treadle.engines.native.codegen.code.kept_text", lambda _, write: write()
        )
        assert not re.search(r"fdiv <", td.lower(several()[0]).llvm)
        scalars = bits(*several())
    td.clear_cache()
    assert packed == scalars


@pytest.mark.parametrize("arena", ["poison", "guard"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_nothing_else_is_read_or_written(arena: str, n: int) -> None:
    a, s, x = data(3, n)
    y, ys = mixed(a, s, x)
    loss = (y * y).sum() + ys[0].sum()
    wanted = bits(loss, *td.grad(loss, [a, s, x]), *ys)
    with td.options(arena=arena):
        y, ys = mixed(a * 1.0, s * 1.0, x * 1.0)
        loss = (y * y).sum() + ys[0].sum()
        assert bits(loss, *td.grad(loss, [a, s, x]), *ys) == wanted


def test_a_state_begins_with_data_and_is_not_chosen_at_each_step() -> None:
    y, ys = mixed(*data(3), td.abs)
    assert "select" not in td.lower([y, *ys]).llvm
    x = td.asarray(RNG.normal(size=(N, 40)))
    last, _ = td.scan(lambda c, x: (c * 0.5 + x, ()), x[0], x)
    assert "select" not in td.lower(last).llvm


def test_lengths_share_the_code_of_elements_that_are_written_out() -> None:
    """Backwards too, where a length is part of every address."""
    codes = set()
    for n in (5, 9):
        a, s, x = data(3, n)
        y, _ = td.scan(lambda c, x: (td.tanh(c @ a) * x, ()), s, x, reverse=True)
        text = td.lower(y).llvm
        assert "load <9 x double>" in text
        codes.add(text)
    assert len(codes) == 1
