"""Factored distributions are distributions; a loss is the word's share of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

CLASSES = [2, 0, 1, 2, 1, 2, 0]
CODES = ("00", "010", "011", "10", "1100", "1101", "111")


def layers() -> list[Any]:
    made: list[Any] = [
        nn.ClassFactoredSoftmax(4, CLASSES),
        nn.HierarchicalSoftmax(4, CODES),
    ]
    rng = np.random.default_rng(1)
    for layer in made:
        state = layer.state_dict()
        layer.load_state_dict({k: rng.normal(size=v.shape) for k, v in state.items()})
    return made


@pytest.mark.parametrize("k", [0, 1])
def test_losses_are_shares_of_one_distribution(k: int) -> None:
    layer, rng = layers()[k], np.random.default_rng(2)
    h, words = rng.normal(size=(2, 3, 4)).astype("f4"), rng.integers(0, 7, (2, 3))
    logs = layer.log_probs(h).numpy()
    np.testing.assert_allclose(np.exp(logs).sum(-1), 1.0, rtol=1e-5)
    want = -np.take_along_axis(logs, words[..., None], -1)[..., 0]
    np.testing.assert_allclose(layer(h, words).numpy(), want, rtol=1e-4, atol=1e-5)
    one = layer(h[0, 0], int(words[0, 0]))
    assert one.shape == () and float(one) == pytest.approx(want[0, 0], rel=1e-4)
    ps = list(layer.parameters())
    a = td.grad(layer(h, words).sum(), ps)
    b = td.grad(-td.take_along_axis(layer.log_probs(h), words[..., None], -1).sum(), ps)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-3, atol=1e-5)


def test_the_classes_by_their_formula() -> None:
    layer = layers()[0]
    w = layer.state_dict()
    h = np.random.default_rng(3).normal(size=4).astype("f4")
    top = w["classes.weight"] @ h + w["classes.bias"]
    top = top - np.log(np.exp(top).sum())
    scores = w["words"].reshape(3, 3, 4)[2] @ h + w["bias"][2]
    inside = scores - np.log(np.exp(scores).sum())
    np.testing.assert_allclose(
        layer.log_probs(h).numpy()[[0, 3, 5]], top[2] + inside, rtol=1e-4
    )


def test_a_step_changes_what_occurs() -> None:
    layer = layers()[0]
    before = layer.state_dict()
    td.optim.Adam(lr=0.1).step(layer(td.ones((2, 4)), [1, 6]).sum())
    after = layer.state_dict()
    assert after["words"][1:].tobytes() == before["words"][1:].tobytes()
    assert (after["words"][0, :8] != before["words"][0, :8]).all()


def test_codes_of_huffman() -> None:
    layer = nn.HierarchicalSoftmax.from_counts(2, [1, 1, 2, 4, 8])
    assert [len(code) for code in layer.codes] == [4, 4, 3, 2, 1]
    for wrong in (
        lambda: nn.HierarchicalSoftmax(2, ["0"]),
        lambda: nn.HierarchicalSoftmax(2, ["0", "01", "1"]),
        lambda: nn.HierarchicalSoftmax(2, ["0", "0"]),
        lambda: nn.HierarchicalSoftmax(2, ["0", "x"]),
        lambda: nn.HierarchicalSoftmax.from_counts(2, [1]),
        lambda: nn.ClassFactoredSoftmax(2, []),
        lambda: nn.ClassFactoredSoftmax(2, [0, 2]),
        lambda: nn.ClassFactoredSoftmax(2, [-1, 0]),
        lambda: nn.ClassFactoredSoftmax(2, [0.5]),  # type: ignore[list-item]
    ):
        with pytest.raises(td.ArgumentError):
            wrong()


def test_words_of_characters() -> None:
    encoder = nn.CharacterEncoder(9, 3, 4, dtype="float32")
    found = encoder([[1, 2, 3], [], [4]]).numpy()
    assert found.shape == (3, 8) and not found[1].any()
    alone = encoder([[4]]).numpy()
    np.testing.assert_allclose(found[2], alone[0], rtol=1e-5, atol=1e-7)
    (g,) = td.grad(encoder([[1, 2], [2]]).sum(), [encoder.embedding.weight])
    assert (g.numpy()[[1, 2]] != 0).all() and not g.numpy()[3:].any()
