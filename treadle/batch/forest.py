"""A graph as rows: which unit is which row of its signature, and what it reads.

All of it is numbers in arrays. A value is numbered: the outputs of units from 0 on, in
creation order; leaves, which have a value already, from -1 downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from treadle.autodiff.tape import Row
from treadle.base.dtypes import is_inexact
from treadle.batch.agenda import agenda
from treadle.batch.signature import Signature, apart, shared_of, template_of
from treadle.batch.template import Template
from treadle.graph.body import Body, sign_of
from treadle.graph.leaves import LITERAL, Cut, Version
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor, settle
from treadle.ops.call import Call
from treadle.ops.families import Movement, Output

__all__ = ["Forest", "Instance", "Units", "collect"]

WIDE = 64  # operands of a node that may be a row
Numbers = np.ndarray[Any, np.dtype[np.int64]]
_depth = attrgetter("depth")


@dataclass
class Units:
    """The nodes of a run that can be rows, in creation order, and what they read.

    `read` has the rows that each unit reads, one unit after the other; `outside` the
    other nodes of the run.
    """

    nodes: list[Tensor] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    own: list[int] = field(default_factory=list)  # signature of each unit
    first: list[int] = field(default_factory=list)  # number of its first value
    read: list[int] = field(default_factory=list)
    values: dict[Tensor, int] = field(default_factory=dict)
    leaves: list[Tensor] = field(default_factory=list)
    outside: list[Tensor] = field(default_factory=list)
    count: int = 0  # values

    def leaf(self, x: Tensor) -> int:
        """The number of a node that has a value."""
        self.leaves.append(x)
        number = self.values[x] = -len(self.leaves)
        return number


class _Calls:
    """How to find what the calls of a body share, and their rows."""

    def __init__(self, body: Body) -> None:
        shared, rows = shared_of(body)
        self.shared = _several(shared)
        self.rows = _several(rows)
        self.known: dict[tuple[Tensor, ...], Signature | None] = {}


def _several(places: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The items at some places, always as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    (own,) = places or (None,)
    return (lambda x: ()) if own is None else (lambda x: (x[own],))


def collect(nodes: Sequence[Tensor], asked: Container[int] = ()) -> Units:
    """The units among the nodes of a run: what is a row, and reads nothing else.

    Parts of data are evaluated on the way: where one begins is no signature. Data is
    what is not `asked` for a derivative.
    """
    found = Units()
    calls: dict[int, _Calls] = {}
    known: dict[Any, Signature | None] = {}
    values, read = found.values, found.read
    get, count = values.get, 0
    for node in nodes:
        if node.stored is not None:
            continue
        op, inputs = node.op, node.inputs
        kind: Any = type(op)
        if kind is Output:
            start = get(inputs[0])
            if start is None:
                found.outside.append(node)
            else:
                values[node] = start + op.position  # type: ignore[attr-defined]
            continue
        signature: Signature | None = None
        operands: Sequence[Tensor] = ()
        if kind is Call:
            body = op.body  # type: ignore[attr-defined]
            own = calls.get(body.number)
            if own is None:
                own = calls[body.number] = _Calls(body)
            operands = own.rows(inputs)
            shared = own.shared(inputs)
            signature = own.known.get(shared)
            if signature is None and shared not in own.known:
                signature = own.known[shared] = _added(found, node, shared)
        elif isinstance(op, Movement) and all(_is_data(x, asked) for x in inputs):
            settle(node, op.numpy(*[x.array for x in inputs]))
            continue
        elif inputs and len(inputs) <= WIDE and not apart(op):
            key, operands = _key(values, op, inputs)
            signature = known.get(key)
            if signature is None and key not in known:
                signature = known[key] = _added(found, node, ())
        numbers: list[Any] = list(map(get, operands))
        if signature is None or (
            None in numbers and not _leaves(found, operands, numbers)
        ):
            found.outside.append(node)
            continue
        read += numbers
        values[node] = count
        found.first.append(count)
        count += signature.outputs
        found.own.append(signature.number)
        found.nodes.append(node)
    found.count = count
    return found


def _is_data(x: Tensor, asked: Container[int]) -> bool:
    """Whether a node has a value that nothing is derived by."""
    if x.stored is None or type(x.op) is Version or x.serial in asked:
        return False
    return not _carries(x)


def _added(found: Units, node: Tensor, shared: Sequence[Tensor]) -> Signature | None:
    """A new signature, if its nodes can be rows."""
    if any(x.stored is None for x in shared):
        return None
    signature = Signature.of(len(found.signatures), node)
    if signature is not None:
        found.signatures.append(signature)
    return signature


def _leaves(found: Units, operands: Sequence[Tensor], numbers: list[Any]) -> bool:
    """Number the operands that have a value; False if one has none and is no row."""
    if any(
        n is None and x.stored is None for n, x in zip(numbers, operands, strict=True)
    ):
        return False
    for k, x in enumerate(operands):
        if numbers[k] is None:
            known = found.values.get(x)
            numbers[k] = found.leaf(x) if known is None else known
    return True


def _key(
    values: dict[Tensor, int], op: Op, inputs: Sequence[Tensor]
) -> tuple[Any, list[Tensor]]:
    """What single ops have in common that are rows of one, and the rows they read."""
    key: list[Any] = [sign_of(op)]
    operands = []
    for x in inputs:
        if x.stored is not None and x not in values:
            if x.op is LITERAL:
                key.append(x.stored.tobytes())  # type: ignore[union-attr]
                continue
            if type(x.op) is Version:
                key.append(x)
                continue
        t = x.type
        key.append((t.shape, t.dtype))
        operands.append(x)
    return tuple(key), operands


class Instance:
    """The rows of one signature: the units in the order of their rows.

    `sources` has, by argument of the body, the number of the value each row reads;
    `starts` the first row of each group, and `counts` its rows.
    """

    def __init__(self, signature: Signature, units: Numbers) -> None:
        self.signature = signature
        self.units = units
        self.count = len(units)
        self.sources: dict[int, Numbers] = {}
        self.template: Template


class Forest:
    """Units in groups, with a row for each; what is alone at the end is left out.

    `steps` has the groups in the order in which they are done: (instance, first row,
    number of rows).
    """

    def __init__(self, units: Units, asked: Container[int] = ()) -> None:
        """`asked` has the serials of leaves that a derivative is taken by."""
        self.all = units
        self.asked = asked
        own = np.array(units.own, np.int64)
        counts = np.array([len(s.rows) for s in units.signatures], np.int64)[own]
        ends = np.cumsum(counts)
        read = np.array(units.read, np.int64)
        first = np.array(units.first, np.int64)
        readers = np.repeat(np.arange(len(own)), counts)
        made = read >= 0
        makers = np.searchsorted(first, read[made], "right") - 1
        depths = np.fromiter(map(_depth, units.nodes), np.int64, len(own))
        step = agenda(own, depths, readers[made], makers)
        kept = _needed(own, step, readers[made], makers)
        self.first = first
        self.kept = kept
        self.instances: list[Instance] = []
        self.instance = np.full(len(own), -1, np.int64)  # of each unit
        self.row = np.zeros(len(own), np.int64)
        groups: list[tuple[int, int, int, int]] = []
        for signature in units.signatures:
            (mine,) = np.nonzero((own == signature.number) & kept)
            if not len(mine):
                continue
            mine = mine[np.argsort(step[mine], kind="stable")]
            number = len(self.instances)
            instance = Instance(signature, mine)
            self.instances.append(instance)
            self.instance[mine] = number
            self.row[mine] = np.arange(len(mine))
            begin = ends[mine] - counts[mine]
            for k, argument in enumerate(signature.rows):
                instance.sources[argument] = read[begin + k]
            steps, starts, sizes = np.unique(
                step[mine], return_index=True, return_counts=True
            )
            rows = zip(steps.tolist(), starts.tolist(), sizes.tolist(), strict=True)
            groups += [(s, number, a, n) for s, a, n in rows]
        groups.sort()
        self.steps = [(number, a, n) for _, number, a, n in groups]
        self._choose_templates()

    def _choose_templates(self) -> None:
        """What is done to each instance, by which of its rows may get cotangents."""
        derived = np.array([self._carries(x) for x in self.all.leaves], bool)
        for instance in self.instances:
            wanted = []
            for k, sources in instance.sources.items():
                behind = sources < 0
                if not behind.all() or derived[-1 - sources[behind]].any():
                    wanted.append(k)
            instance.template = template_of(instance.signature, wanted)

    @property
    def rows(self) -> int:
        """All rows together."""
        return sum(x.count for x in self.instances)

    def alone(self) -> list[Tensor]:
        """The units that are no rows after all."""
        return [self.all.nodes[k] for k in np.flatnonzero(~self.kept).tolist()]

    def carried(self) -> list[Tensor]:
        """The leaves below which a derivative may go on."""
        return [x for x in self.all.leaves if self._carries(x)]

    def _carries(self, leaf: Tensor) -> bool:
        """Whether a derivative arrives at a node that has a value, or goes on there."""
        return leaf.serial in self.asked or _carries(leaf)

    def places(self, nodes: Sequence[Tensor]) -> tuple[Numbers, Any]:
        """Instance, output and row of each value, and which of the nodes are rows."""
        get = self.all.values.get
        numbers = np.array([get(node, -1) for node in nodes], np.int64)
        units = np.searchsorted(self.first, numbers, "right") - 1
        rows = (numbers >= 0) & self.kept[units]
        parts = self.instance[units], numbers - self.first[units], self.row[units]
        return np.stack(parts, 1), rows


def _needed(own: Numbers, step: Numbers, readers: Numbers, makers: Numbers) -> Any:
    """Which units are rows: not those whose kind is alone in every group, if no row
    reads them.
    """
    sizes = np.bincount(step)[step]
    largest = np.zeros(int(own.max(initial=0)) + 1, np.int64)
    np.maximum.at(largest, own, sizes)
    kept = largest[own] > 1
    (single,) = np.nonzero(~kept[makers])
    order = single[np.argsort(-step[readers[single]], kind="stable")]
    edges = zip(readers[order].tolist(), makers[order].tolist(), strict=True)
    for reader, maker in edges:
        if kept[reader]:
            kept[maker] = True
    return kept


def _carries(leaf: Tensor) -> bool:
    """Whether a derivative may go on below a node that has a value."""
    if not is_inexact(leaf.type.dtype):
        return False
    if type(leaf.op) is Row:
        return leaf.op.tape is not None
    if isinstance(leaf.op, Movement):  # a part of data may have been evaluated
        (x,) = leaf.inputs
        return type(x.op) is Version or _carries(x)
    return bool(leaf.inputs) or (type(leaf.op) is Cut and leaf.op.carried)
