"""From a graph to a program that fits: what the native engine compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

from treadle.base.caches import cached, lazy
from treadle.base.dtypes import kind
from treadle.base.options import current
from treadle.base.types import TupleType, Type
from treadle.engines.native.codegen.contraction.machine import machine
from treadle.engines.native.codegen.scalars import supports
from treadle.engines.native.system.host import Host, host
from treadle.engines.native.translation.keys import layout_of
from treadle.engines.native.translation.workspace import fitting
from treadle.graph.body import Body, bodies
from treadle.graph.frame import tracing
from treadle.graph.leaves import Version
from treadle.graph.op import Op
from treadle.graph.origin import held
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Update
from treadle.loops.lower import combiner, has_rule, wide
from treadle.loops.recurrence import may_be_recurrence
from treadle.ops.families import Elementwise, Reduction
from treadle.ops.loop import Scan
from treadle.program.build import Draft, drafts
from treadle.program.convolution import is_direct
from treadle.program.program import BodyProgram
from treadle.program.single import KERNELS, Bodies
from treadle.program.slices import in_slices
from treadle.rewrite import pipeline
from treadle.rewrite.expand import Expanded
from treadle.rewrite.pipeline import Stage, Ways, prepare
from treadle.rewrite.record import recording

_type = attrgetter("type")
Made = TypeVar("Made")


def supported(node: Tensor) -> bool:
    """Whether kernels can compute a node."""
    return _computes(node.op, node.type, *map(_type, node.inputs))


@cached(4096)
def _computes(op: Op, *types: Type) -> bool:
    """Whether kernels can compute an op: its result is the first of the types."""
    if any(isinstance(t, TupleType) for t in types):
        return False
    dtype, *dtypes = [t.dtype for t in types]
    if any(d.kind == "c" for d in [*dtypes, dtype]):
        return False
    if isinstance(op, Reduction):
        dtype = wide(dtype)
        return supports(combiner(op, dtypes[0]), [dtype, dtype], dtype)
    if isinstance(op, Elementwise):
        return supports(op, dtypes, dtype)
    return has_rule(op, len(dtypes))


def direct(node: Tensor) -> bool:
    """Whether a convolution has kernels of its own."""
    return is_direct(node) and kind(node.type.dtype) == "float"


def claimed(op: Op) -> bool:
    """Whether an op is not written out: it has kernels of its own, or an effect."""
    return bool(op.traits.effect) or type(op) in KERNELS


def multiplies_bytes() -> bool:
    """Whether the processor adds up several products of bytes at once."""
    return machine().quads


WAYS = Ways(claimed, direct, may_be_recurrence, multiplies_bytes)


@dataclass(frozen=True)
class Target:
    """What programs are made for: a key, bytes of vectors, the nodes of which fused
    kernels are made, and those that may have kernels of their own.
    """

    key: Any
    vector_bytes: int
    supported: Callable[[Tensor], bool]
    computes: Callable[[Tensor], bool] = lambda node: True

    @lazy
    def inner(self) -> Bodies:
        """The translation of the bodies of ops."""
        return Bodies(self.programs, self.graph_of, self.computes)

    def programs(self, op: Op) -> tuple[BodyProgram, ...]:
        """The programs of an op's bodies."""
        carries = op.carries if isinstance(op, Scan) else 0
        return tuple(self.body_program(x, carries) for x in bodies(op).values())

    def graph_of(self, op: Scan) -> Expanded | None:
        """The graph of a loop's body as it is compiled; None where that is by NumPy."""
        graph = prepared(op.body)
        elementwise = [
            x for x in graph.nodes() if x.inputs and isinstance(x.op, Elementwise)
        ]
        return graph if all(map(self.supported, elementwise)) else None

    def body_program(self, body: Body, carries: int = 0) -> BodyProgram:
        """The program of a body, with slices if a scan carries so many of its outputs;
        remembered for the options it was made under.
        """
        now = current()
        key = now.compilation, self.key, carries
        known: tuple[Any, BodyProgram] | None = body.memo.get("program")
        if known is not None and known[0] == key and recording() is None:
            return known[1]
        place = {x.serial: k for k, x in enumerate(body.arguments)}
        graph = prepared(body)
        roots = {k: graph.roots[y.serial] for k, y in enumerate(body.outputs)}
        options = self.supported, self.vector_bytes, now.optimize
        arguments = graph.arguments, roots, graph.nodes()
        candidates = drafts(*arguments, *options, inner=self.inner)
        leaves = [place[x.serial] if x.array is None else x.array for x in graph.leaves]
        program = in_slices(
            BodyProgram(next(candidates).build(), tuple(leaves)), carries
        )
        body.memo["program"] = key, program
        return program


def here() -> Target:
    """This machine as a target."""
    return _target(host())


@cached(16)
def _target(machine: Host) -> Target:
    return Target(machine, machine.vector_bytes, supported)


def prepared(body: Body) -> Expanded:
    """A body's graph as it is compiled."""
    place = {x.serial: k for k, x in enumerate(body.arguments)}
    keep = {y.serial for y in body.outputs}
    return prepare(body.nodes, place, keep, WAYS, stages())


def stages() -> Sequence[Stage]:
    """The stages of the pipeline for a graph, by the options."""
    return pipeline.PIPELINE if current().optimize else pipeline.REQUIRED


def translated(
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    place: Mapping[int, int] | None = None,
    more: Set[int] = frozenset(),
    recipes: Set[int] = frozenset(),
    choose: Callable[[Iterator[Draft]], Made] = fitting,
    target: Target | None = None,
) -> tuple[Made, Expanded]:
    """The program of a graph that is chosen among drafts, and the graph as it was
    compiled: if nothing is said, the first that fits in memory, planned, for this
    machine.

    Roots are known by `place`, or by their serials; those in `more` lie as they are
    computed, and so do what has both a value and one of the `recipes`.
    """
    optimize, machine = bool(current().optimize), target or here()
    # What rules build here is never run.
    with tracing("a program"), held():
        graph = prepare(nodes, feeds, keep | more if more else keep, WAYS, stages())
        name = place.__getitem__ if place is not None else int
        roots = {name(serial): root for serial, root in graph.roots.items()}
        if place is not None:  # `keep` has no order
            roots = dict(sorted(roots.items()))
        replaced = {name(k): x for k, x in graph.replaced.items()}
        leaves = list(zip(graph.arguments, graph.leaves, strict=True))
        orders = {x.serial: layout_of(n) for x, n in leaves if n.serial in recipes}
        weights = {x.serial for x, n in leaves if isinstance(n.op, (Version, Update))}
        chosen = choose(
            drafts(
                graph.arguments,
                roots,
                graph.nodes(),
                machine.supported,
                machine.vector_bytes,
                optimize,
                replaced,
                machine.inner,
                {serial: order for serial, order in orders.items() if order},
                {name(serial) for serial in more},
                weights,
            )
        )
    return chosen, graph
