"""Guards on one symbol as an interval and exceptions: one test for all of them."""

from __future__ import annotations

import operator

from treadle.base.symbolic.forms import Form

__all__ = ["Bounds"]

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class Bounds:
    """Between what a symbol lies, ends included, and what it is not.

    >>> bounds = Bounds()
    >>> bounds.take((((), -7), ((0,), 2)), "<", True), bounds.test("n")  # 2n - 7 < 0
    (True, 'n > 3')
    >>> bounds.take((((), -2), ((0,), 1)), "==", False), bounds.test("n")
    (True, 'n > 3 or n == 2')
    """

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None
        self.never: set[int] = set()

    def take(self, form: Form, sign: str, holds: bool) -> bool:
        """Know that so many times the symbol and more compares so with 0; whether that
        says no more than bounds do.
        """
        by = dict(form)
        more = by.pop((), 0)
        (factor,) = by.values()
        sign = sign if holds else OPPOSITE[sign]
        if factor < 0:
            more, factor, sign = -more, -factor, FLIPPED[sign]
        if sign in ("==", "!="):
            value, rest = divmod(-more, factor)
            if rest:
                return False
            if sign == "!=":
                self.never.add(value)
            else:
                self._at_least(value)
                self._at_most(value)
        elif sign in ("<", "<="):
            self._at_most((-more - (sign == "<")) // factor)
        else:
            self._at_least(-((more - (sign == ">")) // factor))
        return True

    def _at_least(self, n: int) -> None:
        self.low = n if self.low is None else max(self.low, n)

    def _at_most(self, n: int) -> None:
        self.high = n if self.high is None else min(self.high, n)

    def test(self, name: str) -> str:
        """The text of whether a number is not so; empty where any is."""
        ends = (self.low, "<", operator.lt), (self.high, ">", operator.gt)
        tests = [f"{name} {sign} {end}" for end, sign, _ in ends if end is not None]
        known = [(end, beyond) for end, _, beyond in ends if end is not None]
        never = [
            n for n in sorted(self.never) if not any(out(n, end) for end, out in known)
        ]
        return " or ".join([*tests, *[f"{name} == {n}" for n in never]])
