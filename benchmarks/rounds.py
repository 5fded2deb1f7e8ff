"""Fresh processes in turn: who is there, one measurement, an A/A pair, the rounds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.libraries import PACKAGES, library_of
from benchmarks.workload import Workload

__all__ = [
    "Failure",
    "Found",
    "Peers",
    "Setting",
    "alternate",
    "find",
    "interpreters",
    "measure",
    "pair",
]

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 3600  # seconds after which a process is given up
TRIES, PAUSE = 5, 10.0  # how often, after how many seconds, a disturbed one is repeated
PACKAGE = {
    "openblas": "numpy",
    "dynet": "dynet38",
}  # the package of a library, where it has another name


Tell = Callable[[str], None]


class Failure(RuntimeError):
    """A measurement that printed no figures; says the last line of its error."""


class Found(NamedTuple):
    """What one process printed, and in which round."""

    round: int
    part: str
    implementation: str
    printed: dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What every process of one run is told."""

    threads: int = 2
    sizes: str = "plain"
    quick: bool = False
    check: bool = False
    quiet: float = math.inf  # processors others may keep busy meanwhile
    only: str = ""  # a pattern of the names of cases

    def arguments(self) -> list[str]:
        """As options of `benchmarks.one`."""
        flags = [f"--{k}" for k in ("quick", "check") if getattr(self, k)]
        only = ["--only", self.only] if self.only else []
        return ["--threads", str(self.threads), "--sizes", self.sizes, *only, *flags]

    def environment(self) -> dict[str, str]:
        """This process's, with the same number of threads for every library."""
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        return {
            **os.environ,
            **dict.fromkeys(names, str(self.threads)),
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "JAX_PLATFORMS": "cpu",
        }


def interpreters(given: Sequence[str]) -> dict[str, str]:
    """The interpreter of each library: `--python NAME=PATH` or the environment's.

    TREADLE_BENCH_PYTHON_TORCH is torch's, TREADLE_BENCH_PYTHON that of all peers; this
    interpreter is that of the rest.

    >>> interpreters(["torch=/opt/python"])["torch"]
    '/opt/python'
    """
    shared = os.environ.get("TREADLE_BENCH_PYTHON", sys.executable)
    found = {"treadle": sys.executable}
    for package in (*PACKAGES, *PACKAGE):
        variable = f"TREADLE_BENCH_PYTHON_{package.upper().replace('-', '_')}"
        chosen = os.environ.get(variable, found.get(package, shared))
        found[package] = chosen
    for text in given:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise ValueError(f"--python takes NAME=PATH, not {text!r}")
        found[name] = path
    return found


def _last_json(done: subprocess.CompletedProcess[str], what: str) -> Any:
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    raise Failure(f"{what}: {said[-1]}")


def measure(
    work: str, implementation: str, part: str, setting: Setting, python: str
) -> dict[str, Any]:
    """What one fresh process finds; raises Failure."""
    command = [python, "-m", "benchmarks.one", work, implementation, "--part", part]
    try:
        done = subprocess.run(
            [*command, *setting.arguments()],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=setting.environment(),
            timeout=TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{implementation}: {error}") from error
    found: dict[str, Any] = _last_json(done, implementation)
    return found


def quietly(
    work: str, implementation: str, part: str, setting: Setting, python: str
) -> dict[str, Any]:
    """A measurement while others let the processors alone, or the quietest of a few."""
    tries = []
    for k in range(TRIES):
        found = measure(work, implementation, part, setting, python)
        tries.append(found)
        if found.get("others", 0.0) <= setting.quiet:
            return found
        if k + 1 < TRIES:
            time.sleep(PAUSE)
    return min(tries, key=lambda found: float(found["others"]))


@dataclass(frozen=True)
class Peers:
    """The implementations that can be measured, and why others cannot."""

    present: tuple[str, ...]
    missing: dict[str, str]
    pythons: dict[str, str]
    versions: dict[str, str]


def _versions(python: str) -> dict[str, str]:
    command = [python, "-m", "benchmarks.one", "--versions"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=ROOT
        )
    except OSError as error:
        raise Failure(f"{python}: {error}") from error
    found: dict[str, str] = _last_json(done, python)
    return found


def find(work: Workload, names: Sequence[str], pythons: Mapping[str, str]) -> Peers:
    """Which implementations are there; `names` chooses peers, none means all.

    A library's name stands for all its variants.
    """
    known = [name for name in work.implementations if name != "treadle"]
    odd = [n for n in names if n not in known and n not in map(library_of, known)]
    if odd:
        raise ValueError(
            f"{work.name} has no peer {odd[0]!r}; it has {', '.join(known)}"
        )
    wanted = [n for n in known if not names or n in names or library_of(n) in names]
    present, missing, versions = [], {}, {}
    asked: dict[str, dict[str, str]] = {}
    for name in wanted:
        library = library_of(name)
        package, python = PACKAGE.get(library, library), pythons[library]
        try:
            if python not in asked:
                asked[python] = _versions(python)
        except Failure as error:
            missing[name] = str(error)
            continue
        if package in asked[python]:
            present.append(name)
            versions[library] = f"{package} {asked[python][package]}"
        else:
            missing[name] = f"its interpreter has no package {package}"
    return Peers(tuple(present), missing, dict(pythons), versions)


def pair(
    work: Workload, setting: Setting, implementation: str, python: str
) -> list[dict[str, Any]]:
    """The same measurement twice: how far this machine can be trusted now."""
    part = work.parts[0]
    return [quietly(work.name, implementation, part, setting, python) for _ in "AA"]


def alternate(
    work: Workload,
    setting: Setting,
    names: Sequence[str],
    pythons: Mapping[str, str],
    rounds: int,
    tell: Tell,
) -> Iterator[Found]:
    """All implementations in turn, `rounds` times, for each part of the workload.

    One that fails is told once and left out of the rest of that part.
    """
    for part in work.parts:
        failed: set[str] = set()
        for k in range(rounds):
            for name in names:
                if name in failed:
                    continue
                python = pythons[library_of(name)]
                try:
                    found = quietly(work.name, name, part, setting, python)
                except Failure as failure:
                    failed.add(name)
                    tell(f"{part}: failed: {failure}")
                else:
                    yield Found(k, part, name, found)
