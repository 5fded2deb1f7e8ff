"""Universal embeddings by their formula, and what of them is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

RNG = np.random.default_rng(0)
Q, K = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
IDS = np.array([[0, 6, 2], [2, 2, 4]])


def want(layer: Any, ids: Any) -> Any:
    """Marian's ULREmbedding in NumPy."""
    w = {name: v.astype(np.float64) for name, v in layer.state_dict().items()}
    z = w["queries"][ids] @ w["transform"] / np.sqrt(3) @ w["keys"].T
    z = z / layer.temperature
    e = np.exp(z - z.max(-1, keepdims=True))
    mean = e / e.sum(-1, keepdims=True) @ w["universal"]
    return w["own"][ids] + w["shared"][ids][..., None] * mean


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.05},
        {"train_transform": True},
        {"shared": np.arange(7) / 7.0},
    ],
)
def test_the_formula(settings: dict[str, Any]) -> None:
    layer = nn.UniversalEmbedding(Q, K, 4, **settings)
    np.testing.assert_allclose(
        layer(IDS).numpy(), want(layer, IDS), rtol=1e-5, atol=1e-6
    )
    assert layer(3).shape == (4,)
    np.testing.assert_allclose(layer.weights(IDS).numpy().sum(-1), 1.0, rtol=1e-6)


def test_what_is_trained() -> None:
    layer = nn.UniversalEmbedding(Q, K, 4, shared=[0.0, 1, 1, 1, 1, 1, 1])
    before = {k: v.copy() for k, v in layer.state_dict().items()}
    assert set(before) == {
        "queries", "keys", "universal", "own", "transform", "shared"
    }  # fmt: skip
    td.optim.SGD(layer.parameters(), lr=1.0).step((layer([0]) ** 2).sum())
    moved = {k for k, v in layer.state_dict().items() if (v != before[k]).any()}
    assert moved == {"own"}, "a word that shares nothing moves its own vector alone"
    assert (layer.own.numpy()[1:] == before["own"][1:]).all()
    td.optim.SGD(layer.parameters(), lr=1.0).step((layer([1]) ** 2).sum())
    moved = {k for k, v in layer.state_dict().items() if (v != before[k]).any()}
    assert moved == {"own", "universal"}
    both = nn.UniversalEmbedding(Q, K, 4, train_transform=True)
    (g,) = td.grad((both(IDS) ** 2).sum(), [both.transform])
    assert np.abs(g.numpy()).min() > 0.0


def test_similar_words_start_alike() -> None:
    """A word never seen takes the vector of those whose query is its own."""
    near = np.concatenate([Q, Q[:1]])
    layer = nn.UniversalEmbedding(
        near, K, 4, temperature=0.1, weight_init=nn.init.zeros
    )
    layer.universal.assign(RNG.normal(size=(5, 4)))
    np.testing.assert_allclose(layer(7).numpy(), layer(0).numpy())


def test_scores_are_dropped_in_training_alone() -> None:
    layer = nn.UniversalEmbedding(Q, K, 4, dropout=0.5)
    with td.options(seed=1):
        noisy = layer(IDS).numpy()
    assert not np.allclose(noisy, want(layer, IDS))
    layer.eval()
    np.testing.assert_allclose(
        layer(IDS).numpy(), want(layer, IDS), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: nn.UniversalEmbedding(Q, K[:, :2], 4), "different spaces"),
        (lambda: nn.UniversalEmbedding(Q[0], K, 4), "a vector for each word"),
        (lambda: nn.UniversalEmbedding(Q, K, 0), "width is a whole number from 1"),
        (lambda: nn.UniversalEmbedding(Q, K, 4, shared=[1.0]), "one for each of 7"),
        (lambda: nn.UniversalEmbedding(Q, K, 4, temperature=0.0), "above 0"),
        (lambda: nn.UniversalEmbedding(Q, K, 4, dropout=2.0), "from 0 to 1"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, said: str) -> None:
    with pytest.raises(td.ArgumentError, match=said):
        make()
