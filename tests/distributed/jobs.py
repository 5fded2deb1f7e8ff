"""Programs on several ranks: skipped where MPI is missing, ended after a while."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable))
NEEDS_MPI = pytest.mark.skipif(
    find_spec("mpi4py") is None or MPIEXEC is None,
    reason='MPI is not installed: pip install "treadle[mpi]"',
)
LONGEST = 60  # seconds

_START = """
import json, os, sys, time
import numpy as np
import treadle as td
from treadle.distributed import rank, size, world
world().timeout = 20
def tell(x):
    print("RESULT " + json.dumps([rank(), x]), flush=True)
"""


def start(count: int, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program on so many ranks, one thread each; one without a launcher."""
    launcher = [] if count == 1 else [str(MPIEXEC), "-n", str(count)]
    source = _START + textwrap.dedent(program)
    return subprocess.Popen(
        [*launcher, sys.executable, "-c", source, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TREADLE_THREADS": "1"},
    )


def finish(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a job, which is ended if it takes too long."""
    try:
        out, err = job.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        job.kill()
        out, err = job.communicate()
        pytest.fail(f"the ranks hang\n{out}\n{err}")
    return job.returncode, out, err


def results(out: str) -> dict[int, Any]:
    """What `tell` has printed last on each rank."""
    lines = [line for line in out.splitlines() if line.startswith("RESULT ")]
    return dict(json.loads(line.removeprefix("RESULT ")) for line in lines)


def ranks(count: int, program: str, *arguments: str) -> list[Any]:
    """What a program tells on each of so many ranks."""
    code, out, err = finish(start(count, program, *arguments))
    assert code == 0, f"{out}\n{err}"
    found = results(out)
    assert sorted(found) == list(range(count)), f"{out}\n{err}"
    return [found[k] for k in range(count)]
