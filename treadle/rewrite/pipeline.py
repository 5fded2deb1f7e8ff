"""The way of a graph to what programs are built from: one tuple, with guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from treadle.base.errors import RunError
from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.graph.leaves import Argument, Constant, Leaf
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.graph.variable import Update
from treadle.graph.verify import problems
from treadle.ops.call import Call
from treadle.ops.contract import Contract, letters
from treadle.ops.convolution import Conv, ConvInputGradient, ConvWeightGradient
from treadle.ops.families import Composite, Elementwise
from treadle.rewrite.convolve import convolve
from treadle.rewrite.cut import cut_folds
from treadle.rewrite.expand import Expanded, Inner, expand, write_out
from treadle.rewrite.record import recording, sized
from treadle.rewrite.record import stage as timed
from treadle.rewrite.simplify import compiled_rules, normal
from treadle.rewrite.straighten import straighten

__all__ = ["PIPELINE", "Stage", "Ways", "prepare"]

Roots = dict[int, Tensor]


@dataclass(frozen=True)
class Ways:
    """What an engine does itself: the ops it claims, the convolutions done directly."""

    claimed: Callable[[Op], bool]
    direct: Callable[[Tensor], bool]


@dataclass(frozen=True)
class Stage:
    """One step on the way: what it does to the roots, and what then holds of each node.

    An `optional` one is left out where `optimize` is off.
    """

    name: str
    run: Callable[[Expanded, Ways], Roots]
    guarantee: str
    holds: Callable[[Tensor, Ways], bool]
    optional: bool = False


def _is_inlined(node: Tensor, ways: Ways) -> bool:
    if isinstance(node.op, Leaf):
        return isinstance(node.op, (Argument, Constant))
    return not isinstance(node.op, (Call, Update))


def _is_normal(node: Tensor, ways: Ways) -> bool:
    if isinstance(node.type, TupleType) or node.type.dtype.kind == "c":
        return True
    return all(rule.apply(node) is None for rule in compiled_rules().of(node))


def _is_written(node: Tensor, ways: Ways) -> bool:
    op = node.op
    primitive = isinstance(op, Elementwise) and op.traits.primitive
    return (
        primitive or not isinstance(op, (Composite, Elementwise)) or ways.claimed(op)
    ) and _is_inlined(node, ways)


def _is_contracted(node: Tensor, ways: Ways) -> bool:
    kinds = (Conv, ConvInputGradient, ConvWeightGradient)
    return not isinstance(node.op, kinds) or ways.direct(node)


def _is_straight(node: Tensor, ways: Ways) -> bool:
    if not isinstance(node.op, Contract):
        return True
    a, b, out = letters(node.op.spec)
    batch = [c for c in out if c in a and c in b]
    return out[: len(batch)] == a[: len(batch)] == b[: len(batch)]


PIPELINE = (
    Stage(
        "rewrite",
        lambda graph, ways: normal(graph.roots),
        "no rule fits any node",
        _is_normal,
        optional=True,
    ),
    Stage(
        "write out",
        lambda graph, ways: write_out(graph.arguments, graph.roots, ways.claimed),
        "every op is a primitive, or has loops or a kernel of its own",
        _is_written,
    ),
    Stage(
        "convolve",
        lambda graph, ways: convolve(graph.roots, ways.direct),
        "a convolution that is left is done directly",
        _is_contracted,
    ),
    Stage(
        "straighten",
        lambda graph, ways: straighten(graph.roots),
        "contractions begin with their batch dimensions",
        _is_straight,
    ),
    Stage(
        "cut",
        lambda graph, ways: cut_folds(graph.roots),
        "long folds to few results are folds of parts",
        lambda node, ways: True,
    ),
)


def prepare(
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    ways: Ways,
    optimize: bool = True,
) -> Expanded:
    """The graph of a run, inlined and taken through the pipeline.

    Under `td.options(check=True)` each stage is followed by the verifier and by a look
    at its guarantee.
    """
    sized("graph", nodes)
    with timed("inline"):
        graph = expand(nodes, feeds, keep, lambda op: True)
    _after("inline", "calls are inlined", _is_inlined, graph, ways)
    for stage in PIPELINE:
        if optimize or not stage.optional:
            with timed(stage.name):
                graph.roots = stage.run(graph, ways)
            _after(stage.name, stage.guarantee, stage.holds, graph, ways)
    read_known(graph)
    return graph


def read_known(graph: Expanded) -> None:
    """What has a value is read, not computed again.

    Only now: a rule may need to see what a value was made from. A gradient that divides
    by a softmax which underflowed to 0 is finite where the quotient cancels.
    """
    if not graph.known:
        return
    made: dict[int, Tensor] = {}
    for serial, node in graph.known.items():
        final = graph.roots.pop(serial, None)
        if final is not None and not isinstance(final.op, Leaf):
            made.setdefault(final.serial, graph.bound(node, final.type))
    lost: dict[int, Tensor] = {}
    inside: dict[int, Inner] = {}
    for serial, node in graph.lost.items():
        final = graph.roots.pop(serial, None)
        if final is not None and not isinstance(final.op, Leaf):
            lost.setdefault(final.serial, node)
    for serial, inner in graph.inside.items():
        final = graph.roots.pop(serial)
        if not isinstance(final.op, Leaf) and final.serial not in lost:
            inside.setdefault(final.serial, inner)
    if made:
        keys = list(graph.roots)
        built = rebuild(graph.roots.values(), made)
        graph.roots = dict(zip(keys, built, strict=True))
    graph.again, graph.once_more = _again(graph.roots.values(), lost, inside)


def _again(
    roots: Iterable[Tensor], lost: Mapping[int, Tensor], inside: Mapping[int, Inner]
) -> tuple[list[Tensor], list[Inner]]:
    """The lost nodes that the roots read, and those that were lost inside of calls."""
    nodes = reach(roots, lambda node: node.serial in lost or node.serial in inside)
    again = [lost[node.serial] for node in nodes if node.serial in lost]
    return again, [inside[node.serial] for node in nodes if node.serial in inside]


def _after(
    name: str,
    guarantee: str,
    holds: Callable[[Tensor, Ways], bool],
    graph: Expanded,
    ways: Ways,
) -> None:
    """What is seen to after a stage: its size is noted, what it promises checked."""
    if recording() is None and not current().check:
        return
    nodes = reach(graph.roots.values())
    sized(name, nodes)
    if not current().check:
        return
    for node, message in problems(nodes):
        raise RunError(f"after {name!r}: {message}").located(node.name)
    for node in nodes:
        if not holds(node, ways):
            error = RunError(f"after {name!r} it does not hold that {guarantee}")
            raise error.located(node.name, repr(node.type), node.line)
