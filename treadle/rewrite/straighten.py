"""Contractions put into an order of dimensions that is a plain matrix product, and
those of 16-bit floats into float32: their results are rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_not

from treadle.base.caches import cached
from treadle.base.dtypes import HALF, float32
from treadle.graph.tensor import Tensor, remade
from treadle.graph.traversal import reach, uses
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract, letters
from treadle.ops.movement import PermuteDims

Order = tuple[int, ...] | None
Known = dict[tuple[int, tuple[int, ...]], Tensor]  # by what is permuted, and how


def straighten(
    roots: Mapping[int, Tensor], nodes: Sequence[Tensor]
) -> dict[int, Tensor]:
    """The roots, with each contraction as [batch, m, k] times [batch, k, n].

    `nodes` are all that the roots depend on.
    A permutation of a result that nobody else reads becomes the order it is made in;
    the permutations of operands are looked through wherever memory allows.
    """
    alone = _permuted_alone(nodes)
    alone -= {x.serial for x in roots.values()}
    rewritten: dict[int, Tensor] = {}
    known: Known = {}
    waiting: dict[int, Tensor] = {}  # contractions that their permutation will make
    if not alone and all(map(_is_ordered, nodes)):
        return dict(roots)
    for node in nodes:
        op, inputs = node.op, node.inputs
        for x in inputs:
            if x.serial in rewritten:
                inputs = tuple([rewritten.get(y.serial, y) for y in inputs])
                break
        if isinstance(op, Contract):
            if node.serial in alone:
                waiting[node.serial] = Tensor(op, inputs, node.type)
            else:
                product = ordered(op, inputs, node, known)
                if product is not node:
                    rewritten[node.serial] = product
        elif isinstance(op, PermuteDims) and node.inputs[0].serial in waiting:
            inner = waiting[node.inputs[0].serial]
            assert isinstance(inner.op, Contract)
            a, b, out = letters(inner.op.spec)
            letters_out = "".join(out[k] for k in op.order)
            whole = Contract(f"{a},{b}->{letters_out}")
            rewritten[node.serial] = ordered(whole, inner.inputs, node, known)
        elif inputs is not node.inputs:
            rewritten[node.serial] = remade(node, op, inputs, node.type)
    return {serial: rewritten.get(x.serial, x) for serial, x in roots.items()}


def _is_ordered(node: Tensor) -> bool:
    """Whether a node is no contraction, or one that stays as it is."""
    op = node.op
    if not isinstance(op, Contract):
        return True
    whole, swaps, *orders = _order(op.spec)
    return whole == op and not swaps and orders == [None] * 3


def _permuted_alone(nodes: Sequence[Tensor]) -> set[int]:
    """The contractions, by serial, that a permutation reads and nobody else."""
    permuted = [n.inputs[0] for n in nodes if type(n.op) is PermuteDims]
    contractions = {x.serial for x in permuted if isinstance(x.op, Contract)}
    counts = uses(nodes) if contractions else {}
    return {serial for serial in contractions if counts[serial] == 1}


def ordered(
    op: Contract, inputs: tuple[Tensor, ...], node: Tensor, known: Known
) -> Tensor:
    """The contraction with its dimensions in groups: batch, m, k, n.

    What is `known` in an order already is not permuted a second time.
    """
    whole, swaps, *orders = _order(op.spec)
    x, y = inputs[::-1] if swaps else inputs
    x, y = _permuted(x, orders[0], known), _permuted(y, orders[1], known)
    if whole == node.op and x is node.inputs[0] and y is node.inputs[1]:
        return node
    product = Tensor(whole, (x, y), node.type) if orders[2] is None else whole(x, y)
    product.origin = node.origin
    return _permuted(product, orders[2], known)


@cached(1024)
def _order(spec: str) -> tuple[Contract, bool, Order, Order, Order]:
    """A contraction in order, whether its operands change places, and how they and
    then the result are permuted, where they are.
    """
    a, b, out = letters(spec)
    outer = [c for c in out if (c in a) != (c in b)]
    swaps = (
        bool(outer) and outer[0] in b
    )  # rows of the result are of the second operand
    if swaps:
        a, b = b, a
    batch = "".join(c for c in out if c in a and c in b)
    m = "".join(c for c in out if c not in b)
    n = "".join(c for c in out if c not in a)
    k = "".join(c for c in a if c in b and c not in out)
    x, y, z = batch + m + k, batch + k + n, batch + m + n
    pairs = (a, x), (b, y), (z, out)
    orders = [None if p == q else tuple(map(p.index, q)) for p, q in pairs]
    return Contract(f"{x},{y}->{z}"), swaps, *orders  # type: ignore[return-value]


def _permuted(x: Tensor, order: Order, known: Known) -> Tensor:
    """x, with its dimensions in an order, if that is another one."""
    if order is None:
        return x
    if isinstance(x.op, PermuteDims):  # of what was permuted when it was written out
        order, (x,) = tuple(x.op.order[k] for k in order), x.inputs
        if order == tuple(range(len(order))):
            return x
    key = x.serial, order
    if key not in known:
        known[key] = PermuteDims(order)(x)
    return known[key]


def is_half_product(node: Tensor) -> bool:
    """Whether a node is a contraction of 16-bit floats."""
    return type(node.op) is Contract and node.type.dtype in HALF


def widen(roots: dict[int, Tensor], before: Sequence[Tensor]) -> dict[int, Tensor]:
    """The roots, with contractions of 16-bit floats on operands cast to float32.

    After permutations have found their contraction, which a cast would part; the nodes
    `before` that tell whether there are any.
    """
    if not any(map(is_half_product, before)):
        return roots
    nodes = reach(roots.values())
    rewritten: dict[int, Tensor] = {}
    casts: dict[int, Tensor] = {}

    def cast(x: Tensor) -> Tensor:
        if x.serial not in casts:
            wide = x.type.with_dtype(float32)
            casts[x.serial] = Tensor(Cast(float32), (x,), wide)
        return casts[x.serial]

    for node in nodes:
        inputs = tuple([rewritten.get(x.serial, x) for x in node.inputs])
        if is_half_product(node):
            wide = node.type.with_dtype(float32)
            product = remade(node, node.op, tuple(map(cast, inputs)), wide)
            rewritten[node.serial] = Tensor(
                Cast(node.type.dtype), (product,), node.type
            )
        elif any(map(is_not, inputs, node.inputs)):
            rewritten[node.serial] = remade(node, node.op, inputs, node.type)
    return {serial: rewritten.get(x.serial, x) for serial, x in roots.items()}
