"""Derivatives of what runs as rows, which run when the derivative is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.autodiff import derivative
from treadle.runtime.forests import counts

WIDTH, COUNT, SIGHTS = 8, 16, 5


class Net:
    """Two layers over vectors one by one, and what is learned."""

    def __init__(self) -> None:
        draws = np.random.default_rng(0)
        self.weights = [
            td.Parameter(draws.normal(size=shape) * 0.3)
            for shape in ((WIDTH, 2 * WIDTH), (2 * WIDTH,), (2 * WIDTH, WIDTH))
        ]
        self.rows = [td.asarray(x) for x in draws.normal(size=(COUNT, WIDTH))]

    def loss(self) -> Any:
        a, b, c = self.weights
        total: Any = 0.0
        for x in self.rows:
            y = td.tanh(x @ a + b) @ c
            total = (y * y).sum() + total
        return td.log(total)


def together(net: Net) -> list[Any]:
    loss = net.loss()
    return [*td.evaluate(loss, *td.grad(loss, net.weights))]


def apart(net: Net) -> list[Any]:
    loss = net.loss()
    grads = td.grad(loss, net.weights)
    values = [g.numpy() for g in reversed(grads)]
    return [loss.numpy(), *reversed(values)]


def value_between(net: Net) -> list[Any]:
    loss = net.loss()
    grads = td.grad(loss, net.weights)
    value = loss.numpy()
    return [value, *(g.numpy() for g in grads)]


def value_first(net: Net) -> list[Any]:
    loss = net.loss()
    value = loss.numpy()
    return [value, *td.evaluate(*td.grad(loss, net.weights))]


def value_above(net: Net) -> list[Any]:
    loss = net.loss()
    grads = td.grad(loss, net.weights)
    float(loss + 1.0)
    return [loss.numpy(), *td.evaluate(*grads)]


def backward(net: Net) -> list[Any]:
    for p in net.weights:
        p.grad = None
    loss = net.loss()
    loss.backward()
    return [loss.numpy(), *(p.grad.numpy() for p in net.weights)]


def without_gradients_between(net: Net) -> list[Any]:
    loss = net.loss()
    grads = td.grad(loss, net.weights)
    with td.no_grad():
        value = loss.numpy()
        float(loss * 2.0)
    return [value, *(g.numpy() for g in grads)]


def two_derivatives(net: Net) -> list[Any]:
    loss = net.loss()
    first, second = td.grad(loss, net.weights[:1]), td.grad(loss, net.weights[1:])
    return [loss.numpy(), *td.evaluate(*first, *second)]


def one_after_the_other(net: Net) -> list[Any]:
    loss = net.loss()
    first, second = td.grad(loss, net.weights[:1]), td.grad(loss, net.weights[1:])
    return [loss.numpy(), *td.evaluate(*first), *td.evaluate(*second)]


def derived_twice(net: Net) -> list[Any]:
    loss = net.loss()
    grads = td.grad(loss, net.weights)
    norm = sum((g * g).sum() for g in grads)
    return [loss.numpy(), *td.evaluate(*grads, *td.grad(norm, net.weights))]


def derived_after(net: Net) -> list[Any]:
    loss = net.loss()
    grads = td.grad(loss, net.weights)
    values = td.evaluate(loss, *grads)
    norm = sum((g * g).sum() for g in grads)
    return [*values, *td.evaluate(*td.grad(norm, net.weights))]


def some_recorded_without_rows(net: Net) -> list[Any]:
    loss = net.loss()
    with td.options(autobatch=False):
        grads = td.grad(loss, net.weights)
    return [loss.numpy(), *td.evaluate(*grads)]


SPELLINGS = [together, apart, value_between, value_first, value_above, backward,
             without_gradients_between, two_derivatives, one_after_the_other,
             derived_twice, derived_after, some_recorded_without_rows]  # fmt: skip
WAITS = [together, apart, value_between, backward]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_has_the_values_of_node_by_node(
    spelling: Callable[[Net], list[Any]],
) -> None:
    with td.options(autobatch=False, engine="reference"):
        want = spelling(Net())
    td.clear_cache()  # what others have seen would decide the first sight
    net = Net()
    every = [spelling(net) for _ in range(SIGHTS)]
    for got, value in zip(every[0], want, strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-12)
    # How often it was seen decides no bit, but of a second derivative: at the first
    # sight it goes through how rows were computed, later through the first derivative.
    same = every[1] if spelling is derived_after else every[0]
    for later in every[1:]:
        for x, y in zip(later, same, strict=True):
            assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("spelling", WAITS)
def test_rows_run_when_the_derivative_is_asked_for(
    spelling: Callable[[Net], list[Any]],
) -> None:
    net = Net()
    for _ in range(SIGHTS):
        spelling(net)
    loss, before = net.loss(), counts.runs
    grads = td.grad(loss, net.weights)
    assert counts.runs == before
    spelling(net)
    assert counts.runs == before + 1  # and that as rows
    td.evaluate(loss, *grads)
    assert counts.runs == before + 2


def step_after_backward(net: Net, optimizer: Any) -> Any:
    loss = net.loss()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def step_after_a_look(net: Net, optimizer: Any) -> Any:
    loss = net.loss()
    optimizer.zero_grad()
    loss.backward()
    float(loss)
    optimizer.step()
    return loss


def step_after_a_value(net: Net, optimizer: Any) -> Any:
    loss = net.loss()
    float(loss)
    optimizer.step(loss)
    return loss


def step_of_a_loss(net: Net, optimizer: Any) -> Any:
    loss = net.loss()
    optimizer.step(loss)
    return loss


STEPS = [step_after_backward, step_after_a_look, step_after_a_value, step_of_a_loss]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("rule", [td.optim.SGD, td.optim.Adam])
def test_steps_are_those_of_node_by_node(step: Any, rule: Any) -> None:
    def trained(**options: Any) -> list[Any]:
        with td.options(**options):
            net = Net()
            optimizer = rule(net.weights, lr=0.05)
            losses = [np.asarray(step(net, optimizer)) for _ in range(2 * SIGHTS)]
            return [*losses, *(p.numpy() for p in net.weights)]

    want = trained(autobatch=False, engine="reference")
    before = counts.runs
    got = trained()
    assert counts.runs == before + (2 * SIGHTS if step is not step_of_a_loss else 0)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def test_a_gradient_that_nobody_asks_for_is_not_computed() -> None:
    net = Net()
    for _ in range(SIGHTS):
        together(net)
    before = counts.runs
    for _ in range(SIGHTS):
        td.grad(net.loss(), net.weights)
    assert counts.runs == before


def value_and_gradients(net: Net, optimizer: Any) -> None:
    value_first(net)


AFTER_VALUES = [value_and_gradients, step_after_a_value, step_after_a_look]


@pytest.mark.parametrize("spelling", AFTER_VALUES)
def test_derivatives_of_values_that_were_rows_follow_plans(
    spelling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    td.clear_cache()
    net = Net()
    optimizer = td.optim.SGD(net.weights, lr=0.05)
    through, real = [], derivative.through
    monkeypatch.setattr(
        derivative, "through", lambda *given: through.append(given) or real(*given)
    )
    for _ in range(SIGHTS):
        spelling(net, optimizer)
    assert through
    through.clear()
    spelling(net, optimizer)
    assert not through


@pytest.mark.parametrize("table", [False, True])
def test_a_step_that_follows_a_plan_uses_up_the_tape_of_its_loss(table: bool) -> None:
    net = Net()
    words = td.lookup("words", (COUNT, WIDTH), init=np.ones((COUNT, WIDTH), "f"))
    optimizer = td.optim.SGD([*net.weights, words], lr=0.05)
    for _ in range(2 * SIGHTS):
        if table:
            net.rows = [td.rows(words, [k % 5])[0] for k in range(COUNT)]
        loss = net.loss()
        float(loss)
        optimizer.step(loss)
        with pytest.raises(td.GradientError):
            td.grad(loss, net.weights)


def test_what_rows_took_for_data_is_told_from_what_they_have_not_read() -> None:
    net, other = Net(), td.param("other", init=np.zeros((WIDTH, 2 * WIDTH)))

    def gradients(*targets: Any) -> list[Any]:
        loss = net.loss()
        float(loss)
        return td.evaluate(*td.grad(loss, [*net.weights[1:], *targets], unused="zero"))

    net.weights[0].trainable = False
    with td.options(autobatch=False):
        want = gradients(net.weights[0])
    for _ in range(SIGHTS):
        assert not gradients(other)[-1].any()
    for _ in range(SIGHTS):
        for x, y in zip(gradients(net.weights[0]), want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9)


@pytest.mark.parametrize("first", ["value", "gradients"])
def test_threads_that_ask_for_the_same_at_once_get_the_same(first: str) -> None:
    net = Net()
    for _ in range(4 * SIGHTS):
        loss = net.loss()
        grads = td.grad(loss, net.weights)
        barrier, answers = threading.Barrier(4), list[Any]()

        def ask(
            loss: Any = loss,
            grads: Any = grads,
            barrier: threading.Barrier = barrier,
            answers: list[Any] = answers,
        ) -> None:
            barrier.wait()
            value = loss.numpy() if first == "value" else None
            arrays = [g.numpy() for g in grads]
            value = loss.numpy() if value is None else value
            answers.append([x.tobytes() for x in (value, *arrays)])

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 4  # no thread has failed
        assert all(x == answers[0] for x in answers)
