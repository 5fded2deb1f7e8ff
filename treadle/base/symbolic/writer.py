"""A trace as a function of sizes: it checks the guards and computes what is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from treadle.base.symbolic import forms
from treadle.base.symbolic.bounds import Bounds
from treadle.base.symbolic.forms import Form
from treadle.base.symbolic.integers import Symbolic, SymbolicTrace
from treadle.base.symbolic.numbers import SymbolicNumber

__all__ = ["Evaluate", "compiled"]

Evaluate = Callable[[Sequence[int]], "list[Any] | None"]
Guard = tuple[Form, str, bool]


def compiled(
    trace: SymbolicTrace, wanted: Iterable[Any], guards: str = "all"
) -> Evaluate:
    """What tells symbolic integers and numbers for the values of the symbols: a
    function that is None where a guard does not hold. `guards`: "all", those that
    decide "bits", or "none".

    >>> trace = SymbolicTrace([6, 4])
    >>> n, m = trace.symbols
    >>> size = n * m + n
    >>> size, size // n, size > 20
    (30, 5, True)
    >>> serves = compiled(trace, [size])
    >>> serves([8, 5]), serves([3, 3])
    ([48], None)
    """
    return _Writer(trace).function(wanted, guards)


class _Writer:
    """Lines of Python, with a name for each value that is used."""

    def __init__(self, trace: SymbolicTrace) -> None:
        self.trace = trace
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}
        self.objects: dict[str, Any] = {}
        self._named: dict[str, str] = {}  # by texts
        self._functions: dict[Any, str] = {}

    def function(self, wanted: Iterable[Any], guards: str) -> Evaluate:
        """The function of all lines."""
        loose = self.trace.loose if guards == "bits" else ()
        every = [x for x in self.trace.guards if x not in loose]
        for difference, sign, holds in self.within(every if guards != "none" else []):
            word = "not " if holds else ""
            text = self.form(difference)
            self.lines.append(f"if {word}({text} {sign} 0): return None")
        results = [self.value(x) for x in wanted]
        body = "\n    ".join([*self.lines, f"return [{', '.join(results)}]"])
        exec(f"def evaluate(v):\n    {body}", self.objects)
        evaluate = self.objects["evaluate"]

        def checked(sizes: Sequence[int]) -> list[Any] | None:
            try:
                values: list[Any] | None = evaluate(sizes)
            except (ArithmeticError, ValueError):
                return None  # a quotient by nothing: not the program of these sizes
            return values

        return checked

    def within(self, guards: Sequence[Guard]) -> list[Guard]:
        """Write between what each symbol has to be, and which values it has not: sizes
        of other programs end here. The guards that say more are left.
        """
        bounds: dict[int, Bounds] = {}
        others = []
        for guard in guards:
            symbol = self.symbol(guard[0])
            limits = bounds.setdefault(symbol, Bounds()) if symbol is not None else None
            if limits is None or not limits.take(*guard):
                others.append(guard)
        for symbol, limits in bounds.items():
            test = limits.test(self.atom(symbol))
            if test:
                self.lines.append(f"if {test}: return None")
        return others

    def symbol(self, form: Form) -> int | None:
        """The one symbol of a form that is so many times it and a number."""
        atoms = [m for m, _ in form if m]
        if len(atoms) != 1 or len(atoms[0]) != 1:
            return None
        (number,) = atoms[0]
        return number if self.trace.definitions[number][0] == "symbol" else None

    def value(self, x: Any) -> str:
        """The text of a value."""
        if type(x) is Symbolic:
            return self.form(x.form)
        return x.write(self) if type(x) is SymbolicNumber else self.object(x)

    def object(self, x: Any) -> str:
        """A name for something that the function reads; equal functions have one."""
        name = f"c{len(self.objects)}"
        if callable(x):
            of = getattr(x, "__func__", x), getattr(x, "__self__", None)
            with suppress(TypeError):  # what cannot be a key
                name = self._functions.setdefault(of, name)
        self.objects[name] = x
        return name

    def named(self, key: Any, text: str) -> str:
        """A name for the value of a text, which is computed once."""
        if key not in self.names:
            if text not in self._named:
                self._named[text] = f"t{len(self._named)}"
                self.lines.append(f"{self._named[text]} = {text}")
            self.names[key] = self._named[text]
        return self.names[key]

    def form(self, form: Form) -> str:
        """The text of a form."""
        known = self.names.get(form)
        if known is not None:
            return known
        constant = forms.constant(form)
        if constant is not None:
            return f"({constant})"
        terms = []
        for monomial, c in form:
            factors = [self.atom(a) for a in monomial]
            if c != 1 or not factors:
                factors.append(f"({c})")
            terms.append("*".join(factors))
        if len(terms) == 1 and "*" not in terms[0]:
            return terms[0]
        return self.named(form, " + ".join(terms))

    def atom(self, number: int) -> str:
        """The text of an atom."""
        known = self.names.get(number)
        if known is not None:
            return known
        kind, *parts = self.trace.definitions[number]
        if kind == "symbol":
            text = f"v[{parts[0]}]"
        elif kind in ("//", "%"):
            text = f"{self.form(parts[0])} {kind} {self.form(parts[1])}"
        elif kind == "call":
            arguments = ", ".join([self.form(x) for x in parts[1]])
            text = f"{self.object(parts[0])}({arguments})"
        else:  # an integer of a number
            function, array, others = parts
            arguments = ", ".join([array.write(self), *map(self.object, others)])
            text = f"{self.object(function)}({arguments})"
        return self.named(number, text)
