"""Programs of one kind, each of which serves the sizes that its guards admit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

FAILED = 3  # so many programs for one size alone, and no more are tried

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
