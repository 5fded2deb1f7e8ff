"""`treadle info`: this machine, what is installed and chosen, what is kept."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Iterator
from typing import Any

import llvmlite
import numpy as np

from treadle import __version__
from treadle.base import dtypes
from treadle.base.options import SETTINGS, current, engines
from treadle.base.sizes import as_text
from treadle.cli.parser import command, show
from treadle.engines.base import engine
from treadle.engines.gpu.devices import devices
from treadle.engines.native.system.host import cores, host
from treadle.runtime.lower import cache_info
from treadle.train.networks import NETWORKS, OPTIMIZERS

EXTRAS = ("scipy", "safetensors", "ml_dtypes")


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(
        commands, "info", "the machine, versions, engines, dtypes, options, caches"
    )
    parser.set_defaults(run=info)


def memory_of_machine() -> str:
    """The memory of this machine, where the system tells."""
    try:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return "unknown"
    return as_text(pages)


def versions() -> Iterator[str]:
    """Optional packages with their versions."""
    for name in EXTRAS:
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"no {name}"


def info(arguments: argparse.Namespace) -> int:
    """Show it all, a row for each."""
    chosen, machine, kept = current(), host(), cache_info(disk=True)
    files = f"{kept.disk_files:,} files, {as_text(kept.disk_bytes)}"
    rows = {
        "treadle": __version__,
        "python": f"{platform.python_version()} on {platform.machine()}",
        "packages": ", ".join(
            [f"numpy {np.__version__}", f"llvmlite {llvmlite.__version__}", *versions()]
        ),
        "processor": f"{machine.cpu}, vectors of {machine.vector_bytes} bytes",
        "cores": f"{cores()} to be used, of {os.cpu_count()}",
        "memory": memory_of_machine(),
        "engine": engine(chosen.engine).name,
        "engines": ", ".join(engines()),
        "devices": ", ".join(devices()) or "none but the processor",
        "networks": ", ".join(NETWORKS),
        "optimizers": ", ".join(OPTIMIZERS),
        "dtypes": ", ".join(dtype.name for dtype in dtypes.ALL),
        "options": ", ".join(f"{name}={getattr(chosen, name)}" for name in SETTINGS),
        "cache": f"{files} in {kept.disk}" if kept.disk else "none on disk",
    }
    show(rows.items(), wrap=True)
    return 0
