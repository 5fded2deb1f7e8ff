"""Model: what fit, evaluate and predict take, and that fit is the bare loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.data.dataset import ArrayDataset
from treadle.data.loader import Loader
from treadle.train.batches import by_class

Array = np.ndarray[Any, Any]


def data(count: int = 50) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4)).astype(np.float32)
    return x, (x.sum(1) > 0).astype(np.int64)


def network() -> td.nn.Module:
    return td.nn.Sequential(
        td.nn.Linear(4, 8), td.nn.Tanh(), td.nn.Dropout(0.2), td.nn.Linear(8, 2)
    )


def model(**settings: Any) -> td.Model:
    return td.Model(network(), "cross_entropy", td.optim.Adam(lr=0.05), **settings)


def bits(m: td.Model) -> dict[str, bytes]:
    return {name: a.tobytes() for name, a in m.module.state_dict().items()}


def test_fit_is_the_bare_loop() -> None:
    x, y = data()
    with td.options(seed=3):
        fitted = model()
        history = fitted.fit(x, y, batch_size=8, epochs=3, verbose=0, seed=5)
    with td.options(seed=3):
        net, optimizer = network(), td.optim.Adam(lr=0.05)
        loader = Loader(ArrayDataset(x, y), 8, seed=5)
        means = []
        for _ in range(3):
            losses = [
                (
                    float(optimizer.step(td.nn.functional.cross_entropy(net(a), b))),
                    len(a),
                )
                for a, b in loader
            ]
            means.append(
                np.average([v for v, _ in losses], weights=[n for _, n in losses])
            )
    assert bits(fitted) == {k: a.tobytes() for k, a in net.state_dict().items()}
    np.testing.assert_allclose(history["loss"], means, rtol=1e-12)


def batches(x: Array, y: Array) -> list[tuple[Array, Array]]:
    return [(x[k : k + 10], y[k : k + 10]) for k in range(0, len(x), 10)]


def test_arrays_data_sets_loaders_lists_and_generators_train_alike() -> None:
    x, y = data()

    def forever() -> Iterator[tuple[Array, Array]]:
        while True:
            yield from batches(x, y)

    found = []
    plain = {"batch_size": 10, "shuffle": False}
    for given, more in (
        ((x, y), plain),
        ((td.asarray(x), y), plain),
        ((ArrayDataset(x, y),), plain),
        ((Loader(ArrayDataset(x, y), 10, shuffle=False),), {}),
        ((Loader(ArrayDataset(x, y), 10, shuffle=False),), {"steps_per_epoch": 5}),
        ((forever(),), {"steps_per_epoch": 5}),
    ):
        with td.options(seed=1):
            m = model()
            m.fit(*given, epochs=2, verbose=0, **more)
            found.append(bits(m))
    assert all(b == found[0] for b in found)


def test_steps_per_epoch_may_be_more_or_less_than_the_data() -> None:
    x, y = data()
    for steps in (2, 7):
        seen: list[int] = []
        loader = Loader(ArrayDataset(x, y), 10)
        model().fit(
            loader,
            epochs=3,
            steps_per_epoch=steps,
            verbose=0,
            callbacks=[
                td.train.LambdaCallback(on_batch_end=lambda k, _: seen.append(k))
            ],
        )
        assert seen == list(range(steps)) * 3
    with pytest.raises(td.ArgumentError, match="no batch"):
        model().fit(iter(batches(x, y)), epochs=2, verbose=0)


def test_evaluate_and_predict() -> None:
    x, y = data()
    m = model(metrics=["accuracy"])
    m.fit(x, y, epochs=30, verbose=0)
    found = m.evaluate(x, y, batch_size=7)
    logits = m.predict(x, batch_size=7)
    assert logits.shape == (50, 2) and m.module.training
    assert found["accuracy"] == np.mean(logits.argmax(1) == y) > 0.9
    want = float(td.nn.functional.cross_entropy(td.asarray(logits), y))
    assert found["loss"] == pytest.approx(want, rel=1e-5)
    assert m.evaluate(ArrayDataset(x, y))["accuracy"] == found["accuracy"]
    assert (m.predict(ArrayDataset(x, y)) == m.predict(x)).all()


def test_validation_by_share_and_by_data() -> None:
    x, y = data()
    seen = []
    for more in (
        {"validation_split": 0.2},
        {"validation_data": (x[40:], y[40:])},
        {"validation_data": ArrayDataset(x[40:], y[40:])},
    ):
        given = (x, y) if "validation_split" in more else (x[:40], y[:40])
        with td.options(seed=1):
            m = model(metrics=["accuracy"])
            history = m.fit(*given, epochs=2, verbose=0, **more)  # type: ignore[arg-type]
        seen.append(history.history)
    assert seen[0] == seen[1] == seen[2]
    assert list(seen[0]) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    with pytest.raises(td.ArgumentError, match="leaves one side empty"):
        model().fit(x[:2], y[:2], validation_split=0.1, verbose=0)
    with pytest.raises(td.ArgumentError, match="validation_data"):
        model().fit(iter(batches(x, y)), validation_split=0.5, verbose=0)


def test_weights_count_examples() -> None:
    x, y = data(20)
    weight = np.zeros(20)
    weight[:10] = 2.0
    m = model(metrics=["accuracy"])
    weighted = m.evaluate(x, y, sample_weight=weight, batch_size=20)
    half = m.evaluate(x[:10], y[:10])
    assert weighted["loss"] == pytest.approx(half["loss"], rel=1e-6)
    assert weighted["accuracy"] == half["accuracy"]
    module = td.Model(network(), td.nn.CrossEntropyLoss())
    module.module.load_state_dict(m.module.state_dict())
    again = module.evaluate(x, y, sample_weight=weight, batch_size=20)
    assert again["loss"] == pytest.approx(half["loss"], rel=1e-6)
    m.fit(x, y, sample_weight=weight, verbose=0)
    own = td.Model(network(), lambda p, t: (p**2).mean())
    with pytest.raises(td.ArgumentError, match="one value for each example"):
        own.fit(x, y, sample_weight=weight, verbose=0)


def test_several_inputs_and_a_module_that_gives_its_loss() -> None:
    class Two(td.nn.Module):
        def __init__(self) -> None:
            self.a, self.b = td.nn.Linear(4, 1), td.nn.Linear(4, 1)

        def forward(self, left: Any, right: Any) -> td.Tensor:
            return self.a(left) + self.b(right)

    class Own(td.nn.Module):
        def __init__(self) -> None:
            self.layer = td.nn.Linear(4, 1)

        def forward(self, x: Any, y: Any) -> td.Tensor:
            return ((self.layer(x)[:, 0] - y) ** 2).mean()

    x, _ = data()
    m = td.Model(Two(), "mse")
    for inputs in ([x, x], {"left": x, "right": x}):
        m.fit(inputs, x[:, :1], verbose=0)
        assert m.predict(inputs).shape == (50, 1)
    own = td.Model(Own(), None, td.optim.Adam(lr=0.1))
    history = own.fit(x, x.sum(1), epochs=20, verbose=0)
    assert history["loss"][-1] < 0.1 * history["loss"][0]


def test_split_makes_steps_of_parts() -> None:
    x, y = data(40)
    found = []
    for size, split in ((20, 2), (10, 1)):
        with td.options(seed=1):
            m = model()
            m.fit(x, y, batch_size=size, split=split, shuffle=False, verbose=0)
            found.append(bits(m))
    assert found[0] == found[1]


def test_penalty_summary_weights_and_lines(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = data()
    m = model()
    m.penalty = lambda: td.optim.penalty.l2(m.module, 10.0)
    m.fit(x, y, epochs=20)
    assert float(td.optim.penalty.l2(m.module)) < 0.5
    assert capsys.readouterr().out.startswith("epoch 1/20: loss ")
    text = m.summary(x)
    assert "0     Linear   [50, 8]" in text and text.endswith(
        "58 parameters, 58 trainable"
    )
    m.save_weights(tmp_path / "w.npz")
    other = model()
    other.load_weights(tmp_path / "w.npz")
    assert bits(other) == bits(m)


def test_wrong_use_is_told() -> None:
    x, y = data()
    for make, text in (
        (lambda: td.Model(network(), "crossentropy"), "no loss 'crossentropy'"),
        (lambda: td.Model(network(), "mse", metrics=["acc"]), "no metric 'acc'"),
        (lambda: td.Model(network(), "mse", metrics=["mse", "mse"]), "twice: mse"),
        (lambda: td.Model(lambda v: v), "made of a Module"),  # type: ignore[arg-type]
        (lambda: model().fit(x, verbose=0), "no targets"),
        (lambda: model().fit(x, y, epochs=0), "epochs is a positive"),
        (
            lambda: model().fit(ArrayDataset(x, y), y, verbose=0),
            "come with the batches",
        ),
    ):
        with pytest.raises(td.ArgumentError, match=text):
            make()


def test_metrics_over_batches_are_metrics_over_all() -> None:
    rng = np.random.default_rng(0)
    p, t = rng.random((30, 6)), rng.integers(0, 2, (30, 6))
    labels = rng.integers(0, 6, 30)
    for name, target in (
        ("accuracy", labels),
        ("top_k_accuracy", labels),
        ("binary_accuracy", t),
        ("precision", t),
        ("recall", t),
        ("f1", t),
        ("mse", t),
        ("mae", t),
        ("rmse", t),
    ):
        whole, parts = (td.train.metrics.metric(name) for _ in range(2))
        whole.update(target, p)
        for k in range(0, 30, 7):
            parts.update(target[k : k + 7], p[k : k + 7])
        assert parts.result() == pytest.approx(whole.result(), rel=1e-12)
        weighted = td.train.metrics.metric(name)
        weighted.update(target, p, np.r_[np.ones(20), np.zeros(10)])
        first = td.train.metrics.metric(name)
        first.update(target[:20], p[:20])
        assert weighted.result() == pytest.approx(first.result(), rel=1e-12)
    errors = td.train.MeanSquaredError()
    errors.update(np.zeros(3), np.ones((3, 1)))
    assert errors.sums.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("flush", [False, True])
def test_flush_ends_an_epoch_with_an_update(flush: bool) -> None:
    model = td.Model(td.nn.Linear(1, 1), "mse", td.optim.SGD(lr=0.1, accumulate=2))
    x = np.ones((6, 1), "f4")
    model.fit(x, x, batch_size=2, epochs=2, verbose=0, flush=flush)
    assert int(model.optimizer.count) == (4 if flush else 3)


@pytest.mark.parametrize(
    "target",
    [
        np.array([0, 1, 2, 1]),
        np.array([[0], [1], [2], [1]]),
        np.eye(3, dtype="f4")[[0, 1, 2, 1]],
        np.array([0.0, 1.0, 2.0, 1.0], "f4"),
        td.asarray([0, 1, 2, 1]),
    ],
    ids=["labels", "column", "one-hot", "floats", "tensor"],
)
def test_class_weight_is_a_weight_by_class(target: Any) -> None:
    assert by_class((None, target, None), None)[2] is None
    found = by_class((None, target, None), {1: 5.0, 2: 0.5})[2]
    assert found.tolist() == [1.0, 5.0, 0.5, 5.0]
    own = np.array([2.0, 1.0, 2.0, 0.0])
    assert by_class((None, target, own), {1: 5.0})[2].tolist() == [2.0, 5.0, 2.0, 0.0]


def test_class_weight_in_fit_is_that_sample_weight() -> None:
    x, y = data()
    weights = np.where(y == 1, 3.0, 1.0).astype("f4")
    made = []
    for settings in ({"class_weight": {1: 3.0}}, {"sample_weight": weights}, {}):
        with td.options(seed=3):
            m = td.Model(network(), "cross_entropy", td.optim.SGD(lr=0.1), ["accuracy"])
            history = m.fit(x, y, epochs=2, verbose=0, **settings)  # type: ignore[arg-type]
        made.append((bits(m), history["loss"], history["accuracy"]))
    assert made[0][0] == made[1][0] != made[2][0]
    assert made[0][1] == made[1][1], "the losses are weighted"
    assert all(0 <= a <= 1 for a in made[0][2]), "the metrics are not"
    with td.options(seed=3):
        a, b = model(), model()
    b.module.load_state_dict(a.module.state_dict())
    one = a.train_on_batch(x, y, class_weight={0: 0.0, 1: 0.0})
    assert one == 0.0 and b.train_on_batch(x, y) > 0.0


@pytest.mark.parametrize(
    "classes, target, message",
    [
        ({"a": 1.0}, np.zeros(4, "i8"), "not 'a': 1.0"),
        ({1: -1.0}, np.zeros(4, "i8"), "not 1: -1.0"),
        ({1: float("nan")}, np.zeros(4, "i8"), "not 1: nan"),
        ({1: 1.0}, {"a": np.zeros(4, "i8")}, "an array of classes, not dict"),
        ({1: 1.0}, None, "an array of classes, not NoneType"),
    ],
)
def test_class_weight_that_is_wrong(classes: Any, target: Any, message: str) -> None:
    with pytest.raises(td.ArgumentError, match=message):
        model().fit(np.zeros((4, 4), "f4"), target, verbose=0, class_weight=classes)
