"""spellings: one small training step, said in the ways that people say it.

MLP 32-64-10, batch 8, Adam. In torch "step" and "as a function" are the loop that all
know. What is alike records the same nodes: how it is said should not decide its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import (
    Array,
    arrays,
    case,
    layers,
    learn,
    loaded,
    of_both,
    program,
)
from benchmarks.workload import Case, Cases

__all__ = ["WORKLOAD"]

RATE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """Extents of the network, and how many batches there are before they repeat."""

    batch: int = 8
    inputs: int = 32
    hidden: int = 64
    classes: int = 10
    batches: int = 16


@dataclass(frozen=True)
class Data:
    """Batches and first weights: of the layer at the front and of that at the back."""

    images: Array
    labels: Array
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Noise with labels."""
    rng = np.random.default_rng(2)
    shape = sizes.batches, sizes.batch
    images = rng.standard_normal((*shape, sizes.inputs), np.float32)
    shapes = {
        "front": (sizes.hidden, sizes.inputs),
        "back": (sizes.classes, sizes.hidden),
    }
    return Data(images, rng.integers(0, sizes.classes, shape), layers(3, shapes))


class Steps:
    """The spellings in one library; each gives a case with a network of its own."""

    def __init__(self, lib: Any, sizes: Sizes, given: Data) -> None:
        self.lib, self.nn, self.sizes, self.given = lib, lib.nn, sizes, given
        self.images, self.labels = arrays(lib, given.images, given.labels)

    def batch(self, k: int) -> tuple[Any, Any]:
        k %= self.sizes.batches
        return self.images[k], self.labels[k]

    def net(self, *middle: Any) -> Any:
        nn, n = self.nn, self.sizes
        front, back = nn.Linear(n.inputs, n.hidden), nn.Linear(n.hidden, n.classes)
        model = nn.Sequential(front, *middle, nn.ReLU(), back)
        names = {"front": "0", "back": str(len(model) - 1)}
        pairs = [(k.split("."), v) for k, v in self.given.weights.items()]
        return loaded(self.lib, model, {f"{names[a]}.{b}": v for (a, b), v in pairs})

    def adam(self, *modules: Any) -> Any:
        trained = [p for m in modules for p in m.parameters()]
        return self.lib.optim.Adam(trained, lr=RATE)

    def loss(self, model: Any, k: int) -> Any:
        x, y = self.batch(k)
        return self.nn.functional.cross_entropy(model(x), y)

    def value(self, x: Any) -> Array:
        found: Array = (x.detach() if self.lib.__name__ == "torch" else x).numpy()
        return found

    def plain(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)
        yield case("step", lambda k: learn(self.lib, optimizer, self.loss(model, k)))
        model_2 = self.net()
        optimizer_2 = self.adam(model_2)

        def step(x: Any, y: Any) -> Any:
            loss = self.nn.functional.cross_entropy(model_2(x), y)
            return learn(self.lib, optimizer_2, loss)

        if self.lib.__name__ == "treadle":
            step = self.lib.function(step)
        yield case("as a function", lambda k: step(*self.batch(k)))

    def backward(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)

        def step(k: int) -> Any:
            optimizer.zero_grad()
            loss = self.loss(model, k)
            loss.backward()
            optimizer.step()
            return loss.item()

        yield case("zero_grad, backward, step", step)

    def looked_at(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)

        def step(k: int) -> float:
            loss = self.loss(model, k)
            shown = loss.item()
            learn(self.lib, optimizer, loss)
            return shown

        yield case("loss looked at before", step)

    def accuracy(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)

        def step(k: int) -> float:
            x, y = self.batch(k)
            logits = model(x)
            loss = self.nn.functional.cross_entropy(logits, y)
            last = learn(self.lib, optimizer, loss)
            right = (self.value(logits).argmax(1) == np.asarray(y)).mean()
            return float(last) + float(right)

        yield case("accuracy read", step)

    def held(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)
        front, relu, back = model

        def step(k: int) -> Any:
            x, y = self.batch(k)
            before = front(x)
            hidden = relu(before)
            logits = back(hidden)
            loss = self.nn.functional.cross_entropy(logits, y)
            return learn(self.lib, optimizer, loss)

        yield case("outputs held by names", step)

    def normalized(self) -> Iterator[Case]:
        model = self.net(self.nn.BatchNorm1d(self.sizes.hidden))
        optimizer = self.adam(model)
        yield case(
            "BatchNorm inside",
            lambda k: learn(self.lib, optimizer, self.loss(model, k)),
        )

    def norm(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)

        def step(k: int) -> float:
            optimizer.zero_grad()
            self.loss(model, k).backward()
            norm = sum((p.grad * p.grad).sum() for p in model.parameters()) ** 0.5
            optimizer.step()
            return norm.item()

        yield case("gradient norm by hand", step)

    def evaluation(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)

        def step(k: int) -> float:
            learn(self.lib, optimizer, self.loss(model, k))
            with self.lib.no_grad():
                return self.loss(model, k + 1).item()

        yield case("evaluation between steps", step)

    def frozen(self) -> Iterator[Case]:
        model = self.net()
        model[0].requires_grad_(False)
        optimizer = self.adam(model[2])
        yield case(
            "a frozen layer", lambda k: learn(self.lib, optimizer, self.loss(model, k))
        )

    def two(self) -> Iterator[Case]:
        model = self.net()
        first, second = self.adam(model[0]), self.adam(model[2])

        def step(k: int) -> Any:
            first.zero_grad()
            second.zero_grad()
            loss = self.loss(model, k)
            loss.backward()
            first.step()
            second.step()
            return loss.item()

        yield case("two optimizers", step)

    def accumulated(self) -> Iterator[Case]:
        model = self.net()
        optimizer = self.adam(model)

        def step(k: int) -> float:
            optimizer.zero_grad()
            total = 0.0
            for j in range(4):
                loss = self.loss(model, 4 * k + j) / 4
                loss.backward()
                total += loss.item()
            optimizer.step()
            return total

        yield case("accumulation over four", step)


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """All spellings in one library."""
    steps = Steps(lib, sizes, given)
    for spelled in (
        *(steps.plain, steps.backward, steps.looked_at, steps.accuracy, steps.held),
        *(steps.normalized, steps.norm, steps.evaluation, steps.frozen, steps.two),
        steps.accumulated,
    ):
        yield from spelled()


WORKLOAD = program(
    "spellings",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=3, inputs=4, hidden=5, classes=3),
    },
    data=data,
    steps=400,
    alike=(
        "step",
        "as a function",
        "zero_grad, backward, step",
        "loss looked at before",
        "accuracy read",
        "outputs held by names",
    ),
    implementations=of_both(cases),
)
