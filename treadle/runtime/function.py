"""`@td.function`: Python traced once per signature into a body, called as a node."""

from __future__ import annotations

import functools
import sys
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from treadle.base import trees
from treadle.base.boundary import shorten
from treadle.base.dtypes import OWN
from treadle.base.errors import TraceError, TreadleError
from treadle.base.locks import is_mine, lock
from treadle.base.notebook import table
from treadle.base.options import modes
from treadle.base.types import TupleType, Type
from treadle.graph.awaited import NUMBERS
from treadle.graph.body import Trace, Traceable, effect_of, trace
from treadle.graph.calls import Called
from treadle.graph.frame import top
from treadle.graph.leaves import as_nodes, as_tensor, to_array
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor, new_node, results
from treadle.graph.variable import Variable
from treadle.ops.call import Call, in_place, inputs_of
from treadle.ops.families import selections
from treadle.runtime.again import Plans
from treadle.runtime.at_once import CallPlan, Calls
from treadle.runtime.evaluate import plan_of, run
from treadle.runtime.guard import FunctionGuard, Wrapper
from treadle.runtime.history import forget
from treadle.runtime.plans import plan_of_call

__all__ = ["Function", "checkpoint", "function"]

TRACES = 64
_TAKEN = (Operand, np.ndarray, *NUMBERS, float)  # what is data in a call


class Traced:
    """One trace of a function: its body and the shape of its result."""

    def __init__(
        self, traced: Trace, again: bool, structure: Any, static: list[Any], runs: bool
    ) -> None:
        self.trace = traced
        self.op = Call(traced.body, again)
        # Its effects are the caller's: a gradient, too, has them once.
        self.open = not again and effect_of(self.op) == "each"
        self.type: Any = traced.body.result
        self.selections: Any = None  # of what is the only result
        if isinstance(self.type, TupleType):
            self.selections = selections(len(self.type))
        self.structure = structure
        self.static = static  # results that are no tensors, None where one is
        self.runs = runs
        self.plans = Plans() if runs else None  # of what a step in it assigns
        variables = [*traced.variables, *(v for v, _ in traced.assigned)]
        self.calls = Calls(list({id(v): v for v in variables}.values()))
        self.plain = not (runs or traced.assigned or any(s is not None for s in static))
        self.alive: list[Any] = []
        self.single = self.plain and structure == "leaf"
        flat = (tuple, None, ("leaf",) * len(static))
        self.flat = self.plain and structure == flat

    def call(self, values: tuple[Any, ...]) -> Any:
        """The results of a call on tensors, and arrays that nobody may change, that are
        what this was traced for."""
        inputs = inputs_of(self.trace, values)
        if self.plans is not None and self.plans.hits:
            done = self.calls.run(inputs, self._planned)
            if done is not None:
                self.plans.hits += 1
                plan, arrays = done
                nodes = plan.nodes(arrays, 2)
                return trees.unflatten(self.structure, self._filled(nodes))
        inputs = tuple(as_nodes(inputs))
        if self.open:
            call_results = tuple(in_place(self.trace.body, inputs))
        else:
            node = new_node(self.op, inputs, self.type, 3)
            chosen = self.selections
            call_results = (node,) if chosen is None else results(node, chosen)
            del node  # what is held is given a value, and not written over
        if self.flat:
            return call_results
        if self.single:
            return call_results[0]
        if self.plain:
            return trees.unflatten(self.structure, call_results)
        outputs = list(call_results)
        del call_results, inputs
        return trees.unflatten(self.structure, self._carried_out(outputs))

    def _filled(self, results: Iterable[Tensor]) -> list[Any]:
        """The leaves of the result, those that are no tensors included."""
        first = iter(results)
        return [next(first) if s is None else s for s in self.static]

    def _planned(self, inputs: Sequence[Any], around: Any) -> CallPlan | None:
        """The plan of the graph that a call would record."""
        assert self.plans is not None
        inputs = as_nodes(inputs)
        node = new_node(self.op, tuple(inputs), self.type, 3)
        chosen = self.selections
        nodes = (node,) if chosen is None else results(node, chosen)
        assigned = [(v, v.fitting(nodes[k])) for v, k in self.trace.assigned]
        explicit = bool(modes.get().explicit)
        updates = [v.update_from(v.node(), x, explicit) for v, x in assigned]
        seen_by_all = {x.serial: x for x in updates}  # as a frame does
        asked = list(nodes[: sum(s is None for s in self.static)])
        del node, nodes, assigned
        plan = plan_of(asked, inputs, around, self.plans, updates)
        del seen_by_all
        return plan

    def _carried_out(self, results: list[Tensor]) -> list[Any]:
        """The leaves of the result once Variables are assigned and steps are run; the
        list of results is emptied."""
        for variable, k in self.trace.assigned:
            variable.assign(results[k])
        outputs = self._filled(results)
        results.clear()
        if self.runs:
            if top().tracing:
                top().runs = True
            else:
                # A step is over: what it used is let go, its results keep their values.
                tensors = [y for y in outputs if isinstance(y, Tensor)]
                try:
                    ran = run(tensors, cuts=True, plans=self.plans)
                except TreadleError as error:
                    shorten(error)
                    raise
                for y in ran:
                    forget(y)
        return outputs


