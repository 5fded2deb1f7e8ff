"""Sums of products by letters, and the products that are cases of them."""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import (
    ArgumentError,
    ArityError,
    AxisError,
    ShapeError,
    TreadleError,
)
from treadle.base.symbolic import array_of
from treadle.base.types import Type, normalize_axis, resolve_axis
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.origin import capture, describe
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import located
from treadle.ops.cast import factors
from treadle.ops.contract import Contract
from treadle.ops.elementwise import conj, multiply
from treadle.ops.families import Composite, some
from treadle.ops.movement import permute_dims, reshape
from treadle.ops.reduce import Sum
from treadle.ops.slice import Slice

__all__ = [
    "diagonal",
    "dot",
    "einsum",
    "inner",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
]


class _Term:
    """An operand of an einsum and its letters."""

    __slots__ = ("letters", "x")

    def __init__(self, letters: str, x: Tensor) -> None:
        self.letters = letters
        self.x = x


def _parsed(text: str, nodes: Sequence[Tensor]) -> tuple[list[str], str]:
    """Letters of each operand and of the result."""
    spec = text.replace(" ", "")
    left, arrow, out = spec.partition("->")
    parts = left.split(",")
    if len(parts) != len(nodes):
        raise ArityError(f"{text!r} is for {len(parts)} operands, got {len(nodes)}")
    plain = spec.replace("...", "").replace("->", "").replace(",", "")
    if not all(c in string.ascii_letters for c in plain):
        raise ArgumentError(f"{text!r} holds more than letters, commas, '...' and '->'")
    free = [c for c in string.ascii_letters if c not in plain]
    most = 0
    for part, x in zip(parts, nodes, strict=True):
        count = x.type.ndim - len(part.replace("...", ""))
        if count < 0 or (count and "..." not in part):
            raise ShapeError(f"{part!r} does not name the dimensions of {x.type}")
        most = max(most, count)
    dots = "".join(free[:most])
    wide = []
    for part, x in zip(parts, nodes, strict=True):
        count = x.type.ndim - len(part.replace("...", ""))
        wide.append(part.replace("...", dots[most - count :]))
    if not arrow:
        every = "".join(part.replace("...", "") for part in parts)
        out = dots + "".join(c for c in sorted(set(every)) if every.count(c) == 1)
    out = out.replace("...", dots)
    if len(set(out)) < len(out) or not set(out) <= set("".join(wide)):
        raise ArgumentError(f"the result of {text!r} repeats or invents a letter")
    return wide, out


def _diagonal(term: _Term) -> _Term:
    """A term whose letters stand once each: a repeated one walks the diagonal."""
    letters, x = term.letters, term.x
    for c in sorted({c for c in letters if letters.count(c) > 1}):
        while letters.count(c) > 1:
            i = letters.index(c)
            j = letters.index(c, i + 1)
            rest = [k for k in range(len(letters)) if k not in (i, j)]
            x = diagonal(permute_dims(x, (*rest, i, j)))
            letters = "".join(letters[k] for k in rest) + c
    return _Term(letters, x)


def _extents(terms: Sequence[_Term]) -> dict[str, int]:
    """The extent of each letter; those of 1 broadcast."""
    known: dict[str, int] = {}
    for term in terms:
        for c, n in zip(term.letters, term.x.type.shape, strict=True):
            before = known.setdefault(c, n)
            if n in (before, 1):
                continue
            if before != 1:
                raise ShapeError(f"letter {c!r} is {before} and {n}")
            known[c] = n
    return known


def _prepared(term: _Term, size: dict[str, int], needed: str) -> _Term:
    """A term without dimensions that broadcast, and summed where nothing needs it."""
    kept = [
        k
        for k, (c, n) in enumerate(zip(term.letters, term.x.type.shape, strict=True))
        if size[c] == n
    ]
    if len(kept) < len(term.letters):
        shape = tuple(term.x.type.shape[k] for k in kept)
        letters = "".join(term.letters[k] for k in kept)
        term = _Term(letters, reshape(term.x, shape))
    loose = tuple(k for k, c in enumerate(term.letters) if c not in needed)
    if not loose:
        return term
    return _Term("".join(c for c in term.letters if c in needed), Sum(loose)(term.x))


