"""lenet: training steps of Owl's lazy_mnist network on pictures of Fashion-MNIST.

28x28x1, convolution 5x5 to 32 channels, relu, max pool 2x2, dropout 0.1, linear 1024,
relu, linear 10, cross entropy, Adagrad with 0.005, batches of 100; the loss is fetched
at the end of the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.counted import of_jax, of_torch, of_treadle
from benchmarks.pictures import pictures
from benchmarks.workload import Case, Cases, Claim, Workload

__all__ = ["WORKLOAD"]

RATE, DROPPED, CLASSES = 0.005, 0.1, 10
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Extents of the network and how many batches there are before they repeat."""

    batch: int
    image: int
    channels: int
    hidden: int
    batches: int = 60

    @property
    def pooled(self) -> int:
        """Height and width after the pool."""
        return self.image // 2


@dataclass(frozen=True)
class Data:
    """Batches, and the weights all implementations start from, by torch's names."""

    images: Array
    labels: Array
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Pictures and weights; the weights are drawn within 1 / sqrt(fan-in)."""
    images, labels = pictures(sizes.batches, sizes.batch, sizes.image)
    rng = np.random.default_rng(1)

    def layer(name: str, *shape: int) -> dict[str, Array]:
        limit = 1.0 / np.sqrt(np.prod(shape[1:]))
        drawn = (rng.uniform(-limit, limit, s) for s in (shape, shape[:1]))
        weight, bias = (a.astype(np.float32) for a in drawn)
        return {f"{name}.weight": weight, f"{name}.bias": bias}

    flat = sizes.channels * sizes.pooled**2
    weights = {
        **layer("0", sizes.channels, 1, 5, 5),
        **layer("5", sizes.hidden, flat),
        **layer("7", CLASSES, sizes.hidden),
    }
    return Data(images, labels, weights)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it."""
    import treadle as td

    model = td.nn.Sequential(
        td.nn.Conv2d(1, sizes.channels, 5, padding=2),
        td.nn.ReLU(),
        td.nn.MaxPool2d(2),
        td.nn.Dropout(0.0 if checking else DROPPED),
        td.nn.Flatten(),
        td.nn.Linear(sizes.channels * sizes.pooled**2, sizes.hidden),
        td.nn.ReLU(),
        td.nn.Linear(sizes.hidden, CLASSES),
    )
    model.load_state_dict(given.weights)
    optimizer = td.optim.Adagrad(lr=RATE)
    done = 0

    def loss_of(x: Any, y: Any) -> Any:
        return td.nn.functional.cross_entropy(model(x), y)

    def run(count: int) -> float:
        nonlocal done
        for _ in range(count):
            k = done % sizes.batches
            logits = model(given.images[k])
            loss = td.nn.functional.cross_entropy(logits, given.labels[k])
            last = optimizer.step(loss)
            done += 1
        return float(last)

    first = given.images[0], given.labels[0]
    yield Case("step", run, counts=lambda: of_treadle(loss_of, optimizer, first))


def torch(
    sizes: Sizes, part: str, given: Data, checking: bool, variant: str = ""
) -> Cases:
    """In torch: plain, with channels last, or compiled but for the optimizer."""
    torch: Any = import_module("torch")
    nn: Any = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, sizes.channels, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.0 if checking else DROPPED),
        nn.Flatten(),
        nn.Linear(sizes.channels * sizes.pooled**2, sizes.hidden),
        nn.ReLU(),
        nn.Linear(sizes.hidden, CLASSES),
    )
    model.load_state_dict({k: torch.tensor(w) for k, w in given.weights.items()})
    images, labels = torch.from_numpy(given.images), torch.from_numpy(given.labels)
    if variant == "channels-last":
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=RATE)

    def loss_of(x: Any, y: Any) -> Any:
        if variant == "channels-last":
            x = x.contiguous(memory_format=torch.channels_last)
        return nn.functional.cross_entropy(model(x), y)

    compiled = torch.compile(loss_of) if variant == "compile" else loss_of
    done = 0

    def run(count: int) -> float:
        nonlocal done
        for _ in range(count):
            k = done % sizes.batches
            optimizer.zero_grad(set_to_none=True)
            loss = compiled(images[k], labels[k])
            loss.backward()
            optimizer.step()
            done += 1
        return float(loss.detach())

    first, fused = (images[0], labels[0]), variant == "compile"
    counts = partial(of_torch, compiled, optimizer, first, fused)
    yield Case("step", run, counts=counts)


