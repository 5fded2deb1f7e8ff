"""The writer of tables: guards and integers of a trace as rows over the sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from treadle.base.symbolic import forms, table
from treadle.base.symbolic.forms import Form
from treadle.base.symbolic.integers import (
    LEAST,
    Symbolic,
    SymbolicTrace,
    bit_length,
    choosing,
    exceeding,
)
from treadle.base.symbolic.numbers import SymbolicNumber
from treadle.base.symbolic.table import IntegerTable

OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
# How something plus an integer compares with 0: a guard, and what is added to the
# integer with its sign changed.
GUARDS = {
    "<": (table.AT_MOST, -1),
    "<=": (table.AT_MOST, 0),
    ">": (table.AT_LEAST, 1),
    ">=": (table.AT_LEAST, 0),
    "==": (table.EQUAL, 0),
    "!=": (table.UNEQUAL, 0),
}
# Functions of integers that are operators of tables.
KNOWN: dict[Any, int] = {
    min: table.LEAST,
    max: table.MOST,
    exceeding: table.EXCEEDS,
    math.gcd: table.DIVISOR,
    operator.lshift: table.SHIFT_LEFT,
    operator.rshift: table.SHIFT_RIGHT,
}


def compiled(
    trace: SymbolicTrace,
    wanted: Iterable[Any],
    guards: str = "all",
    inputs: Sequence[Any] | None = None,
) -> IntegerTable:
    """The table that gives symbolic integers and numbers for other sizes, or None where
    a guard does not hold.

    `guards`: "all", those that decide "bits", or "none". `inputs` are what it takes,
    as integers of the trace: its symbols, and others that sizes have to agree with.

    >>> trace = SymbolicTrace([6, 4])
    >>> n, m = trace.symbols
    >>> size = n * m + n
    >>> size, size // n, size > 20
    (30, 5, True)
    >>> serves = compiled(trace, [size])
    >>> serves([8, 5]), serves([3, 3])
    ([48], None)
    """
    writer = _Writer(trace, trace.symbols if inputs is None else inputs)
    loose = trace.loose if guards == "bits" else ()
    for guard in trace.guards if guards != "none" else ():
        if guard not in loose:
            writer.guard(*guard)
    return writer.table([writer.value(x) for x in wanted])


class _Writer:
    """Rows, each once, and the numbers of their values."""

    def __init__(self, trace: SymbolicTrace, inputs: Sequence[Any]) -> None:
        self.trace = trace
        self.inputs = len(inputs)
        self.objects: list[Any] = []
        self.operands: list[int] = []
        self.rows: dict[tuple[int, int, int], int] = {}  # with the numbers of values
        self._count = len(inputs)  # of values
        self._forms: dict[Form, int] = {}
        self._known: dict[Any, int] = {}  # what functions make, and these, by keys
        self._begin(inputs)

    def _begin(self, inputs: Sequence[Any]) -> None:
        """Find the symbols among the inputs, and have the others agree with them."""
        for k, x in enumerate(inputs):
            if type(x) is Symbolic and self._is_symbol(x.form):
                self._forms.setdefault(x.form, k)
        for k, x in enumerate(inputs):
            if type(x) is not Symbolic:
                self._row(table.EQUAL, k, x)
            elif self._forms.get(x.form) == k:
                self._row(table.AT_LEAST, k, LEAST)
            else:
                self._row(table.SAME, k, self.form(x.form))

    def _is_symbol(self, form: Form) -> bool:
        return form in [x.form for x in self.trace.symbols]

    def table(self, wanted: Sequence[int]) -> IntegerTable:
        """The table of all rows."""
        rows = np.array([*self.rows], np.int64).reshape(-1, 3)
        operands, places = (np.array(x, np.int64) for x in (self.operands, wanted))
        return IntegerTable(self.inputs, tuple(self.objects), rows, operands, places)

    def guard(self, form: Form, sign: str, holds: bool) -> None:
        """A guard: how a form compares with 0, and whether that held."""
        more = sum(c for m, c in form if not m)
        op, other = GUARDS[sign if holds else OPPOSITE[sign]]
        self._row(op, self.form(tuple([x for x in form if x[0]])), other - more)

    def value(self, x: Any) -> int:
        """The number of a value."""
        if type(x) is Symbolic:
            return self.form(x.form)
        return x.write(self) if type(x) is SymbolicNumber else self.object(x)

    def call(self, op: int, function: Any, arguments: Sequence[int], key: Any) -> int:
        """What a function makes of values, known by a key."""
        if key not in self._known:
            first = len(self.operands)
            self.operands += [self.object(function), *arguments]
            self._known[key] = self._row(op, first, 1 + len(arguments))
        return self._known[key]

    def form(self, form: Form) -> int:
        """The number of the value of a form."""
        if form not in self._forms:
            self._forms[form] = self._sum(form)
        return self._forms[form]

    def _sum(self, form: Form) -> int:
        result = None
        more = 0
        for monomial, c in form:
            if not monomial:
                more = c
                continue
            term = reduce(self._product, map(self._atom, monomial))
            if c != 1:
                term = self._row(table.SCALE, term, c)
            result = term if result is None else self._row(table.ADD, result, term)
        if result is None:
            return self._row(table.CONSTANT, more, 0)
        return self._row(table.OFFSET, result, more) if more else result

    def _product(self, x: int, y: int) -> int:
        return self._row(table.MULTIPLY, x, y)

    def _atom(self, number: int) -> int:
        form = forms.atom(number)
        if form in self._forms:
            return self._forms[form]
        kind, *parts = self.trace.definitions[number]
        if kind == "number":
            function, array, others = parts
            arguments = [array.write(self), *map(self.object, others)]
            result = self.call(table.CALL, function, arguments, number)
        elif kind == "call":
            result = self._called(parts[0], list(map(self.form, parts[1])), number)
        else:
            op = table.QUOTIENT if kind == "//" else table.REMAINDER
            result = self._row(op, *map(self.form, parts))
        self._forms[form] = result
        return result

    def _called(self, function: Any, arguments: list[int], number: int) -> int:
        """What a function makes of integers: an atom."""
        if function is bit_length:
            return self._row(table.BITS, arguments[0], 0)
        if function is choosing:
            is_first, x, y = arguments
            less = self._row(table.ADD, x, self._row(table.SCALE, y, -1))
            return self._row(table.ADD, y, self._product(is_first, less))
        if function in KNOWN:
            op = KNOWN[function]
            return reduce(lambda x, y: self._row(op, x, y), arguments)
        return self.call(table.CALL, function, arguments, number)

    def object(self, x: Any) -> int:
        """The number of something that functions read; equal functions have one."""
        key: Any = "object", id(x)
        if callable(x):
            key = "object", getattr(x, "__func__", x), getattr(x, "__self__", None)
        try:
            known = self._known.get(key)
        except TypeError:  # what cannot be a key
            key, known = ("object", id(x)), None
        if known is None:
            self.objects.append(x)  # it stays, and so does its address
            known = self._known[key] = self._row(table.OBJECT, len(self.objects) - 1, 0)
        return known

    def _row(self, op: int, a: int, b: int) -> int:
        """The number of the value of a row, which is there once."""
        row = op, a, b
        if row not in self.rows:
            self.rows[row] = self._count
            self._count += op < table.AT_LEAST
        return self.rows[row]
