"""Output layers over many words that compute the logits of a few."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError, TraceError
from treadle.graph.frame import top
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Update, Variable
from treadle.nn.linear import Linear, above_zero
from treadle.nn.module import Module
from treadle.ops.contract import matmul
from treadle.ops.lookup import embedding
from treadle.ops.movement import reshape
from treadle.ops.nearest import WORD, nearest_codes, sign_codes
from treadle.ops.pick import PutAlong
from treadle.ops.rearrange import expand_dims, squeeze
from treadle.ops.select import where

__all__ = ["ApproximateOutput", "CodeIndex"]


_BLOCK = 1 << 22  # numbers that are turned at a time


class _Codes(Variable):
    """The codes of a matrix's rows, which are made again when the matrix is another.

    What is committed of it is looked at by whoever reads it, at each call of a traced
    function too; a version is known by its serial number.
    """

    __slots__ = ("index", "leaf", "made_of")

    def __init__(self, index: CodeIndex) -> None:
        self.index, self.made_of = index, -1
        super().__init__(np.zeros((index.words, index.count), np.uint64))

    @property
    def committed(self) -> Tensor:
        weight = self.index.weight
        source = weight.committed if top().tracing else top().read(weight)
        if source.serial != self.made_of:
            if source.array is None:  # assigned, and not computed yet
                turned = self.index.turned(source)
                self.leaf = functions.permute_dims(sign_codes(turned), (1, 0))
            else:
                codes = self.index.encoded(source.array)
                codes.flags.writeable = False
                self.leaf = Tensor(self.version, (), self._type, codes)
            self.made_of = source.serial
        return self.leaf

    @committed.setter
    def committed(self, node: Tensor) -> None:
        self.leaf = node

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        return copy.deepcopy(self.index, memo).codes


class CodeIndex:
    """The rows of a weight (n, width) as codes of signs, to find those near a vector.

    Rows and vectors are turned by one random matrix with orthonormal rows or columns
    (none if `bits` is the width), and of each of the `bits` coordinates the sign is
    kept: the more of them differ, the larger the angle. Codes are made again at the
    first use after the weight has changed. Charikar 2002; Ji et al., Super-bit
    locality-sensitive hashing, 2012.

    >>> import numpy as np, treadle as td
    >>> w = td.Variable(np.eye(4, 16))
    >>> index = td.nn.CodeIndex(w, bits=64)
    >>> index.nearest(w[2], 1).tolist()
    [2]
    """

    def __init__(self, weight: Variable, bits: int, seed: int = 5) -> None:
        above_zero(bits=bits)
        if len(weight.shape) != 2:
            raise ArgumentError(f"rows are those of a matrix, not {weight.shape}")
        self.weight, self.bits, self.seed = weight, bits, seed
        (self.count, self.width), self.words = weight.shape, -(-bits // WORD)
        dtype = weight.dtype if weight.dtype.itemsize > 2 else np.dtype(np.float32)
        rotation = _rotation(self.width, bits, seed)
        self.rotation = None if rotation is None else rotation.astype(dtype)
        self.codes = _Codes(self)

    def nearest(self, x: Any, k: int) -> Tensor:
        """The `k` rows nearest to vectors [..., width] by their codes, rising."""
        node = as_tensor(x)
        if top().tracing and isinstance(top().read(self.weight).op, Update):
            raise TraceError(
                f"{self.weight.name!r} is assigned in this trace, its codes are of "
                "before",
                hint="search in another function than the one that assigns it",
            ).located("nearest", repr(node.type), node.line)
        return nearest_codes(self.codes, sign_codes(self.turned(node)), k)

    def turned(self, x: Tensor) -> Tensor:
        """Vectors in the coordinates whose signs are their codes."""
        if self.rotation is None:
            return x
        return matmul(x.astype(self.rotation.dtype), self.rotation)

    def __deepcopy__(self, memo: dict[int, Any]) -> CodeIndex:
        index = CodeIndex(copy.deepcopy(self.weight, memo), self.bits, self.seed)
        memo[id(self)] = index
        return index

    def encoded(self, rows: Array) -> Array:
        """The codes (words, n) of rows, as `sign_codes` makes those of vectors."""
        codes = np.zeros((len(rows), self.words * (WORD // 8)), np.uint8)
        size = max(_BLOCK // max(self.bits, self.width), 1)
        for k in range(0, len(rows), size):
            part = rows[k : k + size]
            if self.rotation is not None:
                part = part.astype(self.rotation.dtype, copy=False) @ self.rotation
            packed = np.packbits(part >= 0, axis=1, bitorder="little")
            codes[k : k + size, : packed.shape[1]] = packed
        return np.ascontiguousarray(codes.view("<u8").T).astype(np.uint64, copy=False)


def _rotation(width: int, bits: int, seed: int) -> Array | None:
    """A random (width, bits) whose columns are orthonormal, in blocks of `width`."""
    if bits == width:
        return None
    rng = np.random.default_rng(seed)
    blocks = []
    for _ in range(math.ceil(bits / width)):
        q, r = np.linalg.qr(rng.normal(size=(width, width)))
        blocks.append(q * np.sign(np.diag(r)))
    return np.concatenate(blocks, 1)[:, :bits]


class ApproximateOutput(Module):
    """A Linear layer over many words that computes the logits of `k` of them alone.

    These are the rows nearest to the input by codes of `bits` bits (`CodeIndex`); the
    others get -inf, so log_softmax, greedy and beam search go on as with all. It is for
    generating: what is computed is exact, but the greatest logit may be missed. Codes
    say nothing of the bias and of how long rows are. `candidates` gives the k numbers
    without the others. The codes follow the layer's weight and are in no state.
    Marian's --output-approx-knn k bits.

    >>> output = td.nn.ApproximateOutput(td.nn.Linear(8, 100), k=20, bits=64)
    >>> logits = output(td.ones((2, 8)))
    >>> logits.shape, (logits > -float("inf")).sum(-1).tolist()
    ((2, 100), [20, 20])
    """

    def __init__(self, layer: Linear, k: int = 100, bits: int = 1024) -> None:
        above_zero(k=k, bits=bits)
        if not isinstance(layer, Linear):
            raise ArgumentError(
                f"takes a Linear layer, not {type(layer).__name__}",
                hint="make other layers of a network's Linear ones afterwards",
            )
        self.layer, self.k = layer, min(k, layer.out_features)
        self._index = CodeIndex(layer.weight, bits)

    def candidates(self, x: Any) -> tuple[Tensor, Tensor]:
        """(ids, logits) of the k words found for inputs [..., width], ids rising."""
        node = as_tensor(x)
        ids = self.index.nearest(node, self.k)
        rows = embedding(self.layer.weight, ids)
        logits = squeeze(matmul(rows, expand_dims(node, -1)), -1)
        if self.layer.bias is not None:
            logits = logits + embedding(self.layer.bias, ids)
        return ids, logits

    @property
    def index(self) -> CodeIndex:
        """The codes of the weight that the layer has now."""
        if self._index.weight is not self.layer.weight:
            self._index = CodeIndex(self.layer.weight, self._index.bits)
        return self._index

    def forward(self, x: Any) -> Tensor:
        ids, logits = self.candidates(x)
        lead, n = logits.shape[:-1], self.layer.out_features
        flat, places = reshape(logits, (-1, self.k)), reshape(ids, (-1, self.k))
        put = PutAlong(1, n)
        known = put(constant_node(np.ones(flat.shape, bool)), places)
        full = where(known, put(flat, places), -math.inf)
        return reshape(full, (*lead, n))

    def extra_repr(self) -> str:
        return f"k={self.k}, bits={self._index.bits}"
