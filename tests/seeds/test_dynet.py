"""The training loop of DyNet's document: a new graph for each sample."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td


def test_the_training_loop_of_the_document() -> None:
    xs = [0.5, 1.0, 1.5, -0.5]
    ys = [2 * x for x in xs]
    w = td.param("W", shape=(1,), init=0.0)
    trainer = td.optim.SGD(lr=0.1)
    for _ in range(30):
        for x, y in zip(xs, ys, strict=True):
            prediction = w * x
            loss = td.square(prediction - y).sum()
            loss.backward()
            trainer.step()
            trainer.zero_grad()
    assert w.numpy()[0] == pytest.approx(2.0, abs=1e-3)


def test_s15_adagrad_as_the_document_writes_it() -> None:
    w = td.param("w", init=1.0)
    optimizer = td.optim.Adagrad(lr=0.1)
    optimizer.step(w * w)
    assert float(w) == pytest.approx(1.0 - 0.1 * 2.0 / (4.0**0.5), rel=1e-5)


def test_s16_backward_steps_are_nodes_that_do_not_wait_for_each_other() -> None:
    start = np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(8, 8)
    x = td.param("x", init=start)

    def gradient() -> td.Tensor:
        return td.grad((td.tanh(x @ start) * td.tanh(x @ start.T)).sum(), [x])[0]

    stages = [[n.op.name for n in stage] for stage in td.stages(gradient())]
    products = [stage.count("Contract") for stage in stages]
    assert [count for count in products if count] == [2, 2]  # forward, backward
    found = set()
    for threads in (1, 2, 4):
        with td.options(threads=threads):
            found.add(gradient().numpy().tobytes())
    assert len(found) == 1
