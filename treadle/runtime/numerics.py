"""NaN and infinities: which node made the first, and on which of the user's lines.

Results are looked at as the engine made them, so that whole programs and batched runs
are watched at the cost of one pass over what they give out. Where one is not finite the
run is repeated from the same inputs, node by node, by the NumPy rules: draws and
Variables are data that is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.autodiff.gradient import derivatives
from treadle.autodiff.tape import Row, replayed, rows_given
from treadle.autodiff.written import derived
from treadle.base.dtypes import is_inexact
from treadle.base.errors import RunError
from treadle.base.options import current, options
from treadle.base.types import TupleType
from treadle.graph.body import Body, CalledBody, bodies, with_bodies
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute_at
from treadle.graph.operators import functions, provide
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.graph.text import head
from treadle.graph.traversal import NEWEST, pending

Values = Mapping[int, Any]
Arrays = Sequence[np.ndarray[Any, Any]]


def refuse(
    nodes: Sequence[Tensor], feeds: Values, asked: Set[int], values: Values, engine: str
) -> None:
    """Raise for results that are not finite, with the node that is to blame."""
    bad = [n for n in nodes if n.serial in asked and not _finite(values.get(n.serial))]
    if not bad:
        return
    every, results = derived(nodes, {n.serial for n in bad})
    serials = set(results.values())
    roots = [n for n in every if n.serial in serials]
    _blame(roots, every, feeds)
    what = f"{_shown(values[bad[0].serial])} on the {engine} engine"
    error = RunError(f"{what}, where the reference engine's value is finite")
    raise error.located(bad[0].op.name, _types(bad[0].inputs), bad[0].line)


def _finite(value: Any) -> bool:
    array = value.numpy() if isinstance(value, Resident) else value
    if not isinstance(array, np.ndarray) or not is_inexact(array.dtype):
        return True
    return bool(np.isfinite(array).all())


def _has_nan(value: Any) -> bool:
    known = isinstance(value, np.ndarray) and is_inexact(value.dtype)
    return known and bool(np.isnan(value).any())


# -- the replay ------------------------------------------------------------------------


def _blame(roots: Sequence[Tensor], nodes: Sequence[Tensor], feeds: Values) -> None:
    """Raise for the first node that made what is not finite in the roots."""
    values = _replayed(nodes, feeds)
    makers = _makers([r for r in roots if not _finite(values[r.serial])], values)
    if makers:
        first = min(makers, key=lambda n: n.serial)
        _look_inside(first, values)
        raise _error(first, values, roots[0])


def _replayed(nodes: Sequence[Tensor], feeds: Values) -> dict[int, Any]:
    """The value of every node, by its NumPy rule where it has none yet."""
    values: dict[int, Any] = {}
    for node in nodes:
        if node.serial in feeds:
            values[node.serial] = feeds[node.serial]
        elif node.stored is not None:
            values[node.serial] = node.array
        else:
            arrays = [values[x.serial] for x in node.inputs]
            values[node.serial] = compute_at(node.op, node.type, arrays, node.origin)
    return values


def _makers(roots: Sequence[Tensor], values: Values) -> list[Tensor]:
    """The nodes at which what is not finite in these begins.

    NaN is followed to where there was none before; made of an infinity, to what made
    that, unless it was given: a mask may be infinite.
    """
    makers: list[Tensor] = []
    stack, seen = list(roots), {r.serial for r in roots}
    while stack:
        node = stack.pop()
        known = [x for x in node.inputs if x.serial in values]
        broken = [x for x in known if not _parts_finite(values[x.serial])]
        if _has_nan(values[node.serial]):
            infinite, broken = broken, [x for x in broken if _any_nan(values[x.serial])]
            if not broken and infinite:
                computed = [n for n in _makers(infinite, values) if n.inputs]
                makers += computed or [node]
                continue
        if not broken:
            makers.append(node)
        for x in broken:
            if x.serial not in seen:
                seen.add(x.serial)
                stack.append(x)
    return makers


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _parts_finite(value: Any) -> bool:
    return all(map(_finite, _parts(value)))


def _any_nan(value: Any) -> bool:
    return any(map(_has_nan, _parts(value)))


class _Found(Exception):
    """The error for a node inside of a body."""

    def __init__(self, error: RunError) -> None:
        super().__init__()
        self.error = error


def _look_inside(node: Tensor, values: Values) -> None:
    """Raise for the node in a body of this one that is to blame, if one is."""
    if not bodies(node.op):
        return
    arrays = [values[x.serial] for x in node.inputs]
    op = with_bodies(node.op, lambda body: CalledBody(body, _watched(body, node)))
    try:
        compute_at(op, node.type, arrays, node.origin)
    except _Found as blame:
        raise blame.error from None


def _watched(body: Body, outside: Tensor) -> Callable[[Arrays], Any]:
    """A body that is run node by node, and raises where it makes what is not finite."""

    def run(arrays: Arrays) -> tuple[Any, ...]:
        pairs = zip(body.arguments, arrays, strict=True)
        values = _replayed(body.nodes, {x.serial: array for x, array in pairs})
        bad = [y for y in body.outputs if not _finite(values[y.serial])]
        makers = [n for n in _makers(bad, values) if n.inputs]
        if makers:
            first = min(makers, key=lambda n: n.serial)
            try:
                _look_inside(first, values)
            except RunError as error:
                raise _Found(error) from None
            raise _Found(_error(first, values, outside))
        return tuple(values[y.serial] for y in body.outputs)

    return run


# -- what is told ----------------------------------------------------------------------


def _error(node: Tensor, values: Values, root: Tensor) -> RunError:
    """The error of a node: its inputs, its line, and what came of it."""
    operands = [x for x in node.inputs if x.serial in values]
    shown = [_shown(part) for part in _parts(values[node.serial]) if not _finite(part)]
    what = " and ".join(shown)
    if not operands:
        what = f"{head(node)} holds {what}"
    elif any(not _parts_finite(values[x.serial]) for x in operands):
        what += ", made of infinities that it was given"
    else:
        what += ", made of finite operands"
    ranges = [_range(part) for x in operands for part in _parts(values[x.serial])]
    if root.serial != node.serial and root.line and root.line != node.line:
        what += f"; it reaches {root.op.name} at {root.line}"
    hint = "; ".join(f"operand {k}: {text}" for k, text in enumerate(ranges) if text)
    error = RunError(what, hint=hint)
    return error.located(node.op.name, _types(operands), node.line)


def _shown(value: Any) -> str:
    """How much of an array is not finite, and where it begins."""
    array = np.asarray(value.numpy() if isinstance(value, Resident) else value)
    wrong = ~np.isfinite(array)
    first = tuple(int(k) for k in np.argwhere(wrong)[0])
    element = array[first]
    name = "NaN" if np.isnan(element) else ("-inf" if np.real(element) < 0 else "inf")
    if not array.ndim:
        return name
    place = ", ".join(map(str, first))
    return f"{name} at [{place}] ({int(wrong.sum())} of {array.size} elements)"


def _range(value: Any) -> str:
    """From where to where an array goes."""
    if not isinstance(value, np.ndarray) or not value.size or value.dtype.kind == "c":
        return ""
    wide = value.astype(np.float64) if is_inexact(value.dtype) else value
    low, high = wide.min(), wide.max()
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def _types(nodes: Sequence[Tensor]) -> str:
    return ", ".join(repr(x.type) for x in nodes)


# -- batched runs ----------------------------------------------------------------------


@provide
def run_rows(
    roots: Sequence[Tensor],
    asked: Container[int] = (),
    once: bool = False,
    floor: int = NEWEST,
    looked: bool = False,
) -> bool:
    """`rows.run_as_rows`, and a look at the values if they are to be watched."""
    now = current()
    if not now.check_numerics or now.eager:  # which runs each node by itself
        return functions.run_as_rows(roots, asked, once, floor, looked)
    waiting = {node.serial for node in pending(roots) if node.stored is None}
    if not functions.run_as_rows(roots, asked, once, floor, looked):
        return False
    for node in pending(roots):
        if type(node.op) is Row and node.serial in waiting and not _finite(node.array):
            copy = replayed([node], {})[node.serial]
            _blame([copy], pending([copy]), {})
    return True


def refuse_pulled(node: Tensor, gradients: Sequence[Any]) -> None:
    """Raise for the gradient of a batched run that is not finite."""
    if not current().check_numerics or all(map(_finite, gradients)):
        return
    op: Any = node.op
    rows = rows_given(node)
    if rows is not None:
        values = replayed(rows, {})
        ys = [values[row.serial] for row in rows]
        gs = [constant_node(np.asarray(x.array)) for x in node.inputs[: len(ys)]]
        sources = [x for x in op.tape.sources if not isinstance(x.type, TupleType)]
        with options(autobatch=False):  # which would take us here again
            roots = derivatives(ys, gs, sources, "zero")
        every, results = derived(pending(roots), {r.serial for r in roots})
        wanted = set(results.values())
        _blame([n for n in every if n.serial in wanted], every, {})
    error = RunError("the gradient of a batched run is not finite")
    error.hint = "td.options(autobatch=False) tells which node made it so"
    raise error.located("gradient", "", node.line)
