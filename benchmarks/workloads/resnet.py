"""resnet: ResNet-50 on 224x224, forward for 1 and 16 images, a training step of 16.

Forward is use: running statistics, nothing kept for a gradient. The training step has
batch statistics, cross entropy over 1000 classes and SGD with 0.001 and momentum 0.9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.workload import Case, Cases, Claim, Workload

__all__ = ["WORKLOAD"]

RATE, MOMENTUM, PART, EPS = 0.001, 0.9, 0.1, 1e-5
PARTS = ("forward 1", "forward 16", "train")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sizes:
    """Blocks of each stage, channels of the first, and what is fed."""

    image: int = 224
    batch: int = 16
    base: int = 64
    stages: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 1000

    def blocks(self) -> list[tuple[str, int, int, int]]:
        """Name, channels in, inner channels and stride of every bottleneck."""
        found: list[tuple[str, int, int, int]] = []
        channels = self.base
        for k, count in enumerate(self.stages):
            for j in range(count):
                stride = 2 if k and j == 0 else 1
                found.append((f"blocks.{len(found)}", channels, self.base << k, stride))
                channels = (self.base << k) * 4
        return found

    def batch_of(self, part: str) -> int:
        """How many images a part takes at once."""
        return 1 if part == "forward 1" else self.batch


@dataclass(frozen=True)
class Data:
    """Images, labels, and the first weights and statistics by name."""

    images: Array
    labels: Array
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Normal images; weights after He et al. 2015, by treadle's names."""
    rng = np.random.default_rng(4)
    weights: dict[str, Array] = {}

    def convolution(name: str, into: int, of: int, kernel: int) -> None:
        shape = (into, of, kernel, kernel)
        scale = np.float32(np.sqrt(2.0 / (of * kernel**2)))
        weights[f"{name}.weight"] = rng.standard_normal(shape, np.float32) * scale

    def norm(name: str, channels: int, weight: float = 1.0) -> None:
        weights[f"{name}.weight"] = np.full(channels, weight, np.float32)
        weights[f"{name}.bias"] = np.zeros(channels, np.float32)
        weights[f"{name}.running_mean"] = np.zeros(channels, np.float32)
        weights[f"{name}.running_var"] = np.ones(channels, np.float32)
        weights[f"{name}.num_batches_tracked"] = np.zeros((), np.int64)

    convolution("stem", sizes.base, 3, 7)
    norm("norm", sizes.base)
    last = sizes.base
    for name, channels, inner, stride in sizes.blocks():
        last = inner * 4
        for k, (into, of, kernel) in enumerate(
            ((inner, channels, 1), (inner, inner, 3), (last, inner, 1))
        ):
            convolution(f"{name}.convolutions.{k}", into, of, kernel)
            # A last weight below 1 keeps the sum of many residuals in range.
            norm(f"{name}.norms.{k}", into, 0.5 if k == 2 else 1.0)
        if stride != 1 or channels != last:
            convolution(f"{name}.beside.0", last, channels, 1)
            norm(f"{name}.beside.1", last)
    limit = 1.0 / np.sqrt(last)
    drawn = rng.uniform(-limit, limit, (sizes.classes, last + 1)).astype(np.float32)
    weights["head.weight"], weights["head.bias"] = drawn[:, :-1].copy(), drawn[:, -1]
    batch = sizes.batch_of(part)
    images = rng.standard_normal((batch, 3, sizes.image, sizes.image), np.float32)
    return Data(images, rng.integers(0, sizes.classes, batch), weights)


