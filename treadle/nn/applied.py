"""Layers that apply a function of one tensor, with settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from treadle.graph.tensor import Tensor
from treadle.nn.module import Module

Layer = TypeVar("Layer", bound=Module)


@dataclass_transform(eq_default=False)
def settings(cls: type[Layer]) -> type[Layer]:
    """Make the annotated names of a layer its settings: arguments and attributes."""
    layer: Any = dataclass(eq=False, repr=False)(cls)
    layer._settings = tuple(f.name for f in fields(layer))
    return layer


class Applied(Module):
    """A layer of a function; its constants stand in the line of its class."""

    function: ClassVar[Any]
    _settings: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, function: Any = None, **constants: Any) -> None:
        super().__init_subclass__()
        if function is not None:
            cls.function = staticmethod(function)
        for name, value in constants.items():
            setattr(cls, name, value)


class FunctionLayer(Applied):
    """A function applied to a tensor; settings of the class are its other arguments."""

    def forward(self, x: Any) -> Tensor:
        return self.function(x, *[getattr(self, name) for name in self._settings])

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._settings)
