"""Transformers against NumPy by their formulas; steps against whole sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.nn import transformers as reference
from treadle import nn
from treadle.base.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(9)
SOURCE = RNG.integers(0, 11, (3, 5))
TARGET = RNG.integers(0, 13, (3, 6))
MASK = np.arange(5) < np.array([[5], [3], [1]])

OPTIONS: list[dict[str, Any]] = [
    {},
    {"preprocess": "n", "postprocess": "da", "postprocess_top": "n"},
    {"preprocess": "n", "postprocess": "dan", "activation": "gelu"},
    {"preprocess": "d", "postprocess": "hn", "activation": "swish"},
    {"preprocess": "r", "postprocess": "da", "feedforward_depth": 3},
    {"feedforward_depth": 1, "projection": False},
    {"positions": "learned", "tied": "decoder"},
    {"positions": "rotary"},
    {"positions": "rotary halves"},
    {"positions": "alibi"},
    {"positions": "none", "depth_scaling": True},
    {"autoregression": "average-attention", "mixing": {"dim": 7, "depth": 3}},
    {
        "autoregression": "average-attention", "preprocess": "n", "postprocess": "da",
        "mixing": {"dim": 7, "gate": False},
    },
    {"autoregression": "rnn"},
    {"autoregression": "rnn", "preprocess": "n", "postprocess": "da",
     "mixing": {"projection": True}},
    {"tied_layers": (1, 1)},
]  # fmt: skip
NAMES = [", ".join(f"{k} {v}" for k, v in row.items()) or "base" for row in OPTIONS]


def made(options: dict[str, Any], dtype: str = "float64") -> nn.Translator:
    with td.options(seed=4):
        return nn.Translator(
            11, 13, width=8, heads=2, feedforward=12, encoder_layers=2,
            decoder_layers=2, dtype=dtype, max_length=9, dropout=0.3, **options,
        )  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_the_translator_is_its_formula_under_every_option(
    options: dict[str, Any],
) -> None:
    model = made(options).eval()
    for p in model.parameters():  # no bias is zero, no norm is one
        p.assign(p.numpy() + 0.1 * RNG.normal(size=p.shape))
    known = {
        "preprocess", "postprocess", "activation", "positions", "autoregression",
    }  # fmt: skip
    given = {k: v for k, v in options.items() if k in known}
    top = options.get("postprocess_top", "")
    want = reference.translator(
        model.state_dict(), SOURCE, TARGET, MASK, 2, (2, 2), top=top, **given
    )
    found = model(SOURCE, TARGET, MASK).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_steps_give_what_the_whole_sequence_gives(options: dict[str, Any]) -> None:
    model = made(options, "float32").eval()
    whole = td.log_softmax(model(SOURCE, TARGET, MASK), -1).numpy()
    with td.no_grad():
        state = model.start(SOURCE, MASK)
        for t in range(TARGET.shape[1]):
            found, state = model.step(state, TARGET[:, t])
            np.testing.assert_allclose(found.numpy(), whole[:, t], atol=1e-5)


def test_steps_past_a_block_of_room_and_several_places_at_once() -> None:
    with td.options(seed=2):
        layers = [
            nn.TransformerEncoderLayer(8, 2, 12, positions=kind)
            for kind in ("rotary", "alibi", None)
        ]
    stack, x = (
        nn.TransformerEncoder(layers).eval(),
        td.asarray(RNG.normal(size=(2, 70, 8))),
    )
    x = x.astype("float32")
    whole = stack(x, is_causal=True).numpy()
    state, at = stack.start(2), 0
    for count in (1, 5, 31, 1, 30, 2):
        y, state = stack.step(x[:, at : at + count], state)
        np.testing.assert_allclose(y.numpy(), whole[:, at : at + count], atol=1e-5)
        at += count


def test_many_steps_of_one_room_are_one_program() -> None:
    model = made({}, "float32").eval()
    with td.no_grad():
        state = model.start(SOURCE, MASK)
        for t in range(12):
            found, state = model.step(state, TARGET[:, t % 6])
            found.numpy()
            if t == 3:
                before = td.cache_info().misses
    assert td.cache_info().misses == before


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[9], OPTIONS[11], OPTIONS[13]])
def test_a_beam_finds_what_whole_sequences_say(options: dict[str, Any]) -> None:
    model = made(options, "float64").eval()

    def slow(state: Any, tokens: Any) -> Any:
        said = np.concatenate([state["said"], tokens[:, None]], 1)
        logits = model(state["source"], said, state["mask"])[:, -1]
        return td.log_softmax(logits, -1), {**state, "said": said}

    start = {"source": SOURCE, "mask": MASK, "said": np.zeros((3, 0), np.int64)}
    settings: dict[str, Any] = {"end": 1, "max_length": 7, "beam": 3, "n_best": 3}
    want = nn.beam_search(slow, start, [0, 0, 0], **settings)
    found = nn.beam_search(model.step, model.start(SOURCE, MASK), [0, 0, 0], **settings)
    for one, two in zip(want, found, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in two]
        scores = [[h.score for h in some] for some in (one, two)]
        np.testing.assert_allclose(*scores, atol=1e-9)


def test_samples_are_drawn_step_by_step() -> None:
    model = made({}, "float32").eval()
    settings: dict[str, Any] = {"end": 1, "max_length": 6, "temperature": 0.0}
    one = nn.sample(model.step, model.start(SOURCE, MASK), [0] * 3, **settings)
    best = nn.beam_search(
        model.step, model.start(SOURCE, MASK), [0] * 3, end=1, max_length=6, beam=1
    )
    assert [h[0].tokens for h in one] == [h[0].tokens for h in best]


def test_tied_embeddings_are_one_parameter() -> None:
    def count(tied: str) -> int:
        model = nn.Translator(9, width=8, heads=2, feedforward=8, tied=tied)
        return sum(p.shape == (9, 8) for p in model.parameters())

    assert [count(x) for x in ("none", "source", "decoder", "all")] == [3, 2, 2, 1]


def test_layers_are_scaled_by_depth_and_tied_by_number() -> None:
    model, plain = made({"depth_scaling": True}), made({})
    for k, layer in enumerate(model.encoder.layers, 1):
        want = plain.encoder.layers[k - 1].linear1.weight.numpy() / np.sqrt(k)
        np.testing.assert_allclose(layer.linear1.weight.numpy(), want)
    tied = made({"tied_layers": (2, 2)})
    assert tied.decoder.layers[0] is tied.decoder.layers[1]


def test_words_are_dropped_whole() -> None:
    model = nn.Translator(9, width=64, heads=2, feedforward=8, encoder_layers=1,
                          decoder_layers=1, word_dropout=0.5, positions="none",
                          dropout=0.0)  # fmt: skip
    with td.options(seed=1):
        x = model._embedded(
            model.source_embedding, model.source_begin, np.zeros((4, 50), int), 0
        ).numpy()
    gone = (x == 0).all(-1)
    assert 60 < gone.sum() < 140 and ((x == 0).any(-1) == gone).all()


def test_a_translator_learns_to_copy_and_says_it() -> None:
    with td.options(seed=3):
        model = nn.Translator(
            8, width=16, heads=2, feedforward=32, encoder_layers=1, decoder_layers=1,
            dropout=0.0, tied="all",
        )  # fmt: skip
        rng = np.random.default_rng(0)
        optimizer = td.optim.Adam(lr=0.01)
        for _ in range(150):
            words = rng.integers(2, 8, (32, 4))
            ends = np.ones((32, 1), int)
            said = np.concatenate([0 * ends, words], 1)
            logits = model(words, said)
            wanted = np.concatenate([words, ends], 1).reshape(-1)
            loss = nn.functional.cross_entropy(logits.reshape((-1, 8)), wanted)
            last = float(optimizer.step(loss))
        assert last < 0.3
        words = rng.integers(2, 8, (16, 4))
        model.eval()
        found = nn.beam_search(
            model.step, model.start(words), [0] * 16, end=1, max_length=6
        )
    right = [h[0].tokens == (*w, 1) for h, w in zip(found, words.tolist(), strict=True)]
    assert sum(right) >= 13


def test_bert_is_its_formula() -> None:
    with td.options(seed=5):
        model = nn.Bert(
            11, 8, layers=3, heads=2, feedforward=12, places=7, dtype="float64"
        ).eval()
    for p in model.parameters():
        p.assign(p.numpy() + 0.3 * RNG.normal(size=p.shape))
    want = reference.bert(model.state_dict(), SOURCE, MASK, 2)
    np.testing.assert_allclose(model(SOURCE, MASK).numpy(), want, atol=1e-9)
    part = MASK[..., None]
    mean = (want * part).sum(1) / part.sum(1)
    mean /= np.linalg.norm(mean, axis=-1, keepdims=True)
    np.testing.assert_allclose(model.sentences(SOURCE, MASK).numpy(), mean, atol=1e-9)
    assert model.pooled(model(SOURCE)).shape == (3, 8)


def test_bert_in_int8_is_close() -> None:
    with td.options(seed=5):
        model = nn.Bert(11, 32, layers=2, heads=2, feedforward=64, places=7).eval()
    want = model.sentences(SOURCE, MASK).numpy()
    assert len(nn.quantize_weights(model)) == 16
    assert np.abs(model.sentences(SOURCE, MASK).numpy() - want).max() < 0.01


def test_names_of_hugging_face_are_all_renamed() -> None:
    model = nn.Bert(5, 4, layers=2, heads=1, feedforward=4, places=3)
    rename = nn.Bert.hugging_face(2)
    back = {own: theirs for theirs, own in rename.items()}
    state = model.state_dict()
    theirs = {
        next(back[k] + name[len(k) :] for k in back if k and name.startswith(k)): a
        for name, a in state.items()
    }
    keys = nn.Bert(5, 4, layers=2, heads=1, feedforward=4, places=3).load_state_dict(
        theirs, rename=rename
    )
    assert not keys.missing_keys and not keys.unexpected_keys


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.MultiHeadAttention(8, 2, positions="rope"), ArgumentError, "one of"),
    (lambda: nn.MultiHeadAttention(8, 2, batch_first=False).start(2), ArgumentError,
     "batch_first"),
    (lambda: nn.TransformerEncoderLayer(8, 2, activation="sine"), ArgumentError,
     "one of relu"),
    (lambda: nn.TransformerEncoderLayer(8, 2, preprocess="a"), ArgumentError,
     "letters"),
    (lambda: nn.TransformerDecoderLayer(8, 2, autoregression="lstm"), ArgumentError,
     "average-attention"),
    (lambda: nn.Translator(5, 6, tied="all"), ArgumentError, "share no embeddings"),
    (lambda: nn.Translator(5, tied_layers=[7] * 6), ArgumentError, "name a layer"),
    (lambda: made({}).start(SOURCE[0]), ShapeError, r"tokens\[None\]"),
    (lambda: nn.LearnedPositions(3, 4)(np.ones((2, 5, 4), "f4")), ArgumentError,
     "clamp=True"),
    (lambda: nn.Bert(5, 4, layers=1, heads=1, pooler=False).pooled(0), ShapeError,
     "pooler=True"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "text"), MISTAKES)
def test_mistakes_are_told_with_the_remedy(
    mistake: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        mistake()


def test_a_stack_is_copies_of_one_layer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    stack = nn.TransformerEncoder(layer, num_layers=3, norm=nn.LayerNorm(8))
    first, second, _ = stack.layers
    assert first is not layer and first.linear1.weight is not second.linear1.weight
    np.testing.assert_array_equal(
        first.linear1.weight.numpy(), second.linear1.weight.numpy()
    )
    names = dict(stack.named_parameters())
    assert names["layers.2.linear1.weight"].name == "layers.2.linear1.weight"
    for wrong in (
        lambda: nn.TransformerEncoder(layer),
        lambda: nn.TransformerDecoder([layer], 2),
    ):
        with pytest.raises(td.ArgumentError, match="one layer and num_layers"):
            wrong()
