"""From an expanded graph to a program: units, buffers, kernels, steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treadle.base.caches import lazy
from treadle.base.errors import RunError
from treadle.base.types import Type
from treadle.graph.leaves import Argument
from treadle.graph.origin import Origin
from treadle.graph.tensor import Tensor
from treadle.loops.kernel import Kernel
from treadle.loops.nest import kernel_of
from treadle.loops.parameters import parameterize
from treadle.loops.scatter import COPY
from treadle.loops.schedule import schedule
from treadle.loops.stream import streaming
from treadle.loops.verify import verified
from treadle.ops.families import Output
from treadle.program.again import unbarred
from treadle.program.alias import in_place
from treadle.program.arrange import Arrangement
from treadle.program.contract import Layout
from treadle.program.convolution import Convolution
from treadle.program.epilogue import epilogue_kernel, result_places
from treadle.program.forms import form_of, once
from treadle.program.layout import Order
from treadle.program.overlap import BEGIN, END, WHOLE, overlapped
from treadle.program.program import (
    About,
    Buffer,
    Fallback,
    Launch,
    Product,
    Program,
    Step,
    grain_of,
    operations,
    unwritten,
    work,
)
from treadle.program.release import release_early
from treadle.program.rematerialize import lighter, rematerialized
from treadle.program.risks import risks_first
from treadle.program.single import Bodies, kernels_of, results_of
from treadle.program.timeline import Demand, Timeline
from treadle.program.units import OPERANDS, Unit
from treadle.rewrite.record import stage


@dataclass(frozen=True)
class Ready:
    """A kernel as it runs, on any buffers: all of a Launch but these."""

    kernel: Kernel
    integers: tuple[int, ...]
    total: int
    grain: int
    flops: int = 0


def ready(
    kernel: Kernel, nodes: Sequence[Tensor], vector_bytes: int, whole: bool = True
) -> Ready:
    """A kernel on the buffers of `nodes`, scheduled, `verified`, without numbers."""
    scheduled = schedule(kernel, vector_bytes)
    total, multiple, cost = work(scheduled)
    final = verified(streaming(scheduled, nodes), nodes, whole)
    structure, integers = parameterize(final)
    named = replace(structure, name=kernel.name)
    grain = grain_of(total, multiple, cost)
    return Ready(named, tuple(integers), total, grain, operations(scheduled))


@dataclass(frozen=True)
class Draft:
    """A program that might be built, and the memory that it would need."""

    arranged: Arrangement
    build: Callable[[], Program]

    @lazy
    def demand(self) -> Demand:
        """The bytes that the step with the highest demand needs."""
        return Timeline(self.arranged).largest()


def drafts(
    arguments: Sequence[Tensor],
    roots: Mapping[int, Tensor],
    nodes: Sequence[Tensor],
    supported: Callable[[Tensor], bool],
    vector_bytes: int,
    fuse: bool = True,
    replaced: Mapping[int, Tensor] | None = None,
    inner: Bodies | None = None,
    orders: Mapping[int, Order] | None = None,
    loose: Collection[int] = (),
    weights: Collection[int] = (),
) -> Iterator[Draft]:
    """A program that computes the roots, and then others that need ever less memory.

    Roots are keyed by the serial they are asked for by; `nodes` are all that they
    depend on. `supported` tells which nodes the engine has kernels for; without `fuse`
    each node is a kernel of its own. `replaced` has, by root, the argument that the
    root is the next version of: it may be overwritten. `inner` tells what becomes of an
    op's bodies, `orders` the orders of arguments that are not row-major, `loose` the
    roots that need not be, `weights` the arguments that are versions of Variables.
    """
    olds, inner = replaced or {}, inner or Bodies()

    def arrange(
        roots: Mapping[int, Tensor], nodes: Sequence[Tensor] | None = None
    ) -> Arrangement:
        versions = [(roots[k], old) for k, old in olds.items()]
        more = orders, loose, nodes, inner.computes
        return Arrangement(roots, versions, supported, fuse, *more)

    def released(
        roots: Mapping[int, Tensor], nodes: Sequence[Tensor] | None = None
    ) -> Arrangement:
        arrangement = arrange(roots, nodes)
        if fuse:
            risks_first(arrangement)
            release_early(arrangement)
        return arrangement

    def draft(arranged: Arrangement) -> Draft:
        def built() -> Program:
            with stage("make kernels"):
                return _Building(
                    arguments, arranged, vector_bytes, inner or Bodies(), weights
                ).program()

        return Draft(arranged, built)

    with stage("fuse"):
        plain_roots = unbarred(roots, nodes)
        arranged = released(plain_roots, nodes if plain_roots is roots else None)
    if not fuse:
        yield draft(arranged)
        return
    with stage("compute again"):
        arranged = rematerialized(arranged, released)
    yield draft(arranged)
    # First all stands where it is read; then steps that give memory back are moved up.
    yield from map(draft, lighter(arranged, (arrange, released)))


class _Building:
    """The state of a program under construction."""

    def __init__(
        self,
        arguments: Sequence[Tensor],
        arranged: Arrangement,
        vector_bytes: int,
        inner: Bodies,
        weights: Collection[int],
    ) -> None:
        self.inner, self.weights = inner, weights
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
        self.about: list[About] = []
        self.waiting: dict[int, int] = {}  # numbers of what is begun, by serial

    def program(self) -> Program:
        """The steps of all units, on buffers."""
        for x in self.arguments:
            self._buffer(x, x.type, "argument")
        for unit, part in overlapped(self.arranged):
            self._step(unit, part)
        known = [self.number[x.serial] for x in self.arguments]
        wrong = unwritten(self.steps, [*known, *[k for k, _ in self.constants]])
        if wrong:
            raise RunError(f"the program is wrong: {'; '.join(wrong)}")
        results = []
        for serial, root in self.arranged.roots.items():
            number = self.of(self.arranged.lent.get(root.serial, root))
            results.append((serial, number, root.type))
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
            tuple(results),
            about=tuple(self.about),
            weights=tuple(
                self.number[x.serial]
                for x in self.arguments
                if x.serial in self.weights
            ),
        )
        return replace(program, shared=in_place(program, pairs))

    # -- buffers ---------------------------------------------------------------------

    def _buffer(self, node: Tensor, type_: Type, place: str) -> int:
        number = len(self.buffers)
        order = self.arranged.orders.get(node.serial, ())
        holds = node._name or node.op.name
        self.buffers.append(Buffer(number, type_, place, order, holds, node.origin))
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
        return node.serial in arranged.stored and not arranged.transparent(node)

    # -- steps -----------------------------------------------------------------------

    def _add(self, step: Step, nodes: Sequence[Tensor], flops: int = 0) -> None:
        """The next step, and the nodes that it computes."""
        self.steps.append(step)
        # By identity: the hash of a code is that of all its names and numbers.
        first: dict[tuple[int, int], Origin] = {}
        count: dict[tuple[int, int], int] = {}
        for n in nodes:
            if n._code:
                key = id(n._code), n._offset
                first.setdefault(key, n.origin)
                count[key] = count.get(key, 0) + 1
        often = sorted(count, key=count.__getitem__, reverse=True)
        origins = tuple([first[key] for key in often])
        self.about.append(About(origins, flops))

    def _step(self, unit: Unit, part: str = WHOLE) -> None:
        if unit.region is None:
            (node,) = unit.nodes
            if node.serial in self.products:
                return self._multiply(node)
            results = results_of(node, self.arranged.nodes)
            kernels = kernels_of(node, results, self.strides, self.inner)
            if kernels is None:
                return self._fallback(node, results, part)
            for kernel, nodes in kernels:
                prepared = ready(kernel, nodes, self.vector_bytes, len(kernels) == 1)
                self._launch(prepared, nodes, results, [node])
            return
        stored = [n for n in unit.nodes if n.serial in self.arranged.stored]
        if not stored:
            return
        region, strides = unit.region, self.strides
        form = form_of(region, stored, self._has_buffer, strides)

        def make() -> tuple[Ready, Sequence[Tensor]]:
            kernel, nodes = kernel_of(region, stored, self._has_buffer, strides)
            return ready(kernel, nodes, self.vector_bytes), nodes

        loops = once(("loops", self.vector_bytes), form, make)
        assert loops is not None
        self._launch(*loops, stored, unit.nodes)

    def _launch(
        self,
        prepared: Ready,
        nodes: Sequence[Tensor],
        stored: Sequence[Tensor],
        of: Sequence[Tensor],
    ) -> None:
        buffers = tuple(self.of(n) for n in nodes)
        written = tuple(self.of(n) for n in stored)
        copies = prepared.kernel.name == COPY
        step = Launch(
            prepared.kernel,
            prepared.integers,
            buffers,
            written,
            prepared.total,
            prepared.grain,
            copies,
        )
        self._add(step, of, prepared.flops)

    def _multiply(self, node: Tensor) -> None:
        layout, views = self.products[node.serial]
        offsets = views[0].offset, views[1].offset
        operands = self.of(views[0].base), self.of(views[1].base)
        dtype = node.type.dtype
        kinds = views[0].base.type.dtype, views[1].base.type.dtype
        flops = 2 * math.prod(layout.sizes)
        finish = self._finish(node, layout)
        if finish is None:
            written = (self.of(node),)
            step = Product(layout, dtype, kinds, offsets, operands, operands, written)
            self._add(step, [node], flops)
            if node.serial in self.finishes:  # its loops do not run along the columns
                self._step(self.finishes[node.serial])
            return
        launch, product_buffer = finish
        read = operands + launch.read
        step = Product(
            layout,
            dtype,
            kinds,
            offsets,
            operands,
            read,
            launch.written,
            launch,
            product_buffer,
        )
        # The product is most of it, whatever it finishes.
        self._add(step, [node, node, *self.finishes[node.serial].nodes], flops)

    def _finish(
        self, node: Tensor, layout: Layout | Convolution
    ) -> tuple[Launch, int] | None:
        """The unit that a product does itself, and the product's buffer in it."""
        unit = self.finishes.get(node.serial)
        if unit is None:
            return None
        stored = [n for n in unit.nodes if n.serial in self.arranged.stored]
        assert unit.region is not None
        lanes = max(self.vector_bytes // node.type.dtype.itemsize, 1)

        def has_buffer(n: Tensor) -> bool:
            return n is node or self._has_buffer(n)

        def make() -> tuple[Ready, Sequence[Tensor]] | None:
            epilogue = epilogue_kernel(
                unit, node, layout, stored, has_buffer, self.strides, lanes
            )
            if epilogue is None or len(epilogue[1]) > OPERANDS:
                return None
            structure, integers = parameterize(verified(*epilogue))
            named = replace(structure, name=epilogue[0].name)
            return Ready(named, tuple(integers), 0, 0), epilogue[1]

        form = form_of(unit.region, stored, has_buffer, self.strides)
        places = result_places(layout, node.type.shape)
        key = "finish", places, lanes, form.numbers.get(node.serial)
        known = once(key, form, make)
        if known is None:
            return None
        prepared, nodes = known
        positions = [k for k, n in enumerate(nodes) if n is node]
        if len(positions) != 1:
            return None
        rest = tuple(self.of(n) for n in nodes if n is not node)
        written = tuple(self.of(n) for n in stored)
        return Launch(
            prepared.kernel, prepared.integers, rest, written, 0, 0
        ), positions[0]

    def _fallback(self, node: Tensor, results: Sequence[Tensor], part: str) -> None:
        step = Fallback(
            node.op,
            node.type,
            tuple(self.of(x) for x in node.inputs if part != END),
            tuple(self.of(x) for x in results if part != BEGIN),
            node.origin,
            self.inner.programs(node.op),
            part,
            self.waiting.setdefault(node.serial, len(self.waiting)) if part else 0,
        )
        self._add(step, [node])
