"""Layers in place of others: of int8, of int16 in fixed point, and LoRA."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from treadle.base.dtypes import as_dtype, int8, int16
from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Variable
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Embedding, Linear, above_zero
from treadle.nn.module import Module
from treadle.ops.contract import matmul_transposed
from treadle.ops.naming import by_role
from treadle.ops.quantize import fixed_point, int8_linear, int16_linear, quantize

__all__ = [
    "FixedPointLinear",
    "LoRA",
    "QuantizedEmbedding",
    "QuantizedLinear",
    "add_lora",
    "merge_lora",
    "quantize_weights",
]


class LoRA(Module):
    """y = layer(x) + (alpha / rank) B A x, where the layer is frozen.

    A of (rank, in) is drawn as a Linear's weight, B of (out, rank) starts at zero, so
    that at first nothing changes; `alpha` is `rank` unless given. In training the input
    of A is dropped out with probability `dropout`. `merged()` is one Linear with the
    sum. The layer may be made int8 afterwards, by `nn.quantize_weights`. Hu et
    al., LoRA: low-rank adaptation of large language models, 2022.

    >>> layer = td.nn.LoRA(td.nn.Linear(3, 4), rank=2)
    >>> [name for name, p in layer.named_parameters() if p.trainable]
    ['lora_a', 'lora_b']
    """

    def __init__(
        self,
        layer: Linear,
        rank: int = 8,
        alpha: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        above_zero(rank=rank)
        if not isinstance(getattr(layer, "weight", None), Parameter):
            raise ArgumentError(
                f"LoRA is beside a Linear with a weight, not {type(layer).__name__}",
                hint='choose others of the network: add_lora(net, only=["q_proj"])',
            )
        self.layer, self.rank, self.dropout = layer, rank, dropout
        self.scale = (rank if alpha is None else alpha) / rank
        layer.trainable = False
        rows, columns = layer.weight.shape
        dtype = layer.weight.dtype
        drawn = init.kaiming_uniform(a=5**0.5)
        self.lora_a = param(shape=(rank, columns), init=drawn, dtype=dtype)
        self.lora_b = param(shape=(rows, rank), dtype=dtype)

    @by_role(1)
    def forward(self, x: Any) -> Tensor:
        thin = matmul_transposed(F.dropout(x, self.dropout, self.training), self.lora_a)
        return self.layer(x) + matmul_transposed(thin, self.lora_b) * self.scale

    def merged(self) -> Linear:
        """The layer with what was learned added to its weight; it is trainable."""
        weight, layer = self.layer.weight, self.layer
        if not isinstance(weight, Parameter):
            raise ArgumentError(
                f"{type(layer).__name__} has no float weight to add to",
                hint="merge before td.nn.quantize_weights",
            )
        wide = self.lora_b.numpy().astype(np.float64) @ self.lora_a.numpy().astype(
            np.float64
        )
        sum_ = weight.numpy().astype(np.float64) + self.scale * wide
        weight.assign(sum_.astype(weight.dtype))
        layer.trainable = True
        return layer.requires_grad_()

    def extra_repr(self) -> str:
        return f"rank={self.rank}, scale={self.scale:g}"


def replaced(
    module: Module, kind: type, change: Callable[[str, Any], Module | None]
) -> list[str]:
    """Put what `change(path, part)` gives in the place of parts of a kind; their paths.

    A part that several hold is changed once. Parts of what is put in are left alone.
    """
    replacements: dict[int, tuple[Any, Module]] = {}
    paths, owners = [], list(module.named_modules())
    for path, owner in owners:
        if id(owner) in {id(part) for _, part in replacements.values()}:
            continue
        for name, part in list(owner.named_children()):
            if not isinstance(part, kind) or any(
                part is x for _, x in replacements.values()
            ):
                continue
            full = f"{path}.{name}" if path else name
            if id(part) in replacements:
                _put(owner, name, replacements[id(part)][1])
                continue
            new = change(full, part)
            if new is not None:
                replacements[id(part)] = part, new
                _put(owner, name, new)
                paths.append(full)
    order = {path: k for k, (path, _) in enumerate(owners)}
    return sorted(paths, key=order.__getitem__)


def _put(owner: Module, name: str, part: Module) -> None:
    """Assign a part that may stand in a list or a dict of the owner."""
    first, *rest = name.split(".")
    if not rest:
        setattr(owner, first, part)
        return
    container: Any = getattr(owner, first)
    for key in rest[:-1]:
        container = container[key if isinstance(container, dict) else int(key)]
    container[rest[-1] if isinstance(container, dict) else int(rest[-1])] = part


def add_lora(
    module: Module,
    rank: int = 8,
    alpha: float | None = None,
    dropout: float = 0.0,
    *,
    only: Iterable[str] | None = None,
) -> list[str]:
    """Freeze a network, and add LoRA to its Linear layers; the paths of these.

    `only` chooses by the last part of a layer's path: ["q_proj", "v_proj"].

    >>> net = td.nn.TransformerEncoderLayer(8, 2, 16)
    >>> td.nn.add_lora(net, rank=2, only=["q_proj", "v_proj"])
    ['self_attn.q_proj', 'self_attn.v_proj']
    >>> sum(p.numpy().size for p in net.parameters() if p.trainable)
    64
    """
    chosen = None if only is None else set(only)
    module.requires_grad_(False)
    paths = replaced(
        module,
        Linear,
        lambda path, layer: (
            LoRA(layer, rank, alpha, dropout)
            if chosen is None or path.rpartition(".")[2] in chosen
            else None
        ),
    )
    if not paths:
        names = sorted(
            {k.rpartition(".")[2] for k, m in module.named_modules()
             if isinstance(m, Linear)}
        )  # fmt: skip
        raise ArgumentError(
            f"no Linear layer of this {type(module).__name__} is chosen",
            hint=f"only= names some of: {', '.join(names)}",
        )
    return paths


def merge_lora(module: Module) -> list[str]:
    """Put merged Linear layers in the place of all LoRA; the paths of these.

    >>> net = td.nn.Sequential(td.nn.Linear(3, 4))
    >>> td.nn.add_lora(net), td.nn.merge_lora(net), type(net[0]).__name__
    (['0'], ['0'], 'Linear')
    """
    return replaced(module, LoRA, lambda path, part: part.merged())


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
