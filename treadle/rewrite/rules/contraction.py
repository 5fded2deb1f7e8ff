"""Products summed over shared letters: what is moved, scaled or broadcast in them."""

from __future__ import annotations

import math
from typing import Any

from treadle.graph.tensor import Tensor
from treadle.ops.contract import Contract, letters
from treadle.ops.elementwise import Multiply, Negative
from treadle.ops.movement import BroadcastTo, PermuteDims, Reshape, in_shape
from treadle.ops.reduce import Sum
from treadle.rewrite.facts import is_wide
from treadle.rewrite.pattern import Over, captures, of
from treadle.rewrite.rule import Match, Rule, RuleSet

x, y, z = captures("x y z")
contract, permute, sum_ = of("Contract"), of("PermuteDims"), of("Sum")
POOL = "abcdefghijklmnopqrstuvwxyz"


def _spec(node: Tensor) -> tuple[str, str, str]:
    op: Any = node.op
    return letters(op.spec)


def _is_named(*nodes: Tensor) -> bool:
    return any(n.type.axes is not None for n in nodes)


def placed(v: Tensor, axes: str, wanted: str) -> Tensor:
    """v, with dimensions named by `axes`, as one that broadcasts against `wanted`."""
    order = tuple(axes.index(c) for c in wanted if c in axes)
    permuted = v if order == tuple(range(len(axes))) else PermuteDims(order)(v)
    size = dict(zip(axes, v.type.shape, strict=True))
    shape = tuple(size.get(c, 1) for c in wanted)
    return in_shape(permuted, shape)


def _permuted(m: Match) -> Tensor | None:
    """Permutations of operands as another order of their letters."""
    a, b, out = _spec(m.root)
    inputs = []
    specs = []
    for v, axes in zip(m.root.inputs, (a, b), strict=True):
        if type(v.op) is PermuteDims:
            order = v.op.order
            back = sorted(range(len(order)), key=order.__getitem__)
            inputs.append(v.inputs[0])
            specs.append("".join(axes[k] for k in back))
        else:
            inputs.append(v)
            specs.append(axes)
    if specs == [a, b]:
        return None
    return Contract(f"{specs[0]},{specs[1]}->{out}")(*inputs)


def _as_product(m: Match) -> Tensor | None:
    """A contraction that sums over nothing, or over single elements, as a product."""
    a, b, out = _spec(m.root)
    extents = m.x.type.shape + m.y.type.shape
    for c, n in zip(a + b, extents, strict=True):
        if n != 1 and c not in out:
            return None
    if _is_named(*m.root.inputs):
        return None
    size = dict(zip(a + b, extents, strict=True))
    operands = []
    for v, axes in ((m.x, a), (m.y, b)):
        kept = "".join(c for c in axes if c in out)
        if kept != axes:
            v = Reshape(tuple(size[c] for c in kept))(v)
        operands.append(placed(v, kept, out))
    return operands[0] * operands[1]


def _scaled(m: Match) -> Any:
    """A scale of an operand moved to the result, where that has fewer elements."""
    scaled = m.root.inputs[0] if m.root.inputs[0] is m.f else m.root.inputs[1]
    if m.z.type.size != 1 or m.z.type.shape or m.root.type.size > scaled.type.size:
        return None
    if not is_wide(m.root):
        return None
    op: Any = m.root.op
    first = m.root.inputs[0] is m.f
    inner = op(m.x, m.y) if first else op(m.y, m.x)
    return inner * m.z if isinstance(scaled.op, Multiply) else inner / m.z


def _negated(m: Match) -> Any:
    """A sign moved to the result, where that has no more elements."""
    if m.root.type.size > m.x.type.size:
        return None
    op: Any = m.root.op
    first = m.root.inputs[0]
    inside = type(first.op) is Negative and first.inputs[0] is m.x
    return -(op(m.x, m.y) if inside else op(m.y, m.x))


def _unbroadcast(m: Match) -> Tensor | None:
    """An operand without the dimensions it only repeats; sums of the other instead."""
    if _is_named(*m.root.inputs) or not is_wide(m.root):
        return None
    for first in (0, 1):
        wide = m.root.inputs[first]
        if type(wide.op) is BroadcastTo and wide.type.size:
            return _narrowed(m.root, first)
    return None


def _narrowed(root: Tensor, first: int) -> Tensor | None:
    specs = list(_spec(root)[:2])
    out = _spec(root)[2]
    wide, other = root.inputs[first], root.inputs[1 - first]
    ours, theirs = specs[first], specs[1 - first]
    inner = wide.inputs[0]
    lead = wide.type.ndim - inner.type.ndim
    shape = (1,) * lead + inner.type.shape
    pairs = zip(ours, shape, wide.type.shape, strict=True)
    gone = {c for c, n, full in pairs if n != full}
    if not gone:
        return None
    left = "".join(c for c in ours if c not in gone)
    size = dict(zip(ours + theirs, wide.type.shape + other.type.shape, strict=True))
    narrow = Reshape(tuple(size[c] for c in left))(inner)
    summed = tuple(k for k, c in enumerate(theirs) if c in gone and c not in out)
    rest = "".join(c for k, c in enumerate(theirs) if k not in summed)
    reduced = Sum(summed)(other) if summed else other
    short = "".join(c for c in out if c in left or c in rest)
    pair = [(left, narrow), (rest, reduced)]
    (a, p), (b, q) = pair if first == 0 else pair[::-1]
    product = Contract(f"{a},{b}->{short}")(p, q)
    return product if short == out else BroadcastTo(root.type.shape)(
        Reshape(tuple(size[c] if c in short else 1 for c in out))(product)
    )  # fmt: skip