def _cheapest(terms: Sequence[_Term], size: dict[str, int], out: str) -> Any:
    """The pair whose product has the fewest elements, then the fewest steps."""
    best: Any = None
    for j in range(1, len(terms)):
        for i in range(j):
            a, b = terms[i].letters, terms[j].letters
            others = [t.letters for k, t in enumerate(terms) if k not in (i, j)]
            needed = out + "".join(others)
            union = "".join(dict.fromkeys(a + b))
            kept = "".join(c for c in union if c in needed)
            elements = math.prod([size[c] for c in kept])
            steps = math.prod([size[c] for c in union])
            if best is None or (elements, steps) < best[0]:
                best = (elements, steps), i, j, kept
    return best[1:]


def _contracted(spec: str, nodes: Sequence[Tensor]) -> Tensor:
    parts, out = _parsed(spec, nodes)
    pairs = zip(parts, nodes, strict=True)
    terms = [_diagonal(_Term(letters, x)) for letters, x in pairs]
    size = _extents(terms)
    ready = []
    for k, term in enumerate(terms):
        others = "".join(t.letters for j, t in enumerate(terms) if j != k)
        ready.append(_prepared(term, size, out + others))
    terms = ready
    while len(terms) > 1:
        i, j, kept = _cheapest(terms, size, out)
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        if not rest:
            kept = "".join(c for c in out if c in kept)
        a, b = (
            _prepared(terms[k], size, kept + terms[i + j - k].letters) for k in (i, j)
        )
        product = Contract(f"{a.letters},{b.letters}->{kept}")(a.x, b.x)
        terms = [*rest, _Term(kept, product)]
    last = _prepared(terms[0], size, out)
    return permute_dims(last.x, [last.letters.index(c) for c in out])


@provide
@recorded
def einsum(subscripts: str, *values: Any) -> Tensor:
    """The sum of products over the letters that are not in the result.

    A letter that an operand repeats walks its diagonal; extents of 1 broadcast, as do
    the dimensions that '...' stands for; without '->' the result has the letters that
    occur once, sorted. Pairs of operands are multiplied in a cheap order.

    >>> td.einsum("ij,jk,k->i", [[1.0, 2.0]], [[1.0], [1.0]], [3.0]).tolist()
    [9.0]
    """
    if not values:
        raise ArityError("einsum takes at least one operand")
    nodes = factors(*values)
    try:
        return _contracted(subscripts, nodes)
    except TreadleError as error:
        types = ", ".join(repr(x.type) for x in nodes)
        raise error.located("einsum", types, describe(capture())) from None


@provide
@recorded
def tensordot(x: Any, y: Any, axes: Any = 2) -> Tensor:
    """The sum of products over the last `axes` of x with the first of y, or over pairs.

    >>> float(td.tensordot([[1.0, 2.0]], [[3.0, 4.0]]))
    11.0
    """
    a, b = factors(x, y)
    if hasattr(axes, "__index__"):
        n = int(axes)
        left: Any = range(a.type.ndim - n, a.type.ndim)
        right: Any = range(n)
    else:
        left, right = ([k] if isinstance(k, (int, str)) else list(k) for k in axes)
    try:
        pairs = [
            (resolve_axis(i, a.type), resolve_axis(j, b.type))
            for i, j in zip(left, right, strict=True)
        ]
    except TreadleError as error:
        raise located(error, Contract("j,j->"), [a, b]) from None
    return _over(a, b, pairs)


