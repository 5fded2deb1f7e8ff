"""An encoder-decoder transformer over tokens, with Marian's options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Embedding, Linear, above_zero
from treadle.nn.module import Module
from treadle.nn.normalization import LayerNorm, RMSNorm
from treadle.nn.transformer.layers import (
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    check_operations,
)
from treadle.nn.transformer.stack import (
    LearnedPositions,
    SinusoidalPositions,
    TransformerDecoder,
    TransformerEncoder,
)
from treadle.ops.dropout import dropout as plain_dropout
from treadle.ops.softmax import log_softmax

__all__ = ["Translator"]

State = dict[str, Any]
TIES = ("none", "source", "decoder", "all")
PLACES = ("sinusoidal", "learned", "rotary", "rotary halves", "alibi", "none")


class Translator(Module):
    """Tokens to tokens: an encoder, and a decoder that sees it and what it said.

    `translator(source, target)` gives logits [rows, length, target vocabulary] of the
    token after each of `target`, which starts with a start token. A bool `source_mask`
    [rows, length] is True where there is a token. `start` and `step` are what
    `nn.beam_search` and `nn.sample` take.

    Marian's options are here under these names (its defaults for Transformer base):

    - `width` dim-emb, `heads` and `feedforward` transformer-heads and -dim-ffn,
      `encoder_layers` and `decoder_layers` enc-depth and dec-depth
    - `preprocess`, `postprocess`, `postprocess_embedding`, `postprocess_top`:
      transformer-preprocess, -postprocess, -postprocess-emb, -postprocess-top
    - `feedforward_depth`, `activation`, `projection`: -ffn-depth, -ffn-activation,
      and not transformer-no-projection
    - `dropout`, `attention_dropout`, `feedforward_dropout`: transformer-dropout,
      -dropout-attention, -dropout-ffn; `word_dropout`: dropout-src and dropout-trg
    - `autoregression` -decoder-autoreg, with `mixing`: aan settings or rnn-projection
    - `tied` embeddings: "source" (tied-embeddings-src), "decoder" (tied-embeddings:
      target and output), "all", "none"; `tied_layers` transformer-tied-layers
    - `positions`: "sinusoidal", "learned" (transformer-train-positions) for up to
      `max_length` places, and those of MultiHeadAttention
    - `depth_scaling` transformer-depth-scaling: weights of layer k over sqrt(k) at
      first

    Vaswani et al. 2017; Junczys-Dowmunt et al., Marian: fast neural machine translation
    in C++, 2018.

    >>> model = td.nn.Translator(7, 9, width=8, heads=2, feedforward=16).eval()
    >>> model([[1, 2, 3]], [[0, 4]]).shape
    (1, 2, 9)
    >>> best = td.nn.beam_search(model.step, model.start([[1, 2, 3]]), [0], end=1,
    ...                          max_length=5)
    >>> len(best[0][0].tokens) <= 5
    True
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int | None = None,
        *,
        width: int = 512,
        heads: int = 8,
        feedforward: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        preprocess: str = "",
        postprocess: str = "dan",
        postprocess_embedding: str = "d",
        postprocess_top: str = "",
        positions: str = "sinusoidal",
        max_length: int = 1024,
        tied: str = "none",
        tied_layers: Sequence[int] = (),
        word_dropout: float = 0.0,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feedforward_dropout: float = 0.0,
        depth_scaling: bool = False,
        autoregression: str = "self-attention",
        mixing: dict[str, Any] | None = None,
        dtype: Any = None,
        **layers: Any,
    ) -> None:
        target = source_vocabulary if target_vocabulary is None else target_vocabulary
        _check(source_vocabulary, target, tied, positions)
        self.width, self.dropout, self.word_dropout = width, dropout, word_dropout
        self._embed(source_vocabulary, target, tied, dtype)
        self.places = _places(positions, max_length, width, dtype)
        relative = positions if positions.startswith(("rotary", "alibi")) else None
        settings = dict(
            dim_feedforward=feedforward, dropout=dropout, layer_norm_eps=1e-6,
            preprocess=preprocess, postprocess=postprocess, dtype=dtype,
            positions=relative,
            attention_dropout=attention_dropout,
            feedforward_dropout=feedforward_dropout, **layers,
        )  # fmt: skip
        more = {**settings, "autoregression": autoregression, "mixing": mixing}
        below = _layers(TransformerEncoderLayer, encoder_layers, width, heads, settings)
        above = _layers(TransformerDecoderLayer, decoder_layers, width, heads, more)
        if depth_scaling:
            _scale(below)
            _scale(above)

        def operations(letters: str) -> Module:
            return _Operations(letters, width, dropout, dtype)

        self.encoder = TransformerEncoder(below, norm=operations(postprocess_top))
        self.decoder = TransformerDecoder(
            _tied(above, tied_layers), norm=operations(postprocess_top)
        )
        self.source_begin = operations(postprocess_embedding)
        self.target_begin = operations(postprocess_embedding)

    def _embed(self, source: int, target: int, tied: str, dtype: Any) -> None:
        """Make the embeddings and the output layer, of which some are one."""
        # Marian's: rows have a length of about one.
        limit = math.sqrt(3.0 / self.width)
        drawn = init.uniform(low=-limit, high=limit)

        def table(rows: int) -> Embedding:
            return Embedding(rows, self.width, weight_init=drawn, dtype=dtype)

        self.source_embedding = table(source)
        one = tied in ("source", "all")
        self.target_embedding = self.source_embedding if one else table(target)
        free = tied in ("none", "source")
        self.output = Linear(
            self.width, target, dtype=dtype,
            weight_init=init.glorot_uniform, bias_init=init.zeros,
        )  # fmt: skip
        if not free:
            self.output.weight = self.target_embedding.weight

    # -- whole sequences -----------------------------------------------------------

    def forward(
        self,
        source: Any,
        target: Any,
        source_mask: Any = None,
        target_mask: Any = None,
    ) -> Tensor:
        memory, seen = self.encode(source, source_mask), _keys(source_mask)
        x = self._embedded(self.target_embedding, self.target_begin, target, 0)
        states = self.decoder(x, memory, _keys(target_mask), seen, True)
        return self.output(states)

    def encode(self, source: Any, source_mask: Any = None) -> Tensor:
        """The memory that the decoder sees: [rows, length, width]."""
        x = self._embedded(self.source_embedding, self.source_begin, source, 0)
        return self.encoder(x, _keys(source_mask))

    def alignment(
        self,
        source: Any,
        target: Any,
        source_mask: Any = None,
        layer: int = -1,
        head: int = 0,
    ) -> Tensor:
        """Attention of target places to source places: [rows, target, source].

        Of one head of one decoder layer, the last's first as in Marian; for a loss by
        known alignments, or to look at.

        >>> model = td.nn.Translator(7, width=8, heads=2, feedforward=16).eval()
        >>> found = model.alignment([[1, 2, 3]], [[0, 4]])
        >>> found.shape, bool((td.abs(found.sum(-1) - 1) < 1e-5).all())
        ((1, 2, 3), True)
        """
        memory, seen = self.encode(source, source_mask), _keys(source_mask)
        x = self._embedded(self.target_embedding, self.target_begin, target, 0)
        layers = list(self.decoder.layers)
        chosen = range(len(layers))[layer]
        for below in layers[:chosen]:
            x = below(x, memory, None, seen, True)
        weights = layers[chosen].alignment(x, memory, seen)
        return weights[:, head]

    # -- step by step --------------------------------------------------------------

    def start(self, source: Any, source_mask: Any = None) -> State:
        """The state before the first token, one row a sentence of `source`."""
        memory, seen = self.encode(source, source_mask), _keys(source_mask)
        return {"place": 0, "layers": self.decoder.start(memory, seen)}

    def step(self, state: State, tokens: Any) -> tuple[Tensor, State]:
        """Log probabilities of the tokens after these, [rows, vocabulary], and the
        state: what `beam_search` and `sample` call."""
        ids, place = as_tensor(tokens), state["place"]
        x = self._embedded(
            self.target_embedding, self.target_begin, ids.reshape((-1, 1)), place
        )
        y, layers = self.decoder.step(x, state["layers"])
        log_probabilities = log_softmax(self.output(y[:, 0]), -1)
        return log_probabilities, {"place": place + 1, "layers": layers}

    def _embedded(
        self, table: Embedding, begin: Module, tokens: Any, place: int
    ) -> Tensor:
        ids = as_tensor(tokens)
        if ids.ndim != 2:
            raise ShapeError(
                f"tokens are [rows, length], got {ids.type}",
                hint="one sentence is a batch of one row: tokens[None]",
            ).located("Translator", repr(ids.type), ids.line)
        x = table(ids)
        if self.word_dropout and self.training:
            x = plain_dropout(x, self.word_dropout, shared=(2,))  # whole words
        return begin(x if self.places is None else self.places(x, place))

    def extra_repr(self) -> str:
        return f"width={self.width}"


