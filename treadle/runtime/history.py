"""What evaluated nodes keep for derivatives to come, within bounds."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

from treadle.autodiff.derivative import needed
from treadle.autodiff.tape import SPENT, Row
from treadle.graph.leaves import cut_of
from treadle.graph.tensor import Tensor, cut, settle
from treadle.graph.variable import Update

__all__ = ["forget", "keep_inside", "keep_residual", "remember", "trim"]

HISTORY_NODES = 4096
HISTORY_BYTES = 256 << 20
RESIDUAL_BYTES = 256 << 20


class _History(threading.local):
    """The evaluated nodes of a thread that still have their recipe, oldest first."""

    def __init__(self) -> None:
        self.nodes: deque[tuple[weakref.ref[Tensor], int]] = deque()
        self.bytes = 0
        # Nodes with values kept for gradients alone, which may go at any time: their
        # bytes, and whether they are what a call has computed inside.
        self.residuals: deque[tuple[weakref.ref[Tensor], int, bool]] = deque()
        self.residual_bytes = 0


_history = _History()


def remember(node: Tensor, carried: bool) -> None:
    """Keep the recipe of an evaluated node for derivatives, within bounds."""
    if not node.inputs or isinstance(node.op, Update):
        return
    if node.mark is not None and "no_grad" in node.mark:
        cut(node, cut_of(node.op.name, False))
        return
    node.mark = {**(node.mark or {}), "carried": carried}
    _history.nodes.append((weakref.ref(node), node.type.nbytes))
    _history.bytes += node.type.nbytes


def keep_residual(node: Tensor, value: Any, carried: bool) -> None:
    """Give a node its value for a gradient to come; the oldest of these are dropped."""
    if node.mark is not None and "no_grad" in node.mark:
        return
    settle(node, value)
    node.mark = {**(node.mark or {}), "carried": carried}
    _note(node, node.type.nbytes, False)


def keep_inside(call: Tensor, arrays: Mapping[int, Any]) -> None:
    """Note what a call has computed inside for a gradient to come."""
    if call.mark is not None and "no_grad" in call.mark:
        return
    call.mark = {**(call.mark or {}), "inside": arrays}
    _note(call, sum(x.nbytes for x in arrays.values()), True)


def _note(node: Tensor, size: int, inside: bool) -> None:
    _history.residuals.append((weakref.ref(node), size, inside))
    _history.residual_bytes += size
    while _history.residual_bytes > RESIDUAL_BYTES:
        reference, size, inside = _history.residuals.popleft()
        _history.residual_bytes -= size
        old = reference()
        if old is None or not old.inputs:
            continue
        if inside and old.mark:
            old.mark = {k: v for k, v in old.mark.items() if k != "inside"}
        elif not inside:  # it is computed again if it is asked for
            old.stored = None


def trim() -> None:
    nodes = _history.nodes
    if len(nodes) <= HISTORY_NODES and _history.bytes <= HISTORY_BYTES:
        return
    kept, spared = needed(), []
    while nodes and (len(nodes) > HISTORY_NODES or _history.bytes > HISTORY_BYTES):
        reference, size = nodes.popleft()
        node = reference()
        if node is not None and node.serial in kept:
            spared.append((reference, size))
            continue
        _history.bytes -= size
        if node is not None:
            forget(node)
    nodes.extendleft(reversed(spared))


def forget(node: Tensor) -> None:
    """Cut an evaluated node: its value stays, its recipe goes."""
    if type(node.op) is Row:
        cut(node, SPENT if node.op.tape is not None else cut_of("row", False))
    elif node.inputs and node.stored is not None:
        carried = bool(node.mark and node.mark.get("carried"))
        cut(node, cut_of(node.op.name, carried))
