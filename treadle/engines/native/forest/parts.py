"""Bodies for n rows, compiled: programs whose arguments and results lie anywhere."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.engines.native.translate import translated
from treadle.graph.body import Body
from treadle.graph.frame import TraceFrame, pushed

__all__ = ["Compiled", "compiled"]

KEPT = 4096


class Compiled:
    """A body as steps: where its table takes addresses from.

    `arguments` are the buffers of the body's arguments, -1 for one that is not read;
    `results` those of its outputs; `copied` the outputs that lie where an argument,
    a constant or an output before lies, and are copied from there.
    """

    def __init__(self, body: Body) -> None:
        arguments = {x.serial: k for k, x in enumerate(body.arguments)}
        keep = {y.serial for y in body.outputs}
        linked, leaves, _ = translated(body.nodes, arguments, keep)
        order = [arguments[x.serial] for x in leaves]
        self.linked = linked
        program = linked.program
        self.possible = not program.fallbacks
        if not self.possible:
            return
        linked.link()
        count = len(body.arguments)
        self.arguments = np.full(count, -1, np.int64)
        for k, number in zip(order, program.arguments, strict=True):
            self.arguments[k] = number
        where = {serial: n for serial, n, _ in program.results}
        self.results = np.array([where[y.serial] for y in body.outputs], np.int64)
        places = [program.buffers[n].place for n in self.results.tolist()]
        seen: set[int] = set()
        self.copied: list[int] = []
        for k, (n, place) in enumerate(zip(self.results.tolist(), places, strict=True)):
            if place != "result" or n in seen:
                self.copied.append(k)
            seen.add(n)
        self.scratch = linked.scratch
        self.arena = linked.plan.size
        self.width = len(linked.fixed)
        self.offsets = linked.plan.table[linked.places] if len(linked.places) else None


_lock = threading.Lock()
_known: OrderedDict[Any, Compiled] = OrderedDict()


def compiled(key: Any, make: Callable[[], Body]) -> Compiled:
    """The compiled body of a key, made when it is first asked for."""
    with _lock:
        found = _known.get(key)
        if found is not None:
            _known.move_to_end(key)
            return found
    with pushed(TraceFrame("rows")):
        made = Compiled(make())
    with _lock:
        found = _known.setdefault(key, made)
        if len(_known) > KEPT:
            _known.popitem(last=False)
    return found
