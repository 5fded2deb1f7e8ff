"""The marks of new nodes: what is made without gradients is told from the rest."""

from __future__ import annotations

from typing import Any

from treadle.base.options import Modes, modes
from treadle.core import native

# The mark of nodes made without gradients; as any, it is replaced, never changed.
NO_GRAD: dict[str, Any] = {"no_grad": True}
# The mark of what lies in data: whoever trains Variables has nothing to do behind it.
PART: dict[str, Any] = {"carried": False}
_scopes = 0  # without gradients, in any task


def count_scopes(count: int) -> None:
    """Know how many scopes without gradients there are, in all tasks: outside of them
    nothing is asked."""
    global _scopes
    _scopes = count
    if native is not None:
        native.count_scopes(count)


def new_mark() -> dict[str, Any] | None:
    """The mark of a node that this task makes now."""
    return NO_GRAD if _scopes and modes.get().no_grad else None


if native is not None:
    native.bind_scopes(modes, Modes, NO_GRAD)
