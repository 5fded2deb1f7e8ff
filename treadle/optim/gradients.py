"""Gradients on their way to an update: dense or as rows, clipped, near a norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator, float64
from treadle.base.errors import ArgumentError
from treadle.core import native
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.lookup import RowsToDense, sparse_rows
from treadle.ops.naming import unname
from treadle.optim.groups import Work


@dataclass(frozen=True)
class Gradient:
    """A gradient in the dtype it is worked in; with `ids`, the rows of a sparse one.

    Each row then holds the sum over all occurrences of its id, so that rules that are
    not linear see the whole gradient of a row, of which there are `rows`. `frozen` is
    True where nothing is to change, and the gradient is 0 there.
    """

    value: Tensor
    ids: Tensor | None = None
    rows: int | None = None
    frozen: Tensor | None = None

    def square_sum(self) -> Tensor:
        """The sum of squares; a row that occurs n times counts once."""
        squares = self.value * self.value
        if self.ids is None:
            return squares.sum()
        ones = np.ones(self.ids.type.shape, squares.type.dtype)
        count = functions.combine_rows(self.ids, constant_node(ones), self.rows)
        shape = (-1,) + (1,) * (squares.type.ndim - 1)
        return (squares / functions.reshape(count, shape)).sum()


def plain(x: Tensor) -> Tensor:
    """x without axis names: rules work by position, a Variable keeps its own names."""
    return x if x.type.axes is None else unname(x)


def prepare(gradient: Tensor, rowwise: bool, frozen: Any = None) -> Gradient:
    """A gradient as rows where it is sparse and the rule can use them, else dense;
    `frozen` marks rows of the parameter that do not change.

    >>> table = td.param("table", init=[[1.0], [2.0]])
    >>> (g,) = td.grad(td.rows(table, [1, 1]).sum(), [table])
    >>> prepare(g, True).value.tolist()
    [[2.0], [2.0]]
    """
    gradient = plain(gradient)
    dtype = accumulator(gradient.type.dtype)
    rows = sparse_rows(gradient) if rowwise and gradient.type.ndim else None
    if rows is None:
        return _thawed(Gradient(gradient.astype(dtype)), frozen)
    (ids, values), (count, *_) = rows, gradient.type.shape
    total = functions.combine_rows(ids, values.astype(dtype), count)
    return _thawed(Gradient(total, ids, count), frozen)


def _thawed(gradient: Gradient, frozen: Any) -> Gradient:
    """A gradient that is 0 in the rows that are frozen."""
    if frozen is None:
        return gradient
    value, ids = gradient.value, gradient.ids
    mask = frozen if ids is None else functions.embedding(frozen, ids)
    wide = functions.reshape(mask, (-1,) + (1,) * (value.type.ndim - 1))
    return replace(gradient, value=functions.where(wide, 0.0, value), frozen=wide)


def global_norm(gradients: Sequence[Gradient]) -> Tensor:
    """The Euclidean norm of all gradients together.

    >>> float(global_norm([Gradient(td.asarray([3.0])), Gradient(td.asarray([4.0]))]))
    5.0
    """
    total = gradients[0].square_sum()
    for gradient in gradients[1:]:
        total = total + gradient.square_sum()
    return functions.sqrt(total)


def all_finite(gradients: Sequence[Gradient]) -> Tensor:
    """Whether every element of every gradient is finite.

    >>> bool(all_finite([Gradient(td.asarray([1.0])), Gradient(td.asarray([np.inf]))]))
    False
    """
    finite: Tensor = functions.isfinite(gradients[0].value).all()
    for gradient in gradients[1:]:
        finite = finite & functions.isfinite(gradient.value).all()
    return finite


def clip_by_norm(
    gradients: Sequence[Gradient], limit: Any, norm: Tensor | None = None
) -> list[Gradient]:
    """All gradients times limit / max(norm, limit), with their global norm.

    Pascanu, Mikolov and Bengio, On the difficulty of training recurrent networks, 2013.

    >>> clip_by_norm([Gradient(td.asarray([3.0, 4.0]))], 1.0)[0].value.tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    norm = global_norm(gradients) if norm is None else norm
    factor = limit / functions.maximum(norm, limit)
    return times(gradients, factor)


def times(gradients: Sequence[Gradient], factor: Tensor) -> list[Gradient]:
    """Gradients scaled by a number."""
    return [
        replace(g, value=g.value * factor.astype(g.value.type.dtype)) for g in gradients
    ]


