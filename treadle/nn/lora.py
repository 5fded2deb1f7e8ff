"""LoRA: what is learned of a frozen layer, as a product of two thin matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import Linear, above_zero
from treadle.nn.module import Module
from treadle.ops.contract import matmul_transposed
from treadle.ops.naming import by_role

__all__ = ["LoRA", "add_lora", "merge_lora"]


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
