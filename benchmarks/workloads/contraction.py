"""contraction: matrix products and the convolutions of ResNet-50, one at a time.

Products are y = x w again and again with one square w, as many as a fixed amount of
arithmetic needs, so that small ones are not the cost of a call: squares, and skinny
ones where x has few rows. Convolutions run forward, for the data's gradient and for the
weights', with channels first in treadle's and torch's plain form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Case, Cases, Claim, Workload

__all__ = ["RESNET", "WORKLOAD", "Convolution"]

Array = np.ndarray[Any, Any]
KINDS = ("forward", "data", "weights")


class Convolution(NamedTuple):
    """Channels in and out, height and width of the input, kernel, stride."""

    channels: int
    size: int
    outputs: int
    kernel: int
    stride: int = 1

    @property
    def padding(self) -> int:
        """What keeps the size where the stride is 1."""
        return self.kernel // 2

    @property
    def result(self) -> int:
        """Height and width of the output."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    def __str__(self) -> str:
        stride = f" /{self.stride}" if self.stride > 1 else ""
        shape = f"{self.channels}->{self.outputs}"
        return f"{shape} {self.kernel}x{self.kernel} at {self.size}{stride}"


def _resnet() -> Iterator[Convolution]:
    """The distinct convolutions of ResNet-50 on 224x224, in order."""
    yield Convolution(3, 224, 64, 7, 2)
    channels, size = 64, 56
    for stage in range(4):
        inner, stride = 64 << stage, 1 if stage == 0 else 2
        yield Convolution(channels, size, inner, 1)
        yield Convolution(inner, size, inner, 3, stride)
        yield Convolution(channels, size, inner * 4, 1, stride)
        channels, size = inner * 4, size // stride
        if stage:
            yield Convolution(inner, size, channels, 1)
            yield Convolution(inner, size, inner, 3)
        yield Convolution(channels, size, inner, 1)


RESNET = tuple(_resnet())


@dataclass(frozen=True)
class Sizes:
    """Sides of squares, (rows, side) of skinny products, convolutions and a batch."""

    squares: tuple[int, ...]
    skinny: tuple[tuple[int, int], ...]
    convolutions: tuple[Convolution, ...]
    batch: int
    work: float = 3e9  # floating-point operations of one run of products

    def products(self) -> Iterator[tuple[str, int, int]]:
        """Name, rows and side of every product."""
        for n in self.squares:
            yield f"{'small ' if n <= 128 else ''}square {n}", n, n
        for rows, side in self.skinny:
            yield f"skinny {rows}x{side}", rows, side


def data(sizes: Sizes, part: str) -> None:
    """Operands are drawn one case at a time."""


def factors(sizes: Sizes, rows: int, side: int) -> tuple[Array, Array, int]:
    """x, w that keeps x's length about what it is, and how many products make a run."""
    rng = np.random.default_rng(rows + side)
    x = rng.standard_normal((rows, side), np.float32)
    w = rng.standard_normal((side, side), np.float32) / np.float32(math.sqrt(side))
    return x, w, max(1, round(sizes.work / (2 * rows * side**2)))


def operands(c: Convolution, batch: int) -> tuple[Array, Array, Array]:
    """Images, weights and the cotangent of the result."""
    rng = np.random.default_rng(c)
    drawn = (batch, c.channels, c.size, c.size), (batch, c.outputs, c.result, c.result)
    x, g = (rng.standard_normal(shape, np.float32) for shape in drawn)
    fan = c.channels * c.kernel**2
    w = rng.standard_normal((c.outputs, c.channels, c.kernel, c.kernel), np.float32)
    return x, w / np.float32(math.sqrt(fan)), g / np.float32(c.result)


