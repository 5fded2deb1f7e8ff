"""Guards as text: what must hold of sizes, in the words of a formula."""

from __future__ import annotations

from typing import Any

from treadle.base.symbolic.forms import Form
from treadle.base.symbolic.integers import SymbolicTrace

LONGEST = 160  # characters of a guard that are shown
TURNED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def guards_of(trace: SymbolicTrace) -> list[tuple[str, str]]:
    """The guards under which the program of a trace serves sizes, and the lines of the
    library that decide by it. Symbols are n0, n1 and so on.

    >>> trace = SymbolicTrace([6, 4])
    >>> n, m = trace.symbols
    >>> n * m > 20, n // m == 3
    (True, False)
    >>> [text for text, _ in guards_of(trace)]
    ['n0*n1 > 20', 'n0 // n1 != 3']
    """
    lines = []
    for (form, sign, holds), line in trace.guards.items():
        left = [(m, c) for m, c in form if m and c > 0]
        right = [(m, -c) for m, c in form if not m or c < 0]
        shown = sign if holds else TURNED[sign]
        sides = _terms(trace, tuple(left)), _terms(trace, tuple(right))
        text = f"{sides[0]} {shown} {sides[1]}"
        if len(text) > LONGEST:  # such as blocks of products: the line tells it
            text = f"{text[:LONGEST]} ..."
        lines.append((text, line))
    return lines


def _terms(trace: SymbolicTrace, form: Form) -> str:
    terms = []
    for monomial, c in form:
        factors = [] if c == 1 and monomial else [str(c)]
        factors += [_atom(trace, a, len(monomial) > 1 or c != 1) for a in monomial]
        terms.append("*".join(factors))
    return " + ".join(terms) or "0"


def _atom(trace: SymbolicTrace, number: int, inside: bool) -> str:
    kind, *parts = trace.definitions[number]
    if kind == "symbol":
        return f"n{parts[0]}"
    if kind in ("//", "%"):
        text = f"{_operand(trace, parts[0])} {kind} {_operand(trace, parts[1])}"
        return f"({text})" if inside else text
    arguments = (
        ", ".join([_terms(trace, x) for x in parts[1]]) if kind == "call" else "..."
    )
    return f"{_name(parts[0])}({arguments})"


def _operand(trace: SymbolicTrace, form: Form) -> str:
    text = _terms(trace, form)
    return f"({text})" if " " in text else text


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__)).strip("_")
