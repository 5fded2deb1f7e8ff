"""Layers that apply a function of one tensor, with settings."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from treadle.graph.tensor import Tensor
from treadle.nn.module import Module

__all__ = ["Applied", "settings"]

Layer = TypeVar("Layer", bound=Module)


@dataclass_transform(eq_default=False)
def settings(cls: type[Layer]) -> type[Layer]:
    """Make the annotated names of a layer its settings: arguments and attributes."""
    return dataclass(eq=False, repr=False)(cls)


@settings
class Applied(Module):
    """A function applied to a tensor; fields of the class are its further arguments."""

    function: ClassVar[Any]

    def forward(self, x: Any) -> Tensor:
        return self.function(x, *self._settings().values())

    def extra_repr(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in self._settings().items())

    def _settings(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}
