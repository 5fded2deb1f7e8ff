"""Programs on several ranks: skipped where MPI is missing, ended after a while."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable))
LONGEST = 200  # seconds, where processors are few and busy


def _missing() -> str:
    """Why no two ranks can be started here; nothing where they can."""
    if find_spec("mpi4py") is None or MPIEXEC is None:
        return 'MPI is not installed: pip install "treadle[mpi]"'
    program = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
    try:
        done = subprocess.run(
            [MPIEXEC, "-n", "2", sys.executable, "-c", program],
            capture_output=True, text=True, timeout=LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "mpiexec does not end here"
    return f"mpiexec starts no two ranks here: {done.stderr}" * bool(done.returncode)


MISSING = _missing()
NEEDS_MPI = pytest.mark.skipif(bool(MISSING), reason=MISSING)

_START = """
import json, os, sys, time
import numpy as np
import treadle as td
from treadle.distributed import rank, size, world
world().timeout = 60
def tell(x):
    path = os.path.join(os.path.dirname(__file__), str(rank()))
    with open(path + ".part", "w") as file:
        json.dump(x, file)
    os.replace(path + ".part", path)
"""


class Job:
    """A program on so many ranks, one thread each; one rank has no launcher."""

    def __init__(self, count: int, program: str, *arguments: str) -> None:
        launcher = [] if count == 1 else [str(MPIEXEC), "-n", str(count)]
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "program.py"
        file.write_text(_START + textwrap.dedent(program))
        self.process = subprocess.Popen(
            [*launcher, sys.executable, str(file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TREADLE_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )

    def finish(self, longest: float = LONGEST) -> tuple[int, str]:
        """Exit code and what it printed; one that takes too long is ended."""
        try:
            out, err = self.process.communicate(timeout=longest)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"the ranks hang\n{out}\n{err}")
        return self.process.returncode, out + err

    def told(self) -> dict[int, Any]:
        """What `tell` was given last on each rank."""
        files = [p for p in Path(self.folder.name).iterdir() if p.name.isdecimal()]
        return {int(file.name): json.loads(file.read_text()) for file in files}


def ranks(
    count: int, program: str, *arguments: str, longest: float = LONGEST
) -> list[Any]:
    """What a program tells on each of so many ranks."""
    job = Job(count, program, *arguments)
    code, text = job.finish(longest)
    assert code == 0, text
    found = job.told()
    assert sorted(found) == list(range(count)), text
    return [found[k] for k in range(count)]
