"""The devices that there are, and the engines that run on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from treadle.base.errors import MissingExtraError, OptionError, RunError
from treadle.engines.gpu.cuda import driver as cuda
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.host import HostDriver
from treadle.engines.gpu.opencl import driver as opencl
from treadle.engines.gpu.webgpu import driver as webgpu


class Api(NamedTuple):
    """An interface of devices: how those there are are found, with their names, and
    the driver of one made; a hint for where there is none."""

    title: str
    find: Callable[[], list[tuple[Any, str]]]
    driver: Callable[[Any], DeviceDriver]
    hint: str = ""


APIS = {
    "cuda": Api("CUDA", cuda.devices, cuda.driver_of),
    "opencl": Api(
        "OpenCL",
        opencl.devices,
        opencl.OpenClDriver,
        "install a driver, such as Debian's pocl-opencl-icd for processors",
    ),
    "webgpu": Api(
        "WebGPU",
        webgpu.devices,
        webgpu.WebGpuDriver,
        "install a driver of Vulkan, such as Debian's mesa-vulkan-drivers",
    ),
}


def devices() -> Iterator[str]:
    """The engine and the name of each device; engines without their extra, or without
    a driver, have none."""
    for name, api in APIS.items():
        try:
            pairs = api.find()
        except (MissingExtraError, RunError):
            continue
        for k, (_, device) in enumerate(pairs):
            yield f"{name}:{k} {device}"


def _driver(api: Api, number: int) -> DeviceDriver:
    """The driver of the device of a number; OptionError where there is none."""
    pairs = api.find()
    if number < len(pairs):
        return api.driver(pairs[number][0])
    names = ", ".join(f"{k} is {name}" for k, (_, name) in enumerate(pairs))
    which = f"number {number}" if pairs else "device"
    raise OptionError(f"there is no {api.title} {which}", hint=names or api.hint)


for _name, _api in APIS.items():
    provide(_name, partial(_driver, _api))
provide("device", lambda number: HostDriver())
