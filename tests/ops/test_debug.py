"""What a marked value tells when it is computed, in the log or printed."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import treadle as td

Log = pytest.LogCaptureFixture
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _told(caplog: Log) -> None:
    caplog.set_level(logging.DEBUG, logger="treadle")


def test_the_account_is_complete(caplog: Log) -> None:
    x = td.constant(np.array([[3.0, -4.0]], np.float32))
    td.debug(x, "a row").numpy()
    assert caplog.messages == [
        "Debug: a row op=constant\n"
        "shape=1x2 size=2 type=float32 device=cpu bytes=8\n"
        "min: -4.00000000 max: 3.00000000 l2-norm: 5.00000000\n"
        "[[ 3. -4.]]"
    ]


def test_nothing_is_told_before_the_value_is_asked_for(caplog: Log) -> None:
    y = td.debug(td.constant(1.0), "later") + 1.0
    repr(y), td.text(y), td.to_dot(y)
    assert not caplog.messages
    float(y)
    assert len(caplog.messages) == 1


def test_the_cotangent_is_told_beside_the_value(caplog: Log) -> None:
    x = td.param("x", init=2.0)
    y = td.debug(x, "Parameter x") * 3.0
    td.evaluate(y, *td.grad(y, [x]))
    kinds = sorted(message.split(":")[0] for message in caplog.messages)
    assert kinds == ["Debug", "Debug Grad"]
    assert "op=parameter" in caplog.messages[0]


def test_a_step_of_training_tells_both(caplog: Log) -> None:
    x = td.param("x", init=2.0)
    td.optim.SGD(lr=0.1).step(td.debug(x, "x") ** 2)
    assert sorted(m.split(":")[0] for m in caplog.messages) == ["Debug", "Debug Grad"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.zeros((0, 2), np.float32), "shape=0x2 size=0"),
        (np.array([True, False]), "min: 0.00000000 max: 1.00000000"),
        (np.array([3 + 4j], np.complex64), "l2-norm: 5.00000000"),
        (np.int8(3), "shape=scalar size=1 type=int8"),
    ],
)
def test_every_type_can_be_told(caplog: Log, value: np.ndarray, says: str) -> None:
    td.debug(td.asarray(value), "a value").numpy()
    assert says in caplog.text


def test_half_precision_can_be_told(caplog: Log) -> None:
    td.debug(td.astype(td.constant([1.5, -2.0]), "bfloat16"), "half").numpy()
    assert "type=bfloat16" in caplog.text and "max: 1.50000000" in caplog.text


def test_a_large_value_is_told_in_part(caplog: Log) -> None:
    td.debug(td.zeros((100, 100)), "large").numpy()
    assert "..." in caplog.text and len(caplog.text) < 1000


# -- td.print ------------------------------------------------------------------------


def test_a_value_is_printed_when_it_is_computed(capsys: Capture) -> None:
    x = td.constant(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    y = td.print(x, "x") * 2
    assert capsys.readouterr().out == ""
    y.numpy()
    assert capsys.readouterr().out == (
        "x: float32[2, 3] [[0. 1. 2.]\n                  [3. 4. 5.]]\n"
    )
    y.numpy()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (np.float64(0.5), "a value: float64[] 0.5"),
        (np.zeros((0, 2), np.int32), "a value: int32[0, 2] []"),
        (td.astype(td.constant([1.5]), "bfloat16"), "a value: bfloat16[1] [1.5]"),
        (np.array([3 + 4j]), "a value: complex128[1] [3.+4.j]"),
        (np.array([True]), "a value: bool[1] [ True]"),
    ],
)
def test_every_type_can_be_printed(capsys: Capture, value: Any, line: str) -> None:
    td.print(td.asarray(value), "a value").numpy()
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("wrap", [td.function, lambda f: f])
def test_each_use_prints_once_a_run(
    capsys: Capture, engine: str, optimize: bool, wrap: Any
) -> None:
    w = td.param("w", init=2.0, dtype="float64")
    cell = wrap(lambda x: td.print(x * w, "xw"))
    x = td.constant(3.0, "float64")
    with td.options(engine=engine, optimize=optimize):
        loss = td.stack([cell(x), cell(x), cell(x + 1)]).sum()
        td.optim.SGD(lr=1.0).step(loss)
        # The same three times; that two are equal does not make them one.
        lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == ["xw: float64[] 6.0"] * 2 + ["xw: float64[] 8.0"]
    assert float(w) == 2 - (3 + 3 + 4)


def test_gradients_of_any_order_pass_unchanged(capsys: Capture) -> None:
    x = td.param("x", init=2.0, dtype="float64")
    y = td.print(x) ** 3
    (g,) = td.grad(y, [x])
    (h,) = td.grad(g, [x])
    assert [float(v) for v in td.evaluate(y, g, h)] == [8.0, 12.0, 12.0]
    assert capsys.readouterr().out == "float64[] 2.0\n"


def test_printing_is_no_constant(capsys: Capture) -> None:
    f = td.function(lambda x: x + td.print(td.constant(2.0), "two"))
    for _ in range(2):
        f(td.constant(1.0)).numpy()
    assert capsys.readouterr().out == "two: float32[] 2.0\n" * 2


def test_equal_cotangents_are_told_once(caplog: Log) -> None:
    w = td.param("w", init=np.eye(2))
    cell = td.function(lambda x: td.debug(td.tanh(x @ w), "cell"))
    xs = [td.param(f"x{k}", init=np.ones(2)) for k in range(3)]
    loss = td.stack([(cell(x) * k).sum() for k, x in enumerate(xs)]).sum()
    td.evaluate(loss, *td.grad(loss, [w, *xs]))
    kinds = [message.split(":")[0] for message in caplog.messages]
    assert kinds.count("Debug") == kinds.count("Debug Grad") == 3


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("optimize", [True, False])
def test_effects_come_in_the_order_they_were_written_in(
    capsys: Capture, engine: str, optimize: bool
) -> None:
    w = td.param("w", init=np.eye(3))
    x = td.asarray(np.ones((2, 3)))
    with td.options(engine=engine, optimize=optimize):
        # The first one waits for more work than those after it.
        a = td.print((td.tanh(x @ w) @ w).sum(), "a")
        b = td.print(x.sum(), "b")
        inner = td.map(lambda row: td.print(row.sum(), "row"), x)
        cell = td.function(lambda x: td.print(x.sum(), "cell") * td.print(x, "x").sum())
        c, d = cell(x), cell(x)
        td.evaluate(td.print(x.max(), "last"), d, inner, c, b, a)
    labels = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    expected = ["a", "b", "row", "row", "cell", "x", "cell", "x", "last"]
    assert [name for name in labels if not name.startswith(" ")] == expected
