"""The engine "webgpu": the GPU engine on the WebGPU devices there are."""

from __future__ import annotations

from treadle.engines.gpu.devices import numbered
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.webgpu.driver import WebGpuDriver, devices

HINT = "install a driver of Vulkan, such as Debian's mesa-vulkan-drivers"


def driver(number: int) -> DeviceDriver:
    """The driver of a device, or OptionError where there is none."""
    return WebGpuDriver(numbered("WebGPU", devices(), number, HINT))


provide("webgpu", driver)
