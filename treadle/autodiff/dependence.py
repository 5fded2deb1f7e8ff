"""Dependence analysis: the nodes that a derivative reaches, found without deriving.

Which inputs of an op get a cotangent is learned from its `vjp` at the first node of its
kind, and remembered by op and dtypes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from treadle.autodiff.reverse import cotangents_of, cut_error
from treadle.autodiff.tape import Tape, has_recipe, tape_of
from treadle.autodiff.targets import Targets, blocks
from treadle.base.caches import Cache
from treadle.base.errors import TreadleError
from treadle.base.types import TupleType
from treadle.graph.frame import tracing
from treadle.graph.leaves import Argument
from treadle.graph.numbers import number_of
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable, variable_of
from treadle.ops.families import Output
from treadle.ops.lookup import Embedding

_serial = attrgetter("serial")
LEARNED = 8192  # kinds of nodes that are remembered

_passing: Cache[Any, tuple[bool, ...]] = Cache("which inputs are derived", LEARNED)


@dataclass
class Reached:
    """The nodes that get a cotangent, by serial.

    `versions` are those that stand for a Variable, oldest first; `readers` has those
    that read a leaf, by its serial.
    """

    nodes: dict[int, Tensor] = field(default_factory=dict)
    versions: list[Tensor] = field(default_factory=list)
    derivatives: bool = False  # whether some were recorded before, and not written out
    computed_table: bool = False  # whether rows are looked up in what was computed
    # what nodes were rewritten as, by serial
    rewritten: dict[int, Tensor] = field(default_factory=dict)
    # what it may be derived by as it was: the results, and nodes by those they became
    roots: Sequence[Tensor] = ()
    origins: dict[int, Tensor] = field(default_factory=dict)
    readers: dict[int, list[Tensor]] = field(default_factory=dict)
    rows: list[Tensor] = field(default_factory=list)  # of batched runs
    taped: bool = False  # whether some versions were reached through tapes
    late: bool = False  # whether some are yet to run when the derivative is asked for

    def trainable(self) -> list[Variable]:
        """The trainable Variables that were reached, in the order of first use."""
        variables: dict[int, Variable] = {}
        for node in [*self.versions, *behind(map(tape_of, self.rows))]:
            variable = variable_of(node)
            if variable is not None and variable.trainable:
                variables.setdefault(id(variable), variable)
        return list(variables.values())

    def read_later(self) -> None:
        """Take what tapes have read for reached, in place of their rows."""
        every = [*self.versions, *behind(map(tape_of, self.rows))]
        self.versions = sorted({x.serial: x for x in every}.values(), key=_serial)
        self.taped, self.rows = bool(self.rows), []

    def groups(self, targets: Targets) -> dict[int, list[Tensor]]:
        """The nodes that each target is, by its position; none for one not reached."""
        groups: dict[int, list[Tensor]] = {}
        for serial, positions in targets.nodes.items():
            if serial in self.nodes:
                for k in positions:
                    groups.setdefault(k, []).append(self.nodes[serial])
        for node in self.versions:
            for k in targets.variables.get(id(variable_of(node)), ()):
                if all(node is not x for x in groups.setdefault(k, [])):
                    groups[k].append(node)
        return groups


def reached(ys: Sequence[Tensor], targets: Targets) -> Reached:
    """Dependence analysis: what a derivative of `ys` reaches; raises where it ends."""
    dependence = Reached()
    seen, readers = dependence.nodes, dependence.readers
    waiting: list[tuple[int, Tensor]] = []  # nodes of several results, newest first
    present: dict[int, set[int]] = {}  # the results of theirs that were reached
    stack = list(ys)
    while stack or waiting:
        if not stack:  # all that reads a node of several results is newer than it
            node = heapq.heappop(waiting)[1]
            passing = _passes(node, tuple(sorted(present[node.serial])), targets)
            stack += [x for x, p in zip(node.inputs, passing, strict=True) if p]
            continue
        node = stack.pop()
        serial = node.serial
        if serial in seen or serial < targets.floor:
            continue
        seen[serial] = node
        inputs = node.inputs
        if not inputs or blocks(node):
            if targets.lost(node):
                if not has_recipe(node):
                    raise cut_error(node)
                dependence.derivatives = True
                break
            if variable_of(node) is not None:
                dependence.versions.append(node)
            elif tape_of(node) is not None:  # rows of data alone have none
                dependence.rows.append(node)
        elif type(node.op) is Output:
            below = inputs[0]
            if below.op.family in ("derivative", "tape"):
                dependence.derivatives = True
                break
            if below.serial not in present and not blocks(below):
                present[below.serial] = set()
                heapq.heappush(waiting, (-below.serial, below))
            if below.serial in present:
                present[below.serial].add(node.op.position)
        else:
            if type(node.op) is Embedding and inputs[0].inputs:
                dependence.computed_table = True
            for x, passed in zip(inputs, _passes(node, None, targets), strict=True):
                if passed:
                    stack.append(x)
                    if not x.inputs:
                        readers.setdefault(x.serial, []).append(node)
    dependence.versions.sort(key=_serial)
    return dependence


def behind(tapes: Iterable[Tape | None]) -> list[Tensor]:
    """The versions that batched runs have read, through all runs before them."""
    return [x for x in below(tapes) if variable_of(x) is not None]


def below(tapes: Iterable[Tape | None]) -> list[Tensor]:
    """The nodes that batched runs have read, through all runs before, oldest first."""
    read: list[Tensor] = []
    seen, stack = set(), list(tapes)
    while stack:
        tape = stack.pop()
        if tape is None or tape.number in seen:
            continue
        seen.add(tape.number)
        nodes = reach(tape.sources, blocks)
        read += nodes
        stack += [tape_of(x) for x in nodes]
    return sorted(read, key=lambda node: node.serial)


def _passes(
    node: Tensor, present: tuple[int, ...] | None, targets: Targets
) -> tuple[bool, ...]:
    """Whether each input of a node gets a cotangent."""
    op, inputs = node.op, node.inputs
    dtype = None if present is not None else node.type.dtype
    # A mask of truth values gets none where one of numbers does.
    dtypes = tuple([getattr(x.type, "dtype", None) for x in inputs])
    key = number_of(op), dtype, dtypes, _repeats(inputs), present
    known = _passing.get(key)
    if known is None:
        try:
            known = _tried(node, present)
        except TreadleError as error:
            if not _leads(node, targets):
                return (False,) * len(inputs)
            name = f"gradient of {op.name}"
            raise error.located(name, where=node.line) from None
        _passing[key] = known
    return known


def _repeats(inputs: Sequence[Tensor]) -> tuple[int, ...]:
    """The first position of each operand: repeated ones may have one cotangent."""
    if len(inputs) < 2:
        return ()
    places: dict[int, int] = {}
    firsts = [places.setdefault(x.serial, k) for k, x in enumerate(inputs)]
    return tuple(firsts) if len(places) < len(inputs) else ()


def _tried(node: Tensor, present: tuple[int, ...] | None) -> tuple[bool, ...]:
    """Whether the op's rule makes each cotangent, by a trial on arguments."""
    with tracing("a derivative"):
        t = node.type
        if isinstance(t, TupleType):
            assert present is not None
            arguments = [Tensor(Argument(-1), (), x) for x in t]
            g: Any = tuple(x if k in present else None for k, x in enumerate(arguments))
        else:
            g = Tensor(Argument(-1), (), t)
        parts = cotangents_of(node, g, node)
    return tuple(part is not None for part in parts)


def _leads(node: Tensor, targets: Targets) -> bool:
    """Whether a target is among what a node was computed from."""
    nodes = reach([node], targets.ends)
    return any(targets.of(x) or targets.lost(x) for x in nodes)
