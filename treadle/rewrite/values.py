"""The values of graphs by the reference meaning, and whether others agree with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body, CalledBody, with_bodies
from treadle.graph.meaning import compute_at, is_empty
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.graph.tolerance import strays, unit, widened
from treadle.graph.traversal import reach
from treadle.ops.cast import Cast

LeafValues = Mapping[int, Any]
Watch = Callable[[Tensor, Sequence[Any], Any], None]
SUMS = (
    "reduction",
    "contraction",
    "window",
    "scan",
    "scatter",
)  # families that add terms up
MOVES = ("movement", "gather", "join", "order", "output")  # families that round nothing
WHOLE = 2048
TRIALS = 3  # runs with noise, where a result seems to be off


@dataclass(frozen=True)
class Meaning:
    """Graphs by the NumPy rules of their ops: in double if `wide`, then with `noise`.

    With noise each result is moved by roundings, as another order of the same sums or
    another spelling of the same formula may move it.
    """

    wide: bool = False
    noise: np.random.Generator | None = None

    def values(
        self, roots: Sequence[Tensor], leaves: LeafValues, watch: Watch | None = None
    ) -> dict[int, Any]:
        """The values of the roots; the leaves' that have none are `leaves`."""
        nodes = reach(roots, lambda node: node.serial in leaves or _stored(node))
        last = {x.serial: n.serial for n in nodes for x in n.inputs}
        kept = {root.serial for root in roots}
        values: dict[int, Any] = {}
        for node in nodes:
            arrays: list[Any] = []
            if node.serial in leaves or _stored(node):
                value = self.leaf(leaves.get(node.serial, node.array))
            else:
                arrays = [values[x.serial] for x in node.inputs]
                value = self.result(node, arrays)
            values[node.serial] = value
            if watch is not None:
                watch(node, arrays, value)
            for x in node.inputs if arrays else ():
                if last[x.serial] == node.serial and x.serial not in kept:
                    values.pop(x.serial, None)
        return values

    def leaf(self, x: Any) -> Any:
        """A value as this arithmetic has it."""
        return widened(x) if self.wide else x

    def result(self, node: Tensor, arrays: Sequence[Any]) -> Any:
        """The value of a node from its operands'."""
        if node.op.traits.effect:  # what it tells was told by the engine
            return arrays[0]
        if self.wide and isinstance(node.op, Cast) and _inexact(node.inputs[0], node):
            return arrays[0]
        op = with_bodies(node.op, self._called)
        if not self.wide or is_empty(op, node.type):
            return self.leaf(compute_at(op, node.type, arrays, node.origin))
        with np.errstate(all="ignore"):
            computed = op.numpy(*arrays)
        if isinstance(node.type, TupleType):
            pairs = zip(computed, node.type, strict=True)
            return tuple(self._rounded(x, t) for x, t in pairs)
        rounded = self._rounded(computed, node.type)
        if self.noise is None or op.family in MOVES or type(op) is Cast:
            return rounded
        return self._perturbed(rounded, _terms(op, arrays, rounded), node.type)

    def _rounded(self, x: Any, t: Type) -> Array:
        return widened(x) if is_inexact(t.dtype) else np.asarray(x, dtype=t.dtype)

    def _perturbed(self, x: Array, size: Array, t: Type) -> Array:
        """A result with noise: some roundings of what it is a sum of."""
        if self.noise is None or not is_inexact(t.dtype):
            return x
        with np.errstate(all="ignore"):
            other = x + 2 * unit(t.dtype) * self.noise.uniform(-1, 1, x.shape) * size
            # Small whole numbers come out exactly: masks, counts, exponents.
            exact = (x == np.rint(x)) & (np.abs(x) < WHOLE) & (size == np.abs(x))
        return np.where(exact, x, other)

    def _called(self, body: Body) -> Body:
        def run(arrays: Sequence[Any]) -> tuple[Any, ...]:
            pairs = zip(body.arguments, arrays, strict=True)
            values = self.values(body.outputs, {x.serial: a for x, a in pairs})
            return tuple(values[y.serial] for y in body.outputs)

        return CalledBody(body, run)


