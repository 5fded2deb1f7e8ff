"""Random graphs full of what rules look for, rewritten and checked exactly."""

from __future__ import annotations

from collections import Counter
from decimal import localcontext
from fractions import Fraction
from typing import Any

import numpy as np

import treadle as td
from tests.rewrite.draws import Draws, instance
from tests.rewrite.exact import DIGITS, Exact, Inexact, evaluate
from treadle.base.types import TupleType, broadcast_shapes
from treadle.graph.body import Body
from treadle.graph.leaves import LITERAL
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.verify import problems
from treadle.rewrite.driver import Driver
from treadle.rewrite.rule import Rule, RuleSet
from treadle.rewrite.simplify import COMPILED

__all__ = ["Campaign", "grown"]

CLOSE = 1e-40  # of a value of 60 digits; values of fractions are equal
ROUNDED = 1e-11  # where constants were folded in float64
MOST = 400  # elements of a value
JOINS: list[Any] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / (td.square(y) + 1),
    td.maximum,
    lambda x, y: td.where(x > y + 0.0390625, x, y * 2),  # equal ones round apart
]
ALONE: list[Any] = [
    lambda x: -x,
    lambda x: x * 2,
    lambda x: x + 1,
    td.exp,
    td.sigmoid,
    td.relu,
    td.abs,
    lambda x: td.log(td.square(x) + 1),
    lambda x: x.sum() if x.ndim < 2 else x.sum(0),
    lambda x: x.T,
    lambda x: x.reshape(-1),
    lambda x: td.broadcast_to(x, (2, *x.shape)),
    lambda x: x[1:] if x.ndim and x.shape[0] > 2 else x,
    lambda x: td.softmax(x) if x.ndim else x,
]


