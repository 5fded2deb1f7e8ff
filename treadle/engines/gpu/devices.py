"""The devices that the drivers find, without an engine being made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from treadle.base.errors import MissingExtraError, OptionError, RunError
from treadle.engines.gpu.cuda import driver as cuda
from treadle.engines.gpu.opencl import driver as opencl
from treadle.engines.gpu.webgpu import driver as webgpu

FINDERS: dict[str, Callable[[], list[tuple[Any, str]]]] = {
    "cuda": cuda.devices,
    "opencl": opencl.devices,
    "webgpu": webgpu.devices,
}


def numbered(
    api: str, devices: Sequence[tuple[Any, str]], number: int, hint: str = ""
) -> Any:
    """The device of a number; OptionError with a `hint` where there is none."""
    if number < len(devices):
        return devices[number][0]
    names = ", ".join(f"{k} is {name}" for k, (_, name) in enumerate(devices))
    which = f"number {number}" if devices else "device"
    raise OptionError(f"there is no {api} {which}", hint=names or hint)


def devices() -> Iterator[str]:
    """The engine and the name of each device; engines without their extra, or without
    a driver, have none."""
    for name, find in FINDERS.items():
        try:
            pairs = find()
        except (MissingExtraError, RunError):
            continue
        for k, (_, device) in enumerate(pairs):
            yield f"{name}:{k} {device}"
