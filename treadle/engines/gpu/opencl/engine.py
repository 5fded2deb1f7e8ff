"""The engine "opencl": the GPU engine on the first OpenCL device there is."""

from __future__ import annotations

from treadle.base.errors import OptionError
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.opencl.driver import OpenClDriver, devices


def driver() -> DeviceDriver:
    """The driver of the first device, or OptionError where there is none."""
    found = devices()
    if not found:
        raise OptionError(
            "there is no OpenCL device",
            hint="install a driver, such as Debian's pocl-opencl-icd for processors",
        )
    return OpenClDriver(found[0][0])


provide("opencl", driver)
