"""Inlining of calls, expansion of composites, common subexpression elimination.

The result is a graph of its own, over arguments. Equal expressions become one node:
they are numbered by op, type and operands in a table that dies with the compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum
from operator import is_
from typing import Any

from treadle.autodiff.reverse import Tidy, tidied
from treadle.autodiff.written import Derivative, expansion
from treadle.base.dtypes import HALF, float32
from treadle.base.symbolic import bits
from treadle.base.types import TupleType, Type, has_names, without_names
from treadle.graph.body import Body, argument_error, effect_of
from treadle.graph.leaves import LITERAL, Argument, Leaf, Unbound
from treadle.graph.meaning import is_empty
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import opened, reach
from treadle.graph.variable import Update
from treadle.ops.call import Call, without_calls
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract
from treadle.ops.control import Cond
from treadle.ops.families import Elementwise, Movement, Output, is_composed
from treadle.ops.flow import Again
from treadle.rewrite.empty import empty
from treadle.rewrite.selection import selection
from treadle.rewrite.straighten import ordered
from treadle.rewrite.written import written

Results = Tensor | tuple[Tensor, ...]
Inner = tuple[Tensor, Tensor]  # a call, and a node of its body without calls in it


def is_literal(node: Tensor) -> bool:
    """Whether a node of an expanded graph is a number written in a rule."""
    return node.stored is not None and node.type.shape == ()


@dataclass
class Expanded:
    """The new graph: its arguments, and the node that each old root became.

    `leaves` are the old nodes whose values the arguments take, in order; `replaced` has
    the argument with the old version of the Variable that a root updates; `known` the
    old nodes that have a value although their recipe is in the graph, as roots; `lost`
    those that were computed on the way to them, of which `again` are needed once more.
    `inside` has, by roots of their own, what calls among those computed inside: the
    call, and the node of its body; `once_more` those that are needed.
    """

    leaves: list[Tensor] = field(default_factory=list)
    arguments: list[Tensor] = field(default_factory=list)
    roots: dict[int, Tensor] = field(default_factory=dict)
    replaced: dict[int, Tensor] = field(default_factory=dict)
    known: dict[int, Tensor] = field(default_factory=dict)
    lost: dict[int, Tensor] = field(default_factory=dict)
    again: list[Tensor] = field(default_factory=list)
    inside: dict[int, Inner] = field(default_factory=dict)
    once_more: list[Inner] = field(default_factory=list)
    _reached: tuple[list[Tensor], list[Tensor]] = field(default=([], []), init=False)

    def nodes(self) -> Sequence[Tensor]:
        """All that the roots depend on, in creation order; the same roots are
        followed once.
        """
        roots = list(self.roots.values())
        of, nodes = self._reached
        if len(of) != len(roots) or not all(map(is_, of, roots)):
            self._reached = roots, nodes = roots, reach(roots)
        return nodes

    def bound(self, node: Tensor, type_: Type) -> Tensor:
        """A new argument that takes the value of an old node."""
        argument = Tensor(Argument(len(self.leaves)), (), type_)
        self.leaves.append(node)
        self.arguments.append(argument)
        return argument

    def leaf(self, argument: Tensor) -> Tensor:
        """The old node whose value an argument takes."""
        assert isinstance(argument.op, Argument)
        return self.leaves[argument.op.position]


class _Kind(Enum):
    """The treatment of an op: expanded unless it is claimed, or it stays."""

    PLAIN, EFFECT, OUTPUT, CONTRACT, UPDATE, CALL, WRITTEN = range(1, 8)


_kinds: dict[type[Op], _Kind] = {}


def _kind(op: Op) -> _Kind:
    kind = _Kind.PLAIN
    if isinstance(op, Update):
        kind = _Kind.UPDATE
    elif isinstance(op, Call):
        kind = _Kind.CALL
    elif is_composed(op):
        kind = _Kind.WRITTEN
    elif isinstance(op, Contract):
        kind = _Kind.CONTRACT
    elif isinstance(op, Output):
        kind = _Kind.OUTPUT
    elif op.traits.effect or op.family == "control":
        kind = _Kind.EFFECT
    _kinds[type(op)] = kind
    return kind


class _Numbering:
    """Nodes by what they compute."""

    def __init__(self, claimed: Callable[[Op], bool], straight: bool = False) -> None:
        self.claimed = claimed
        self.straight = straight  # contractions in the order that products are done
        self.table: dict[Any, Tensor] = {}
        self.done: dict[int, Results] = {}  # of nodes that rules made, by serial
        self.called: dict[int, dict[int, Results]] = {}  # what calls compute inside
        self.latest: Tensor | None = None  # what was seen from outside so far
        self.bare: set[Type | TupleType] = set()  # types without names

    def node(self, op: Op, inputs: tuple[Tensor, ...], like: Tensor) -> Tensor:
        kind = _kinds.get(type(op)) or _kind(op)
        once = kind is _Kind.PLAIN or effect_of(op) != "each"
        type_ = like.type
        if has_names(type_):  # resolved when the node was built: nothing reads them
            op, type_ = op.unnamed(), without_names(type_)
        if is_empty(op, type_):
            return self.table.setdefault(type_, empty(type_))
        key = (op, type_, *[x.serial for x in inputs])
        known = self.table.get(key) if once else None
        return self._first(key, op, inputs, like) if known is None else known

    def _first(
        self, key: Any, op: Op, inputs: tuple[Tensor, ...], like: Tensor
    ) -> Tensor:
        """The first node that computes what a key says."""
        same = inputs and op is like.op and key[1] is like.type
        same = same and all(map(is_, inputs, like.inputs))
        first = like if same else remade(like, op, inputs, key[1])
        self.table[key] = self.done[first.serial] = first
        return first

    def constant(self, node: Tensor) -> Tensor:
        """One node for each number; larger arrays are what they are."""
        value = node.array
        assert value is not None
        if value.ndim:
            if not has_names(node.type):
                return node
            if node.serial not in self.done:
                unnamed = Tensor(node.op, (), without_names(node.type), value)
                self.done[node.serial] = self.done[unnamed.serial] = unnamed
            return _one(self.done[node.serial])
        key = ("literal", value.dtype, bits(value))
        return self.table.setdefault(key, node)

    def convert(self, node: Tensor, converted: Mapping[int, Results]) -> Results:
        """A node over what its inputs became, expanded as far as it goes."""
        inputs: Any = tuple([converted[x.serial] for x in node.inputs])
        op = node.op
        kind = _kinds.get(type(op)) or _kind(op)
        if kind is _Kind.PLAIN or is_empty(op, node.type):
            return self.node(op, inputs, node)
        if kind is _Kind.OUTPUT and type(inputs[0]) is tuple:
            result: Tensor = inputs[0][node.op.position]  # type: ignore[attr-defined]
            return result
        assert tuple not in map(type, inputs), "several results where one is meant"
        if kind is _Kind.CONTRACT and self.straight:
            return self._contracted(op, inputs, node)  # type: ignore[arg-type]
        if kind is _Kind.UPDATE:
            return inputs[1]
        if kind is _Kind.CALL:
            return self._inline(node, without_calls(op.body), inputs)  # type: ignore[attr-defined]
        if isinstance(op, Cond) and (both := selection(op)) is not None:
            return self._inline(node, both, inputs)
        if kind is _Kind.WRITTEN and not self.claimed(op):
            return self._expand(node, inputs)
        if effect_of(op) != "each":
            return self.node(op, inputs, node)
        if self.latest is not None and inputs:  # it is seen after what came before
            inputs = Again()(inputs[0], self.latest), *inputs[1:]
        self.latest = self.node(op, inputs, node)
        return self.latest

    def _contracted(
        self, op: Contract, inputs: tuple[Tensor, ...], node: Tensor
    ) -> Tensor:
        """A product on permuted operands, unless its result would be permuted too."""
        product = ordered(op, inputs, node, {})
        if not isinstance(product.op, Contract):
            return self.node(op, inputs, node)
        # What an operand was permuted from is there already, as the operand is.
        known = {x.serial for y in inputs for x in (y, *y.inputs)}
        operands = [
            x if x.serial in known else self.node(x.op, x.inputs, x)
            for x in product.inputs
        ]
        return self.node(product.op, tuple(operands), product)

    def derived(
        self, node: Tensor, converted: dict[int, Results], tidy: Tidy | None
    ) -> tuple[Tensor, ...]:
        """The results of a Derivative, derived now."""
        with tidied(tidy):
            derived = expansion(node)
        for serial, x in derived.replaced.items():  # it comes to the same
            if serial in converted:
                converted.setdefault(x.serial, converted[serial])
        fresh = derived.fresh
        old = [x for x in derived.old if x.serial not in converted]
        if old:  # made since the derivative was recorded
            lost = f"a derivative reads {old[0].name}, which the run does not"
            assert old[0].serial > node.serial, lost
            fresh = reach(derived.results, lambda x: x.serial in converted)
        self._walk(fresh, converted)
        return tuple(_one(converted[y.serial]) for y in derived.results)

    def _inline(self, node: Tensor, body: Body, inputs: Sequence[Tensor]) -> Results:
        """The results of a node that is a body on operands."""
        converted: dict[int, Results] = {
            x.serial: operand for x, operand in zip(body.arguments, inputs, strict=True)
        }
        self._walk(body.nodes, converted)
        self.called[node.serial] = converted
        outputs = tuple([_one(converted[y.serial]) for y in body.outputs])
        return outputs if isinstance(node.type, TupleType) else outputs[0]

    def _expand(self, node: Tensor, inputs: tuple[Tensor, ...]) -> Results:
        """The expansion by the op's rule; of 16-bit floats in float32, rounded last."""
        wide = tuple([self._cast(x, float32, HALF) for x in inputs])
        types = node.type if isinstance(node.type, TupleType) else (node.type,)
        expanded = written(node.op, wide)
        known: dict[int, Results] = {
            x.serial: y for x, y in zip(expanded.arguments, wide, strict=True)
        }
        self._walk(expanded.nodes, known)
        results = tuple(
            self._to(_one(known[y.serial]), t.dtype)
            for y, t in zip(expanded.outputs, types, strict=True)
        )
        return results if expanded.several else results[0]

    def _cast(self, x: Tensor, dtype: Any, from_: tuple[Any, ...]) -> Tensor:
        return self._to(x, dtype) if x.type.dtype in from_ else x

    def _to(self, x: Tensor, dtype: Any) -> Tensor:
        if x.type.dtype == dtype:
            return x
        like = Tensor(Cast(dtype), (x,), x.type.with_dtype(dtype))
        return self.node(like.op, (x,), like)

    def _walk(self, nodes: Sequence[Tensor], converted: dict[int, Results]) -> None:
        """Convert nodes in order; `converted` maps old serials to what they became."""
        done, table, kinds, plain = self.done, self.table, _kinds, _Kind.PLAIN
        bare = self.bare
        for node in nodes:
            serial, type_ = node.serial, node.type
            if serial in converted:
                continue
            if serial in done:
                converted[serial] = done[serial]
            elif node.stored is not None:
                converted[serial] = self.constant(node)
            elif kinds.get(type(node.op)) is plain and (
                type_ in bare or self._is_bare(type_)
            ):
                # As `convert` does it, without the calls: most nodes are such.
                inputs: Any = tuple([converted[x.serial] for x in node.inputs])
                key = (node.op, type_, *[x.serial for x in inputs])
                known = table.get(key)
                if known is None:
                    known = self._first(key, node.op, inputs, node)
                converted[serial] = known
            else:
                converted[serial] = self.convert(node, converted)

    def _is_bare(self, type_: Type | TupleType) -> bool:
        """Whether no dimension has a name or no extent, to be asked once a type."""
        if has_names(type_) or not getattr(type_, "size", 1):
            return False
        self.bare.add(type_)
        return True


