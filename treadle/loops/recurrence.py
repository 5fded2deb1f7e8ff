"""Loops of a user's whose bodies are small: one kernel, the state in registers.

Where a body is element-wise, each element of the state goes its own way through all
steps, one after the other. Where the state has few elements, each of them is written
out, sums and products over them too. What is carried are accumulators, which all change
at once at the end of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from treadle.base.dtypes import bool_, float32, float64, int32, int64
from treadle.base.types import Shape, Type, equal_shapes
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Expression,
    Guard,
    Inside,
    Kernel,
    KernelArgument,
    Load,
    Loop,
    Statement,
    Store,
)
from treadle.loops.lower import (
    At,
    Guards,
    Lowering,
    Strides,
    broadcast,
    combiner,
    is_virtual,
    placed,
)
from treadle.ops.contract import Contract, letters
from treadle.ops.elementwise import ADD, MULTIPLY
from treadle.ops.families import Elementwise, Reduction
from treadle.ops.loop import Scan
from treadle.ops.select import Select
from treadle.rewrite.expand import Expanded

COMPUTED = 4096  # operations of a step that is part of one kernel, at most
FUNCTION = 16  # operations that an elementary function counts for: LLVM's time
FEW = 64  # elements of a state that are written out
READ = 1024  # elements that a step reads of all else, where they are
_DTYPES = (bool_, int32, int64, float32, float64)
ElementAt = Callable[[At], Expression]


@dataclass(frozen=True)
class _Traversal:
    """How the elements of a state are gone through: in loops over these axes, or, where
    there is no `at`, each is written out."""

    axes: tuple[LoopAxis, ...] = ()
    at: At | None = None

    def places(self, shape: Shape) -> list[At]:
        """The places of a value that a step computes."""
        if self.at is not None:
            return [broadcast(self.at, shape)]
        every = product(*map(range, shape))
        return [tuple([Index.of(k) for k in place]) for place in every]


def may_be_recurrence(op: Scan) -> bool:
    """Whether a loop may be one kernel, by its types alone."""
    return not op.draws and op.length > 0 and bool(_traversals(op))


def recurrence_kernel(
    node: Tensor, graph: Expanded, results: Sequence[Tensor], strides: Strides
) -> Kernels | None:
    """The kernel of a Scan whose body is this graph, with nodes for its results; None
    where more is done there than a kernel does.
    """
    for walk in _traversals(node.op):  # type: ignore[arg-type]
        if _is_small(graph, walk):
            kernel = _loop(node, graph, results, strides, walk)
            if kernel is not None:
                return [(kernel, [*node.inputs, *results])]
    return None


def _loop(
    node: Tensor,
    graph: Expanded,
    results: Sequence[Tensor],
    strides: Strides,
    walk: _Traversal,
) -> Kernel | None:
    """The kernel of a loop, of all inputs and then results; None where its body looks
    at other elements than its own."""
    op: Scan = node.op  # type: ignore[assignment]
    along = LoopAxis("t", op.length)
    step = Index.of(along)
    now = along.extent - 1 - step if op.reverse else step
    states = list(op.body.arguments[: op.carries])
    accumulators = _accumulators(states, walk)
    values = _values(
        op, graph, _arguments(node, accumulators, walk, step, now, strides), walk
    )
    if values is None:
        return None
    first, count = len(node.inputs), op.carries
    inside: list[Statement] = []
    for k in range(count, len(results)):
        y = results[k]
        places = walk.places(y.type.shape[1:])
        for at, x in zip(places, values[k], strict=True):
            inside.append(Store(first + k, placed((now, *at), strides(y)), x))
    last: list[Statement] = []
    for k in range(count):
        y, carried = results[k], accumulators[k]
        pairs = zip(carried.items(), values[k], strict=True)
        for (at, a), x in pairs:
            inside.append(Accumulate(a, x))
            last.append(
                Store(first + k, placed(at, strides(y)), Accumulated(a, a.dtype))
            )
    folds = tuple([a for carried in accumulators for a in carried.values()])
    loop = Loop(along, tuple(inside), "serial", folds=folds)
    arguments = [KernelArgument(x.type.dtype) for x in node.inputs]
    arguments += [KernelArgument(y.type.dtype, True) for y in results]
    rest = [a for a in walk.axes if a.extent != 1]
    body = nested(rest, (loop, *last), "parallel")
    return Kernel("loop", tuple(arguments), body, ordered=True, enumerated=not rest)


def _traversals(op: Scan) -> list[_Traversal]:
    """The traversals of a state's elements, by the types of a body."""
    states = [x.type for x in op.body.arguments[: op.carries]]
    others = [x.type for x in op.body.arguments[op.carries :]] + list(op.body.types)
    every = [*states, *others]
    if not states or not all(isinstance(t, Type) and t.dtype in _DTYPES for t in every):
        return []
    whole, traversals = states[0].shape, list[_Traversal]()
    alike = all(equal_shapes(t.shape, whole) for t in (*states, *op.body.types))
    if alike and all(_spreads(t.shape, whole) for t in others):
        axes = tuple([LoopAxis(f"i{k}", n) for k, n in enumerate(whole)])
        at = tuple([Index() if a.extent == 1 else Index.of(a) for a in axes])
        traversals.append(_Traversal(axes, at))
    few = sum(t.size for t in states) <= FEW
    if few and sum(t.size for t in others) <= READ:
        traversals.append(_Traversal())
    return traversals


