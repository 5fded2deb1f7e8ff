"""From a graph to a program that fits: what the native engine compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from treadle.base.dtypes import DType
from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.engines.native.host import host
from treadle.engines.native.linked import Linked
from treadle.engines.native.scalars import supports
from treadle.engines.native.workspace import fitting
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.op import Op
from treadle.graph.origin import held
from treadle.graph.tensor import Tensor
from treadle.loops.lower import combiner, has_rule, wide
from treadle.ops.debug import Debug
from treadle.ops.families import Elementwise, Reduction
from treadle.program.arrange import PRODUCTS
from treadle.program.build import KERNELS, drafts
from treadle.program.convolution import is_direct
from treadle.rewrite.pipeline import PIPELINE, REQUIRED, Ways, prepare

__all__ = ["translated"]


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


def translated(
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    place: Mapping[int, int] | None = None,
) -> tuple[Linked, list[Tensor], list[Tensor]]:
    """The planned program of a graph; what its arguments are, in order; what it
    computes again. Roots are known by `place`, or by their serials.
    """
    optimize = bool(current().optimize)
    # What rules build here is never run.
    with pushed(TraceFrame("a program")), held():
        stages = PIPELINE if optimize else REQUIRED
        graph = prepare(nodes, feeds, keep, Ways(claimed, direct), stages)
        name = place.__getitem__ if place is not None else int
        roots = {name(serial): root for serial, root in graph.roots.items()}
        replaced = {name(k): x for k, x in graph.replaced.items()}
        vector_bytes = host().vector_bytes
        linked = fitting(
            drafts(graph.arguments, roots, supported, vector_bytes, optimize, replaced)
        )
    return linked, graph.leaves, graph.again