def _for_jax(weights: dict[str, Array], sizes: Sizes) -> dict[str, Array]:
    """Weights for channels last: kernels (5, 5, in, out), the rest (in, out)."""
    wide = (sizes.hidden, sizes.channels, sizes.pooled, sizes.pooled)
    dense = weights["5.weight"].reshape(wide).transpose(2, 3, 1, 0)
    return {
        **weights,
        "0.weight": weights["0.weight"].transpose(2, 3, 1, 0),
        "5.weight": dense.reshape(-1, sizes.hidden),
        "7.weight": weights["7.weight"].T,
    }


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax: one jitted step, channels last, parameters and state donated."""
    jax: Any = import_module("jax")
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn
    keep = 1.0 if checking else 1.0 - DROPPED

    def loss_of(w: Any, key: Any, x: Any, y: Any) -> Any:
        dimensions = ("NHWC", "HWIO", "NHWC")
        h = lax.conv_general_dilated(
            x[..., None], w["0.weight"], (1, 1), "SAME", dimension_numbers=dimensions
        )
        h = nn.relu(h + w["0.bias"])
        window = (1, 2, 2, 1)
        h = lax.reduce_window(h, -jnp.inf, lax.max, window, window, "VALID")
        if keep < 1.0:
            h = jnp.where(jax.random.bernoulli(key, keep, h.shape), h / keep, 0.0)
        h = h.reshape(h.shape[0], -1)
        h = nn.relu(h @ w["5.weight"] + w["5.bias"])
        scores = nn.log_softmax(h @ w["7.weight"] + w["7.bias"])
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def step(w: Any, squares: Any, key: Any, x: Any, y: Any) -> Any:
        key, used = jax.random.split(key)
        loss, g = jax.value_and_grad(loss_of)(w, used, x, y)
        squares = {k: squares[k] + g[k] * g[k] for k in w}
        w = {k: w[k] - RATE * g[k] / (jnp.sqrt(squares[k]) + 1e-10) for k in w}
        return w, squares, key, loss

    step = jax.jit(step, donate_argnums=(0, 1))
    w = {k: jnp.array(a) for k, a in _for_jax(given.weights, sizes).items()}
    squares = {k: jnp.zeros_like(a) for k, a in w.items()}
    key, done = jax.random.key(0), 0

    def run(count: int) -> float:
        nonlocal w, squares, key, done
        for _ in range(count):
            k = done % sizes.batches
            w, squares, key, loss = step(
                w, squares, key, given.images[k][:, 0], given.labels[k]
            )
            done += 1
        return float(loss)

    first = given.images[0][:, 0], given.labels[0]
    yield Case("step", run, counts=lambda: of_jax(step, w, squares, key, *first))


WORKLOAD = Workload(
    name="lenet",
    sizes={
        "plain": Sizes(batch=100, image=28, channels=32, hidden=1024),
        "perturbed": Sizes(batch=37, image=27, channels=32, hidden=100),
        "tiny": Sizes(batch=3, image=8, channels=2, hidden=5, batches=2),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "torch": torch,
        "torch-channels-last": partial(torch, variant="channels-last"),
        "torch-compile": partial(torch, variant="compile"),
        "jax": jax,
    },
    claims=(
        Claim("step", "time", "fastest", 0.8, 0.5),
        Claim("step", "memory", "torch", 1 / 2, 1 / 3),
    ),
    iterations=60,
)
