"""The layer that computes few of many logits: what it finds, and that it keeps up."""

from __future__ import annotations

import copy
import io
import math
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

WIDTH, WORDS = 64, 5000


def trained(seed: int = 0) -> tuple[nn.Linear, Any]:
    """A layer with rows of similar length, and states that lie near some of them."""
    rng = np.random.default_rng(seed)
    layer = nn.Linear(WIDTH, WORDS)
    rows = rng.normal(size=(WORDS, WIDTH)).astype(np.float32)
    layer.weight.assign(rows)
    layer.bias.assign(rng.normal(size=WORDS).astype(np.float32) * 0.1)
    near = rows[rng.integers(0, WORDS, 200)]
    noise = rng.normal(size=near.shape).astype(np.float32)
    return layer, near + 1.2 * noise


@pytest.mark.parametrize("bits, floor", [(64, 0.80), (256, 0.95), (1024, 0.99)])
def test_the_greatest_logit_is_found(bits: int, floor: float) -> None:
    layer, x = trained()
    exact = layer(x).numpy()
    found = nn.ApproximateOutput(layer, k=100, bits=bits)(x).numpy()
    assert (found > -np.inf).sum(1).tolist() == [100] * len(x)
    known = found > -np.inf
    np.testing.assert_allclose(found[known], exact[known], rtol=1e-4, atol=1e-4)
    recall = (found.argmax(1) == exact.argmax(1)).mean()
    chance = 100 / WORDS
    assert recall >= floor > 10 * chance


def test_nothing_is_missed_with_all_words() -> None:
    layer, x = trained()
    found = nn.ApproximateOutput(layer, k=2 * WORDS, bits=64)
    np.testing.assert_allclose(
        found(x[:3]).numpy(), layer(x[:3]).numpy(), rtol=1e-4, atol=1e-4
    )


def want(layer: nn.Linear, x: Any, k: int, bits: int) -> Any:
    """What an index made anew finds."""
    return nn.CodeIndex(td.Variable(layer.weight.numpy()), bits).nearest(x, k).tolist()


def test_codes_follow_the_weight() -> None:
    layer, x = trained()
    output, x = nn.ApproximateOutput(layer, k=9, bits=128), x[:4]
    seen = [output.candidates(x)[0].tolist()]

    def check() -> None:
        ids = output.candidates(x)[0].tolist()
        assert ids == want(layer, x, 9, 128) and ids not in seen
        seen.append(ids)

    layer.weight.assign(layer.weight[::-1])  # pending when it is asked for
    check()
    td.optim.SGD([layer.weight], lr=50.0).step(td.sum(layer(x) ** 2) * 1e-3)
    check()
    td.load({"weight": layer.weight.numpy()[::2].repeat(2, 0)}, layer, strict=False)
    check()
    layer.weight = td.Parameter(-layer.weight.numpy())
    check()


def test_codes_follow_the_weight_of_a_traced_function() -> None:
    layer, x = trained()
    output, x = nn.ApproximateOutput(layer, k=9, bits=128), x[:4]
    traced = td.function(lambda x: output.candidates(x)[0])
    before = traced(x).tolist()
    for k in range(6):  # by now such calls follow a plan
        layer.weight.assign(-layer.weight)
        if k % 2:
            layer.weight.numpy()  # else it is pending at the call
        after = traced(x).tolist()
        assert after == want(layer, x, 9, 128) != before
        assert traced(x).tolist() == after
        before = after

    @td.function
    def both(x: Any) -> Any:
        layer.weight.assign(-layer.weight)
        return output(x)

    with pytest.raises(td.TraceError, match="is assigned in this trace"):
        both(x)


