"""Small branches as selections: to compute both sides costs less than to choose.

A kernel goes on with a selection, where a branch is a program for each side: a loop
with one in its body can be one kernel.
"""

from __future__ import annotations

from treadle.base.dtypes import bool_
from treadle.base.types import Type
from treadle.graph.body import Body, effect_of
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import rebuild
from treadle.ops.call import without_calls
from treadle.ops.control import Cond
from treadle.ops.families import Elementwise, Movement, Output
from treadle.ops.select import Select

BOTH = 1024  # operations on elements of a branch of which both sides are computed
FUNCTION = 16  # those that an elementary function counts for


def selection(op: Cond) -> Body | None:
    """The body that gives what a branch does, of its operands; None of a large one."""
    sides = _elements(op.then), _elements(op.otherwise)
    if None in sides or sum(n for n in sides if n is not None) > BOTH:
        return None
    key = "selection", op.otherwise.number
    if key not in op.then.memo:
        op.then.memo[key] = _selected(op.then, op.otherwise)
    return op.then.memo[key]


def _selected(then: Body, otherwise: Body) -> Body:
    """A body on a truth, the arguments of one body and those of another, that gives the
    outputs of the first where it holds, else those of the second."""
    test = Tensor(Argument(), (), Type((), bool_))
    arguments, results = [test], list[list[Tensor]]()
    for body in map(without_calls, (then, otherwise)):
        fresh = {x.serial: Tensor(Argument(), (), x.type) for x in body.arguments}
        arguments += fresh.values()
        results.append(rebuild(body.outputs, fresh))
    outputs = [Select()(test, a, b) for a, b in zip(*results, strict=True)]
    return Body(then.name, arguments, outputs)


def _elements(body: Body) -> int | None:
    """How many operations on elements a body is; None where it does others."""
    total = 0
    for x in without_calls(body).nodes:
        if isinstance(x.op, Cond):
            sides = _elements(x.op.then), _elements(x.op.otherwise)
            if None in sides:
                return None
            total += sum(n for n in sides if n is not None)
        elif isinstance(x.op, Elementwise) and not effect_of(x.op):
            cost = FUNCTION if x.op.traits.tolerance == "U" else 1
            total += cost * x.type.size
        elif x.inputs and not isinstance(x.op, (Movement, Output)):
            return None
    return total
