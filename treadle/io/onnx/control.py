"""Importers of control flow: If, Loop and Scan, chosen at the call where values are
known, else as `td.cond`, `td.while_loop` and `td.scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import treadle as td
from treadle.base.errors import TreadleError
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.io.onnx.build import Subgraph, Value, value_of
from treadle.io.onnx.table import OnnxNode, axis_of, row

_MOST = 1 << 16  # iterations of a loop whose body is built for each of them
Body = Callable[..., list[Value]]


def _known(x: Value, k: int) -> Any:
    """The number of an operand, or None where it depends on what is not known yet."""
    try:
        array = value_of(x, k)
    except ValueError:
        return None
    if array.size != 1:
        raise ValueError(f"input {k} is no scalar but {array.shape}")
    return array.reshape(()).item()


@row("If", reads="then_branch else_branch", raw=True)
def _if(node: OnnxNode, condition: Value) -> tuple[Value, ...]:
    then, otherwise = node.get("then_branch"), node.get("else_branch")
    chosen = _known(condition, 0)
    if chosen is not None:
        return tuple(then() if chosen else otherwise())

    def branch(body: Subgraph) -> Callable[[], tuple[Tensor, ...]]:
        inner = body.hoisted()
        return lambda: tuple(map(as_tensor, inner()))

    scalar = td.reshape(as_tensor(condition), ())
    return td.cond(scalar, branch(then), branch(otherwise))


@row("Loop", reads="body", raw=True)
def _loop(node: OnnxNode, count: Value, go: Value, *state: Value) -> tuple[Value, ...]:
    body: Body = node.get("body")
    most = None if count is None else _known(count, 0)
    first = True if go is None else _known(go, 1)
    carried = len(state)
    plain = all(isinstance(x, (Tensor, td.Variable, np.ndarray)) for x in state)
    if first is not None and (count is None or most is not None):
        if not first:
            most = 0
        if plain and most is not None and most > 1:
            result = _scanned(body, int(most), state)
            if result is not None:
                return result
        try:
            return _iterated(body, most, state, len(node.outputs) - carried)
        except _Unknown:
            pass
    if len(node.outputs) > carried or not plain:
        raise ValueError(
            "how often it runs depends on data, and it stacks results or sequences: "
            "call the module with arrays, outside of a computation or function"
        )
    return _while(body, count, go, state)


class _Unknown(Exception):
    """The condition of a loop depends on data that is not there yet."""


def _iterated(
    body: Body, most: int | None, state: Sequence[Value], stacks: int
) -> tuple[Value, ...]:
    """The loop with its body built for each iteration."""
    rows: list[list[Tensor]] = [[] for _ in range(max(stacks, 0))]
    values, k = list(state), 0
    while most is None or k < most:
        if k >= _MOST:
            raise ValueError(f"more than {_MOST} iterations")
        results = body(np.array(k, np.int64), np.array(True), *values)
        values = results[1 : 1 + len(state)]
        for stack, y in zip(rows, results[1 + len(state) :], strict=False):
            stack.append(as_tensor(y))
        go, k = _known(results[0], 0), k + 1
        if go is None:
            raise _Unknown
        if not go:
            break
    if not k and rows:
        results = body(np.array(0, np.int64), np.array(True), *values)
        stacked: Any = map(as_tensor, results[1 + len(state) :])
        types = [y.type for y in stacked]
        empty = [td.zeros((0, *t.shape), dtype=t.dtype) for t in types]
        return (*values, *empty)
    return (*values, *map(td.stack, rows))


def _scanned(
    body: Body, length: int, state: Sequence[Value]
) -> tuple[Value, ...] | None:
    """The loop as one `td.scan`, if only its count ends it and shapes stay."""
    start = tuple(map(as_tensor, state))
    kinds = [(x.type.shape, x.type.dtype) for x in start]

    def step(carry: Any, k: Any) -> Any:
        results = body(k, np.array(True), *carry)
        go, kept = results[0], results[1 : 1 + len(state)]
        if not isinstance(go, np.ndarray) or not go.all():
            raise ValueError("it may end before its count")
        stacked = tuple(map(as_tensor, results[1 + len(state) :]))
        after: tuple[Any, ...] = tuple(map(as_tensor, kept))
        if [(x.type.shape, x.type.dtype) for x in after] != kinds:
            raise ValueError("shapes or dtypes change")
        return after, stacked

    try:
        last, rows = td.scan(step, start, td.asarray(np.arange(length)))
    except (ValueError, TypeError, TreadleError):
        return None
    return (*last, *rows)


def _while(body: Body, count: Value, go: Value, state: Sequence[Value]) -> Any:
    """The loop as one `td.while_loop`, whose state keeps its shapes."""
    number = td.asarray(np.array(0, np.int64))
    most = None if count is None else td.reshape(as_tensor(count), ())
    first = td.reshape(as_tensor(np.array(True) if go is None else go), ())

    def test(s: Any) -> Tensor:
        return s[1] if most is None else td.logical_and(s[1], s[0] < most)

    def step(s: Any) -> Any:
        results = body(s[0], s[1], *s[2:])
        after = map(as_tensor, results[1:])
        return (s[0] + 1, td.reshape(as_tensor(results[0]), ()), *after)

    start = (number, first, *map(as_tensor, state))
    return tuple(td.while_loop(test, step, start)[2:])


_SCAN = (
    "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
    "scan_output_directions"
)


@row("Scan", reads=_SCAN, first=9)
def _scan(node: OnnxNode, *operands: Tensor) -> tuple[Any, ...]:
    body: Body = node.get("body")
    count = node.get("num_scan_inputs", 0)
    carried = len(operands) - count
    outputs = len(node.outputs) - carried
    if not 0 < count <= len(operands) or outputs < 0:
        raise ValueError(f"{count} scanned inputs of {len(operands)}")
    axes = node.get("scan_input_axes", (0,) * count)
    ways = node.get("scan_input_directions", (0,) * count)
    if not len(axes) == len(ways) == count:
        raise ValueError(f"axes or directions of {count} scanned inputs")
    rows = []
    for x, axis, back in zip(operands[carried:], axes, ways, strict=True):
        steps = td.moveaxis(x, axis_of(axis, x), 0)
        rows.append(td.flip(steps, 0) if back else steps)
    if len({x.shape[0] for x in rows}) > 1:
        raise ValueError("scanned inputs have different lengths")

    def step(carry: Any, row_: Any) -> Any:
        results = [as_tensor(y) for y in body(*carry, *row_)]
        return tuple(results[:carried]), tuple(results[carried:])

    last, stacks = td.scan(step, tuple(operands[:carried]), tuple(rows))
    axes = node.get("scan_output_axes", (0,) * outputs)
    ways = node.get("scan_output_directions", (0,) * outputs)
    if not len(axes) == len(ways) == outputs <= len(stacks):
        raise ValueError(f"axes or directions of {outputs} scanned outputs")
    results = [
        td.moveaxis(td.flip(y, 0) if back else y, 0, axis_of(axis, y))
        for y, axis, back in zip(stacks, axes, ways, strict=True)
    ]
    return (*last, *results)
