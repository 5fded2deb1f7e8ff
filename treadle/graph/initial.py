"""Variables that begin anew with each run, and those whose first value is a graph."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import TraceError
from treadle.base.types import Type, as_names
from treadle.graph.frame import top
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor, cut
from treadle.graph.variable import Parameter, Update, Variable

__all__ = ["Temporary", "deferred"]


class Temporary(Variable):
    """A Variable that is back at its initial value after each run.

    What is assigned is seen by what is written after it, up to the end of the run that
    carries it out, or of the call of a computation. Other Variables are persistent.

    >>> total, calls = td.Temporary(0.0), td.Variable(0)
    >>> total += 2.0
    >>> total += 3.0
    >>> calls += 1
    >>> f = td.computation([total, calls])
    >>> [float(x) for x in f()], [float(x) for x in f()], float(total)
    ([5.0, 1.0], [5.0, 2.0], 0.0)
    """

    __slots__ = ("initial",)
    persistent = False

    def __init__(self, initial: Any = 0.0, **settings: Any) -> None:
        super().__init__(initial, **settings)
        self.initial = self.committed  # as long as it is held, no run writes over it

    def commit(self, update: Tensor) -> None:
        cut(update, self.version)

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        copy = Temporary(self.initial, name=self.name, trainable=self.trainable)
        memo[id(self)] = copy
        return copy


def deferred(
    initial: Any,
    *,
    name: str | None = None,
    trainable: bool = False,
    axes: Any = None,
) -> Variable:
    """A Variable whose first value is a graph, which runs once, before the first use.

    `initial` is a tensor, or a function without arguments that makes one. The graph may
    read other Variables, also such ones. `td.initializers(y)` lists what of this has
    yet to run before y can, and `td.initialize(y)` runs it.

    >>> scale = td.deferred(lambda: td.sqrt(td.constant(16.0)), name="scale")
    >>> y = scale * 2.0
    >>> len(td.initializers(y)), float(y), len(td.initializers(y))
    (1, 8.0, 0)
    """
    if top().tracing:
        raise TraceError(
            "a Variable is not made in each call of a traced function",
            hint="make it outside, and use it inside",
        ).located("deferred")
    called = callable(initial) and not isinstance(initial, Operand)
    node = as_tensor(initial() if called else initial)
    t = Type(node.type.shape, node.type.dtype, as_names(axes, node.type.shape))
    kind = Parameter if trainable else Variable
    variable = kind.__new__(kind)
    variable.begin_as(node, t, name, trainable)
    return variable


def is_initial(node: Tensor) -> bool:
    """Return True if a node is the first version of a Variable, and has yet to run."""
    op = node.op
    return isinstance(op, Update) and op.variable.committed is node
