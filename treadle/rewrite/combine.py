"""Parallel products of a loop's body combined into one.

Products that share an operand, x @ V, x @ W, ..., of weights that stay the same are one
product x @ [V W ...] of which each is a part; a sum of products a @ V + b @ W + ... is
one product [a b ...] @ [V; W; ...] with longer sums. The weights are put side by side
once, before the loop (XLA merges such dots, TVM combines parallel products). Sums of
the parts with one another and with what stays are sums of the wholes, and so is what
the gradients of weights add up of a, b, ... (superword-level parallelism: Larsen and
Amarasinghe 2000). Weights that are in no near cache stay apart: their products are work
enough for all threads, and a copy of them would be dear.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise
from string import ascii_letters
from typing import Any, NamedTuple

from treadle.base.types import Shape, equal_shapes
from treadle.graph.body import Body
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import reach, users
from treadle.ops.contract import Contract, letters
from treadle.ops.elementwise import Add
from treadle.ops.families import Elementwise
from treadle.ops.join import Concat, parts_of
from treadle.ops.reduce import Sum
from treadle.rewrite.facts import is_wide
from treadle.rewrite.products import NEAR, above, below


def combined(
    body: Body, first: int, stop: int, carried: Sequence[int], read: Set[int]
) -> Body:
    """A body whose parallel products are one each, as far as the outputs `read`, and
    those `carried` from step to step, need them. Its arguments from `first` to `stop`
    stay the same at every step."""
    for find in (_Groups.join_sums, _Groups.join_shared):
        states = [body.outputs[k] for k in carried]
        groups = _Groups(body, first, stop, states, [body.outputs[k] for k in read])
        find(groups)
        if groups.by_part or groups.sums:
            body = groups.written()
    return body


class _SideBySide(NamedTuple):
    """Nodes to be put side by side along an axis."""

    nodes: list[Tensor]
    axis: int


@dataclass(eq=False)
class _Group:
    """Nodes that are the parts of a whole along an axis: of `op` on operands each of
    which is a node, some nodes side by side, or the whole of another group."""

    parts: list[Tensor]
    axis: int
    op: Any
    operands: list[Tensor | _SideBySide | _Group]

    def order(self, parts: Sequence[Tensor]) -> None:
        """Have the parts in another order, each with its operands."""
        places = {x.serial: k for k, x in enumerate(self.parts)}
        self._permute([places[x.serial] for x in parts])

    def _permute(self, order: Sequence[int]) -> None:
        self.parts[:] = [self.parts[k] for k in order]
        for y in self.operands:
            if isinstance(y, _SideBySide):
                y.nodes[:] = [y.nodes[k] for k in order]
            elif isinstance(y, _Group):
                y._permute(order)


class _Product(NamedTuple):
    """A product, and the number of one of its operands; the letters of the other one,
    of this one and of the result, in the order in which they come."""

    node: Tensor
    k: int
    others: str
    letters: str
    out: str

    @staticmethod
    def of(node: Tensor, k: int) -> _Product:
        """A product seen from its operand k."""
        spec = letters(node.op.spec)  # type: ignore[attr-defined]
        three = spec[1 - k], spec[k], spec[2]
        names = dict(zip(dict.fromkeys("".join(three)), ascii_letters, strict=False))
        return _Product(node, k, *["".join([names[c] for c in s]) for s in three])

    @property
    def operand(self) -> Tensor:
        return self.node.inputs[self.k]

    @property
    def other(self) -> Tensor:
        return self.node.inputs[1 - self.k]

    def without(self, letter: str) -> Hashable:
        """The key that parts of one product along a letter have in common."""
        sizes = dict(zip(self.others, self.other.type.shape, strict=True))
        sizes |= zip(self.letters, self.operand.type.shape, strict=True)
        del sizes[letter]
        return self[1:], letter, self.node.type.dtype, tuple(sizes.values())

    def on(self, other: Any, operand: Any) -> tuple[Contract, list[Any]]:
        """The same product of other operands."""
        pair = [(self.others, other), (self.letters, operand)]
        (a, x), (b, y) = pair if self.k else pair[::-1]
        return Contract(f"{a},{b}->{self.out}"), [x, y]


class _Sum(NamedTuple):
    """A sum with fewer products: those of several, with their operands, and the other
    terms."""

    products: list[tuple[Contract, list[_SideBySide]]]
    rest: list[Tensor]


class _Groups:
    """The parallel products of a body."""

    def __init__(
        self,
        body: Body,
        first: int,
        stop: int,
        states: Sequence[Tensor],
        read: Sequence[Tensor],
    ) -> None:
        outputs = [*states, *read]
        self.body, self.nodes = body, reach(outputs)
        self.states = above(states)  # all that these need
        changing = (*body.arguments[:first], *body.arguments[stop:])
        self.varies = below(self.nodes, {x.serial for x in changing})
        self.users = users(self.nodes)
        self.asked = {y.serial for y in outputs}
        self.by_part: dict[int, _Group] = {}
        self.sums: dict[int, _Sum] = {}
        self.rows: dict[Any, _SideBySide] = {}  # operands of sums, by their serials
        self.late: set[int] = set()  # parts that only results have

    def join_sums(self) -> None:
        """Find sums of products, and what else is done to their operands."""
        for x in self.nodes:
            self._join_terms(x)
        for row in self.rows.values():
            self._follow(row)

    def join_shared(self) -> None:
        """Find products that share an operand, and sums of these."""
        self._share(p for x in self.nodes if (p := self._weighted(x)) is not None)
        waiting = list({id(g): g for g in self.by_part.values()}.values())
        for group in waiting:
            if (more := self._added(group)) is not None:
                waiting.append(more)

    def _weighted(self, x: Tensor) -> _Product | None:
        """A node as a product with near weights, if it is one."""
        if not isinstance(x.op, Contract) or x.serial in self.by_part:
            return None
        same = [k for k, y in enumerate(x.inputs) if y.serial not in self.varies]
        if len(same) != 1 or x.inputs[same[0]].type.nbytes > NEAR:
            return None
        return _Product.of(x, same[0])

    def _add(self, group: _Group) -> _Group:
        self.by_part |= dict.fromkeys([x.serial for x in group.parts], group)
        return group

    # -- products that share an operand, and their sums -------------------------------

    def _share(self, products: Iterable[_Product]) -> None:
        alike: dict[Any, list[_Product]] = {}
        for p in products:
            columns = [c for c in p.out if c not in p.others]
            if columns:
                stays = p.node.serial in self.states  # in the loop
                key = p.other.serial, stays, columns[-1], p.without(columns[-1])
                alike.setdefault(key, []).append(p)
        for (*_, column, _), several in alike.items():
            if len(several) > 1:
                first = several[0]
                axis = first.letters.index(column)
                row = _SideBySide([p.operand for p in several], axis)
                op, operands = first.on(first.other, row)
                parts = [p.node for p in several]
                self._add(_Group(parts, first.out.index(column), op, operands))

    def _added(self, group: _Group) -> _Group | None:
        """The group of the sums of all parts, each with what stays or with a part of
        another group, if nobody else reads the parts."""
        parts, axis = group.parts, group.axis
        shapes = [x.type.shape for x in parts]
        readers = [self._reader(x) for x in parts]
        sums = [y for y in readers if y is not None and isinstance(y.op, Add)]
        if len({x.serial for x in sums}) < len(parts):
            return None
        if self.by_part.keys() & {x.serial for x in sums}:
            return None
        if [x.type.shape for x in sums] != shapes:
            return None
        terms = [s.inputs[s.inputs[0] is x] for s, x in zip(sums, parts, strict=True)]
        other = self.by_part.get(terms[0].serial)
        operand: _Group | _SideBySide
        if other is not None and other is not group:
            same = {x.serial for x in other.parts} == {x.serial for x in terms}
            if not same or any(self._reader(x) is None for x in terms):
                return None
            if other.axis != axis or [x.type.shape for x in terms] != shapes:
                return None
            other.order(terms)
            operand = other
        else:
            along = axis - parts[0].type.ndim + terms[0].type.ndim
            if along < 0 or any(x.serial in self.varies for x in terms):
                return None
            if len({_without(x.type.shape, along) for x in terms}) > 1:
                return None
            if [x.type.shape[along] for x in terms] != [n[axis] for n in shapes]:
                return None
            operand = _SideBySide(terms, along)
        return self._add(_Group(sums, axis, Add(), [group, operand]))

    def _reader(self, x: Tensor) -> Tensor | None:
        """The one node that reads another, if there is no more than that."""
        readers = self.users.get(x.serial, [])
        return readers[0] if len(readers) == 1 and x.serial not in self.asked else None

    # -- sums of products -------------------------------------------------------------

    def _join_terms(self, total: Tensor) -> None:
        """Products of one sum with near weights as one, where what they multiply is
        computed in the step: it is put side by side as it is stored."""
        if not self._is_sum(total) or not is_wide(total):
            return
        reader = self._reader(total)
        if reader is not None and self._is_sum(reader):
            return  # a part of a larger one
        alike: dict[Any, list[_Product]] = {}
        for x in (terms := self._terms(total)):
            p = self._weighted(x)
            if p is None or not isinstance(p.other.op, Elementwise):
                continue
            folded = [c for c in p.others if c not in p.out]
            if folded and equal_shapes(x.type.shape, total.type.shape):
                key = folded[-1], p.without(folded[-1])
                alike.setdefault(key, []).append(p)
        joined, products = set[int](), []
        for (folded, _), several in alike.items():
            once = {p.other.serial: p for p in several}
            if len(once) > 1:
                chosen = [once[k] for k in sorted(once)]
                axis = chosen[0].others.index(folded)
                row = _SideBySide([p.other for p in chosen], axis)
                row = self.rows.setdefault((axis, *sorted(once)), row)
                axis = chosen[0].letters.index(folded)
                weights = _SideBySide([p.operand for p in chosen], axis)
                products.append(chosen[0].on(row, weights))
                joined |= {p.node.serial for p in chosen}
        if products:
            rest = [x for x in terms if x.serial not in joined]
            self.sums[total.serial] = _Sum(products, rest)

    def _is_sum(self, x: Tensor) -> bool:
        is_part = x.serial in self.by_part
        return isinstance(x.op, Add) and x.serial in self.varies and not is_part

    def _terms(self, total: Tensor) -> list[Tensor]:
        """The terms of a sum, in order."""
        terms: list[Tensor] = []
        stack = [*total.inputs]
        while stack:
            x = stack.pop()
            if self._is_sum(x) and self._reader(x) is not None:
                stack += x.inputs
            else:
                terms.append(x)
        return sorted(terms, key=lambda x: x.serial)

    # -- what results alone have of operands side by side -----------------------------

    def _follow(self, row: _SideBySide) -> None:
        """Make products of the nodes of a row with one other node, and sums of each,
        groups, where only results come of them."""
        alike: dict[Any, dict[int, Tensor]] = {}  # readers by what they read of the row
        wholes: dict[Any, tuple[int, Op, list[Any]]] = {}
        for x in row.nodes:
            for y in self.users.get(x.serial, []):
                key, *whole = self._whole(x, y, row)
                if key is not None and self._ends(y):
                    alike.setdefault(key, {})[x.serial] = y
                    wholes.setdefault(key, tuple(whole))
        for key, readers in alike.items():
            parts = {y.serial: y for y in readers.values()}
            if len(parts) == len(row.nodes) and not self.by_part.keys() & parts.keys():
                self._add(_Group([*parts.values()], *wholes[key]))
                self.late |= parts.keys()

    def _whole(self, x: Tensor, y: Tensor, row: _SideBySide) -> tuple[Any, ...]:
        """The whole that a reader of a node of a row may be a part of: what is the same
        for all parts, the axis, the op, and its operands."""
        axis = row.axis
        if isinstance(y.op, Contract) and y.inputs[0] is not y.inputs[1]:
            p = _Product.of(y, int(y.inputs[1] is x))
            c = p.letters[axis]
            if c in p.out and c not in p.others:
                key = p.other.serial, p.without(c)
                return key, p.out.index(c), *p.on(p.other, row)
        if isinstance(y.op, Sum) and axis not in y.op.axes:
            before = 0 if y.op.keepdims else sum(k < axis for k in y.op.axes)
            return y.op, axis - before, y.op, [row]
        return (None,)

    def _ends(self, x: Tensor) -> bool:
        """Return True if results alone read a node, in sums."""
        if x.serial in self.asked:
            return False
        stack = [x]
        while stack:
            readers = self.users.get(stack.pop().serial, [])
            if not all(isinstance(y.op, Add) for y in readers):
                return False
            stack += readers
        return True

    # -- the body with wholes ---------------------------------------------------------

    def written(self) -> Body:
        """The body with the wholes of all groups, and sums with fewer products."""
        late = below(self.nodes, self.late)
        rewritten: dict[int, Tensor] = {}
        wholes: dict[int, Tensor] = {}

        def now(x: Any) -> Tensor:
            if isinstance(x, Tensor):
                return rewritten.get(x.serial, x)
            if id(x) not in wholes:
                side_by_side = isinstance(x, _SideBySide)
                op = Concat(x.axis) if side_by_side else x.op
                operands = x.nodes if side_by_side else x.operands
                wholes[id(x)] = op(*map(now, operands))
            return wholes[id(x)]

        # What follows from all nodes of a row waits for the last of them.
        for x in sorted(self.nodes, key=lambda x: (x.serial in late, x.serial)):
            if x.serial in rewritten:
                continue
            if (group := self.by_part.get(x.serial)) is not None:
                pieces = _parts(now(group), group)
                rewritten |= zip([y.serial for y in group.parts], pieces, strict=True)
            elif (total := self.sums.get(x.serial)) is not None:
                terms = [op(*map(now, operands)) for op, operands in total.products]
                rewritten[x.serial] = _total([*terms, *map(now, total.rest)])
            elif any(y.serial in rewritten for y in x.inputs):
                rewritten[x.serial] = remade(x, x.op, tuple(map(now, x.inputs)), x.type)
        body = self.body
        return Body(body.name, body.arguments, [now(y) for y in body.outputs])


def _parts(whole: Tensor, group: _Group) -> list[Tensor]:
    """The parts of the whole of a group."""
    extents = [x.type.shape[group.axis] for x in group.parts]
    return parts_of(whole, group.axis, [*pairwise(accumulate(extents, initial=0))])


def _total(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for x in terms[1:]:
        total = Add()(total, x)
    return total


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]
