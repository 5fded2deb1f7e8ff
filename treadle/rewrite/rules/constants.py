"""Constant folding: what is known from the structure alone, and neutral elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from treadle.base.dtypes import OWN
from treadle.base.errors import TreadleError
from treadle.base.symbolic import Symbolic, SymbolicNumber
from treadle.base.types import Shape, TupleType, Type
from treadle.graph.body import effect_of
from treadle.graph.leaves import LITERAL
from treadle.graph.meaning import compute
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.ops.families import Elementwise, Movement
from treadle.ops.movement import BroadcastTo
from treadle.rewrite.facts import is_finite, is_number, is_positive, number_of
from treadle.rewrite.pattern import Constants, Trait, captures, numbers, of
from treadle.rewrite.rule import Match, Rule, RuleSet

x, y, z = captures("x y z")
(c,) = numbers("c")
select, cast, logical_not = of("Select"), of("Cast"), of("LogicalNot")
SINGLE = (int, float, str, np.dtype, type(None), Symbolic)  # that hold no other size
FOLDED = 4096  # elements of a folded constant that may be more than its operands have


def constant(array: Any) -> Tensor:
    """A constant of the structure."""
    value: Any = array
    if type(array) is not SymbolicNumber:
        value = np.asarray(array)
        value.flags.writeable = False
    return Tensor(LITERAL, (), Type(value.shape, OWN[value.dtype]), value)


def _array(x: Tensor) -> Any:
    """The value of a constant of the structure; None of a broadcast of many values."""
    if isinstance(x.op, BroadcastTo):
        inner = x.inputs[0].array
        if inner is None or inner.shape:
            return None
        return _repeated(inner, x.type.shape)
    return x.array


def _repeated(number: Any, shape: Shape) -> Any:
    """An array of one number; symbolic if that or a size is."""
    if type(number) is SymbolicNumber or Symbolic in map(type, shape):
        array = SymbolicNumber(_broadcast, number, *shape)
        array.shape = shape
        return array
    return np.broadcast_to(number, shape)


def _broadcast(number: Any, *shape: int) -> Any:
    return np.broadcast_to(number, shape)


def _folded(m: Match) -> Tensor | None:
    """The value of an op on constants; one number where all operands are numbers."""
    op, t = m.root.op, m.root.type
    if isinstance(t, TupleType) or t.axes is not None:
        return None
    numbers = [number_of(x) is not None for x in m.root.inputs]
    same = isinstance(op, (Elementwise, Movement)) and all(numbers)
    if same and isinstance(op, Movement):
        if isinstance(op, BroadcastTo) and not m.root.inputs[0].type.shape:
            return None  # this is how they are written
        return _scalar(m.root.inputs[0])
    if same:
        arrays = [_scalar(x).array for x in m.root.inputs]
        t = Type((), t.dtype)
    else:
        arrays = [_array(x) for x in m.root.inputs]
        known = sum(a.size for a in arrays if a is not None)
        if t.size > max(known, FOLDED) or isinstance(op, BroadcastTo):
            return None
    if any(a is None for a in arrays) or effect_of(op):
        return None
    leaves: list[Any] = []
    parts = tuple([_parted(getattr(op, f.name), leaves) for f in fields(op)])  # type: ignore[arg-type]
    try:
        if {SymbolicNumber, Symbolic} & {type(x) for x in (*arrays, *leaves)}:
            return _of_sizes(op, t, arrays, parts, leaves)
        return constant(np.array(compute(op, t, arrays)))
    except (TreadleError, ValueError, IndexError, ArithmeticError):
        return None  # it fails where it runs, with the user's line


def _of_sizes(
    op: Op, t: Type, arrays: list[Any], parts: Any, leaves: list[Any]
) -> Tensor | None:
    """The value of an op, of attributes in parts, that is computed from sizes."""
    if not all(isinstance(x, SINGLE) for x in leaves):
        return None
    function = _Computed(type(op), parts, len(arrays))
    value = SymbolicNumber(function, *arrays, *leaves)
    value.shape = t.shape
    return constant(value)


def _parted(x: Any, leaves: list[Any]) -> Any:
    """The tuples of an attribute, what stands in them taken out."""
    if isinstance(x, tuple):
        return tuple([_parted(y, leaves) for y in x])
    leaves.append(x)
    return None


def _joined(parts: Any, leaves: Iterator[Any]) -> Any:
    """An attribute of its tuples and of what stands in them."""
    if isinstance(parts, tuple):
        return tuple([_joined(p, leaves) for p in parts])
    return next(leaves)


@dataclass(frozen=True)
class _Computed:
    """An op on arrays, as a function of these and of what stands in its attributes."""

    kind: type[Op]
    parts: tuple[Any, ...]
    operands: int

    def __call__(self, *arguments: Any) -> Any:
        arrays, leaves = arguments[: self.operands], iter(arguments[self.operands :])
        op = self.kind(*[_joined(p, leaves) for p in self.parts])
        return np.array(compute(op, op.infer(*map(_type, arrays)), arrays))


def _type(array: Any) -> Type:
    return Type(array.shape, OWN[array.dtype])


def _scalar(x: Tensor) -> Tensor:
    """A number without dimensions."""
    return x.inputs[0] if isinstance(x.op, BroadcastTo) else x


def _is_identity(m: Match) -> bool:
    identity = m.f.op.traits.identity
    if identity is None or not is_number(m.c, identity):
        return False
    # -0.0 + 0 is 0.0, in floats.
    return type(m.f.op).__name__ != "Add" or m.f.type.dtype.kind in "biu"


def _is_absorbing(m: Match) -> bool:
    absorbing = m.f.op.traits.absorbing
    return absorbing is not None and is_number(m.c, absorbing) and is_finite(m.x)


def _truth(m: Match) -> Any:
    return m.x if m.number("c") else m.y


def _negated(d: Any) -> Tensor:
    x = d()
    return d.td.where(d.td.logical_not(x > 0), x, 1.0)


CONSTANTS = RuleSet(
    "constants",
    [
        Rule(
            "fold constants",
            Constants(),
            _folded,
            exact=False,
            takes="any",
            example=lambda d: d.number() * d.number() + d.td.sin(d.number()),
        ),
        Rule(
            "neutral element",
            Trait(lambda t: t.identity is not None, (x, c)),
            x,
            when=_is_identity,
            example=lambda d: d() * 1,
        ),
        Rule(
            "add zero",  # not in one with the others: -0.0 + 0 is 0.0
            x + 0,
            x,
            exact=False,
            takes="float",
        ),
        Rule(
            "absorbing element",  # 0 * inf is NaN: only where x is known to be finite
            Trait(lambda t: t.absorbing is not None, (x, c)),
            lambda m: m.c,
            when=_is_absorbing,
            exact=False,  # -2 * 0 is -0.0
            example=lambda d: (d() > 0).astype("float32") * 0.0,
        ),
        Rule("subtract zero", x - 0, x, takes="numeric"),
        Rule("subtract from zero", 0 - x, -x, exact=False, takes="numeric"),
        Rule("multiply by minus one", x * -1, -x, takes="numeric"),
        Rule("divide by one", x / 1, x),
        Rule("divide by minus one", x / -1, -x),
        Rule(
            "subtract from itself",
            x - x,
            0,
            when=lambda m: is_finite(m.x),
            takes="ordered",
            example=lambda d: d.whole("x") - d.whole("x"),
        ),
        Rule(
            "zero divided",
            0 / x,
            0,
            when=lambda m: is_finite(m.x) and is_positive(m.x),
            takes="float",
            example=lambda d: 0.0 / ((d() > 0).astype(d.type) + 1.0),
        ),
        Rule(
            "choose the same",
            select(x, y, y),
            y,
            example=lambda d: d.td.where(d() > 0, d("y"), d("y")),
        ),
        Rule(
            "choose by a known condition",
            select(c, x, y),
            _truth,
            example=lambda d: d.td.where(d.true(), d(), d()),
        ),
        Rule(
            "choose by a negation",
            select(logical_not(x), y, z),
            select(x, z, y),
            example=_negated,
        ),
        Rule(
            "choose twice by one condition",
            select(x, select(x, y, z), captures("w")[0]),
            select(x, y, captures("w")[0]),
            example=lambda d: d.td.where(
                d("x") > 0, d.td.where(d("x") > 0, d("y"), d("z")), d("w")
            ),
        ),
        Rule(
            "choose twice by one condition, at the end",
            select(x, captures("w")[0], select(x, y, z)),
            select(x, captures("w")[0], z),
            example=lambda d: d.td.where(
                d("x") > 0, d("w"), d.td.where(d("x") > 0, d("y"), d("z"))
            ),
        ),
    ],
)
