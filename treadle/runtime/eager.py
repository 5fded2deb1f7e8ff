"""Values at once: `td.options(eager=True)` evaluates each node when it is built."""

from __future__ import annotations

from treadle.base.options import Options, current, on_change
from treadle.base.types import TupleType
from treadle.graph.frame import top
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.traversal import reach
from treadle.graph.variable import Update
from treadle.runtime.evaluate import run

_eager = 0  # blocks that are


def _at_once(node: Tensor) -> None:
    special = isinstance(node.type, TupleType) or isinstance(node.op, Update)
    if not current().eager or not node.inputs or special or top().tracing:
        return
    if not _waits(node):
        run([node])


def _waits(node: Tensor) -> bool:
    """Return True if a node is computed from what only a call knows: a placeholder
    without a value, an argument of a body."""
    sources = reach(node.inputs, lambda x: x.stored is not None)
    return any(x.stored is None and not x.inputs for x in sources)


def _watch(before: Options, options: Options) -> None:
    """See new nodes while a task is eager: others are slower for it."""
    global _eager
    _eager += options.eager - before.eager
    if _eager and _at_once not in watchers:
        watchers.append(_at_once)
    elif not _eager and _at_once in watchers:
        watchers.remove(_at_once)


on_change(_watch)
_watch(Options(), current())
