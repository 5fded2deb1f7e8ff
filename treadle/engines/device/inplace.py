"""Which new versions of Variables are written where the old ones lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from treadle.engines.device.memory import DeviceValue
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import users
from treadle.graph.variable import Update
from treadle.ops.families import Elementwise

__all__ = ["in_place"]


def in_place(
    nodes: Sequence[Tensor], values: Mapping[int, Any], keep: Set[int], spent: Set[int]
) -> tuple[list[Tensor], dict[int, DeviceValue]]:
    """The nodes in the order to run them, and the cells some of them may overwrite.

    Such a node makes the next version of a Variable and is read by nothing else. It
    comes last, after all that can fail and all that reads the old version, and it is
    element-wise: with its cells at hand it cannot fail.
    """
    readers = users(nodes)
    chosen: dict[int, Tensor] = {}
    for update in nodes:
        if not isinstance(update.op, Update) or update.serial in values:
            continue
        old, new = update.inputs
        alone = len(readers[new.serial]) == 1 and update.serial not in readers
        ready = isinstance(new.op, Elementwise) and new.serial not in values
        mine = isinstance(old.stored, DeviceValue) and old.serial in spent
        if mine and alone and ready and new.serial not in keep:
            chosen[new.serial] = update
    into: dict[int, DeviceValue] = {}
    for serial, update in chosen.items():
        old = update.inputs[0]
        others = {r.serial for r in readers[old.serial]} - {serial, update.serial}
        if not others & chosen.keys():
            into[serial] = values[old.serial]
    late = set(into) | {chosen[s].serial for s in into}
    early = [node for node in nodes if node.serial not in late]
    return early + [node for node in nodes if node.serial in late], into
