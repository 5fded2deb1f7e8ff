"""From an expanded graph to a program: units, buffers, kernels, steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle.base.types import TupleType, Type
from treadle.graph.leaves import Argument
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels
from treadle.loops.kernel import Kernel
from treadle.loops.lower import Strides
from treadle.loops.nest import kernel_of
from treadle.loops.order import ORDERS
from treadle.loops.parameters import parameterize
from treadle.loops.scan import SCANS
from treadle.loops.scatter import COPY, SCATTERS
from treadle.loops.schedule import schedule
from treadle.loops.stream import streaming
from treadle.loops.unpool import max_pool_gradient
from treadle.loops.window import few_taps
from treadle.ops.families import Output
from treadle.ops.pool import MaxPoolGradient
from treadle.program.again import unbarred
from treadle.program.alias import in_place
from treadle.program.arrange import Arrangement
from treadle.program.contract import Layout
from treadle.program.convolution import Convolution
from treadle.program.epilogue import epilogue_kernel
from treadle.program.layout import Order
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
from treadle.program.rematerialize import lighter, rematerialized
from treadle.program.timeline import Demand, Timeline
from treadle.program.units import OPERANDS, Unit
from treadle.rewrite.record import stage

__all__ = ["Draft", "build", "drafts"]

# Kernels of single ops; None where one has none for its operands.
KERNELS: dict[type[Op], Callable[[Tensor, Strides], Kernels | None]] = {
    MaxPoolGradient: max_pool_gradient,
    **SCATTERS,
    **SCANS,
    **ORDERS,
}


@dataclass(frozen=True)
class Draft:
    """A program that might be built, and the memory that it would need."""

    demand: Demand
    build: Callable[[], Program]


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
    found = drafts(arguments, roots, supported, vector_bytes, fuse, replaced)
    return next(found).build()


def drafts(
    arguments: Sequence[Tensor],
    roots: Mapping[int, Tensor],
    supported: Callable[[Tensor], bool],
    vector_bytes: int,
    fuse: bool = True,
    replaced: Mapping[int, Tensor] | None = None,
    given: Mapping[int, Order] | None = None,
    loose: Collection[int] = (),
) -> Iterator[Draft]:
    """The program `build` makes, and then others that need ever less memory.

    `given` has the orders of arguments that are not row-major, `loose` the roots that
    need not be.
    """
    olds = replaced or {}

    def arrange(roots: Mapping[int, Tensor]) -> Arrangement:
        versions = [(roots[k], old) for k, old in olds.items()]
        return Arrangement(roots, versions, supported, fuse, given, loose)

    def draft(arranged: Arrangement) -> Draft:
        def built() -> Program:
            with stage("make kernels"):
                return _Building(arguments, arranged, vector_bytes).program()

        return Draft(Timeline(arranged).largest(), built)

    with stage("fuse"):
        arranged = arrange(unbarred(roots))
    if not fuse:
        yield draft(arranged)
        return
    with stage("compute again"):
        arranged = rematerialized(arranged, arrange)
    yield draft(arranged)
    yield from map(draft, lighter(arranged, arrange))


class _Building:
    """What is known while a program is put together."""

    def __init__(
        self, arguments: Sequence[Tensor], arranged: Arrangement, vector_bytes: int
    ) -> None:
        self.arguments = arguments
        self.arranged = arranged
        self.strides = arranged.strides
        self.products = arranged.products
        self.finishes = arranged.finishes
        self.vector_bytes = vector_bytes
        self.buffers: list[Buffer] = []
        self.number: dict[int, int] = {}
        self.constants: list[tuple[int, Tensor]] = []
        self.steps: list[Step] = []

    def program(self) -> Program:
        """The steps of all units, on buffers."""
        for x in self.arguments:
            self._buffer(x, x.type, "argument")
        for unit in self.arranged.steps():
            self._step(unit)
        found = []
        for serial, root in self.arranged.roots.items():
            number = self.of(self.arranged.lent.get(root.serial, root))
            found.append((serial, number, root.type))
        pairs = [
            (self.number[new.serial], self.of(old))
            for new, old in self.arranged.versions
            if new.serial in self.number
        ]
        program = Program(
            tuple(self.buffers),
            tuple(self.steps),
            tuple(self.number[x.serial] for x in self.arguments),
            tuple((k, x.array) for k, x in self.constants if x.array is not None),
            tuple(found),
        )
        return replace(program, shared=in_place(program, pairs))

    # -- buffers ---------------------------------------------------------------------

    def _buffer(self, node: Tensor, type_: Type, place: str) -> int:
        number = len(self.buffers)
        order = self.arranged.orders.get(node.serial, ())
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
                place = "result" if node.serial in self.arranged.results else "arena"
                self._buffer(node, node.type, place)
        return self.number[node.serial]

    def _has_buffer(self, node: Tensor) -> bool:
        if node.stored is not None:
            return bool(node.type.shape)
        if isinstance(node.op, (Argument, Output)):
            return True
        arranged = self.arranged
        return node.serial in arranged.stored and not arranged.looked_through(node)

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
        stored = [n for n in unit.nodes if n.serial in self.arranged.stored]
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
        stored = [n for n in unit.nodes if n.serial in self.arranged.stored]
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
                for n in self.arranged.nodes
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
