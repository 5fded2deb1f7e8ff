"""A call of a traced body as one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.errors import ArityError, ShapeError
from treadle.base.options import current
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body, Trace
from treadle.graph.leaves import Argument, Leaf
from treadle.graph.op import Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import batched, row_count
from treadle.graph.tensor import Tensor, copied
from treadle.graph.thread import thread_state
from treadle.graph.traversal import rebuild
from treadle.ops.families import Composite, Family, Output, outputs_of
from treadle.ops.flow import Again


def match(body: Body, types: Sequence[Type]) -> None:
    """Refuse operands that are not what the body was traced for."""
    wanted = [x.type for x in body.arguments]
    if len(types) != len(wanted):
        raise ArityError(f"{body.name} takes {len(wanted)} operands, got {len(types)}")
    for k, (actual, expected) in enumerate(zip(types, wanted, strict=True)):
        if actual.shape != expected.shape or actual.dtype != expected.dtype:
            raise ShapeError(f"operand {k} of {body.name} is {expected}, got {actual}")


def backward_of(body: Body, present: tuple[int, ...]) -> tuple[Body, tuple[int, ...]]:
    """The body of cotangents for cotangents of the outputs `present`, made once.

    Its arguments are the body's, then those cotangents; the second result tells to
    which of the body's arguments its outputs belong.
    """
    key = "backward", present, current().workspace
    if key not in body.memo:
        outputs = [body.outputs[k] for k in present]
        count = len(body.arguments)
        gs = [Tensor(Argument(count + k), (), y.type) for k, y in enumerate(outputs)]
        cotangents = functions.pullback(outputs, gs, body.arguments)
        which = tuple(k for k, g in enumerate(cotangents) if g is not None)
        arguments = [*body.arguments, *gs]
        name = f"gradient of {body.name}"
        body.memo[key] = Body(name, arguments, [cotangents[k] for k in which]), which
    return body.memo[key]


def inputs_of(traced: Trace, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """All inputs of a call: arguments, Variables read, captured tensors, new draws."""
    read = tuple(thread_state().frames[-1].read_all(traced.variables))
    inputs = arguments + read + traced.captured
    return inputs + tuple(traced.drawn()) if traced.draws else inputs


@provide
def called(
    name: str, f: Callable[..., Sequence[Tensor]], xs: Sequence[Tensor]
) -> Tensor:
    """Several results of operands as one node: a call of what f computes from them."""
    arguments = [Tensor(Argument(k), (), x.type) for k, x in enumerate(xs)]
    return Call(Body(name, arguments, f(*arguments)))(*xs)


def without_calls(body: Body) -> Body:
    """The same body with what calls in it compute in their place, made once.

    Calls whose gradient is to compute again what they do stay.
    """
    if "without calls" not in body.memo:
        body.memo["without calls"] = _without_calls(body)
    return body.memo["without calls"]


def _without_calls(body: Body) -> Body:
    def opens(node: Tensor) -> bool:
        return isinstance(node.op, Call) and not node.op.again

    if not any(opens(node) for node in body.nodes):
        return body
    copies: dict[int, Tensor] = {}
    results: dict[int, list[Tensor]] = {}
    for node in body.nodes:
        inputs = tuple(copies.get(x.serial, x) for x in node.inputs)
        if isinstance(node.op, Output) and node.inputs[0].serial in results:
            copies[node.serial] = results[node.inputs[0].serial][node.op.position]
        elif isinstance(node.op, Call) and opens(node):
            inner = without_calls(node.op.body)
            pairs = zip(inner.arguments, inputs, strict=True)
            replaced = {a.serial: x for a, x in pairs}
            inner_outputs = results[node.serial] = rebuild(inner.outputs, replaced)
            if not isinstance(node.type, TupleType):
                copies[node.serial] = inner_outputs[0]
        elif any(a is not b for a, b in zip(inputs, node.inputs, strict=True)):
            copies[node.serial] = copied(node, inputs)
    outputs = [copies.get(y.serial, y) for y in body.outputs]
    return Body(body.name, body.arguments, outputs)


def in_place(body: Body, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a body as nodes of their own, made anew, without a call."""
    plain = without_calls(body)
    pairs = zip(plain.arguments, inputs, strict=True)
    copies = {x.serial: operand for x, operand in pairs}
    for node in plain.nodes:
        if node.serial not in copies and not isinstance(node.op, Leaf):
            copy = copied(node, tuple([copies.get(x.serial, x) for x in node.inputs]))
            copies[node.serial] = copy
    return [copies.get(y.serial, y) for y in plain.outputs]


def smaller(node: Tensor) -> tuple[Body, list[Tensor]]:
    """The body of smaller ops that a composed op is, and the operands of that."""
    op: Any = node.op
    rule = op.expand if isinstance(op, Composite) else op.scalar
    operands = {x.serial: x for x in node.inputs}
    arguments = {  # numbers stay, for a rule may look at one
        serial: x
        if x.stored is not None and not x.inputs
        else Tensor(Argument(k), (), x.type)
        for k, (serial, x) in enumerate(operands.items())
    }
    result = rule(*[arguments[x.serial] for x in node.inputs])
    outputs = result if isinstance(result, tuple) else (result,)
    return Body(op.name, list(arguments.values()), outputs), list(operands.values())


def place_inside(node: Tensor, inner: Tensor) -> int:
    """The place of a node in a call's body without calls: the same in bodies alike."""
    assert isinstance(node.op, Call)
    body = without_calls(node.op.body)
    if "places" not in body.memo:
        body.memo["places"] = {n.serial: k for k, n in enumerate(body.nodes)}
    return body.memo["places"][inner.serial]


def inside(node: Tensor, wanted: Sequence[int]) -> list[Tensor]:
    """What a call computes inside, as results of another call: nodes of its body
    without calls, by their places there.
    """
    assert isinstance(node.op, Call)
    body, key = without_calls(node.op.body), ("inside", tuple(wanted))
    if key not in body.memo:
        outputs = [body.nodes[place] for place in wanted]
        body.memo[key] = Body(body.name, body.arguments, outputs)
    return list(outputs_of(Call(body.memo[key], again=True)(*node.inputs)))


@op(tolerance="R")
class Call(Family):
    """The outputs of a body for these inputs: several results, or the only one.

    With `again` its gradient keeps nothing of what is computed inside.
    """

    body: Body
    again: bool = False
    family = "control"

    @property
    def closed(self) -> bool:  # type: ignore[override]
        return self.body.closed

    def infer(self, *types: Type) -> Type | TupleType:
        match(self.body, types)
        return self.body.result

    def numpy(self, *arrays: Any) -> Any:
        results = self.body.numpy(arrays)
        return results if isinstance(self.body.result, TupleType) else results[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        g = g if isinstance(self.body.result, TupleType) else (g,)
        present = tuple(k for k, gk in enumerate(g) if gk is not None)
        back, which = backward_of(self.body, present)
        result: list[Tensor | None] = [None] * len(xs)
        if which and self.again:
            seen = [*(g[k] for k in present), *outputs_of(y)]
            xs = tuple(Again()(x, *seen) for x in xs)
        if which:
            node = Call(back)(*xs, *[g[k] for k in present])
            for k, gx in zip(which, outputs_of(node), strict=True):
                result[k] = gx
        return tuple(result)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        body = batched(self.body, has_rows, row_count(has_rows, xs))
        return None if body is None else Call(body, self.again)(*xs)
