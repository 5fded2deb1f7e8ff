"""Residuals: what evaluated nodes keep for derivatives to come.

A recipe stays as long as its node can be reached. Values that only a gradient reads are
a cache: the oldest are dropped, and computed again where they are asked for.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from treadle.autodiff.dependence import behind, below
from treadle.autodiff.tape import Row, Tape, tape_of
from treadle.autodiff.targets import blocks
from treadle.base.types import Type
from treadle.core import native
from treadle.graph.leaves import Constant, Cut, Draw, Version, cut_of
from treadle.graph.tensor import Tensor, cut, settle
from treadle.graph.traversal import reach
from treadle.graph.variable import Update, variable_of

RESIDUAL_BYTES = 256 << 20
RUNS = 64  # that are noted before those that are gone are looked for


class _Residuals:
    """A thread's nodes with values kept for gradients alone, oldest first, those of a
    run together: their bytes, and whether they are what calls have computed inside.
    """

    def __init__(self) -> None:
        self.runs: deque[tuple[list[weakref.ref[Tensor]], int, bool]] = deque()
        self.bytes, self.room = 0, RUNS

    def note(
        self, nodes: list[weakref.ref[Tensor]], size: int, inside: bool = False
    ) -> None:
        """Add nodes of a run, of so many bytes; what is too much goes."""
        self.runs.append((nodes, size, inside))
        self.bytes += size
        if self.bytes > RESIDUAL_BYTES or len(self.runs) > self.room:
            self._make_room()

    def _make_room(self) -> None:
        """Forget what is gone, and let go of the oldest that are too much."""
        runs, self.runs = self.runs, deque()
        self.runs += [x for x in runs if any(ref() is not None for ref in x[0])]
        self.bytes = sum(size for _, size, _ in self.runs)
        self.room = max(RUNS, 2 * len(self.runs))
        while self.bytes > RESIDUAL_BYTES:
            references, size, inside = self.runs.popleft()
            self.bytes -= size
            for old in [x for ref in references if (x := ref()) is not None]:
                if inside and old.inputs and old.mark:
                    old.mark = {k: v for k, v in old.mark.items() if k != "inside"}
                elif old.inputs and not inside:  # it is computed again if asked for
                    old.stored = None


class _OwnResiduals(threading.local):
    def __init__(self) -> None:
        self.kept = _Residuals()


_residuals = _OwnResiduals()


def remember(node: Tensor, carried: bool) -> None:
    """Have an evaluated node keep its recipe for derivatives."""
    if not node.inputs or isinstance(node.op, Update):
        return
    if node.mark is not None and "no_grad" in node.mark:
        cut(node, cut_of(node.op.name, False))
        return
    node.mark = {**(node.mark or {}), "carried": carried}


def keep_residual(node: Tensor, value: Any, carried: bool) -> None:
    """Give a node its value for a gradient to come; the oldest of these are dropped."""
    if node.mark is not None and "no_grad" in node.mark:
        return
    settle(node, value)
    node.mark = {**(node.mark or {}), "carried": carried}
    note_residuals([node])


def note_residuals(nodes: Sequence[Tensor]) -> None:
    """Know of the values of nodes that are kept for a gradient to come."""
    _note([*map(weakref.ref, nodes)], sum([x.type.nbytes for x in nodes]))


def _note(nodes: list[weakref.ref[Tensor]], size: int) -> None:
    """The same of nodes that may go, of so many bytes."""
    _residuals.kept.note(nodes, size)


if native is not None:
    native.bind_history(_note, Type)


def keep_inside(call: Tensor, arrays: Mapping[int, Any]) -> None:
    """Note what a call has computed inside for a gradient to come."""
    if call.mark is not None and "no_grad" in call.mark:
        return
    call.mark = {**(call.mark or {}), "inside": arrays}
    size = sum(x.nbytes for x in arrays.values())
    _residuals.kept.note([weakref.ref(call)], size, True)


DATA: frozenset[int] = frozenset()  # trains what a step cuts that is made of data alone


def of_data(roots: Sequence[Tensor]) -> set[int]:
    """The nodes behind some roots that come of data alone, or pass no derivative on."""
    data: set[int] = set()
    for node in reach(roots):
        op = node.op
        if variable_of(node) is not None:
            continue
        if node.inputs:
            is_data = blocks(node) or all(x.serial in data for x in node.inputs)
        else:
            is_data = isinstance(op, Constant | Draw | Cut)
            is_data = is_data and not getattr(op, "carried", False)
        if is_data:
            data.add(node.serial)
    return data


def forget(node: Tensor, trained: frozenset[int] | None = None) -> None:
    """Cut an evaluated node: its value stays, its recipe goes. If it is known, what it
    depends on is `trained`.
    """
    if type(node.op) is Row:
        cut(node, cut_of("row", node.op.tape is not None, trained))
    elif node.inputs and node.stored is not None:
        carried = bool(node.mark and node.mark.get("carried"))
        cut(node, cut_of(node.op.name, carried, trained))


def depends(nodes: Sequence[Tensor], but: Set[int] = frozenset()) -> set[int]:
    """The nodes that depend on a trainable Variable, `but` for those of some ids."""
    dependent: set[int] = set()
    tapes: dict[int, bool] = {}
    for node in nodes:
        op = node.op
        if node.inputs and type(op) is not Update:
            leads = any(x.serial in dependent for x in node.inputs) and not blocks(node)
            leads = leads or (not but and node.stored is not None and carries(node))
        elif type(op) is Version or type(op) is Update:
            leads = op.variable.trainable and id(op.variable) not in but
        elif type(op) is Row and op.tape is not None:
            if op.tape.number not in tapes:
                tapes[op.tape.number] = trains(op.tape, but)
            leads = tapes[op.tape.number]
        else:
            leads = isinstance(op, Cut) and op.carried and not but
        if leads:
            dependent.add(node.serial)
    return dependent


def trained_by(nodes: Sequence[Tensor], chosen: Set[int]) -> frozenset[int] | None:
    """The Variables, by id, behind what is cut of a graph by a step that updates the
    `chosen` ones; None where that was not noted of what was cut before.
    """
    every = [*nodes, *below(map(tape_of, nodes))]
    cuts = [x.op for x in every if isinstance(x.op, Cut) and x.op.carried]
    known = [op.trained for op in cuts if op.trained is not None]
    return frozenset(chosen).union(*known) if len(known) == len(cuts) else None


def trains(tape: Tape, but: Set[int] = frozenset()) -> bool:
    """True if a trainable Variable was read for a tape, `but` for those of some ids."""
    read = [variable_of(x) for x in behind([tape])]
    return any(v is not None and v.trainable and id(v) not in but for v in read)


def lasting(roots: Sequence[Tensor], chosen: Set[int]) -> set[int]:
    """The nodes that keep their recipe when roots update the `chosen` Variables: other
    Variables may be trained by them yet."""
    dependent = depends(reach(roots), chosen)
    return dependent.difference([root.serial for root in roots])


def carries(node: Tensor) -> bool:
    """Return True if an evaluated node depends on what was trainable."""
    return bool(node.mark and node.mark.get("carried"))


def trainable(nodes: Iterable[Tensor]) -> frozenset[int]:
    """The trainable Variables, by id, that some nodes are versions of."""
    every = [variable_of(x) for x in nodes]
    return frozenset([id(v) for v in every if v is not None and v.trainable])


def stale_of(nodes: Sequence[Tensor], cuts: Set[int], known: Set[int]) -> set[int]:
    """The nodes that depend on these Variables, or on nodes that are known to."""
    stale = set(known)
    for node in nodes:
        variable = variable_of(node)
        if id(variable) in cuts or any(x.serial in stale for x in node.inputs):
            stale.add(node.serial)
    return stale
