"""Importers of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.table import Node, row

Pads = list[tuple[int, int]]


def windows(
    node: Node, extents: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[Any, Pads, Any]:
    """Strides, padding and dilations of a node over spatial dimensions."""
    rank = len(kernel)
    if tuple(node.get("kernel_shape", kernel)) != kernel:
        raise ValueError(f"kernel_shape is not {kernel}, which the weights have")
    strides = node.get("strides", (1,) * rank)
    apart = node.get("dilations", (1,) * rank)
    pads = node.get("pads", (0,) * 2 * rank)
    word = node.get("auto_pad", "NOTSET")
    if not len(extents) == len(strides) == len(apart) == len(pads) / 2 == rank:
        raise ValueError(f"a kernel {kernel} over {len(extents)} dimensions")
    if word in ("SAME_UPPER", "SAME_LOWER"):
        cover = []
        for n, k, s, d in zip(extents, kernel, strides, apart, strict=True):
            total = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            less, more = total // 2, total - total // 2
            cover.append((less, more) if word == "SAME_UPPER" else (more, less))
        return strides, cover, apart
    if word not in ("NOTSET", "VALID", ""):
        raise ValueError(f"auto_pad is {word[:20]!r}")
    pads = (0,) * 2 * rank if word == "VALID" else pads
    return strides, list(zip(pads[:rank], pads[rank:], strict=True)), apart


# The attributes that `windows` reads, and the kernel's extents, which weights have.
WINDOWS = "auto_pad dilations pads strides kernel_shape"
_CONV = {1: td.conv1d, 2: td.conv2d, 3: td.conv3d}
_BACK = {1: td.conv_transpose1d, 2: td.conv_transpose2d, 3: td.conv_transpose3d}


@row("Conv", reads=f"{WINDOWS} group")
def convolved(node: Node, x: Tensor, w: Tensor, b: Any = None) -> Tensor:
    rank = w.type.ndim - 2
    if rank not in _CONV:
        raise ValueError(f"a convolution over {rank} dimensions")
    strides, cover, apart = windows(node, x.type.shape[2:], w.type.shape[2:])
    return _CONV[rank](x, w, b, strides, cover, apart, node.get("group", 1))


@row("ConvTranspose", reads=f"{WINDOWS} group output_padding output_shape")
def _conv_back(node: Node, x: Tensor, w: Tensor, b: Any = None) -> Tensor:
    rank = w.type.ndim - 2
    if rank not in _BACK:
        raise ValueError(f"a transposed convolution over {rank} dimensions")
    more = node.get("output_padding", (0,) * rank)
    word, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape", ())
    strides, cover, apart = windows(node, x.type.shape[2:], w.type.shape[2:])
    if word.startswith("SAME") and not wanted:
        wanted = tuple(n * s for n, s in zip(x.type.shape[2:], strides, strict=True))
    if wanted:
        parts = (x.type.shape[2:], w.type.shape[2:], strides, apart, more)
        cover, more = _covering(wanted[-rank:], parts, word == "SAME_UPPER")
    return _BACK[rank](x, w, b, strides, cover, more, node.get("group", 1), apart)


def _covering(
    wanted: tuple[int, ...], parts: Sequence[Any], upper: bool
) -> tuple[Pads, tuple[int, ...]]:
    """Padding and output padding of a transposed convolution with a given result."""
    cover, behind = [], []
    for m, n, k, s, d, more in zip(wanted, *parts, strict=True):
        total = s * (n - 1) + more + (k - 1) * d + 1 - m
        half = max(total, 0) // 2
        rest = max(total, 0) - half
        cover.append((half, rest) if upper else (rest, half))
        behind.append(more + max(-total, 0))
    return cover, tuple(behind)
