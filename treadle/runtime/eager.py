"""Values at once: `td.options(eager=True)` evaluates each node when it is built."""

from __future__ import annotations

import threading

from treadle.base.options import Options, current, on_change
from treadle.base.types import TupleType
from treadle.graph.frame import top
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.variable import Update
from treadle.runtime.evaluate import run

_threads: set[int] = set()  # those that are eager
_all = current().eager  # as the environment asks for


def _at_once(node: Tensor) -> None:
    special = isinstance(node.type, TupleType) or isinstance(node.op, Update)
    if not current().eager or not node.inputs or special or top().tracing:
        return
    if not _waits(node):
        run([node])


def _waits(node: Tensor) -> bool:
    """Whether a node is computed from what only a call knows: a placeholder without a
    value, an argument of a body."""
    seen: set[int] = set()
    stack = [x for x in node.inputs if x.stored is None]
    while stack:
        x = stack.pop()
        if not x.inputs:
            return True
        if x.serial not in seen:
            seen.add(x.serial)
            stack += [y for y in x.inputs if y.stored is None]
    return False


def _watch(options: Options) -> None:
    """See new nodes while a thread is eager: others are slower for it."""
    if options.eager:
        _threads.add(threading.get_ident())
    else:
        _threads.discard(threading.get_ident())
    if (_threads or _all) and _at_once not in watchers:
        watchers.append(_at_once)
    elif not (_threads or _all) and _at_once in watchers:
        watchers.remove(_at_once)


on_change(_watch)
_watch(current())
