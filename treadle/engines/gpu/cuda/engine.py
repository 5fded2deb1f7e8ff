"""The engine "cuda": the GPU engine on NVIDIA's devices."""

from __future__ import annotations

from treadle.engines.gpu.cuda.driver import CudaDriver, devices
from treadle.engines.gpu.cuda.library import open_library
from treadle.engines.gpu.devices import numbered
from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import provide


def driver(number: int) -> DeviceDriver:
    """The driver of a device; an error in one sentence where there is none."""
    library = open_library()
    return CudaDriver(library, numbered("CUDA", devices(library), number))


provide("cuda", driver)
