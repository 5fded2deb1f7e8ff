"""A call of a known signature as one Python function, written for it.

What `Function` does in general (flatten, look up, guard, build the call and its
results) is here one straight text: a tree network calls its cells thousands of times
between two runs, and this is all it pays for each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.graph.frame import state
from treadle.graph.operators import Operand
from treadle.graph.origin import capture, holding, library
from treadle.graph.tensor import Tensor, makers, scope, watchers
from treadle.graph.variable import Variable
from treadle.ops.families import selections
from treadle.runtime.guard import Guard, compiled

__all__ = ["MISS", "shortcut"]

# Data that becomes a node first, and containers that are taken apart elsewhere.
_TAKEN = (Operand, np.ndarray, np.generic, float, tuple, list, dict)
MISS = object()  # what a shortcut returns for a call that is not its own
_TEXT = """
def make({names}):
    def call(args):
        try:
{reading}
            user = getframe(2)
            frame = state.frames[-1]
            if watchers or frame.tracing or frame.versions:
                return MISS
            if not ({terms}):
                return MISS
        except (AttributeError, KeyError, ValueError):  # something is gone
            return MISS
        code = user.f_code
        if library.get(code.co_filename) is False and not holding.threads:
            offset = user.f_lasti
        else:
            code, offset = capture(3)
        notes = scope.notes
        plain = closed and (notes is None or notes.closed)
        node = makers.node(
            Tensor, op, ({inputs}), type_, None, code, offset, notes, plain
        )
        return {returned}
    return call
"""


def shortcut(
    args: Sequence[Any], entry: Any, guard: Guard
) -> Callable[[tuple[Any, ...]], Any] | None:
    """The function for calls like this one; None where there is too much to them.

    It takes the arguments by position. `entry` is the trace of the call.
    """
    traced = entry.trace
    if traced.draws or not (entry.flat or entry.single):
        return None
    reading = _Reading()
    if not reading.arguments(args):
        return None
    terms, values = guard.terms()
    space: dict[str, Any] = {f"v{k}": x for k, x in enumerate(values)}
    space.update(reading.space)
    variables = [f"w{k}" for k in range(len(traced.variables))]
    space.update(zip(variables, traced.variables, strict=True))
    captured = [f"c{k}" for k in range(len(traced.captured))]
    space.update(zip(captured, traced.captured, strict=True))
    inputs = [*reading.tensors, *[f"{w}.committed" for w in variables], *captured]
    results = "makers.results(Tensor, node, results)"
    space.update(state=state, watchers=watchers, MISS=MISS, Tensor=Tensor)
    space.update(op=entry.op, type_=entry.type, scope=scope, makers=makers)
    space.update(
        capture=capture, closed=entry.op.closed, results=selections(len(entry.type))
    )
    space.update(getframe=sys._getframe, library=library, holding=holding)
    text = _TEXT.format(
        names=", ".join(space),
        reading="\n".join(f"            {line}" for line in reading.lines),
        terms=terms,
        inputs="".join(f"{x}, " for x in inputs),
        returned=f"{results}[0]" if entry.single else results,
    )
    made: Callable[[tuple[Any, ...]], Any] = compiled(text, "make")(**space)
    return made


def _is_fixed(x: Any) -> bool:
    """Whether this very object always stands for the same: no data, no list."""
    if isinstance(x, tuple):
        return all(map(_is_fixed, x))
    return isinstance(x, Variable) or not isinstance(x, _TAKEN)


class _Reading:
    """Lines that take arguments apart and see that they are of one signature."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.tensors: list[str] = []
        self.space: dict[str, Any] = {}

    def arguments(self, args: Sequence[Any]) -> bool:
        """Read the arguments by position; whether all of them can be."""
        return self._parts("args", args, 1)

    def _parts(self, name: str, parts: Sequence[Any], deep: int) -> bool:
        names = [f"{name}_{k}" for k in range(len(parts))]
        if names:
            self.lines.append(f"{', '.join(names)}, = {name}")
        else:
            self.lines.append(f"if {name}: return MISS")
        pairs = zip(names, parts, strict=True)
        return all(self._one(own, x, deep) for own, x in pairs)

    def _one(self, name: str, x: Any, deep: int) -> bool:
        if isinstance(x, Tensor):
            known = f"t{len(self.space)}"
            self.space[known] = x.type
            self._unless(f"isinstance({name}, Tensor) and {name}.type is {known}")
            self.tensors.append(name)
            return True
        if type(x) is tuple and deep:
            self._unless(f"{name}.__class__ is tuple")
            return self._parts(name, x, deep - 1)
        if not _is_fixed(x):
            return False
        known = f"t{len(self.space)}"
        self.space[known] = x
        self.space.setdefault("tuple", tuple)
        self._unless(f"{name} is {known}")
        return True

    def _unless(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return MISS")
