"""Sums over rows of what was derived for one: one product over all for each weight."""

from __future__ import annotations

from collections.abc import Container, Sequence

from treadle.base.types import Type, equal_shapes
from treadle.batch.part import Part
from treadle.graph.body import Body
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reached, rebuild
from treadle.ops.contract import Contract, letters
from treadle.ops.elementwise import Add, Negative
from treadle.ops.families import Movement
from treadle.ops.reduce import Sum

_THROUGH = (Add, Negative)


def adds(node: Tensor, rowwise: set[int]) -> bool:
    """True if the sum of a node over rows is the node of the sums of its inputs."""
    plain = isinstance(node.op, (Movement, *_THROUGH))
    same = all(equal_shapes(x.type.shape, node.type.shape) for x in node.inputs)
    linear = plain and (isinstance(node.op, Movement) or same)
    return linear and all(x.serial in rowwise for x in node.inputs)


def _has_product(node: Tensor, rowwise: set[int], known: Container[int]) -> bool:
    """True if a product is among what is added up to a node: it is larger as the value
    of a row than what is multiplied. Other sums are values of rows like their parts."""
    parts = reached(
        [node],
        lambda x: x.inputs if x.serial not in known and adds(x, rowwise) else (),
    )
    return any(isinstance(x.op, Contract) and x.serial not in known for x in parts)


def frontier(g: Tensor, rowwise: set[int], known: Container[int]) -> list[Tensor]:
    """The values of a row that a sum over rows is taken of."""
    values, stack = [], [g]
    while stack:
        node = stack.pop()
        if node.serial in known:
            values.append(node)
        elif adds(node, rowwise) and _has_product(node, rowwise, known):
            stack += node.inputs
        elif isinstance(node.op, Contract):
            values += [x for x in node.inputs if x.serial in rowwise]
        else:
            values.append(node)
    return [x for x in values if x.serial in rowwise]


def _by_rows(part: Part) -> set[int]:
    """The nodes of a part that differ between rows."""
    pairs = zip(part.body.arguments, part.has_rows, strict=True)
    rowwise = {x.serial for x, is_row in pairs if is_row}
    for node in part.body.nodes:
        if any(x.serial in rowwise for x in node.inputs):
            rowwise.add(node.serial)
    return rowwise


def only_rows(part: Part) -> bool:
    """Return True if all that is summed over rows are rows, or products with them."""
    rowwise = _by_rows(part)
    stack = list(part.body.outputs)
    while stack:
        node = stack.pop()
        if node.serial not in rowwise:
            return False
        if node.inputs and adds(node, rowwise):
            stack += node.inputs
    return True


def summed(part: Part, n: int) -> Body:
    """The outputs of a part summed over n rows."""
    rows: dict[int, Tensor] = {}
    arguments = []
    for k, (x, is_row) in enumerate(
        zip(part.body.arguments, part.has_rows, strict=True)
    ):
        t = Type((n, *x.type.shape), x.type.dtype) if is_row else x.type
        argument = Tensor(Argument(k), (), t)
        arguments.append(argument)
        rows[x.serial] = argument
    rowwise = _by_rows(part)

    def one(node: Tensor) -> Tensor:
        return rows[node.serial] if node.serial in rows else rebuild([node], rows)[0]

    def total(node: Tensor) -> Tensor:
        if node.serial not in rowwise:
            return one(node) * n
        if node.serial in rows:
            return Sum((0,), False)(rows[node.serial])
        if adds(node, rowwise):
            return node.op(*[total(x) for x in node.inputs])
        assert isinstance(node.op, Contract), node.op
        return _product(node, [one(x) for x in node.inputs], rowwise)

    outputs = [total(y) for y in part.body.outputs]
    return Body(part.body.name, arguments, outputs)


def _product(node: Tensor, xs: Sequence[Tensor], rowwise: set[int]) -> Tensor:
    """A contraction summed over rows: their letter stands in no result."""
    op = node.op
    assert isinstance(op, Contract)
    a, b, out = letters(op.spec)
    letter = next(c for c in "nrstuvwxyzabcdefghijklm" if c not in a + b + out)
    both = [x.serial in rowwise for x in node.inputs]
    if all(both):
        return Contract(f"{letter}{a},{letter}{b}->{out}")(*xs)
    folded = [
        Sum((0,), False)(x) if is_row else x for x, is_row in zip(xs, both, strict=True)
    ]
    return op(*folded)