def _over(a: Tensor, b: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Products summed over pairs of dimensions; the others of a, then of b, remain."""
    pool = string.ascii_letters
    if a.type.ndim + b.type.ndim > len(pool):
        raise ArityError(f"a product takes at most {len(pool)} dimensions")
    first = pool[: a.type.ndim]
    second = list(pool[a.type.ndim :][: b.type.ndim])
    for i, j in pairs:
        second[j] = first[i]
    out = "".join(c for c in first if c not in second)
    out += "".join(c for c in second if c not in first)
    return Contract(f"{first},{''.join(second)}->{out}")(a, b)


@provide
@recorded
def dot(x: Any, y: Any) -> Tensor:
    """The sum of products over all axes that x and y share by name.

    Without names over the last dimension of x and the last but one of y, as NumPy.

    >>> float(td.dot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    a, b = factors(x, y)
    if not a.type.shape or not b.type.shape:
        return multiply(a, b)
    try:
        if a.type.axes is None and b.type.axes is None:
            return _over(a, b, [(a.type.ndim - 1, max(b.type.ndim - 2, 0))])
        if a.type.axes is None or b.type.axes is None:
            raise AxisError(
                "one operand has axis names, the other has none",
                hint="name it with td.name_axes(x, ...), or drop them with td.unname",
            )
        names = b.type.axes
        pairs = [(i, names.index(c)) for i, c in enumerate(a.type.axes) if c in names]
        return _over(a, b, [(i, j) for i, j in pairs if names[j] is not None])
    except TreadleError as error:
        raise located(error, Contract("j,j->"), [a, b]) from None


@provide
@recorded
def outer(x: Any, y: Any) -> Tensor:
    """x[i] y[j] of vectors; other shapes are flattened.

    >>> td.outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    a, b = (x if x.type.ndim == 1 else reshape(x, (-1,)) for x in factors(x, y))
    return _over(a, b, [])


@provide
@recorded
def inner(x: Any, y: Any) -> Tensor:
    """The sum of products over the last dimensions; the others of x, then of y, remain.

    >>> td.inner([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]).tolist()
    [[11.0, 17.0]]
    """
    a, b = factors(x, y)
    if not a.type.shape or not b.type.shape:
        return multiply(a, b)
    return _over(a, b, [(a.type.ndim - 1, b.type.ndim - 1)])


@provide
@recorded
def vecdot(x: Any, y: Any, axis: int = -1) -> Tensor:
    """The sum of conj(x) y along `axis`; the other dimensions broadcast.

    >>> td.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """
    a, b = factors(x, y)
    nodes, extents = [], set[int]()
    for node in (conj(a), b):
        k = normalize_axis(axis, node.type.ndim)
        extents.add(node.type.shape[k])
        order = [d for d in range(node.type.ndim) if d != k]
        nodes.append(permute_dims(node, (*order, k)))
    if len(extents) > 1:
        raise ShapeError(
            f"vectors of {' and '.join(map(str, extents))} elements have no product"
        ).located("vecdot", f"{a.type}, {b.type}")
    return einsum("...i,...i->...", *nodes)


@op(linear=True, tolerance="E")
class Diagonal(Composite):
    """The elements x[..., i, i + offset]."""

    offset: int = 0
    arity = 1

    def infer(self, t: Type) -> Type:
        if t.ndim < 2:
            raise ShapeError(f"{t} has no diagonal")
        *lead, m, n = t.shape
        names = t.axes and some((*t.axes[:-2], None))
        return Type((*lead, self._count(m, n)), t.dtype, names)

    def numpy(self, *arrays: Any) -> Array:
        return np.array(np.diagonal(arrays[0], self.offset, -2, -1))

    def expand(self, x: Tensor) -> Tensor:
        *lead, m, n = x.type.shape
        count = self._count(m, n)
        start = self.offset if self.offset >= 0 else -self.offset * n
        last = start + (count - 1) * (n + 1) + 1
        cut = (start, last, n + 1) if count else (0, 0, 1)
        whole = [(0, k, 1) for k in lead]
        starts, stops, steps = zip(*whole, cut, strict=True)
        elements = Slice(starts, stops, steps)(reshape(x, (*lead, m * n)))
        return reshape(elements, elements.type.shape, axes=self.infer(x.type).axes)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        *lead, m, n = x.type.shape
        # Along rows or columns, whichever begin at the first: nothing is divided.
        more = (m if self.offset >= 0 else n) - self._count(m, n)
        wide = functions.pad(functions.unname(g), [(0, 0)] * len(lead) + [(0, more)])
        shape = (*lead, m, 1) if self.offset >= 0 else (*lead, 1, n)
        mask = constant_node(array_of(_where_diagonal, (m, n), m, n, self.offset))
        masked = functions.where(mask, reshape(wide, shape), 0)
        return (reshape(masked, x.type.shape, axes=x.type.axes),)

    def _count(self, m: int, n: int) -> int:
        return max(min(m + min(self.offset, 0), n - max(self.offset, 0)), 0)


def _where_diagonal(m: int, n: int, offset: int) -> Any:
    """The mask of the diagonal of a matrix."""
    return np.eye(m, n, offset, dtype=bool)


@provide
def diagonal(x: Any, offset: int = 0) -> Tensor:
    """The elements x[..., i, i + offset].

    >>> td.diagonal([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [1.0, 4.0]
    """
    return Diagonal(operator.index(offset))(as_tensor(x))


@provide
def trace(x: Any, offset: int = 0, *, dtype: Any = None) -> Tensor:
    """The sum of the elements x[..., i, i + offset]; `dtype` as in `sum`.

    >>> float(td.trace([[1.0, 2.0], [3.0, 4.0]]))
    5.0
    """
    return functions.sum(diagonal(x, offset), -1, dtype=dtype)
