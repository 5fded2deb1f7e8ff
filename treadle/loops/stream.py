"""Streaming of arrays that no cache holds: non-temporal stores and prefetch.

Results are written past the caches. A row that later passes read back waits in memory
that each worker has of its own. What is to come is fetched ahead: a processor foresees
no load in the next page of memory, nor one of the next row while it passes over a row
that is in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.base.symbolic import at_least
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Fetch,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Statement,
    Store,
    expressions,
    statements,
)
from treadle.loops.rewriting import rewritten

STREAM = 1 << 25  # bytes of a buffer that no cache holds
ROW = 1 << 14  # bytes of a row that the nearest one does, beside others
AHEAD = 1 << 12  # bytes to fetch ahead at least
LINE = 64
ROWS = ("parallel", "ordered")  # loops over them


def streaming(kernel: Kernel, nodes: Sequence[Tensor]) -> Kernel:
    """A scheduled kernel on the buffers of `nodes`, as it is to use memory.

    Buffers that workers have of their own come after those.
    """
    large = {k for k, n in enumerate(nodes) if at_least(n.type.nbytes, STREAM, 1)}
    if not large:
        return kernel
    for k in sorted(large):
        kernel = _waiting(kernel, k)
    read = {e.buffer for e in kernel.expressions if isinstance(e, Load)}
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    read |= {s.buffer for s in stores if s.combine is not None}
    arguments = tuple(
        replace(a, streamed=a.written and k in large and k not in read)
        for k, a in enumerate(kernel.arguments)
    )
    return _fetching(replace(kernel, arguments=arguments), large)


def _rows(kernel: Kernel) -> tuple[list[LoopAxis], tuple[Statement, ...]]:
    """The loops over the rows of a kernel, and what is done with each row."""
    axes, body = [], kernel.body
    while body and isinstance(body[-1], Loop) and body[-1].kind in ROWS:
        axes.append(body[-1].axis)
        body = body[-1].body
    return axes, body


def _with_rows(kernel: Kernel, body: tuple[Statement, ...]) -> Kernel:
    """The kernel with something else done with each row."""

    def around(old: tuple[Statement, ...]) -> tuple[Statement, ...]:
        if old and isinstance(old[-1], Loop) and old[-1].kind in ROWS:
            return (*old[:-1], replace(old[-1], body=around(old[-1].body)))
        return body

    return kernel.with_body(around(kernel.body))


def _in_row(i: Index, rows: Sequence[LoopAxis]) -> Index:
    """The place of an element in its row, the first one of loops at 0."""
    return Index(tuple((atom, c) for atom, c in i.terms if atom not in rows))


def _bytes(i: Index, rows: Sequence[LoopAxis], size: int) -> int:
    """The bytes of a row, in whole lines; 0 where it runs backwards."""
    low, high = _in_row(i, rows).bounds()
    return 0 if low else -(-(high + 1) * size // LINE) * LINE


# -- rows that wait ------------------------------------------------------------------


def _waiting(kernel: Kernel, buffer: int) -> Kernel:
    """The kernel with rows of a buffer in a worker's memory until their last store."""
    rows, body = _rows(kernel)
    place = _only_place(body, rows, buffer)
    dtype = kernel.arguments[buffer].dtype
    size = 0 if place is None else _bytes(place, rows, dtype.itemsize)
    if place is None or not 0 < size <= ROW:
        return kernel
    there, number = _in_row(place, rows), len(kernel.arguments)

    def load(x: Load) -> Load:
        return Load(number, there, dtype) if x.buffer == buffer else x

    body = rewritten(body, lambda i: i, load=load)
    order = list(statements(body))
    last = max(k for k, s in enumerate(order) if _stores(s, buffer))
    later = any(_reads(s, number) for s in order[last + 1 :])

    def stored(s: Statement) -> tuple[Statement, ...]:
        if isinstance(s, Loop):
            return (replace(s, body=tuple(t for x in s.body for t in stored(x))),)
        if not isinstance(s, Store) or s.buffer != buffer:
            return (s,)
        wait = Store(number, there, s.value)
        if s is not order[last]:
            return (wait,)
        return (s, wait) if later else (s,)

    scratch = KernelArgument(dtype, True, size // dtype.itemsize)
    kernel = replace(kernel, arguments=(*kernel.arguments, scratch))
    return _with_rows(kernel, tuple(t for s in body for t in stored(s)))


def _only_place(
    body: tuple[Statement, ...], rows: Sequence[LoopAxis], buffer: int
) -> Index | None:
    """The place at which a buffer is both stored and loaded, once in each step."""
    stores = [s for s in statements(body) if isinstance(s, Store)]
    stores_there = [s for s in stores if s.buffer == buffer]
    loads = [x for x in expressions(body) if isinstance(x, Load) and x.buffer == buffer]
    places = {s.index for s in stores_there} | {x.index for x in loads}
    bare = not any(x.guards for x in loads)
    bare = bare and not any(s.guards or s.combine for s in stores_there)
    if not rows or not stores_there or not loads or len(places) != 1 or not bare:
        return None
    (place,) = places
    plain = all(isinstance(atom, LoopAxis) for atom, _ in place.terms)
    inner = set(_in_row(place, rows).axes())
    return place if plain and _around(body, buffer, ()) <= {frozenset(inner)} else None


def _around(
    body: Sequence[Statement], buffer: int, axes: tuple[LoopAxis, ...]
) -> set[frozenset[LoopAxis]]:
    """The loops around each statement that uses a buffer."""
    nests = set()
    for s in body:
        if isinstance(s, Loop):
            nests |= _around(s.body, buffer, (*axes, s.axis))
        elif _reads(s, buffer) or _stores(s, buffer):
            nests.add(frozenset(axes))
    return nests


def _stores(s: Statement, buffer: int) -> bool:
    return isinstance(s, Store) and s.buffer == buffer


def _reads(s: Statement, buffer: int) -> bool:
    if isinstance(s, (Loop, Fetch)):
        return False
    return any(isinstance(x, Load) and x.buffer == buffer for x in expressions((s,)))


# -- rows to come --------------------------------------------------------------------


def _fetching(kernel: Kernel, large: set[int]) -> Kernel:
    """The kernel fetching each row while it passes over another, or over this one.

    The pass that needs it first finds it then; which other pass fetches, if there is
    one, is chosen so that all of them have their share.
    """
    rows, body = _rows(kernel)
    passes = [k for k, s in enumerate(body) if isinstance(s, Loop)]
    if not rows and len(body) == len(passes) == 1:
        return kernel.with_body((_run_ahead(body[0], kernel, large),))
    if not rows:
        return kernel
    fetches: dict[int, list[Fetch]] = {k: [] for k in passes}
    known: set[int] = set()
    for at, k in enumerate(passes):
        for x in expressions((body[k],)):
            if not isinstance(x, Load) or x.buffer in known or x.buffer not in large:
                continue
            known.add(x.buffer)
            if kernel.arguments[x.buffer].written or not _is_run(x, rows, body[k]):
                continue
            every = [*passes[at + 1 :], *passes[:at]]
            inner = set(x.index.axes()).difference(rows)
            others = [p for p in every if inner <= _axes(body[p])] or [k]
            chosen = min(others, key=lambda p: len(fetches[p]))
            count = 0
            if chosen >= k:
                size = _bytes(x.index, rows, x.dtype.itemsize)
                count = max(1, AHEAD // size)
            shift = x.index.coefficient(rows[-1]) * count
            fetches[chosen].append(Fetch(x.buffer, x.index + shift))
    begun = tuple(_begun(s, fetches.get(k, ()), rows) for k, s in enumerate(body))
    return _with_rows(kernel, begun)


def _axes(within: Statement) -> set[LoopAxis]:
    return {s.axis for s in statements((within,)) if isinstance(s, Loop)}


def _run_ahead(s: Statement, kernel: Kernel, large: set[int]) -> Statement:
    """A loop that runs through memory once, fetching what it will load."""
    if (
        not isinstance(s, Loop)
        or not s.lanes
        or any(isinstance(x, Loop) for x in s.body)
    ):
        return s
    fetches: dict[int, Fetch] = {}
    for x in expressions((s,)):
        if isinstance(x, Load) and x.buffer in large and not x.guards:
            plain = all(isinstance(atom, LoopAxis) for atom, _ in x.index.terms)
            if plain and x.index.coefficient(s.axis) == 1:
                shift = AHEAD // x.dtype.itemsize
                fetches.setdefault(x.buffer, Fetch(x.buffer, x.index + shift))
    return _begun(s, tuple(fetches.values()), ())


def _is_run(x: Load, rows: Sequence[LoopAxis], within: Statement) -> bool:
    """Whether a pass loads short rows one after another, in vectors."""
    lanes = [s.axis for s in statements((within,)) if isinstance(s, Loop) and s.lanes]
    plain = (
        all(isinstance(atom, LoopAxis) for atom, _ in x.index.terms) and not x.guards
    )
    if not plain or not lanes or x.index.coefficient(lanes[0]) != 1:
        return False
    size = _bytes(x.index, rows, x.dtype.itemsize)
    return 0 < size <= ROW and x.index.coefficient(rows[-1]) != 0


def _begun(s: Statement, first: Sequence[Fetch], rows: Sequence[LoopAxis]) -> Statement:
    """A loop with more to fetch at the beginning of each innermost step, or as far
    inside as all axes are known; what no loop knows all axes of is left out.
    """
    if not first or not isinstance(s, Loop):
        return s
    around = [*rows, s.axis]
    if len(s.body) == 1 and isinstance(s.body[0], Loop):
        return replace(s, body=(_begun(s.body[0], first, around),))
    here = [f for f in first if set(f.index.axes()) <= set(around)]
    left = [f for f in first if f not in here]
    body = []
    for t in s.body:
        inner = {*around, *_axes(t)}
        ready = [f for f in left if set(f.index.axes()) <= inner]
        left = [f for f in left if f not in ready]
        body.append(_begun(t, ready, around))
    return replace(s, body=(*here, *body))
