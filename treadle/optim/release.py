"""After a step: what it has used is cut, values stay."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.autodiff.dependence import behind
from treadle.autodiff.tape import is_spent, tape_of
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, with_results
from treadle.graph.variable import variable_of
from treadle.runtime.history import forget, lasting, trained_by, trains


def release(roots: Sequence[Tensor], chosen: set[int]) -> None:
    """Cut the roots and the evaluated nodes that depend on the updated Variables.

    What depends on none of them (a second network's part of the graph) stays whole, and
    so does what others are trained by yet: old versions stand in the graph.
    """
    last = lasting(roots, chosen)
    stale: set[int] = set()
    tapes: dict[int, bool] = {}
    nodes = with_results(reach(roots))
    trained = trained_by(nodes, chosen)
    for node in nodes:
        variable = variable_of(node)
        if variable is not None:
            if id(variable) in chosen:
                stale.add(node.serial)
            continue
        if is_spent(node.op):
            stale.add(node.serial)
            continue
        tape = tape_of(node)
        if tape is not None:
            if tape.number not in tapes:
                read = {id(variable_of(x)) for x in behind([tape])}
                gone = not chosen.isdisjoint(read) and not trains(tape, chosen)
                tapes[tape.number] = gone
                if tapes[tape.number]:
                    tape.close(trained)
            if tapes[tape.number]:
                stale.add(node.serial)
            continue
        for x in node.inputs:
            if x.serial in stale:
                stale.add(node.serial)
                break
    stale -= last | {root.serial for root in roots}  # others may be behind a root
    for node in nodes:
        if node.stored is not None and node.serial in stale:
            forget(node, trained)
    for root in roots:
        forget(root)
