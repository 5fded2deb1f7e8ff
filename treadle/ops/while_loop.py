"""A loop until a condition fails, as one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base import trees
from treadle.base.dtypes import bool_
from treadle.base.errors import ArgumentError, GradientError, ShapeError, TraceError
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body, trace
from treadle.graph.op import Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.rows import batched, repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.ops.call import match
from treadle.ops.control import Branch, call, choose, cond
from treadle.ops.families import Family, outputs_of
from treadle.ops.loop import drawn_at, refuse_assignment, scan

__all__ = ["while_loop"]

MOST = 1 << 31  # steps of a bounded loop, which are all run through


@op(tolerance="R")
class While(Family):
    """A body run on carries as long as `test` of them is true.

    Inputs: carries, constants of `test` (`tested` many), constants of the body, draws.
    """

    test: Body
    body: Body
    carries: int
    tested: int
    draws: int = 0
    family = "control"

    def infer(self, *types: Type) -> TupleType:
        c, k = self.carries, self.carries + self.tested
        match(self.test, types[:k])
        match(self.body, [*types[:c], *types[k:]])
        verdict = self.test.types[0]
        if verdict.dtype != bool_ or verdict.shape:
            raise ShapeError(f"the condition is a bool scalar, not {verdict}")
        for n, (a, b) in enumerate(zip(types[:c], self.body.types, strict=True)):
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                raise ShapeError(f"carry {n} is {a} and comes back as {b}")
        return TupleType(types[:c])

    def numpy(self, *arrays: Any) -> Any:
        c, k = self.carries, self.carries + self.tested
        end = len(arrays) - self.draws
        carry, t = list(arrays[:c]), 0
        while bool(self.test.numpy([*carry, *arrays[c:k]])[0]):
            draws = drawn_at(arrays[end:], t)
            carry = list(self.body.numpy([*carry, *arrays[k:end], *draws]))
            t += 1
        return tuple(carry)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        raise GradientError(
            "the number of iterations of this loop is not bounded",
            hint="pass max_iterations= to td.while_loop",
        )

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        c, k = self.carries, self.carries + self.tested
        n, marked = row_count(has_rows, xs), tuple(has_rows)
        test = batched(self.test, (True,) * c + marked[c:k], n)
        body = batched(self.body, (True,) * c + marked[k:], n)
        if test is None or body is None:
            return None
        types = [x.type for x in (*test.arguments, *body.arguments[c:])]

        def some(*args: Tensor) -> list[Tensor]:
            return [functions.any(call(test, *args)[0])]

        def step(*args: Tensor) -> list[Tensor]:
            # Rows whose condition has failed keep what they have.
            goes = call(test, *args[:k])[0]
            after = call(body, *args[:c], *args[k:])
            pairs = zip(after, args[:c], strict=True)
            return [choose(goes, a, b) for a, b in pairs]

        op = While(
            trace(some, types[:k], test.name).body,
            trace(step, types, body.name).body,
            c,
            self.tested,
            self.draws,
        )
        start = [
            x if g else repeated(x, n) for g, x in zip(marked[:c], xs[:c], strict=True)
        ]
        return op(*start, *xs[c:k], *xs[c:])


def while_loop(
    test: Callable[..., Any],
    body: Callable[..., Any],
    init: Any,
    *,
    max_iterations: int | None = None,
) -> Any:
    """`state = body(state)` as long as `test(state)`; the last state.

    Derivatives need `max_iterations`, a bound that is run through in any case.

    >>> int(td.while_loop(lambda n: n < 100, lambda n: n * 2, 1))
    128
    """
    if max_iterations is not None and not 0 <= max_iterations < MOST:
        raise ArgumentError(
            f"max_iterations is from 0 to {MOST - 1}, got {max_iterations}"
        ).located("while_loop")
    if max_iterations is not None:

        def step(state: Any, _: Any) -> tuple[Any, Any]:
            after = cond(test(state), body, lambda s: s, state)
            return after, ()

        return scan(step, init, length=max_iterations)[0]
    checked = Branch(test, (init,), "test")
    looped = Branch(body, (init,), getattr(body, "__name__", "loop"))
    refuse_assignment([*checked.assigned, *looped.assigned], "while_loop")
    if checked.trace.draws:
        raise TraceError("the condition of a loop draws no random numbers")
    c = len(looped.operands)
    if len(looped.body.outputs) != c:
        raise TraceError("the state comes back with another structure").located(
            "while_loop"
        )
    state, tested, rest = looped.operands, checked.inputs[c:], looped.inputs[c:]
    op = While(checked.body, looped.body, c, len(tested), looped.trace.draws)
    results = outputs_of(op(*state, *tested, *rest))
    return trees.unflatten(looped.result, results)
