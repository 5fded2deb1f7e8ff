"""From an expanded graph to a program: units, buffers, kernels, steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from treadle.base.dtypes import float32, float64
from treadle.base.types import TupleType, Type
from treadle.graph.leaves import Argument
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.loops.fill import Kernels
from treadle.loops.kernel import Kernel
from treadle.loops.lower import Strides, is_virtual, row_major
from treadle.loops.nest import kernel_of
from treadle.loops.order import ORDERS
from treadle.loops.parameters import parameterize
from treadle.loops.scan import SCANS
from treadle.loops.scatter import COPY, SCATTERS
from treadle.loops.schedule import schedule
from treadle.loops.stream import streaming
from treadle.loops.unpool import max_pool_gradient
from treadle.loops.window import few_taps
from treadle.ops.contract import Contract
from treadle.ops.families import Output
from treadle.ops.pool import MaxPoolGradient
from treadle.program.alias import after_readers, in_place
from treadle.program.columns import fold_columns_beside
from treadle.program.contract import Layout, View, layout_of, view_of
from treadle.program.convolution import (
    Convolution,
    as_product,
    convolution_of,
    is_direct,
)
from treadle.program.epilogue import epilogue_kernel, epilogues
from treadle.program.group import group, ordered
from treadle.program.layout import orders_of, strides_in
from treadle.program.places import sources
from treadle.program.program import (
    Buffer,
    Fallback,
    Launch,
    Product,
    Program,
    Step,
    grain_of,
    work,
)
from treadle.program.recompute import recompute
from treadle.program.units import MEMBERS, OPERANDS, Unit

__all__ = ["build"]

# Kernels of single ops; None where one has none for its operands.
KERNELS: dict[type[Op], Callable[[Tensor, Strides], Kernels | None]] = {
    MaxPoolGradient: max_pool_gradient,
    **SCATTERS,
    **SCANS,
    **ORDERS,
}
PRODUCTS = (float32, float64)  # the types contractions have kernels for


def build(
    arguments: Sequence[Tensor],
    roots: Mapping[int, Tensor],
    supported: Callable[[Tensor], bool],
    vector_bytes: int,
    fuse: bool = True,
    replaced: Mapping[int, Tensor] | None = None,
) -> Program:
    """The program that computes the roots, keyed by the serial they are asked for by.

    `supported` tells which nodes the engine has kernels for; without `fuse` each node
    is a kernel of its own. `replaced` has, by root, the argument that the root is the
    next version of: it may be overwritten.
    """
    versions = [(roots[k], old) for k, old in (replaced or {}).items()]
    fixed = {new.serial for new, _ in versions}
    building = _Building(arguments, roots, supported, vector_bytes, fuse, fixed)
    program = building.program(versions)
    pairs = [
        (building.number[new.serial], building.of(old))
        for new, old in versions
        if new.serial in building.number
    ]
    return replace(program, shared=in_place(program, pairs))


class _Building:
    """What is known while a program is put together."""

    def __init__(
        self,
        arguments: Sequence[Tensor],
        roots: Mapping[int, Tensor],
        supported: Callable[[Tensor], bool],
        vector_bytes: int,
        fuse: bool,
        fixed: Collection[int],
    ) -> None:
        self.arguments = arguments
        self.roots = roots
        self.supported = supported
        self.vector_bytes = vector_bytes
        self.most = MEMBERS if fuse else 1
        self.nodes = [n for n in reach(list(roots.values())) if not _is_leaf(n)]
        self.lent = self._lent(fixed)
        self.results = {self.lent.get(n.serial, n).serial for n in self.roots.values()}
        self.orders = orders_of(self.nodes, self.results) if fuse else {}
        if fuse:
            recompute(self.nodes, supported)
        self.buffers: list[Buffer] = []
        self.number: dict[int, int] = {}
        self.constants: list[tuple[int, Tensor]] = []
        self.steps: list[Step] = []

    def strides(self, node: Tensor) -> tuple[int, ...]:
        """How a node lies in its buffer, in elements."""
        order = self.orders.get(node.serial)
        return row_major(node) if order is None else strides_in(node, order)

    def fuses(self, node: Tensor) -> bool:
        return self.supported(node)

    def looked_through(self, node: Tensor) -> bool:
        """Whether a node needs no buffer: its readers compute it where they read it."""
        return is_virtual(node) and self.supported(node)

    def program(self, versions: Sequence[tuple[Tensor, Tensor]]) -> Program:
        copied = self._copied()
        chosen = [
            n
            for n in self.nodes
            if (n.serial in copied or not self.looked_through(n))
            and not isinstance(n.op, Output)
        ]
        units = group(chosen, self.fuses, self.most)
        self.finishes: dict[int, Unit] = {}
        if self.most > 1:
            layouts = {serial: p[0] for serial, p in self.products.items()}
            self.finishes = epilogues(units, layouts, self.results)
            done = self.finishes.values()
            units = fold_columns_beside(units, done, self.strides, self.vector_bytes)
        by_number = {u.nodes[0].serial: u.number for u in units}
        done_by = {u.number: by_number[k] for k, u in self.finishes.items()}
        after_readers(units, versions, done_by)
        units = ordered(units)
        self.stored = self._stored(units) | copied
        for x in self.arguments:
            self._buffer(x, x.type, "argument")
        for unit in units:
            if unit.number not in done_by:
                self._step(unit)
        found = [
            (serial, self.of(self.lent.get(root.serial, root)), root.type)
            for serial, root in self.roots.items()
        ]
        return Program(
            tuple(self.buffers),
            tuple(self.steps),
            tuple(self.number[x.serial] for x in self.arguments),
            tuple((k, x.array) for k, x in self.constants if x.array is not None),
            tuple(found),
        )

    def _lent(self, fixed: Collection[int]) -> dict[int, Tensor]:
        """The roots that are another shape of a computed node, which lends its memory.

        Not those in `fixed`, nor where others could see the same memory.
        """
        own = {n.serial for n in self.roots.values()}
        found: dict[int, Tensor] = {}
        for root in self.roots.values():
            if root.serial in fixed or _is_leaf(root) or not self.looked_through(root):
                continue
            view = view_of(root, self.looked_through)
            if view is None or _is_leaf(view.base) or view.base.serial in own:
                continue
            straight = not view.offset and view.strides == row_major(root)
            if straight and view.base.type.size == root.type.size:
                found[root.serial] = view.base
                own.add(view.base.serial)
        return found

    def _copied(self) -> set[int]:
        """The nodes without work of their own that must lie in memory all the same."""
        found = set(self.results)
        self.products: dict[int, tuple[Layout | Convolution, list[View]]] = {}
        for node in self.nodes:
            if self.fuses(node):
                continue
            product = self._product(node)
            if product is not None:
                self.products[node.serial] = product
                found |= {v.base.serial for v in product[1]}
            else:
                found |= {x.serial for x in node.inputs}
        return {
            n.serial for n in self.nodes if n.serial in found and self.looked_through(n)
        }

    def _product(self, node: Tensor) -> tuple[Layout | Convolution, list[View]] | None:
        """A contraction or convolution on views, or on copies of its operands."""
        make: Callable[..., Layout | Convolution | None] = layout_of
        if is_direct(node):
            make = convolution_of
        elif not isinstance(node.op, Contract):
            return None
        if node.type.dtype not in PRODUCTS:
            return None
        choices = []
        for x in node.inputs:
            copy = View(x, 0, self.strides(x))
            view = view_of(x, self.looked_through, self.strides)
            choices.append([copy] if view is None else [view, copy])
        for views in itertools.product(*choices):
            layout = make(node, *[v.strides for v in views], self.strides(node))
            if isinstance(layout, Convolution):
                product = as_product(layout)
                if product is not None and layout.computes == "w":
                    views = views[::-1]
                layout = product or layout
            if layout is not None:
                return layout, list(views)
        return None

    def _stored(self, units: Sequence[Unit]) -> set[int]:
        """The nodes that are read outside of their unit."""
        found = set(self.results)
        for unit in units:
            own = {n.serial for n in unit.nodes}
            for node in unit.nodes:
                if unit.region is None:
                    found |= {x.serial for x in self._operands(node)}
                    continue
                for x in node.inputs:
                    found |= {
                        p.serial for p, _ in sources(x, None) if p.serial not in own
                    }
        return found

    def _operands(self, node: Tensor) -> list[Tensor]:
        """What a step by itself reads from memory."""
        if node.serial in self.products:
            return [v.base for v in self.products[node.serial][1]]
        return list(node.inputs)

    # -- buffers ---------------------------------------------------------------------

    def _buffer(self, node: Tensor, type_: Type, place: str) -> int:
        number = len(self.buffers)
        order = self.orders.get(node.serial, ())
        self.buffers.append(Buffer(number, type_, place, order))
        self.number[node.serial] = number
        return number

    def of(self, node: Tensor) -> int:
        """The buffer of a node; that of a constant is made when it is first read."""
        if node.serial not in self.number:
            if node.stored is not None:
                number = self._buffer(node, node.type, "constant")
                self.constants.append((number, node))
            else:
                place = "result" if node.serial in self.results else "arena"
                self._buffer(node, node.type, place)
        return self.number[node.serial]

    def _has_buffer(self, node: Tensor) -> bool:
        if node.stored is not None:
            return bool(node.type.shape)
        if isinstance(node.op, (Argument, Output)):
            return True
        return node.serial in self.stored and not self.looked_through(node)

    # -- steps -----------------------------------------------------------------------

    def _step(self, unit: Unit) -> None:
        if unit.region is None:
            (node,) = unit.nodes
            if node.serial in self.products:
                self._multiply(node)
                return
            kernels = self._kernels(node)
            if kernels is None:
                self._fallback(node)
            for kernel, nodes in kernels or ():
                self._launch(kernel, nodes, [node])
            return
        stored = [n for n in unit.nodes if n.serial in self.stored]
        if not stored:
            return
        kernel, nodes = kernel_of(unit.region, stored, self._has_buffer, self.strides)
        self._launch(kernel, nodes, stored)

    def _kernels(self, node: Tensor) -> Kernels | None:
        """The kernels of an op on types that loops compute with, if it has some."""
        rule = KERNELS.get(type(node.op))
        if rule is None or not few_taps(node.op):
            return None
        kinds = {x.type.dtype.kind for x in (*node.inputs, node)}
        return None if "c" in kinds else rule(node, self.strides)

    def _launch(
        self, kernel: Kernel, nodes: Sequence[Tensor], stored: Sequence[Tensor]
    ) -> None:
        if not any(n.type.size for n in stored):
            return  # there is nothing to compute
        scheduled = schedule(kernel, self.vector_bytes)
        total, multiple, cost = work(scheduled)
        structure, integers = parameterize(streaming(scheduled, nodes))
        self.steps.append(
            Launch(
                replace(structure, name=kernel.name),
                tuple(integers),
                tuple(self.of(n) for n in nodes),
                tuple(self.of(n) for n in stored),
                total,
                grain_of(total, multiple, cost),
                kernel.name == COPY,
            )
        )

    def _multiply(self, node: Tensor) -> None:
        layout, views = self.products[node.serial]
        offsets = views[0].offset, views[1].offset
        operands = self.of(views[0].base), self.of(views[1].base)
        dtype = node.type.dtype
        finish = self._finish(node, layout)
        if finish is None:
            written = (self.of(node),)
            step = Product(layout, dtype, offsets, operands, operands, written)
            self.steps.append(step)
            if node.serial in self.finishes:  # its loops do not run along the columns
                self._step(self.finishes[node.serial])
            return
        launch, own = finish
        read = operands + launch.read
        step = Product(
            layout, dtype, offsets, operands, read, launch.written, launch, own
        )
        self.steps.append(step)

    def _finish(
        self, node: Tensor, layout: Layout | Convolution
    ) -> tuple[Launch, int] | None:
        """The unit that a product does itself, and the product's buffer in it."""
        unit = self.finishes.get(node.serial)
        if unit is None:
            return None
        stored = [n for n in unit.nodes if n.serial in self.stored]
        lanes = max(self.vector_bytes // node.type.dtype.itemsize, 1)
        made = epilogue_kernel(
            unit,
            node,
            layout,
            stored,
            lambda n: n is node or self._has_buffer(n),
            self.strides,
            lanes,
        )
        if made is None or len(made[1]) > OPERANDS:
            return None
        kernel, nodes = made
        structure, integers = parameterize(kernel)
        own = [k for k, n in enumerate(nodes) if n is node]
        if len(own) != 1:
            return None
        rest = tuple(self.of(n) for n in nodes if n is not node)
        written = tuple(self.of(n) for n in stored)
        named = replace(structure, name=kernel.name)
        return Launch(named, tuple(integers), rest, written, 0, 0), own[0]

    def _fallback(self, node: Tensor) -> None:
        results = [node]
        if isinstance(node.type, TupleType):
            outputs = {
                n.op.position: n
                for n in self.nodes
                if isinstance(n.op, Output) and n.inputs[0] is node
            }
            results = []
            for k, t in enumerate(node.type):
                if k in outputs:
                    results.append(outputs[k])
                else:
                    results.append(Tensor(Output(k), (node,), t))
        self.steps.append(
            Fallback(
                node.op,
                node.type,
                tuple(self.of(x) for x in node.inputs),
                tuple(self.of(x) for x in results),
                node.origin,
            )
        )


def _is_leaf(node: Tensor) -> bool:
    return node.stored is not None or isinstance(node.op, Argument)
