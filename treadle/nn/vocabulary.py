"""Distributions over many words in less than a product with all of them; words as
sequences of characters.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.scope import lookup
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Embedding, Linear, above_zero
from treadle.nn.module import Module
from treadle.nn.recurrent.stack import LSTM
from treadle.ops.contract import matmul, matmul_transposed
from treadle.ops.join import concat
from treadle.ops.lookup import embedding
from treadle.ops.movement import reshape
from treadle.ops.rearrange import expand_dims, squeeze
from treadle.ops.select import where
from treadle.ops.softmax import log_softmax

__all__ = ["CharacterEncoder", "ClassFactoredSoftmax", "HierarchicalSoftmax"]


class ClassFactoredSoftmax(Module):
    """p(word) = p(class) p(word in its class): a loss in two small products.

    `classes` has the class of each word, a number from 0 up. Called with states
    (..., width) and words (...) it gives each word's -log p. Classes are rows of a
    table, so a step changes only those that occur. Goodman, Classes for fast maximum
    entropy training, 2001; DyNet's ClassFactoredSoftmaxBuilder.

    >>> layer = td.nn.ClassFactoredSoftmax(4, [0, 0, 1, 1, 1])
    >>> layer(td.ones((2, 4)), [3, 0]).shape
    (2,)
    >>> f"{float(td.exp(layer.log_probs(td.ones(4))).sum()):.4f}"
    '1.0000'
    """

    def __init__(self, width: int, classes: Sequence[int] | Array) -> None:
        above_zero(width=width)
        class_of = np.asarray(classes)
        if (
            class_of.ndim != 1
            or not class_of.size
            or class_of.dtype.kind not in "iu"
            or class_of.min() < 0
        ):
            raise ArgumentError(
                "classes are whole numbers from 0 up, one for each word"
            )
        sizes = np.bincount(class_of)
        if not sizes.all():
            raise ArgumentError(f"class {int(np.argmin(sizes))} has no word")
        self.width, count, most = width, len(sizes), int(sizes.max())
        order = np.argsort(class_of, kind="stable")
        within = np.empty_like(class_of)
        within[order] = np.arange(len(class_of)) - np.repeat(
            np.cumsum(sizes) - sizes, sizes
        )
        self._class, self._place = class_of.astype(np.int64), within.astype(np.int64)
        self._known = np.arange(most) < sizes[:, None]
        self.classes = Linear(width, count)
        limit = 1.0 / math.sqrt(width)
        drawn = init.uniform(low=-limit, high=limit)
        self.words = lookup(None, (count, most * width), init=drawn)
        self.bias = lookup(None, (count, most), init=0.0)

    def forward(self, states: Any, words: Any) -> Tensor:
        h, ids = as_tensor(states), as_tensor(words)
        classes = embedding(constant_node(self._class), ids)
        place = embedding(constant_node(self._place), ids)
        most = self._known.shape[1]
        rows = reshape(embedding(self.words, classes), (*ids.shape, most, self.width))
        scores = squeeze(matmul(rows, expand_dims(h, -1)), -1)
        scores = scores + embedding(self.bias, classes)
        known = embedding(constant_node(self._known), classes)
        within = _picked(log_softmax(where(known, scores, -math.inf), -1), place)
        return -(_picked(log_softmax(self.classes(h), -1), classes) + within)

    def log_probs(self, states: Any) -> Tensor:
        """log p of every word."""
        h = as_tensor(states)
        count, most = self._known.shape
        weight = reshape(self.words, (count * most, self.width))
        shape = (*h.shape[:-1], count, most)
        scores = reshape(matmul_transposed(h, weight), shape) + self.bias
        within = log_softmax(where(as_tensor(self._known), scores, -math.inf), -1)
        every = expand_dims(log_softmax(self.classes(h), -1), -1) + within
        flat = reshape(every, (*h.shape[:-1], count * most))
        return flat[..., self._class * most + self._place]


class HierarchicalSoftmax(Module):
    """p(word) as decisions on the way to it in a binary tree: log n in place of n.

    `codes` has for each word its way as a string of 0 and 1, none the beginning of
    another; `from_counts` makes Huffman's. Called with states (..., width) and words
    (...) it gives each word's -log p. Morin and Bengio, Hierarchical probabilistic
    neural network language model, 2005; Mikolov et al. 2013.

    >>> layer = td.nn.HierarchicalSoftmax.from_counts(4, [9, 5, 1, 1])
    >>> layer.codes, layer(td.ones((2, 4)), [3, 0]).shape
    (('0', '10', '110', '111'), (2,))
    >>> f"{float(td.exp(layer.log_probs(td.ones(4))).sum()):.4f}"
    '1.0000'
    """

    def __init__(self, width: int, codes: Sequence[str]) -> None:
        above_zero(width=width)
        self.width, self.codes = width, tuple(codes)
        if len(self.codes) < 2 or not all(c and set(c) <= {"0", "1"} for c in codes):
            raise ArgumentError("codes are strings of 0 and 1, for two words or more")
        ways = [[code[:k] for k in range(len(code))] for code in self.codes]
        inner = {
            way: k for k, way in enumerate(dict.fromkeys(chain.from_iterable(ways)))
        }
        both = set(inner) & set(self.codes)
        if both or len(set(self.codes)) < len(self.codes):
            raise ArgumentError("no code is another's, or the beginning of another")
        longest = max(map(len, self.codes))
        self._nodes = np.zeros((len(self.codes), longest), np.int64)
        self._signs = np.zeros((len(self.codes), longest), np.int8)
        for k, (code, way) in enumerate(zip(self.codes, ways, strict=True)):
            self._nodes[k, : len(way)] = [inner[step] for step in way]
            self._signs[k, : len(way)] = [1 if step == "0" else -1 for step in code]
        self.nodes = lookup(None, (len(inner), width), init=0.0)
        self.bias = lookup(None, (len(inner),), init=0.0)

    @classmethod
    def from_counts(cls, width: int, counts: Sequence[int]) -> HierarchicalSoftmax:
        """With Huffman's codes: the more often a word occurs, the shorter its way."""
        if len(counts) < 2:
            raise ArgumentError("a tree has two words or more")
        open_: list[tuple[int, int, tuple[int, ...]]]
        open_ = [(int(n), -k, (k,)) for k, n in enumerate(counts)]
        heapq.heapify(open_)
        codes = [""] * len(counts)
        while len(open_) > 1:
            a, b = heapq.heappop(open_), heapq.heappop(open_)
            for digit, part in (("1", a), ("0", b)):
                for k in part[2]:
                    codes[k] = digit + codes[k]
            heapq.heappush(open_, (a[0] + b[0], min(a[1], b[1]), a[2] + b[2]))
        return cls(width, codes)

    def forward(self, states: Any, words: Any) -> Tensor:
        h, ids = as_tensor(states), as_tensor(words)
        nodes = embedding(constant_node(self._nodes), ids)
        signs = embedding(constant_node(self._signs), ids)
        rows = embedding(self.nodes, nodes)
        scores = squeeze(matmul(rows, expand_dims(h, -1)), -1)
        return _decided(scores + embedding(self.bias, nodes), signs)

    def log_probs(self, states: Any) -> Tensor:
        """log p of every word."""
        h = as_tensor(states)
        scores = matmul_transposed(h, self.nodes) + self.bias
        return -_decided(scores[..., self._nodes], as_tensor(self._signs))


