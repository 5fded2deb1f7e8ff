"""The native engine: graphs compiled to programs of machine code, kept by structure."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from treadle.base.dtypes import DType
from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.engines.base import (
    CacheInfo,
    Engine,
    Lowered,
    Values,
    engine,
    provide_engine,
)
from treadle.engines.native import jit
from treadle.engines.native.cache import disk_cache
from treadle.engines.native.host import host
from treadle.engines.native.keys import Structure, structure
from treadle.engines.native.linked import Linked, PositionError
from treadle.engines.native.look import lowered
from treadle.engines.native.programs import Programs
from treadle.engines.native.residuals import Residuals
from treadle.engines.native.scalars import supports
from treadle.engines.native.workspace import fitting
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.op import Op
from treadle.graph.origin import held
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.loops.lower import combiner, has_rule, wide
from treadle.ops.debug import Debug
from treadle.ops.families import Elementwise, Reduction
from treadle.program import forms
from treadle.program.arrange import PRODUCTS
from treadle.program.build import KERNELS, drafts
from treadle.program.convolution import is_direct
from treadle.rewrite.pipeline import Ways, prepare
from treadle.rewrite.record import recording

__all__ = ["Native"]


def supported(node: Tensor) -> bool:
    """Whether kernels can compute a node."""
    types = [x.type for x in node.inputs]
    if any(isinstance(t, TupleType) for t in [*types, node.type]):
        return False
    return _computes(node.op, tuple([t.dtype for t in types]), node.type.dtype)


@lru_cache(maxsize=4096)
def _computes(op: Op, dtypes: tuple[DType, ...], dtype: DType) -> bool:
    """Whether kernels can compute an op from elements of some dtypes."""
    if any(d.kind == "c" for d in [*dtypes, dtype]):
        return False
    if isinstance(op, Reduction):
        dtype = wide(dtype)
        return supports(combiner(op, dtypes[0]), [dtype, dtype], dtype)
    if isinstance(op, Elementwise):
        return supports(op, dtypes, dtype)
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
        self.programs = Programs()
        self.residuals = Residuals()

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
    ) -> Values:
        made = structure(nodes, feeds, keep)
        now = current()
        options = now.optimize, now.rules, now.workspace, host()
        own = key = made.key(keep, *options)
        more = keep | self.residuals.kept(key, made)
        if len(more) > len(keep):
            own = made.key(more, *options)
        linked, leaves = self.programs.get(own, lambda: self._linked(made, feeds, more))
        self.residuals.note(key, made, keep)
        self.residuals.ask(made, linked.again)
        order = made.nodes
        self._thread.linked = linked
        arrays = []
        for k in leaves:
            node = order[k]
            stored = node.stored
            if isinstance(stored, Resident):  # its copy at home may have other readers
                stored, spent = stored.numpy(), spent - {node.serial}
            arrays.append(feeds.get(node.serial, stored))
        try:
            free = {k for k, n in enumerate(leaves) if order[n].serial in spent}
            found = linked.run(arrays, free)
        except PositionError:
            # The reference engine tells which position of which node it was.
            engine("reference").run(nodes, feeds, keep)
            raise
        return {order[k].serial: array for k, array in found.items()}

    def lower(self, nodes: Sequence[Tensor], keep: Set[int], graph: str) -> Lowered:
        linked, _ = self._compile(structure(nodes, {}, keep), {}, keep)
        if recording() is not None:
            linked.link()
        return lowered(linked, graph)

    def latest(self) -> Lowered | None:
        linked = getattr(self._thread, "linked", None)
        return None if linked is None else lowered(linked, "")

    def cache_info(self, disk: bool = False) -> CacheInfo:
        made, kept = jit.stats(), disk_cache()
        files, size = kept.count() if disk and kept is not None else (0, 0)
        programs = self.programs
        return CacheInfo(
            programs=len(programs),
            program_limit=programs.limit,
            program_bytes=programs.bytes,
            hits=programs.hits,
            misses=programs.misses,
            kernels=made.functions,
            kernel_bytes=made.bytes,
            compiled=made.compiled,
            from_disk=made.from_disk,
            disk=kept.path if kept is not None else "",
            disk_files=files,
            disk_bytes=size,
        )

    def clear_cache(self, disk: bool = False) -> None:
        self.programs.clear()
        self.residuals.clear()
        forms.clear()
        jit.clear()
        kept = disk_cache() if disk else None
        if kept is not None:
            kept.clear()

    def _linked(
        self, made: Structure, feeds: Mapping[int, Any], keep: Set[int]
    ) -> tuple[Linked, list[int]]:
        """A program that can run, and the places of its leaves."""
        linked, leaves = self._compile(made, feeds, keep)
        linked.link()
        return linked, leaves

    def _compile(
        self,
        made: Structure,
        feeds: Mapping[int, Any],
        keep: Set[int],
    ) -> tuple[Linked, list[int]]:
        optimize, place = bool(current().optimize), made.place
        # What rules build here is never run.
        with pushed(TraceFrame("a program")), held():
            ways = Ways(claimed, direct)
            graph = prepare(made.nodes, feeds, keep, ways, optimize)
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
        linked.again = [place[x.serial] for x in graph.again]
        return linked, [place[x.serial] for x in graph.leaves]


provide_engine("native", Native)
