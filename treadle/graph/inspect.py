"""Looking at a graph: its nodes, counts, stages, parameters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from treadle.base import trees
from treadle.base.dtypes import DType
from treadle.base.errors import ArgumentError
from treadle.base.types import TupleType
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.traversal import stages as stages_of
from treadle.graph.variable import Placeholder, Variable, variable_of

__all__ = [
    "Stats",
    "nodes",
    "parameters",
    "placeholders",
    "select",
    "stages",
    "stats",
    "variables",
]


def _reached(y: Any) -> list[Tensor]:
    roots = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    return reach(functions.written_out(roots))


def nodes(y: Any, order: str = "forward") -> list[Tensor]:
    """The nodes of a graph, inputs before users, or "backward" the other way round.

    >>> [n.op.name for n in td.nodes(td.sin(td.constant(1.0)) + 2.0)]
    ['constant', 'Sin', 'constant', 'Add']
    """
    if order not in ("forward", "backward"):
        raise ArgumentError(f"order is 'forward' or 'backward', not {order!r}")
    reached = _reached(y)
    return reached if order == "forward" else reached[::-1]


@dataclass(frozen=True)
class Stats:
    """Counts of a graph: nodes, edges, bytes of all results, nodes of each op."""

    nodes: int
    edges: int
    bytes: int
    ops: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        ops = ", ".join(f"{name} {n}" for name, n in self.ops.items())
        return f"{self.nodes} nodes, {self.edges} edges, {self.bytes:,} bytes: {ops}"


def stats(y: Any) -> Stats:
    """The size of the graph of `y`: counts of nodes, edges, bytes and ops.

    >>> x = td.constant([1.0, 2.0])
    >>> print(td.stats(x * x))
    2 nodes, 2 edges, 16 bytes: Multiply 1, constant 1
    """
    reached = _reached(y)
    counts = Counter(node.op.name for node in reached)
    size = sum(n.type.nbytes for n in reached if not isinstance(n.type, TupleType))
    edges = sum(len(node.inputs) for node in reached)
    ordered = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return Stats(len(reached), edges, size, ordered)


def stages(y: Any) -> list[list[Tensor]]:
    """The nodes by stage: those of one stage do not depend on each other.

    >>> x = td.constant(1.0)
    >>> [[n.op.name for n in stage] for stage in td.stages(td.sin(x) + td.cos(x))]
    [['constant'], ['Sin', 'Cos'], ['Add']]
    """
    reached = _reached(y)
    level = stages_of(reached)
    result: list[list[Tensor]] = [
        [] for _ in range(max(level.values(), default=-1) + 1)
    ]
    for node in reached:
        result[level[node.serial]].append(node)
    return result


def select(
    y: Any, *, name: str | None = None, op: str | None = None, **metadata: Any
) -> list[Tensor]:
    """The nodes of a graph with this name, op and metadata.

    >>> [n.op.name for n in td.select(td.sin(td.constant(1.0)) + 2.0, op="Sin")]
    ['Sin']
    """
    return [
        node
        for node in _reached(y)
        if (name is None or node.name == name)
        and (op is None or op in (node.op.name, type(node.op).__name__))
        and all(node.metadata.get(k) == v for k, v in metadata.items())
    ]


def _read(y: Any) -> list[Variable]:
    variables: dict[int, Variable] = {}
    for node in _reached(y):
        variable = variable_of(node)
        if variable is not None:
            variables.setdefault(id(variable), variable)
    return list(variables.values())


def placeholders(y: Any) -> list[Placeholder]:
    """The placeholders an expression reads.

    >>> [p.name for p in td.placeholders(td.placeholder(name="x") + 1.0)]
    ['x']
    """
    return [v for v in _read(y) if isinstance(v, Placeholder)]


def variables(y: Any) -> list[Variable]:
    """The Variables an expression reads, trainable or not; placeholders are apart.

    >>> w, mean = td.param("w", init=1.0), td.Variable(0.0, name="mean")
    >>> [v.name for v in td.variables(w * (td.placeholder(name="x") - mean))]
    ['w', 'mean']
    """
    return [v for v in _read(y) if not isinstance(v, Placeholder)]


def parameters(y: Any, by_dtype: bool = False) -> Any:
    """The trainable Variables an expression reads; with `by_dtype` a dict of lists.

    >>> [p.name for p in td.parameters(td.param("w", init=1.0) + 1.0)]
    ['w']
    """
    trainable = [v for v in _read(y) if v.trainable]
    if not by_dtype:
        return trainable
    groups: dict[DType, list[Variable]] = {}
    for v in trainable:
        groups.setdefault(v.dtype, []).append(v)
    return groups
