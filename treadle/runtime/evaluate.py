"""Values on demand: find what has to run, run it, settle nodes, commit Variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.autodiff.dependence import behind
from treadle.autodiff.live import endangered, with_late
from treadle.autodiff.tape import Tape, tape_of
from treadle.base import trees
from treadle.base.collector import collector_paused
from treadle.base.errors import RunError
from treadle.base.options import current, modes
from treadle.base.types import TupleType
from treadle.graph.carried import Carried
from treadle.graph.frame import top
from treadle.graph.leaves import as_tensor
from treadle.graph.look import assigned, is_grown, look
from treadle.graph.marks import NO_GRAD
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.parts import LONGEST, is_move
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, settle
from treadle.graph.thread import orphans
from treadle.graph.traversal import pending, reach, rebuild
from treadle.graph.variable import Update, Variable, variable_of
from treadle.runtime.again import Plans
from treadle.runtime.around import settings
from treadle.runtime.at_once import CallPlan, of_call
from treadle.runtime.history import (
    depends,
    keep_inside,
    keep_residual,
    lasting,
    remember,
    trained_by,
    trains,
)
from treadle.runtime.recorder import observers, recorder
from treadle.runtime.row_gradients import prepare
from treadle.runtime.values import values_of
from treadle.runtime.written import check_bases, commit, held, owned, spent_of, taken

__all__ = ["evaluate"]


# Of values. Who has Variables assigned has plans of its own, which hold these.
_plans = Plans()
_behind_rows = Plans()  # of values whose rows have run


def run(
    roots: Sequence[Tensor],
    feeds: Mapping[int, Any] | None = None,
    *,
    spent: Sequence[Tensor] = (),
    cuts: bool = False,
    plans: Plans | None = None,
) -> list[Tensor]:
    """Evaluate the roots and the thread's pending updates; the nodes that were settled.

    With `cuts` the caller cuts what was evaluated: derivatives of it that were recorded
    are evaluated too. Of `spent` he cuts all that depends on an updated Variable, so
    that its old array may be overwritten where nothing else refers to it. Runs with
    assignments come again by `plans`, which hold their Variables: those of the first
    one where there are no others. A failing run drops the thread's pending updates: the
    Variables stay as they were.
    """
    updates = top().pending
    # Who is told of a run wants to know of all.
    observed = feeds or spent or recorder() is not None
    around = None if observed else settings()
    roots = roots if observed else with_late(roots)
    if around is None:
        return _run_anew(roots, feeds, spent, cuts)
    plans = plans or (_plans_of(updates[0]) if updates else _plans)
    ownership = assigned(updates) if updates else {}
    found = plans.follow((around, cuts), roots, ownership, False, updates, cuts=cuts)
    if isinstance(found, list):
        return found
    key, seen = found or (None, None)
    looked = not plans.has_met(key)
    if looked:
        loop = None if seen is None else plans.note_loop(key, seen, ownership, cuts)
        listed, stacks = (seen, None) if loop is None else (None, loop.stacks)
        if functions.rerolled([*roots, *updates], listed, stacks):
            if seen is not None:
                plans.has_looped(key)
            del found, seen, listed  # what is listed would count as asked for
            if loop is None:
                return run(roots, cuts=cuts, plans=plans)
            with plans.kept(loop):
                return _run_anew(roots, feeds, spent, cuts)
        looked = len(roots) + len(updates) == 1 and not is_grown(roots)
    if seen is None:
        return _run_anew(roots, feeds, spent, cuts, looked)
    note = plans.note(key, seen, ownership, cuts)
    if note is None and plans is _plans and not endangered(roots):
        done = _behind(roots, cuts, looked)
        if done is not None:
            return done
    with plans.kept(note):
        return _run_anew(roots, feeds, spent, cuts, looked)


@collector_paused
def _behind(roots: Sequence[Tensor], cuts: bool, looked: bool) -> list[Tensor] | None:
    """A run whose rows run first, as they come once with a graph that does, where what
    reads them looks as before; None where nothing can run as rows."""
    if not functions.run_rows(roots, (), bool(modes.get().no_grad), looked=looked):
        return None
    return run(roots, cuts=cuts, plans=_behind_rows)


def _plans_of(update: Tensor) -> Plans:
    """The plans that live as long as the Variable that is assigned."""
    variable = variable_of(update)
    assert variable is not None
    if variable.plans is None:
        variable.plans = Plans()
    return variable.plans


def plan_of(
    asked: Sequence[Tensor],
    inputs: Sequence[Tensor],
    around: Any,
    plans: Plans = _plans,
    updates: Sequence[Tensor] = (),
) -> CallPlan | None:
    """The plan of calls whose results are asked for, as of these inputs, if what looked
    alike has run by these plans; those that assign cut what they evaluate."""
    seen = look(asked, (), assigned(updates), False, updates)
    if seen is None:
        return None
    key = seen.key, around, plans is not _plans
    return of_call(plans.known(key), seen, asked, inputs)


@collector_paused
def _run_anew(
    roots: Sequence[Tensor],
    feeds: Mapping[int, Any] | None = None,
    spent: Sequence[Tensor] = (),
    cuts: bool = False,
    looked: bool = False,
) -> list[Tensor]:
    """As `run`, whatever has run before; `looked` as in `run_rows`."""
    frame = top()
    left = [] if frame.tracing else orphans()
    if left:  # by themselves: what fails in this run is no fault of theirs
        _run_anew(left)
    updates = [] if frame.tracing else frame.carry()
    carried, changes = Carried(), list[Tensor]()
    with carried.lock:
        try:
            if frame.versions and not _is_free(carried, [*roots, *updates]):
                return _beside(roots)
            done = _run(roots, updates, feeds, spent, cuts, changes, looked)
            frame.forget([*changes, *updates])
        except BaseException:
            ran = [x for x in changes if x.stored is not None]
            frame.forget([*ran, *updates])
            raise
        finally:
            carried.leave()
    return done


def _is_free(carried: Carried, wanted: Sequence[Tensor]) -> bool:
    """Return True if a run may carry out all updates that it needs, others being over:
    not where this very thread is carrying one out, as in a signal handler."""
    while True:
        changes = [x for x in pending(wanted) if isinstance(x.op, Update)]
        other = carried.take(changes)
        if other is None and all(x.stored is None for x in changes):
            return True
        if other is not None:
            if other.is_here:
                return False
            other.wait()


def _beside(roots: Sequence[Tensor]) -> list[Tensor]:
    """Evaluate roots by the versions that there are, while this thread is carrying out
    what was assigned.
    """
    updates = [x for x in pending(roots) if isinstance(x.op, Update)]
    places = {x.serial: x.op.variable.committed for x in updates}  # type: ignore[attr-defined]
    rebuilt = rebuild(roots, places)
    _run_anew(rebuilt)
    for x, y in zip(roots, rebuilt, strict=True):
        waits = x.stored is None and not isinstance(x.op, Update)
        if waits and y.stored is not None:
            settle(x, y.stored)
    return []


def _run(
    roots: Sequence[Tensor],
    updates: Sequence[Tensor],
    feeds: Mapping[int, Any] | None,
    spent: Sequence[Tensor],
    cuts: bool,
    changes: list[Tensor],
    looked: bool,
) -> list[Tensor]:
    """As `run`; the updates that it carries out are added to `changes`."""
    wanted = list(roots)
    if cuts or spent:
        wanted += endangered(wanted)
    wanted += updates
    # What else is assigned fails at once, if it does.
    alone = bool(spent) and not updates
    noted = [observe(wanted) for observe in observers()]
    if not feeds:
        only = looked and len(wanted) == 1
        _close(prepare(wanted, bool(spent), only), spent, wanted)
    asked = frozenset(node.serial for node in wanted)
    nodes, keep = work(wanted)
    # What was assigned has its value where rows have read it, and is committed here.
    changes += [node for node in nodes if isinstance(node.op, Update)]
    check_bases(changes)
    claim = taken(changes if spent else [])
    try:
        old = set()
        if spent:
            last = lasting(spent, _updated(changes))
            old = owned(nodes, spent_of(nodes, spent) - last, claim, last)
        record = recorder()
        if record is not None:
            record.program(nodes, keep)
        begin = alone and keep <= {n.serial for n in nodes if type(n.op) is Update}
        arguments = nodes, feeds or {}, keep, old, asked
        values = values_of(*arguments, begin=begin, claim=claim)
    except BaseException as error:
        claim.leave(failed=isinstance(error, Exception))
        raise
    mark_run()
    done = _settled(nodes, keep, values)
    for tell in noted:
        tell()
    commit(changes, claim)
    return done


def _settled(
    nodes: Sequence[Tensor], keep: Set[int], values: Mapping[int, Any]
) -> list[Tensor]:
    """The nodes that a run keeps, with their values, and others with what it gives
    besides."""
    done = [node for node in nodes if node.serial in keep]
    carried = depends(nodes)
    for node in done:
        if not isinstance(node.type, TupleType):
            if node.stored is None:  # no thread has computed it meanwhile
                settle(node, values[node.serial])
            remember(node, node.serial in carried)
    if len(values) > len(keep):
        for node in nodes:
            if node.serial in values and node.serial not in keep:
                keep_residual(node, values[node.serial], node.serial in carried)
            if ~node.serial in values:
                keep_inside(node, values[~node.serial])
    return done


def _close(tapes: Sequence[Tape], spent: Sequence[Tensor], wanted: Any) -> None:
    """Let go of tapes that are cut with what is spent, as they have read Variables that
    are to be updated: then these are changed where they lie.
    """
    if not tapes or not spent:
        return
    chosen = _updated(wanted)
    nodes = reach(spent)
    rows = {id(tape_of(node)): node for node in nodes}
    trained = trained_by(nodes, chosen)
    for tape in tapes:
        row = rows.pop(id(tape), None)
        if row is not None:
            read = {id(variable_of(x)) for x in behind([tape])}
            if not chosen.isdisjoint(read) and not trains(tape, chosen):
                tape.close(trained)


def _updated(nodes: Sequence[Tensor]) -> set[int]:
    """The Variables, by id, that some of these nodes are updates of."""
    return {id(x.op.variable) for x in nodes if isinstance(x.op, Update)}


def work(wanted: list[Tensor]) -> tuple[list[Tensor], set[int]]:
    """The nodes of a run, and which it keeps.

    Kept is what is wanted, each update, and what anything outside of the run refers to;
    the list of what is wanted is emptied, for it refers to them too.
    """
    nodes = pending(wanted)
    keep = {node.serial for node in wanted}
    keep |= {node.serial for node in nodes if isinstance(node.op, Update)}
    wanted.clear()
    keep |= {n.serial for n in held(nodes) if not isinstance(n.type, TupleType)}
    keep &= {node.serial for node in nodes if node.stored is None}
    return nodes, keep


@provide
def settled(x: Operand) -> Tensor:
    """The node of a tensor, or of a Variable after the pending updates, evaluated."""
    if isinstance(x, Variable):
        if x.persistent and top().pending:
            run([])  # an update that is held would be looked at as held
        read = top().read(x)
        if top().pending or read.stored is None:
            run([read])
        return x.committed if read.stored is None else read
    node = x.node()
    if node.stored is None and not read_part(node):
        run([node])
    return node


@provide
def carry_out(roots: Sequence[Tensor]) -> list[Tensor]:
    """Evaluate the roots and all that was assigned."""
    return run(roots)


@provide
def value(x: Operand) -> np.ndarray[Any, Any]:
    """The value of a tensor or a Variable on the host."""
    array = settled(x).array
    assert array is not None
    return array


def evaluate(*tensors: Any) -> Any:
    """Run several tensors (or trees of them) together; NumPy arrays in their place.

    >>> x = td.constant(2.0)
    >>> td.evaluate(x + 1, {"square": x * x})
    (array(3., dtype=float32), {'square': array(4., dtype=float32)})
    """
    if len(tensors) == 1 and isinstance(tensors[0], Variable):
        return value(tensors[0])
    leaves, structure = trees.flatten(tensors)
    variables = [x for x in leaves if isinstance(x, Variable)]
    nodes = [as_tensor(x) for x in leaves if not isinstance(x, Variable)]
    if top().pending and all(v.persistent for v in variables):
        run(nodes)
    read, rest = iter(top().read_all(variables)), iter(nodes)  # of one moment
    nodes = [next(read) if isinstance(x, Variable) else next(rest) for x in leaves]
    if top().pending or not all(x.stored is not None or read_part(x) for x in nodes):
        run(nodes)
    # In a handler, while it is carried out, an update has none.
    nodes = [variable_of(x).committed if x.stored is None else x for x in nodes]  # type: ignore[union-attr]
    result = trees.unflatten(structure, [node.array for node in nodes])
    return result[0] if len(tensors) == 1 else result


def read_part(node: Tensor) -> bool:
    """Give a node its value, if that is a part of one that is there, or its elements
    in another order; whether it was."""
    if node.stored is None and not is_move(node):
        return False
    chain, x = list[Tensor](), node
    while x.stored is None:
        plain = x.mark is None or x.mark is NO_GRAD
        if not is_move(x) or not plain or len(chain) == LONGEST:
            return False
        chain.append(x)
        x = x.inputs[0]
    if current().engine != "auto":  # somebody wants to know what that one does
        return False
    value = x.array
    try:
        for y in reversed(chain):
            value = y.op.numpy(value, *[i.array for i in y.inputs[1:]])
    except RunError:  # a position is out of range: the run says where
        return False
    settle(node, np.array(value, order="C"))
    known = x.mark.get("carried") if x.mark and x.inputs else None
    if known is None:
        known = x.serial in depends(reach([x]))
    remember(node, known)
    return True