def _one(x: Results) -> Tensor:
    assert isinstance(x, Tensor), "several results where one is meant"
    return x


def expand(
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    claimed: Callable[[Op], bool] = lambda op: False,
    tidy: Tidy | None = None,
) -> Expanded:
    """The graph of a run in the ops that kernels know.

    `nodes` are in creation order; those with a value or a feed become arguments. An op
    for which `claimed` holds is left as it is. What is derived once and stands in the
    graph many times is rewritten by `tidy`, if that is given.
    """
    numbering = _Numbering(claimed)
    graph = Expanded()
    converted: dict[int, Results] = {}
    recipes = opened(nodes)
    for node in nodes:
        if node.op is LITERAL:
            converted[node.serial] = numbering.constant(node)
        elif node.serial in recipes:
            converted[node.serial] = numbering.convert(node, converted)
            graph.known[node.serial] = node
        elif node.stored is not None or node.serial in feeds:
            assert isinstance(node.type, Type)
            argument = graph.bound(node, without_names(node.type))
            converted[node.serial] = numbering.done[argument.serial] = argument
        elif isinstance(node.op, Derivative):
            converted[node.serial] = numbering.derived(node, converted, tidy)
        elif isinstance(node.op, Unbound):
            raise node.op.refusal()
        elif isinstance(node.op, Leaf):
            raise argument_error(node)
        else:
            converted[node.serial] = numbering.convert(node, converted)
    below = _below(nodes, recipes)
    graph.lost = {
        n.serial: n
        for n in below
        if n.stored is None and n.serial not in keep and _has_weight(n)
    }
    for serial in [*keep, *graph.known, *graph.lost]:
        root = converted[serial]
        if isinstance(root, Tensor) and isinstance(root.type, Type):
            graph.roots[serial] = root
    for call in below:
        computed = numbering.called.get(call.serial)  # None where its value is known
        if computed is None or not isinstance(call.op, Call) or call.op.again:
            continue
        for inner in without_calls(call.op.body).nodes:
            if _has_weight(inner):
                key = -1 - len(graph.inside)
                graph.inside[key] = call, inner
                graph.roots[key] = _one(computed[inner.serial])
    for node in nodes:
        if isinstance(node.op, Update) and node.serial in keep:
            old = converted[node.inputs[0].serial]
            if isinstance(old, Tensor) and isinstance(old.op, Argument):
                graph.replaced[node.serial] = old
    return graph