@dataclass(slots=True)
class Known:
    """A signature as it was called last: its trace, while what it names stays."""

    holds: Callable[[], bool]
    entry: Traced
    kinds: tuple[Any, ...]  # kept alive: a signature has their identities
    tries: int = 8  # to plan calls like it: some have a number in the way


class Function(Wrapper, Called, Traceable):
    """A function that is traced at the first call of each signature."""

    def __init__(self, f: Callable[..., Any], again: bool = False) -> None:
        super().__init__(self.call)
        self.f = f
        self.again = again  # whether gradients compute what is inside anew
        self.traces: OrderedDict[Any, Traced] = OrderedDict()
        self.known: dict[Any, Known] = {}
        self.count = 0  # traces made so far, for looking
        self._lock = lock()
        self._active: set[Any] = set()
        # Only a function's own notes: the attributes of an object are not this one's.
        plain = isinstance(f, types.FunctionType)
        functools.update_wrapper(self, f, updated=("__dict__",) if plain else ())
        self.__name__: str = getattr(f, "__name__", None) or type(f).__name__

    def __reduce__(self) -> Any:
        # What was decorated where it stands is known by its name; traces stay behind.
        home: Any = sys.modules.get(str(getattr(self, "__module__", None)))
        path = str(getattr(self, "__qualname__", ""))
        for name in path.split("."):
            home = getattr(home, name, None)
        return path if path and home is self else (type(self), (self.f, self.again))

    def _repr_html_(self) -> str:
        rows = []
        for entry in list(self.traces.values()):
            body = entry.trace.body
            takes = ", ".join(repr(x.type) for x in body.arguments)
            gives = ", ".join(repr(x.type) for x in body.outputs)
            rows.append((takes, gives, f"{len(body.nodes):,}"))
        caption = f"function {self.__name__}: {self.count} traces made"
        head = ("takes, with what it reads", "gives", "nodes")
        return table(rows, head, right=[2], caption=caption)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return types.MethodType(self, instance)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """A call of any signature: traced if it is new, then a node."""
        leaves, structure = trees.flatten((args, kwargs))
        values: list[Any] = []  # tensors, and arrays for which there may be no nodes
        kinds: list[Any] = []
        for leaf in leaves:
            if type(leaf) is np.ndarray:
                array = to_array(leaf)
                values.append(array)
                kinds.append(Type(array.shape, OWN[array.dtype]))
            elif isinstance(leaf, _TAKEN) and not isinstance(leaf, Variable):
                node = as_tensor(leaf)
                values.append(node)
                kinds.append(node.type)
            else:
                kinds.append(leaf)
        known = self._known(leaves, structure, kinds)
        if known.tries and not kwargs:
            known.tries -= 1
            self.know(args, plan_of_call(args, known.entry, known.holds))
        return known.entry.call(tuple(values))

    def traced(self, *args: Any) -> tuple[Trace, Any] | None:
        leaves, structure = trees.flatten((args, {}))
        entry = self._known(leaves, structure, [x.type for x in leaves]).entry
        simple = entry.plain and not (entry.open or self.again)
        return (entry.trace, entry.structure) if simple else None

    def _known(self, leaves: list[Any], structure: Any, kinds: list[Any]) -> Known:
        """What is known of a call of such a signature."""
        signature = structure, *[k if type(k) is Type else id(k) for k in kinds]
        known = self.known.get(signature)
        if known is None or not known.holds():
            known = self._look(leaves, structure, kinds)
            if len(self.known) >= TRACES:
                self.known.clear()
            self.known[signature] = known
        return known

    def _look(
        self,
        leaves: list[Any],
        structure: Any,
        kinds: list[Any],
    ) -> Known:
        """The trace of a call, by what its arguments are and what f finds around it."""
        names: set[str] = set()
        while True:  # until what was looked at first was by the names met last, too
            guard = FunctionGuard(names)
            around = guard.callee(self.f)
            tokens = [k if type(k) is Type else (guard.token(k),) for k in kinds]
            if guard.names == names:
                break
            names = guard.names
        key = structure, tuple(tokens), around, guard.dtype, guard.no_grad
        types_ = [k for k in kinds if type(k) is Type]
        entry = self._find(key, leaves, structure, types_, guard)
        return Known(guard.check(), entry, tuple(kinds))

    def _find(
        self,
        key: Any,
        leaves: list[Any],
        structure: Any,
        types_: list[Type],
        guard: FunctionGuard,
    ) -> Traced:
        inside = is_mine(self._lock)
        with self._lock:
            if not inside:  # but for what an interrupt has left
                self._active.clear()
            entry = self.traces.get(key)
            if entry is None:
                if key in self._active:
                    name = self.__name__
                    raise TraceError(
                        f"{name!r} calls itself with the same signature",
                        hint="recursion over data belongs outside the function, "
                        "or use td.while_loop / td.scan",
                    ).located(name, ", ".join(map(repr, types_)))
                entry = self._first(key, leaves, structure, types_)
                entry.alive = guard.alive
                # Making Variables in the first call may have changed what it names.
                self.traces[key] = entry
                if len(self.traces) > TRACES:
                    self.traces.popitem(last=False)
            self.traces.move_to_end(key)
            return entry

    def _first(
        self, key: Any, leaves: list[Any], structure: Any, types_: list[Type]
    ) -> Traced:
        """The trace of a signature, which is active meanwhile."""
        self._active.add(key)
        try:
            return self._trace(leaves, structure, types_)
        except RecursionError:
            if len(self._active) == 1:
                raise
            name = self.__name__
            raise TraceError(
                f"{name!r} calls itself without an end, each time with "
                "another signature",
                hint="recursion over data belongs outside the function, "
                "where it ends with the data",
            ).located(name, ", ".join(map(repr, types_))) from None
        finally:
            self._active.discard(key)

    def _trace(self, leaves: list[Any], structure: Any, types_: list[Type]) -> Traced:
        self.count += 1
        result: list[Any] = []

        def run_traced(*arguments: Tensor) -> list[Tensor]:
            rest = iter(arguments)
            filled = [
                next(rest)
                if isinstance(leaf, _TAKEN) and not isinstance(leaf, Variable)
                else leaf
                for leaf in leaves
            ]
            args, kwargs = trees.unflatten(structure, filled)
            outputs, out_structure = trees.flatten(self.f(*args, **kwargs))
            static = [None if _is_array(y) else y for y in outputs]
            result.extend([out_structure, static, top().runs])
            return [as_tensor(y) for y in outputs if _is_array(y)]

        traced = trace(run_traced, types_, self.__name__)
        return Traced(traced, self.again, *result)


