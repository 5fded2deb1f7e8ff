"""The table that methods of tensors look their functions up in, by name.

The table is filled by the layers below (`ops/`, `autodiff/`, `runtime/`), so the graph
needs no import of theirs and a new op reaches the user in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from treadle.base.locks import imported

F = TypeVar("F", bound=Callable[..., Any])

# Modules that `import treadle` leaves out and what they provide once asked for it.
LATER = {
    "judge": "treadle.rewrite.checked",
    "mismatch": "treadle.rewrite.checked",
    "rerolled": "treadle.runtime.rows",
    "run_as_rows": "treadle.runtime.rows",
    "stabilized": "treadle.rewrite.simplify",
}


class Table:
    """Functions by name; a missing one says which."""

    def __getattr__(self, name: str) -> Any:
        if name in LATER:
            imported(LATER[name])
            return vars(self)[name]
        raise AttributeError(f"no layer has provided the function {name!r}")


functions: Any = Table()


def provide(function: F) -> F:
    """Put a function into the table under its own name."""
    setattr(functions, function.__name__, function)
    return function