def _below(nodes: Sequence[Tensor], recipes: Set[int]) -> list[Tensor]:
    """The nodes that values with a recipe were computed from, and these."""
    below, reached = set(recipes), []
    for node in reversed(nodes) if recipes else ():
        if node.serial in below:
            below.update(x.serial for x in node.inputs)
            reached.append(node)
    return reached


def _has_weight(node: Tensor) -> bool:
    """Whether a node is better kept than computed again.

    What a call gives out is what a node inside of it is.
    """
    if not node.inputs or isinstance(node.op, (Movement, Elementwise)):
        return False
    call = node.inputs[0].op if isinstance(node.op, Output) else node.op
    inner = isinstance(call, Call) and not call.again
    return isinstance(node.type, Type) and not inner


def write_out(
    arguments: Sequence[Tensor],
    roots: Mapping[int, Tensor],
    nodes: Sequence[Tensor],
    claimed: Callable[[Op], bool],
) -> dict[int, Tensor]:
    """The roots of a graph over arguments, in the ops that kernels know.

    `nodes` are all that they depend on.
    """
    numbering = _Numbering(claimed, straight=True)
    converted: dict[int, Results] = {x.serial: x for x in arguments}
    numbering.done.update(converted)
    numbering._walk(nodes, converted)
    return {k: _one(converted[root.serial]) for k, root in roots.items()}
