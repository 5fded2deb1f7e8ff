"""In-place updates: new versions of Variables written where the old ones are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from treadle.engines.device.memory import DeviceValue
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, users
from treadle.ops.families import Elementwise
from treadle.rewrite.expand import Expanded


def in_place(
    graph: Expanded, spent: Set[int]
) -> tuple[list[Tensor], dict[int, DeviceValue]]:
    """The nodes in the order to run them, and the cells some of them may overwrite.

    Such a node makes the next version of a Variable and is read by nothing else. It
    comes last, after all that can fail and all that reads the old version, and it is
    element-wise: with its cells at hand it cannot fail.
    """
    nodes = reach(graph.roots.values())
    readers = users(nodes)
    asked = Counter(root.serial for root in graph.roots.values())
    chosen: dict[int, tuple[Tensor, DeviceValue]] = {}
    for serial, old in graph.replaced.items():
        new, leaf = graph.roots[serial], graph.leaf(old)
        cells = leaf.stored if leaf.serial in spent else None
        alone = asked[new.serial] == 1 and new.serial not in readers
        if isinstance(cells, DeviceValue) and alone and isinstance(new.op, Elementwise):
            chosen[new.serial] = old, cells
    into: dict[int, DeviceValue] = {}
    for serial, (old, cells) in chosen.items():
        others = {r.serial for r in readers.get(old.serial, ())} - {serial}
        if not others & chosen.keys() and not asked[old.serial]:
            into[serial] = cells
    early = [node for node in nodes if node.serial not in into]
    return early + [node for node in nodes if node.serial in into], into
