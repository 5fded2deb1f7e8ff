"""Programs on several ranks: skipped where MPI is missing, ended after a while.

`ranks` hands programs to processes that stay for the next program: most of what a
rank costs is its start, and graphs that it has compiled before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.standing import run_program

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable))
LONGEST = 200  # seconds, where processors are few and busy


def missing() -> str:
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


NEEDS_MPI = pytest.mark.usefixtures("mpi")  # starts ranks when a test asks, not before

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


class StandingRanks:
    """Processes of one launch that run programs one after another."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.folder = tempfile.TemporaryDirectory()
        place = Path(self.folder.name)
        self.pipes: list[int] = []
        for k in range(count):
            os.mkfifo(place / f"calls.{k}")
            # Open for both: it waits for no reader, and its end is that of the rank.
            self.pipes.append(os.open(place / f"calls.{k}", os.O_RDWR))
        self.output = (place / "output").open("w+")
        words = ["-n", str(count), sys.executable, "-m", "tests.distributed.standing"]
        self.process = subprocess.Popen(
            [str(MPIEXEC), *words, self.folder.name],
            stdout=self.output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "TREADLE_THREADS": "1", "PYTHONPATH": str(ROOT)},
        )

    def run(
        self, program: str, arguments: tuple[str, ...], longest: float
    ) -> list[Any]:
        """What a program tells on each rank."""
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "program.py"
            file.write_text(_START + textwrap.dedent(program))
            call = json.dumps([str(file), *arguments]) + "\n"
            for pipe in self.pipes:
                os.write(pipe, call.encode())
            ends = [file.with_name(f"{k}.end") for k in range(self.count)]
            limit = time.monotonic() + longest
            while not all(end.exists() for end in ends):
                assert self.process.poll() is None, self.text()
                assert time.monotonic() < limit, f"the ranks hang\n{self.text()}"
                time.sleep(0.003)
            results = [file.with_name(str(k)) for k in range(self.count)]
            return [json.loads(result.read_text()) for result in results]

    def text(self) -> str:
        """What the ranks have printed."""
        self.output.seek(0)
        return self.output.read()

    def close(self) -> None:
        """End the ranks, by force where they do not end by themselves."""
        for pipe in self.pipes:
            os.close(pipe)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.close()
        self.folder.cleanup()


_standing: dict[int, StandingRanks] = {}


def close_ranks() -> None:
    """End the ranks that wait for programs."""
    while _standing:
        _standing.popitem()[1].close()


def ranks(
    count: int,
    program: str,
    *arguments: str,
    longest: float = LONGEST,
    fresh: bool = False,
) -> list[Any]:
    """What a program tells on each of so many ranks.

    One rank is this process. Several are `fresh` processes where the program changes
    the library, breaks a communication or counts its calls.
    """
    if fresh:
        job = Job(count, program, *arguments)
        code, text = job.finish(longest)
        assert code == 0, text
        results = job.told()
        assert sorted(results) == list(range(count)), text
        return [results[k] for k in range(count)]
    if count == 1:
        return [_here(program, arguments)]
    if count not in _standing:
        _standing[count] = StandingRanks(count)
    try:
        return _standing[count].run(program, arguments, longest)
    except BaseException:
        _standing.pop(count).close()
        raise


def _here(program: str, arguments: tuple[str, ...]) -> Any:
    """What a program tells that runs in this process."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "program.py"
        file.write_text(_START + textwrap.dedent(program))
        run_program(file, arguments)
        return json.loads(file.with_name("0").read_text())
