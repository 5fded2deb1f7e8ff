"""Polynomials with whole coefficients in a normal form: what symbolic integers are.

A form is a sorted tuple of pairs: a monomial, which is a sorted tuple of the numbers of
atoms, and its coefficient. Equal polynomials are equal tuples.

>>> x, y = atom(0), atom(1)
>>> total(product(x, y), product(y, x), -1), quotient(product(x, y), y) == x
((), True)
"""

from __future__ import annotations

from collections.abc import Mapping

Form = tuple[tuple[tuple[int, ...], int], ...]


def atom(number: int) -> Form:
    """The form of one atom."""
    return (((number,), 1),)


def whole(value: int) -> Form:
    """The form of an integer."""
    return (((), value),) if value else ()


def constant(form: Form) -> int | None:
    """The integer that a form is; None where it has atoms."""
    if not form:
        return 0
    return form[0][1] if len(form) == 1 and not form[0][0] else None


def total(x: Form, y: Form, factor: int = 1) -> Form:
    """The sum of a form and so many times another one."""
    terms = dict(x)
    for m, c in y:
        terms[m] = terms.get(m, 0) + factor * c
    return _normal(terms)


def product(x: Form, y: Form) -> Form:
    """The product of two forms."""
    terms: dict[tuple[int, ...], int] = {}
    for m, c in x:
        for n, d in y:
            key = tuple(sorted(m + n))
            terms[key] = terms.get(key, 0) + c * d
    return _normal(terms)


def quotient(x: Form, y: Form) -> Form | None:
    """The quotient, if it is one without a rest whatever the atoms are."""
    if x == y or not x:
        return whole(1) if x else x
    if len(y) != 1:
        return _multiple(x, y)
    terms: dict[tuple[int, ...], int] = {}
    (divisor, c) = y[0]
    for m, d in x:
        left = list(m)
        for a in divisor:
            if a not in left:
                return None
            left.remove(a)
        if d % c:
            return None
        terms[tuple(left)] = d // c
    return _normal(terms)


def _multiple(x: Form, y: Form) -> Form | None:
    """What of one term y is multiplied by to be x."""
    if len(x) != len(y):
        return None
    for term in x:
        factor = quotient((term,), y[:1])
        if factor is not None and product(y, factor) == x:
            return factor
    return None


def replaced(x: Form, number: int, by: Form) -> Form:
    """A form with another one in the place of an atom."""
    result = tuple([(m, c) for m, c in x if number not in m])
    for m, c in x:
        if number in m:
            term: Form = ((tuple([a for a in m if a != number]), c),)
            for _ in range(m.count(number)):
                term = product(term, by)
            result = total(result, term)
    return result


def substituted(x: Form, known: Mapping[int, Form]) -> Form:
    """A form without the atoms that other forms are known for."""
    while known:
        atoms = {a for m, _ in x for a in m if a in known}
        if not atoms:
            break
        for a in atoms:
            x = replaced(x, a, known[a])
    return x


def solved(x: Form) -> tuple[int, Form] | None:
    """The newest atom that a form is 0 for one value of, and that; None if there is no
    such atom.
    """
    for m, c in sorted(x, reverse=True):
        alone = len(m) == 1 and all(n == m or m[0] not in n for n, _ in x)
        if alone and not any(d % c for _, d in x):
            return m[0], tuple([(n, -d // c) for n, d in x if n != m])
    return None


def remainder(x: Form, by: int) -> Form:
    """A form that leaves the same remainder by an integer, with fewer terms."""
    return _normal({m: c % by for m, c in x})


def decided(sign: str, low: float, high: float) -> bool:
    """Return True if the bounds of a form tell how it compares with 0."""
    if sign in ("==", "!="):
        return low > 0 or high < 0
    if sign in ("<", ">="):  # 0 is on the side of what is greater
        return low >= 0 or high < 0
    return low > 0 or high <= 0


def _normal(terms: dict[tuple[int, ...], int]) -> Form:
    return tuple(sorted([(m, c) for m, c in terms.items() if c]))
