"""Symbolic integers: sizes that have a value and an expression, and leave guards.

A program that is compiled with them is compiled for the sizes at hand, and serves all
others for which every comparison that was made would come out the same. What cannot be
said as an expression (an index, a text, a float) is decided by the value, which leaves
a guard that the value is this one: nothing is lost in silence.

They are no subclass of int: C code would read such a one, and nobody would know.
Expressions are polynomials (`forms.py`) of atoms: a symbol, a floored quotient, a
remainder, or a function of expressions. Guards and expressions become one table
(`table.py`), which the core evaluates for each new size.
"""

from treadle.base.symbolic.comparisons import (
    at_least,
    exceeds,
    gcd,
    is_same,
    least,
    may_cross,
    most,
    stays_below,
)
from treadle.base.symbolic.integers import (
    LEAST,
    Symbolic,
    SymbolicTrace,
    call,
    is_symbolic,
    whole,
)
from treadle.base.symbolic.numbers import (
    SymbolicNumber,
    arange,
    array_of,
    bits,
    counted,
    plain,
    zeros,
)
from treadle.base.symbolic.table import IntegerTable
from treadle.base.symbolic.text import guards_of
from treadle.base.symbolic.writer import compiled

__all__ = [
    "LEAST",
    "SymbolicNumber",
    "Symbolic",
    "SymbolicTrace",
    "IntegerTable",
    "arange",
    "array_of",
    "at_least",
    "bits",
    "call",
    "compiled",
    "counted",
    "exceeds",
    "gcd",
    "guards_of",
    "is_same",
    "is_symbolic",
    "least",
    "may_cross",
    "most",
    "plain",
    "stays_below",
    "whole",
    "zeros",
]
