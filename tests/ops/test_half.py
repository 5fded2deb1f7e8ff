"""Functions of 16-bit floats whose sums and squares 16 bits do not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.dtypes import HALF, float16
from treadle.nn import functional as F

WAYS = ("native", "reference", "function", "rows")


def _image(x: Any) -> Any:
    return td.reshape(x, (1, 1, 4, 6))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "norm": td.norm,
    "norm of order 3": lambda x: td.norm(x, 3, 1),
    "l1_norm": lambda x: td.l1_norm(x, 0),
    "l2_norm": lambda x: td.l2_norm(x, 1, keepdims=True),
    "vector_norm": td.linalg.vector_norm,
    "matrix_norm": td.linalg.matrix_norm,
    "nuclear norm": lambda x: td.linalg.matrix_norm(x, "nuc"),
    "std": td.std,
    "std of rows": lambda x: td.std(x, 1, correction=1),
    "mean": td.mean,
    "moment": lambda x: td.sqrt(td.moment(x.astype("float32"), 2)),
    "weighted_average": lambda x: td.weighted_average(x, td.abs(x)),
    "clip_by_norm": lambda x: td.clip_by_norm(x, 1.0),
    "normalize": td.normalize,
    "cosine_similarity": lambda x: td.cosine_similarity(x, x[::-1]),
    "avg_pool": lambda x: td.avg_pool2d(_image(x), 2),
    "l2_pool": lambda x: td.l2_pool(_image(x), 2),
    "global_avg_pool": lambda x: td.global_avg_pool(_image(x)),
    "adaptive_avg_pool": lambda x: td.adaptive_avg_pool(_image(x), (1, 3)),
    "masked_avg_pool": lambda x: td.masked_avg_pool(x, x > 0, 1),
    "rms_norm": lambda x: F.rms_norm(x, (6,), eps=1e-6),
    "logsumexp": lambda x: td.logsumexp(x, 1),
    "cumulative_logsumexp": td.cumulative_logsumexp,
    "attention": lambda x: td.attention(x, x, x),
    "huber_loss": lambda x: td.huber_loss(x, x[::-1]),
    "hinge_loss": lambda x: td.hinge_loss(x, td.sign(x)),
    "asinh": td.asinh,
    "hypot": lambda x: td.hypot(x, x[::-1]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_computed_on_the_way_is_float32(name: str, way: str) -> None:
    rng = np.random.default_rng(3)
    drawn = rng.choice([-1, 1], (4, 6)) * rng.uniform(0.8, 1.2, (4, 6))
    for dtype in HALF:
        unit = 2.0**-11 if dtype == float16 else 2.0**-8
        for scale in (300.0, 1e-4):
            x = (drawn * scale).astype(dtype)
            want = _with_gradient(FUNCTIONS[name], x.astype(np.float64), "reference")
            got = _with_gradient(FUNCTIONS[name], x, way)
            for g, w in zip(got, want, strict=True):
                bound = 4 * unit * np.abs(w).max() + 1e-7
                np.testing.assert_array_less(np.abs(g.astype(np.float64) - w), bound)


def _with_gradient(f: Callable[[Any], Any], x: Any, way: str) -> list[Any]:
    def both(v: Any) -> Any:
        y = f(v)
        weights = 1.0 + 0.1 * np.arange(y.size).reshape(y.shape)
        assert y.dtype == v.dtype or y.dtype == np.float32
        (g,) = td.grad(td.sum(td.astype(y, "float64") * weights), [v])
        assert g.dtype == v.dtype
        return y, g

    with td.options(engine="reference" if way == "reference" else "native"):
        leaf = td.asarray(x)
        if way == "function":
            found = td.function(both)(leaf)
        elif way == "rows":
            pairs = [both(td.asarray(v)) for v in (-x, x)]
            found = [td.stack(parts)[1] for parts in zip(*pairs, strict=True)]
        else:
            found = both(leaf)
        return list(td.evaluate(*found))


def test_statistics_and_penalties_of_16_bit_networks_are_float32_inside() -> None:
    rng = np.random.default_rng(4)
    x = (rng.normal(size=(64, 2)) * [400.0, 1e-4]).astype(np.float32)
    found = []
    for dtype in ("float16", "float32"):
        layer = td.nn.BatchNorm1d(2, eps=1e-12).astype(dtype)
        layer(td.asarray(x, dtype)).numpy()
        found.append(layer.running_var.numpy())
        layer.eval()
        found[-1] = np.append(found[-1], layer(td.asarray(x[:1], dtype)).numpy())
        small = td.param(init=np.full(1000, 1e-4), dtype=dtype)
        found[-1] = np.append(found[-1], td.optim.penalty.l2([small]).numpy())
    np.testing.assert_allclose(found[0], found[1], 4e-3)
