"""Memory of this process as Linux counts it: resident now, and its peak."""

from __future__ import annotations

import gc
from pathlib import Path

__all__ = ["peak", "reset_peak", "resident"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def _field(name: str) -> float:
    """Megabytes (10^6) of a field of the status file."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"this system's /proc/self/status has no {name}")


def resident() -> float:
    """Megabytes resident now, after a collection."""
    gc.collect()
    return _field("VmRSS")


def reset_peak() -> None:
    """Let the peak begin again at what is resident now."""
    gc.collect()
    _CLEAR.write_text("5")


def peak() -> float:
    """The most megabytes resident since the last reset."""
    return _field("VmHWM")
