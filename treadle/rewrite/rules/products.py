"""Products in which something cancels that is never 0 in exact arithmetic.

Where it underflows or overflows, the left side is NaN or infinite and the right side
what mathematics gives: cross entropy and its gradient come out of this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from treadle.base.types import equal_shapes
from treadle.graph.op import Op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.activation import Sigmoid
from treadle.ops.elementary import Exp
from treadle.ops.elementwise import Add, Divide, Multiply, Negative, Subtract
from treadle.ops.movement import Reshape
from treadle.ops.power import Reciprocal, Square
from treadle.ops.reduce import Sum
from treadle.ops.softmax import Softmax
from treadle.rewrite.facts import is_number, is_positive, number_of
from treadle.rewrite.index import Within
from treadle.rewrite.pattern import Found, Pattern, captures, of
from treadle.rewrite.rule import Match, RuleSet, stable

x, y = captures("x y")
reshape = of("Reshape")
FACTORS = 8  # of a product that are looked at


def folded_axis(total: Tensor, e: Tensor) -> int | None:
    """The axis that `total` sums `e` over, if it broadcasts against it along that."""
    folded = total.inputs[0] if type(total.op) is Reshape else total
    if type(folded.op) is not Sum or folded.inputs[0] is not e:
        return None
    axes, shape = folded.op.axes, e.type.shape
    if len(axes) != 1:
        return None
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
    return axes[0] if total.type.shape in (kept, kept[1:] * (axes[0] == 0)) else None


class Products(Pattern):
    """A product or quotient in which operands of these ops stand, at any place."""

    def __init__(self, root: type[Op], *inside: type[Op]) -> None:
        self.root, self.inside = root, inside

    def could(self, shape: Any) -> bool:
        cls, inputs = shape
        if cls is not self.root:
            return False
        if inputs is None:
            return True
        below = [s[0] for _, inner in inputs for s in inner or ()]
        return any(c in self.inside for c in [s[0] for s in inputs] + below)

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        if type(node.op) is self.root:
            yield captured

    def __repr__(self) -> str:
        return f"a {self.root.__name__.lower()} with what cancels"


class Quotients(Pattern):
    """A sum or difference of terms each of which may have a divisor."""

    def __init__(self, root: type[Op]) -> None:
        self.root = root

    def could(self, shape: Any) -> bool:
        cls, inputs = shape
        return cls is self.root and (inputs is None or all(map(self._divides, inputs)))

    def _divides(self, shape: Any) -> bool:
        cls, inputs = shape
        if cls in _DIVISIONS or cls not in _PARTS:
            return cls in _DIVISIONS
        return inputs is None or any(s[0] in _PARTS for s in inputs)

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        if type(node.op) is self.root:
            yield captured

    def __repr__(self) -> str:
        return f"a {self.root.__name__.lower()} of quotients"


class FactoredProduct:
    """A product as its factors and divisors, signs aside."""

    def __init__(self, root: Tensor) -> None:
        self.factors: list[Tensor] = []
        self.divisors: list[Tensor] = []
        self.negative = False
        waiting = [(root, False)]
        while waiting:
            node, below = waiting.pop(0)
            kind = type(node.op)
            fits = len(waiting) + len(self.factors) + len(self.divisors) < FACTORS
            if kind is Multiply and fits:
                waiting += [(v, below) for v in node.inputs]
            elif kind is Divide and fits:
                waiting += [(node.inputs[0], below), (node.inputs[1], not below)]
            elif kind is Square and fits:
                waiting += [(node.inputs[0], below)] * 2
            elif kind is Reciprocal and fits:
                waiting.append((node.inputs[0], not below))
            elif kind is Negative:
                self.negative = not self.negative
                waiting.append((node.inputs[0], below))
            else:
                (self.divisors if below else self.factors).append(node)

    def build(self) -> Any:
        product: Any = None
        for v in self.factors:
            product = v if product is None else product * v
        for v in self.divisors:
            product = functions.reciprocal(v) if product is None else product / v
        if product is None:
            return -1 if self.negative else 1
        return -product if self.negative else product

    def has(self, v: Tensor) -> bool:
        return any(f is v for f in self.factors)

    def drop(self, v: Tensor) -> None:
        """Take one of the factors away."""
        _remove(self.factors, v)


def _remove(nodes: list[Tensor], v: Tensor) -> None:
    for k, f in enumerate(nodes):
        if f is v:
            del nodes[k]
            return


def _cancelled(m: Match) -> Any:
    """A product in which something cancels; None where nothing does."""
    product = FactoredProduct(m.root)
    changed = False
    for d in list(product.divisors):
        factors = _against(product, d)
        if factors is not None:
            _remove(product.divisors, d)
            product.factors += factors
            changed = True
    for e in list(product.factors):
        if type(e.op) is Exp and product.has(e):
            changed = _met(product, e.inputs[0], e) or changed
    return product.build() if changed else None


def _met(product: FactoredProduct, v: Tensor, e: Tensor) -> bool:
    """sigmoid(u) exp(-u) as sigmoid(-u), for one sigmoid among the factors."""
    for s in product.factors:
        if type(s.op) is Sigmoid and _is_opposite(s.inputs[0], v):
            product.drop(s)
            product.drop(e)
            whole = type(s.inputs[0].op) is Negative  # sigmoid(-v) exp(v)
            product.factors.append(Sigmoid()(v) if whole else 1 - s)
            return True
    return False


def _is_opposite(u: Tensor, v: Tensor) -> bool:
    """Whether u is -v, as signs and multiples are written in normal form."""
    if type(u.op) is Negative or type(v.op) is Negative:
        a, b = (u.inputs[0], v) if type(u.op) is Negative else (u, v.inputs[0])
        return a is b
    if type(u.op) is Multiply and type(v.op) is Multiply:
        (a, p), (b, q) = u.inputs, v.inputs
        numbers = number_of(p), number_of(q)
        return a is b and None not in numbers and numbers[0] == -numbers[1]
    return False


def _against(product: FactoredProduct, d: Tensor) -> list[Tensor] | None:
    """The factors that a divisor leaves when it is taken away with what it cancels."""
    if product.has(d) and is_positive(d):
        product.drop(d)
        return []
    for e in product.factors:
        axis = folded_axis(d, e) if type(e.op) is Exp else None
        if axis is not None:
            product.drop(e)
            return [Softmax(axis)(e.inputs[0])]
    if type(d.op) is Add:
        for one, e in (d.inputs, d.inputs[::-1]):
            if type(one.op) is Exp and type(e.op) is Exp and product.has(e):
                product.drop(e)
                return [Sigmoid()(e.inputs[0] - one.inputs[0])]
            if is_number(one, 1) and type(e.op) is Exp:
                if product.has(e):
                    product.drop(e)
                    return [Sigmoid()(e.inputs[0])]
                return [Sigmoid()(-e.inputs[0])]
    return None


def _part(v: Tensor, s: Tensor) -> Tensor | None:
    """w where v is w / s, perhaps with factors; None where s does not divide v."""
    product = FactoredProduct(v)
    if not any(d is s for d in product.divisors):
        return None
    _remove(product.divisors, s)
    quotient = product.build()
    return quotient if isinstance(quotient, Tensor) else None


def _distributed(m: Match) -> Any:
    """(w / s + b) * s as w + b * s, where s is never 0.

    Only where every such divisor meets a factor: until then the sum stays whole.
    """
    if not _sums_quotients(m.root):
        return None
    product = FactoredProduct(m.root)
    for total in product.factors:
        if type(total.op) not in (Add, Subtract):
            continue
        parts = [FactoredProduct(v) for v in total.inputs]
        met = _met_by(parts, [f for f in product.factors if f is not total])
        if not met:
            continue
        for s in met:
            product.drop(s)
        product.drop(total)
        left, right = (_times(part, met) for part in parts)
        product.factors.append(left + right if type(total.op) is Add else left - right)
        return product.build()
    return None


_DIVISIONS = (Divide, Reciprocal)
_PARTS = (Multiply, Square, Negative, *_DIVISIONS)
_SUM_OF_QUOTIENTS = Within((Add, Subtract), _PARTS, over=Within(_DIVISIONS, _PARTS))


def _parts_of(root: Tensor) -> list[Tensor]:
    """The factors of a product at every level, itself first; of a large one some."""
    parts = [root]
    for node in parts:
        if type(node.op) in _PARTS and len(parts) < 4 * FACTORS:
            parts += node.inputs
    return parts


def _sums_quotients(root: Tensor) -> bool:
    """Whether a product may have a sum of which a term is divided by a factor."""
    parts = _parts_of(root)
    sums = [v for x in parts if type(x.op) in (Add, Subtract) for v in x.inputs]
    factors = {x.serial for x in parts} if sums else set()
    return any(_divides(v, factors) for v in sums)


def _divides(v: Tensor, by: Collection[int] | None = None) -> bool:
    """Whether a product may have divisors; `by` one of these, told by their serials."""
    parts = _parts_of(v)
    if not any(type(x.op) in _DIVISIONS for x in parts):
        return False
    return by is None or any(x.serial in by for x in parts)


def _met_by(parts: list[FactoredProduct], factors: list[Tensor]) -> list[Tensor] | None:
    """The factors that cancel the divisors that are never 0; None where one is left."""
    cancelled: list[Tensor] = []
    for part in parts:
        rest = list(factors)
        for d in part.divisors:
            if not is_positive(d):
                continue
            if not any(f is d for f in rest):
                return None
            _remove(rest, d)
            if sum(f is d for f in cancelled) < sum(v is d for v in part.divisors):
                cancelled.append(d)
    return cancelled


def _times(part: FactoredProduct, met: list[Tensor]) -> Any:
    """A part of a sum times factors that cancel in it."""
    for s in met:
        if any(d is s for d in part.divisors):
            _remove(part.divisors, s)
        else:
            part.factors.append(s)
    return part.build()


def overflows(d: Tensor) -> bool:
    """Whether a divisor is a sum with exponentials."""
    d = d.inputs[0] if type(d.op) is Reshape else d
    sums = type(d.op) is Sum or type(d.op) is Add
    return sums and any(type(v.op) is Exp for v in d.inputs) and is_positive(d)


def _inward(m: Match) -> Any:
    """A reshape of one by a sum of exponentials, as one by the sum reshaped."""
    if m.root.type.axes is not None or not overflows(m.x):
        return None
    op: Any = m.root.op
    return m.root.inputs[0].op(op(m.x))


def _both_inward(m: Match) -> Any:
    """A reshape of a quotient by such a sum, where both have all elements."""
    op: Any = m.root.op
    same = equal_shapes(m.x.type.shape, m.y.type.shape) and m.root.type.axes is None
    return op(m.x) / op(m.y) if same and overflows(m.y) else None


def _common(m: Match) -> Any:
    """Quotients by one sum of exponentials, added as one quotient."""
    a, b = m.root.inputs
    for d in FactoredProduct(a).divisors if _divides(a) else ():
        if overflows(d):
            p, q = _part(a, d), _part(b, d)
            if p is not None and q is not None:
                return (p + q if type(m.root.op) is Add else p - q) / d
    return None


# -- the table -----------------------------------------------------------------------


def _entropy_slope(d: Any) -> Any:
    s = d.td.softmax(d("x", (3, 4)))
    return (d("t", (3, 4)) / s - d("c", (3, 1))) * s


def _explicit_slope(d: Any) -> Any:
    e = d.td.exp(d("x", (3, 4)))
    return d("t", (3, 4)) / e.sum(1, keepdims=True) * e


def _two_shares(d: Any, sign: float = -1.0) -> Any:
    total = d.td.exp(d("x", (3, 4))).sum(1, keepdims=True)
    a, b = d("t", (3, 4)) / total, d("c", (3, 1)) / total
    return a + b if sign > 0 else a - b


PRODUCTS = RuleSet(
    "products",
    [
        stable(
            "cancel in a product",
            Products(Multiply, Divide, Reciprocal, Exp),
            _cancelled,
            _explicit_slope,
        ),
        stable(
            "cancel in a quotient",
            Products(Divide, Multiply, Exp, Add, Sum),
            _cancelled,
            lambda d: d("t") * d.td.sigmoid(d("x")) / d.td.sigmoid(d("x")),
        ),
        stable(
            "multiply out a quotient",
            Products(Multiply, Add, Subtract),
            _distributed,
            _entropy_slope,
            within=_SUM_OF_QUOTIENTS,
        ),
        stable(
            "reshape of one by exponentials",
            reshape(of("Reciprocal")(x)),
            _inward,
            lambda d: d.td.reciprocal(d.td.exp(d("x", (3, 4))).sum(1)).reshape(3, 1),
        ),
        stable(
            "reshape of a quotient by exponentials",
            reshape(x / y),
            _both_inward,
            lambda d: (d("t", (3,)) / d.td.exp(d("x", (3, 4))).sum(1)).reshape(3, 1),
        ),
        stable(
            "common divisor of a sum",
            Quotients(Add),
            _common,
            lambda d: _two_shares(d, 1.0),
        ),
        stable("common divisor", Quotients(Subtract), _common, _two_shares),
    ],
)
