"""The devices that the drivers find, without an engine being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from treadle.base.errors import MissingExtraError
from treadle.engines.gpu.opencl import driver as opencl
from treadle.engines.gpu.webgpu import driver as webgpu

__all__ = ["devices"]

FINDERS: dict[str, Callable[[], list[tuple[Any, str]]]] = {
    "opencl": opencl.devices,
    "webgpu": webgpu.devices,
}


def devices() -> Iterator[str]:
    """The engine and the name of each device; engines without their extra have none."""
    for name, find in FINDERS.items():
        try:
            found = find()
        except MissingExtraError:
            continue
        for _, own in found:
            yield f"{name}: {own}"
