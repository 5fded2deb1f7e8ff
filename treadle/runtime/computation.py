"""Computations: callables from placeholders to values, with state carried forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.errors import ArgumentError, ArityError, ShapeError
from treadle.base.types import Shape, broadcast_shapes
from treadle.graph.body import Body
from treadle.graph.frame import top
from treadle.graph.leaves import (
    Argument,
    Draw,
    Unbound,
    Version,
    as_tensor,
    constant_node,
    draw_node,
    to_array,
)
from treadle.graph.operators import Operand, functions
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.graph.variable import (
    Placeholder,
    Update,
    Variable,
    unbound,
    variable_of,
)
from treadle.ops.call import Call
from treadle.ops.families import outputs_of
from treadle.runtime.evaluate import run, settled
from treadle.runtime.incremental import Incremental

__all__ = ["Computation", "computation", "placeholder"]


def placeholder(
    shape: Any = (),
    dtype: Any = None,
    name: str | None = None,
    axes: Any = None,
    initial_value: Any = None,
) -> Placeholder:
    """A named input of computations; with an `initial_value` it also has a value alone.

    >>> import treadle as td
    >>> x = td.placeholder((), initial_value=0)
    >>> a = x.assign(5)
    >>> float(x + 1)
    6.0
    """
    return Placeholder(shape, dtype, name=name, axes=axes, initial_value=initial_value)


class Computation:
    """What `td.computation` makes: call it with a value for each placeholder."""

    def __init__(
        self, outputs: Any, *placeholders: Placeholder, incremental: bool = False
    ) -> None:
        for p in placeholders:
            if not isinstance(p, Placeholder):
                raise ArgumentError(
                    f"a computation takes placeholders, not {type(p).__name__}",
                    hint="make it with td.placeholder(shape, dtype)",
                )
        self.placeholders = placeholders
        leaves, self.structure = trees.flatten(outputs)
        frame = top()
        newest = dict(frame.versions)
        updates = frame.take()
        nodes = [
            newest.get(id(leaf), leaf.committed)
            if isinstance(leaf, Variable)
            else as_tensor(leaf)
            for leaf in leaves
        ]
        whole = functions.written_out([*nodes, *updates])
        nodes, updates = whole[: len(nodes)], whole[len(nodes) :]
        reached = reach(whole)
        updates = [n for n in reached if isinstance(n.op, Update)]
        last: dict[int, Tensor] = {}
        for update in updates:
            last[id(variable_of(update))] = update
        nodes = [
            last.get(id(leaf), node) if isinstance(leaf, Variable) else node
            for leaf, node in zip(leaves, nodes, strict=True)
        ]
        self.changed: list[Variable | None] = [variable_of(u) for u in last.values()]
        self._make_body(reach([*nodes, *updates]), [*nodes, *last.values()])
        self.count = len(nodes)
        self.rerun = Incremental(self.body) if incremental else None

    @classmethod
    def from_body(
        cls,
        body: Body,
        variables: Sequence[Variable],
        changed: Sequence[Variable],
        placeholders: Sequence[Placeholder],
        structure: Any,
    ) -> Computation:
        """One of a body that is at hand, such as a file's.

        Its arguments are the variables, then draws; its outputs what is returned, then
        the new versions of the variables changed.
        """
        made = cls.__new__(cls)
        made.placeholders, made.structure = tuple(placeholders), structure
        made.variables, made.changed = list(variables), list(changed)
        drawn = body.arguments[len(made.variables) :]
        made.draws = [x.type.shape[:-1] for x in drawn]
        made.body, made.rerun = body, None
        made.count = len(body.outputs) - len(made.changed)
        return made

    def _make_body(self, reached: list[Tensor], outputs: list[Tensor]) -> None:
        """A body whose arguments are the Variables read and the draws made."""
        self.variables: list[Variable] = []
        arguments: list[Tensor] = []
        place: dict[int, Tensor] = {}
        replaced: dict[int, Tensor] = {}
        draws = []
        for node in reached:
            if isinstance(node.op, (Version, Unbound)):
                variable = node.op.variable
                if id(variable) not in place:
                    argument = Tensor(Argument(len(arguments)), (), node.type)
                    arguments.append(argument)
                    self.variables.append(variable)
                    place[id(variable)] = argument
                replaced[node.serial] = place[id(variable)]
            elif isinstance(node.op, Draw):
                draws.append(node)
        self.draws = [node.type.shape[:-1] for node in draws]
        for node in draws:
            replaced[node.serial] = Tensor(Argument(len(arguments)), (), node.type)
            arguments.append(replaced[node.serial])
        built = rebuild(outputs, replaced)
        self.body = Body("computation", arguments, built)

    def __call__(self, *values: Any, **named: Any) -> Any:
        bound = self._bind(values, named)
        inputs = []
        for variable in self.variables:
            if id(variable) in bound:
                inputs.append(bound[id(variable)])
            elif (
                variable.committed.stored is None and id(variable) not in top().versions
            ):
                raise unbound(variable)
            else:
                inputs.append(settled(variable))
        inputs += map(draw_node, self.draws)
        results = self._results(inputs)
        for changed, stored in zip(self.changed, results[self.count :], strict=True):
            assert changed is not None
            changed.commit(Tensor(changed.version, (), changed.type, stored))
        found = [
            y.numpy() if isinstance(y, Resident) else y for y in results[: self.count]
        ]
        return trees.unflatten(self.structure, found)

    def graph(self) -> tuple[list[Tensor], dict[str, Tensor]]:
        """What a call computes, over placeholders and Variables, to be looked at: the
        outputs in order, and the new values of Variables by their names.

        >>> import treadle as td
        >>> x, w = td.placeholder(name="x"), td.Variable(2.0, name="w")
        >>> outputs, _ = td.computation(x * w, x).graph()
        >>> [node.op.name for node in td.nodes(outputs)]
        ['placeholder', 'variable', 'Multiply']
        """
        drawn = self.body.arguments[len(self.variables) :]
        leaves = [top().read(v) for v in self.variables]
        leaves += [
            Tensor(Draw(), (), x.type, np.zeros(x.type.shape, x.type.dtype))
            for x in drawn
        ]
        pairs = zip(self.body.arguments, leaves, strict=True)
        found = rebuild(self.body.outputs, {x.serial: leaf for x, leaf in pairs})
        changed = zip(self.changed, found[self.count :], strict=True)
        names = {v.name: value for v, value in changed if v is not None}
        return found[: self.count], names

    def _results(self, inputs: list[Tensor]) -> list[Any]:
        """What the body makes of these inputs, where engines left it."""
        if self.rerun is not None:
            if top().pending:
                run([])
            return self.rerun(inputs)
        results = outputs_of(Call(self.body)(*inputs))
        run(results)
        return [y.stored for y in results]

    def _bind(
        self, values: tuple[Any, ...], named: dict[str, Any]
    ) -> dict[int, Tensor]:
        by_name = {p.name: p for p in self.placeholders}
        unknown = [name for name in named if name not in by_name]
        given = {id(p) for p in self.placeholders[: len(values)]}
        missing = [
            p.name
            for p in self.placeholders
            if id(p) not in given and p.name not in named
        ]
        problems = []
        if len(values) > len(self.placeholders):
            problems.append(f"{len(values) - len(self.placeholders)} values too many")
        if unknown:
            problems.append(f"no placeholder is named {', '.join(unknown)}")
        if missing:
            problems.append(f"no value for {', '.join(missing)}")
        if problems:
            names = ", ".join(by_name) or "none"
            error = ArityError("; ".join(problems), hint=f"placeholders: {names}")
            raise error.located("computation")
        pairs = [*zip(self.placeholders, values, strict=False)]
        pairs += [(by_name[name], v) for name, v in named.items()]
        return {id(p): _fitting(p, v) for p, v in pairs}


def _spreads(shape: Shape, wanted: Shape) -> bool:
    """Whether a value of a shape can stand for one of another."""
    try:
        return broadcast_shapes(shape, wanted) == wanted
    except ShapeError:
        return False


def _fitting(p: Placeholder, given: Any) -> Tensor:
    """The value for a placeholder in its dtype and shape."""
    array = given.numpy() if isinstance(given, Operand) else given
    array = to_array(array, p.dtype)
    if array.shape != p.shape:
        if not _spreads(array.shape, p.shape):
            error = ShapeError(f"placeholder {p.name!r} is {p.type}, got {array.shape}")
            raise error.located("computation")
        array = np.array(np.broadcast_to(array, p.shape))
    return constant_node(array)


def computation(
    outputs: Any, *placeholders: Placeholder, incremental: bool = False
) -> Computation:
    """A callable that binds the placeholders, runs, and returns `outputs` as arrays.

    `outputs` is a tree of tensors and Variables; a Variable means its value after the
    run. Updates pending when it is made become part of it and are replayed at each
    call, on the newest version of each Variable; draws are new at each call.

    With `incremental=True` the values of the last call are kept where parts of the
    graph depend on fewer inputs than others, and only what depends on inputs and
    Variables that have changed since runs again.

    >>> import treadle as td
    >>> w = td.Variable(0)
    >>> update = w.assign(w + 1)
    >>> count = td.computation(w)
    >>> int(count()), int(count()), int(count())
    (1, 2, 3)
    """
    return Computation(outputs, *placeholders, incremental=incremental)
