"""The engine "webgpu": the GPU engine on the first WebGPU device there is."""

from __future__ import annotations

from treadle.base.errors import OptionError
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.webgpu.driver import WebGpuDriver, devices


def driver() -> DeviceDriver:
    """The driver of the first device, or OptionError where there is none."""
    found = devices()
    if not found:
        raise OptionError(
            "there is no WebGPU device",
            hint="install a driver of Vulkan, such as Debian's mesa-vulkan-drivers",
        )
    return WebGpuDriver(found[0][0])


provide("webgpu", driver)
