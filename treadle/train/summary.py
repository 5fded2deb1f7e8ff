"""A network as a table of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

from treadle.base import trees
from treadle.base.notebook import table
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable
from treadle.nn.module import Module


class Summary(str):
    """The table as text, which notebooks show as a table."""

    rows: Sequence[Sequence[str]]  # the first is the head

    def __new__(cls, text: str, rows: Sequence[Sequence[str]]) -> Self:
        summary = super().__new__(cls, text)
        summary.rows = rows
        return summary

    def __reduce__(self) -> Any:
        return Summary, (str(self), self.rows)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        caption = self.splitlines()[-1]
        return table(self.rows[1:], self.rows[0], right=[3], caption=caption)


def summary(module: Module, result: Any = None) -> Summary:
    """The parts that have none themselves, their parameters, and the shapes they make
    in the graph of `result`."""
    shapes = _shapes(result)
    rows = [("part", "kind", "result", "parameters")]
    for path, part in module.named_modules():
        direct = [v for v in vars(part).values() if isinstance(v, Variable)]
        leaf = not any(True for _ in part.children())
        if not leaf and not direct:
            continue
        count = sum(math.prod(p.shape) for p in part.parameters()) if leaf else (
            sum(math.prod(p.shape) for p in direct)
        )  # fmt: skip
        shape = shapes.get(path or type(part).__name__, "")
        rows.append((path or "-", type(part).__name__, shape, f"{count:,}"))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    lines = []
    for row in rows:
        left = "  ".join(
            text.ljust(w) for text, w in zip(row[:3], widths, strict=False)
        )
        lines.append(f"{left}  {row[3].rjust(widths[3])}")
    all_of = list(module.parameters())
    total = sum(math.prod(p.shape) for p in all_of)
    trained = sum(math.prod(p.shape) for p in all_of if p.trainable)
    lines.append(f"{total:,} parameters, {trained:,} trainable")
    return Summary("\n".join(lines), rows)


def _shapes(result: Any) -> dict[str, str]:
    """The shape of the last node that each part made, by its path."""
    if result is None:
        return {}
    roots = [x for x in trees.flatten(result)[0] if isinstance(x, Tensor)]
    shapes: dict[str, str] = {}
    for node in reach(roots):
        path = (node.metadata or {}).get("module")
        if path is not None and node.type.dtype is not None:
            shapes[path] = str(list(node.type.shape))
    return shapes
