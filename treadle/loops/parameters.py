"""Kernels without sizes: every extent, stride and offset becomes a run-time argument.

Two kernels of one structure then have the same text, and share their machine code: the
numbers 0 and 1 are structure, all others are read from the arguments of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treadle.loops.index import Axis, Datum, Index, Parameter, Quotient, Remainder
from treadle.loops.kernel import Kernel, Loop, rewritten

__all__ = ["bound", "parameterize"]


class _Slots:
    """Parameters in the order of their arrival; equal indices share theirs."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.axes: dict[Axis, Axis] = {}
        self.indices: dict[Index, Index] = {}
        self.checks = False

    def number(self, n: Any) -> Any:
        if n in (-1, 0, 1):
            return n
        self.values.append(int(n))
        return Parameter(len(self.values) - 1)

    def axis(self, axis: Axis) -> Axis:
        if axis not in self.axes:
            self.values.append(axis.extent)
            name = f"i{len(self.axes)}"
            self.axes[axis] = Axis(name, Parameter(len(self.values) - 1))
        return self.axes[axis]

    def atom(self, atom: Any) -> Any:
        if isinstance(atom, Axis):
            return self.axis(atom)
        if isinstance(atom, Datum):
            self.checks = True
            return Datum(atom.value, self.number(atom.extent))
        assert isinstance(atom, (Quotient, Remainder))
        return type(atom)(self.index(atom.index), self.number(atom.divisor))

    def index(self, i: Index) -> Index:
        if i not in self.indices:
            terms = tuple((self.atom(a), self.number(c)) for a, c in i.terms)
            self.indices[i] = Index(terms, self.number(i.constant))
        return self.indices[i]

    def loop(self, s: Loop) -> Loop:
        return replace(s, axis=self.axis(s.axis))


def parameterize(kernel: Kernel) -> tuple[Kernel, list[int]]:
    """The structure of a kernel, and the integers that fill its slots."""
    slots = _Slots()
    body = rewritten(kernel.body, slots.index, slots.loop, slots.number)
    made = replace(
        kernel,
        arguments=tuple(
            replace(a, scratch=slots.number(a.scratch)) for a in kernel.arguments
        ),
        body=body,
        name="",
        integers=len(slots.values),
        checks=slots.checks,
    )
    return made, slots.values


def bound(kernel: Kernel, integers: Sequence[int]) -> Kernel:
    """A kernel with its slots filled again: the inverse of `parameterize`."""

    def number(n: Any) -> Any:
        return integers[n.slot] if isinstance(n, Parameter) else n

    def axis(a: Axis) -> Axis:
        return Axis(a.name, number(a.extent))

    def atom(a: Any) -> Any:
        if isinstance(a, Axis):
            return axis(a)
        if isinstance(a, Datum):
            return Datum(a.value, number(a.extent))
        return type(a)(index(a.index), number(a.divisor))

    def index(i: Index) -> Index:
        terms = tuple((atom(a), number(c)) for a, c in i.terms)
        return Index(terms, number(i.constant))

    def loop(s: Loop) -> Loop:
        return replace(s, axis=axis(s.axis))

    body = rewritten(kernel.body, index, loop, number)
    arguments = tuple(replace(a, scratch=number(a.scratch)) for a in kernel.arguments)
    return replace(kernel, arguments=arguments, body=body, integers=0)
