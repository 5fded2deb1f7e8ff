"""The engine "cuda": the GPU engine on the first NVIDIA device there is."""

from __future__ import annotations

from treadle.engines.gpu.cuda.driver import open_driver
from treadle.engines.gpu.engine import provide

__all__: list[str] = []

provide("cuda", open_driver)