def clip_by_value(gradients: Sequence[Gradient], limit: Any) -> list[Gradient]:
    """Every element brought into [-limit, limit].

    >>> clip_by_value([Gradient(td.asarray([3.0, -4.0]))], 1.0)[0].value.tolist()
    [1.0, -1.0]
    """
    return [
        replace(g, value=functions.minimum(functions.maximum(g.value, -limit), limit))
        for g in gradients
    ]


class NormAverage:
    """Averages the global norm of the gradients over about `window` steps.

    With `deviations`, a gradient whose norm lies further above the mean than so many
    standard deviations is scaled to the mean, once `window` steps are known; `log`
    takes both of the norm's logarithm (Marian's --gradient-norm-average-window and
    --dynamic-gradient-scaling). The mean m and variance v move by a = 2 / (n + 1),
    n = min(steps, window): d = norm - m, m = m + a d, v = (1 - a) (v + a d²).

    >>> x = td.param("x", init=2.0)
    >>> opt = td.optim.SGD(lr=0.0, norms=td.optim.NormAverage(window=10))
    >>> _ = opt.step(3.0 * x), opt.step(3.0 * x)
    >>> opt.norms.last, opt.norms.mean, opt.norms.deviation
    (3.0, 3.0, 0.0)
    """

    def __init__(
        self, window: int = 100, deviations: Any = None, log: bool = False
    ) -> None:
        if window < 1:
            raise ArgumentError(f"norms are averaged over 1 step or more, not {window}")
        self.window, self.deviations, self.log = window, deviations, log
        self._states = {
            name: Variable(np.zeros((), np.float64), name=f"norm_{name}", dtype=float64)
            for name in ("steps", "last", "mean", "variance")
        }

    @property
    def last(self) -> float:
        """The norm of the last step's gradient, before it was scaled or clipped."""
        return float(self._states["last"])

    @property
    def mean(self) -> float:
        """The running mean of the norm, geometric with `log`."""
        mean = float(self._states["mean"])
        return math.exp(mean) if self.log else mean

    @property
    def deviation(self) -> float:
        """The running standard deviation of the norm, or of its logarithm."""
        return math.sqrt(float(self._states["variance"]))

    def states(self) -> dict[str, Variable]:
        """The states that are kept, by name."""
        return {v.name: v for v in self._states.values()}

    def next(self, norm: Tensor) -> tuple[list[tuple[Variable, Any]], Tensor | None]:
        """The states after a step, and the factor of its gradients if any."""
        steps, _, mean, variance = (v.node() for v in self._states.values())
        norm = norm.astype(float64)
        seen = functions.log(norm) if self.log else norm
        # A norm of 0 or one that is not finite tells nothing about the others.
        usable = functions.isfinite(seen)
        count = functions.minimum(steps + 1.0, self.window)
        part = functions.where(usable, 2.0 / (count + 1.0), 0.0)
        away = functions.where(usable, seen - mean, 0.0)
        new = [
            steps + 1.0,
            norm,
            mean + part * away,
            (1.0 - part) * (variance + part * away * away),
        ]
        changes = list(zip(self._states.values(), new, strict=True))
        if self.deviations is None:
            return changes, None
        far = away > functions.sqrt(variance) * self.deviations
        far = far & (steps >= self.window)
        usual = functions.exp(mean) if self.log else mean
        return changes, functions.where(far, usual / norm, 1.0)


def reads(work: Work, rows: bool, wanted: bool | None) -> list[tuple[Tensor, ...]]:
    """The nodes that an update reads of each gradient: ids and values, and no table of
    them, where `rows` are all that changes, as `wanted` or as the parameter is."""
    return [
        gradient.inputs
        if type(gradient.op) is RowsToDense
        and (rows and gradient.stored is None and gradient.type.axes is None)
        and group.by_rows(p, wanted)
        else (gradient,)
        for group, p, gradient in work
    ]


# Parameters, by id, the nodes that are read of their gradients, how many of each.
Sums = tuple[tuple[int, ...], list[Tensor], tuple[int, ...]]


def sums_by(parameters: tuple[Variable, ...]) -> Sums | None:
    """Those of these parameters that hold gradients, of which each is read as it is;
    None where one may be rows, or frozen in some, or nobody holds any."""
    known = native and native.held_gradients(parameters, RowsToDense)
    return (*known, (1,) * len(known[0])) if known and known[0] else None


def sums_of(work: Work, read: Sequence[tuple[Tensor, ...]]) -> Sums | None:
    """The same of parameters with their gradients, of which this is `read`; None where
    rows of one are frozen."""
    if any(p.frozen is not None for _, p, _ in work):
        return None
    of = tuple([id(p) for _, p, _ in work])
    return of, [x for nodes in read for x in nodes], tuple(map(len, read))
