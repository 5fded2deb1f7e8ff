"""Calls at the places where derivatives have no one value, and what torch gives there.

Each is written once for both libraries, and the gradient is that of the result's sum
by 1, 2, 3, ... `python -m tests.ops.kinks`, where torch is, prints the numbers anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CALLS", "GRADIENTS"]

Call = Callable[[Any, Any, Any, Any], Any]
INF = math.inf
ENDS = [-2.0, -1.0, 0.0, 1.0, 2.0]
# The library, its functional, constants and the point: a call, and where it is made.
CALLS: dict[str, tuple[Call, list[Any]]] = {
    "abs": (lambda t, F, c, x: t.abs(x), [-1.0, 0.0, -0.0, 1.0]),
    "sign": (lambda t, F, c, x: t.sign(x), ENDS),
    "round": (lambda t, F, c, x: t.round(x), [0.5, 1.0]),
    "floor": (lambda t, F, c, x: t.floor(x), [0.5, 1.0]),
    "trunc": (lambda t, F, c, x: t.trunc(x), [0.0, 1.0]),
    "relu": (lambda t, F, c, x: F.relu(x), [-1.0, 0.0, 1.0]),
    "relu6": (lambda t, F, c, x: F.relu6(x), [-1.0, 0.0, 3.0, 6.0, 7.0]),
    "leaky_relu": (lambda t, F, c, x: F.leaky_relu(x, 0.1), [-1.0, 0.0, 1.0]),
    "prelu": (lambda t, F, c, x: F.prelu(x, c([0.25])), [-1.0, 0.0, 1.0]),
    "elu": (lambda t, F, c, x: F.elu(x, 2.0), [-1.0, 0.0, 1.0]),
    "celu": (lambda t, F, c, x: F.celu(x, 2.0), [-1.0, 0.0, 1.0]),
    "selu": (lambda t, F, c, x: F.selu(x), [-1.0, 0.0, 1.0]),
    "hardtanh": (lambda t, F, c, x: F.hardtanh(x), ENDS),
    "hardsigmoid": (lambda t, F, c, x: F.hardsigmoid(x), [-4.0, -3.0, 0.0, 3.0, 4.0]),
    "hardswish": (lambda t, F, c, x: F.hardswish(x), [-4.0, -3.0, 0.0, 3.0, 4.0]),
    "hardshrink": (lambda t, F, c, x: F.hardshrink(x), [-1.0, -0.5, 0.0, 0.5, 1.0]),
    "softshrink": (lambda t, F, c, x: F.softshrink(x), [-1.0, -0.5, 0.0, 0.5, 1.0]),
    "threshold": (lambda t, F, c, x: F.threshold(x, 0.5, 9.0), [0.0, 0.5, 1.0]),
    "clip": (lambda t, F, c, x: t.clip(x, -1.0, 1.0), ENDS),
    "clip below": (lambda t, F, c, x: t.clip(x, min=0.0), [-1.0, 0.0, 1.0]),
    "clip by bounds": (
        lambda t, F, c, x: t.clip(x, c([0.0, 0.0, 0.0]), c([1.0, 0.0, 1.0])),
        [0.0, 0.0, 1.0],
    ),
    "clip, lower bound": (
        lambda t, F, c, x: t.clip(c([0.0, 1.0, 2.0]), x, c([3.0, 3.0, 3.0])),
        [1.0, 1.0, 1.0],
    ),
    "max": (lambda t, F, c, x: t.max(x), [1.0, 3.0, 2.0, 3.0]),
    "min": (lambda t, F, c, x: t.min(x), [1.0, 3.0, 1.0, 1.0]),
    "amax": (lambda t, F, c, x: x.amax(1), [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]),
    "amin": (lambda t, F, c, x: x.amin(1), [[1.0, 3.0, 1.0], [2.0, 2.0, 2.0]]),
    "sort": (lambda t, F, c, x: values(t.sort(x)), [2.0, 1.0, 2.0, 1.0]),
    "cumulative maximum": (
        lambda t, F, c, x: values(getattr(t, "cummax", None) or t.cumulative_max, x),
        [1.0, 1.0, 3.0, 2.0, 3.0],
    ),
    "cumprod": (lambda t, F, c, x: x.cumprod(0), [2.0, 0.0, 3.0, 0.0, 5.0]),
    "prod": (lambda t, F, c, x: x.prod(), [2.0, 0.0, 3.0]),
    "prod of zeros": (lambda t, F, c, x: x.prod(), [2.0, 0.0, 0.0]),
    "norm": (lambda t, F, c, x: t.linalg.vector_norm(x), [0.0, 0.0]),
    "norm 1": (lambda t, F, c, x: t.linalg.vector_norm(x, 1), [0.0, -2.0]),
    "norm 3": (lambda t, F, c, x: t.linalg.vector_norm(x, 3), [0.0, 0.0]),
    "norm 3, a zero": (lambda t, F, c, x: t.linalg.vector_norm(x, 3), [0.0, 2.0]),
    "norm inf": (lambda t, F, c, x: t.linalg.vector_norm(x, INF), [2.0, -2.0, 1.0]),
    "norm -inf": (lambda t, F, c, x: t.linalg.vector_norm(x, -INF), [1.0, -2.0, 1.0]),
    "matrix norm": (lambda t, F, c, x: t.linalg.norm(x), [[0.0, 0.0]]),
    "std": (lambda t, F, c, x: x.std(0, correction=1), [2.0, 2.0, 2.0]),
    "sqrt": (lambda t, F, c, x: t.sqrt(x), [0.0, 1.0]),
    "square": (lambda t, F, c, x: t.square(x), [0.0, 1.0]),
    "pow 2": (lambda t, F, c, x: x**2, [0.0, -1.0]),
    "pow 1": (lambda t, F, c, x: x**1, [0.0, -1.0]),
    "pow 0": (lambda t, F, c, x: x**0, [0.0, -1.0]),
    "pow 1/2": (lambda t, F, c, x: x**0.5, [0.0, 1.0]),
    "pow of 0": (lambda t, F, c, x: c([0.0, 0.0, 2.0]) ** x, [0.0, 1.0, 2.0]),
    "pow of tensors": (lambda t, F, c, x: x ** c([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0]),
    "log": (lambda t, F, c, x: t.log(x), [0.0, 1.0]),
    "log1p": (lambda t, F, c, x: t.log1p(x), [-1.0, 0.0]),
    "asin": (lambda t, F, c, x: t.asin(x), [-1.0, 0.0, 1.0]),
    "acos": (lambda t, F, c, x: t.acos(x), [-1.0, 0.0, 1.0]),
    "atanh": (lambda t, F, c, x: t.atanh(x), [-1.0, 0.0, 1.0]),
    "acosh": (lambda t, F, c, x: t.acosh(x), [1.0, 2.0]),
    "sinc": (lambda t, F, c, x: t.sinc(x), [0.0, 0.5]),
    "atan2": (lambda t, F, c, x: t.atan2(x, c([0.0, 1.0])), [0.0, 0.0]),
    "fmod": (lambda t, F, c, x: t.fmod(x, c([2.0, 2.0])), [2.0, -3.0]),
    "fmod, divisor": (lambda t, F, c, x: t.fmod(c([2.0, -3.0]), x), [2.0, 2.0]),
    "remainder": (lambda t, F, c, x: t.remainder(x, c([2.0, 2.0])), [2.0, -3.0]),
    "remainder, divisor": (
        lambda t, F, c, x: t.remainder(c([2.0, -3.0]), x), [2.0, 2.0]
    ),
    "nan_to_num": (lambda t, F, c, x: t.nan_to_num(x), [math.nan, INF, -INF, 1.0]),
    "logaddexp": (lambda t, F, c, x: t.logaddexp(x, c([0.0, -INF])), [0.0, 0.0]),
    "logsumexp": (lambda t, F, c, x: t.logsumexp(x, 0), [-INF, 1.0, 1.0]),
    "max_pool1d": (
        lambda t, F, c, x: F.max_pool1d(x, 2, 1), [[[1.0, 1.0, 0.0, 0.0, 2.0]]]
    ),
    "adaptive_max_pool1d": (
        lambda t, F, c, x: F.adaptive_max_pool1d(x, 2), [[[1.0, 1.0, 2.0, 2.0, 2.0]]]
    ),
    "l1_loss": (lambda t, F, c, x: F.l1_loss(x, c([1.0, 0.0])), [1.0, 1.0]),
    "smooth_l1_loss": (
        lambda t, F, c, x: F.smooth_l1_loss(x, c([0.0] * 3)), [-1.0, 0.0, 1.0]
    ),
    "huber_loss": (
        lambda t, F, c, x: F.huber_loss(x, c([0.0] * 3)), [-1.0, 0.0, 1.0]
    ),
    "hinge_embedding_loss": (
        lambda t, F, c, x: F.hinge_embedding_loss(x, c([-1.0, -1.0, 1.0])),
        [1.0, 0.0, 1.0],
    ),
    "margin_ranking_loss": (
        lambda t, F, c, x: F.margin_ranking_loss(x, c([1.0, 1.0]), c([1.0, -1.0])),
        [1.0, 1.0],
    ),
    "multi_margin_loss": (
        lambda t, F, c, x: F.multi_margin_loss(x, c([0])), [[1.0, 0.0, 0.5]]
    ),
    "triplet_margin_loss": (
        lambda t, F, c, x: F.triplet_margin_loss(x, c([[1.0]]), c([[2.0]]), 1.0),
        [[0.0]],
    ),
    "binary_cross_entropy": (
        lambda t, F, c, x: F.binary_cross_entropy(x, c([0.0, 1.0, 1.0])),
        [0.0, 1.0, 0.0],
    ),
    "cosine_similarity": (
        lambda t, F, c, x: F.cosine_similarity(x, c([[1.0, 2.0]])), [[0.0, 0.0]]
    ),
    "normalize": (lambda t, F, c, x: F.normalize(x), [[0.0, 0.0], [3.0, 4.0]]),
    "pdist": (lambda t, F, c, x: F.pdist(x), [[1.0, 2.0], [1.0, 2.0]]),
    "where": (lambda t, F, c, x: t.where(x > 0, x, -x), [-1.0, 0.0, 1.0]),
    "log_softmax": (lambda t, F, c, x: F.log_softmax(x, 0)[1:], [-INF, 1.0, 1.0]),
    "multilabel_margin_loss": (
        lambda t, F, c, x: F.multilabel_margin_loss(x, c([[0, -1, -1]])),
        [[1.0, 0.0, 0.5]],
    ),
    "gaussian_nll_loss, variance": (
        lambda t, F, c, x: F.gaussian_nll_loss(c([0.0, 1.0, 2.0]), c([0.0] * 3), x),
        [0.0, 0.5, INF],
    ),
    "lp_pool1d 1": (lambda t, F, c, x: F.lp_pool1d(x, 1, 2), [[[0.0, 0.0, 1.0, -1.0]]]),
    "lp_pool1d 2": (lambda t, F, c, x: F.lp_pool1d(x, 2, 2), [[[0.0, 0.0, 3.0, 4.0]]]),
    "lp_pool1d 3": (lambda t, F, c, x: F.lp_pool1d(x, 3, 2), [[[0.0, 1.0, 1.0, -1.0]]]),
    "embedding_bag": (
        lambda t, F, c, x: F.embedding_bag(c([[0, 1]]), x, mode="max"),
        [[1.0, 2.0], [1.0, 3.0]],
    ),
    "grid_sample, border": (
        lambda t, F, c, x: F.grid_sample(
            c([[[[1.0, 2.0], [4.0, 8.0]]]]), x, "bilinear", "border", True
        ),
        [[[[-1.0, 0.5], [0.5, 1.0], [0.5, 2.0]]]],
    ),
    "grid_sample, reflection": (
        lambda t, F, c, x: F.grid_sample(
            c([[[[1.0, 2.0], [4.0, 8.0]]]]), x, "bilinear", "reflection", True
        ),
        [[[[-1.0, 0.5], [0.5, 1.0], [0.5, 2.0]]]],
    ),
}  # fmt: skip

# By name, row after row.
GRADIENTS: dict[str, list[float]] = {
    "abs": [-1.0, 0.0, 0.0, 4.0],
    "sign": [0.0, 0.0, 0.0, 0.0, 0.0],
    "round": [0.0, 0.0],
    "floor": [0.0, 0.0],
    "trunc": [0.0, 0.0],
    "relu": [0.0, 0.0, 3.0],
    "relu6": [0.0, 0.0, 3.0, 0.0, 0.0],
    "leaky_relu": [0.1, 0.2, 3.0],
    "prelu": [0.25, 0.5, 3.0],
    "elu": [0.7357589, 4.0, 3.0],
    "celu": [0.6065307, 2.0, 3.0],
    "selu": [0.6467686, 3.516199, 3.152103],
    "hardtanh": [0.0, 0.0, 3.0, 0.0, 0.0],
    "hardsigmoid": [0.0, 0.0, 0.5, 0.0, 0.0],
    "hardswish": [0.0, 0.0, 1.5, 4.0, 5.0],
    "hardshrink": [1.0, 0.0, 0.0, 0.0, 5.0],
    "softshrink": [1.0, 0.0, 0.0, 0.0, 5.0],
    "threshold": [0.0, 0.0, 3.0],
    "clip": [0.0, 2.0, 3.0, 4.0, 0.0],
    "clip below": [0.0, 2.0, 3.0],
    "clip by bounds": [1.0, 2.0, 3.0],
    "clip, lower bound": [1.0, 0.0, 0.0],
    "max": [0.0, 0.5, 0.0, 0.5],
    "min": [0.3333333, 0.0, 0.3333333, 0.3333333],
    "amax": [0.0, 0.5, 0.5, 0.6666667, 0.6666667, 0.6666667],
    "amin": [0.5, 0.0, 0.5, 0.6666667, 0.6666667, 0.6666667],
    "sort": [3.0, 1.0, 4.0, 2.0],
    "cumulative maximum": [1.0, 2.0, 7.0, 0.0, 5.0],
    "cumprod": [1.0, 22.0, 0.0, 0.0, 0.0],
    "prod": [0.0, 6.0, 0.0],
    "prod of zeros": [0.0, 0.0, 0.0],
    "norm": [0.0, 0.0],
    "norm 1": [0.0, -1.0],
    "norm 3": [0.0, 0.0],
    "norm 3, a zero": [0.0, 1.0],
    "norm inf": [0.5, -0.5, 0.0],
    "norm -inf": [0.5, -0.0, 0.5],
    "matrix norm": [0.0, 0.0],
    "std": [0.0, 0.0, 0.0],
    "sqrt": [INF, 1.0],
    "square": [0.0, 4.0],
    "pow 2": [0.0, -4.0],
    "pow 1": [1.0, 2.0],
    "pow 0": [0.0, 0.0],
    "pow 1/2": [INF, 1.0],
    "pow of 0": [0.0, 0.0, 8.317766],
    "pow of tensors": [0.0, 2.0, 0.0],
    "log": [INF, 2.0],
    "log1p": [INF, 2.0],
    "asin": [INF, 2.0, INF],
    "acos": [-INF, -2.0, -INF],
    "atanh": [INF, 2.0, INF],
    "acosh": [INF, 1.154701],
    "sinc": [0.0, -2.546479],
    "atan2": [0.0, 2.0],
    "fmod": [1.0, 2.0],
    "fmod, divisor": [-1.0, 2.0],
    "remainder": [1.0, 2.0],
    "remainder, divisor": [-1.0, 4.0],
    "nan_to_num": [0.0, 0.0, 0.0, 4.0],
    "logaddexp": [0.5, 2.0],
    "logsumexp": [0.0, 0.5, 0.5],
    "max_pool1d": [1.0, 2.0, 3.0, 0.0, 4.0],
    "adaptive_max_pool1d": [0.0, 0.0, 3.0, 0.0, 0.0],
    "l1_loss": [0.0, 0.5],
    "smooth_l1_loss": [-0.3333333, 0.0, 0.3333333],
    "huber_loss": [-0.3333333, 0.0, 0.3333333],
    "hinge_embedding_loss": [-0.3333333, -0.3333333, 0.3333333],
    "margin_ranking_loss": [-0.5, 0.5],
    "multi_margin_loss": [-0.3333333, 0.0, 0.3333333],
    "triplet_margin_loss": [0.0],
    "binary_cross_entropy": [0.0, 0.0, -333333300000.0],
    "cosine_similarity": [44721360.0, 89442720.0],
    "normalize": [1000000000000.0, 2000000000000.0, 0.0, 0.0],
    "pdist": [0.0, 0.0, 0.0, 0.0],
    "where": [-1.0, -2.0, 3.0],
    "log_softmax": [0.0, -0.5, 0.5],
    "multilabel_margin_loss": [-0.3333333, 0.0, 0.3333333],
    "gaussian_nll_loss, variance": [166666.7, -0.3333333, 0.0],
    "lp_pool1d 1": [0.0, 0.0, 0.0, 0.0],
    "lp_pool1d 2": [0.0, 0.0, 1.2, 1.6],
    "lp_pool1d 3": [0.0, 1.0, 0.0, 0.0],
    "embedding_bag": [1.0, 0.0, 0.0, 2.0],
    "grid_sample, border": [0.0, 1.5, 4.0, 0.0, 6.0, 0.0],
    "grid_sample, reflection": [0.0, 1.5, 4.0, 0.0, 3.75, -7.875],
}


def values(y: Any, *xs: Any) -> Any:
    """The values of a call that gives them with their places in one library alone."""
    y = y(*xs) if callable(y) and xs else y
    return y[0] if isinstance(y, tuple) else y


def places(size: int) -> np.ndarray[Any, Any]:
    """1, 2, 3, ... by which the elements of a result are added up."""
    return np.arange(1.0, size + 1.0, dtype=np.float32)


def main() -> None:
    """Print the gradients of torch."""
    import torch

    class Torch:
        """torch, whose cummax takes a dimension."""

        def __getattr__(self, name: str) -> Any:
            if name == "cummax":
                return lambda x: torch.cummax(x, 0)
            return getattr(torch, name)

    for name, (call, point) in CALLS.items():
        x = torch.tensor(point, requires_grad=True)
        y = call(Torch(), torch.nn.functional, torch.tensor, x)
        (y.reshape(-1) * torch.tensor(places(y.numel()))).sum().backward()
        row = [float(f"{g:.7g}") for g in x.grad.reshape(-1).tolist()]
        text = ", ".join("INF" if g == INF else "-INF" if g == -INF else repr(g)
                         for g in row)  # fmt: skip
        print(f"    {name!r}: [{text}],")


if __name__ == "__main__":
    main()
