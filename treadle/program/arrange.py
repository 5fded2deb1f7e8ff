"""The arrangement of a graph in steps: fused units in order, and stored values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence, Set

from treadle.base.caches import lazy
from treadle.base.dtypes import float32, float64, int32
from treadle.base.symbolic import at_least, is_same
from treadle.base.types import TupleType
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.loops.join import joined, pieces
from treadle.loops.lower import is_virtual, kept_in_memory, row_major
from treadle.ops.contract import Contract
from treadle.ops.families import Movement, Output
from treadle.ops.join import Concat
from treadle.ops.movement import Reshape
from treadle.program.alias import after_readers
from treadle.program.columns import fold_columns_together
from treadle.program.contract import (
    Layout,
    View,
    is_narrow,
    is_widened,
    layout_of,
    view_of,
    widens,
)
from treadle.program.convolution import (
    Convolution,
    as_product,
    convolution_of,
    is_direct,
)
from treadle.program.epilogue import epilogues
from treadle.program.group import group, ordered
from treadle.program.layout import Order, orders_of, strides_in
from treadle.program.recompute import recompute
from treadle.program.units import MEMBERS, Unit

LARGE = 1 << 24  # bytes: with less memory than this none is saved
PRODUCTS = (float32, float64, int32)  # the types contractions have kernels for


def is_leaf(node: Tensor) -> bool:
    """Whether a node is there before a program runs."""
    return node.stored is not None or isinstance(node.op, Argument)


def _among(serials: Set[int]) -> Callable[[Tensor], bool]:
    """Whether a node is one of these."""
    return lambda node: node.serial in serials


def _of_parts(nodes: Sequence[Tensor]) -> set[int]:
    """The joins that copy the parts of other joins, whose dimensions they read merged:
    which part an element is from would be asked for each, by divisions.
    """
    copying = set()
    for join in nodes:
        for x in join.inputs if type(join.op) is Concat else ():
            base, divides = x, False
            while isinstance(base.op, Movement) and is_virtual(base):
                divides |= _merges(base)
                (base,) = base.inputs
            if not divides or type(base.op) is not Concat:
                continue
            if pieces(x)[0][0] is x:  # a part of the other join, say
                kept_in_memory(base)
            else:
                copying.add(join.serial)
    return copying


def _merges(node: Tensor) -> bool:
    """Whether a node has several dimensions of its operand as one: where an element was
    takes divisions.
    """
    (x,) = node.inputs
    steps = row_major(node)
    if not isinstance(node.op, Reshape):
        return False
    pairs = zip(x.type.shape, row_major(x), strict=True)
    return any(
        n != 1 and not any(is_same(step, other) for other in steps) for n, step in pairs
    )


def _transparent() -> Callable[[Tensor], bool]:
    """A test of nodes that need no buffer: their readers compute them."""
    known: dict[int, bool] = {}

    def answer(node: Tensor) -> bool:
        result = known.get(node.serial)
        if result is None:
            result = known[node.serial] = is_virtual(node)
        return result

    return answer


class Arrangement:
    """The units of a graph in an order in which they can run, and who stores what.

    `versions` are pairs (new version, the argument it may be written over).
    `finishes` has, by the serial of a product, the unit that the product does itself.
    `orders` has those of arguments that are not row-major, `loose` the roots that
    need not be; `nodes` are those that the roots depend on, where they are known;
    `computes` tells of which kernels may be made at all.
    """

    def __init__(
        self,
        roots: Mapping[int, Tensor],
        versions: Sequence[tuple[Tensor, Tensor]],
        supported: Callable[[Tensor], bool],
        fuse: bool,
        orders: Mapping[int, Order] | None = None,
        loose: Collection[int] = (),
        nodes: Sequence[Tensor] | None = None,
        computes: Callable[[Tensor], bool] = lambda node: True,
    ) -> None:
        self.roots, self.computes = roots, computes
        self.versions = versions
        reached = reach(list(roots.values())) if nodes is None else nodes
        copying = _of_parts(reached)
        computed = {n.serial for n in reached if supported(n)}
        self.supported = _among(computed - copying)
        for node in reached:  # what no kernel reads through lies in memory
            if not self.supported(node) and is_virtual(node):
                kept_in_memory(node)
        self.transparent = _transparent()
        self.nodes = [n for n in reached if not is_leaf(n)]
        self.lent = self._lent({new.serial for new, _ in versions})
        self.results = {self.lent.get(n.serial, n).serial for n in roots.values()}
        asked = {
            self.lent.get(n.serial, n).serial
            for k, n in roots.items()
            if k not in loose or n.serial in self.lent
        }
        self.orders = dict(orders or {})
        if fuse:
            self.orders = orders_of(self.nodes, asked, self.orders)
        if fuse:
            recompute(self.nodes, self.supported)
            self.transparent = _transparent()
        self.products: dict[int, tuple[Layout | Convolution, list[View]]] = {}
        copied = self._copied()
        chosen = [
            n
            for n in self.nodes
            if (n.serial in copied or not self.transparent(n))
            and not isinstance(n.op, Output)
        ]
        most = MEMBERS if fuse else 1
        units = group(chosen, self.supported, self.operands, most, self.strides)
        layouts = {serial: p[0] for serial, p in self.products.items()}
        self.finishes = epilogues(units, layouts, self.results) if fuse else {}
        if fuse:
            done = self.finishes.values()

            def stored() -> set[int]:
                return self._stored(units) | copied

            units = fold_columns_together(units, done, stored, self.strides)
        by_number = {u.nodes[0].serial: u.number for u in units}
        done_by = {u.number: by_number[k] for k, u in self.finishes.items()}
        after_readers(units, versions, done_by)
        self.units = ordered(units)
        self.stored = self._stored(self.units) | copied

    @lazy
    def kept(self) -> dict[int, Tensor]:
        """The nodes that lie in the arena for some time, by serial."""
        return {
            n.serial: n
            for n in self.nodes
            if n.serial in self.stored
            and n.serial not in self.results
            and n.serial not in self.finishes  # these stay in registers
            and not isinstance(n.type, TupleType)
        }

    @lazy
    def changed(self) -> set[int]:
        """The serials of what makes new versions."""
        return {self.lent.get(new.serial, new).serial for new, _ in self.versions}

    @lazy
    def small(self) -> bool:
        """Whether all that lies there at any time is too little to save any of it."""
        return not at_least(sum(x.type.nbytes for x in self.kept.values()), LARGE, 1)

    def steps(self) -> list[Unit]:
        """The units that are steps: not those that a product does itself."""
        finishing = {unit.number for unit in self.finishes.values()}
        return [u for u in self.units if u.number not in finishing]

    def strides(self, node: Tensor) -> tuple[int, ...]:
        """The strides of a node in its buffer, in elements."""
        order = self.orders.get(node.serial)
        return row_major(node) if order is None else strides_in(node, order)

    def _lent(self, fixed: Collection[int]) -> dict[int, Tensor]:
        """The roots that are another shape of a computed node, which lends its memory.

        Not those in `fixed`, nor where others could see the same memory.
        """
        taken = {n.serial for n in self.roots.values()}
        lenders: dict[int, Tensor] = {}
        for root in self.roots.values():
            if root.serial in fixed or is_leaf(root) or not self.transparent(root):
                continue
            view = view_of(root, self.transparent)
            if view is None or is_leaf(view.base) or view.base.serial in taken:
                continue
            straight = not view.offset and view.strides == row_major(root)
            if straight and view.base.type.size == root.type.size:
                lenders[root.serial] = view.base
                taken.add(view.base.serial)
        return lenders

    def _copied(self) -> set[int]:
        """The nodes without work of their own that must lie in memory all the same."""
        read = set(self.results)
        for node in self.nodes:
            if self.supported(node):
                continue
            product = self._product(node)
            if product is not None:
                self.products[node.serial] = product
            read |= {x.serial for x in self.operands(node)}
        return {
            n.serial for n in self.nodes if n.serial in read and self.transparent(n)
        }

    def _product(self, node: Tensor) -> tuple[Layout | Convolution, list[View]] | None:
        """A contraction or convolution on views, or on copies of its operands."""
        make: Callable[..., Layout | Convolution | None] = layout_of
        if is_direct(node):
            make = convolution_of
        elif not isinstance(node.op, Contract):
            return None
        if node.type.dtype not in PRODUCTS or not self.computes(node):
            return None
        for views in itertools.product(*map(self._views, node.inputs)):
            layout = make(node, *[v.strides for v in views], self.strides(node))
            if any(is_narrow(v) for v in views) and not widens(layout, views):
                continue
            if isinstance(layout, Convolution):
                product = as_product(layout)
                if product is not None and layout.computes == "w":
                    views = views[::-1]
                layout = product or layout
            if layout is not None:
                return layout, list(views)
        return None

    def _views(self, x: Tensor) -> list[View]:
        """The views by which an operand of a product may be read, the best first."""

        def as_floats(node: Tensor) -> bool:
            return self.transparent(node) and not is_widened(node)

        view = view_of(x, self.transparent, self.strides)
        views = [] if view is None else [view]
        if view is not None and is_narrow(view):
            wide = view_of(x, as_floats, self.strides)
            views += [] if wide is None else [wide]
        return [*views, View(x, 0, self.strides(x))]

    def _stored(self, units: Sequence[Unit]) -> set[int]:
        """The nodes that are read outside of their unit."""
        read = set(self.results)
        for unit in units:
            if unit.region is None:
                read |= self.reads(unit)
            else:
                read |= unit.operands.difference([n.serial for n in unit.nodes])
        return read

    def reads(self, unit: Unit) -> Set[int]:
        """The serials of what the members of a unit read, whoever computes that."""
        if unit.region is not None:
            return unit.operands
        return {x.serial for node in unit.nodes for x in self.operands(node)}

    def operands(self, node: Tensor) -> list[Tensor]:
        """The nodes that a step by itself reads from memory."""
        if node.serial in self.products:
            return [v.base for v in self.products[node.serial][1]]
        if type(node.op) is Concat:
            return [part for part, _, _ in joined(node)]
        return list(node.inputs)
