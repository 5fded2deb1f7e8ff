"""Kernels without numbers: extents, strides, offsets, literals are run-time arguments.

Two kernels of one structure then have the same text, and share their machine code: the
numbers 0 and 1 are structure, all others are read from the arguments of the call. So
are literals, which may come from sizes as the divisor of a mean does; a float passes as
the bits of a double. Unsigned ones stay, which random numbers are made with, and so do
integers that divide: machine code multiplies where it knows them. Where elements are
written out one by one, their places stay too, so that neighbors are seen to be such.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.caches import Cache
from treadle.base.symbolic import Symbolic, SymbolicNumber, whole
from treadle.core import native
from treadle.loops.index import (
    Datum,
    Index,
    IndexParameter,
    LoopAxis,
    Quotient,
    Remainder,
)
from treadle.loops.kernel import Apply, Const, Expression, Kernel, Loop
from treadle.loops.rewriting import rewritten
from treadle.ops import bitwise, elementwise

MOST = 1 << 16  # expressions and statements that equal ones are replaced by
PLAIN = (0.0, 0.5, 1.0, 2.0, float("inf"))  # with either sign: machine code knows them
DIVIDES = (bitwise.Shift, elementwise.FloorDivide, elementwise.Modulo)


_shared: Cache[Any, Any] = Cache("parts of kernels", MOST)


def _one(x: Any) -> Any:
    """The one object for all that are equal: kernels then compare by identity."""
    return _shared.setdefault(x, x)


def _bits_of(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)


def _array_of(bits: int) -> Any:
    return np.asarray(value_of(bits))


def value_of(bits: int) -> float:
    """The float that passes as an integer."""
    (value,) = struct.unpack("<d", struct.pack("<q", bits))
    return float(value)


def _is_plain(value: Any) -> int:
    return int(abs(float(value)) in PLAIN)


# The integer that a float passes as, and whether machine code knows that; of each size.
bits_of = _bits_of if native is None else native.bits_of
is_plain = _is_plain if native is None else native.is_plain


class _Slots:
    """Parameters in the order of their arrival; equal indices share theirs."""

    def __init__(self, enumerated: bool = False) -> None:
        self.enumerated = enumerated
        self.values: list[int] = []
        self.ends: dict[tuple[Any, ...], IndexParameter] = {}
        self.axes: dict[LoopAxis, LoopAxis] = {}
        self.indices: dict[Index, Index] = {}
        self.literals: dict[tuple[str, int], IndexParameter] = {}
        self.divisors: set[Expression] = set()
        self.checks = False

    def number(self, n: Any) -> Any:
        if n in (-1, 0, 1):
            return n
        self.values.append(whole(n))
        return IndexParameter(len(self.values) - 1)

    def axis(self, axis: LoopAxis) -> LoopAxis:
        if axis not in self.axes:
            self.values.append(axis.extent)
            name = f"i{len(self.axes)}"
            self.axes[axis] = LoopAxis(name, IndexParameter(len(self.values) - 1))
        return self.axes[axis]

    def atom(self, atom: Any) -> Any:
        if isinstance(atom, LoopAxis):
            return self.axis(atom)
        if isinstance(atom, Datum):
            self.checks = True
            return Datum(atom.value, self.number(atom.extent))
        assert isinstance(atom, (Quotient, Remainder))
        return type(atom)(self.index(atom.index), self.number(atom.divisor))

    def index(self, i: Index) -> Index:
        if i not in self.indices:
            terms = tuple((self.atom(a), self.stride(c)) for a, c in i.terms)
            self.indices[i] = Index(terms, self.start(i))
        return self.indices[i]

    def stride(self, c: Any) -> Any:
        known = self.enumerated and type(c) is int
        return c if known else self.number(c)

    def start(self, i: Index) -> Any:
        """The constant of an index; of an element that is written out, what extents
        have no part in is structure."""
        if not self.enumerated:
            return self.number(i.constant)
        back = tuple(
            [
                (a, c)
                for a, c in i.terms
                if isinstance(a, LoopAxis) and type(c) is int and c < 0
            ]
        )
        end = sum([-c * (a.extent - 1) for a, c in back])
        rest = i.constant - end
        if type(rest) is Symbolic:
            return self.number(i.constant)
        if not back:
            return whole(rest)
        if back not in self.ends:
            self.values.append(whole(end))
            self.ends[back] = IndexParameter(len(self.values) - 1)
        return replace(self.ends[back], plus=whole(rest))

    def loop(self, s: Loop) -> Loop:
        return replace(s, axis=self.axis(s.axis))

    def sized(self, x: Const) -> Const:
        """A literal that is computed from sizes."""
        number: SymbolicNumber = x.value
        if x in self.divisors or number.integer(is_plain) == 1:
            return self.literal(Const(number.item(), x.dtype))
        bits = number.integer(bits_of if x.dtype.kind != "i" else int)
        if ("n", bits) not in self.literals:
            self.values.append(bits)
            self.literals["n", bits] = IndexParameter(len(self.values) - 1)
        return Const(self.literals["n", bits], x.dtype)

    def literal(self, x: Const) -> Const:
        kind = x.dtype.kind
        if type(x.value) is SymbolicNumber:
            return self.sized(x)
        if kind not in "fVi" or abs(float(x.value)) in PLAIN or x in self.divisors:
            return x
        if kind == "i" and x.value in (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max):
            return x
        bits = int(x.value) if kind == "i" else bits_of(float(x.value))
        if (kind, bits) not in self.literals:
            self.values.append(bits)
            self.literals[kind, bits] = IndexParameter(len(self.values) - 1)
        return Const(self.literals[kind, bits], x.dtype)


def parameterize(kernel: Kernel) -> tuple[Kernel, list[int]]:
    """The structure of a kernel, and the integers that fill its slots."""
    slots = _Slots(kernel.enumerated)
    slots.divisors.update(
        x.inputs[1]
        for x in kernel.expressions
        if isinstance(x, Apply) and isinstance(x.op, DIVIDES)
    )
    body = rewritten(
        kernel.body,
        slots.index,
        slots.loop,
        slots.number,
        literal=slots.literal,
        shared=_one,
        known=kernel.expressions,
    )
    structure = replace(
        kernel,
        arguments=tuple(
            replace(a, scratch=slots.number(a.scratch)) for a in kernel.arguments
        ),
        body=body,
        name="",
        integers=len(slots.values),
        checks=slots.checks,
    )
    return structure, slots.values


def number_of(x: Const, integers: Sequence[int]) -> Any:
    """The value of a literal of a kernel whose slots these integers fill."""
    if not isinstance(x.value, IndexParameter):
        return x.value
    bits: Any = integers[x.value.slot]
    if type(bits) is Symbolic and x.dtype.kind != "i":
        return SymbolicNumber(_array_of, bits)
    return bits if x.dtype.kind == "i" else value_of(bits)


def bound(kernel: Kernel, integers: Sequence[int]) -> Kernel:
    """A kernel with its slots filled again: the inverse of `parameterize`."""

    def number(n: Any) -> Any:
        return integers[n.slot] + n.plus if isinstance(n, IndexParameter) else n

    def axis(a: LoopAxis) -> LoopAxis:
        return LoopAxis(a.name, number(a.extent))

    def atom(a: Any) -> Any:
        if isinstance(a, LoopAxis):
            return axis(a)
        if isinstance(a, Datum):
            return Datum(a.value, number(a.extent))
        return type(a)(index(a.index), number(a.divisor))

    def index(i: Index) -> Index:
        terms = tuple((atom(a), number(c)) for a, c in i.terms)
        return Index(terms, number(i.constant))

    def loop(s: Loop) -> Loop:
        return replace(s, axis=axis(s.axis))

    def literal(x: Const) -> Const:
        return Const(number_of(x, integers), x.dtype)

    body = rewritten(kernel.body, index, loop, number, literal=literal)
    arguments = tuple(replace(a, scratch=number(a.scratch)) for a in kernel.arguments)
    return replace(kernel, arguments=arguments, body=body, integers=0)
