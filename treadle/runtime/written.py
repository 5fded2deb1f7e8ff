"""Writes of a run: donated versions, memory of its own, commits."""

from __future__ import annotations

from collections.abc import Sequence, Set

from treadle.base.errors import StateError
from treadle.base.options import modes
from treadle.base.types import TupleType
from treadle.graph.claim import Claim
from treadle.graph.leaves import Unbound
from treadle.graph.references import counted, untouched
from treadle.graph.resident import newer
from treadle.graph.tensor import Tensor, cut
from treadle.graph.traversal import reach, uses
from treadle.graph.variable import Variable, variable_of


def held(nodes: Sequence[Tensor]) -> list[Tensor]:
    """The nodes that something outside this list and these inputs refers to."""
    counts, inside = counted(nodes), uses(nodes)
    pairs = zip(nodes, counts, strict=True)
    return [node for node, count in pairs if count > inside.get(node.serial, 0)]


def left_open(nodes: Sequence[Tensor]) -> set[int]:
    """The nodes that are needed after a run: somebody has another result of a node
    that has several, which the run does not know of, and will compute it from them.
    """
    open_nodes = {x.serial for x in held(nodes) if isinstance(x.type, TupleType)}
    if open_nodes:
        for node in reversed(nodes):
            if node.serial in open_nodes and node.stored is None:
                open_nodes |= {x.serial for x in node.inputs}
    return open_nodes


def spent_of(nodes: Sequence[Tensor], spent: Sequence[Tensor]) -> set[int]:
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
    sole_owned, before = set(), {x.serial for x in claim.before}
    for node, count in zip(nodes, counts, strict=True):
        if node.serial in before and node.stored is not None:
            # One more reference to the node is that of what was taken.
            sole = count <= inside.get(node.serial, 0) + 1
            if sole and untouched(node):
                sole_owned.add(node.serial)
    return sole_owned


def check_bases(changes: Sequence[Tensor]) -> None:
    """Each explicit Update builds on the stored version or on an Update of this run."""
    newest: dict[int, Tensor] = {}
    for update in changes:
        variable = variable_of(update)
        assert variable is not None
        base = newest.get(id(variable), variable.committed)
        if update is base:  # its first value
            continue
        outdates = update.op.explicit and update.inputs[0] is not base  # type: ignore[attr-defined]
        if outdates and not isinstance(base.op, Unbound):
            raise outdated(variable).located("Update", repr(update.type), update.line)
        newest[id(variable)] = update


def outdated(variable: Variable) -> StateError:
    """The error where an update was made from what is not the newest value."""
    return StateError(
        f"variable {variable.name!r} was changed since this update was made",
        hint="make the update again from the newest value",
    )


def taken(changes: Sequence[Tensor]) -> Claim:
    """The Variables that a run assigns, with the versions before taken away: those that
    are made from a value that is there, and yet to be made.
    """
    first: dict[int, Tensor] = {}
    last: dict[int, Tensor] = {}
    for x in changes:
        variable: Variable = x.op.variable  # type: ignore[attr-defined]
        base = x.inputs[0]
        plain = type(variable).commit is Variable.commit and base.stored is not None
        plain = plain and not any(t.is_foreign(x) for t in modes.get().transactions)
        if plain and base is variable.committed:
            first[id(variable)] = base
        last[id(variable)] = x
    # Rows have read a version that was assigned: it has its value.
    first = {k: base for k, base in first.items() if last[k].stored is None}
    claim = Claim([x.op.variable for x in first.values()])  # type: ignore[attr-defined]
    claim.keys = [last[k].serial for k in first]
    last.clear()  # it counts
    if not first:
        return claim
    base = None  # type: ignore[assignment]
    changed = claim.take(list(first.values()))
    if changed is not None:
        raise outdated(changed).located("Update", repr(changed.type))
    return claim


def commit(changes: Sequence[Tensor], claim: Claim) -> None:
    """Make evaluated Updates the versions of their Variables, all of them at once."""
    if not changes:
        return
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
