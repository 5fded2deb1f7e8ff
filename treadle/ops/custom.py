"""Derivatives of the user's own, in place of those that a graph would have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from treadle.base import trees
from treadle.base.dtypes import is_inexact
from treadle.base.errors import ArgumentError, ArityError, GradientError, ShapeError
from treadle.base.types import TupleType, Type, broadcast_shapes
from treadle.graph.body import Body, trace
from treadle.graph.leaves import as_tensor, zeros_of
from treadle.graph.op import Cotangents, op
from treadle.graph.rows import batched, repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import variable_of
from treadle.ops.call import Call, inputs_of, match
from treadle.ops.families import Composite, outputs_of
from treadle.ops.flow import StopGradient, stop_gradient

__all__ = ["custom_gradient"]

Gradient = Callable[..., Any]


@op(tolerance="R")
class Custom(Composite):
    """Its first operands, the results, with derivatives by the operands after them.

    These are the outputs of `body`, of cotangents of the results, the results, the
    `operands` and what else it reads; `which` tells by which operand each one is.
    """

    body: Body
    results: int
    operands: int
    which: tuple[int, ...]

    def infer(self, *types: Type) -> TupleType:
        result_types = types[: self.results]
        match(self.body, [*result_types, *types])
        return TupleType(result_types)

    def numpy(self, *arrays: Any) -> Any:
        return arrays[: self.results]

    def expand(self, *xs: Tensor) -> Any:
        return xs[: self.results]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        ys = outputs_of(self(*xs))  # as nodes of here: `y` may be outside of a trace
        gs = [zeros_of(t.type) if x is None else x for x, t in zip(g, ys, strict=True)]
        cotangents: list[Tensor | None] = [None] * len(xs)
        if self.which:
            node = Call(self.body)(*gs, *ys, *xs[self.results :])
            for k, gx in zip(self.which, outputs_of(node), strict=True):
                cotangents[self.results + k] = gx
        return tuple(cotangents)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        n, end = row_count(has_rows, xs), self.results + self.operands
        marks = [True] * (self.results + end) + list(has_rows[end:])
        body = batched(self.body, marks, n)
        if body is None:
            return None
        each = [
            x if g else repeated(x, n)
            for x, g in zip(xs[:end], has_rows[:end], strict=True)
        ]
        return replace(self, body=body)(*each, *xs[end:])


def derived_by(
    name: str, gradient: Gradient, ys: Sequence[Tensor], xs: Sequence[Tensor], one: bool
) -> tuple[Tensor, ...]:
    """Results with derivatives by operands that `gradient(g, y, *xs)` makes.

    For `one` result g and y are tensors, else tuples of them.
    """
    which: list[int] = []
    count = len(ys)

    def pulled(*arguments: Tensor) -> list[Tensor]:
        gs, outputs = arguments[:count], arguments[count : 2 * count]
        pair = (gs[0], outputs[0]) if one else (gs, outputs)
        cotangents = gradient(*pair, *arguments[2 * count :])
        parts = _by_operand(name, cotangents, xs)
        which[:] = [k for k, part in enumerate(parts) if part is not None]
        return [part for part in parts if part is not None]

    types = [x.type for x in (*ys, *ys, *xs)]
    traced = trace(pulled, types, f"gradient of {name}")
    if traced.assigned:
        raise GradientError(
            f"the gradient of {name} assigns Variables",
            hint="it is a value like any other: what it computes may be used often",
        ).located(name)
    read = inputs_of(traced, ())
    ys = [stop_gradient(y) for y in ys]
    op = Custom(traced.body.shared(), count, len(xs), tuple(which))
    return outputs_of(op(*ys, *xs, *read))


def _by_operand(name: str, returned: Any, xs: Sequence[Tensor]) -> list[Tensor | None]:
    """The cotangents a gradient returned, by operand; None where nothing depends."""
    parts = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(parts) != len(xs):
        raise ArityError(
            f"the gradient of {name} returns {len(parts)} of {len(xs)} cotangents",
            hint="return one for each operand, None where nothing depends on it",
        ).located(name)
    cotangents: list[Tensor | None] = []
    for k, (part, x) in enumerate(zip(parts, xs, strict=True)):
        node = None if part is None or not is_inexact(x.type.dtype) else as_tensor(part)
        if node is not None and not _reduces(node.type.shape, x.type.shape):
            raise ShapeError(
                f"the gradient of {name} by operand {k}, {x.type}, is {node.type}",
                hint="a cotangent has the shape of its operand",
            ).located(name)
        cotangents.append(node)
    return cotangents


def _reduces(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a cotangent of this shape is one of the target, perhaps broadcast."""
    try:
        return broadcast_shapes(shape, target) == shape or not shape
    except ShapeError:
        return False


def custom_gradient(f: Callable[..., Any], gradient: Gradient | None = None) -> Any:
    """`f`, a function of tensors, with a gradient that `gradient(g, y, *xs)` makes.

    `xs` are the operands, `y` is the result, `g` its cotangent, all tensors (tuples of
    them where f returns several); it returns a cotangent for each operand, or None
    where nothing depends on it. What f computes is not differentiated any more, so that
    it has to be given what it depends on. Second derivatives are those of `gradient`.
    Without a gradient, a decorator that waits for it: `@f.gradient`.

    >>> step = td.custom_gradient(lambda x: td.sign(x), lambda g, y, x: g)
    >>> x = td.param("x", init=3.0)
    >>> float(step(x)), float(td.grad(step(x) * 5.0, [x])[0])
    (1.0, 5.0)
    """
    return CustomGradient(f, gradient)


class CustomGradient:
    """A function of tensors with its own gradient, made by `td.custom_gradient`."""

    def __init__(self, f: Callable[..., Any], gradient: Gradient | None) -> None:
        if not (callable(f) and (gradient is None or callable(gradient))):
            raise ArgumentError(f"takes functions, not {f!r} and {gradient!r}")
        self.f = f
        self.pulled = gradient
        self.name = getattr(f, "__name__", type(f).__name__)

    def gradient(self, gradient: Gradient) -> Gradient:
        """Take a function for the gradient; a decorator."""
        self.pulled = gradient
        return gradient

    def __call__(self, *xs: Any) -> Any:
        if self.pulled is None:
            raise ArgumentError(
                f"{self.name} has no gradient yet",
                hint="give it: td.custom_gradient(f, gradient), or @f.gradient",
            ).located(self.name)
        operands = [as_tensor(x) for x in xs]
        apart = [stop_gradient(x) for x in operands]
        leaves, structure = trees.flatten(self.f(*apart))
        ys = [as_tensor(y) for y in leaves]
        _refuse_others(self.name, ys)
        one = structure == "leaf"
        results = derived_by(self.name, self.pulled, ys, operands, one)
        return trees.unflatten(structure, results)

    def __repr__(self) -> str:
        return f"<{self.name} with a gradient of its own>"


def _refuse_others(name: str, ys: Sequence[Tensor]) -> None:
    """Refuse results that depend on parameters which are no operands."""
    names: dict[str, None] = {}
    for node in reach(ys, lambda x: isinstance(x.op, StopGradient)):
        variable = variable_of(node)
        if variable is not None and variable.trainable:
            names[variable.name] = None
    if names:
        raise GradientError(
            f"{name} reads the parameters {', '.join(names)} around it, by which its "
            "gradient says nothing",
            hint="make them operands, or read them with td.stop_gradient",
        ).located(name)