class _Operations(Module):
    """Dropout and normalization in the order of letters: d, n, r."""

    def __init__(self, letters: str, width: int, dropout: float, dtype: Any) -> None:
        check_operations(letters, "")
        self.letters, self.dropout = letters, dropout
        kinds = {"n": LayerNorm, "r": RMSNorm}
        chosen = [kinds[x] for x in letters if x in kinds][:1]
        self.norm = chosen[0](width, 1e-6, dtype=dtype) if chosen else None

    def forward(self, x: Any) -> Any:
        for letter in self.letters:
            if letter == "d":
                x = F.dropout(x, self.dropout, self.training)
            elif self.norm is not None:
                x = self.norm(x)
        return x


def _check(source: int, target: int, tied: str, positions: str) -> None:
    above_zero(source_vocabulary=source, target_vocabulary=target)
    for name, value, known in (("tied", tied, TIES), ("positions", positions, PLACES)):
        if value not in known:
            raise ArgumentError(
                f"no {name} {value!r}", hint=f"one of {', '.join(map(repr, known))}"
            )
    if tied in ("source", "all") and source != target:
        raise ArgumentError(
            f"vocabularies of {source} and {target} words share no embeddings",
            hint='join them, or tie the "decoder" alone',
        )


def _places(kind: str, length: int, width: int, dtype: Any) -> Module | None:
    """The position encoding that is added to embeddings, if one is."""
    if kind == "sinusoidal":
        return SinusoidalPositions(width, math.sqrt(width))
    if kind == "learned":
        return LearnedPositions(length, width, clamp=True, dtype=dtype)
    return None


