"""Layers that apply a function of one tensor, with settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform

from treadle.graph.tensor import Tensor
from treadle.nn.linear import above_zero
from treadle.nn.module import Module


class Applied(Module):
    """A layer of a function; its constants stand in the line of its class."""

    function: ClassVar[Any]

    def __init_subclass__(cls, *, function: Any = None, **constants: Any) -> None:
        super().__init_subclass__()
        if function is not None:
            cls.function = staticmethod(function)
        for name, value in constants.items():
            setattr(cls, name, value)


@dataclass_transform(eq_default=False)
class Configured(Applied):
    """A layer whose annotated names are its settings: arguments and attributes."""

    _settings: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **constants: Any) -> None:
        super().__init_subclass__(**constants)
        if "__annotations__" in vars(cls):
            layer: Any = dataclass(eq=False, repr=False)(cls)
            cls._settings = tuple(f.name for f in fields(layer))


class FunctionLayer(Configured):
    """A function applied to a tensor; settings of the class are its other arguments.

    Those named in `extents` are from 1 up; text shows those in `shown`, or else all.
    """

    extents: ClassVar[str] = ""
    shown: ClassVar[str] = ""

    def __post_init__(self, *unused: Any) -> None:
        above_zero(**{name: getattr(self, name) for name in self.extents.split()})

    def forward(self, x: Any) -> Tensor:
        return self.function(x, *[getattr(self, name) for name in self._settings])

    def extra_repr(self) -> str:
        names = self.shown.split() or self._settings
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


class TrainedDifferently(FunctionLayer):
    """A FunctionLayer whose function has another last argument: `training`."""

    def forward(self, x: Any) -> Tensor:
        settings = [getattr(self, name) for name in self._settings]
        return self.function(x, *settings, self.training)
