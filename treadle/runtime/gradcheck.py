"""Derivatives held against differences, for functions of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.autodiff.gradient import derivatives
from treadle.base import trees
from treadle.base.dtypes import is_inexact, kind
from treadle.base.errors import ArgumentError, GradientError
from treadle.base.options import options
from treadle.base.types import TupleType
from treadle.graph.frame import explicit_updates
from treadle.graph.leaves import as_tensor, constant_node, to_array
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.graph.variable import Variable
from treadle.runtime.evaluate import evaluate

__all__ = ["GradientCheck", "check_gradient"]

# By the least precise type on the way: how far apart the differences are taken, and
# what may be wrong of them: relative, and absolute beside the greatest derivative.
SHARP = 2.0**-8, 1e-6, 1e-8
ROUGH = 2.0**-5, 1e-2, 1e-3
DIRECTION = "along a random direction"


@dataclass(frozen=True)
class GradientCheck:
    """A gradient check: the number of derivatives, the worst error and its bound.

    It is true if all are within it. `where` tells of the worst one.
    """

    compared: int
    worst: float
    where: str

    def __bool__(self) -> bool:
        return self.worst <= 1.0


class _Function:
    """A number as a function of arrays: a graph whose leaves are exchanged."""

    def __init__(self, y: Tensor, leaves: Sequence[Tensor]) -> None:
        self.y, self.leaves = y, leaves
        types = [n.type for n in reach([y]) if n.inputs and not _several(n)]
        sizes = [t.dtype.itemsize for t in types if is_inexact(t.dtype)]
        self.double = min(sizes, default=8) == 8  # all that is computed on the way

    def __call__(self, arrays: Sequence[np.ndarray[Any, Any]]) -> float:
        pairs = zip(self.leaves, arrays, strict=True)
        fresh = {leaf.serial: constant_node(x) for leaf, x in pairs}
        (y,) = rebuild([self.y], fresh)
        return float(evaluate(y))

    def slope(self, at: Sequence[np.ndarray[Any, Any]], k: int, along: Any) -> float:
        """The derivative as leaf k moves: central differences, Richardson-refined."""
        x, step = at[k], SHARP[0] if self._sharp(at[k]) else ROUGH[0]
        step *= max(1.0, float(np.abs(x).max(initial=0.0)))

        def central(h: float) -> float:
            ends = [(x + sign * h * along).astype(x.dtype) for sign in (1.0, -1.0)]
            # How far they are apart once they are rounded, along the direction.
            apart = (ends[0].astype(np.float64) - ends[1]).reshape(-1)
            flat = np.asarray(along, np.float64).reshape(-1)
            length = float(apart @ flat) / float(flat @ flat)
            values = [self([*at[:k], end, *at[k + 1 :]]) for end in ends]
            return (values[0] - values[1]) / length

        return (4.0 * central(step / 2) - central(step)) / 3.0

    def _sharp(self, x: np.ndarray[Any, Any]) -> bool:
        return x.dtype.itemsize == 8 and self.double

    def allowed(self, x: np.ndarray[Any, Any]) -> tuple[float, float]:
        """The relative and absolute error allowed of a derivative by x."""
        return SHARP[1:] if self._sharp(x) else ROUGH[1:]


def check_gradient(
    f: Callable[..., Any],
    inputs: Any = (),
    variables: Sequence[Variable] = (),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    order: int = 1,
    most: int = 64,
    seed: int = 0,
    strict: bool = True,
) -> GradientCheck:
    """Hold the derivatives of `f(*inputs)`, or of `f` of one array or tensor, against
    differences of its values.

    Derivatives are by all inputs of floats, which are taken in float64, and by the
    `variables`, which stay of their type: in double precision they are known to 1e-6,
    in single to 1e-2 only. Up to `most` elements of each are compared one by one, all
    together along a random direction. A result that is no number is weighed by random
    numbers. `order=2` checks the derivatives of the gradient. Draws are the same each
    time, and what `f` assigns is not carried out. Raises GradientError for the worst
    derivative that is off, or with `strict=False` returns what was seen. At a kink
    (relu at 0) the two differ by right.

    >>> import numpy as np
    >>> w = td.param("w", init=np.ones((3, 2)), dtype="float64")
    >>> bool(td.check_gradient(lambda x: td.tanh(x @ w), [np.eye(3)], [w]))
    True
    """
    if order not in (1, 2):
        raise ArgumentError(f"order is 1 or 2, not {order!r}")
    draws = np.random.default_rng(seed)
    with options(dtype="float64"), explicit_updates():
        alone = isinstance(inputs, (Operand, np.ndarray))
        values, structure = trees.flatten((inputs,) if alone else tuple(inputs))
        arguments = [_argument(x) for x in values]
        result = as_tensor(f(*trees.unflatten(structure, arguments)))
        if not is_inexact(result.type.dtype):
            raise GradientError(f"f returns {result.type!r}, which has no derivative")
        leaves = [x for x in arguments if is_inexact(x.type.dtype)]
        names = [f"input {k}" for k, x in enumerate(arguments) if x in _Same(leaves)]
        leaves += [v.committed for v in variables]
        names += [f"variable {v.name!r}" for v in variables]
        if not leaves:
            raise ArgumentError("there is nothing to derive by")
        y = _weighed([result], draws)
        if order == 2:
            y = _weighed(derivatives([y], [_one(y)], leaves, "zero"), draws)
        gradients = derivatives([y], [_one(y)], leaves, "zero")
        at = [np.array(x.array) for x in leaves]
        slopes = [np.asarray(g, np.float64) for g in evaluate(gradients)]
        checked = _compared(
            _Function(y, leaves), at, slopes, names, (rtol, atol), most, draws
        )
    if strict and not checked:
        raise GradientError(
            f"{checked.where}; {checked.worst:.3g} times what is allowed",
            hint="at a kink both may be right; else look at the vjp of its ops",
        ).located("check_gradient", ", ".join(repr(x.type) for x in leaves))
    return checked


def _several(node: Tensor) -> bool:
    return isinstance(node.type, TupleType)


class _Same:
    """A set of nodes by identity, for == is element by element."""

    def __init__(self, nodes: Sequence[Tensor]) -> None:
        self.ids = {id(node) for node in nodes}

    def __contains__(self, node: Tensor) -> bool:
        return id(node) in self.ids


def _argument(x: Any) -> Tensor:
    """A leaf with the value of an input, in double precision if it is of floats."""
    array = x.numpy() if isinstance(x, Operand) else to_array(x)
    if kind(array.dtype) == "complex":
        raise ArgumentError("inputs are real: split a complex one in its parts")
    floats = is_inexact(array.dtype)
    return constant_node(np.array(array, np.float64 if floats else array.dtype))


def _one(y: Tensor) -> Tensor:
    return constant_node(np.ones((), y.type.dtype))


def _weighed(ys: Sequence[Tensor], draws: np.random.Generator) -> Tensor:
    """All elements, each times a random number, added up; a number stays as it is."""
    total: Tensor | None = None
    for y in ys:
        if y.type.size == 1 and len(ys) == 1:
            return y.sum() if y.type.shape else y
        weights = draws.uniform(0.5, 1.5, y.type.shape).astype(y.type.dtype)
        part = (y * constant_node(weights)).sum()
        total = part if total is None else total + part
    assert total is not None
    return total


def _compared(
    f: _Function,
    at: Sequence[np.ndarray[Any, Any]],
    slopes: Sequence[np.ndarray[Any, Any]],
    names: Sequence[str],
    tolerances: tuple[float | None, float | None],
    most: int,
    draws: np.random.Generator,
) -> GradientCheck:
    compared, worst, where = 0, 0.0, ""
    for k, (x, slope, name) in enumerate(zip(at, slopes, names, strict=True)):
        known = f.allowed(x)
        rtol, atol = (
            b if a is None else a for a, b in zip(tolerances, known, strict=True)
        )
        if tolerances[1] is None:
            atol *= max(1.0, float(np.abs(slope).max(initial=0.0)))
        for place, along in _directions(x, most, draws):
            wanted = float((slope * along).sum())
            seen = f.slope(at, k, along)
            off = abs(seen - wanted) / (atol + rtol * max(abs(wanted), abs(seen)))
            compared += 1
            if not off <= worst:  # NaN is worse than anything
                worst = off if np.isfinite(off) else np.inf
                where = f"the derivative by {name} {place} is {wanted:.9g}, by "
                where += f"differences it is {seen:.9g}"
    return GradientCheck(compared, worst, where)


def _directions(
    x: np.ndarray[Any, Any], most: int, draws: np.random.Generator
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Elements of x, and a direction across all of them."""
    if not x.size:
        return []
    if x.size <= most:
        places = np.arange(x.size)
    else:
        places = np.sort(draws.choice(x.size, most, replace=False))
    directions = []
    for place in places.tolist():
        along = np.zeros(x.size)
        along[place] = 1.0
        index = ", ".join(str(int(n)) for n in np.unravel_index(place, x.shape))
        directions.append((f"at [{index}]" if x.ndim else "", along.reshape(x.shape)))
    if x.size > 1:
        along = draws.standard_normal(x.shape)
        directions.append((DIRECTION, along / np.sqrt((along * along).sum())))
    return directions