def _contracted(m: Match) -> Tensor | None:
    """A sum of a product of two that broadcast against each other."""
    product = m.root.inputs[0]
    t = product.type
    if _is_named(m.x, m.y) or not is_wide(m.root) or t.dtype.kind != "f":
        return None
    if any(t.size <= v.type.size for v in (m.x, m.y)) or t.ndim > len(POOL):
        return None
    op: Any = m.root.op
    names = POOL[: t.ndim]
    operands = []
    for v in (m.x, m.y):
        lead = t.ndim - v.type.ndim
        kept = [k for k in range(t.ndim) if k >= lead and v.type.shape[k - lead] != 1]
        shape = tuple(t.shape[k] for k in kept)
        flat = in_shape(v, shape)
        operands.append(("".join(names[k] for k in kept), flat))
    (a, p), (b, q) = operands
    if any(not (names[k] in a and names[k] in b) for k in op.axes) or not op.axes:
        return None
    out = "".join(c for k, c in enumerate(names) if k not in op.axes and c in a + b)
    contraction = Contract(f"{a},{b}->{out}")(p, q)
    shape = m.root.type.shape
    return in_shape(contraction, shape)


def _cost(*letters_of: str, size: dict[str, int]) -> int:
    return math.prod(size[c] for c in set("".join(letters_of)))


def _chain(m: Match) -> Tensor | None:
    """(x y) z as x (y z), where both new products together cost less than the last.

    So it pays even where somebody else reads the first product.
    """
    if _is_named(m.x, m.y, m.z) or not is_wide(m.root):
        return None
    first = m.root.inputs[0] is m.f
    inner, other = m.f, m.z
    ours, theirs = _spec(m.root)[:2] if first else _spec(m.root)[1::-1]
    out = _spec(m.root)[2]
    a, b, mid = _spec(inner)
    fresh = iter(c for c in POOL + POOL.upper() if c not in ours + theirs + out)
    into = dict(zip(mid, ours, strict=True))
    for c in a + b:
        if c not in into:
            into[c] = next(fresh)
    a, b = ("".join(into[c] for c in s) for s in (a, b))
    size: dict[str, int] = {}
    for spec, v in ((a, m.x), (b, m.y), (theirs, other)):
        size.update(zip(spec, v.type.shape, strict=True))
    now = _cost(ours, theirs, size=size)
    best: Tensor | None = None
    for (p, v), (q, u) in (((a, m.x), (b, m.y)), ((b, m.y), (a, m.x))):
        # v stays outside; u and the other operand meet first.
        both = "".join(c for c in q + theirs if c in p or c in out)
        kept = "".join(dict.fromkeys(both))
        if any(c in q and c in theirs and c in p for c in q):
            continue
        cost = _cost(q, theirs, size=size) + _cost(p, kept, size=size)
        if cost < now and _fits(q, theirs, kept) and _fits(p, kept, out):
            now = cost
            met = Contract(f"{q},{theirs}->{kept}")(u, other)
            best = Contract(f"{p},{kept}->{out}")(v, met)
    return best


def _fits(a: str, b: str, out: str) -> bool:
    """Whether every letter that is summed over is in both operands."""
    alone = set(a) ^ set(b)
    return alone <= set(out)


CONTRACTION = RuleSet(
    "contraction",
    [
        Rule("permutation in a product", Over(Contract, PermuteDims), _permuted,
             exact=False,
             takes="numeric", example=lambda d: d("x", (3, 2)).T @ d("y", (3, 4))),
        Rule("product that sums nothing", contract(x, y), _as_product, exact=False,
             takes="numeric",
             example=lambda d: d.td.einsum("i,j->ij", d("x", (3,)), d("y", (4,)))),
        Rule("scale in a product", contract(of("Multiply")(x, z, label="f"), y),
             _scaled, exact=False, takes="float",
             example=lambda d: (d("x", (2, 9)) * d("z", ())) @ d("y", (9, 2))),
        Rule("scale in a product, second", contract(y, of("Multiply")(x, z, label="f")),
             _scaled, exact=False, takes="float",
             example=lambda d: d("y", (2, 9)) @ (d("x", (9, 2)) * d("z", ()))),
        Rule("divisor in a product", contract(of("Divide")(x, z, label="f"), y),
             _scaled, exact=False, takes="float",
             example=lambda d: (d("x", (2, 9)) / d.above(0.5, ())) @ d("y", (9, 2))),
        Rule("negative in a product", contract(-x, y), _negated, exact=False,
             takes="numeric",
             example=lambda d: -d("x", (2, 6)) @ d("y", (6, 4))),
        Rule("negative in a product, second", contract(y, -x), _negated,
             exact=False, takes="numeric",
             example=lambda d: d("y", (2, 6)) @ -d("x", (6, 4))),
        Rule("broadcast in a product", Over(Contract, BroadcastTo), _unbroadcast,
             exact=False, takes="float",
             example=lambda d: d.td.broadcast_to(d("x", (2, 1)), (2, 3))
             @ d("y", (3, 4))),
        Rule("sum of a product that broadcasts", sum_(x * y), _contracted, exact=False,
             takes="float",
             example=lambda d: (d("x", (2, 1, 3)) * d("y", (4, 3))).sum(2)),
        Rule("order of a chain", contract(contract(x, y, label="f"), z), _chain,
             exact=False, takes="float",
             example=lambda d: (d("x", (6, 2)) @ d("y", (2, 6))) @ d("z", (6, 1))),
        Rule("order of a chain, from the right",
             contract(z, contract(x, y, label="f")), _chain, exact=False, takes="float",
             example=lambda d: d("z", (1, 6)) @ (d("x", (6, 2)) @ d("y", (2, 6)))),
    ],
)  # fmt: skip
