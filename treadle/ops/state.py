"""Assignments as functions, and what is carried out together or in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.options import change, modes
from treadle.graph.frame import pushed, top
from treadle.graph.leaves import as_tensor
from treadle.graph.op import op
from treadle.graph.operators import Operand, functions
from treadle.graph.tensor import Tensor
from treadle.graph.thread import Frame
from treadle.graph.variable import Variable, VariableItem
from treadle.ops.flow import Passing

__all__ = ["assign", "doall", "fill", "sequential", "set_item", "value_of"]


@op(tolerance="E")
class After(Passing):
    """The first operand, once all others are computed."""

    family = "opaque"


def assign(target: Any, value: Any) -> Tensor:
    """`target.assign(value)` for a Variable or a part `v[key]` of one; the Update.

    >>> v = td.Variable([0.0, 0.0])
    >>> _ = td.assign(v, 1.0), td.assign(v[0], 5.0)
    >>> v.tolist()
    [5.0, 1.0]
    """
    if not isinstance(target, (Variable, VariableItem)):
        raise ArgumentError(
            f"assigns a Variable or a part of one, not {type(target).__name__}",
            hint="tensors do not change: x.at[key].set(value) makes a changed copy",
        ).located("assign")
    return target.assign(value)


def fill(target: Any, value: Any) -> Tensor:
    """Give a Variable, or a part `v[key]` of one, a single number everywhere.

    >>> v = td.Variable([1.0, 2.0])
    >>> _ = td.fill(v, 7)
    >>> v.tolist()
    [7.0, 7.0]
    """
    node = as_tensor(value)
    if node.type.shape:
        raise ShapeError(
            f"fills with a scalar, not {node.type}", hint="td.assign takes any value"
        ).located("fill")
    return assign(target, value)


def set_item(target: Variable, key: Any, value: Any) -> Tensor:
    """`target[key] = value` as a function; the Update.

    >>> v = td.Variable([1.0, 2.0, 3.0])
    >>> _ = td.set_item(v, slice(1, None), 0.0)
    >>> v.tolist()
    [1.0, 0.0, 0.0]
    """
    if not isinstance(target, Variable):
        return assign(target, value)
    return target.assign(functions.at(target)[key].set(value))


def value_of(x: Any) -> Tensor:
    """The current value of a Variable, which later assignments do not change.

    >>> v = td.Variable(1.0)
    >>> before = td.value_of(v)
    >>> v += 1
    >>> float(before), float(v)
    (1.0, 2.0)
    """
    return as_tensor(x)


class _Part(Frame):
    """Assignments of a part: seen in it, carried out where its end is asked."""

    def __init__(self, around: Frame) -> None:
        super().__init__()
        self.around = around
        self.tracing = around.tracing

    def read(self, variable: Variable) -> Tensor:
        known = self.versions.get(id(variable))
        return self.around.read(variable) if known is None else known

    def read_all(self, variables: Any) -> Any:
        return [self.read(v) for v in variables]


def _called(x: Any) -> Any:
    """An item, or what a function makes of it now."""
    return x() if callable(x) and not isinstance(x, Operand) else x


def _built(items: Sequence[Any], name: str) -> tuple[list[Tensor], list[Tensor]]:
    """The nodes of items, functions among them called in order, and updates that only
    their results carry out.
    """
    if not items:
        raise ArgumentError(f"there is nothing in this {name}").located(name)

    def nodes() -> list[Tensor]:
        return [as_tensor(_called(x)) for x in items]

    if not modes.get().explicit:
        return nodes(), []
    around, token = top(), change(explicit=0)
    try:
        with pushed(_Part(around)) as part:
            built = nodes()
    finally:
        modes.reset(token)
    around.runs = around.runs or part.runs
    return built, part.pending


def sequential(items: Sequence[Any]) -> Tensor:
    """The last item's value, once all of them are done, in order.

    An item is a tensor, an Update that `assign` returned, a Variable or a function
    without arguments that makes one of these; functions are called in order, so that
    each reads what those before it assign. Effects are in the order they were written.
    Under `td.explicit_updates()` all of it happens only where the result is asked for.

    >>> w = td.Variable(1.0)
    >>> with td.explicit_updates():
    ...     y = td.sequential([lambda: w.assign(w + 1), lambda: w * 10])
    >>> float(w), float(y), float(w)
    (1.0, 20.0, 2.0)
    """
    nodes, updates = _built(items, "sequential")
    last = nodes.pop()
    others = [*nodes, *updates]
    return After()(last, *others) if others else last


def doall(items: Sequence[Any]) -> tuple[Tensor, ...]:
    """The values of all items; asking for any one of them has all of them done.

    Items are as in `td.sequential`; none waits for another but for its operands.

    >>> a, b = td.Variable(1.0), td.Variable(1.0)
    >>> with td.explicit_updates():
    ...     both = td.doall([a.assign(a + 1), b.assign(b + 2)])
    >>> float(both[0]), float(a), float(b)
    (2.0, 2.0, 3.0)
    """
    nodes, updates = _built(items, "doall")
    done = After()(as_tensor(True), *nodes, *updates)
    return tuple(After()(x, done) for x in nodes)
