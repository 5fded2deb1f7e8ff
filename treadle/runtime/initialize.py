"""First values that are graphs: what of them has yet to run, and running it."""

from __future__ import annotations

from typing import Any

from treadle.base import trees
from treadle.graph.initial import is_initial
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable
from treadle.runtime.computation import Computation
from treadle.runtime.evaluate import run

__all__ = ["initialize", "initializers"]


def initializers(*outputs: Any) -> list[Tensor]:
    """The graphs that run once before these can: first values of `td.deferred`.

    Takes tensors, Variables, computations and trees of them. What has run is not among
    them; asking for a value of the outputs runs the others, too.

    >>> w = td.deferred(td.ones((2,)) * 3.0, name="w", trainable=True)
    >>> [x.op.variable.name for x in td.initializers((w * w).sum())]
    ['w']
    """
    nodes: list[Tensor] = []
    for leaf in trees.flatten(outputs)[0]:
        if isinstance(leaf, Computation):
            nodes += [v.committed for v in leaf.variables]
        else:
            nodes.append(as_tensor(leaf))
    return [x for x in reach(nodes) if is_initial(x) and x.stored is None]


def initialize(*outputs: Any) -> list[Variable]:
    """Run the `initializers` of these now; the Variables that have a value since.

    >>> a = td.deferred(td.constant(2.0), name="a")
    >>> b = td.deferred(a * 3.0, name="b")
    >>> [v.name for v in td.initialize(b + 1.0)], td.initialize(a, b)
    (['a', 'b'], [])
    """
    waiting = initializers(*outputs)
    variables = [node.op.variable for node in waiting]  # type: ignore[attr-defined]
    if waiting:
        run(waiting)
    return variables
