"""Layers whose weights are int8 with a scale for each row, or int16 in fixed point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treadle.base.dtypes import as_dtype, int8, int16
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.nn.linear import Embedding, Linear
from treadle.nn.lora import replaced
from treadle.nn.module import Module
from treadle.ops.naming import by_role
from treadle.ops.quantize import fixed_point, int8_linear, int16_linear, quantize

__all__ = [
    "FixedPointLinear",
    "QuantizedEmbedding",
    "QuantizedLinear",
    "quantize_weights",
]


def _rounded(weight: Variable) -> tuple[Variable, Variable]:
    """The weight as int8, and the scale of each row."""
    q, scale = quantize(weight.numpy())
    whole = Variable(q.numpy(), dtype=int8)
    return whole, Variable(scale.numpy()[:, 0].astype(weight.dtype), dtype=weight.dtype)


class QuantizedLinear(Module):
    """y = x (W scale)ᵀ + b with W int8, made of a Linear layer.

    A weight's error is at most half its row's scale, max|row| / 127. Nothing of it is
    trained; what is behind gets its gradient, so LoRA may stand before and after it.

    >>> layer = td.nn.Linear(3, 2)
    >>> small = td.nn.QuantizedLinear(layer)
    >>> x = td.ones((5, 3))
    >>> small.weight.dtype.name, bool((td.abs(small(x) - layer(x)) < 0.02).all())
    ('int8', True)
    """

    def __init__(self, layer: Linear) -> None:
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.weight, self.scale = _rounded(layer.weight)
        self.bias = layer.bias

    @by_role(1)
    def forward(self, x: Any) -> Tensor:
        return int8_linear(x, self.weight, self.scale, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class QuantizedEmbedding(Module):
    """Rows of an int8 table times their scales, made of an Embedding.

    >>> td.nn.QuantizedEmbedding(td.nn.Embedding(10, 3))([[1, 2]]).shape
    (1, 2, 3)
    """

    def __init__(self, layer: Embedding) -> None:
        self.rows, self.width = layer.rows, layer.width
        self.weight, self.scale = _rounded(layer.weight)

    def forward(self, ids: Any) -> Tensor:
        rows = functions.take(self.weight, as_tensor(ids), axis=0)
        scale = functions.take(self.scale, as_tensor(ids), axis=0)
        return rows.astype(self.scale.dtype) * functions.expand_dims(scale, -1)

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.width}"


class FixedPointLinear(Module):
    """y = x Wᵀ + b in fixed point with W int16, made of a Linear layer.

    Weights and inputs are whole numbers of 2^-bits (`td.int16_linear`), so a weight
    below 2^(15 - bits) is off by at most 2^-(bits + 1). Nothing of it is trained; what
    is before gets its gradient. Marian's --optimize.

    >>> layer = td.nn.Linear(3, 2)
    >>> small = td.nn.FixedPointLinear(layer)
    >>> x = td.ones((5, 3))
    >>> small.weight.dtype.name, bool((td.abs(small(x) - layer(x)) < 0.002).all())
    ('int16', True)
    """

    def __init__(self, layer: Linear, bits: int = 10) -> None:
        self.in_features, self.out_features = layer.in_features, layer.out_features
        whole = fixed_point(layer.weight.numpy(), bits)
        self.weight, self.bits = Variable(whole.numpy(), dtype=int16), bits
        self.bias = layer.bias

    @by_role(1)
    def forward(self, x: Any) -> Tensor:
        return int16_linear(x, self.weight, self.bias, self.bits)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bits={self.bits}"
        )


KINDS: dict[str, dict[type, Any]] = {
    "int8": {Linear: QuantizedLinear, Embedding: QuantizedEmbedding},
    "int16": {Linear: FixedPointLinear},
}


def quantize_weights(
    module: Module, *, only: Iterable[str] | None = None, dtype: Any = "int8"
) -> list[str]:
    """Put int8 layers in the place of Linear and Embedding layers; their paths.

    `only` chooses by the last part of a layer's path. A layer whose weight another part
    holds too, such as tied embeddings, is left as it is. With `dtype="int16"` Linear
    layers become `FixedPointLinear`.

    >>> net = td.nn.Sequential(td.nn.Embedding(9, 4), td.nn.Linear(4, 2))
    >>> td.nn.quantize_weights(net), net[1].weight.dtype.name
    (['0', '1'], 'int8')
    """
    kinds = KINDS.get(as_dtype(dtype).name)
    if kinds is None:
        raise ArgumentError(f"weights become int8 or int16, not {dtype!r}")
    chosen = None if only is None else set(only)
    holders: dict[int, set[int]] = {}
    for part in module.modules():
        weight = vars(part).get("weight")
        if isinstance(weight, Variable):
            holders.setdefault(id(weight), set()).add(id(part))

    def change(path: str, layer: Any) -> Module | None:
        named = chosen is None or path.rpartition(".")[2] in chosen
        if not named or len(holders.get(id(layer.weight), ())) != 1:
            return None
        quantized: Module = kinds[type(layer)](layer)
        return quantized.train(layer.training)

    paths: list[str] = []
    for kind in kinds:
        paths += replaced(module, kind, change)
    if not paths:
        raise ArgumentError(
            f"no layer of this {type(module).__name__} is chosen",
            hint=f"{' and '.join(kind.__name__ for kind in kinds)} layers are; only= "
            "names the last part of paths",
        )
    order = [path for path, _ in module.named_modules()]
    return sorted(paths, key=order.index)
