"""The machine code is generated for, and how many cores this process may use."""

from __future__ import annotations

import _thread
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType

import llvmlite.binding as llvm

from treadle.base.caches import cached
from treadle.base.errors import OptionError

# The levels of the x86-64 psABI, each with what it adds to the one before.
_SECOND = "cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3"
_THIRD = "avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
_FOURTH = "avx512f avx512bw avx512cd avx512dq avx512vl"
_BASE = "cmov cx8 fxsr mmx sse sse2 64bit"
_LEVELS = {
    "x86-64": _BASE,
    "x86-64-v2": f"{_BASE} {_SECOND}",
    "x86-64-v3": f"{_BASE} {_SECOND} {_THIRD}",
    "x86-64-v4": f"{_BASE} {_SECOND} {_THIRD} {_FOURTH}",
}


@dataclass(frozen=True)
class Host:
    """Target triple, CPU and features as LLVM writes them ("+avx2,-avx512f,...").

    vector_bytes: of the widest vector registers in use: 64, 32 or 16.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int

    def has(self, feature: str) -> bool:
        """Whether code may use a feature, by LLVM's name for it."""
        return f"+{feature}" in self.features.split(",")


def host() -> Host:
    """This machine, narrowed by the environment variable TREADLE_CPU.

    TREADLE_CPU is empty, "generic" or a level of x86-64 ("x86-64-v3"): features the
    level lacks are not used; features the machine lacks never are.
    """
    return _host(os.environ.get("TREADLE_CPU", ""))


@cached(16)
def _host(name: str) -> Host:
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    cpu = llvm.get_host_cpu_name()
    intel = triple.startswith(("x86_64", "amd64"))
    known = sorted(_LEVELS) if intel else []
    if name and name != "generic" and name not in known:
        raise OptionError(
            f"TREADLE_CPU={name!r} is no level of this machine",
            hint=f"levels: {', '.join(['generic', *known])}; empty for all features",
        )
    if name and intel:
        kept = _LEVELS["x86-64" if name == "generic" else name].split()
        cpu = "x86-64"
        features = llvm.FeatureMap({f: on and f in kept for f, on in features.items()})
    elif name:
        cpu, features = "generic", llvm.FeatureMap()
    width = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return Host(triple, cpu, features.flatten(), width)


def has_threads() -> bool:
    """Whether a thread that starts runs beside this one: libraries of lighter threads
    (gevent, eventlet) put functions of their own in the place of Python's.
    """
    return isinstance(_thread.start_new_thread, BuiltinFunctionType)


def cores() -> int:
    """The cores this process may use, at least 1.

    The least of its CPU affinity, the CPU quotas of its control groups (whole cores:
    a quota overrun by spinning threads stops all of them) and OMP_NUM_THREADS.
    """
    if hasattr(os, "sched_getaffinity"):
        counts = [len(os.sched_getaffinity(0))]
    else:
        counts = [os.cpu_count() or 1]
    counts += [
        int(q) for q in _quotas(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    ]
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted):
        counts.append(int(wanted))
    return max(1, min(counts))


def _quotas(groups: Path, mount: Path) -> Iterator[float]:
    """CPU quotas in cores, of the process's control groups and all above them.

    groups: lines "number:controllers:path"; no controllers is version 2, one tree at
    `mount`; version 1 has a tree of its own at `mount`/controllers.
    """
    for line in _read(groups).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        tree = mount / controllers if controllers else mount
        if controllers and not tree.is_dir():
            tree = mount / "cpu"
        place = tree / path.lstrip("/")
        while True:
            quota = _quota(place)
            if quota is not None:
                yield quota
            if place == tree or tree not in place.parents:
                break
            place = place.parent


def _quota(group: Path) -> float | None:
    """The quota of one control group in cores; None where it has none."""
    words = _read(group / "cpu.max").split()  # version 2: "max 100000", "150000 100000"
    if not words:
        quota = _read(group / "cpu.cfs_quota_us").strip()  # version 1: -1 for none
        words = [quota, _read(group / "cpu.cfs_period_us").strip()]
    if len(words) == 2 and all(w.isdecimal() for w in words) and int(words[1]):
        return int(words[0]) / int(words[1])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
