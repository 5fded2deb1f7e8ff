"""The importer of plain attention; with caches, caps or more results it is ONNX's
own function of smaller ops."""

from __future__ import annotations

from typing import Any

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.table import Node, row


def _plain(message: Any) -> bool:
    """Whether a node takes queries, keys and values by heads, and gives y alone.

    What a query gets that sees no key is ONNX's to say, so masks are left to its
    function.
    """
    names = {a.name for a in message.attribute}
    alone = not any(message.output[1:]) and not any(message.input[3:])
    return alone and names <= {"is_causal", "scale"}


@row("Attention", reads="is_causal scale", first=23, takes=_plain)
def _attention(node: Node, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if not q.type.ndim == k.type.ndim == v.type.ndim == 4:
        raise ValueError(f"heads of {q.type}, {k.type} and {v.type}, which have 4 axes")
    groups = q.type.shape[1] // max(k.type.shape[1], 1)
    if groups > 1:  # queries of several heads share keys and values
        k, v = td.repeat(k, groups, 1), td.repeat(v, groups, 1)
    causal = bool(node.get("is_causal", 0))
    return td.attention(q, k, v, causal=causal, scale=node.get("scale"))