def repeated(part: str, step: Callable[[], Any]) -> Case:
    """The case of a step that returns an array of which one element is told."""

    def run(count: int) -> float:
        for _ in range(count):
            last = step()
        return float(np.asarray(last).reshape(-1)[0])

    return Case(part, run)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it."""
    import treadle as td

    nn = td.nn

    class Bottleneck(nn.Module):
        def __init__(self, channels: int, inner: int, stride: int) -> None:
            wide = inner * 4
            self.convolutions = [
                nn.Conv2d(channels, inner, 1, bias=False),
                nn.Conv2d(inner, inner, 3, stride, 1, bias=False),
                nn.Conv2d(inner, wide, 1, bias=False),
            ]
            self.norms = [nn.BatchNorm2d(n) for n in (inner, inner, wide)]
            self.beside: nn.Module = nn.Identity()
            if stride != 1 or channels != wide:
                beside = nn.Conv2d(channels, wide, 1, stride, bias=False)
                self.beside = nn.Sequential(beside, nn.BatchNorm2d(wide))

        def forward(self, x: td.Tensor) -> td.Tensor:
            y = x
            for k, convolution in enumerate(self.convolutions):
                y = self.norms[k](convolution(y))
                y = nn.functional.relu(y) if k < 2 else y
            return nn.functional.relu(y + self.beside(x))

    class Network(nn.Module):
        def __init__(self) -> None:
            self.stem = nn.Conv2d(3, sizes.base, 7, 2, 3, bias=False)
            self.norm = nn.BatchNorm2d(sizes.base)
            self.pool = nn.MaxPool2d(3, 2, 1)
            self.blocks = [Bottleneck(*shape) for _, *shape in sizes.blocks()]
            last = (sizes.base << (len(sizes.stages) - 1)) * 4
            self.head = nn.Linear(last, sizes.classes)

        def forward(self, x: Array) -> Any:
            y = self.pool(nn.functional.relu(self.norm(self.stem(x))))
            for block in self.blocks:
                y = block(y)
            return self.head(y.mean((2, 3)))

    model = Network()
    model.load_state_dict(given.weights)
    model.train(part == "train")
    optimizer = td.optim.SGD(lr=RATE, momentum=MOMENTUM)

    def step() -> Any:
        logits = model(given.images)
        return optimizer.step(nn.functional.cross_entropy(logits, given.labels))

    def forward() -> Any:
        with td.no_grad():
            return model(given.images).numpy()

    yield repeated(part, step if part == "train" else forward)


def torch(
    sizes: Sizes, part: str, given: Data, checking: bool, variant: str = ""
) -> Cases:
    """In torch: plain, with channels last, or compiled."""
    torch: Any = import_module("torch")
    F: Any = torch.nn.functional
    layout = torch.channels_last if variant else torch.contiguous_format
    w: dict[str, Any] = {}
    for name, array in given.weights.items():
        tensor = torch.tensor(array)
        w[name] = (
            tensor.contiguous(memory_format=layout) if tensor.ndim == 4 else tensor
        )
    training = part == "train"
    taught = [a for k, a in w.items() if k.endswith(("weight", "bias"))]
    for parameter in taught if training else ():
        parameter.requires_grad_(True)

    def norm(x: Any, name: str) -> Any:
        running = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        affine = w[f"{name}.weight"], w[f"{name}.bias"]
        return F.batch_norm(x, *running, *affine, training, PART, EPS)

    def convolve(x: Any, name: str, stride: int = 1, padding: int = 0) -> Any:
        return F.conv2d(x, w[f"{name}.weight"], None, stride, padding)

    def network(x: Any) -> Any:
        x = F.relu(norm(convolve(x, "stem", 2, 3), "norm"))
        x = F.max_pool2d(x, 3, 2, 1)
        for name, _, _, stride in sizes.blocks():
            y = x
            for k in range(3):
                moved = (stride, 1) if k == 1 else ()
                y = convolve(y, f"{name}.convolutions.{k}", *moved)
                y = norm(y, f"{name}.norms.{k}")
                y = F.relu(y) if k < 2 else y
            if f"{name}.beside.0.weight" in w:
                x = norm(convolve(x, f"{name}.beside.0", stride), f"{name}.beside.1")
            x = F.relu(y + x)
        return F.linear(x.mean((2, 3)), w["head.weight"], w["head.bias"])

    compiled = torch.compile(network) if variant == "compile" else network
    images = torch.from_numpy(given.images).contiguous(memory_format=layout)
    labels = torch.from_numpy(given.labels)
    optimizer = torch.optim.SGD(taught, lr=RATE, momentum=MOMENTUM)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(compiled(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def forward() -> Any:
        with torch.inference_mode():
            return compiled(images)

    yield repeated(part, step if training else forward)


def _jax_network(jax: Any, sizes: Sizes, training: bool) -> Callable[..., Any]:
    """Weights and images to logits and, in training, new running statistics."""
    jnp, lax, nn = jax.numpy, jax.lax, jax.nn

    def norm(w: Any, x: Any, name: str, new: Any) -> Any:
        mean, var = w[f"{name}.running_mean"], w[f"{name}.running_var"]
        if training:
            old, count = (mean, var), x.size // x.shape[-1]
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            seen = mean, var * (count / max(count - 1, 1))
            for key, a, b in zip(("mean", "var"), old, seen, strict=True):
                new[f"{name}.running_{key}"] = a + (b - a) * PART
        scale = lax.rsqrt(var + EPS) * w[f"{name}.weight"]
        return (x - mean) * scale + w[f"{name}.bias"]

    def convolve(w: Any, x: Any, name: str, stride: int = 1, padding: int = 0) -> Any:
        return lax.conv_general_dilated(
            x, w[f"{name}.weight"], (stride, stride), [(padding, padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    def network(w: Any, x: Any) -> Any:
        new: dict[str, Any] = {}
        x = nn.relu(norm(w, convolve(w, x, "stem", 2, 3), "norm", new))
        around = [(0, 0), (1, 1), (1, 1), (0, 0)]
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), around)
        for name, _, _, stride in sizes.blocks():
            y = x
            for k in range(3):
                moved = (stride, 1) if k == 1 else ()
                y = convolve(w, y, f"{name}.convolutions.{k}", *moved)
                y = norm(w, y, f"{name}.norms.{k}", new)
                y = nn.relu(y) if k < 2 else y
            if f"{name}.beside.0.weight" in w:
                x = convolve(w, x, f"{name}.beside.0", stride)
                x = norm(w, x, f"{name}.beside.1", new)
            x = nn.relu(y + x)
        return x.mean((1, 2)) @ w["head.weight"].T + w["head.bias"], new

    return network


def jax(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In jax: jitted, channels last; a training step donates its states."""
    jax: Any = import_module("jax")
    jnp, nn = jax.numpy, jax.nn
    training = part == "train"

    network = _jax_network(jax, sizes, training)

    def loss_of(w: Any, x: Any, y: Any) -> Any:
        logits, new = network(w, x)
        scores = nn.log_softmax(logits)
        return -jnp.take_along_axis(scores, y[:, None], 1).mean(), new

    def update(w: Any, v: Any, x: Any, y: Any) -> Any:
        taught = {k: a for k, a in w.items() if k in v}
        rest = {k: a for k, a in w.items() if k not in v}
        pulled = jax.value_and_grad(
            lambda t: loss_of({**t, **rest}, x, y), has_aux=True
        )
        (loss, new), g = pulled(taught)
        v = {k: MOMENTUM * v[k] + g[k] for k in v}
        moved = {k: taught[k] - RATE * v[k] for k in v}
        return {**rest, **moved, **new}, v, loss

    w = {
        k: jnp.array(a.transpose(2, 3, 1, 0) if a.ndim == 4 else a)
        for k, a in given.weights.items()
        if not k.endswith("tracked")
    }
    v = {k: jnp.zeros_like(a) for k, a in w.items() if k.endswith(("weight", "bias"))}
    images = jnp.array(given.images.transpose(0, 2, 3, 1))
    forward = jax.jit(lambda w, x: network(w, x)[0])
    update = jax.jit(update, donate_argnums=(0, 1))

    def step() -> Any:
        nonlocal w, v
        w, v, loss = update(w, v, images, given.labels)
        return loss

    yield repeated(part, step if training else lambda: forward(w, images))


WORKLOAD = Workload(
    name="resnet",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(image=203, batch=7, base=50, classes=777),
        "tiny": Sizes(33, 2, 4, (1, 1), 5),
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
        *(Claim(part, "time", "fastest", 1.0, 1 / 1.2) for part in PARTS),
        *(Claim(part, "memory", "torch", None, 1 / 3) for part in PARTS[:2]),
    ),
    parts=PARTS,
    seconds=0.5,
    check_steps=3,
)
