"""Loop rerolling: steps that a loop of Python wrote out become a loop of the graph.

A decoder with attention is such a loop. Its steps read what other nodes compute, so
they are no rows; written out, each length is another program. As a `Scan` its length is
an extent like others. What reads the steps from outside reads the loop's results
instead: its inputs are replaced by equal ones, and the steps are dropped. (Compilers
do so with loops that programmers unrolled: LLVM's loop rerolling pass.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import distinct
from treadle.base.types import Type
from treadle.batch.bodies import body_of
from treadle.batch.columns import Columns, Numbers, columns
from treadle.batch.iterations import Iterations, RefusedError, Slices, slices_of
from treadle.batch.repeats import (
    LEAST,
    SMALLEST,
    Waiting,
    is_of_data,
    reads_of_steps,
    repeated,
)
from treadle.graph.leaves import CONSTANT, LITERAL
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor, remade
from treadle.ops.families import outputs_of
from treadle.ops.join import Concat
from treadle.ops.loop import Scan
from treadle.ops.movement import PermuteDims, Reshape
from treadle.ops.slice import Slice

SINGLE = 4  # values of one step that are read from outside
LOOPS = 8  # of one graph
WIDE = 64  # nodes of a depth: where there are more, much is done at once as it is


# Of data of all steps that are rows of one array, by its identity: their serials.
Stacks = dict[int, list[int]]


def reroll(
    roots: Sequence[Tensor],
    listed: bool = False,
    table: Columns | None = None,
    stacks: Stacks | None = None,
) -> bool:
    """Make loops of repeated steps that the roots depend on; whether there were any.

    Steps stay as they are if they could be rows, if somebody holds one of their values,
    and if more is known of them. Values and derivatives of all nodes do not change.
    `listed`: one list of all nodes does not count. `table`: the columns of the roots.
    `stacks` is told of data that is stacked.
    """
    stacks = {} if stacks is None else stacks
    for k in range(LOOPS):
        # No columns are kept while the next ones count who refers to what.
        graph = columns(roots) if table is None or k else table
        if not _reroll(graph, int(listed), stacks):
            return k > 0
        del graph
    return True


def _reroll(graph: Columns, listed: int, stacks: Stacks) -> bool:
    """Make a loop of those steps that most nodes are in, and of others that do the
    same."""
    if len(graph.nodes) < LEAST * SMALLEST or not reads_of_steps(graph):
        return False
    # Depths that occur: how deep the versions lie that it reads is history.
    if len(graph.nodes) > WIDE * len(distinct(graph.depths)):
        return False
    waiting = Waiting(graph, listed)
    like: _Loop | None = None
    within = np.zeros(len(waiting.places) + 1, np.bool_)  # the last: what has a value
    for steps in repeated(waiting):
        try:
            members = Iterations(waiting, steps, LEAST if like is None else 2)
            loop = _Loop(members, like)
            if within[loop.around()].any():
                continue
            changes = loop.changes(stacks)
        except RefusedError:
            if like is None:
                return False
            continue
        for node, inputs in changes:
            node.inputs = inputs
        like = like or loop
        within[np.concatenate(members.ranks)] = True
    return like is not None


class _Loop:
    """A loop of some steps: what its body reads, and what others read of it.

    It may be `like` another one, of which each step reads the same kinds of things.
    """

    def __init__(self, members: Iterations, like: _Loop | None = None) -> None:
        self.members = members
        self.slices: dict[int, Slices] = {}
        for v in range(len(members.ranks)):
            taken = slices_of(members, v)
            if taken is not None:
                self.slices[v] = taken
        # By what is carried and where it begins; by place; by value.
        self.carries: dict[tuple[int, int], int] = {}
        self.fixed: dict[int, int] = {}
        self.data: list[Numbers] = []
        self.stacked: dict[int, int] = {}
        self.operands = [self._read(v) for v in self._inner]
        if like is not None and self.operands != like.operands:
            raise RefusedError
        graph = members.waiting.columns
        if not any(is_of_data(graph, k) for k in [*self.fixed, *self._sources]):
            raise RefusedError

    @property
    def _inner(self) -> list[int]:
        """The values that the body computes."""
        return [v for v in range(len(self.members.ranks)) if v not in self.slices]

    @property
    def _sources(self) -> list[int]:
        return [x.source for x in self.slices.values()]

    def _read(self, value: int) -> list[tuple[str, Any]]:
        """The operands of a value in each step: their kinds, and which ones."""
        places = self.members.waiting.each(self.members.ranks[value])
        return [self._kind(every) for every in places.T]

    def _kind(self, places: Numbers) -> tuple[str, Any]:
        """The kind of the operands, one a step, at some places, and which ones."""
        members, waiting = self.members, self.members.waiting
        rank, node, order = waiting.rank[places], places[0], np.arange(members.count)
        steps = np.where(rank < 0, -1, members.step[rank])
        values = members.value[rank]
        if (steps == order).all() and _are_equal(values):
            return "value", int(values[0])
        if (steps[1:] == order[:-1]).all() and _are_equal(values[1:]):
            return "carry", self._carry(int(values[1]), int(node))
        if (rank >= members.first).any():
            raise RefusedError
        if _are_equal(places):
            if members.nodes[node].op is not LITERAL:
                return "fixed", self.fixed.setdefault(int(node), len(self.fixed))
        elif waiting.data[places].all() and _are_equal(waiting.types[places]):
            self.data.append(places)
            return "data", len(self.data) - 1
        literals = waiting.literals[places]
        if literals[0] < 0 or not _are_equal(literals):
            raise RefusedError
        return "literal", int(literals[0])

    def around(self) -> Numbers:
        """The ranks of what is read from outside, and of what reads values of it."""
        waiting = self.members.waiting
        read = [*self.fixed, *self._sources, *(begin for _, begin in self.carries)]
        ranks = waiting.rank[np.array(read, np.int64)]
        return np.concatenate([ranks, np.array([*self.members.outside()], np.int64)])

    def _carry(self, value: int, begin: int) -> int:
        """The number of a carry, which is a place before the first step."""
        members = self.members
        types = members.nodes[begin].type, members.node(value).type
        plain = types[0] == types[1] and isinstance(types[0], Type)
        if not plain or value in self.slices or not members.is_before(begin):
            raise RefusedError
        return self.carries.setdefault((value, begin), len(self.carries))

    def changes(self, stacks: Stacks) -> list[tuple[Tensor, tuple[Tensor, ...]]]:
        """The nodes that read the steps, with what they are to read instead."""
        readers = [*self.members.outside()]
        wanted = [self._wanted(reader) for reader in readers]
        single = {x for every in wanted for x in every if isinstance(x, tuple)}
        if sum(self._carried(*x) is None for x in single) > SINGLE:
            raise RefusedError
        line = _Line(self.members, self._last(readers))
        results = self._scan(line)
        known: dict[Any, Tensor] = {}
        changed = []
        places = self.members.waiting.places
        for reader, every in zip(readers, wanted, strict=True):
            node = self.members.nodes[places[reader]]
            inputs: list[Tensor] = []
            for x in every:
                if isinstance(x, Tensor):
                    inputs.append(x)
                    continue
                axis = node.op.axis if isinstance(x, int) else None
                if (x, axis) not in known:
                    known[x, axis] = self._result(line, results, x, axis)
                inputs.append(known[x, axis])
            changed.append((node, tuple(inputs)))
        line.end()
        stacks |= line.stacks
        return changed

    def _last(self, readers: Sequence[int]) -> int:
        """The serial that all new nodes are below."""
        places = self.members.waiting.places[np.array(readers, np.int64)]
        return int(self.members.waiting.columns.serials[places].min())

    def _wanted(self, reader: int) -> list[Tensor | int | tuple[int, int]]:
        """The operands of a node: another node, a value of all steps, one after the
        other, or of one step."""
        members, waiting = self.members, self.members.waiting
        every: list[Tensor | int | tuple[int, int]] = []
        places, node = waiting.read(reader), members.nodes[waiting.places[reader]]
        joins = isinstance(node.op, Concat)
        if len(node.inputs) != len(places):  # another loop has joined some
            raise RefusedError
        k = 0
        while k < len(places):
            rank = int(waiting.rank[places[k]])
            value = int(members.value[rank]) if rank >= 0 else -1
            if value < 0:
                every.append(node.inputs[k])
                k += 1
                continue
            if value in self.slices:
                raise RefusedError
            ranks = members.ranks[value]
            behind = waiting.rank[np.array(places[k : k + len(ranks)], np.int64)]
            if joins and np.array_equal(behind, ranks):
                every.append(value)
                k += len(ranks)
            else:
                every.append((value, int(members.step[rank])))
                k += 1
            last = every[-1]
            if not isinstance(last, tuple) or self._carried(*last) is None:
                self.stacked.setdefault(value, len(self.stacked))
        return every

    def _carried(self, value: int, step: int) -> int | None:
        """The carry that has a value at the end, if that is what is wanted."""
        if step != self.members.count - 1:
            return None
        return next((k for (v, _), k in self.carries.items() if v == value), None)

    def _scan(self, line: _Line) -> tuple[Tensor, ...]:
        """The results of the loop."""
        members, inner = self.members, self._inner
        place = {v: k for k, v in enumerate(inner)}
        scanned = {v: len(self.carries) + k for k, v in enumerate(self.slices)}
        first = len(self.carries) + len(scanned) + len(self.data)
        operands: list[int | Tensor] = []
        for kind, x in (pair for every in self.operands for pair in every):
            if kind == "value":
                operands.append(~scanned[x] if x in scanned else place[x])
            elif kind == "literal":
                places = members.waiting.literals == x
                operands.append(members.nodes[int(np.argmax(places))])
            elif kind == "data":
                operands.append(~(len(self.carries) + len(self.slices) + x))
            else:
                operands.append(~x if kind == "carry" else ~(first + x))
        nodes = [members.node(v) for v in inner]
        begins = [members.nodes[begin] for _, begin in self.carries]
        fixed = [members.nodes[k] for k in self.fixed]
        types = [x.type for x in begins]
        types += [members.node(v).type for v in self.slices]
        types += [members.nodes[places[0]].type for places in self.data]
        types += [x.type for x in fixed]
        results = [place[v] for v, _ in self.carries]
        results += [place[v] for v in self.stacked]
        body = body_of("step", nodes, operands, types, results)
        rows = [self._rows(line, v) for v in self.slices]
        rows += [line.stacked([members.nodes[k] for k in x]) for x in self.data]
        scan = Scan(body, members.count, len(begins), len(rows))
        return line.results(line.put(scan, *begins, *rows, *fixed))

    def _rows(self, line: _Line, value: int) -> Tensor:
        """The slices of all steps, as rows."""
        members, taken = self.members, self.slices[value]
        source, op = members.nodes[taken.source], members.node(value).op
        shape, axis = members.node(value).type.shape, taken.axis
        return line.rows(source, op, shape, axis, taken.stride, members.count)  # type: ignore[arg-type]

    def _result(
        self, line: _Line, results: Sequence[Tensor], x: Any, axis: int | None
    ) -> Tensor:
        """A value of all steps joined along an axis, or that of one step."""
        value, step = (x, None) if isinstance(x, int) else x
        if step is not None:
            carry = self._carried(value, step)
            if carry is not None:
                return results[carry]
        rows = results[len(self.carries) + self.stacked[value]]
        if step is None:
            return line.joined(rows, axis)  # type: ignore[arg-type]
        return line.row(rows, step)


def _are_equal(numbers: Numbers) -> bool:
    return bool((numbers == numbers[0]).all())


class _Line:
    """New nodes of a loop, with the serials of steps that it replaces: they lie between
    what it reads and what reads it.
    """

    def __init__(self, members: Iterations, last: int) -> None:
        self.last = last
        self.like, self.mark = members.node(0), members.mark
        serials = members.waiting.columns.serials[members.waiting.places]
        self.serials = np.sort(serials[np.concatenate(members.ranks)])
        self.first = -1
        self.nodes: list[Tensor] = []
        self.stacks: Stacks = {}

    def put(self, op: Op, *inputs: Tensor) -> Tensor:
        """One more node."""
        type_: Any = op.infer(*[x.type for x in inputs])
        self.first = max(
            [self.first, *(x.serial for x in inputs if not self._is_new(x))]
        )
        return self._note(remade(self.like, op, inputs, type_))

    def results(self, node: Tensor) -> tuple[Tensor, ...]:
        """The results of a node of several, or the one that it is."""
        every = outputs_of(node)
        return every if every[0] is node else tuple(map(self._note, every))

    def _is_new(self, node: Tensor) -> bool:
        return any(node is x for x in self.nodes)

    def _note(self, node: Tensor) -> Tensor:
        node.mark = self.mark
        self.nodes.append(node)
        return node

    def end(self) -> None:
        """Give the nodes their serials."""
        between = (self.serials > self.first) & (self.serials < self.last)
        free = self.serials[between][-len(self.nodes) :].tolist()
        if len(free) < len(self.nodes):
            raise RefusedError
        for node, serial in zip(self.nodes, free, strict=True):
            node.serial = serial

    def rows(
        self,
        source: Tensor,
        op: Slice,
        shape: tuple[int, ...],
        axis: int,
        stride: int,
        count: int,
    ) -> Tensor:
        """Slices of `shape`, the first of which an op takes, as rows."""
        last = op.starts[axis] + stride * (count - 1)
        ends = last + 1 if stride > 0 else last - 1
        stops = (*op.stops[:axis], ends, *op.stops[axis + 1 :])
        strides = (*op.steps[:axis], stride, *op.steps[axis + 1 :])
        every = self.put(Slice(op.starts, stops, strides), source)
        if axis:
            rest = [k for k in range(len(shape)) if k != axis]
            every = self.put(PermuteDims((axis, *rest)), every)
        return self.put(Reshape((count, *shape)), every)

    def stacked(self, nodes: Sequence[Tensor]) -> Tensor:
        """Data of all steps, as rows."""
        array = np.stack([x.stored for x in nodes])  # type: ignore[misc]
        array.setflags(write=False)
        rows = remade(self.like, CONSTANT, (), Type(array.shape, nodes[0].type.dtype))
        rows.stored = array
        self.stacks[id(array)] = [x.serial for x in nodes]
        self.nodes.append(rows)
        return rows

    def joined(self, rows: Tensor, axis: int) -> Tensor:
        """Rows one after the other along an axis that they have."""
        count, *shape = rows.type.shape
        if axis:
            order = *range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)
            rows = self.put(PermuteDims(order), rows)
        shape[axis] *= count
        return self.put(Reshape(tuple(shape)), rows)

    def row(self, rows: Tensor, step: int) -> Tensor:
        """One of the rows."""
        _, *shape = rows.type.shape
        starts = step, *[0] * len(shape)
        part = Slice(starts, (step + 1, *shape), (1,) * len(starts))
        return self.put(Reshape(tuple(shape)), self.put(part, rows))