def _spreads(shape: Shape, whole: Shape) -> bool:
    """Whether a value is read at one place for each element of the whole."""
    extents = whole[len(whole) - len(shape) :]
    return len(shape) <= len(whole) and all(
        n in (1, m) for n, m in zip(shape, extents, strict=True)
    )


def _is_small(graph: Expanded, walk: _Traversal) -> bool:
    """Whether a step computes nothing but elements, and not too many."""
    total = 0
    for x in graph.nodes():
        if not x.inputs:
            continue
        if not isinstance(x.type, Type) or x.type.dtype not in _DTYPES:
            return False
        terms = 1
        if isinstance(x.op, (Contract, Reduction)):
            if walk.at is not None:
                return False
            terms = 2 * _terms(x)
        elif not (isinstance(x.op, Elementwise) or is_virtual(x)):
            return False
        elif x.op.traits.tolerance == "U":
            terms = FUNCTION
        total += terms * (1 if walk.at is not None else x.type.size)
    return total <= COMPUTED


def _terms(x: Tensor) -> int:
    """The number of values that a product or a fold takes for one of its own."""
    if isinstance(x.op, Contract):
        return math.prod(n for _, n in _inner(x))
    return x.inputs[0].type.size // max(x.type.size, 1)


def _inner(x: Tensor) -> list[tuple[str, int]]:
    """The letters that a product sums over, and their extents."""
    a, b, out = letters(x.op.spec)  # type: ignore[attr-defined]
    shapes = x.inputs[0].type.shape + x.inputs[1].type.shape
    sizes = dict(zip(a + b, shapes, strict=True))
    return [(c, sizes[c]) for c in dict.fromkeys(a + b) if c not in out]


def _accumulators(
    states: Sequence[Tensor], walk: _Traversal
) -> list[dict[At, Accumulator]]:
    """The accumulators of each state, by the places of its elements."""
    accumulators: list[dict[At, Accumulator]] = []
    count = 0
    for x in states:
        by_place = {}
        for at in walk.places(x.type.shape):
            by_place[at] = Accumulator(count, None, 0, x.type.dtype)
            count += 1
        accumulators.append(by_place)
    return accumulators


def _arguments(
    node: Tensor,
    accumulators: Sequence[dict[At, Accumulator]],
    walk: _Traversal,
    step: Index,
    now: Index,
    strides: Strides,
) -> list[ElementAt]:
    """The elements of a body's arguments in a step, by place."""
    op: Scan = node.op  # type: ignore[assignment]
    begins = Inside((Guard(step, 0, 1),), bool_)

    def state(k: int, x: Tensor) -> ElementAt:
        def element(at: At) -> Expression:
            a = accumulators[k][at]
            begin = Load(k, placed(at, strides(x)), a.dtype)
            return Apply(Select(), (begins, begin, Accumulated(a, a.dtype)), a.dtype)

        return element

    def read(k: int, x: Tensor, before: At, shape: Shape) -> ElementAt:
        def element(at: At) -> Expression:
            if walk.at is not None and at != broadcast(walk.at, shape):
                raise KeyError(at)
            return Load(k, placed((*before, *at), strides(x)), x.type.dtype)

        return element

    arguments: list[ElementAt] = []
    pairs = zip(node.inputs, op.body.arguments, strict=True)
    for k, (x, argument) in enumerate(pairs):
        row = op.carries <= k < op.carries + op.scanned
        shape = argument.type.shape
        before = (now,) if row else ()
        arguments.append(state(k, x) if k < op.carries else read(k, x, before, shape))
    return arguments