def _layers(
    kind: Any, count: int, width: int, heads: int, settings: dict[str, Any]
) -> list[Any]:
    above_zero(layers=count)
    return [kind(width, heads, **settings) for _ in range(count)]


def _scale(layers: Sequence[Module]) -> None:
    """Divide the matrices of layer k by sqrt(k)."""
    for k, layer in enumerate(layers, 1):
        for p in layer.parameters():
            if len(p.shape) > 1:
                p.assign(p.numpy() * np.asarray(k**-0.5, p.dtype))


def _tied(layers: list[Any], chosen: Sequence[int]) -> list[Any]:
    """The layers at these numbers, which count from 1: equal ones are one layer."""
    if not chosen:
        return layers
    if len(chosen) != len(layers) or not all(1 <= k <= len(layers) for k in chosen):
        raise ArgumentError(
            f"{list(chosen)} does not name a layer for each of {len(layers)}"
        )
    return [layers[k - 1] for k in chosen]


def _keys(mask: Any) -> Any:
    """A mask [rows, length] as attention takes it: [rows, 1, 1, length]."""
    if mask is None:
        return None
    allowed = as_tensor(mask)
    if allowed.ndim != 2:
        raise ShapeError(f"a mask of tokens is [rows, length], got {allowed.type}")
    return allowed.reshape((allowed.shape[0], 1, 1, allowed.shape[1]))