class ReferenceValues:
    """The reference values of a graph's roots, which others are compared with."""

    def __init__(self, roots: Mapping[Any, Tensor], leaves: LeafValues) -> None:
        self.roots, self.leaves = roots, leaves
        every = [*roots.values()]
        self.expected = Meaning().values(every, leaves)
        noise = _Noise()
        self.wide = Meaning(wide=True).values(every, leaves, noise)
        self.noise = noise.bounds
        self._perturbed: list[dict[int, Any]] = []

    def perturbed(self) -> list[dict[int, Any]]:
        """The roots in double precision with noise on the way, several times."""
        if not self._perturbed:
            for seed in range(TRIALS):
                arithmetic = Meaning(True, np.random.default_rng(seed))
                run = arithmetic.values([*self.roots.values()], self.leaves)
                self._perturbed.append(run)
        return self._perturbed

    def wrong(self, key: Any, got: Any) -> str:
        """The fault of another's value of a root; empty if it may be so."""
        serial = self.roots[key].serial
        expected, wide = self.expected[serial], self.wide[serial]
        if np.shape(got) != expected.shape:
            return f"its shape is {np.shape(got)}, not {expected.shape}"
        off = strays(got, expected, wide, self.noise[serial])
        if not off.any():
            return ""
        # Where roundings alone move a result it is as near as can be asked for.
        spread = _spread([run[serial] for run in self.perturbed()], wide)
        if is_inexact(expected.dtype):
            mean = spread[np.isfinite(spread)].mean() if expected.size else 0.0
            with np.errstate(all="ignore"):
                off &= ~(np.abs(widened(got) - wide) <= 4 * (spread + mean))
        else:
            off &= (spread == 0) & (expected == wide)
        if not off.any():
            return ""
        first = tuple(int(k) for k in np.argwhere(off)[0])
        there = f"[{', '.join(map(str, first))}]" if first else ""
        return (
            f"{int(off.sum())} of {off.size} elements differ; element{there} is "
            f"{np.asarray(got)[first]!r}, by the reference {expected[first]!r}"
        )


def _stored(node: Tensor) -> bool:
    return node.stored is not None


def _inexact(*nodes: Tensor) -> bool:
    return all(is_inexact(node.type.dtype) for node in nodes)


class _Noise:
    """The unit roundoff of the largest value that each node is made from.

    Of a sum that is the sum of what its terms are without their signs.
    """

    def __init__(self) -> None:
        self.bounds: dict[int, float] = {}

    def __call__(self, node: Tensor, arrays: Sequence[Any], value: Any) -> None:
        noise = max([self.bounds[x.serial] for x in node.inputs if arrays], default=0.0)
        if isinstance(node.type, Type) and is_inexact(node.type.dtype):
            size = _terms(node.op, arrays, value) if arrays else value
            noise = max(noise, unit(node.type.dtype) * _largest(size))
        self.bounds[node.serial] = noise


def _terms(op: Op, arrays: Sequence[Any], result: Array) -> Array:
    """The magnitude of a result; of a sum that of its terms without their signs.

    More for many terms: of n in blocks the rounding grows as the logarithm.
    """
    size = np.abs(result)
    if op.family not in SUMS:
        return size
    with np.errstate(all="ignore"):
        terms = np.abs(op.numpy(*[_magnitude(x) for x in arrays]))
    count = max(np.size(x) for x in arrays) / max(np.size(result), 1)
    return np.asarray(np.fmax(size, terms)) * (1 + np.log2(max(count, 1)) / 2)


def _magnitude(x: Any) -> Any:
    return np.abs(x) if is_inexact(np.asarray(x).dtype) else x


def _largest(x: Any) -> float:
    """The largest finite magnitude in an array."""
    sizes = np.abs(x)
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def _spread(runs: Sequence[Any], wide: Array) -> Array:
    """The largest distance of the values of several runs from one."""
    spread = np.zeros(wide.shape)
    with np.errstate(all="ignore"):
        for x in runs:
            other = np.abs(x - wide) if is_inexact(wide.dtype) else x != wide
            spread = np.fmax(spread, other)
    return spread
