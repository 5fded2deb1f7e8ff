"""What a marked value tells in the log when it is computed."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import treadle as td

Log = pytest.LogCaptureFixture


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
