"""`@td.function`: Python traced once per signature into a body, called as a node."""

from __future__ import annotations

import functools
import threading
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from treadle.base import trees
from treadle.base.errors import TraceError
from treadle.base.options import current
from treadle.graph.body import Trace, trace
from treadle.graph.frame import state, top
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.call import Call, inputs_of
from treadle.ops.families import outputs_of
from treadle.runtime.evaluate import forget, run

__all__ = ["Function", "checkpoint", "function"]

TRACES = 64
_PLAIN = (bool, int, str, bytes, complex, type(None), float)


class Guard:
    """What a traced function took from its surroundings, as a comparable token.

    Numbers, strings and flags count by value, everything else by identity; objects
    that were seen are kept alive, so that an identity is never taken again.
    """

    def __init__(self) -> None:
        self.alive: list[Any] = []
        self.seen: set[int] = set()
        self.names: set[str] = set()  # what the function's code mentions

    def token(self, x: Any, depth: int = 0) -> Any:
        if isinstance(x, _PLAIN):
            return type(x).__name__, x
        if isinstance(x, (Operand, np.ndarray)):
            self.alive.append(x)
            flag = x.trainable if isinstance(x, Variable) else None
            return id(x), flag
        if isinstance(x, (list, tuple)):
            return type(x).__name__, tuple(self.token(v, depth + 1) for v in x)
        if isinstance(x, dict):
            pairs = ((k, self.token(v, depth + 1)) for k, v in x.items())
            return "dict", tuple(pairs)
        self.alive.append(x)
        if id(x) in self.seen or depth > 8 or isinstance(x, (type, types.ModuleType)):
            return id(x)
        self.seen.add(id(x))
        if isinstance(x, Function):
            return id(x), self.surroundings(x.f, depth + 1)
        if isinstance(x, types.FunctionType):
            return id(x), self.surroundings(x, depth + 1)
        if isinstance(x, types.MethodType):
            return self.token(x.__self__, depth), self.token(x.__func__, depth)
        return id(x), self._attributes(x, depth)

    def _attributes(self, x: Any, depth: int) -> Any:
        """All attributes of a module, of other objects those the function names."""
        inner = getattr(x, "__dict__", None)
        if inner is None:
            return None
        if "training" not in inner:
            if type(x).__module__.startswith("treadle."):
                return None
            inner = {k: v for k, v in inner.items() if k in self.names}
        return self.token(dict(inner), depth + 1)

    def surroundings(self, f: Callable[..., Any], depth: int = 0) -> Any:
        """Tokens of the closure cells and globals a Python function names."""
        code = getattr(f, "__code__", None)
        if code is None or "treadle." in f"{f.__module__}.":
            return None
        self.names.update(names_of(code))
        found = []
        for cell in f.__closure__ or ():
            try:
                found.append(self.token(cell.cell_contents, depth))
            except ValueError:
                found.append("empty")
        known = f.__globals__
        for name in names_of(code):
            if name in known:
                found.append((name, self.token(known[name], depth)))
        return tuple(found)


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> tuple[str, ...]:
    """The global and attribute names that code mentions, inner functions included."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += names_of(constant)
    return tuple(dict.fromkeys(names))


class Traced:
    """One trace of a function: its body and the shape of its result."""

    def __init__(
        self, traced: Trace, structure: Any, static: list[Any], runs: bool
    ) -> None:
        self.trace = traced
        self.structure = structure
        self.static = static  # results that are no tensors, None where one is
        self.runs = runs
        self.alive: list[Any] = []


class Function:
    """A function that is traced at the first call of each signature."""

    def __init__(self, f: Callable[..., Any], again: bool = False) -> None:
        self.f = f
        self.again = again  # whether gradients compute what is inside anew
        self.traces: OrderedDict[Any, Traced] = OrderedDict()
        self.count = 0  # traces made so far, for looking
        self._lock = threading.RLock()
        self._active: set[Any] = set()
        functools.update_wrapper(self, f)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = trees.flatten((args, kwargs))
        guard = Guard()
        around = guard.surroundings(self.f)
        tensors: list[Tensor] = []
        kinds: list[Any] = []
        for leaf in leaves:
            if isinstance(leaf, Variable):
                kinds.append(("variable", guard.token(leaf)))
            elif isinstance(leaf, (Operand, np.ndarray, np.generic, float)):
                node = as_tensor(leaf)
                tensors.append(node)
                kinds.append(node.type)
            else:
                kinds.append(("static", guard.token(leaf)))
        key = (
            structure,
            tuple(kinds),
            around,
            current().dtype.name,
            bool(state.no_grad),
        )
        entry = self._find(key, leaves, structure, tensors, guard)
        return self._apply(entry, tensors)

    def _find(
        self,
        key: Any,
        leaves: list[Any],
        structure: Any,
        tensors: list[Tensor],
        guard: Guard,
    ) -> Traced:
        with self._lock:
            entry = self.traces.get(key)
            if entry is None:
                if key in self._active:
                    raise TraceError(
                        f"{self.__name__!r} calls itself with the same signature",  # type: ignore[attr-defined]
                        hint="recursion over data belongs outside the function, "
                        "or use td.while_loop / td.scan",
                    )
                self._active.add(key)
                try:
                    entry = self._trace(leaves, structure, tensors)
                finally:
                    self._active.discard(key)
                entry.alive = guard.alive
                # Making Variables in the first call may have changed what it names.
                self.traces[key] = entry
                if len(self.traces) > TRACES:
                    self.traces.popitem(last=False)
            self.traces.move_to_end(key)
            return entry

    def _trace(
        self, leaves: list[Any], structure: Any, tensors: list[Tensor]
    ) -> Traced:
        self.count += 1
        result: list[Any] = []

        def run_traced(*arguments: Tensor) -> list[Tensor]:
            rest = iter(arguments)
            taken = (Operand, np.ndarray, np.generic, float)
            given = [
                next(rest)
                if isinstance(leaf, taken) and not isinstance(leaf, Variable)
                else leaf
                for leaf in leaves
            ]
            args, kwargs = trees.unflatten(structure, given)
            found, out_structure = trees.flatten(self.f(*args, **kwargs))
            static = [None if _is_array(y) else y for y in found]
            result.extend([out_structure, static, top().runs])
            return [as_tensor(y) for y in found if _is_array(y)]

        types_ = [x.type for x in tensors]
        traced = trace(run_traced, types_, self.__name__)  # type: ignore[attr-defined]
        return Traced(traced, *result)

    def _apply(self, entry: Traced, tensors: list[Tensor]) -> Any:
        node = Call(entry.trace.body, self.again)(*inputs_of(entry.trace, tensors))
        results = outputs_of(node)
        for variable, k in entry.trace.assigned:
            variable.assign(results[k])
        first = iter(results)
        found = [next(first) if s is None else s for s in entry.static]
        if entry.runs:
            if top().tracing:
                top().runs = True
            else:
                # A step is over: what it used is let go, its results keep their values.
                for y in run([y for y in found if isinstance(y, Tensor)], cuts=True):
                    forget(y)
        return trees.unflatten(entry.structure, found)


def _is_array(y: Any) -> bool:
    return isinstance(y, (Operand, np.ndarray, np.generic, float))


@overload
def function(f: Callable[..., Any]) -> Function: ...
@overload
def function(f: None = None) -> Callable[[Callable[..., Any]], Function]: ...
def function(f: Callable[..., Any] | None = None) -> Any:
    """Trace `f` once per signature; later calls are one node and run no Python of f.

    A signature is the types and containers of the arguments, the values of Python
    arguments that are not floats, and what f reads around it. Variables assigned inside
    are assigned at each call; draws are new at each call.

    >>> import treadle as td
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

    >>> import treadle as td
    >>> x = td.param("x", init=2.0)
    >>> block = td.checkpoint(lambda x: td.exp(td.sin(x)))
    >>> float(td.grad(block(block(x)), [x])[0]) == float(
    ...     td.grad(td.exp(td.sin(td.exp(td.sin(x)))), [x])[0])
    True
    """
    return Function(f, again=True)
