"""Symbolic integers, and the trace that notes what was decided by them."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.caches import lazy
from treadle.base.symbolic import forms
from treadle.base.symbolic.forms import Form

LEAST = 2  # of a symbol
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class SymbolicTrace:
    """One compilation for sizes: its symbols, and the guards that it has left.

    A guard is a form, how it compares with 0, and whether that held.
    """

    def __init__(self, values: Sequence[int]) -> None:
        # With the lines that left them.
        self.guards: dict[tuple[Form, str, bool], str] = {}
        self.loose: set[tuple[Form, str, bool]] = set()  # those that decide no bit
        self.definitions: dict[int, Any] = {}  # of atoms
        self.open = True  # while it is closed nothing is noted
        self._ends: dict[int, tuple[float, float]] = {}  # the bounds of atoms
        # By equalities that held: of forms, and of single atoms wherever they stand.
        self._known: dict[Form, Form] = {}
        self._solved: dict[int, Form] = {}
        self.symbols = [
            Symbolic(self, value, self.atom(("symbol", k)))
            for k, value in enumerate(values)
        ]

    def __getstate__(self) -> dict[str, Any]:  # what can be found anew is
        return {k: x for k, x in vars(self).items() if k not in ("_atoms", "_numbers")}

    @lazy
    def _numbers(self) -> Iterator[int]:
        """Numbers of atoms: no two traces share one, so that caches may mix them, also
        what other processes have left on disk."""
        return count(int.from_bytes(os.urandom(7), "little"))

    @lazy
    def _atoms(self) -> dict[Any, int]:
        """The atoms by what defines them."""
        return {x: number for number, x in self.definitions.items()}

    def atom(self, definition: Any) -> Form:
        """The form of an atom, by what defines it."""
        number = self._atoms.get(definition)
        if number is None:
            number = self._atoms[definition] = next(self._numbers)
            self.definitions[number] = definition
        return forms.atom(number)

    def make(self, value: int, form: Form) -> Any:
        """The symbolic integer of a form; an int where that is a constant."""
        form = self.known(form)
        constant = forms.constant(form)
        return Symbolic(self, value, form) if constant is None else constant

    def known(self, form: Form) -> Form:
        """What a form is by equalities that held."""
        form = forms.substituted(self._known.get(form, form), self._solved)
        return self._known.get(form, form)

    def compare(
        self, x: Form, sign: str, y: Form, holds: bool, loose: bool = False
    ) -> None:
        """Note how two forms compare, where bounds do not tell it anyway; `loose`: no
        bit of a value hangs on it.
        """
        if not self.open:
            return
        x, y = self.known(x), self.known(y)
        difference = forms.total(x, y, -1)
        if forms.constant(difference) is not None:
            return
        if forms.decided(sign, *self.bounds(difference)):
            return
        guard = difference, sign, holds
        if guard not in self.guards:
            self.guards[guard] = _line()
            if loose:
                self.loose.add(guard)
        elif not loose:
            self.loose.discard(guard)
        if sign in ("==", "!=") and holds == (sign == "=="):
            self._equate(x, y)

    def _equate(self, x: Form, y: Form) -> None:
        """Equate two forms: what an atom must be takes its place everywhere, or else
        the integer or the shorter form that of the other.
        """
        solved = forms.solved(forms.total(x, y, -1))
        if solved is not None:
            self._solved[solved[0]] = solved[1]
            return
        if forms.constant(x) is not None or (
            forms.constant(y) is None and len(x) < len(y)
        ):
            x, y = y, x
        self._known[x] = y

    def bounds(self, form: Form) -> tuple[float, float]:
        """Between what a form lies, as far as that is known."""
        low = high = 0.0
        for monomial, c in form:
            least = most = float(c)
            for a in monomial:
                ends = self._ends.get(a) or self._atom_bounds(a)
                first, last = ends
                if least >= 0 and first >= 0:  # mostly; infinity times nothing is 0
                    least = least * first if least and first else 0.0
                    most = most * last if most and last else 0.0
                    continue
                every = [
                    x * y if x and y else 0.0
                    for x in (least, most)
                    for y in (first, last)
                ]
                least, most = min(every), max(every)
            low, high = low + least, high + most
        return low, high

    def _atom_bounds(self, number: int) -> tuple[float, float]:
        ends = self._ends[number] = self._bounds(self.definitions[number])
        return ends

    def _bounds(self, definition: Any) -> tuple[float, float]:
        kind, *parts = definition
        if kind == "symbol":
            return LEAST, math.inf
        if kind == "%":
            return 0.0, math.inf
        if kind == "call":
            return self._bounds_of_call(*parts)
        if kind == "//" and self.bounds(parts[1])[0] > 0:
            least, most = self.bounds(parts[0])
            return (0.0 if least >= 0 else -math.inf), (-1.0 if most < 0 else math.inf)
        return -math.inf, math.inf

    def _bounds_of_call(self, function: Any, forms: Sequence[Form]) -> Any:
        if function is exceeding:
            return 0.0, 1.0
        if function in (min, max):
            ends = [self.bounds(x) for x in forms]
            return tuple([function(pair) for pair in zip(*ends, strict=True)])
        if function is choosing:
            ends = [self.bounds(x) for x in forms[1:]]
            return min(e[0] for e in ends), max(e[1] for e in ends)
        return -math.inf, math.inf


class Symbolic:
    """A whole number that was computed from sizes.

    Arithmetic with integers gives others; a comparison is decided by the value, and
    leaves a guard. So does whatever needs the value: that it is this one.
    """

    __slots__ = ("form", "trace", "value")
    __array_ufunc__ = None  # NumPy's scalars leave arithmetic to this

    def __init__(self, trace: SymbolicTrace, value: int, form: Form) -> None:
        self.trace, self.value, self.form = trace, value, form

    if TYPE_CHECKING:  # defined below, one like the other

        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __lt__(self, other: Any) -> bool: ...
        def __le__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __ge__(self, other: Any) -> bool: ...
        def __eq__(self, other: object) -> bool: ...
        def __ne__(self, other: object) -> bool: ...

    def __hash__(self) -> int:
        return hash(self.form)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Symbolic:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __int__(self) -> int:
        self.trace.compare(self.form, "==", forms.whole(self.value), True)
        return self.value

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __repr__(self) -> str:
        return repr(self.value)

    def __str__(self) -> str:
        return str(int(self))

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)

    def bit_length(self) -> Any:
        """As that of an int."""
        return call(bit_length, self)


def bit_length(x: int) -> int:
    """The bits of an integer: an operator of tables."""
    return x.bit_length()


def exceeding(x: int, y: int) -> int:
    """Whether x > y, as 1 or 0: an operator of tables."""
    return int(x > y)


def choosing(is_first: int, x: int, y: int) -> int:
    """The first of two integers where that is 1, else the second."""
    return x if is_first else y


def is_symbolic(x: Any) -> bool:
    """Whether something is a symbolic integer."""
    return type(x) is Symbolic


def whole(x: Any) -> Any:
    """As `int`, but a symbolic integer stays what it is."""
    return x if type(x) is Symbolic else int(x)


def form_of(x: Any) -> Form:
    """The form of an integer, symbolic or not."""
    return x.form if type(x) is Symbolic else forms.whole(operator.index(x))


def call(function: Callable[..., int], *arguments: Any) -> Any:
    """A call of a function of integers: an atom, if one of them is symbolic.

    Equal functions are the same atom of the same integers.
    """
    trace = trace_of(arguments)
    if trace is None:
        return function(*arguments)
    value = function(*[x.value if type(x) is Symbolic else x for x in arguments])
    known_forms = tuple([trace.known(form_of(x)) for x in arguments])
    atom = trace.atom(("call", function, known_forms))
    return trace.make(value, atom)


def trace_of(arguments: Sequence[Any]) -> SymbolicTrace | None:
    """The trace of the first that is symbolic."""
    return next((x.trace for x in arguments if type(x) is Symbolic), None)


# -- operators -------------------------------------------------------------------------

# What an operator gives for a symbolic integer and a float: `numbers.py` tells.
inexact: dict[str, Callable[[Any, Any], Any]] = {}


def _is_whole(x: Any) -> bool:
    return type(x) is Symbolic or isinstance(x, (int, np.integer))


def value_of(x: Any) -> Any:
    """The number of an integer, symbolic or not."""
    return x.value if type(x) is Symbolic else x


def _defined(name: str, form: Callable[[SymbolicTrace, Form, Form], Form]) -> None:
    """An operator on values and forms, from both sides."""
    on = getattr(operator, name)

    def made(x: Any, y: Any, trace: SymbolicTrace) -> Any:
        return trace.make(
            on(value_of(x), value_of(y)), form(trace, form_of(x), form_of(y))
        )

    def left(self: Symbolic, other: Any) -> Any:
        if _is_whole(other):
            return made(self, other, self.trace)
        return inexact[name](self, other) if type(other) is float else NotImplemented

    def right(self: Symbolic, other: Any) -> Any:
        if _is_whole(other):
            return made(other, self, self.trace)
        return inexact[name](other, self) if type(other) is float else NotImplemented

    setattr(Symbolic, f"__{name.rstrip('_')}__", left)
    setattr(Symbolic, f"__r{name.rstrip('_')}__", right)


def _quotient(trace: SymbolicTrace, x: Form, y: Form) -> Form:
    x, y = trace.known(x), trace.known(y)
    exact = forms.quotient(x, y)
    return trace.atom(("//", x, y)) if exact is None else exact


def _remainder(trace: SymbolicTrace, x: Form, y: Form) -> Form:
    x, y = trace.known(x), trace.known(y)
    if forms.quotient(x, y) is not None:
        return ()
    by = forms.constant(y)
    if by:
        x = forms.remainder(x, by)
        value = forms.constant(x)
        if value is not None:
            return forms.whole(value % by)
    return trace.atom(("%", x, y))


_defined("add", lambda _, x, y: forms.total(x, y))
_defined("sub", lambda _, x, y: forms.total(x, y, -1))
_defined("mul", lambda _, x, y: forms.product(x, y))
_defined("floordiv", _quotient)
_defined("mod", _remainder)
for _name in ("lshift", "rshift", "pow", "xor", "and_", "or_"):
    _on = getattr(operator, _name)
    _defined(_name, lambda t, x, y, f=_on: t.atom(("call", f, (x, y))))  # type: ignore[misc]


def _compared(name: str) -> None:
    on, sign = getattr(operator, name), SIGNS[name]

    def compare(self: Symbolic, other: Any) -> Any:
        if not _is_whole(other):
            return on(int(self), other) if type(other) is float else NotImplemented
        answer = on(self.value, value_of(other))
        self.trace.compare(self.form, sign, form_of(other), bool(answer))
        return answer

    setattr(Symbolic, f"__{name}__", compare)


for _name in SIGNS:
    _compared(_name)


def _line() -> str:
    """The place that decides by a size, as file and line."""
    frame: Any = sys._getframe(2)
    while frame is not None and "symbolic" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None:
        return ""
    path = frame.f_code.co_filename.rsplit("treadle/", 1)[-1]
    return f"{path}:{frame.f_lineno}"
