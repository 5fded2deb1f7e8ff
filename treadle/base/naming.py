"""Names of Variables: those that users give, and numbered ones."""

from __future__ import annotations

import itertools
from typing import Any

from treadle.base.errors import ArgumentError

_numbers = itertools.count()


def named(name: Any, kind: str) -> str:
    """A name, or a numbered one of a kind where there is none; raises ArgumentError for
    what is no string: names are compared, sorted and written to files.

    >>> named("weight", "variable")
    'weight'
    """
    if not name and (name is None or isinstance(name, str)):
        return f"{kind}_{next(_numbers)}"
    if not isinstance(name, str):
        raise ArgumentError(
            f"the name of a {kind} is a string, not {name!r:.60}",
            hint="td.param(name, init=...) takes the name first",
        )
    return name
