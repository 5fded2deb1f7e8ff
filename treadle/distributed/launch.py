"""Start a program on several ranks, and end all of them when one fails."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.extras import extra
from treadle.distributed.communicator import DistributedError
from treadle.engines.native.system.host import cores

_GRACE = 3.0  # seconds in which a launcher ends the others by itself
_VENDOR = (
    "import mpi4py; mpi4py.rc.initialize = False; "
    "from mpi4py import MPI; print(MPI.get_vendor()[0])"
)
# By the vendor of the library that mpi4py loads: what its launcher says of itself, the
# words by which each line of output begins with its rank, and others.
_LAUNCHERS: dict[str, tuple[str, list[str], list[str]]] = {
    "MPICH": ("HYDRA", ["-prepend-rank"], []),
    "Intel MPI": ("Intel(R) MPI", ["-prepend-rank"], []),
    "Open MPI": (
        "Open MPI",
        ["--tag-output"],
        ["--bind-to", "none", "--oversubscribe"],
    ),
}


def launch(
    ranks: int,
    program: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    as_one: bool = False,
) -> int:
    """Run `program` on so many ranks of this machine; the exit code of the first that
    failed, 0 where all have finished. With `module` it is one, as of `python -m`.

    Each rank has its share of the processors (TREADLE_THREADS, unless it is set); lines
    of output begin with the rank. When one rank fails, the others are ended. A program
    that acts `as_one` speaks by rank 0 alone, without its number, and a first interrupt
    is sent to that rank, which ends all of them in its way.
    """
    if ranks < 1:
        raise ArgumentError(f"a program runs on 1 rank or more, not {ranks}")
    if not module and not os.path.isfile(program):
        raise ArgumentError(f"there is no program {program}")
    words = [] if ranks == 1 else _mpiexec(ranks, not as_one)
    threads = str(max(1, cores() // ranks))
    variables = {"TREADLE_THREADS": threads, **_single_copies(), **os.environ}
    with tempfile.TemporaryDirectory(prefix="treadle-launch-") as folder:
        worker = [sys.executable, "-m", "treadle.distributed.worker", folder]
        options = ["-m"] if module else []
        process = subprocess.Popen(
            [*words, *worker, *options, program, *arguments],
            env=variables,
            # A terminal's Ctrl-C is for this process then, which passes it on.
            start_new_session=as_one,
            stdin=subprocess.DEVNULL if as_one else None,
        )
        with _ending_on_signals():
            try:
                code = _followed(process, Path(folder), as_one)
            except KeyboardInterrupt:
                code = 130
            finally:
                _end(process)
        return _outcome(Path(folder), ranks, code, as_one)


def _single_copies() -> dict[str, str]:
    """What has MPICH copy from one rank's memory to another's, not to a place between
    them first, where the system lets a process read that of another one."""
    return {"MPIR_CVAR_CH4_CMA_ENABLE": "1"} if reads_processes() else {}


def reads_processes() -> bool:
    """Return True if a process may read the memory of another one of its user."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if sys.platform != "linux" or (scope.exists() and scope.read_text().strip() != "0"):
        return False
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "process_vm_readv"):
        return False
    here, there = np.zeros(8, np.uint8), np.arange(8, dtype=np.uint8)
    pairs = [(ctypes.c_size_t * 2)(x.ctypes.data, x.nbytes) for x in (here, there)]
    mine, one, none = os.getpid(), ctypes.c_ulong(1), ctypes.c_ulong(0)
    # A filter of system calls, as in some containers, refuses it for itself, too.
    libc.process_vm_readv(mine, pairs[0], one, pairs[1], one, none)
    return bool((here == there).all())


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Have what ends this process end it by an exception: its ranks would go on."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = (name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
    before = {number: signal.signal(number, end) for number in map(_number, names)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _number(name: str) -> int:
    return int(getattr(signal, name))


def _mpiexec(ranks: int, labels: bool) -> list[str]:
    """The launcher of the very MPI that mpi4py loads, with its words."""
    extra("mpi4py", "mpi")
    done = subprocess.run(
        [sys.executable, "-c", _VENDOR], capture_output=True, text=True, check=False
    )
    vendor = done.stdout.strip()
    if done.returncode or vendor not in _LAUNCHERS:
        raise DistributedError(
            f"mpi4py loads no MPI that is known here: {vendor or done.stderr[-300:]}",
            hint='pip install "treadle[mpi]" brings MPICH',
        )
    says, label, words = _LAUNCHERS[vendor]
    for path in (os.path.dirname(sys.executable), None):
        command = shutil.which("mpiexec", path=path)
        if command is not None and says in _version(command):
            root = vendor == "Open MPI" and os.name == "posix" and os.getuid() == 0
            more = ["--allow-run-as-root"] if root else []
            label_options = label if labels else []
            return [command, "-n", str(ranks), *label_options, *words, *more]
    raise DistributedError(
        f"there is no mpiexec of {vendor}, which mpi4py loads",
        hint="have it on the PATH, or start the program with your cluster's launcher",
    )


def _version(command: str) -> str:
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def _followed(process: subprocess.Popen[Any], folder: Path, passes_on: bool) -> int:
    """The launcher's exit code; it is not waited for long after a rank has failed. A
    first interrupt is passed on to rank 0, if it is to be."""
    try:
        return _waited(process, folder)
    except KeyboardInterrupt:
        first = folder / "0.pid"
        if not passes_on or not first.exists():
            raise
        with suppress(ProcessLookupError):
            os.kill(int(first.read_text()), signal.SIGINT)
        return _waited(process, folder)


def _waited(process: subprocess.Popen[Any], folder: Path) -> int:
    failed_at = None
    while process.poll() is None:
        if failed_at is None and any(r["code"] for r in _records(folder).values()):
            failed_at = time.monotonic()
        if failed_at is not None and time.monotonic() - failed_at > _GRACE:
            return 1
        time.sleep(0.05)
    return process.returncode


def _end(process: subprocess.Popen[Any]) -> None:
    """End a launcher, which ends its ranks."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _records(folder: Path) -> dict[int, dict[str, Any]]:
    """How ranks that have ended did."""
    names = [name for name in os.listdir(folder) if name.isdecimal()]
    return {int(name): json.loads((folder / name).read_bytes()) for name in names}


def _outcome(folder: Path, ranks: int, code: int, as_one: bool = False) -> int:
    """The exit code of a job: of the first rank that failed, of the launcher, or 1
    where a rank has not said how it ended."""
    records = _records(folder)
    failed = [(r["time"], k, r["code"]) for k, r in records.items() if r["code"]]
    if failed:
        _, rank, status = min(failed)
        if not as_one or not records.get(0, {}).get("code"):  # else it has said why
            line = f"treadle: rank {rank} has failed with status {status}"
            print(line, file=sys.stderr)
        return int(status)
    missing = [str(k) for k in range(ranks) if k not in records]
    if missing and code != 130:
        some = len(missing) > 1
        who = f"{'ranks' if some else 'rank'} {', '.join(missing)}"
        who += " have" if some else " has"
        print(f"treadle: {who} not come to an end", file=sys.stderr)
        return code or 1
    return code
