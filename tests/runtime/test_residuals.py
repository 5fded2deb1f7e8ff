"""A value asked for before its gradient: the forward pass is not run twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import engine
from treadle.engines.native.translation import residuals


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native"):
        td.clear_cache()
        yield


def rows(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network() -> Any:
    torch_like = [td.nn.Linear(8, 16), td.nn.Tanh(), td.nn.Linear(16, 16), td.nn.ReLU()]
    model = td.nn.Sequential(*torch_like, td.nn.Linear(16, 3))
    rng = np.random.default_rng(1)
    state = {
        name: rng.standard_normal(x.shape).astype(np.float32) * 0.3
        for name, x in model.state_dict().items()
    }
    model.load_state_dict(state)
    return model


def products() -> int:
    program = td.latest_program()
    assert program is not None
    return program.program.count(" = product")


def train(first: bool, steps: int = 6, held: bool = False) -> Any:
    """Losses, weights, and the products of each value and of each step after it."""
    model, opt = network(), td.optim.Adam(lr=0.01)
    x, t = rows(32, 8), np.arange(32) % 3
    losses, counts = [], []
    for _ in range(steps):
        logits = model(x)
        loss = td.nn.functional.cross_entropy(logits, t)
        if not held:
            del logits
        if first:
            losses.append(float(loss))
            forward = products()
            opt.step(loss)
            counts.append((forward, products()))
        else:
            losses.append(float(opt.step(loss)))
    return losses, [p.numpy() for p in model.parameters()], counts


@pytest.mark.parametrize("held", [False, True])
def test_the_forward_pass_is_run_once(held: bool) -> None:
    losses, weights, counts = train(True, held=held)
    # Three layers forward; backward two products a layer, and one for the first.
    assert counts[0] == (3, 7 if held else 8)  # the first time it is run again
    assert counts[2:] == [(3, 5)] * 4
    want, same, _ = train(False)
    np.testing.assert_allclose(losses, want, rtol=1e-5)
    for a, b in zip(weights, same, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_programs_are_found_again() -> None:
    train(True, steps=3)
    before = td.cache_info()
    train(True, steps=5)
    assert td.cache_info().misses == before.misses


def test_who_never_derives_keeps_nothing() -> None:
    model, x = network(), rows(32, 8)
    for _ in range(3):
        y = model(x).sum()
        y.numpy()
        assert sum(n.stored is not None and n.inputs != () for n in td.nodes(y)) == 1
    assert not engine("native").residuals._wishes  # type: ignore[attr-defined]


def test_what_gradients_no_longer_follow_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(residuals, "IDLE", 8)
    train(True, steps=3)
    model, x, t = network(), rows(32, 8), np.arange(32) % 3

    def kept() -> int:
        loss = td.nn.functional.cross_entropy(model(x), t)
        loss.numpy()
        return sum(n.stored is not None and n.inputs != () for n in td.nodes(loss))

    counts = [kept() for _ in range(12)]
    assert counts[0] > 1 and counts[-1] == 1


def test_what_is_dropped_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    want = train(True)
    monkeypatch.setattr("treadle.runtime.history.RESIDUAL_BYTES", 3000)
    td.clear_cache()
    found = train(True)
    assert found[0] == want[0]
    for a, b in zip(found[1], want[1], strict=True):
        assert np.array_equal(a, b)


def test_parameters_are_still_updated_in_place() -> None:
    model, opt = network(), td.optim.SGD(lr=0.01)
    x, t = rows(32, 8), np.arange(32) % 3
    places = set()
    for k in range(7):
        loss = td.nn.functional.cross_entropy(model(x), t)
        float(loss)
        opt.step(loss)
        if k > 2:
            parameter = next(iter(model.parameters()))
            places.add(parameter.committed.array.ctypes.data)
    assert len(places) == 1


def test_gradients_alone_find_what_was_kept() -> None:
    w = td.param("w", init=rows(8, 5))
    counts = []
    for k in range(5):
        y = td.tanh(
            td.tanh(td.asarray(rows(4, 8, seed=k)) @ w) @ td.asarray(rows(5, 5))
        )
        loss = (y * y).sum()
        loss.numpy()
        g = td.grad(loss, [w])[0].numpy()
        counts.append(products())
        with td.options(engine="reference"):
            y = td.tanh(
                td.tanh(td.asarray(rows(4, 8, seed=k)) @ w) @ td.asarray(rows(5, 5))
            )
            want = td.grad((y * y).sum(), [w])[0].numpy()
        np.testing.assert_allclose(g, want, rtol=1e-4, atol=1e-5)
    assert counts[0] == 3 and counts[2:] == [2, 2, 2]


def layers(name: str) -> tuple[Any, tuple[int, ...]]:
    nn = td.nn
    end = [nn.Flatten(), nn.Linear(96, 10)]
    if name == "pools":
        first = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(16, 24, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2)]
        return nn.Sequential(*first, nn.Dropout(0.2), *second, *end), (5, 3, 8, 8)
    if name == "groups":
        first = [nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU()]
        second = [nn.Conv2d(8, 16, 1), nn.GELU(), nn.Conv2d(16, 6, 3, stride=2)]
        return nn.Sequential(*first, *second, *end), (5, 8, 9, 9)
    first = [nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU()]
    second = [nn.Conv2d(16, 6, 5), nn.BatchNorm2d(6), nn.ReLU()]
    return nn.Sequential(*first, *second, *end), (64, 1, 8, 8)


def convolved(name: str, first: bool) -> tuple[list[bytes], list[int]]:
    """Losses and weights of some steps, and the convolutions of the last ones."""
    td.clear_cache()
    with td.options(seed=2):
        model, shape = layers(name)
        state = {
            key: rows(*x.shape, seed=k) * 0.2
            for k, (key, x) in enumerate(model.state_dict().items())
            if "running" not in key and "batches" not in key
        }
        model.load_state_dict({**model.state_dict(), **state})
        opt, found, counts = td.optim.Adagrad(lr=0.05), [], []
        for k in range(4):
            x, t = rows(*shape, seed=9 + k), np.arange(shape[0]) % 10
            loss = td.nn.functional.cross_entropy(model(x), t)
            if first:
                found.append(np.float32(loss).tobytes())
                opt.step(loss)
            else:
                found.append(np.float32(opt.step(loss)).tobytes())
            program = td.latest_program()
            assert program is not None
            counts.append(program.program.count("convolution y"))
        return [*found, *(p.numpy().tobytes() for p in model.parameters())], counts


@pytest.mark.parametrize("name", ["pools", "groups", "norms"])
def test_convolutions_are_kept_and_change_no_bit(name: str) -> None:
    together, _ = convolved(name, False)
    apart, counts = convolved(name, True)
    assert apart == together
    assert counts[0] > 0  # the first time they are computed again
    assert counts[1:] == [0, 0, 0]


def called(kind: str, first: bool, steps: int = 5) -> Any:
    """Losses and weights of a network of functions, and its products step by step."""
    td.clear_cache()
    layers = [td.nn.Linear(16, 16) for _ in range(3)]
    head = td.nn.Linear(16, 3)
    params = [p for one in (*layers, head) for p in one.parameters()]
    for k, p in enumerate(params):
        p.assign(rows(*p.shape, seed=k) * 0.3)

    def chain(x: Any) -> Any:
        for layer in layers:
            x = td.tanh(layer(x))
        return x

    cells = [td.function(lambda x, own=own: td.tanh(own(x))) for own in layers]

    def nested(x: Any) -> Any:
        for cell in cells:
            x = cell(x)
        return x

    block = {
        "flat": td.function(chain),
        "nested": td.function(nested),
        "checkpoint": td.checkpoint(chain),
    }[kind]
    opt = td.optim.Adam(lr=0.01)
    found, counts, places = [], [], []
    for k in range(steps):
        logits = head(block(rows(32, 16, seed=20 + k)))
        loss = td.nn.functional.cross_entropy(logits, np.arange(32) % 3)
        del logits
        forward = float(loss) if first else None
        before = products() if first else 0
        last = float(opt.step(loss))
        found.append(last if forward is None else forward)
        counts.append((before, products()))
        places.append({p.committed.array.ctypes.data for p in params})
    return [*found, *(p.numpy().tobytes() for p in params)], counts, places


@pytest.mark.parametrize(("kind", "again"), [("flat", 7), ("nested", 7)])
def test_what_calls_compute_inside_is_kept(kind: str, again: int) -> None:
    together, _, _ = called(kind, False)
    apart, counts, places = called(kind, True)
    assert apart == together
    # Four layers forward; backward two products a layer, and one for the first.
    assert counts[2:] == [(4, again)] * 3
    assert places[-1] == places[-2]  # parameters are still written over


def test_what_a_checkpoint_computes_inside_is_not_kept() -> None:
    together, _, _ = called("checkpoint", False)
    apart, counts, _ = called("checkpoint", True)
    assert apart == together
    assert counts[2:] == [(4, 10)] * 3


def test_what_was_kept_of_calls_is_dropped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    want, _, _ = called("flat", True)
    monkeypatch.setattr("treadle.runtime.history.RESIDUAL_BYTES", 3000)
    found, counts, _ = called("flat", True)
    assert found == want
    assert counts[-1][1] > 7


def test_what_is_kept_lies_as_it_was_computed() -> None:
    conv = td.nn.Conv2d(2, 8, 3)
    w = conv.weight
    for k in range(3):
        x = td.asarray(rows(2, 2, 6, 6, seed=k))
        loss = td.tanh(conv(x)).sum()
        loss.numpy()
        kept = [n for n in td.nodes(loss) if n.op.name == "Conv"]
        for node in kept if k else ():
            value = node.stored
            assert isinstance(value, np.ndarray)
            assert value.shape == node.type.shape and value.strides[1] == 4
            with td.options(engine="reference"):
                want = conv(x) - conv.bias.reshape((8, 1, 1))
                np.testing.assert_allclose(value, want.numpy(), rtol=1e-3, atol=1e-4)
        del kept
        td.grad(loss, [w])[0].numpy()


def test_an_underflowed_softmax_is_still_derived() -> None:
    logits = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 5.0]], np.float32)
    hot = np.eye(3, dtype=np.float32)[[1, 0]]
    x = td.param("x", init=logits)
    for _ in range(4):
        e = td.exp(x - x.max(1, keepdims=True))
        loss = -(hot * td.log(e / e.sum(1, keepdims=True))).sum()
        assert float(loss) == 4e4
        (g,) = td.grad(loss, [x])
        np.testing.assert_allclose(g.numpy(), [[1, -1, 0], [-1, 1, 0]], atol=1e-6)


def test_functions_alike_have_one_program() -> None:
    """What the first keeps inside, for a gradient to come, the second keeps as well."""
    for _ in range(3):
        w = td.param("w", init=np.eye(3))
        f = td.function(lambda x, w=w: td.tanh(td.tanh(x @ w) @ w).sum())
        for _ in range(3):
            y = f(td.constant(np.ones(3), "float64"))
            one = np.tanh(np.tanh(1.0))
            np.testing.assert_allclose(float(y), 3 * one)
            (g,) = td.grad(y, [w])
            slope = (1 - one**2) * (np.tanh(1.0) + 1 - np.tanh(1.0) ** 2)
            np.testing.assert_allclose(g.numpy(), np.full((3, 3), slope))


def test_what_had_a_value_is_not_asked_of_graphs_where_it_is_data() -> None:
    """A call has its value before a run reads it; others like that run have data."""
    w = td.param("w", init=rows(8, 8))
    inside = td.function(lambda x: td.exp(td.tanh(x @ w)) * td.sin(x))
    given = td.constant(rows(4, 8, seed=1))
    for _ in range(2):
        first = inside(given)
        first.numpy()
        value = td.sigmoid(first) * first
        value.numpy()
        td.grad(value.sum(), w).numpy()
        x = rows(4, 8, seed=2)
        expected = x / (1 + np.exp(-x))
        data = td.constant(x)
        np.testing.assert_allclose(
            (td.sigmoid(data) * data).numpy(), expected, rtol=1e-5
        )
