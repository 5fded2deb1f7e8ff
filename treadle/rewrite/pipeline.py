"""The way of a graph to what programs are built from: one tuple, with guarantees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from treadle.base.errors import RunError
from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.graph.body import Body, bodies
from treadle.graph.leaves import Argument, Constant, Leaf
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.graph.text import bodies_of
from treadle.graph.traversal import reach, rebuild
from treadle.graph.variable import Update
from treadle.graph.verify import problems
from treadle.ops.call import Call
from treadle.ops.contract import Contract, letters
from treadle.ops.convolution import Conv, ConvInputGradient, ConvWeightGradient
from treadle.ops.families import is_composed
from treadle.ops.loop import Scan
from treadle.rewrite.checked import Judge
from treadle.rewrite.convolve import convolve
from treadle.rewrite.cut import cut_folds
from treadle.rewrite.empty import is_computed, without_empty
from treadle.rewrite.expand import Expanded, Inner, expand, write_out
from treadle.rewrite.fission import split_loops
from treadle.rewrite.record import recording, sized
from treadle.rewrite.record import stage as timed
from treadle.rewrite.rule import RuleSet
from treadle.rewrite.simplify import (
    compiled_rules,
    narrow_rules,
    narrowed,
    normal,
    tidy,
)
from treadle.rewrite.straighten import is_half_product, straighten, widen

Roots = dict[int, Tensor]


@dataclass(frozen=True)
class Ways:
    """What an engine does itself: the ops it claims, the convolutions done directly,
    the loops that may be one kernel, and whether products of bytes are instructions."""

    claimed: Callable[[Op], bool]
    direct: Callable[[Tensor], bool]
    whole: Callable[[Scan], bool] = lambda op: False
    bytes: Callable[[], bool] = lambda: False


ALL = Ways(lambda op: True, lambda node: True)  # an engine that writes nothing out


@dataclass(frozen=True)
class Stage:
    """One step on the way: what it does to the roots, and what then holds of each node.

    Without the `optional` ones no rule is applied; what holds after a `deep` one
    holds of the nodes in bodies too.
    """

    name: str
    run: Callable[[Expanded, Ways], Roots]
    guarantee: str
    holds: Callable[[Tensor, Ways], bool]
    optional: bool = False
    deep: bool = False


def _is_inlined(node: Tensor, ways: Ways) -> bool:
    if isinstance(node.op, Leaf):
        return isinstance(node.op, (Argument, Constant))
    return not isinstance(node.op, (Call, Update))


def _is_normal(node: Tensor, ways: Ways) -> bool:
    if isinstance(node.type, TupleType) or node.type.dtype.kind == "c":
        return True
    return not _fits(compiled_rules(), node)


def _fits(rules: RuleSet, node: Tensor) -> bool:
    """Whether one of these rules fits a node."""
    return any(rule.apply(node) is not None for rule in rules.of(node))


def _is_written(node: Tensor, ways: Ways) -> bool:
    written = not is_composed(node.op) or ways.claimed(node.op)
    return written and _is_inlined(node, ways)


def _is_contracted(node: Tensor, ways: Ways) -> bool:
    kinds = (Conv, ConvInputGradient, ConvWeightGradient)
    return not isinstance(node.op, kinds) or ways.direct(node)


def _is_straight(node: Tensor, ways: Ways) -> bool:
    if not isinstance(node.op, Contract):
        return True
    if is_half_product(node):
        return False
    a, b, out = letters(node.op.spec)
    batch = [c for c in out if c in a and c in b]
    return out[: len(batch)] == a[: len(batch)] == b[: len(batch)]


_INLINE = Stage(
    "inline", lambda graph, ways: graph.roots, "calls are inlined", _is_inlined
)

PIPELINE = (
    Stage(
        "split loops",
        lambda graph, ways: split_loops(graph.roots, graph.nodes(), ways.whole),
        "what no state of a loop needs is done outside of it",
        lambda node, ways: True,
        optional=True,
    ),
    Stage(
        "rewrite",
        lambda graph, ways: normal(graph.roots),
        "no rule fits any node",
        _is_normal,
        optional=True,
        deep=True,
    ),
    Stage(
        "narrow",
        lambda graph, ways: narrowed(graph.roots, graph.nodes(), ways.bytes()),
        "products of bytes and quotients are in as few digits as give the same",
        lambda node, ways: not _fits(narrow_rules(ways.bytes()), node),
        optional=True,
    ),
    Stage(
        "write out",
        lambda graph, ways: write_out(
            graph.arguments, graph.roots, graph.nodes(), ways.claimed
        ),
        "every op is a primitive, or has loops or a kernel of its own",
        _is_written,
    ),
    Stage(
        "convolve",
        lambda graph, ways: convolve(graph.roots, graph.nodes(), ways.direct),
        "a convolution that is left is done directly",
        _is_contracted,
    ),
    Stage(
        "straighten",
        lambda graph, ways: widen(
            straighten(graph.roots, graph.nodes()), graph.nodes()
        ),
        "contractions begin with their batch dimensions, none is of 16-bit floats",
        _is_straight,
    ),
    Stage(
        "cut",
        lambda graph, ways: cut_folds(graph.roots, graph.nodes()),
        "long folds to few results are folds of parts",
        lambda node, ways: True,
    ),
    Stage(
        "leave out",
        lambda graph, ways: without_empty(graph.roots, graph.nodes()),
        "no value without elements is computed",
        lambda node, ways: is_computed(node),
    ),
)
REQUIRED = tuple(stage for stage in PIPELINE if not stage.optional)


def prepare(
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    ways: Ways = ALL,
    stages: Sequence[Stage] = PIPELINE,
) -> Expanded:
    """The graph of a run, inlined and taken through the stages.

    Under `td.options(check=True)` each stage is followed by the verifier, by a look at
    its guarantee, and by the values of its graph beside those of the one before.
    """
    sized("graph", nodes)
    with timed("inline"):
        # Who asks what is rewritten sees it all where it stands.
        rewrites = recording() is None and any(stage.optional for stage in stages)
        tidier = tidy if rewrites else None
        graph = expand(nodes, feeds, keep, lambda op: True, tidier)
    check = current().check
    _after(_INLINE, graph, ways)
    if check:
        judge = Judge(graph, nodes, feeds, keep)
    for stage in stages:
        before = graph.roots
        with timed(stage.name):
            graph.roots = stage.run(graph, ways)
        _after(stage, graph, ways)
        if check:
            earlier = replace(graph, roots=before)
            again = partial(stage.run, earlier, ways)
            judge.stage(stage.name, before, graph.roots, again)
    read_known(graph)
    return graph


def read_known(graph: Expanded) -> None:
    """Have the graph read the nodes with values, not compute them again.

    Only now: a rule may need to see what a value was made from. A gradient that divides
    by a softmax which underflowed to 0 is finite where the quotient cancels.
    """
    if not graph.known:
        return
    arguments: dict[int, Tensor] = {}
    for serial, node in graph.known.items():
        final = graph.roots.pop(serial, None)
        if final is not None and not isinstance(final.op, Leaf):
            arguments.setdefault(final.serial, graph.bound(node, final.type))
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
    if arguments:
        keys = list(graph.roots)
        built = rebuild(graph.roots.values(), arguments)
        graph.roots = dict(zip(keys, built, strict=True))
    graph.again, graph.once_more = _recomputed(graph.roots.values(), lost, inside)


def _recomputed(
    roots: Iterable[Tensor], lost: Mapping[int, Tensor], inside: Mapping[int, Inner]
) -> tuple[list[Tensor], list[Inner]]:
    """The lost nodes that the roots read, and those that were lost inside of calls."""
    nodes = reach(roots, lambda node: node.serial in lost or node.serial in inside)
    again = [lost[node.serial] for node in nodes if node.serial in lost]
    return again, [inside[node.serial] for node in nodes if node.serial in inside]


def _after(stage: Stage, graph: Expanded, ways: Ways) -> None:
    """Note the size of a graph after a stage, and check what the stage promises."""
    if recording() is None and not current().check:
        return
    nodes = graph.nodes()
    sized(stage.name, nodes)
    if not current().check:
        return
    inner = [node for body in bodies_of(nodes) for node in body.nodes]
    for node, message in problems([*nodes, *inner]):
        raise RunError(f"after {stage.name!r}: {message}").located(node.name)
    for node in [*nodes, *_run_inside(nodes)] if stage.deep else nodes:
        if not stage.holds(node, ways):
            what = f"after {stage.name!r} it does not hold that {stage.guarantee}"
            raise RunError(what).located(node.name, repr(node.type), node.line)


def _run_inside(nodes: Iterable[Tensor]) -> list[Tensor]:
    """The nodes of the bodies that run: not of those that derivatives are made of."""
    inside: dict[int, Body] = {}
    stack = list(nodes)
    while stack:
        op = stack.pop().op
        for body in bodies(op).values() if op.family == "control" else ():
            if id(body) not in inside:
                inside[id(body)] = body
                stack.extend(body.nodes)
    return [node for body in inside.values() for node in body.nodes]