class _Written(Lowering):
    """A body of one step; sums and products of few elements are written out."""

    def __init__(self, elements: dict[int, ElementAt]) -> None:
        super().__init__(lambda node: None)
        self.elements = elements

    def value(self, node: Tensor, at: At, guards: Guards = ()) -> Expression:
        for g in guards:
            if not g.index.terms and not g.low <= g.index.constant < g.high:
                return Const(0, node.type.dtype)
        element = self.elements.get(node.serial)
        return super().value(node, at, guards) if element is None else element(at)

    def _rule(self, node: Tensor, at: At, guards: Guards) -> Expression:
        if node.array is not None:
            return _numbers(node)(at)
        if isinstance(node.op, Contract):
            return self._product(node, at, guards)
        if isinstance(node.op, Reduction):
            return self._folded(node, at, guards)
        return super()._rule(node, at, guards)

    def _product(self, node: Tensor, at: At, guards: Guards) -> Expression:
        a, b, out = letters(node.op.spec)  # type: ignore[attr-defined]
        inner, dtype = _inner(node), node.type.dtype
        x, y = node.inputs
        terms: list[Expression] = []
        for place in product(*[range(n) for _, n in inner]):
            of = dict(zip(out, at, strict=True))
            names = [c for c, _ in inner]
            of |= {c: Index.of(k) for c, k in zip(names, place, strict=True)}
            pair = (
                self.value(x, tuple([of[c] for c in a]), guards),
                self.value(y, tuple([of[c] for c in b]), guards),
            )
            terms.append(Apply(MULTIPLY, pair, dtype))
        return self._joined(ADD, terms, Const(0, dtype))

    def _folded(self, node: Tensor, at: At, guards: Guards) -> Expression:
        op: Reduction = node.op  # type: ignore[assignment]
        (x,) = node.inputs
        kept = [k for k in range(x.type.ndim) if op.keepdims or k not in op.axes]
        known = dict(zip(kept, at, strict=True))
        terms: list[Expression] = []
        for place in product(*[range(x.type.shape[k]) for k in op.axes]):
            places = zip(op.axes, map(Index.of, place), strict=True)
            where = {**known, **dict(places)}
            parts = tuple([where[k] for k in range(x.type.ndim)])
            terms.append(self.value(x, parts, guards))
        dtype = node.type.dtype
        return self._joined(combiner(op, dtype), terms, Const(op.start(dtype), dtype))

    @staticmethod
    def _joined(op: object, terms: list[Expression], none: Expression) -> Expression:
        """Terms joined from the first to the last."""
        if not terms:
            return none
        joined = terms[0]
        for x in terms[1:]:
            joined = Apply(op, (joined, x), x.dtype)  # type: ignore[arg-type]
        return joined


def _values(
    op: Scan, graph: Expanded, arguments: Sequence[ElementAt], walk: _Traversal
) -> list[list[Expression]] | None:
    """The elements that a body returns, of what it is given; None where it looks at
    other places than its own."""
    place = {x.serial: k for k, x in enumerate(op.body.arguments)}
    known: dict[int, ElementAt] = {}
    for leaf, argument in zip(graph.leaves, graph.arguments, strict=True):
        k, number = place.get(leaf.serial), leaf.array
        if k is not None:
            known[argument.serial] = arguments[k]
        elif number is None:
            return None
        else:
            known[argument.serial] = _numbers(leaf)
    lowering = _Written(known)
    roots = [graph.roots[y.serial] for y in op.body.outputs]
    try:
        for x in graph.nodes():  # one after the other: bodies are deep
            if isinstance(x.op, (Elementwise, Contract, Reduction)):
                for at in walk.places(x.type.shape):
                    lowering.value(x, at)
        return [
            [lowering.value(x, at) for at in walk.places(x.type.shape)] for x in roots
        ]
    except KeyError:  # a neighbor of what is given: no rule says what that is
        return None


def _numbers(leaf: Tensor) -> ElementAt:
    """The elements of data that a body has by itself."""

    def element(at: At) -> Expression:
        if any(i.terms for i in at):  # in no table
            raise KeyError(at)
        number = leaf.array
        assert number is not None
        return Const(number[tuple([i.constant for i in at])], leaf.type.dtype)

    return element
