"""Programs so small that the core runs them while it holds Python's lock.

Nothing can come between then: no thread, no signal handler. So nobody has to be told
of what is about to be written, and memory need be nobody's own: one program runs at a
time. How small is counted, not timed: by parts that would be worth a thread, and bytes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.options import modes
from treadle.base.types import TupleType
from treadle.core import native
from treadle.engines.native.execution.pool import Pool, pool
from treadle.engines.native.system.host import cores
from treadle.graph.claim import latest_turn

if TYPE_CHECKING:
    from treadle.engines.native.execution.linked import Linked

PARTS = 512  # of some microseconds each: less than Python lets a thread wait
STEPS = 1024
BYTES = 1 << 22  # of arena and scratch, which stay with the process
SAVED = 5_000  # ns of steps that need not run again, which are worth a look each time
PACKED = 16  # bytes of panels that are copied in a ns
# Bytes: larger results have memory that is used again, unless they replace arguments.
RESULT = 1 << 16


@cache
def workers() -> int:
    """How many threads of a pool may run a small program: each has its scratch."""
    return cores()


def small_pool() -> Pool | None:
    """The pool that small programs run on; None where they are run as any other."""
    now = modes.get().options
    threads = pool(now.threads)
    if now.arena != "fast" or now.workspace or threads.threads > workers():
        return None
    return threads


def is_brief(records: Numbers) -> bool:
    """Return True if steps take no longer than Python lets a thread wait for its lock.

    They keep it: a loop that lets go of it at every turn, and takes it again at once,
    starves the threads that wait (CPython wakes them too late, each time).
    """
    parts = records[:, 2] / np.maximum(records[:, 3], 1)
    return len(records) <= STEPS and bool(parts.sum() <= PARTS)


def small(linked: Linked) -> Any:
    """A program for the core; None where it is too large, or not one native piece."""
    model = None if linked.first is None else linked.first.model
    if model is not None and not (linked.kept.packed and awaits_panels(linked)):
        return _like(linked, model)
    interface, records = linked.interface, linked.records
    if len(linked.runs) > 1 or any(not x.records for x in linked.runs):
        return None  # without any, results lie where arguments do
    scratch = linked.scratch * workers()
    if linked.plan.size + scratch > BYTES or not is_brief(records):
        return None
    if any(interface.orders) or any(interface.laid):
        return None
    over = dict(interface.shared)
    if any(
        isinstance(t, TupleType) or (t.nbytes > RESULT and n not in over)
        for _, n, t in interface.results
    ):
        return None
    return _made(linked, scratch)


def _like(linked: Linked, model: Any) -> Any:
    """A program by one for another size, from which it differs in numbers alone; None
    where it is too large.
    """
    numbers = (
        linked.fixed,
        linked.table,
        linked.shifts,
        linked.records.reshape(-1),
        linked.plan.table,
        linked.places,
        linked.shapes,
    )
    kept = linked.functions, linked.constants, linked.controls  # addresses lead there
    sizes = linked.plan.size, linked.scratch * workers()
    return native.program_like(model, numbers, *sizes, kept, (PARTS, BYTES, RESULT))


def _made(linked: Linked, scratch: int) -> Any:
    """A program by all that the core reads of it."""
    interface = linked.interface
    over = dict(interface.shared)
    results = []
    for number, n, t in interface.results:
        argument, copy = over.get(n, -1), linked.copies.get(n, -1)
        constant = linked.constants.get(n)
        results.append((number, n, 0, argument, copy, t.shape, t.dtype, constant))
    numbers = (
        linked.fixed,
        linked.table,
        linked.slots,
        linked.which,
        linked.shifts,
        linked.records.ravel(),
        interface.arguments,
        linked.placed,
        linked.plan.table[linked.places],
    )
    as_numbers = tuple([np.array(x, np.int64) for x in numbers])
    kept = linked.functions, linked.constants, linked.controls
    sizes = linked.plan.size, scratch
    program = native.program(as_numbers, results, *sizes, kept)
    if awaits_panels(linked):
        nothing = tuple([np.zeros(0, np.int64)] * 4)
        native.keep_panels(program, nothing, (), -1, None)
        keep_panels(linked, program)
    elif linked.first is not None and all(x[-1] is None for x in results):
        linked.first.model = program
    return program


def awaits_panels(linked: Linked) -> bool:
    """Return True if a program is worth a run by the core only with the panels of its
    weights computed."""
    over = {argument for _, argument in linked.interface.shared}
    sources = {n for one in linked.kept.packed for n in one.sources}
    copied = sum(size for one in linked.kept.packed for _, size in one.places)
    time = sum(x.time for x in linked.invariants) + copied // PACKED
    return time > SAVED and over.isdisjoint(sources)


def keep_panels(linked: Linked, program: Any) -> None:
    """Give a program of the core what runs before have made of its weights."""
    turn, kept = latest_turn(), linked.kept.all
    if kept is None or not awaits_panels(linked):
        return
    *numbers, sources, arrays, panels = kept
    place = {n: k for k, n in enumerate(linked.interface.arguments)}
    every = *numbers, [place[n] for n in sources]
    as_numbers = tuple([np.array(x, np.int64) for x in every])
    native.keep_panels(program, as_numbers, arrays, turn, panels)
