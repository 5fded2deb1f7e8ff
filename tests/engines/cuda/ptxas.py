"""NVIDIA's assembler, where it is installed: what it says of a kernel."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from treadle.engines.gpu.cuda.builder import text_of
from treadle.engines.gpu.cuda.ptx import Architecture, architecture, ptx_of
from treadle.engines.gpu.work import Work

__all__ = ["OLD", "assembler", "problem", "problem_of"]

OLD = architecture((8, 0))


@cache
def assembler() -> str:
    """The path of ptxas: of a toolkit, or of a wheel; empty where there is none."""
    found = shutil.which("ptxas")
    if found:
        return found
    spec = importlib.util.find_spec("nvidia") if _has("nvidia") else None
    places = list(spec.submodule_search_locations or []) if spec else []
    wheels = [p for place in places for p in Path(place).rglob("bin/ptxas")]
    return str(wheels[0]) if wheels else ""


def _has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def problem(ptx: str, target: Architecture) -> str:
    """What is wrong with a kernel: a refusal, or registers that lie in memory."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "kernel.ptx")
        text.write_text(ptx)
        made = subprocess.run(
            [assembler(), "-v", f"-arch={target.processor}", "-o", "/dev/null", text],
            capture_output=True,
            text=True,
            check=False,
        )
    told = made.stdout + made.stderr
    if made.returncode:
        return told
    spills = re.findall(r"(\d+) bytes spill", told)
    return told if not spills or any(map(int, spills)) else ""


def problem_of(work: Work, target: Architecture = OLD) -> str:
    """What is wrong with the kernel of some work; empty if nothing is."""
    return problem(ptx_of(text_of(work), target), target)
