"""Errors that name the op, its operands, the user's line and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from treadle.base.notebook import brief_traceback

__all__ = [
    "ArgumentError",
    "ArityError",
    "AxisError",
    "CallError",
    "DTypeError",
    "DataFileError",
    "GradientError",
    "MissingExtraError",
    "ModelFileError",
    "OptionError",
    "OutOfMemoryError",
    "PartError",
    "RunError",
    "ShapeError",
    "StateError",
    "TraceError",
    "TreadleError",
    "UnboundError",
    "WorkspaceError",
]


# Finds the function the user called, its tensors and the user's line: graph/ gives it.
Account = tuple[str, str, str]
locators: list[Callable[[], Account]] = []
layers: list[Callable[[], str]] = []  # finds the layer that is computed: so does graph/


class TreadleError(Exception):
    """Base of every error Treadle raises on purpose.

    A rule raises it with a sentence and perhaps a `hint`; whoever knows the op, its
    operands and the user's line adds them with `located`. Where nobody does, the call
    that the user made tells them.
    """

    about_a_call: ClassVar[bool] = True

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.subject = ""
        self.operands = ""
        self.where = ""
        self.layer = ""
        self._call: Account = ("", "", "")
        if self.about_a_call and locators:
            self._call = locators[0]()
            self.layer = layers[0]() if layers else ""

    def located(self, subject: str, operands: str = "", where: str = "") -> Self:
        """Add what the raiser did not know; the innermost account stays."""
        self.subject = self.subject or subject
        self.operands = self.operands or operands
        self.where = self.where or where
        return self

    def __str__(self) -> str:
        subject, operands, where = self._call
        subject = self.subject or subject
        lines = [f"{subject}: {self.message}" if subject else self.message]
        if self.layer:
            lines.append(f"  in: {self.layer}")
        if self.operands or operands:
            lines.append(f"  operands: {self.operands or operands}")
        if self.where or where:
            lines.append(f"  at: {self.where or where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def _render_traceback_(self, *_: Any) -> list[str]:
        return brief_traceback(self)


class ShapeError(TreadleError, ValueError):
    """Shapes that do not fit an op."""


class DTypeError(TreadleError, TypeError):
    """A dtype an op does not take, or dtypes that do not mix."""


class AxisError(TreadleError, ValueError, IndexError):
    """An axis out of range, named twice, unknown or of another length."""


class ArityError(TreadleError, TypeError):
    """A wrong number of operands."""


class ArgumentError(TreadleError, ValueError):
    """An attribute outside its range."""


class CallError(ArgumentError, TypeError):
    """Arguments of a kind that a function does not take."""


class PartError(ArgumentError, IndexError):
    """No part of a container has this number."""


class GradientError(TreadleError, ValueError):
    """A derivative that does not exist or can no longer be taken."""


class StateError(TreadleError, RuntimeError):
    """A Variable used in a way its versions do not allow."""


class TraceError(TreadleError, TypeError):
    """Python that needs a value where only a graph is being built."""


class UnboundError(TreadleError, ValueError):
    """A placeholder that was given no value."""


class OptionError(TreadleError, ValueError):
    """An unknown option or a value it cannot take."""

    about_a_call = False


class RunError(TreadleError, RuntimeError):
    """A failure while a graph runs, with the node that caused it."""


class OutOfMemoryError(RunError, MemoryError):
    """Memory that the system does not give; for what was written at these `origins`."""

    origins: Sequence[Any] = ()


class WorkspaceError(TreadleError, MemoryError):
    """A graph does not run in the memory that the options allow.

    `needed` is the smallest workspace, in bytes, that it does run in.
    """

    needed: int = 0


class MissingExtraError(TreadleError, ImportError):
    """An optional package that is not installed."""

    about_a_call = False


class ModelFileError(TreadleError):
    """A model file that is wrong, truncated or does not fit the model."""

    about_a_call = False


class DataFileError(TreadleError):
    """A data file that is missing, wrong or truncated."""

    about_a_call = False
