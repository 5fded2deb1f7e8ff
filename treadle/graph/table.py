"""The table that methods of tensors look their functions up in, by name.

The table is filled by the layers below (`ops/`, `autodiff/`, `runtime/`), so the graph
needs no import of theirs and a new op reaches the user in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Table:
    """Functions by name; a missing one says which."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no layer has provided the function {name!r}")


functions: Any = Table()


def provide(function: F) -> F:
    """Put a function into the table under its own name."""
    setattr(functions, function.__name__, function)
    return function
