"""Values stored at once: arrays as they are, without a run; expressions by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from treadle.base.options import modes
from treadle.graph.assign import update_all
from treadle.graph.claim import exchange
from treadle.graph.frame import top
from treadle.graph.leaves import to_array
from treadle.graph.operators import Operand
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, remade
from treadle.graph.variable import Variable
from treadle.runtime.evaluate import run
from treadle.runtime.recorder import observers
from treadle.runtime.written import outdated

Changes = list[tuple[Variable, Any]]  # the next versions, as expressions


def each_once(pairs: Iterable[tuple[Variable, Any]]) -> Changes:
    """The pairs without those of a Variable that has another one after them."""
    return [*{id(v): (v, value) for v, value in pairs}.values()]


def store(pairs: Iterable[tuple[Variable, Any]]) -> None:
    """Assign values at once, so that a later failing run cannot drop them.

    Arrays are copied and nothing else: no graph, no key, no program of so many sizes.
    """
    pairs = each_once(pairs)
    if top().tracing:
        for variable, value in pairs:
            variable.assign(value)
    elif not (_is_free([v for v, _ in pairs]) and _copied(pairs)):
        run(updates_of(pairs))


def updates_of(changes: Changes, since: int | None = None) -> list[Tensor]:
    """Explicit Updates; refused where a version is newer than those of serials up to
    `since`, which the values were made from."""
    updates = update_all(changes, explicit=True)
    for (variable, _), update in zip(changes, updates, strict=True):
        if since is not None and update.inputs[0].serial > since:
            raise outdated(variable).located("step", repr(variable.type))
    return updates


def _is_free(variables: Sequence[Variable]) -> bool:
    """True if nothing waits to be carried out before, and nobody notes what runs."""
    waiting = top().versions
    return not observers() and all(
        id(v) not in waiting
        and v.committed.stored is not None
        and type(v).commit is Variable.commit
        for v in variables
    )


def _copied(pairs: Changes) -> bool:
    """Make copies of arrays the versions of their Variables, all at one moment; False,
    and nothing, where one of them is to be computed."""
    nodes = []
    for v, value in pairs:
        if isinstance(value, Operand):
            return False
        array = to_array(value, v.type.dtype)
        if array.shape != v.type.shape:
            return False
        array.flags.writeable = False
        node = remade(v.committed, v.version, (), v.type)
        node.stored = array
        nodes.append(node)
    for around in modes.get().transactions:
        for (v, _), node in zip(pairs, nodes, strict=True):
            around.note(v, node)
    exchange([v for v, _ in pairs], nodes, [])
    mark_run()
    return True
