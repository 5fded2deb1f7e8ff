"""The native engine: graphs compiled to programs of machine code, kept by structure."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from typing import Any

from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.engines.base import Engine, Lowered, Values, engine, provide_engine
from treadle.engines.native.host import host
from treadle.engines.native.linked import Linked, PositionError
from treadle.engines.native.look import lowered
from treadle.engines.native.scalars import supports
from treadle.engines.native.workspace import fitting
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.leaves import LITERAL
from treadle.graph.op import Op
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.loops.lower import combiner, has_rule, wide
from treadle.ops.debug import Debug
from treadle.ops.families import Elementwise, Reduction
from treadle.program.arrange import PRODUCTS
from treadle.program.build import KERNELS, drafts
from treadle.program.convolution import is_direct
from treadle.rewrite.pipeline import Ways, prepare
from treadle.rewrite.record import recording

__all__ = ["Native"]

PROGRAMS = 256


def supported(node: Tensor) -> bool:
    """Whether kernels can compute a node."""
    op = node.op
    types = [x.type for x in node.inputs]
    if any(isinstance(t, TupleType) for t in [*types, node.type]):
        return False
    dtypes = [t.dtype for t in types]
    if any(d.kind == "c" for d in [*dtypes, node.type.dtype]):
        return False
    if isinstance(op, Reduction):
        dtype = wide(node.type.dtype)
        return supports(combiner(op, dtypes[0]), [dtype, dtype], dtype)
    if isinstance(op, Elementwise):
        return supports(op, dtypes, node.type.dtype)
    return has_rule(op)


def direct(node: Tensor) -> bool:
    """Whether a convolution has kernels of its own."""
    return is_direct(node) and node.type.dtype in PRODUCTS


def claimed(op: Op) -> bool:
    """Whether an op is not written out: it has kernels of its own, or an effect."""
    return isinstance(op, Debug) or type(op) in KERNELS


class Native(Engine):
    """Runs each graph as one program of compiled kernels on planned memory."""

    name = "native"

    def __init__(self) -> None:
        self._thread = threading.local()
        self.programs: OrderedDict[Any, tuple[Linked, list[int]]] = OrderedDict()

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
    ) -> Values:
        place = {node.serial: k for k, node in enumerate(nodes)}
        key = self._key(nodes, place, feeds, keep)
        entry = self.programs.get(key)
        if entry is None:
            entry = self._compile(nodes, place, feeds, keep)
            entry[0].link()
            self.programs[key] = entry
            if len(self.programs) > PROGRAMS:
                self.programs.popitem(last=False)
        linked, leaves = entry
        self._thread.linked = linked
        arrays = []
        for k in leaves:
            node = nodes[k]
            stored = node.stored
            if isinstance(stored, Resident):  # its copy at home may have other readers
                stored, spent = stored.numpy(), spent - {node.serial}
            arrays.append(feeds.get(node.serial, stored))
        try:
            own = {k for k, n in enumerate(leaves) if nodes[n].serial in spent}
            found = linked.run(arrays, own)
        except PositionError:
            # The reference engine tells which position of which node it was.
            engine("reference").run(nodes, feeds, keep)
            raise
        return {nodes[k].serial: array for k, array in found.items()}

    def lower(self, nodes: Sequence[Tensor], keep: Set[int], graph: str) -> Lowered:
        place = {node.serial: k for k, node in enumerate(nodes)}
        linked, _ = self._compile(nodes, place, {}, keep)
        if recording() is not None:
            linked.link()
        return lowered(linked, graph)

    def latest(self) -> Lowered | None:
        linked = getattr(self._thread, "linked", None)
        return None if linked is None else lowered(linked, "")

    def _key(
        self,
        nodes: Sequence[Tensor],
        place: Mapping[int, int],
        feeds: Mapping[int, Any],
        keep: Set[int],
    ) -> Any:
        """Everything a program depends on: structure, types, what is kept, options."""
        options = current()
        parts: list[Any] = [options.optimize, options.rules, options.workspace, host()]
        for node in nodes:
            if node.op is LITERAL:
                number = node.array
                assert number is not None
                parts.append((node.type, number.tobytes()))
            elif node.stored is not None or node.serial in feeds:
                parts.append(node.type)
            else:
                parts.append((node.op, *[place[x.serial] for x in node.inputs]))
        parts.append(tuple(sorted(place[s] for s in keep)))
        return tuple(parts)

    def _compile(
        self,
        nodes: Sequence[Tensor],
        place: Mapping[int, int],
        feeds: Mapping[int, Any],
        keep: Set[int],
    ) -> tuple[Linked, list[int]]:
        optimize = bool(current().optimize)
        with pushed(TraceFrame("a program")):  # what rules build here is never run
            ways = Ways(claimed, direct)
            graph = prepare(nodes, feeds, keep, ways, optimize)
            roots = {place[serial]: root for serial, root in graph.roots.items()}
            replaced = {place[k]: x for k, x in graph.replaced.items()}
            linked = fitting(
                drafts(
                    graph.arguments,
                    roots,
                    supported,
                    host().vector_bytes,
                    optimize,
                    replaced,
                )
            )
        return linked, [place[x.serial] for x in graph.leaves]


provide_engine("native", Native)
