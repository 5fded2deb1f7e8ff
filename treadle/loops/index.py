"""Integer arithmetic of indices: linear forms of loop axes, kept in a normal form.

An `Index` is a constant plus whole multiples of atoms. An atom is an axis of a loop, a
quotient or remainder that did not simplify, or an integer read from data. The rules of
movement ops (`i * n + k`, `i // n`, `i % n`) run on it as on integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from treadle.base.symbolic import gcd, is_same, whole


@dataclass(frozen=True, eq=False, slots=True)
class LoopAxis:
    """A loop variable that runs from 0 to its extent.

    Of several sizes it is the same as another one if it is that for all of them.
    """

    name: str
    extent: Any  # an int, or a Parameter once the kernel has no concrete sizes

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not LoopAxis or self.name != other.name:
            return False
        return is_same(self.extent, other.extent)

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class IndexParameter:
    """An integer the machine code reads from its arguments, by the number of its slot,
    plus one that is structure."""

    slot: int
    plus: int = 0


@dataclass(frozen=True, slots=True)
class Quotient:
    """The floor of `index / divisor` where that is no linear form."""

    index: Index
    divisor: Any


@dataclass(frozen=True, slots=True)
class Remainder:
    """`index` modulo `divisor` where that is no linear form."""

    index: Index
    divisor: Any


@dataclass(frozen=True, slots=True)
class Datum:
    """An integer computed by an expression, known to lie in 0 .. extent - 1."""

    value: Any
    extent: Any


Atom = Union[LoopAxis, Quotient, Remainder, Datum]  # noqa: UP007 (names not yet defined)


@dataclass(frozen=True, eq=False, slots=True)
class Index:
    """`constant` plus the sum of coefficient times atom; the order does not count.

    >>> i, j = Index.of(LoopAxis("i", 4)), Index.of(LoopAxis("j", 3))
    >>> flat = i * 3 + j
    >>> flat // 3 == i, flat % 3 == j, (flat + 6) // 3 == i + 2
    (True, True, True)
    """

    terms: tuple[tuple[Atom, Any], ...] = ()
    constant: Any = 0
    _hash: int = field(default=0, init=False, repr=False)  # 0: not known yet

    @staticmethod
    def of(x: Any) -> Index:
        """The index of an atom or an integer; an axis of one step is 0."""
        if isinstance(x, Index):
            return x
        if isinstance(x, (LoopAxis, Datum)):
            return Index() if x.extent == 1 else Index(((x, 1),))
        if isinstance(x, (Quotient, Remainder)):
            return Index(((x, 1),))
        return Index((), whole(x))

    @staticmethod
    def combined(parts: Sequence[Index], factors: Sequence[int]) -> Index:
        """The sum of indices, each times an integer."""
        terms: dict[Any, Any] = {}
        constant = 0
        for i, factor in zip(parts, factors, strict=True):
            constant += i.constant * factor
            for atom, c in i.terms if factor else ():
                if not isinstance(atom, LoopAxis):  # it may meet what it is a part of
                    pairs = zip(parts, factors, strict=True)
                    return sum((j * n for j, n in pairs), start=Index())
                terms[atom] = terms.get(atom, 0) + c * factor
        return Index(tuple([(a, c) for a, c in terms.items() if c != 0]), constant)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Index) or self.constant != other.constant:
            return False
        return self.terms == other.terms or dict(self.terms) == dict(other.terms)

    def __hash__(self) -> int:
        if not self._hash:
            hash_value = hash((frozenset(self.terms), self.constant))
            object.__setattr__(self, "_hash", hash_value)
        return self._hash

    def __add__(self, other: Any) -> Index:
        other = Index.of(other)
        if not other.terms:
            return Index(self.terms, self.constant + other.constant)
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + c
        terms = tuple((atom, c) for atom, c in total.items() if c != 0)
        result = Index(terms, self.constant + other.constant)
        for atom, c in terms:
            if isinstance(atom, Remainder):
                whole = Quotient(atom.index, atom.divisor)
                if total.get(whole) == c * atom.divisor:  # x // n * n + x % n = x
                    rest = tuple(t for t in terms if t[0] not in (atom, whole))
                    return Index(rest, result.constant) + atom.index * c
        return result

    __radd__ = __add__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Any) -> Index:
        return self + Index.of(other) * -1

    def __rsub__(self, other: Any) -> Index:
        return Index.of(other) + self * -1

    def __mul__(self, factor: Any) -> Index:
        factor = whole(factor)
        if not factor:
            return Index()
        terms = tuple((atom, c * factor) for atom, c in self.terms)
        return Index(terms, self.constant * factor)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Any) -> Index:
        return self._divided(whole(divisor))[0]

    def __mod__(self, divisor: Any) -> Index:
        return self._divided(whole(divisor))[1]

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value it takes."""
        low = high = self.constant
        for atom, c in self.terms:
            a, b = _bounds(atom)
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return low, high

    def _divided(self, n: int) -> tuple[Index, Index]:
        """Quotient and remainder by a positive integer."""
        # What sizes alone tell to be no multiple is right as a part, if it is one too.
        rests = [(atom, c, c % n) for atom, c in self.terms]
        whole = tuple((atom, c // n) for atom, c, rest in rests if is_same(rest, 0))
        part = tuple((atom, c) for atom, c, rest in rests if not is_same(rest, 0))
        quotient = Index(whole, self.constant // n)
        rest = Index(part, self.constant % n)
        low, high = rest.bounds()
        if low >= 0 and high < n:
            return quotient, rest
        if low < 0:  # no negative coefficient: then neither part is ever negative
            whole += tuple((atom, c // n) for atom, c in part)
            part = tuple((atom, c % n) for atom, c in part)
            quotient = Index(whole, self.constant // n) + 0
            rest = Index(part, self.constant % n)
        # A common factor of what is left and of n divides out of the quotient.
        common = gcd(n, *[c for _, c in rest.terms])
        if common > 1 and rest.constant % common == 0:
            scaled = Index(
                tuple((atom, c // common) for atom, c in rest.terms),
                rest.constant // common,
            )
            above, below = scaled._divided(n // common)
            return quotient + above, below * common
        return (
            quotient + Index.of(Quotient(rest, n)),
            Index.of(Remainder(rest, n)),
        )

    def coefficient(self, axis: LoopAxis) -> Any:
        """The stride along `axis`; 0 where it does not occur."""
        for atom, c in self.terms:
            if atom == axis:
                return c
        return 0

    def axes(self) -> list[LoopAxis]:
        """The axes it depends on, those inside quotients included."""
        axes: list[LoopAxis] = []
        for atom, _ in self.terms:
            if isinstance(atom, LoopAxis):
                axes.append(atom)
            elif isinstance(atom, (Quotient, Remainder)):
                axes += atom.index.axes()
        return axes

    def data(self) -> list[Any]:
        """The expressions it reads."""
        expressions: list[Any] = []
        for atom, _ in self.terms:
            if isinstance(atom, Datum):
                expressions.append(atom.value)
            elif isinstance(atom, (Quotient, Remainder)):
                expressions += atom.index.data()
        return expressions

    def data_mapped(self, value: Callable[[Any], Any]) -> Index:
        """The index with each expression it reads replaced."""
        terms = []
        for atom, c in self.terms:
            if isinstance(atom, Datum):
                atom = Datum(value(atom.value), atom.extent)
            elif isinstance(atom, (Quotient, Remainder)):
                atom = type(atom)(atom.index.data_mapped(value), atom.divisor)
            terms.append((atom, c))
        return Index(tuple(terms), self.constant)

    def replaced(self, by: Mapping[LoopAxis, Index]) -> Index:
        """The index with axes replaced by indices, simplified again."""
        if not any(axis in by for axis in self.axes()):
            return self
        total = Index((), self.constant)
        for atom, c in self.terms:
            if isinstance(atom, LoopAxis):
                total += by.get(atom, Index.of(atom)) * c
            elif isinstance(atom, Quotient):
                total += atom.index.replaced(by) // atom.divisor * c
            elif isinstance(atom, Remainder):
                total += atom.index.replaced(by) % atom.divisor * c
            else:
                total += Index(((atom, c),))
        return total

    def value(self, at: Mapping[LoopAxis, Any], datum: Any = None) -> Any:
        """Its value where axes have these integers (or arrays of them)."""
        total: Any = self.constant
        for atom, c in self.terms:
            if isinstance(atom, LoopAxis):
                value = at[atom]
            elif isinstance(atom, Quotient):
                value = atom.index.value(at, datum) // atom.divisor
            elif isinstance(atom, Remainder):
                value = atom.index.value(at, datum) % atom.divisor
            else:
                value = datum(atom.value)
            total = total + value * c
        return total

    def __str__(self) -> str:
        parts = []
        for atom, c in self.terms:
            text = _written(atom)
            parts.append(text if c == 1 else f"{text}*{size_text(c)}")
        if self.constant != 0 or not parts:
            parts.append(size_text(self.constant))
        return " + ".join(parts)


def _bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, (LoopAxis, Datum)):
        return 0, max(atom.extent - 1, 0)
    if isinstance(atom, Remainder):
        return 0, atom.divisor - 1
    low, high = atom.index.bounds()
    return low // atom.divisor, high // atom.divisor


def size_text(x: Any) -> str:
    """A size as text: a number, or that of a slot."""
    if not isinstance(x, IndexParameter):
        return str(x)
    return f"n{x.slot} + {x.plus}" if x.plus else f"n{x.slot}"


def _written(atom: Atom) -> str:
    if isinstance(atom, LoopAxis):
        return atom.name
    if isinstance(atom, Datum):
        return f"[{atom.value}]"
    sign = "//" if isinstance(atom, Quotient) else "%"
    return f"(({atom.index}) {sign} {size_text(atom.divisor)})"
