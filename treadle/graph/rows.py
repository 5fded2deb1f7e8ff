"""A graph done for each of n rows at once, by the rule `rows` of each op in it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from treadle.base.caches import Cache
from treadle.base.options import current
from treadle.base.types import Type
from treadle.graph.body import Body
from treadle.graph.frame import apart
from treadle.graph.leaves import LITERAL, Argument, Draw, draw_node
from treadle.graph.look import look
from treadle.graph.op import Op
from treadle.graph.operators import functions
from treadle.graph.serials import newest_serial
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import by_serial, reach, rebuild

HasRows = Sequence[bool]
KNOWN = 256  # functions whose nodes for rows are kept


def row_count(has_rows: HasRows, xs: Sequence[Tensor]) -> int:
    """How many rows the operands marked in `has_rows` have."""
    return next(x.type.shape[0] for g, x in zip(has_rows, xs, strict=True) if g)


def row_type(x: Tensor) -> Type:
    """The type of a row of x."""
    return Type(x.type.shape[1:], x.type.dtype)


def spread(has_rows: HasRows, xs: Sequence[Tensor]) -> list[Tensor]:
    """The operands, those that all rows share repeated for each."""
    n = row_count(has_rows, xs)
    return [x if g else repeated(x, n) for g, x in zip(has_rows, xs, strict=True)]


def repeated(x: Tensor, n: int) -> Tensor:
    """x for each of n rows."""
    return functions.broadcast_to(x, (n, *x.type.shape))


def no_rows(op: Op, *xs: Tensor) -> Tensor:
    """The result of an op of two operands for no rows of both: it reads them all."""
    t: Any = op.infer(*map(row_type, xs))
    x, y = (functions.reshape(x, (0, *t.shape)) for x in xs)
    return x + y


def lifted(has_rows: HasRows, xs: Sequence[Tensor]) -> list[Tensor]:
    """The operands of an op that broadcasts, so that their rows meet in front."""
    rank = max(x.type.ndim - g for g, x in zip(has_rows, xs, strict=True))
    return [widened(x, rank) if g else x for g, x in zip(has_rows, xs, strict=True)]


def widened(x: Tensor, rank: int) -> Tensor:
    """Rows x[n, ..] with extents of 1 behind n, so that a row has `rank` dimensions."""
    n, *extents = x.type.shape
    return functions.reshape(x, (n, *[1] * (rank - len(extents)), *extents))


def shifted(op: Any) -> Any:
    """An op that works along `axis` or `axes`, for operands with rows in front."""
    if hasattr(op, "axes"):
        return replace(op, axes=tuple(k + (k >= 0) for k in op.axes))
    return replace(op, axis=op.axis + (op.axis >= 0))


def along_axes(op: Op, has_rows: HasRows, *xs: Tensor) -> Tensor | None:
    """The rule `rows` of ops that work along `axis` or `axes` of all operands."""
    return shifted(op)(*spread(has_rows, xs))


def follow(
    outputs: Iterable[Tensor],
    values: dict[int, Tensor],
    rows: set[int],
    otherwise: Callable[..., Tensor | None] = lambda op, has_rows, *xs: None,
) -> Tensor | None:
    """Do for rows what computes the outputs; a node that cannot be done so, or None.

    An op without a rule is done as `otherwise` says.

    `values` tells, by serial, what nodes became, and `rows` which of them have rows;
    both begin with what is known and are filled. Nodes that depend on no row stay
    single.
    """
    for node in reach(outputs, lambda x: x.serial in values):
        if node.serial in values:
            continue
        xs = [values.get(x.serial, x) for x in node.inputs]
        has_rows = tuple(x.serial in rows for x in node.inputs)
        before = newest_serial()
        if any(has_rows):
            operands = list(map(_unnamed, xs))
            result = node.op.rows(has_rows, *operands)
            if result is None:
                result = otherwise(node.op, has_rows, *operands)
            if result is None:
                return node
            rows.add(node.serial)
        elif all(new is old for new, old in zip(xs, node.inputs, strict=True)):
            continue
        else:
            result = Tensor(node.op, tuple(xs), node.type)
        if result.serial > before:
            result.origin, result.mark = node.origin, node.mark or result.mark
        values[node.serial] = result
    return None


def _unnamed(x: Tensor) -> Tensor:
    """An operand without axis names: names are resolved where a node is built."""
    named = isinstance(x.type, Type) and x.type.axes is not None
    return functions.unname(x) if named else x


def batched(body: Body, has_rows: HasRows, n: int) -> Body | None:
    """The body done for n rows of the arguments in `has_rows`, made once.

    Its arguments are the body's, those in `has_rows` with a leading dimension of n, as
    all its outputs have. None where an op in it has no rule.
    """
    key = "rows", tuple(has_rows), n
    if key not in body.memo:
        with apart():  # it is made for all later calls, whatever scope this one is in
            body.memo[key] = _batched(body, has_rows, n)
    return body.memo[key]


def _batched(body: Body, has_rows: HasRows, n: int) -> Body | None:
    arguments, rows = list(body.arguments), set()
    for k, (x, g) in enumerate(zip(body.arguments, has_rows, strict=True)):
        if g:
            t = Type((n, *x.type.shape), x.type.dtype)
            arguments[k] = Tensor(Argument(k), (), t)
            arguments[k].mark = x.mark
            rows.add(x.serial)
    pairs = zip(body.arguments, arguments, strict=True)
    values = {x.serial: argument for x, argument in pairs}
    if follow(body.outputs, values, rows) is not None:
        return None
    return Body(
        f"{body.name} by rows", arguments, rows_made(body.outputs, values, rows, n)
    )


@dataclass(frozen=True)
class RowsPlan:
    """The nodes that come of a function done for rows, by the places of what they read:
    first its inputs, then `leaves` of which each is made anew, then the steps. Of these
    each has an op, what it reads, a type, the place of the node of the function whose
    line it has, and a mark."""

    leaves: tuple[Tensor, ...]
    steps: tuple[tuple[Op, tuple[int, ...], Any, int, Any], ...]
    results: tuple[int, ...]

    def made(self, inputs: Sequence[Tensor], nodes: Sequence[Tensor]) -> list[Tensor]:
        """The results for these inputs, of a function that has made these nodes."""
        values = [*inputs, *[Tensor(x.op, (), x.type, x.stored) for x in self.leaves]]
        for op, places, type_, at, mark in self.steps:
            read = tuple([values[k] for k in places])
            node = remade(nodes[at], op, read, type_)
            if mark is not None:
                node.mark = mark
            values.append(node)
        return [values[k] for k in self.results]


_plans: Cache[Any, RowsPlan] = Cache("functions of rows", KNOWN)


def traced_rows(
    outputs: Sequence[Tensor],
    start: int,
    rows: Container[int],
    stand_in: Mapping[int, Tensor],
    n: int,
    otherwise: Callable[..., Tensor | None],
) -> list[Tensor]:
    """The results for n rows of a function that was traced from the serial `start` on,
    planned anew where no other one has looked so.

    By serial, `rows` are the arguments that have a row each, and `stand_in` tells what
    an argument becomes. Each row has draws of its own.
    """

    def is_read(x: Tensor) -> bool:
        # Of a node of several results each one is read, and not the node.
        source = x.inputs[0] if x.op.family == "output" else x
        return source.serial <= start or not x.inputs

    seen = None
    if all(y.serial > start for y in outputs):
        seen = look(outputs, (), {}, False, start=start)
    nodes = reach(outputs, is_read) if seen is None else seen.nodes
    read = [x for x in nodes if is_read(x) and x.op is not LITERAL]
    drawn = [x for x in read if isinstance(x.op, Draw) and x.serial > start]
    lead = {x.serial: (n, *x.type.shape[:-1]) for x in sorted(drawn, key=by_serial)}
    has_rows = tuple([x.serial in rows or x.serial in lead for x in read])
    key = seen and (seen.key, current().compilation, n, has_rows)
    plan = _plans.get(key) if key else None
    if plan is None:
        with apart():  # it is made for all later calls, whatever scope this one is in
            plan = _planned(nodes, outputs, start, read, has_rows, n, otherwise)
        if key:
            _plans[key] = plan
    inputs = {**stand_in, **{k: draw_node(shape) for k, shape in lead.items()}}
    return plan.made([inputs.get(x.serial, x) for x in read], nodes)


def _planned(
    nodes: Sequence[Tensor],
    outputs: Sequence[Tensor],
    start: int,
    read: Sequence[Tensor],
    has_rows: HasRows,
    n: int,
    otherwise: Callable[..., Tensor | None],
) -> RowsPlan:
    """The plan of a function that has made these nodes of those that it `read`."""
    outputs = functions.written_in_order(outputs, lambda x: x.serial <= start)
    # What reads these comes last, as where a trace is closed.
    early = [x for x in read if x.serial <= start or isinstance(x.op, Draw)]
    copies = {x.serial: _argument(x, x.type) for x in early}
    outputs = rebuild(outputs, copies)
    values, rows = dict[int, Tensor](), set[int]()
    for node, g in zip(read, has_rows, strict=True):
        t = Type((n, *node.type.shape), node.type.dtype) if g else node.type
        serial = copies.get(node.serial, node).serial
        values[serial] = _argument(node, t)
        rows |= {serial} if g else set()
    arguments = list(values.values())
    follow(outputs, values, rows, otherwise)
    results = rows_made(outputs, values, rows, n)
    place = {x.serial: k for k, x in enumerate(arguments)}
    nodes_made = [x for x in reach(results) if x.serial not in place]
    leaves = [x for x in nodes_made if not x.inputs]
    computed = [x for x in nodes_made if x.inputs]
    place |= {x.serial: k for k, x in enumerate((*leaves, *computed), len(place))}
    lines = {x.origin: k for k, x in enumerate(nodes)}
    steps = []
    for x in computed:
        places = tuple([place[y.serial] for y in x.inputs])
        steps.append((x.op, places, x.type, lines.get(x.origin, 0), x.mark))
    ends = tuple([place[y.serial] for y in results])
    return RowsPlan(tuple(leaves), tuple(steps), ends)


def _argument(like: Tensor, t: Type) -> Tensor:
    """What stands for a node in a plan."""
    argument = Tensor(Argument(-1), (), t)
    argument.mark = like.mark
    return argument


def rows_made(
    outputs: Iterable[Tensor], values: dict[int, Tensor], rows: set[int], n: int
) -> list[Tensor]:
    """The results that `follow` made, those without rows repeated n times."""
    results = []
    for y in outputs:
        result = values.get(y.serial, y)
        if y.serial not in rows:
            result = repeated(_unnamed(result), n)
        results.append(result)
    return results
