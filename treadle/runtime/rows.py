"""Irregular graphs: what can run as rows runs at once, and leaves a tape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from treadle.autodiff.tape import Row, TapeGradient
from treadle.base.arrays import Numbers, indices_of
from treadle.base.caches import Cache
from treadle.base.options import current, modes
from treadle.batch.columns import Columns, columns
from treadle.batch.forest import OFTEN, Forest
from treadle.batch.reroll import Stacks, reroll
from treadle.batch.units import collect
from treadle.batch.walk import Walk
from treadle.engines.base import Failed, engine
from treadle.graph.extents import family
from treadle.graph.frame import top
from treadle.graph.leaves import Version
from treadle.graph.look import MOST, Look, is_grown, look
from treadle.graph.numbers import number, number_of
from treadle.graph.op import Op
from treadle.graph.operators import provide
from treadle.graph.resident import soon
from treadle.graph.tensor import Tensor, forget, settle
from treadle.graph.traversal import NEWEST, pending
from treadle.graph.variable import Update
from treadle.ops.join import Concat
from treadle.runtime.again import Plans
from treadle.runtime.around import settings
from treadle.runtime.forests import (
    FEW,
    Exits,
    Reads,
    Rows,
    counts,
    leave_rows,
    running_rows,
    tape_for,
)
from treadle.runtime.irregular import irregular
from treadle.runtime.recorder import recorder

__all__ = ["costs", "counts", "rerolled", "run_as_rows"]

JOINED = 4  # rows joined one after the other that are read together
LARGE = 1 << 15  # bytes: of such values each is work enough for a kernel of its own
DECLINED = 256  # graphs that do not pay, which are known again
SAME = 8  # of them that have as many nodes
_plans = Plans()  # of the rows of what is derived before it is asked for


# By the number of nodes and all else that decides, how they look: once one is declined
# others of that size are looked at, which large graphs that never come again are not.
_declined: Cache[Any, tuple[Any, ...]] = Cache("graphs that are no rows", DECLINED)


@provide
def run_as_rows(
    roots: Sequence[Tensor],
    asked: Container[int] = (),
    once: bool = False,
    floor: int = NEWEST,
    looked: bool = False,
) -> bool:
    """Run what of these roots can run as rows, if that pays; whether something ran.

    `asked` has the serials of nodes that a derivative is taken by; `once` tells that
    none is taken later on, by data or a second time, which a batched run cannot give.
    What somebody has looked at before it is derived, by what is no older than a
    `floor`, is rows as if nobody had. A request may have `looked` for a plan of them
    and for loops written out, in vain.
    """
    if not _may_be_rows():
        return False
    with running_rows:
        return _run_as_rows(roots, asked, once, floor, looked)


def _behind_values(roots: Sequence[Tensor], floor: int) -> tuple[Columns, bool]:
    """The columns of nodes behind values that a derivative goes on behind, but of those
    that are few of a kind; and whether there are any behind values."""
    ends: frozenset[int] = frozenset()
    while True:
        table = columns(roots, floor, ends)
        known = indices_of(table.waiting & (table.values != 0))
        if not len(known):
            return table, False
        codes = table.types * table.count + table.kinds
        ordered = np.sort(codes[table.waiting])
        first, last = (ordered.searchsorted(codes[known], x) for x in ("left", "right"))
        few = known[last - first < OFTEN]
        if not len(few):
            return table, True
        ends |= set(table.serials[few].tolist())


def _run_as_rows(
    roots: Sequence[Tensor],
    asked: Container[int],
    once: bool,
    floor: int = NEWEST,
    looked: bool = False,
) -> bool:
    seen = None if looked else _seen(roots, asked, once)
    known = seen is not None and _plans.find(*seen) is not None
    if known and floor < NEWEST:
        known = not _behind_values(roots, floor)[1]
    if seen is not None:
        if known and _plans.run(*seen) is not None:
            return True
        seen[1].nodes = []  # what it lists would count as asked for
    table, behind = _behind_values(roots, floor)
    if behind:
        if _run_if_it_pays(roots, table, asked, once, None):
            return True
        del table  # what it lists would count as asked for
        return _run_as_rows(roots, asked, once, looked=looked)
    if recorder() is None and not looked and reroll(roots, table=table):
        del table  # what it lists would count as asked for
        return _run_as_rows(roots, asked, once)
    return _run_if_it_pays(roots, table, asked, once, seen)


def _run_if_it_pays(
    roots: Sequence[Tensor],
    table: Columns,
    asked: Container[int],
    once: bool,
    seen: tuple[Any, Look] | None,
) -> bool:
    """Run what of a graph can run as rows, if that pays; a plan is made where it was
    `seen` how it looks."""
    if not irregular(table, once):
        return False
    final = once or bool(modes.get().no_grad)
    kind = current().compilation, once, final, len(table.nodes)
    declined = _declined.get(kind)
    looks = None if declined is None else _looks(table, asked)
    if declined is not None and looks in declined:
        return False
    planned: AbstractContextManager[None] = nullcontext()
    if seen is not None:
        planned = _plans.kept(_plans.note(*seen, {}, False, lambda: _nodes(roots)))
    try:
        with planned:
            if _run_rows(roots, table, asked, once):
                return True
    except Failed:
        return False
    _declined[kind] = () if declined is None else (*declined[1 - SAME :], looks)
    return False


def _seen(
    roots: Sequence[Tensor], asked: Container[int], once: bool
) -> tuple[Any, Look] | None:
    """How a graph looks of which only the rows run, with its key; None in a run."""
    around = settings()
    if around is None or recorder() is not None:
        return None
    seen = look(roots, (), {}, False)
    if seen is None:
        return None
    seen.asked = 0
    wanted = [k for k, x in enumerate(seen.nodes) if x.serial in asked] if asked else ()
    return (seen.key, around, once, *wanted), seen


def _nodes(roots: Sequence[Tensor]) -> list[Tensor]:
    """The nodes of a graph that was looked at before."""
    seen = look(roots, (), {}, False)
    assert seen is not None
    return seen.nodes


def costs(roots: Sequence[Tensor]) -> tuple[int, int] | None:
    """The native records of a graph as rows, and of its rows one by one; None of one
    that is no rows.
    """
    table = columns(roots)
    if not _may_be_rows() or not irregular(table, once=False):
        return None
    rows = _rows_of(roots, table, (), once=False)
    return None if rows is None else rows.program.costs()


@provide
def rerolled(
    roots: Sequence[Tensor], seen: Look | None, stacks: Stacks | None = None
) -> bool:
    """Make loops of steps that Python wrote out, as `reroll` does, where the options
    let graphs be changed; whether there were any. `seen`: how the graph looks.
    """
    few = seen is not None and len(seen.nodes) < FEW
    if is_grown(roots):  # rows are looked for first
        return False
    if few or not _may_be_rows():
        return False
    return reroll(roots, listed=seen is not None, stacks=stacks)


def _may_be_rows() -> bool:
    """Return True if the options let graphs run as rows, and nobody traces this one."""
    options = current()
    if not options.autobatch or options.eager or top().tracing or not options.optimize:
        return False
    # A rule of the user's may fit across rows, which are compiled one by one.
    if options.rules or options.check or options.workspace:
        return False
    return engine(options.engine).has_rows


def _rows_of(
    roots: Sequence[Tensor], table: Columns, asked: Container[int], once: bool
) -> Rows | None:
    """A graph as rows, of which nothing is compiled yet; None where it is none."""
    walk = Walk(table)
    if walk.has("derivative"):  # what is yet to be derived keeps its recipe
        return None
    held = walk.held()
    final = once or bool(modes.get().no_grad)
    # Smaller graphs may run again with other positions, which are equal or not.
    units = collect(walk, asked, held, final, len(walk.nodes) > MOST)
    if units.work < FEW or units.size > LARGE:
        return None
    forest = Forest(units, asked, once)
    if not forest.groups:
        return None
    gradient = not modes.get().no_grad and any(
        any(x.template.wanted) for x in forest.instances
    )
    exits = _exits(forest, roots, held)
    program = engine(current().engine).rows(forest, gradient, exits.taken)
    return None if program is None else Rows(program, forest, exits)


def _run_rows(
    roots: Sequence[Tensor], table: Columns, asked: Container[int], once: bool
) -> bool:
    """Run a graph as rows, if that pays. Raises Failed."""
    read = bool((table.waiting & (table.values != 0)).any())
    rows = _rows_of(roots, table, asked, once)
    if rows is None:
        return False
    # What was read on the way may have decided how it goes on, each time anew.
    varies = read and rows.program.forest.is_long
    if not (varies or rows.program.pays()) or not rows.program.possible():
        return False
    reads = Reads.by(rows, asked)
    run_forest(rows, reads, rows.program.forest.all.walk.nodes, once)
    return True


def _looks(table: Columns, asked: Container[int]) -> Any:
    """The key by which a graph pays or does not: how it is built, what is asked."""
    digest = hashlib.blake2b(digest_size=16)
    fields = table.ops, table.types, table.sizes, table.operands, table.references
    for field in (*fields, table.waiting, table.marked):
        digest.update(field.tobytes())
    wanted = [k for k, s in enumerate(table.serials.tolist()) if s in asked]
    ops = dict(zip(table.ops.tolist(), table.nodes, strict=True))
    types = dict(zip(table.types.tolist(), table.nodes, strict=True))
    numbers = []
    for x in ops.values():  # of which Variable or run something is decides nothing
        kind = type(x.op)
        numbers.append(number(kind) if kind in _ANY else number_of(x.op))
    numbers += [number(x.type) for x in types.values()]
    opened = family(numbers, table.nodes)
    return (
        digest.digest(),
        tuple(wanted),
        tuple(numbers) if opened is None else opened[0],
    )


_ANY = (Update, Version, Row, TapeGradient)


def _exits(forest: Forest, roots: Sequence[Tensor], held: Numbers) -> Exits:
    """The rows that others read, and those among the roots and what is held.

    Many rows joined one after the other are one: they are not read one by one.
    """
    walk = forest.all.walk
    wanted = np.zeros(len(walk.nodes), np.bool_)
    wanted[walk.number([x for x in roots if x.stored is None])] = True
    wanted[held] = True
    joined: list[tuple[Tensor, Numbers]] = []
    for k in (*forest.all.outside.tolist(), *forest.alone().tolist()):
        node, read = walk.nodes[k], walk.read(k)
        whole = len(read) >= JOINED and _joins(node.op) and walk.alike(read)
        whole = whole and forest.all.reads(node, read)
        if whole:
            places, rows = forest.places(read)
            whole = bool(rows.all())
        if whole:
            joined.append((node, places))
        else:
            wanted[read] = True
    makers = np.zeros(len(wanted), np.bool_)
    makers[forest.all.makers(indices_of(wanted))] = True
    every = indices_of(makers)
    every = every[~walk.several(every)]
    places, rows = forest.places(every)
    single = indices_of(rows)
    return Exits(
        joined, [walk.nodes[k] for k in every[single].tolist()], places[single]
    )


def _joins(op: Op) -> bool:
    """Return True if an op puts its operands one after the other."""
    return isinstance(op, Concat) and op.axis == 0


def run_forest(
    rows: Rows, reads: Reads[Tensor], every: list[Tensor], once: bool
) -> None:
    """Run a graph as rows: its exits are leaves then, and the list of all its nodes, in
    the order of their making, is emptied. Raises Failed.
    """
    # It may wait for the step before, beside which all before this went on.
    fresh = _evaluate(reads.expressions)
    try:
        rows_run = rows.run(
            _values(reads.leaves, rows.as_leaf), _values(reads.shared, rows.as_argument)
        )
    except Failed:
        for node in fresh:
            node.stored = None
        raise
    tape = tape_for(rows_run, reads)
    record = recorder()
    # What a step consumes is never derived again.
    again = tape is not None and (current().check_numerics or not once)
    if record is not None:
        record.rows(rows, reads, tape, again)
    if tape is not None:
        tape.kind = rows.kind
    rows.forget()
    leave_rows(reads.exits, rows_run.arrays(), rows_run.futures, tape, again)
    forget(every)


def _evaluate(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Give nodes their values, and tell which had none; they can still be derived."""
    keep = {node.serial for node in nodes if node.stored is None}
    if not keep:
        return []
    every, record = pending(nodes), recorder()
    if record is not None and keep:
        record.program(every, keep)
    values = engine(current().engine).begin(every, {}, keep, frozenset(), sure=True)
    fresh = [node for node in nodes if node.serial in keep]
    for node in fresh:
        if node.stored is None:  # no thread has computed it meanwhile
            settle(node, values[node.serial])
    return fresh


def _values(
    nodes: Sequence[Tensor], as_argument: Callable[[Any, Tensor], Any] | None
) -> list[Any]:
    """The values of nodes as an engine takes them, or else on the host, where they may
    be yet to come."""
    if as_argument is None:
        every = [x.stored for x in nodes]
        return [x if type(x) is np.ndarray else soon(x) for x in every]
    return [as_argument(x.stored, x) for x in nodes]
