"""Loop fission: what a scan does that needs none of its state is done outside of it.

Of the body of a loop over rows, what follows from the rows alone is done for all steps
at once before the loop, if there are products in it (as recurrent layers of libraries
do: Appleyard, Kocisky and Blunsom, "Optimizing performance of recurrent neural networks
on GPUs", 2016); what no state needs is done after it (loop distribution: Kennedy and
McKinley, 1990); and a sum of products that is carried is one product after it, over the
rows of all steps: so is the gradient of a weight. What nobody reads is left out. A loop
that is one kernel reads the elementary functions that another one has computed of the
same, as its gradient does, where those of all steps stay in a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle.graph.body import Body, effect_of
from treadle.graph.leaves import Literal
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import rebuild, users
from treadle.ops.contract import Contract
from treadle.ops.families import Elementwise, Output
from treadle.ops.loop import Scan
from treadle.rewrite.combine import combined
from treadle.rewrite.expand import expand
from treadle.rewrite.motion import Nodes, Parts
from treadle.rewrite.products import (
    FAR,
    below,
    by_rows,
    needed,
    spread,
    with_products,
)
from treadle.rewrite.simplify import normal, tidy


def split_loops(
    roots: Mapping[int, Tensor],
    nodes: Sequence[Tensor],
    whole: Callable[[Scan], bool],
) -> Nodes:
    """The roots, with each scan among the nodes that they depend on in its parts; those
    that may be one kernel as a `whole` lose what is not read."""
    loops = _loops(nodes)
    if not loops:
        return dict(roots)
    each = list(dict.fromkeys(loops.values()))
    read = users(nodes)
    read |= {x.serial: [x] for x in roots.values()}
    for loop in each:
        loop.prepare(whole, read)
    for loop in each:
        loop.share(loops)
    for loop in each:
        if loop.parts is not None:
            loop.parts.stay_near()
    rewritten: Nodes = {}
    for node in nodes:
        inputs = tuple([rewritten.get(x.serial, x) for x in node.inputs])
        above = loops.get(node.inputs[0].serial) if node.inputs else None
        if isinstance(node.op, Output) and above is not None and above.results:
            rewritten[node.serial] = above.results[above.place(node)]
            continue
        if node.serial in loops and loops[node.serial].split(rewritten):
            continue
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            rewritten[node.serial] = remade(node, node.op, inputs, node.type)
    return {k: rewritten.get(x.serial, x) for k, x in roots.items()}


def _loops(nodes: Sequence[Tensor]) -> dict[int, _Loop]:
    """The scans by serial; those that carry the same are one."""
    loops: dict[int, _Loop] = {}
    known: dict[Any, _Loop] = {}
    for node in nodes:
        if isinstance(node.op, Scan) and not effect_of(node.op):
            key = _carried_by(node)
            loop = known.get(key)
            if loop is None:
                loop = known[key] = _Loop(node)
            loop.add(node)
            loops[node.serial] = loop
        above = loops.get(node.inputs[0].serial) if node.inputs else None
        if isinstance(node.op, Output) and above is not None:
            above.read.add(above.place(node))
    return loops


def _carried_by(node: Tensor) -> Any:
    """The key of loops that go through the same states."""
    op: Scan = node.op  # type: ignore[assignment]
    body = op.body
    states = tuple([y.serial for y in body.outputs[: op.carries]])
    arguments = tuple([x.serial for x in body.arguments])
    kind = op.length, op.carries, op.scanned, op.draws, op.reverse
    return tuple([x.serial for x in node.inputs]), arguments, states, kind


class _Loop:
    """One scan of a graph, or several that carry the same."""

    def __init__(self, node: Tensor) -> None:
        self.node, self.op = node, _scan(node)
        self.inputs = list(node.inputs)
        self.outputs: list[Tensor] = []  # of the bodies, each once
        self.places: dict[int, list[int]] = {}  # of each scan the numbers of its own
        self.read: set[int] = set()
        self.parts: Parts | None = None
        self.kernel: Parts | None = None  # of what may be one: nothing moves out of it

    @property
    def results(self) -> dict[int, Tensor]:
        """The results that are read, by number, once they are made."""
        return self.parts.results if self.parts is not None else {}

    def add(self, node: Tensor) -> None:
        """Add one more scan that carries the same."""
        known = {y.serial: k for k, y in enumerate(self.outputs)}
        c = self.op.carries
        places = self.places[node.serial] = list(range(c))
        for k, y in enumerate(_scan(node).body.outputs):
            if k < c <= len(self.outputs):
                continue
            if k < c or known.get(y.serial, -1) < c:
                known[y.serial] = len(self.outputs)
                self.outputs.append(y)
            if k >= c:
                places.append(known[y.serial])

    def place(self, output: Tensor) -> int:
        """The number of a result of one of the scans."""
        position: int = output.op.position  # type: ignore[attr-defined]
        return self.places[output.inputs[0].serial][position]

    def prepare(
        self, whole: Callable[[Scan], bool], users: Mapping[int, Sequence[Tensor]]
    ) -> None:
        """Find the parts, if there is something to be split or left out."""
        op = self.op
        if not op.length > 0:
            return
        body = _plain(Body(op.body.name, op.body.arguments, self.outputs))
        moves = not whole(op)
        if moves:
            first = op.carries + op.scanned
            body = with_products(op, body, self.inputs, users)
            end = len(body.arguments) - op.draws
            body = by_rows(body, first, end)
            carried = needed(body, op.carries, self.read)
            body = combined(body, first, end, carried, self.read)
            body = spread(body, first, end)
        parts = Parts(op, body, self.read)
        if parts.find(moves) or len(self.places) > 1:
            self.parts = parts
        self.kernel = None if moves else parts

    def share(self, loops: Mapping[int, _Loop]) -> None:
        """What is done before this loop of what another one has computed is given out
        by that one."""
        above = [x.inputs[0].serial for x in self.inputs if x.inputs]
        for other in dict.fromkeys(loops[k] for k in above if k in loops):
            alike = self.kernel is not None and other.kernel is not None
            parts = self.kernel if alike else self.parts
            others = other.kernel if alike else other.parts
            if parts is None or others is None:
                continue
            pairs = self._known(other, parts, others)
            if not any(x.serial in others.late for x in pairs.values()):
                continue
            if not alike:
                _take(parts, others, pairs)
            elif _take_functions(parts, others, pairs):
                self.parts, other.parts = parts, others

    def _known(self, other: _Loop, parts: Parts, others: Parts) -> Nodes:
        """The nodes of another loop's body that are the arguments of this one's."""
        if self.op.length is not other.op.length and self.op.length != other.op.length:
            return {}
        c, s = self.op.carries, self.op.scanned
        d, e = other.op.carries, other.op.carries + other.op.scanned
        theirs = {x.serial: k for k, x in enumerate(other.inputs) if k >= d}
        same: Nodes = {}
        arguments = parts.body.arguments
        for k, (argument, x) in enumerate(zip(arguments, self.inputs, strict=True)):
            is_row = c <= k < c + s
            place = theirs.get(x.serial)
            if k < c or k >= parts.end:
                continue
            if place is not None and place < others.end:
                if is_row == (place < e):
                    same[argument.serial] = others.body.arguments[place]
            elif is_row and other.gives(x):
                same[argument.serial] = others.body.outputs[other.place(x)]
        return same

    def gives(self, x: Tensor) -> bool:
        """Whether a node is a stack of this loop."""
        is_result = isinstance(x.op, Output) and x.inputs[0].serial in self.places
        return is_result and self.place(x) >= self.op.carries

    def split(self, rewritten: Nodes) -> bool:
        """Make the results that are read, of what other nodes became; whether that can
        be."""
        if self.parts is not None and not self.results:
            self.parts.build(
                self.node, [rewritten.get(x.serial, x) for x in self.inputs]
            )
        return bool(self.results)


def _take(parts: Parts, other: Parts, known: Nodes) -> None:
    """Have another loop give out what one would compute before itself.

    `known` tells what arguments of its body are in that one.
    """
    matches = _matches(parts, other, known)
    products = {k for k, x in parts.before.items() if isinstance(x.op, Contract)}
    dear = below(list(parts.before.values()), products)
    stack, seen = parts.ends(), set[int]()
    while stack:
        x = stack.pop()
        if x.serial in seen or x.serial not in dear:
            continue
        seen.add(x.serial)
        same = matches.get(x.serial)
        if same is not None and other.has(same):
            parts.shared[x.serial] = other, other.give(same)
        else:
            stack += [y for y in x.inputs if y.serial in parts.before]


def _take_functions(parts: Parts, other: Parts, known: Nodes) -> bool:
    """Have another loop give out the elementary functions that one would compute again;
    whether there are some, no more than stay in a cache."""
    matches = _matches(parts, other, known)
    states = {x.type for x in other.body.arguments[: other.op.carries]}
    functions: dict[int, Tensor] = {}
    stack, seen = (
        [parts.body.outputs[k] for k in {*parts.carried, *parts.read}],
        set[int](),
    )
    while stack:
        x = stack.pop()
        if x.serial in seen:
            continue
        seen.add(x.serial)
        same = matches.get(x.serial)
        is_function = isinstance(x.op, Elementwise) and x.op.traits.tolerance != "E"
        if is_function and x.type in states and same is not None and other.has(same):
            functions[x.serial] = x
        else:
            stack += x.inputs
    size = sum([x.type.nbytes for x in functions.values()])
    if not functions or parts.op.length * size > FAR:
        return False
    parts.before = functions
    for serial in functions:
        parts.shared[serial] = other, other.give(matches[serial])
    return True


def _matches(parts: Parts, other: Parts, known: Nodes) -> Nodes:
    """The nodes of another loop's body that are the same as those of one's."""
    table = {
        (x.op, x.type, *[y.serial for y in x.inputs]): x
        for x in other.body.nodes
        if x.inputs
    }
    leaves = {_leaf(x): x for x in other.body.nodes if x.stored is not None}
    matches = dict(known)
    for x in parts.body.nodes:
        if x.stored is not None and _leaf(x) in leaves:
            matches[x.serial] = leaves[_leaf(x)]
        elif x.inputs and all(y.serial in matches for y in x.inputs):
            key = x.op, x.type, *[matches[y.serial].serial for y in x.inputs]
            if key in table:
                matches[x.serial] = table[key]
    return matches


def _leaf(x: Tensor) -> Any:
    """The key of a leaf that has a value: its number, if that is written in a rule."""
    if isinstance(x.op, Literal) and x.type.size == 1:
        return x.type, x.array.tobytes()  # type: ignore[union-attr]
    return x.serial


def _scan(node: Tensor) -> Scan:
    op: Scan = node.op  # type: ignore[assignment]
    return op


def _plain(body: Body) -> Body:
    """A body with its calls inlined and by the rules, as the engine compiles it."""
    place = {x.serial: k for k, x in enumerate(body.arguments)}
    keep = {y.serial for y in body.outputs}
    graph = expand(body.nodes, place, keep, lambda op: True, tidy)
    roots = normal(graph.roots)
    arguments = list(body.arguments)
    data: Nodes = {}
    for old, argument in zip(graph.leaves, graph.arguments, strict=True):
        k = place.get(old.serial)
        if k is None:
            data[argument.serial] = old
        else:
            arguments[k] = argument
    outputs = rebuild([roots[y.serial] for y in body.outputs], data)
    return Body(body.name, arguments, outputs)
