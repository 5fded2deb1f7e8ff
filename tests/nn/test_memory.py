"""Attention to a memory by its formulas, masks, and biases by distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn
from treadle.nn.module import Module

RNG = np.random.default_rng(6)
W = dict[str, Any]


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def additive(w: W, q: Any, m: Any) -> Any:
    met = q @ w["query.weight"].T
    own = m @ w["key.weight"].T + w["key.bias"]
    if "query_norm.weight" in w:
        met, own = (
            (y - y.mean(-1, keepdims=True))
            / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
            * w[f"{k}_norm.weight"]
            + w[f"{k}_norm.bias"]
            for y, k in ((met, "query"), (own, "key"))
        )
    return np.tanh(met[..., :, None, :] + own[..., None, :, :]) @ w["weight"]


def dot(w: W, q: Any, m: Any) -> Any:
    return q @ np.swapaxes(m, -1, -2)


def scaled(w: W, q: Any, m: Any) -> Any:
    return dot(w, q, m) / np.sqrt(m.shape[-1])


def general(w: W, q: Any, m: Any) -> Any:
    return dot(w, q, m @ w["key.weight"].T)


ROWS: list[tuple[Any, Any, int]] = [
    (lambda: nn.AdditiveAttention(3, 4, dtype="float64"), additive, 3),
    (
        lambda: nn.AdditiveAttention(3, 4, 5, layer_norm=True, dtype="float64"),
        additive,
        3,
    ),
    (nn.DotAttention, dot, 4),
    (lambda: nn.DotAttention(scaled=True), scaled, 4),
    (lambda: nn.GeneralAttention(3, 4, dtype="float64"), general, 3),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].__name__)
@pytest.mark.parametrize("queries", [(), (2,)])
def test_contexts_weights_and_gradients(
    row: tuple[Any, Any, int], queries: tuple[int, ...]
) -> None:
    make, formula, width = row
    layer: Module = make()
    q = RNG.normal(size=(3, *queries, width))
    m = RNG.normal(size=(3, 5, 4))
    mask = np.arange(5) < np.array([5, 2, 4])[:, None]
    w = layer.state_dict()

    def want(w: W, q: Any, m: Any) -> tuple[Any, Any]:
        scores = formula(w, q if queries else q[:, None], m)
        weights = softmax(np.where(mask[:, None], scores, -np.inf))
        context = weights @ m
        return (context, weights) if queries else (context[:, 0], weights[:, 0])

    with td.options(engine="reference"):
        nodes = [td.asarray(q), td.asarray(m)]
        found = layer(*nodes, mask)
        for a, b in zip(found, want(w, q, m), strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=1e-10, atol=1e-12)
        again = layer(*nodes, mask, keys=layer.project(m), values=m)[0]
        np.testing.assert_allclose(again.numpy(), found[0].numpy())
        named = dict(layer.named_parameters())
        k = RNG.normal(size=found[0].shape)
        grads = td.grad((found[0] * k).sum(), [*named.values(), *nodes])
        slopes = [g.numpy() for g in grads]
    ways = [RNG.normal(size=g.shape) for g in slopes]

    def value(step: float) -> float:
        moved = [
            x + step * d
            for x, d in zip([*[w[n] for n in named], q, m], ways, strict=True)
        ]
        own = {**w, **dict(zip(named, moved, strict=False))}
        return float((want(own, moved[-2], moved[-1])[0] * k).sum())

    pairs = list(zip(slopes, ways, strict=True))
    slope = sum(float((g * d).sum()) for g, d in pairs)
    far = (value(1e-5) - value(-1e-5)) / 2e-5
    # What is added up may cancel: differences are as good as its largest parts.
    scale = sum(float(np.abs(g * d).sum()) for g, d in pairs)
    assert slope == pytest.approx(far, rel=1e-6, abs=1e-6 * scale)


def test_nothing_to_see() -> None:
    memory = td.param(init=RNG.normal(size=(2, 3, 4)))
    mask = np.array([[False] * 3, [True] * 3])
    context, weights = nn.DotAttention()(td.ones((2, 4)), memory, mask)
    assert not context.numpy()[0].any() and not weights.numpy()[0].any()
    (g,) = td.grad(context.sum(), [memory])
    assert np.isfinite(g.numpy()).all() and not g.numpy()[0].any()
    # One example by itself, as in a decoder of one sentence.
    own, _ = nn.DotAttention()(td.ones(4), memory[1])
    np.testing.assert_allclose(own.numpy(), context.numpy()[1], rtol=1e-5)
    with pytest.raises(td.ShapeError, match="a memory is"):
        nn.DotAttention()(td.ones(4), td.ones(4))


def test_biases_by_distance() -> None:
    bias = nn.ALiBi(8)(3).numpy()
    want = -np.abs(np.arange(3)[:, None] - np.arange(3))
    np.testing.assert_allclose(bias[0], want / 2)
    np.testing.assert_allclose(bias[7], want / 256)
    np.testing.assert_allclose(nn.ALiBi(6)(4, 5).numpy(), td.alibi_bias(6, 4, 5))
    causal = nn.ALiBi(2, causal=True)(2, 4).numpy()[0]
    assert (causal == -np.inf).tolist() == [[False] * 3 + [True], [False] * 4]
    seen = np.array([[True, True, False], [True, False, False]])
    masked = nn.ALiBi(2)(3, mask=seen[:, None, None]).numpy()
    assert masked.shape == (2, 2, 3, 3)
    assert ((masked == -np.inf) == ~seen[:, None, None]).all()
    for wrong in (lambda: nn.ALiBi(0), lambda: nn.ALiBi(2, causal=True)(3, 2)):
        with pytest.raises(td.ArgumentError):
            wrong()


def test_slopes_that_learn() -> None:
    layer, alibi = nn.MultiHeadAttention(8, 2), nn.ALiBi(2, trainable=True)
    x = RNG.normal(size=(2, 4, 8)).astype("f4")
    y = layer(x, mask=alibi(4, mask=np.ones((2, 1, 1, 4), bool)))
    (g,) = td.grad((y * y).sum(), [alibi.slopes])
    assert g.shape == (2,) and (g.numpy() != 0).all()
    assert not nn.ALiBi(2).slopes.trainable