def _is_array(y: Any) -> bool:
    return isinstance(y, _TAKEN)


@overload
def function(f: Callable[..., Any]) -> Function: ...
@overload
def function(f: None = None) -> Callable[[Callable[..., Any]], Function]: ...
def function(f: Callable[..., Any] | None = None) -> Any:
    """Trace `f` once per signature; later calls are one node and run no Python of f.

    A signature is the types and containers of the arguments, the values of Python
    arguments that are not floats, and what f reads around it: globals, closures,
    defaults, attributes and properties of objects and classes, and what NumPy arrays
    hold, which is looked at at each call (not that of read-only ones, nor of tensors).
    Variables assigned inside are assigned at each call; draws are new at each call.

    >>> @td.function
    ... def square(x):
    ...     return x * x
    >>> float(square(td.constant(3.0))), float(square(4.0)), square.count
    (9.0, 16.0, 1)
    """
    return Function(f) if f is not None else Function


def checkpoint(f: Callable[..., Any]) -> Function:
    """`f` as a function whose gradient computes again what f computes inside.

    Only what f is given is kept for the gradient: less memory for more work (Chen et
    al., "Training deep nets with sublinear memory cost", 2016). Values and gradients
    are the same; a draw inside is made once. With `td.options(workspace=...)` such
    places are found without marks.

    >>> x = td.param("x", init=2.0)
    >>> block = td.checkpoint(lambda x: td.exp(td.sin(x)))
    >>> float(td.grad(block(block(x)), [x])[0]) == float(
    ...     td.grad(td.exp(td.sin(td.exp(td.sin(x)))), [x])[0])
    True
    """
    return Function(f, again=True)
