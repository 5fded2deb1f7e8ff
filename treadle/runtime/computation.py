"""Computations: callables from placeholders to values, with state carried forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.arrays import Array
from treadle.base.caches import lazy
from treadle.base.errors import ArgumentError, ArityError, TreadleError
from treadle.base.notebook import table
from treadle.graph.body import Body
from treadle.graph.frame import top
from treadle.graph.initial import is_initial
from treadle.graph.leaves import (
    Argument,
    Draw,
    Unbound,
    Version,
    as_nodes,
    as_tensor,
    draw_node,
)
from treadle.graph.operators import functions
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.graph.variable import Placeholder, Update, Variable, variable_of
from treadle.ops.call import Call
from treadle.ops.families import outputs_of
from treadle.runtime.at_once import CallPlan, Calls
from treadle.runtime.binding import describe, fits, fitting
from treadle.runtime.evaluate import plan_of, run, settled
from treadle.runtime.incremental import Incremental
from treadle.runtime.pointer import FunctionPointer, pointer_of

__all__ = ["Computation", "computation", "placeholder"]


def placeholder(
    shape: Any = (),
    dtype: Any = None,
    name: str | None = None,
    axes: Any = None,
    initial_value: Any = None,
) -> Placeholder:
    """A named input of computations; with an `initial_value` it also has a value alone.

    >>> x = td.placeholder((), initial_value=0)
    >>> a = x.assign(5)
    >>> float(x + 1)
    6.0
    """
    return Placeholder(shape, dtype, name=name, axes=axes, initial_value=initial_value)


class Computation:
    """A callable graph with placeholders, made by `td.computation`."""

    def __init__(
        self, outputs: Any, *placeholders: Placeholder, incremental: bool = False
    ) -> None:
        self.placeholders = _distinct(placeholders)
        leaves, self.structure = trees.flatten(outputs)
        frame = top()
        updates = frame.take()
        if frame.versions:  # what other threads have assigned is no part of it
            run(list(frame.versions.values()))
        newest = {id(variable_of(x)): x for x in updates}
        nodes = [
            newest.get(id(leaf), leaf.committed)
            if isinstance(leaf, Variable)
            else as_tensor(leaf)
            for leaf in leaves
        ]
        whole = functions.written_out([*nodes, *updates])
        nodes, updates = whole[: len(nodes)], whole[len(nodes) :]
        reached = reach(whole, is_initial)
        updates = [n for n in reached if isinstance(n.op, Update) and not is_initial(n)]
        last: dict[int, Tensor] = {}
        for update in updates:
            last[id(variable_of(update))] = update
        nodes = [
            last.get(id(leaf), node) if isinstance(leaf, Variable) else node
            for leaf, node in zip(leaves, nodes, strict=True)
        ]
        self.changed: list[Variable | None] = [variable_of(u) for u in last.values()]
        self._make_body(reach([*nodes, *updates], is_initial), [*nodes, *last.values()])
        self.count = len(nodes)
        self.rerun = Incremental(self.body) if incremental else None
        self._make_calls()

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
        computation = cls.__new__(cls)
        computation.placeholders, computation.structure = tuple(placeholders), structure
        computation.variables, computation.changed = list(variables), list(changed)
        drawn = body.arguments[len(computation.variables) :]
        computation.draws = [x.type.shape[:-1] for x in drawn]
        computation.body, computation.rerun = body, None
        computation.count = len(body.outputs) - len(computation.changed)
        computation._make_calls()
        return computation

    def _make_calls(self) -> None:
        """Make the tables that calls depend on, whatever is bound."""
        self.call = Call(self.body)
        self.calls = Calls(self.variables)
        self.names = {p.name: p for p in self.placeholders}
        place = {id(p): k for k, p in enumerate(self.placeholders)}
        # Where the body's arguments are from: which value that is given, or a Variable.
        self.sources = [place.get(id(v), v) for v in self.variables]
        # What has to have a value of its own.
        self.others = [v for v in self.sources if isinstance(v, Placeholder)]

    def _make_body(self, reached: list[Tensor], outputs: list[Tensor]) -> None:
        """A body whose arguments are the Variables read and the draws made."""
        self.variables: list[Variable] = []
        arguments: list[Tensor] = []
        place: dict[int, Tensor] = {}
        replaced: dict[int, Tensor] = {}
        draws = []
        for node in reached:
            if isinstance(node.op, (Version, Unbound)) or is_initial(node):
                variable: Variable = node.op.variable  # type: ignore[attr-defined]
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
        arrays = self._bind(values, named)
        inputs = [
            _node(x) if isinstance(x, Variable) else arrays[x] for x in self.sources
        ]
        inputs += map(draw_node, self.draws)
        results = self._results(inputs)
        for changed, stored in zip(self.changed, results[self.count :], strict=True):
            assert changed is not None
            changed.commit(Tensor(changed.version, (), changed.type, stored))
        outputs = [
            y.numpy() if isinstance(y, Resident) else y for y in results[: self.count]
        ]
        return trees.unflatten(self.structure, outputs)

    def _repr_html_(self) -> str:
        outputs = self.body.outputs[: self.count]
        rows = [("takes", p.name, repr(p.type)) for p in self.placeholders]
        rows += [("reads", v.name, repr(v._type)) for v in self.variables
                 if v.name not in self.names]  # fmt: skip
        rows += [("gives", "", repr(y.type)) for y in outputs]
        rows += [("changes", v.name, repr(v._type)) for v in self.changed if v]
        caption = f"computation of {len(self.body.nodes):,} nodes"
        return table(rows, ("", "name", "type"), caption=caption)

    @property
    def address(self) -> int:
        """The address of this computation as a function of C, called without Python.

        For `td.computation((value, td.grad(value, x)), x)` in float64, with x of shape
        (n,), it is `int64_t f(uint64_t n, const double *x, double *gradient, double
        *value, void *data)`, the callback of nuts-rs, which takes `data` last and may
        be called by any threads at once. It returns 0; -1 if n is another, -2 without
        memory, 1 if a position is out of range, 3 or 4 if the gradient or the value is
        not finite. Variables keep the values they have now. It lives as long as the
        computation.

        >>> import ctypes, numpy as np, treadle as td
        >>> x = td.placeholder((3,), "float64")
        >>> y = td.sum(x * x)
        >>> f = td.computation((y, td.grad(y, x)), x)
        >>> doubles, data = ctypes.POINTER(ctypes.c_double), ctypes.c_void_p
        >>> types = ctypes.c_int64, ctypes.c_uint64, *[doubles] * 3, data
        >>> at, gradient, value = np.arange(3.0), np.empty(3), np.empty(())
        >>> given = [a.ctypes.data_as(doubles) for a in (at, gradient, value)]
        >>> call = ctypes.CFUNCTYPE(*types)(f.address)
        >>> call(3, *given, f.data), float(value), gradient.tolist()
        (0, 5.0, [0.0, 2.0, 4.0])
        """
        return self._pointer.address

    @property
    def data(self) -> int:
        """The address that the function at `address` takes as its data."""
        return self._pointer.data

    @lazy
    def _pointer(self) -> FunctionPointer:
        nodes = [_node(x) if isinstance(x, Variable) else None for x in self.sources]
        outputs = [y.type for y in self.body.outputs]
        if self.rerun is not None or self.changed or self.draws:
            outputs = []  # there is more to a call
        call = self.calls, nodes, outputs
        return pointer_of(*call, self._planned, self._results)

    def graph(self) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The graph of a call, over placeholders and Variables, to be looked at: the
        outputs in order, and the new values of Variables by their names.

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
        outputs = rebuild(self.body.outputs, {x.serial: leaf for x, leaf in pairs})
        changed = zip(self.changed, outputs[self.count :], strict=True)
        names = {v.name: value for v, value in changed if v is not None}
        return outputs[: self.count], names

    def _results(self, inputs: list[Any]) -> Sequence[Any]:
        """The body's results for these inputs, where engines left them."""
        if self.rerun is not None:
            if top().pending:
                run([])
            return self.rerun(as_nodes(inputs))
        done = self.calls.run(inputs, self._planned)
        if done is not None:
            return done[1]
        results = outputs_of(self.call(*as_nodes(inputs)))
        run(results)
        return [y.stored for y in results]

    def _planned(self, inputs: Sequence[Any], around: Any) -> CallPlan | None:
        nodes = as_nodes(inputs)
        return plan_of(outputs_of(self.call(*nodes)), nodes, around)

    def _bind(self, values: tuple[Any, ...], named: dict[str, Any]) -> list[Array]:
        """The value of each placeholder, in order; all that is wrong at once."""
        by_name = self.names
        plain = not named and len(values) == len(by_name) and not _unbound(self.others)
        if plain and all(map(fits, self.placeholders, values)):
            return [np.array(x, order="C") for x in values]
        bound = dict(zip(by_name, values, strict=False))
        surplus = values[len(self.placeholders) :]
        problems = [f"too many values: {', '.join(map(describe, surplus))}"] * bool(
            surplus
        )
        unknown = [name for name in named if name not in by_name]
        twice = [name for name in named if name in bound]
        bound |= {name: x for name, x in named.items() if name in by_name}
        missing = [name for name in by_name if name not in bound]
        problems += [
            f"{what} {', '.join(names)}"
            for what, names in (
                ("no placeholder is named", unknown),
                ("two values for", twice),
                ("no value for", missing),
                ("not among the placeholders, without a value:", _unbound(self.others)),
            )
            if names
        ]
        arrays: dict[str, Array] = {}
        kind: type[TreadleError] | None = ArityError if problems else None
        for name, x in bound.items():
            try:
                arrays[name] = fitting(by_name[name], x)
            except TreadleError as error:
                problems.append(error.message)
                kind = kind or type(error)
        if kind is not None:
            hint = f"placeholders: {', '.join(by_name) or 'none'}"
            raise kind("; ".join(problems), hint=hint).located("computation")
        return [arrays[name] for name in by_name]


