"""Programs of one kind, each of which serves the sizes that its guards admit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from treadle.base.symbolic.integers import SymbolicTrace

FAILED = 3  # so many programs for one size alone, and no more are tried
NEAR = 2  # an extent is so many times another one and so many, where it always was

Extents = tuple[int, ...]

_Variant = TypeVar("_Variant")
_Found = TypeVar("_Found")


class Variants(Generic[_Variant]):
    """Programs for many sizes, the one that served last first."""

    def __init__(self, most: int) -> None:
        """No more than `most` are made."""
        self.most = most
        self.all: list[_Variant] = []
        self.failed: list[Exception] = []

    def find(self, at: Callable[[_Variant], _Found | None]) -> _Found | None:
        """The result of `at` for the first variant that has one."""
        for variant in self.all:
            result = at(variant)
            if result is not None:
                if variant is not self.all[0]:  # the next size may be like this one
                    self.all = [variant, *(x for x in self.all if x is not variant)]
                return result
        return None

    def add(
        self, make: Callable[[], _Variant], at: Callable[[_Variant], _Found | None]
    ) -> _Found | None:
        """The result of `at` for one more variant; None where none can be made."""
        if len(self.failed) >= FAILED or len(self.all) >= self.most:
            return None
        try:
            variant = make()
            result = at(variant)
            assert result is not None, "it does not serve the sizes it is made for"
        except Exception as error:  # whatever cannot be done with symbolic sizes
            # Its frames would keep the graph, with all values.
            self.failed.append(error.with_traceback(None))
            error.__context__ = error.__cause__ = None
            return None
        self.all = [variant, *self.all]
        return result


def alike(
    seen: Sequence[Extents],
) -> tuple[list[int], list[tuple[int | None, int, int]]]:
    """Which extents are symbols; and of each extent which of them it is, how many times
    and how much more, or None where it never moved.
    """
    columns = list(zip(*seen, strict=True))
    symbols: list[int] = []
    like: list[tuple[int | None, int, int]] = []
    for k, column in enumerate(columns):
        if len(set(column)) == 1:
            like.append((None, 1, 0))
            continue
        pairs = ((j, _linear(columns[j], column)) for j in symbols)
        known = next(((j, *x) for j, x in pairs if x is not None), None)
        if known is None:
            symbols.append(k)
        like.append(known or (k, 1, 0))
    return symbols, like


def _linear(xs: Extents, ys: Extents) -> tuple[int, int] | None:
    """The factor of x and the term added that always gave y; None unless y is so many
    times x + k, of a small k.
    """
    before = next(k for k, x in enumerate(xs) if x != xs[-1])
    x, y = (v[-1] - v[before] for v in (xs, ys))
    if y % x or y // x < 1:
        return None
    times = y // x
    more = ys[0] - times * xs[0]
    if more % times or abs(more // times) > NEAR:
        return None
    same = all(b == times * a + more for a, b in zip(xs, ys, strict=True))
    return (times, more) if same else None


def opened(
    here: Extents, places: Sequence[int], like: Sequence[tuple[int | None, int, int]]
) -> tuple[SymbolicTrace, list[Any]]:
    """A trace for some extents, and these, symbolic where they are `alike` so."""
    trace = SymbolicTrace([here[k] for k in places])
    symbols = dict(zip(places, trace.symbols, strict=True))
    return trace, [
        n if k is None else symbols[k] if k == at else symbols[k] * times + more
        for at, (n, (k, times, more)) in enumerate(zip(here, like, strict=True))
    ]