def test_beam_search_goes_on_with_it() -> None:
    rng = np.random.default_rng(3)
    table = nn.Embedding.from_array(rng.normal(size=(300, WIDTH)).astype(np.float32))
    layer = nn.Linear(WIDTH, 300, bias=False)
    layer.weight.assign(rng.normal(size=(300, WIDTH)).astype(np.float32))
    mixed = rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 4

    def search(output: nn.Module) -> Any:
        def step(state: Any, tokens: Any) -> Any:
            state = td.tanh(table(tokens) + td.asarray(state) @ mixed)
            return td.log_softmax(output(state), -1), state

        start = np.zeros((2, WIDTH), np.float32)
        found = nn.beam_search(step, start, [1, 2], end=0, max_length=8, beam=3)
        return [hypotheses[0].tokens for hypotheses in found]

    exact = search(layer)
    assert search(nn.ApproximateOutput(layer, k=300, bits=64)) == exact
    assert search(nn.ApproximateOutput(layer, k=150, bits=2048)) == exact


def test_the_gradient_is_that_of_the_words_found() -> None:
    layer, x = trained()
    output = nn.ApproximateOutput(layer, k=5, bits=64)
    ids, logits = output.candidates(x[:1])
    (g,) = td.grad(logits.sum(), [layer.weight])
    rows = np.flatnonzero(np.abs(g.numpy()).sum(1))
    assert rows.tolist() == ids.numpy()[0].tolist()


def test_state_copies_and_files() -> None:
    layer, x = trained()
    output = nn.ApproximateOutput(layer, k=7, bits=100)
    ids = output.candidates(x)[0].tolist()
    assert sorted(output.state_dict()) == ["layer.bias", "layer.weight"]
    twin = copy.deepcopy(output)
    twin.layer.weight.assign(-twin.layer.weight)
    assert twin.candidates(x)[0].tolist() != ids == output.candidates(x)[0].tolist()
    file = io.BytesIO()
    td.save(file, output, format="npz")
    td.load(file.getvalue(), twin)
    assert twin.candidates(x)[0].tolist() == ids
    f = td.placeholder(x.shape, name="x")
    file = io.BytesIO()
    td.save(file, td.computation(output(f), f), format="npz")
    loaded = td.load_computation(file.getvalue())
    np.testing.assert_allclose(loaded(x), output(x).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width, bits", [(64, 64), (40, 40), (64, 70), (8, 300)])
def test_codes_of_rows_are_those_of_vectors(width: int, bits: int) -> None:
    w = np.random.default_rng(1).normal(size=(33, width)).astype(np.float32)
    index = nn.CodeIndex(td.Variable(w), bits)
    assert (index.rotation is None) == (width == bits)
    turned = w if index.rotation is None else w @ index.rotation
    np.testing.assert_array_equal(td.sign_codes(turned).numpy().T, index.codes.numpy())
    assert index.nearest(w, 1).numpy().ravel().tolist() == list(range(33))
    if index.rotation is not None:
        unit = index.rotation[:, : min(width, bits)]
        gram = unit.T @ unit
        np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)


def test_differing_bits_grow_with_the_angle() -> None:
    """Of 4096 bits a part of angle / pi differs, to within four deviations."""
    rng = np.random.default_rng(5)
    w = rng.normal(size=(20, 48))
    index = nn.CodeIndex(td.Variable(w, dtype="float64"), 4096)
    codes = index.codes.numpy().T
    apart = np.bitwise_count(codes[:, None] ^ codes[None]).sum(-1) / 4096
    unit = w / np.linalg.norm(w, axis=1, keepdims=True)
    angle = np.arccos(np.clip(unit @ unit.T, -1, 1)) / math.pi
    np.testing.assert_allclose(apart, angle, atol=4 * 0.5 / math.sqrt(4096))


def test_what_is_no_index_is_refused() -> None:
    with pytest.raises(td.ArgumentError, match="rows are those of a matrix"):
        nn.CodeIndex(td.Variable([1.0]), 8)
    with pytest.raises(td.ArgumentError, match="bits is a whole number from 1 up"):
        nn.ApproximateOutput(nn.Linear(2, 3), bits=0)
    with pytest.raises(td.ArgumentError, match="takes a Linear layer, not Identity"):
        nn.ApproximateOutput(nn.Identity())  # type: ignore[arg-type]
    with pytest.raises(td.ShapeError, match="got a scalar"):
        td.sign_codes(1.0)
