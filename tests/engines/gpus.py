"""The devices that tests of the GPU engine run on: those that are there."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Any

import pytest

from treadle.base.errors import TreadleError
from treadle.engines.base import engine
from treadle.engines.gpu.engine import Gpu

NAMES = ("opencl", "webgpu")
MODULES = {"opencl": "pyopencl", "webgpu": "wgpu"}


@cache
def missing(name: str) -> str:
    """Why an engine has no device here; nothing where it has one."""
    if importlib.util.find_spec(MODULES[name]) is None:
        return f"{MODULES[name]} is not installed"
    try:
        engine(name)
    except TreadleError as error:
        return error.message
    return ""


def gpu(name: str) -> Gpu:
    """The engine of a name, which tests look into."""
    found: Any = engine(name)
    assert isinstance(found, Gpu)
    return found


def needs_gpu(name: str) -> Any:
    """A parameter for an engine, skipped in sight of all where it has no device; its
    driver is started by the first test that runs, not where tests are collected."""
    return pytest.param(name, marks=pytest.mark.gpu(name))


GPUS = [needs_gpu(name) for name in NAMES]
