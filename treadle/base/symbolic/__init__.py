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

from treadle.base.names import public as _public
from treadle.base.symbolic.comparisons import at_least as at_least
from treadle.base.symbolic.comparisons import chosen as chosen
from treadle.base.symbolic.comparisons import exceeds as exceeds
from treadle.base.symbolic.comparisons import gcd as gcd
from treadle.base.symbolic.comparisons import is_near as is_near
from treadle.base.symbolic.comparisons import is_same as is_same
from treadle.base.symbolic.comparisons import least as least
from treadle.base.symbolic.comparisons import most as most
from treadle.base.symbolic.comparisons import reaches as reaches
from treadle.base.symbolic.comparisons import stays_below as stays_below
from treadle.base.symbolic.integers import LEAST as LEAST
from treadle.base.symbolic.integers import Symbolic as Symbolic
from treadle.base.symbolic.integers import SymbolicTrace as SymbolicTrace
from treadle.base.symbolic.integers import call as call
from treadle.base.symbolic.integers import is_symbolic as is_symbolic
from treadle.base.symbolic.integers import whole as whole
from treadle.base.symbolic.numbers import SymbolicNumber as SymbolicNumber
from treadle.base.symbolic.numbers import arange as arange
from treadle.base.symbolic.numbers import array_of as array_of
from treadle.base.symbolic.numbers import bits as bits
from treadle.base.symbolic.numbers import counted as counted
from treadle.base.symbolic.numbers import plain as plain
from treadle.base.symbolic.numbers import zeros as zeros
from treadle.base.symbolic.table import IntegerTable as IntegerTable
from treadle.base.symbolic.text import guards_of as guards_of
from treadle.base.symbolic.writer import compiled as compiled

__all__ = _public(globals())