def _node(variable: Variable) -> Tensor:
    """The node that a Variable is read as where it is not bound."""
    now = settled(variable)
    return now if variable.persistent else variable.committed


def _distinct(placeholders: Sequence[Any]) -> tuple[Placeholder, ...]:
    """Placeholders, each with a name of its own."""
    known: dict[str, Placeholder] = {}
    for p in placeholders:
        if not isinstance(p, Placeholder):
            raise ArgumentError(
                f"a computation takes placeholders, not {describe(p)}",
                hint="td.computation(outputs, *placeholders); make one with "
                "td.placeholder(shape, dtype)",
            ).located("computation")
        if p.name in known:
            again = "is given twice" if known[p.name] is p else "is the name of two"
            raise ArgumentError(
                f"placeholder {p.name!r} {again}",
                hint="values are bound by name: td.placeholder(..., name=...)",
            ).located("computation")
        known[p.name] = p
    return tuple(placeholders)


def _unbound(variables: Sequence[Variable]) -> list[str]:
    """The names of those that have no value: placeholders that were not assigned."""
    if not variables:
        return []
    newest = top().versions
    return [
        v.name
        for v in variables
        if isinstance(v.committed.op, Unbound) and id(v) not in newest
    ]


def computation(
    outputs: Any, *placeholders: Placeholder, incremental: bool = False
) -> Computation:
    """A callable that binds the placeholders, runs, and returns `outputs` as arrays.

    `outputs` is a tensor, a Variable or a tree of them: lists, tuples, dictionaries,
    one in another. It comes back with arrays in their place; a Variable means its value
    after the run. Placeholders are bound by position or by name. Updates pending when
    it is made become part of it and are replayed at each call, on the newest version of
    each Variable; draws are new at each call.

    With `incremental=True` the values of the last call are kept where parts of the
    graph depend on fewer inputs than others, and only what depends on inputs and
    Variables that have changed since runs again.

    >>> w = td.Variable(0)
    >>> update = w.assign(w + 1)
    >>> count = td.computation(w)
    >>> int(count()), int(count()), int(count())
    (1, 2, 3)
    """
    return Computation(outputs, *placeholders, incremental=incremental)
