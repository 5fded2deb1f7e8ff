"""Rows of a run, and gradients that go through them, before its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.autodiff.derivative import through_rows
from treadle.autodiff.live import is_late
from treadle.autodiff.tape import Tape, TapeGradient, cut_pulled, tape_of
from treadle.autodiff.written import Derivative
from treadle.base.options import current, modes
from treadle.base.types import TupleType
from treadle.graph.frame import apart
from treadle.graph.tensor import Tensor, settle
from treadle.graph.traversal import few, pending, waiting_results
from treadle.graph.variable import Update
from treadle.runtime.forests import FEW, running_rows
from treadle.runtime.history import depends, remember
from treadle.runtime.numerics import refuse_pulled, run_rows
from treadle.runtime.recorder import recorder
from treadle.runtime.values import values_of
from treadle.runtime.written import held


def prepare(wanted: Sequence[Tensor], begin: bool, looked: bool) -> list[Tape]:
    """Run what can run as rows, and gradients of rows, before the program; the tapes
    that were gone through. The gradients may only `begin`; `looked` as in `run_rows`.
    """
    nodes = few(wanted, FEW)
    if nodes is not None:
        rows = any(map(tape_of, nodes))
        before = (Derivative, TapeGradient) if rows else TapeGradient
        if not any(isinstance(x.op, before) or is_late(x) for x in nodes):
            return []
    nodes = None
    # Rows become leaves: another thread may be about to run them, or to derive them.
    with running_rows:
        with apart():  # a derivative was recorded outside of the scopes around
            gone = _derive(wanted, begin)
        run_rows(wanted, (), bool(modes.get().no_grad), looked=looked)
        return gone + _pull_tapes(wanted, begin)


def _derive(wanted: Sequence[Tensor], begin: bool) -> list[Tape]:
    """Derive results of which rows were to run when that is asked for, if they do; the
    tapes that were gone through."""
    nodes = pending(wanted)
    late = _late(nodes)
    if not late:
        return []
    after = {x.serial for x in late}
    for node in nodes:
        if any(x.serial in after for x in node.inputs):
            after.add(node.serial)
    before = [x for x in wanted if x.serial not in after]
    nodes, node = [], late[0]  # what is listed would count as held
    results, outputs = list[Tensor](), list[Tensor]()
    for node in late:
        each = through_rows(node)
        for output in waiting_results(node) if each else ():
            outputs.append(output)
            results.append(each[output.op.position])  # type: ignore[attr-defined]
        each = []
    if not results:
        return []
    del late, node
    gone = _pull_tapes([*before, *results], begin)
    _settle_all(results, begin)
    record = recorder()
    if record is not None:
        record.stood_for(outputs, results)
    for output, result in zip(outputs, results, strict=True):
        assert result.stored is not None
        settle(output, result.stored)
        remember(output, True)
    return gone


def _late(nodes: Sequence[Tensor]) -> list[Tensor]:
    """The derivatives that may go through rows; none where one goes on through others,
    and so through how its rows are computed."""
    every = [x for x in nodes if type(x.op) is Derivative]
    if not every or any(x.op.nested for x in every):  # type: ignore[attr-defined]
        return []
    # Rows may have run by themselves since it was recorded.
    return every if any(map(tape_of, nodes)) else [x for x in every if is_late(x)]


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
        results = [
            (node.op.position, node)  # type: ignore[attr-defined]
            for node in nodes
            if node.inputs and node.inputs[0] is first
        ]
        nodes, pulls, node = [], [], first  # what they refer to would count as held
        _settle_all([*first.inputs, *evaluable], begin)
        op: Any = first.op
        given = first.inputs[: len(op.places)]
        cotangents = [op.tape.run.taken(x) for x in given]
        gradients = op.pull(cotangents, begin)
        gone.append(op.tape)
        refuse_pulled(first, gradients)
        record = recorder()
        if record is not None:
            record.pulled(first, results)
        for k, node in results:
            settle(node, gradients[k])
        cut_pulled([node for _, node in results])


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
    record = recorder()
    if record is not None and keep:
        record.program(nodes, keep)
    values = values_of(nodes, {}, keep, set(), asked & keep, begin=begin, sure=True)
    carried = depends(nodes)
    for node in nodes:
        # Another thread may have come to it since.
        value = values.get(node.serial) if node.serial in keep else None
        if value is not None and not isinstance(node.type, TupleType):
            settle(node, value)
            remember(node, node.serial in carried)