def told(array: Any) -> float:
    """A number to compare results by: the mean size of some elements, and their sum."""
    flat = np.asarray(array).reshape(-1)
    some = flat[:: max(1, flat.size // 997)].astype(np.float64)
    return float(np.abs(some).mean() + some.sum() / some.size)


def _convolutions(sizes: Sizes) -> Iterator[tuple[str, Convolution, str, float]]:
    """Name, convolution, kind and floating-point operations of every case."""
    for c in sizes.convolutions:
        work = 2.0 * sizes.batch * c.result**2 * c.outputs * c.channels * c.kernel**2
        for kind in KINDS:
            if kind != "data" or c.channels > 3:  # nobody asks for a picture's gradient
                yield f"{kind} {c}", c, kind, work


def treadle(sizes: Sizes, part: str, given: None, checking: bool) -> Cases:
    """As a user of treadle writes it: results are assigned to Variables."""
    import treadle as td

    def running(f: Callable[[], Any], like: Array) -> Callable[[int], float]:
        target = td.Variable(np.zeros_like(like))

        def run(count: int) -> float:
            for _ in range(count):
                target.assign(f())
                td.evaluate(target)
            return told(target.numpy())

        return run

    @td.function
    def convolve(c: Convolution, kind: str, x: Any, w: Any, g: Any) -> Any:
        y = td.nn.functional.conv2d(x, w, None, c.stride, c.padding)
        if kind == "forward":
            return y
        return td.vjp(y, [x if kind == "data" else w], g)[0]

    for name, rows, side in sizes.products() if part == "gemm" else ():
        x, w, count = factors(sizes, rows, side)
        first, square = td.asarray(x), td.asarray(w)

        @td.function
        def power(y: td.Tensor, w: td.Tensor, count: int) -> td.Tensor:
            for _ in range(count):
                y = y @ w
            return y

        product = partial(power, first, square, count)
        yield Case(name, running(product, x), work=2.0 * rows * side**2 * count)
    for name, c, kind, work in _convolutions(sizes) if part != "gemm" else ():
        images, weights, cotangent = operands(c, sizes.batch)
        inputs = [td.asarray(a) for a in (images, weights, cotangent)]
        convolved = partial(convolve, c, kind, *inputs)
        like = {"forward": cotangent, "data": images, "weights": weights}[kind]
        yield Case(name, running(convolved, like), work=work)


def openblas(sizes: Sizes, part: str, given: None, checking: bool) -> Cases:
    """Products by the OpenBLAS inside NumPy's wheels."""
    built: Any = np.show_config(mode="dicts")
    blas = built["Build Dependencies"]["blas"]["name"]
    if "openblas" not in blas:
        raise RuntimeError(f"this NumPy computes products with {blas}, not OpenBLAS")
    for name, rows, side in sizes.products() if part == "gemm" else ():
        x, w, times = factors(sizes, rows, side)
        one, two = np.empty_like(x), np.empty_like(x)

        def run(count: int, x: Array = x, w: Array = w, times: int = times,
                one: Array = one, two: Array = two) -> float:  # fmt: skip
            for _ in range(count):
                y = x
                for _ in range(times):
                    y = np.matmul(y, w, out=one if y is two else two)
            return told(y)

        yield Case(name, run, work=2.0 * rows * side**2 * times)


def torch(
    sizes: Sizes, part: str, given: None, checking: bool, variant: str = ""
) -> Cases:
    """In torch: mm and convolutions, channels first."""
    torch: Any = import_module("torch")
    last = variant == "channels-last"
    layout = torch.channels_last if last else torch.contiguous_format

    for name, rows, side in sizes.products() if part == "gemm" and not last else ():
        a, b, times = factors(sizes, rows, side)
        x, w = torch.from_numpy(a), torch.from_numpy(b)
        if variant == "onednn":
            yield Case(
                name, _onednn(torch, x, w, times), work=2.0 * a.size * side * times
            )
            continue
        one, two = torch.empty_like(x), torch.empty_like(x)

        def run(count: int, x: Any = x, w: Any = w, times: int = times,
                one: Any = one, two: Any = two) -> float:  # fmt: skip
            for _ in range(count):
                y = x
                for _ in range(times):
                    y = torch.mm(y, w, out=one if y is two else two)
            return told(y)

        yield Case(name, run, work=2.0 * a.size * side * times)
    cases = _convolutions(sizes) if part != "gemm" and variant != "onednn" else ()
    for name, c, kind, work in cases:
        arrays = (torch.from_numpy(a) for a in operands(c, sizes.batch))
        x, w, g = (a.contiguous(memory_format=layout) for a in arrays)

        def convolve(count: int, c: Convolution = c, kind: str = kind, x: Any = x,
                     w: Any = w, g: Any = g) -> float:  # fmt: skip
            strides, padding = [c.stride] * 2, [c.padding] * 2
            for _ in range(count):
                if kind == "forward":
                    y = torch.conv2d(x, w, None, strides, padding)
                    continue
                wanted = [kind == "data", kind == "weights", False]
                y = torch.ops.aten.convolution_backward(
                    g, x, w, None, strides, padding, [1, 1], False, [0, 0], 1, wanted
                )[KINDS.index(kind) - 1]
            return told(y)

        yield Case(name, convolve, work=work)


def _onednn(torch: Any, x: Any, w: Any, times: int) -> Callable[[int], float]:
    """Products by oneDNN's linear layer, which takes the transposed weight."""
    linear, weight = torch.ops.mkldnn._linear_pointwise, w.t().contiguous()

    def run(count: int) -> float:
        for _ in range(count):
            y = x
            for _ in range(times):
                y = linear(y, weight, None, "none", [], "")
        return told(y)

    return run


_SMALL = Convolution(3, 9, 4, 3, 2), Convolution(4, 5, 6, 1)
WORKLOAD = Workload(
    name="contraction",
    sizes={
        "plain": Sizes(
            (64, 128, 256, 512, 1024, 2048),
            tuple((rows, 1024) for rows in (1, 4, 16, 64)),
            RESNET,
            batch=16,
        ),
        "perturbed": Sizes(
            (61, 100, 250, 500, 1021, 2003),
            ((1, 1003), (3, 1003), (37, 1003)),
            tuple(c._replace(size=c.size - 1) for c in RESNET),
            batch=7,
        ),
        "tiny": Sizes((3, 17), ((1, 13),), _SMALL, batch=2, work=1e4),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "openblas": openblas,
        "torch": torch,
        "torch-onednn": partial(torch, variant="onednn"),
        "torch-channels-last": partial(torch, variant="channels-last"),
    },
    claims=(
        Claim("*", "time", "fastest", 1 / 0.95, 1 / 1.1, "mean"),
        Claim("*", "time", "fastest", 1 / 0.8, 1 / 0.95),
        Claim("small square *", "time", "fastest", None, 1 / 1.3),
    ),
    parts=("gemm", "convolutions"),
    check_steps=1,
    seconds=0.05,
    memory=False,
    together=True,
)
