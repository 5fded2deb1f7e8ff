"""Values on demand: find what has to run, run it, settle nodes, commit Variables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.autodiff.dependence import behind
from treadle.autodiff.derivative import endangered
from treadle.autodiff.tape import Tape, TapeGradient, cut_pulled, tape_of
from treadle.base import trees
from treadle.base.collector import held_back
from treadle.base.errors import StateError
from treadle.base.options import current, modes
from treadle.base.types import TupleType
from treadle.graph.claim import Claim
from treadle.graph.frame import top
from treadle.graph.leaves import Unbound, as_tensor
from treadle.graph.operators import Operand, provide
from treadle.graph.references import counted, untouched
from treadle.graph.resident import newer, soon
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, cut, settle
from treadle.graph.traversal import few, pending, reach, uses
from treadle.graph.variable import Update, Variable, variable_of
from treadle.runtime.history import (
    depends,
    keep_inside,
    keep_residual,
    lasting,
    remember,
    trains,
)
from treadle.runtime.numerics import refuse_pulled, run_rows
from treadle.runtime.recorder import recorder
from treadle.runtime.rows import FEW
from treadle.runtime.values import values_of

__all__ = ["evaluate"]


class _Observers(threading.local):
    """Those who see what this thread runs, before, and are called again after."""

    def __init__(self) -> None:
        self.every: list[Callable[[Sequence[Tensor]], Callable[[], None]]] = []


observers = _Observers()


def held(nodes: Sequence[Tensor]) -> list[Tensor]:
    """The nodes that something outside this list and these inputs refers to."""
    counts, inside = counted(nodes), uses(nodes)
    pairs = zip(nodes, counts, strict=True)
    return [node for node, count in pairs if count > inside.get(node.serial, 0)]


def left_open(nodes: Sequence[Tensor]) -> set[int]:
    """The nodes that are needed after a run: somebody has another result of a node
    that has several, which the run does not know of, and will compute it from them.
    """
    found = {x.serial for x in held(nodes) if isinstance(x.type, TupleType)}
    if found:
        for node in reversed(nodes):
            if node.serial in found and node.stored is None:
                found |= {x.serial for x in node.inputs}
    return found


def _spent_of(nodes: Sequence[Tensor], spent: Sequence[Tensor]) -> set[int]:
    """The evaluated nodes of a run that are cut after it."""
    evaluated = {n.serial for n in nodes if n.stored is not None and n.inputs}
    return evaluated & {n.serial for n in reach(spent)} if evaluated else evaluated


def owned(
    nodes: Sequence[Tensor], spent: Set[int], claim: Claim, last: Set[int]
) -> set[int]:
    """The versions that were taken away whose values this run alone refers to.

    What is `spent` refers to nothing soon. Of what is to `last` somebody may hold a
    part, which refers to all below.
    """
    counts, stays = counted(nodes), left_open(nodes)
    if last:
        stay = [x for x in held(nodes) if x.serial in last]
        stays |= {x.serial for x in reach(stay)}
    goes = [n for n in nodes if n.stored is None or n.serial in spent]
    inside = uses(n for n in goes if n.serial not in stays)
    found = set()
    for node, count in zip(nodes, counts, strict=True):
        if claim.has_taken(node) and node.stored is not None:
            # One more reference to the node is that of what was taken.
            sole = count <= inside.get(node.serial, 0) + 1
            if sole and untouched(node):
                found.add(node.serial)
    return found


@held_back
def run(
    roots: Iterable[Tensor],
    feeds: Mapping[int, Any] | None = None,
    *,
    spent: Sequence[Tensor] = (),
    cuts: bool = False,
) -> list[Tensor]:
    """Evaluate the roots and the thread's pending updates; the nodes that were settled.

    With `cuts` the caller cuts what was evaluated: derivatives of it that were recorded
    are evaluated too. Of `spent` he cuts all that depends on an updated Variable, so
    that its old array may be overwritten where nothing else refers to it. A failing run
    drops the thread's pending updates: the Variables stay as they were.
    """
    frame = top()
    updates = [] if frame.tracing else frame.take()
    wanted = list(roots)
    if cuts or spent:
        wanted += endangered(wanted)
    wanted += updates
    # What else is assigned fails at once, if it does.
    alone = bool(spent) and not updates
    del updates
    noted = [observe(wanted) for observe in observers.every]
    if not feeds:
        _close(_prepare(wanted, begin=bool(spent)), spent, wanted)
    asked = frozenset(node.serial for node in wanted)
    nodes, keep = work(wanted)
    # What was assigned has its value where rows have read it, and is committed here.
    changes = [node for node in nodes if isinstance(node.op, Update)]
    _check_bases(changes)
    claim = _taken(changes if spent else [])
    try:
        old = set()
        if spent:
            last = lasting(spent, _updated(changes))
            old = owned(nodes, _spent_of(nodes, spent) - last, claim, last)
        told = recorder()
        if told is not None:
            told.program(nodes, keep)
        begin = alone and keep <= {n.serial for n in nodes if type(n.op) is Update}
        given = nodes, feeds or {}, keep, old, asked
        values = values_of(*given, begin=begin, claim=claim)
    except BaseException as error:
        claim.leave(failed=isinstance(error, Exception))
        raise
    mark_run()
    done = _settled(nodes, keep, values)
    for tell in noted:
        tell()
    _commit(changes, claim)
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
            settle(node, values[node.serial])
            remember(node, node.serial in carried)
    if len(values) > len(keep):
        for node in nodes:
            if node.serial in values and node.serial not in keep:
                keep_residual(node, values[node.serial], node.serial in carried)
            if ~node.serial in values:
                keep_inside(node, values[~node.serial])
    return done


def _taken(changes: Sequence[Tensor]) -> Claim:
    """The Variables that a run assigns, with the versions before taken away: those that
    are made from a value that is there.
    """
    first: dict[int, Tensor] = {}
    last: dict[int, int] = {}
    for x in changes:
        variable: Variable = x.op.variable  # type: ignore[attr-defined]
        base = x.inputs[0]
        plain = type(variable).commit is Variable.commit and base.stored is not None
        if plain and base is variable.committed:
            first[id(variable)] = base
        last[id(variable)] = x.serial
    claim = Claim([x.op.variable for x in first.values()])  # type: ignore[attr-defined]
    claim.keys = [last[k] for k in first]
    base = None  # type: ignore[assignment]
    changed = claim.take(list(first.values()))
    if changed is not None:
        raise outdated(changed).located("Update", repr(changed.type))
    return claim


def _commit(changes: Sequence[Tensor], claim: Claim) -> None:
    """Make evaluated Updates the versions of their Variables, all of them at once."""
    last = {id(x.op.variable): x for x in changes}  # type: ignore[attr-defined]
    ours = {id(v) for v in claim.variables}
    for node in changes:
        variable: Variable = node.op.variable  # type: ignore[attr-defined]
        if id(variable) in ours:
            cut(node, variable.version)
        else:
            newer(node.stored, variable.committed.stored)
            variable.commit(node)
    finals = [last[id(v)] for v in claim.variables]
    claim.values = [x.stored for x in finals]
    changed = claim.finish(finals)
    if changed is not None:
        raise outdated(changed).located("Update", repr(changed.type))


def _prepare(wanted: Sequence[Tensor], begin: bool) -> list[Tape]:
    """Run what can run as rows, and gradients of rows, before the program; the tapes
    that were gone through. The gradients may only `begin`.
    """
    nodes = few(wanted, FEW)
    if nodes is None or any(type(x.op) is TapeGradient for x in nodes):
        nodes = None
        run_rows(wanted, (), bool(modes.get().no_grad))
        return _pull_tapes(wanted, begin)
    return []


def _close(tapes: Sequence[Tape], spent: Sequence[Tensor], wanted: Any) -> None:
    """Let go of tapes that are cut with what is spent, as they have read Variables that
    are to be updated: then these are changed where they lie.
    """
    if not tapes or not spent:
        return
    chosen = _updated(wanted)
    rows = {id(tape_of(node)): node for node in reach(spent)}
    for tape in tapes:
        row = rows.pop(id(tape), None)
        if row is not None:
            read = {id(variable_of(x)) for x in behind([tape])}
            if not chosen.isdisjoint(read) and not trains(tape, chosen):
                tape.close()


def _updated(nodes: Iterable[Tensor]) -> set[int]:
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
    for around in modes.get().transactions:
        for node in nodes:
            if isinstance(node.op, Update) and node.stored is None:
                around.note(node.op.variable)  # its array is not written over
    keep |= {n.serial for n in held(nodes) if not isinstance(n.type, TupleType)}
    keep &= {node.serial for node in nodes if node.stored is None}
    return nodes, keep


def _pull_tapes(wanted: Sequence[Tensor], begin: bool) -> list[Tape]:
    """Go backward through the batched runs whose gradients are asked for.

    They are apart from the programs before and after, which stay the same for each.
    """
    gone: list[Tape] = []
    while True:
        nodes = pending(wanted)
        pulls = [node for node in nodes if type(node.op) is TapeGradient]
        if not pulls:
            return gone
        first = pulls[0]
        after: set[int] = set()
        for node in nodes:
            if node is first or any(x.serial in after for x in node.inputs):
                after.add(node.serial)
        before = [x for x in wanted if x.serial not in after]
        evaluable = [x for x in before if not isinstance(x.op, Update)]
        begin = begin and not current().check_numerics
        _settle_all([*first.inputs, *evaluable], begin)
        op: Any = first.op
        given = [soon(x.stored) for x in first.inputs[: len(op.places)]]
        found = op.pull(given, begin)
        gone.append(op.tape)
        refuse_pulled(first, found)
        results = [
            (node.op.position, node)  # type: ignore[attr-defined]
            for node in nodes
            if node.inputs and node.inputs[0] is first
        ]
        told = recorder()
        if told is not None:
            told.pulled(first, results)
        for k, node in results:
            settle(node, found[k])
            cut_pulled(node)


def _settle_all(roots: Sequence[Tensor], begin: bool) -> None:
    """Evaluate nodes that are no updates, and what is held of what they read, or only
    `begin` to where nothing can be found wrong.
    """
    nodes = pending(roots)
    asked = {root.serial for root in roots}
    others = [n for n in held(nodes) if not isinstance(n.type, TupleType)]
    keep = asked | {n.serial for n in others}
    del others
    keep &= {node.serial for node in nodes if node.stored is None}
    told = recorder()
    if told is not None and keep:
        told.program(nodes, keep)
    values = values_of(nodes, {}, keep, set(), asked & keep, begin=begin, sure=True)
    carried = depends(nodes)
    for node in nodes:
        if node.serial in keep and not isinstance(node.type, TupleType):
            settle(node, values[node.serial])
            remember(node, node.serial in carried)


def _check_bases(changes: Sequence[Tensor]) -> None:
    """Each Update builds on the stored version or on an Update of this run."""
    newest: dict[int, Tensor] = {}
    for update in changes:
        variable = variable_of(update)
        assert variable is not None
        base = newest.get(id(variable), variable.committed)
        if update is base:  # its first value
            continue
        if update.inputs[0] is not base and not isinstance(base.op, Unbound):
            raise outdated(variable).located("Update", repr(update.type), update.line)
        newest[id(variable)] = update


def outdated(variable: Variable) -> StateError:
    """The error where an update was made from what is not the newest value."""
    return StateError(
        f"variable {variable.name!r} was changed since this update was made",
        hint="make the update again from the newest value",
    )


@provide
def settled(x: Operand) -> Tensor:
    """The node of a tensor, or of a Variable after the pending updates, evaluated."""
    if isinstance(x, Variable):
        read = top().read(x)
        if top().pending or read.stored is None:
            run([read])
        return x.committed if x.persistent and not top().tracing else read
    node = x.node()
    if node.stored is None:
        run([node])
    return node


@provide
def carry_out(roots: Sequence[Tensor]) -> list[Tensor]:
    """Evaluate the roots and all that was assigned."""
    return run(roots)


@provide
def value(x: Operand) -> np.ndarray[Any, Any]:
    """The value of a tensor or a Variable on the host."""
    found = settled(x).array
    assert found is not None
    return found


def evaluate(*tensors: Any) -> Any:
    """Run several tensors (or trees of them) together; NumPy arrays in their place.

    >>> import treadle as td
    >>> x = td.constant(2.0)
    >>> td.evaluate(x + 1, {"square": x * x})
    (array(3., dtype=float32), {'square': array(4., dtype=float32)})
    """
    if len(tensors) == 1 and isinstance(tensors[0], Variable):
        return value(tensors[0])
    leaves, structure = trees.flatten(tensors)
    nodes = [as_tensor(leaf) for leaf in leaves]
    if any(node.stored is None for node in nodes) or top().pending:
        run(nodes)
    result = trees.unflatten(structure, [node.array for node in nodes])
    return result[0] if len(tensors) == 1 else result
