"""Labels out of range: refused by every engine, in rows, functions and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import RunError

X = np.random.default_rng(0).normal(size=(3, 4)).astype("f4")
Array = np.ndarray[Any, Any]


def _ctc(x: Any, labels: Any) -> td.Tensor:
    logs = td.log_softmax(td.reshape(x, (1, 3, 4)))
    return td.ctc_loss(logs, td.reshape(td.asarray(labels), (3, 1)))


LOSSES: dict[str, Callable[..., td.Tensor]] = {
    "cross_entropy": td.cross_entropy,
    "cross_entropy, weight": lambda x, k: td.cross_entropy(x, k, weight=[1.0] * 4),
    "cross_entropy, smooth": lambda x, k: td.cross_entropy(x, k, label_smoothing=0.1),
    "nll_loss": td.nll_loss,
    "unlikelihood": td.unlikelihood,
    "sparsemax_loss": td.sparsemax_loss,
    "class_hinge_loss": td.class_hinge_loss,
    "multi_margin_loss": td.multi_margin_loss,
    "one_hot": lambda x, k: td.sum(x * td.one_hot(k, 4)),
    "pick": lambda x, k: td.sum(td.pick(x, k, counted=True)),
    "embedding": lambda x, k: td.sum(td.embedding(x.T, k)),
    "ctc_loss": _ctc,
}


def _value(f: Callable[..., td.Tensor], labels: Array) -> Any:
    return f(td.asarray(X), labels).numpy()


def _gradient(f: Callable[..., td.Tensor], labels: Array) -> Any:
    x = td.Parameter(X)
    return td.grad(f(x, labels), [x])[0].numpy()


def _function(f: Callable[..., td.Tensor], labels: Array) -> Any:
    return td.function(f)(td.asarray(X), td.asarray(labels)).numpy()


def _rows(f: Callable[..., td.Tensor], labels: Array) -> Any:
    x, total = td.Parameter(X), td.asarray(0.0)
    for k in range(9):
        h = td.asarray(X) * x
        for _ in range(k % 3):
            h = td.tanh(h)
        total = total + f(h, labels if k == 4 else np.array([0, 1, 2]))
    return td.grad(total, [x])[0].numpy(), total.numpy()


@pytest.mark.parametrize("label", [-1, -4, -5, 4, -(2**40)])
@pytest.mark.parametrize("name", LOSSES)
def test_a_label_out_of_range_is_refused_however_it_is_run(
    name: str, label: int
) -> None:
    labels = np.array([1, label, 2])
    for run in (_value, _gradient, _function):
        for engine in ("native", "reference"):
            with td.options(engine=engine), pytest.raises(RunError, match=str(label)):
                run(LOSSES[name], labels)
    with pytest.raises(RunError, match="out of range"):
        _rows(LOSSES[name], labels)


@pytest.mark.parametrize("starts", [[-1, 2], [0, 4], [2, 1]])
def test_starts_of_rows_are_checked_in_gradients_too(starts: list[int]) -> None:
    for engine in ("native", "reference"):
        with (
            td.options(engine=engine),
            pytest.raises(RunError, match=r"not from|range|fall"),
        ):
            _gradient(lambda x, k: td.sum(td.segment_sum(x, k) ** 2), np.array(starts))


@pytest.mark.parametrize("count", [-1, 2])
def test_a_number_of_labels_that_a_sequence_has_not_is_refused(count: int) -> None:
    x, one = td.zeros((2, 1, 3)), td.asarray([2])
    for engine in ("native", "reference"):
        with td.options(engine=engine), pytest.raises(RunError):
            td.ctc_loss(x, [[1]], one, td.asarray([count])).numpy()