def _picked(logs: Tensor, places: Tensor) -> Tensor:
    """The elements of the last dimension at places."""
    return -F.nll_loss(
        reshape(logs, (-1, logs.shape[-1])), reshape(places, (-1,)), reduction="none"
    ).reshape(places.shape)


def _decided(scores: Tensor, signs: Tensor) -> Tensor:
    """-log of the probability of all decisions on a way; where there is none, 0."""
    taken = signs.astype(scores.dtype) * scores
    return -where(signs != 0, F.logsigmoid(taken), 0.0).sum(-1)


class CharacterEncoder(Module):
    """A vector (2 hidden) for each word from its characters, read in both directions.

    Called with words as sequences of characters' numbers. Ling et al., Finding function
    in form: compositional character models for open vocabulary word representation,
    2015; DyNet's C2W.

    >>> encoder = td.nn.CharacterEncoder(30, 4, 8)
    >>> encoder([[3, 1, 20], [7]]).shape
    (2, 16)
    """

    def __init__(
        self, characters: int, width: int, hidden_size: int, **settings: Any
    ) -> None:
        self.embedding = Embedding(characters, width)
        self.lstm = LSTM(width, hidden_size, bidirectional=True, **settings)

    def forward(self, words: Sequence[Any]) -> Tensor:
        ids = [np.asarray(word, np.int64) for word in words]
        ends = np.cumsum([0, *map(len, ids)]).tolist()
        rows = self.embedding(np.concatenate([*ids, np.zeros(0, np.int64)]))
        parts = [rows[a:b] for a, b in pairwise(ends)]
        _, (h, _) = self.lstm(parts)
        return concat([h[-2], h[-1]], -1)
