"""The derivative as a node, and the graph that it stands for."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from treadle.autodiff.reverse import pull, zeros_like
from treadle.autodiff.tape import TapeGradient, recipe_of, replayed, rows_given, twice
from treadle.autodiff.targets import Targets
from treadle.base.types import TupleType, Type
from treadle.core import native
from treadle.graph.frame import apart
from treadle.graph.leaves import Cut, constant_node, zeros_of
from treadle.graph.marks import NO_GRAD
from treadle.graph.op import Op, op
from treadle.graph.operators import provide
from treadle.graph.serials import newest_serial
from treadle.graph.tensor import Tensor, noted
from treadle.graph.traversal import by_serial, pending, reach
from treadle.graph.variable import variable_of
from treadle.ops.families import Output
from treadle.ops.lookup import shares


@op()
class Derivative(Op):
    """Cotangents of some nodes for cotangents of `of` results: inputs results,
    their cotangents, nodes. The k-th is the sum over the next `sizes[k]` nodes. One
    that is `nested` goes on through other derivatives; a `late` one through what runs
    as rows with it, where that pays.
    """

    of: int
    sizes: tuple[int, ...]
    nested: bool = False
    late: bool = False
    family = "derivative"

    def infer(self, *types: Any) -> TupleType:
        selected, place = [], 2 * self.of
        for size in self.sizes:
            selected.append(types[place])
            place += size
        return TupleType(tuple(selected))


if native is not None:  # how a graph looks hangs on whether it has some
    native.bind_derivative(Derivative)


@dataclass(frozen=True)
class Expansion:
    """The results of a Derivative as graphs of what it derives: what they read of the
    nodes that were there, and the new ones, in order. `replaced` has those that stand
    for nodes that read other derivatives, by serial.
    """

    results: list[Tensor]
    old: list[Tensor]
    fresh: list[Tensor]
    replaced: Mapping[int, Tensor]


def expansion(
    node: Tensor, replacements: Mapping[int, Tensor] | None = None
) -> Expansion:
    """What a Derivative stands for, on what `replacements` has for its inputs, by
    serial."""
    op = node.op
    assert isinstance(op, Derivative)
    inputs = (
        [replacements.get(x.serial, x) for x in node.inputs]
        if replacements
        else node.inputs
    )
    ys, gs = inputs[: op.of], inputs[op.of : 2 * op.of]
    rest = iter(inputs[2 * op.of :])
    groups = [[next(rest) for _ in range(size)] for size in op.sizes]
    start, replaced = newest_serial(), dict[int, Tensor]()
    with apart():
        if op.nested:
            replaced = _without_derivatives(ys, groups)
            ys = [replaced.get(y.serial, y) for y in ys]
            groups = [[replaced.get(x.serial, x) for x in group] for group in groups]
        cotangents = pull(ys, gs, Targets.of_nodes(groups))
    results = [cotangents[k] for k in range(len(groups))]
    nodes = reach(results, lambda n: n.serial < start)
    first = bisect(nodes, start, key=by_serial)
    old, fresh = nodes[:first], nodes[first:]
    code, offset = node.origin
    for x in fresh:
        x._code, x._offset = code, offset
    return Expansion(results, old, fresh, replaced)


def _without_derivatives(
    ys: Sequence[Tensor], groups: Sequence[Sequence[Tensor]]
) -> dict[int, Tensor]:
    """What stands, by serial, for nodes that a derivative by others goes through once
    derivatives are written out; whether nodes have values changes nothing."""
    targets = Targets.of_nodes(groups)
    if any(variable_of(x) is not None for group in groups for x in group):
        targets.floor = 0  # as where it was recorded: of a Variable any version counts
    nodes = reach(ys, targets.ends)
    return written_derivatives(nodes, targets=targets.nodes, bare=True)


def _of_rows(node: Tensor, replacements: Mapping[int, Tensor]) -> list[Tensor]:
    """The results of a TapeGradient as graphs of how its rows were computed."""
    op, rows = node.op, rows_given(node)
    assert isinstance(op, TapeGradient)
    if rows is None:
        raise twice().located("gradient", repr(node.type), node.line)
    inputs = [replacements.get(x.serial, x) for x in node.inputs]
    gs, sources = inputs[: len(op.places)], inputs[len(op.places) :]
    pairs = zip(node.inputs[len(op.places) :], sources, strict=True)
    copies = replayed(rows, {x.serial: source for x, source in pairs})
    row_copies = [copies[row.serial] for row in rows]
    ys, asked = row_copies[: len(gs)], row_copies[len(gs) :]
    wanted = [*sources, *asked]
    cotangents = pull(ys, gs, Targets(wanted, ends=sources))
    place = {x.serial: k for k, x in enumerate(op.tape.sources)}
    results = []
    for part in op.tape.parts:
        # The parts of a source are added up: one of them has all.
        g = cotangents.pop(place[part.source.serial], None)
        if g is None:
            g = zeros_of(Type(part.type.shape, part.type.dtype))
        elif part.ids is not None:
            g = shares(g, constant_node(part.ids))
        results.append(g)
    rest = enumerate(asked, len(sources))
    return results + [
        cotangents[k] if k in cotangents else zeros_like(x) for k, x in rest
    ]


def written_derivatives(
    nodes: Iterable[Tensor],
    replaced: dict[int, Tensor] | None = None,
    targets: Container[int] = (),
    bare: bool = False,
    anew: bool = False,
) -> dict[int, Tensor]:
    """The nodes that stand for others, by serial, once derivatives are written out.

    Those that are `targets` are not one, though they come to the same. If they are to
    be `bare`, results have no values or names, but end derivatives as before. All are
    made `anew`, or those alone that read what was written out.
    """
    replaced = {} if replaced is None else replaced
    results: dict[int, list[Tensor]] = {}
    for node in nodes:
        if node.serial in replaced:
            continue
        if type(node.op) is Derivative:
            results[node.serial] = expansion(node, replaced).results
        elif type(node.op) is TapeGradient and rows_given(node) is not None:
            results[node.serial] = _of_rows(node, replaced)
        elif isinstance(node.op, Cut) and (recipe := recipe_of(node)) is not None:
            op, (below,) = recipe
            assert isinstance(op, Output)
            if below.serial not in results:
                results[below.serial] = _of_rows(below, replaced)
            replaced[node.serial] = results[below.serial][op.position]
        elif node.inputs and node.inputs[0].serial in results:
            assert isinstance(node.op, Output)
            result = results[node.inputs[0].serial][node.op.position]
            alone = node.serial in targets or not (bare or _is_plain(node))
            alone = bool(result.inputs) and (alone or node.mark is NO_GRAD)
            if alone:
                result = _copied(result.op, result.inputs, node)
            replaced[node.serial] = result
        elif (anew and node.inputs) or any(x.serial in replaced for x in node.inputs):
            inputs = tuple(replaced.get(x.serial, x) for x in node.inputs)
            replaced[node.serial] = _copied(node.op, inputs, node)
    return replaced


def _is_plain(node: Tensor) -> bool:
    """Return True if no more is known of a node than its recipe."""
    return node.stored is None and not (node.mark or node._name or node._metadata)


def _copied(op: Op, inputs: tuple[Tensor, ...], like: Tensor) -> Tensor:
    return noted(Tensor(op, inputs, like.type, like.stored), like)


def derived(
    nodes: Sequence[Tensor], keep: Set[int]
) -> tuple[Sequence[Tensor], dict[int, int]]:
    """The nodes of a run without derivatives, for an engine that keeps no programs.

    Also the new serial of each that is to be kept; several may have one in common.
    """
    if not any(type(node.op) is Derivative for node in nodes):
        return nodes, {serial: serial for serial in keep}
    replaced = written_derivatives([n for n in nodes if n.stored is None])
    wanted = [n for n in nodes if n.serial in keep and type(n.op) is not Derivative]
    serials = {n.serial: replaced.get(n.serial, n).serial for n in wanted}
    return pending([replaced.get(n.serial, n) for n in wanted]), serials


@provide
def written_in_order(
    roots: Sequence[Tensor], outside: Callable[[Tensor], bool]
) -> list[Tensor]:
    """The nodes of a trace with each Derivative written out where it was recorded.

    What came after it comes after what it stands for, as cotangents are summed in the
    order of nodes.
    """
    nodes = [x for x in reach(roots, outside) if not outside(x)]
    places = (k for k, x in enumerate(nodes) if type(x.op) is Derivative)
    first = next(places, None)
    if first is None:
        return list(roots)
    replaced = written_derivatives(nodes[first:], anew=True)
    return [replaced.get(root.serial, root) for root in roots]


@provide
def written_out(roots: Sequence[Tensor]) -> list[Tensor]:
    """Nodes as they are looked at: every Derivative that they reach written out."""
    nodes = reach(roots)
    if not any(type(node.op) is Derivative for node in nodes):
        return list(roots)
    replaced = written_derivatives(nodes)
    return [replaced.get(root.serial, root) for root in roots]
