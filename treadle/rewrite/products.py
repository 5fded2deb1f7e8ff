"""Products in the bodies of loops: which stay there, and how they read weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from math import prod
from string import ascii_letters

from treadle.base.dtypes import DType
from treadle.graph.body import Body
from treadle.graph.leaves import Argument, literal_node
from treadle.graph.rows import row_type
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import reach, rebuild
from treadle.ops.contract import Contract, letters
from treadle.ops.elementwise import Add
from treadle.ops.loop import Scan
from treadle.ops.movement import PermuteDims, in_shape
from treadle.ops.padding import Pad
from treadle.ops.reduce import Sum
from treadle.ops.slice import Slice

NEAR, FAR = 1 << 18, 1 << 20  # bytes of weights in a near cache; of what is in none
LINE, SAME = 64, 2048  # bytes of a cache line; apart, lines fall on the same place
TALL = 16  # rows of a product that is as fast for itself as with those of other steps
# Of a product's letters, the number of an operand and this, its letters and form.
Form = Callable[[Sequence[str], int, Tensor], tuple[str, Tensor] | None]


def with_products(
    op: Scan,
    body: Body,
    inputs: list[Tensor],
    users: Mapping[int, Sequence[Tensor]],
) -> Body:
    """The body of a loop with products in it of which its rows are the results, for no
    other reader, where these need not be done for all steps at once. The operands of
    the loop, `inputs`, become those of this body.
    """
    arguments = list(body.arguments)
    place = max([x.op.position for x in arguments], default=0)  # type: ignore[attr-defined]
    added: list[Tensor] = []
    operands: list[Tensor] = []
    replaced: dict[int, Tensor] = {}
    rows: dict[int, Tensor] = {}  # by what they are of
    for k in range(op.carries, op.carries + op.scanned):
        y = inputs[k]
        affine = _affine(y)
        if affine is None or any(type(x.op) is not Scan for x in users[y.serial]):
            continue
        x, spec, others = affine
        argument = Tensor(arguments[k].op, (), row_type(x))
        row = rows.get(x.serial, argument)
        same = [
            Tensor(Argument(place + n), (), b.type) for n, b in enumerate(others, 1)
        ]
        z = product = Contract(spec)(row, same[0])
        for b in same[1:]:
            z = Add()(z, b)
        if is_near(product, 1, op.length) and z.type == arguments[k].type:
            replaced[arguments[k].serial] = z
            rows[x.serial] = row
            arguments[k], inputs[k] = argument, x
            added, operands, place = (
                added + same,
                operands + others,
                place + len(others),
            )
    if not replaced:
        return body
    end = len(arguments) - op.draws
    arguments[end:end], inputs[end:end] = added, operands
    return Body(body.name, arguments, rebuild(body.outputs, replaced))


def _affine(y: Tensor) -> tuple[Tensor, str, list[Tensor]] | None:
    """Rows, the product of one with weights, and these, with what is added to it: a
    node that is all of that, if it is one."""
    terms: list[Tensor] = []
    while isinstance(y.op, Add):
        wide = [x for x in y.inputs if x.type.ndim == y.type.ndim]
        rest = [x for x in y.inputs if x.type.ndim < y.type.ndim]
        if len(wide) != 1 or len(rest) != 1:
            return None
        (y,), terms = wide, [*rest, *terms]
    if not isinstance(y.op, Contract):
        return None
    a, b, out = letters(y.op.spec)
    if not out or a[:1] != out[0] or out[0] in b:
        return None
    return y.inputs[0], f"{a[1:]},{b}->{out[1:]}", [y.inputs[1], *terms]


def is_near(x: Tensor, k: int, length: int) -> bool:
    """Whether a node is a product of some rows and of weights, its operand `k`, that
    are in a near cache, where what it comes to in so many steps would be in none."""
    if not isinstance(x.op, Contract) or length * x.type.nbytes <= FAR:
        return False
    dims, out = letters(x.op.spec)[k], letters(x.op.spec)[2]
    sizes = zip(dims, x.inputs[k].type.shape, strict=True)
    columns = prod(n for c, n in sizes if c in out)
    return x.inputs[k].type.nbytes <= NEAR and x.type.size >= TALL * columns


def by_rows(body: Body, first: int, stop: int) -> Body:
    """A body whose products read by rows what stays the same, its arguments from
    `first` to `stop`: a kernel reads adjacent columns of its second matrix."""

    def ordered(spec: Sequence[str], k: int, w: Tensor) -> tuple[str, Tensor] | None:
        order = _by_rows(spec, k)
        if order is None:
            return None
        return "".join([spec[k][n] for n in order]), PermuteDims(order)(w)

    return _reformed(body, first, stop, ordered)


def spread(body: Body, first: int, stop: int) -> Body:
    """A body whose products read rows of what stays the same that do not fall on the
    same lines of a cache: such that lie a multiple of `SAME` apart have a line more."""
    borders: dict[DType, Tensor] = {}

    def wider(spec: Sequence[str], k: int, w: Tensor) -> tuple[str, Tensor] | None:
        shape, dtype = w.type.shape, w.type.dtype
        is_second = len(shape) == 2 and spec[k][-1] == spec[2][-1]
        if not is_second or shape[1] * dtype.itemsize % SAME:
            return None
        border = borders.setdefault(dtype, literal_node(0, dtype))
        x = Pad(((0, 0), (0, LINE // dtype.itemsize)))(w, border)
        return spec[k], Slice((0, 0), shape, (1, 1))(x)

    return _reformed(body, first, stop, wider)


def _reformed(body: Body, first: int, stop: int, form: Form) -> Body:
    """A body whose products read in another form what stays the same."""
    changing = {x.serial for x in body.arguments[:first]}
    changing |= {x.serial for x in body.arguments[stop:]}
    varies = below(body.nodes, changing)
    rewritten: dict[int, Tensor] = {}
    for x in body.nodes:
        op, inputs = x.op, [rewritten.get(y.serial, y) for y in x.inputs]
        if isinstance(op, Contract) and x.serial in varies:
            spec = [*letters(op.spec)]
            for k, w in enumerate(x.inputs):
                if w.serial not in varies:
                    spec[k], inputs[k] = form(spec, k, w) or (spec[k], w)
            op = Contract(f"{spec[0]},{spec[1]}->{spec[2]}")
        if any(new is not old for new, old in zip(inputs, x.inputs, strict=True)):
            rewritten[x.serial] = remade(x, op, tuple(inputs), x.type)
    return Body(
        body.name, body.arguments, [rewritten.get(y.serial, y) for y in body.outputs]
    )


def _by_rows(spec: Sequence[str], k: int) -> tuple[int, ...] | None:
    """The order of the dimensions of operand `k` of a product in which the columns of
    the result are adjacent, where terms are and the operand is the second matrix."""
    of, other, out = spec[k], spec[1 - k], spec[2]
    if not out or out[-1] not in of or out[-1] in other or of[-1] in out:
        return None
    count = next(
        (n for n, c in enumerate(out[::-1]) if c not in of or c in other), None
    )
    columns = out if count is None else out[len(out) - count :]
    order = [c for c in out if c in of and c not in columns]
    order += [*[c for c in of if c not in out], *columns]
    return tuple(map(of.index, order))


def folded(x: Tensor) -> Tensor:
    """The product or sum that a node is a part of, or the node itself."""
    whole = x.inputs[0] if isinstance(x.op, Slice) else x
    return whole if isinstance(whole.op, (Contract, Sum)) else x


def summed(x: Tensor, values: Mapping[int, Tensor], rows: Set[int]) -> Tensor:
    """The sum over all steps of a product or a sum of what has rows, or of a part."""
    if isinstance(x.op, Slice):
        return x.op(summed(x.inputs[0], values, rows))
    if isinstance(x.op, Sum):
        axes = (0, *[k + 1 for k in x.op.axes])
        total = Sum(axes)(values[x.inputs[0].serial])
        return in_shape(total, x.type.shape)
    a, b, out = letters(x.op.spec)  # type: ignore[attr-defined]
    step = next(c for c in ascii_letters if c not in x.op.spec)  # type: ignore[attr-defined]
    has_rows = [y.serial in rows for y in x.inputs]
    operands = [values.get(y.serial, y) for y in x.inputs]
    if all(has_rows):
        return Contract(f"{step}{a},{step}{b}->{out}")(*operands)
    k = has_rows.index(True)
    operands[k] = Sum((0,))(operands[k])
    return Contract(x.op.spec)(*operands)  # type: ignore[attr-defined]


def below(nodes: Sequence[Tensor], serials: Set[int]) -> set[int]:
    """Those of the nodes that depend on some, with these."""
    dependent = set(serials)
    for x in nodes:
        if any(y.serial in dependent for y in x.inputs):
            dependent.add(x.serial)
    return dependent


def above(nodes: Iterable[Tensor]) -> set[int]:
    """The serials of all that nodes depend on, with these."""
    return {x.serial for x in reach(nodes)}


def needed(body: Body, carries: int, read: Set[int]) -> list[int]:
    """The carries of a loop that are read after it, and those that what is read needs;
    `read` has the numbers of outputs."""
    arguments = {x.serial: k for k, x in enumerate(body.arguments[:carries])}
    wanted = {k for k in read if k < carries}
    while True:
        serials = above(body.outputs[k] for k in {*wanted, *read})
        more = {arguments[n] for n in serials if n in arguments} - wanted
        if not more:
            return sorted(wanted)
        wanted |= more
