"""A graph as rows: which unit is which row of its signature, and what it reads.

All of it is numbers in arrays. A value is numbered: the outputs of units from 0 on, in
creation order; leaves, which have a value already, from -1 downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from treadle.base.dtypes import is_inexact
from treadle.batch.agenda import agenda
from treadle.batch.signature import Signature, apart, shared_of, template_of
from treadle.batch.template import Template
from treadle.graph.body import sign_of
from treadle.graph.leaves import LITERAL, Cut, Version
from treadle.graph.tensor import Tensor
from treadle.ops.call import Call
from treadle.ops.families import Output

__all__ = ["Forest", "Instance", "Units", "collect"]

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class Units:
    """The nodes of a run that can be rows, in creation order, and what they read.

    `read` has the rows that each unit reads, one unit after the other.
    """

    nodes: list[Tensor] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    own: list[int] = field(default_factory=list)  # signature of each unit
    first: list[int] = field(default_factory=list)  # number of its first value
    read: list[int] = field(default_factory=list)
    values: dict[int, int] = field(default_factory=dict)  # by serial
    leaves: list[Tensor] = field(default_factory=list)
    count: int = 0  # values

    def leaf(self, x: Tensor) -> int:
        """The number of a node that has a value."""
        self.leaves.append(x)
        number = self.values[x.serial] = -len(self.leaves)
        return number


def collect(nodes: Sequence[Tensor]) -> Units:
    """The units among the nodes of a run: what is a row, and reads nothing else."""
    found = Units()
    known: dict[Any, Signature | None] = {}
    values, read, leaf = found.values, found.read, found.leaf
    outside: set[int] = set()  # nodes that are no rows, and what reads them
    for node in nodes:
        if node.stored is not None:
            continue
        op, inputs, serial = node.op, node.inputs, node.serial
        kind = type(op)
        if kind is Output:
            start = values.get(inputs[0].serial)
            if start is None:
                outside.add(serial)
            else:
                values[serial] = start + op.position  # type: ignore[attr-defined]
            continue
        start = len(read)
        key: list[Any]
        if kind is Call:
            shared, rows = shared_of(op.body)  # type: ignore[attr-defined]
            key = [id(op.body), *[inputs[k].serial for k in shared]]  # type: ignore[attr-defined]
            ready = all(inputs[k].stored is not None for k in shared)
            operands: Any = [inputs[k] for k in rows]
        else:
            ready = bool(inputs) and not apart(op)
            key = [sign_of(op)] if ready else []
            operands = inputs
        for x in operands if ready else ():
            number = values.get(x.serial)
            if number is None:
                if x.stored is None:
                    ready = False
                    break
                if kind is not Call and x.op is LITERAL:
                    key.append(x.stored.tobytes())  # type: ignore[union-attr]
                    continue
                if kind is not Call and type(x.op) is Version:
                    key.append(x.serial)
                    continue
                number = leaf(x)
            if kind is not Call:
                t = x._type
                key.append((t.shape, t.dtype))
            read.append(number)
        signature = None
        if ready:
            name = tuple(key)
            if name in known:
                signature = known[name]
            else:
                signature = Signature.of(len(found.signatures), node)
                known[name] = signature
                if signature is not None:
                    found.signatures.append(signature)
        if signature is None:
            del read[start:]
            outside.add(serial)
            continue
        values[serial] = found.count
        found.first.append(found.count)
        found.count += signature.outputs
        found.own.append(signature.number)
        found.nodes.append(node)
    return found


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

    def __init__(self, units: Units) -> None:
        self.all = units
        own = np.array(units.own, np.int64)
        counts = np.array([len(s.rows) for s in units.signatures], np.int64)[own]
        ends = np.cumsum(counts)
        read = np.array(units.read, np.int64)
        first = np.array(units.first, np.int64)
        readers = np.repeat(np.arange(len(own)), counts)
        made = read >= 0
        makers = np.searchsorted(first, read[made], "right") - 1
        depths = np.array([x.depth for x in units.nodes], np.int64)
        step = agenda(own, depths, readers[made], makers)
        kept = _needed(step, readers[made], makers)
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
        derived = np.array([_carries(x) for x in self.all.leaves], bool)
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

    def serials(self) -> set[int]:
        """The serials of the nodes that are rows."""
        values = self.all.values
        serials = np.fromiter(values.keys(), np.int64, len(values))
        numbers = np.fromiter(values.values(), np.int64, len(values))
        units = np.searchsorted(self.first, numbers, "right") - 1
        mine = (numbers >= 0) & self.kept[units]
        return set(serials[mine].tolist())

    def carried(self) -> list[Tensor]:
        """The leaves below which a derivative may go on."""
        return [x for x in self.all.leaves if _carries(x)]

    def place(self, serial: int) -> tuple[int, int, int] | None:
        """Instance, output and row of a node's value; None where it is no row."""
        number = self.all.values.get(serial, -1)
        if number < 0:
            return None
        unit = int(np.searchsorted(self.first, number, "right")) - 1
        if not self.kept[unit]:
            return None
        output = number - int(self.first[unit])
        return int(self.instance[unit]), output, int(self.row[unit])


def _needed(step: Numbers, readers: Numbers, makers: Numbers) -> Any:
    """Which units are rows: not those that are alone in a group which none needs."""
    sizes = np.bincount(step)
    kept = sizes[step] > 1
    order = np.argsort(-step[readers], kind="stable")
    for reader, maker in zip(
        readers[order].tolist(), makers[order].tolist(), strict=True
    ):
        if kept[reader]:
            kept[maker] = True
    return kept


def _carries(leaf: Tensor) -> bool:
    """Whether a derivative may go on below a node that has a value."""
    if not is_inexact(leaf.type.dtype):
        return False
    return bool(leaf.inputs) or (type(leaf.op) is Cut and leaf.op.carried)
