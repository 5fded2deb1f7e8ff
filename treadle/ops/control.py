"""Branches as nodes, and what branches and loops share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base import trees
from treadle.base.dtypes import bool_, is_inexact
from treadle.base.errors import DTypeError, TraceError
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body, Trace, trace
from treadle.graph.leaves import Argument, as_tensor, zeros_of
from treadle.graph.op import Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.rows import batched, row_count, widened
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.call import Call, backward_of, called, inputs_of, match
from treadle.ops.families import Family, outputs_of

__all__ = ["cond"]


class Branch:
    """A function under trace on trees: its body, its inputs, its result's structure."""

    def __init__(
        self,
        f: Callable[..., Any],
        operands: Sequence[Any],
        name: str,
        assigned: Sequence[Variable] = (),
    ) -> None:
        leaves, self.structure = trees.flatten(tuple(operands))
        self.operands = [as_tensor(leaf) for leaf in leaves]
        self.result: Any = None

        def run(*arguments: Tensor) -> list[Tensor]:
            out = f(*trees.unflatten(self.structure, arguments))
            results, self.result = trees.flatten(out)
            return [as_tensor(y) for y in results] + [v.node() for v in assigned]

        types = [x.type for x in self.operands]
        self.trace: Trace = trace(run, types, name)
        count = len(self.trace.body.outputs) - len(self.trace.assigned)
        self.assigned = tuple(v for v, _ in self.trace.assigned)
        outputs = self.trace.body.outputs[:count]
        self.body = Body(name, self.trace.body.arguments, outputs)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the body at a call made now."""
        return inputs_of(self.trace, tuple(self.operands))


def union(groups: Sequence[Sequence[Variable]]) -> list[Variable]:
    """The Variables of all groups, each once, in order."""
    variables: dict[int, Variable] = {}
    for group in groups:
        for v in group:
            variables.setdefault(id(v), v)
    return list(variables.values())


@op(tolerance="R")
class Cond(Family):
    """The outputs of body `then` where the first input is true, else of `otherwise`.

    Of the inputs after the predicate, `then` takes the first `split`, `otherwise` the
    rest.
    """

    then: Body
    otherwise: Body
    split: int
    family = "control"

    def infer(self, predicate: Type, *rest: Type) -> TupleType:
        if predicate.dtype != bool_ or predicate.shape:
            raise DTypeError(
                f"a branch is chosen by a bool scalar, not {predicate}",
                hint="td.where(condition, x, y) chooses element by element",
            )
        match(self.then, rest[: self.split])
        match(self.otherwise, rest[self.split :])
        return TupleType(self.then.types)

    def numpy(self, *arrays: Any) -> Any:
        if bool(arrays[0]):
            return self.then.numpy(arrays[1 : 1 + self.split])
        return self.otherwise.numpy(arrays[1 + self.split :])

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        present = tuple(k for k, gk in enumerate(g) if gk is not None)
        gs = [g[k] for k in present]
        first, second = list(xs[1 : 1 + self.split]), list(xs[1 + self.split :])
        then, then_which = backward_of(self.then, present)
        other, other_which = backward_of(self.otherwise, present)
        pairs = [(0, k) for k in then_which] + [(1, k) for k in other_which]
        if not pairs:
            return (None,) * len(xs)
        # Each branch gives zeros for what only the other one reads.
        sides = [
            _padded(then, 0, pairs, second),
            _padded(other, 1, pairs, first),
        ]
        node = Cond(sides[0], sides[1], len(first) + len(gs) + len(second))(
            xs[0], *first, *gs, *second, *second, *gs, *first
        )
        result: list[Tensor | None] = [None] * len(xs)
        for (side, k), gx in zip(pairs, outputs_of(node), strict=True):
            result[1 + k + (self.split if side else 0)] = gx
        return tuple(result)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        n, mine, others = (
            row_count(has_rows, xs),
            has_rows[1:],
            has_rows[1 + self.split :],
        )
        then = batched(self.then, mine[: self.split], n)
        other = batched(self.otherwise, others, n)
        if then is None or other is None:
            return None
        if not has_rows[0]:
            return Cond(then, other, self.split)(*xs)

        def each(chosen: Tensor, *operands: Tensor) -> list[Tensor]:
            a = call(then, *operands[: self.split])
            b = call(other, *operands[self.split :])
            return [choose(chosen, *pair) for pair in zip(a, b, strict=True)]

        return called(f"{self.then.name} or not", each, xs)


def _padded(
    body: Body,
    side: int,
    pairs: list[tuple[int, int]],
    others: list[Tensor],
) -> Body:
    """A branch's cotangents with zeros in the places of the other branch's inputs.

    The other branch's inputs are arguments too, so that the zeros have their types.
    """
    extra = [Tensor(Argument(), (), x.type) for x in others]
    outputs: list[Tensor] = []
    mine = iter(body.outputs)
    for where, k in pairs:
        outputs.append(next(mine) if where == side else zeros_of(others[k].type))
    return Body(body.name, [*body.arguments, *extra], outputs)


def cond(
    predicate: Any,
    then: Callable[..., Any],
    otherwise: Callable[..., Any],
    *operands: Any,
) -> Any:
    """`then(*operands)` if the bool scalar `predicate` is true, else `otherwise(...)`.

    Both are traced and return trees of the same types; only the chosen one runs (a few
    operations on elements may be computed for both). A Variable assigned in either has
    its new version afterwards.

    >>> x = td.constant(-3.0)
    >>> float(td.cond(x < 0, lambda v: -v, lambda v: v, x))
    3.0
    """
    chosen = as_tensor(predicate)
    assigned: list[Variable] = []
    while True:
        a = Branch(then, operands, "then", assigned)
        b = Branch(otherwise, operands, "otherwise", assigned)
        everything = union([assigned, a.assigned, b.assigned])
        if len(everything) == len(assigned):
            break
        assigned = everything
    types = [[(t.shape, t.dtype) for t in side.body.types] for side in (a, b)]
    if types[0] != types[1] or a.result != b.result:
        error = TraceError(
            "both branches must return the same types, got "
            f"{list(a.body.types)} and {list(b.body.types)}"
        )
        raise error.located("cond")
    inputs = a.inputs
    node = Cond(a.body, b.body, len(inputs))(chosen, *inputs, *b.inputs)
    results = outputs_of(node)
    count = len(results) - len(assigned)
    for v, version in zip(assigned, results[count:], strict=True):
        v.assign(version)
    return trees.unflatten(a.result, results[:count])


def choose(chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The rows of a where the bool of the row is true, else those of b."""
    return functions.where(widened(chosen, a.type.ndim - 1), a, b)


def inexact(types: Sequence[Type]) -> list[int]:
    """The positions whose values have derivatives."""
    return [k for k, t in enumerate(types) if is_inexact(t.dtype)]


def call(body: Body, *xs: Tensor) -> tuple[Tensor, ...]:
    """The outputs of a body called on nodes."""
    return outputs_of(Call(body)(*xs))