class Operands(Draws):
    """Operands that are sometimes earlier expressions of the same shape."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, "float64", ())
        self.pool: list[Tensor] = []

    def __call__(
        self, name: str | None = None, shape: Any = None, low: float = -2.0
    ) -> Tensor:
        extents = self.shape if shape is None else shape
        fits = [x for x in self.pool if x.shape == extents]
        if low < 0 and fits and name not in self.known and self.rng.integers(3):
            made = fits[int(self.rng.integers(len(fits)))]
            if name is not None:
                self.known[name] = made
            return made
        return super().__call__(name, shape, low)


def grown(seed: int, rules: RuleSet = COMPILED, size: int = 12) -> tuple[Any, Any]:
    """A random graph of left sides and ops between them: its draws and roots."""
    d = Operands(seed)
    table = list(rules)
    shapes = [(), (3,), (2, 3), (4, 3), (1, 3)]
    for _ in range(size):
        d.known = {}
        d.shape = shapes[int(d.rng.integers(len(shapes)))]
        choice = int(d.rng.integers(4))
        try:
            if choice < 2 or not d.pool:
                made = instance(table[int(d.rng.integers(len(table)))], d)
            elif choice == 2:
                x = _chosen(d)
                made = ALONE[int(d.rng.integers(len(ALONE)))](x)
            else:
                made = _joined(d)
        except td.TreadleError:
            continue  # shapes that do not meet
        if made is not None and made.size <= MOST:
            d.pool.append(td.astype(made, d.type))
    read = {x.serial for y in d.pool for x in reach([y])[:-1]}
    return d, [y for y in d.pool if y.serial not in read]


def _chosen(d: Operands) -> Tensor:
    return d.pool[int(d.rng.integers(len(d.pool)))]


def _joined(d: Operands) -> Tensor | None:
    x, y = _chosen(d), _chosen(d)
    broadcast_shapes(x.shape, y.shape)
    made: Tensor = JOINS[int(d.rng.integers(len(JOINS)))](x, y)
    return made


class Campaign:
    """Counts of what was rewritten and how it was checked."""

    def __init__(self, rules: RuleSet = COMPILED) -> None:
        self.rules = rules
        self.applied: Counter[str] = Counter()
        self.graphs = self.exact = self.floats = self.unchecked = 0
        self.stuck: Counter[str] = Counter()
        self.loose = False

    def one(self, seed: int) -> str:
        """Rewrite a random graph; what is wrong, or nothing."""
        d, roots = grown(seed, self.rules)
        if not roots:
            return ""

        def note(rule: Rule, before: Tensor, after: Tensor) -> None:
            self.applied[rule.name] += 1
            self.loose = self.loose or rule.stable  # the left side may be the worse

        self.graphs += 1
        self.loose = False
        made = list(Driver(self.rules, note).all(dict(enumerate(roots))).values())
        for y, z in zip(roots, made, strict=True):
            if z.type != y.type:
                return f"{y.type} became {z.type}"
        broken = list(problems(reach(made)))
        if broken:
            return f"{broken[0][0].name}: {broken[0][1]}"
        again: Counter[str] = Counter()
        Driver(self.rules, lambda r, a, b: again.update([r.name])).all(
            dict(enumerate(made))
        )
        if again:
            return f"not in normal form: {again}"
        return self._compared(d, roots, made)

    def _compared(self, d: Draws, roots: list[Tensor], made: list[Tensor]) -> str:
        try:
            before = evaluate(roots, d.values)
        except Inexact as error:
            self.stuck[str(error).split(":")[0].split("(")[0]] += 1
            return self._in_floats(d, roots, made)
        try:
            after = evaluate(made, d.values)
        except Inexact as error:
            if "argument" in str(error) or "object" in str(error):
                return self._in_floats(d, roots, made)
            return f"what was fine became {error}"
        self.exact += 1
        close = ROUNDED if _has_rounded(made) else CLOSE
        wrong = _first(before, after, close)
        if wrong and (
            _first(before, evaluate(roots, d.values, 4 * DIGITS), close)
            or not self._is_calm(d, roots)
        ):
            self.exact -= 1
            self.unchecked += 1  # digits are lost that a float never had, or a tie
            return ""
        return wrong

    def _is_calm(self, d: Draws, roots: list[Tensor]) -> bool:
        nodes = [n for n in reach(roots) if not isinstance(n.type, TupleType)]
        with np.errstate(all="ignore"):
            known = Body("nodes", d.arguments, nodes).numpy(d.values)
            before = Body("before", d.arguments, roots).numpy(d.values)
            return _is_calm(nodes, known, roots, before, d)

    def _in_floats(self, d: Draws, roots: list[Tensor], made: list[Tensor]) -> str:
        """In float64, where the left side tells what it should be."""
        if not self._is_calm(d, roots):
            self.unchecked += 1
            return ""
        self.floats += 1
        with np.errstate(all="ignore"):
            before = Body("before", d.arguments, roots).numpy(d.values)
            after = Body("after", d.arguments, made).numpy(d.values)
        for a, b in zip(before, after, strict=True):
            if not np.allclose(a, b, rtol=1e-2 if self.loose else 1e-6, atol=1e-6):
                return f"{a} became {b}"
        return ""


COMPARISONS = ("Less", "Greater", "LessEqual", "GreaterEqual", "Equal", "NotEqual")


def _is_calm(
    nodes: list[Tensor], known: Any, roots: list[Tensor], before: Any, d: Draws
) -> bool:
    """Whether all is finite, nothing nearly ties, and little changes by a little."""
    value = {n.serial: v for n, v in zip(nodes, known, strict=True)}
    for n, v in zip(nodes, known, strict=True):
        if not np.isfinite(v).all() or np.abs(v).max(initial=0) > 1e9:
            return False
        if n.op.name in COMPARISONS and n.inputs[0].dtype.kind == "f":
            a, b = (value[x.serial] for x in n.inputs)
            if np.abs(a - b).min(initial=1) < 1e-9:
                return False
    for step in (1e-9, -1e-9):
        rng = np.random.default_rng(1)
        moved = [
            v + step * rng.uniform(-1, 1, v.shape) if v.dtype.kind == "f" else v
            for v in d.values
        ]
        beside = Body("beside", d.arguments, roots).numpy(moved)
        for a, b in zip(before, beside, strict=True):
            if not np.allclose(a, b, rtol=1e-6, atol=1e-6):
                return False
    return True


def _first(before: list[Any], after: list[Any], close: float) -> str:
    """The first pair of elements that differ, if any do."""
    for a, b in zip(before, after, strict=True):
        for p, q in zip(a.ravel(), b.ravel(), strict=True):
            if _differ(p, q, close):
                return f"{float(p)} became {float(q)}"
    return ""


def _has_rounded(roots: list[Tensor]) -> bool:
    """Whether a folded constant was rounded: no multiple of 2**-20 is."""
    for x in reach(roots):
        if x.op is LITERAL and x.type.dtype.kind == "f":
            assert x.stored is not None
            if np.any(np.mod(x.stored * 2.0**20, 1) != 0):
                return True
    return False


def _differ(p: Any, q: Any, close: float) -> bool:
    if not isinstance(p, Exact) and not isinstance(q, Exact):
        return bool(p != q)
    a, b = Exact.of(p), Exact.of(q)
    rational = isinstance(a.value, Fraction) and isinstance(b.value, Fraction)
    if rational and close == CLOSE:
        return bool(a.value != b.value)
    with localcontext() as context:
        context.prec = DIGITS
        context.Emax, context.Emin = 10**15, -(10**15)
        return abs(float(a - b)) > close * max(abs(float(a)), 1.0)
