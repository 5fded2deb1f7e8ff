"""Callables with notes of their own: the innermost module names its nodes, and the
errors of making them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import update_wrapper
from types import FrameType
from typing import Any

from treadle.base.boundary import shorten
from treadle.base.errors import TreadleError, layers
from treadle.graph.tensor import Notes
from treadle.graph.thread import native_calls, thread_state

__tracebackhide__ = True  # of frames here, by pytest


class Noted:
    """A call is one of `forward`, and what that makes carries the notes of its object.

    Pictures put the nodes of one object in a box, by its `_path`.
    """

    _path: str
    _notes: tuple[Any, Any, Any]  # as scope around, path, and what its nodes carry
    forward: Callable[..., Any]
    extra_repr: Callable[[], str]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = thread_state()
        before = state.notes
        around, path, notes = self._notes
        if around is not before or path is not self._path:
            name = self._path or type(self).__name__
            notes = Notes(before or (), module=name)
            self.__dict__["_notes"] = before, self._path, notes
        state.notes = notes
        try:
            # Without keywords a call takes a tenth less.
            return self.forward(*args, **kwargs) if kwargs else self.forward(*args)
        except TreadleError as error:
            shorten(error)
            raise
        finally:
            state.notes = before


if native_calls is not None:  # it enters what is known and leaves others to this
    entered = native_calls.entered(Noted.__call__)
    Noted.__call__ = update_wrapper(entered, Noted.__call__)  # type: ignore[method-assign]


def layer() -> str:
    """The innermost layer that is being computed: path = Kind(settings)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward":
            owner = frame.f_locals.get("self")
            if isinstance(owner, Noted):
                said = f"{type(owner).__name__}({owner.extra_repr()})"
                return f"{owner._path} = {said}" if owner._path else said
        frame = frame.f_back
    return ""


layers.append(layer)
