"""The engine "opencl": the GPU engine on the OpenCL devices there are."""

from __future__ import annotations

from treadle.engines.gpu.devices import numbered
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.opencl.driver import OpenClDriver, devices

HINT = "install a driver, such as Debian's pocl-opencl-icd for processors"


def driver(number: int) -> DeviceDriver:
    """The driver of a device, or OptionError where there is none."""
    return OpenClDriver(numbered("OpenCL", devices(), number, HINT))


provide("opencl", driver)
