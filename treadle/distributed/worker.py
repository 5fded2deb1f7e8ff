"""One rank of `treadle launch`: runs the program, and writes down how it ended.

    python -m treadle.distributed.worker FOLDER [-m] PROGRAM [ARGUMENT ...]

With -m the program is a module, as for Python. The exit status of an MPI launcher does
not tell: some return 0 where a host was lost. A job has succeeded if every rank has
written that it did.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from treadle.io.files import write_atomically

RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_TOGETHER = 1.0  # seconds in which ranks that fail alike all come to their end


def main(argv: Sequence[str]) -> int:
    """Run a program as if Python had been called with it; its exit code."""
    folder, *words = argv
    module = words[0] == "-m"
    sys.argv = words[module:]
    program = sys.argv[0]
    if not module:
        sys.path[0] = os.path.dirname(os.path.abspath(program))
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    write_atomically(Path(folder) / f"{rank}.pid", str(os.getpid()).encode())
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Launchers put the rank before what is written at once: whole lines.
        sys.stdout.reconfigure(line_buffering=True, write_through=False)
    code = _run(program, module)
    sys.stdout.flush()
    sys.stderr.flush()
    record = json.dumps({"code": code, "time": time.time()})
    write_atomically(Path(folder) / rank, record.encode())
    if code and "mpi4py.MPI" in sys.modules:
        everybody = sys.modules["mpi4py.MPI"].COMM_WORLD
        if not _all_end(Path(folder), everybody.size):
            everybody.Abort(code)
    return code


def _all_end(folder: Path, count: int) -> bool:
    """Whether all ranks come to their end, for the same reason, before this one would
    end them: each has something to say."""
    end = time.monotonic() + _TOGETHER
    while time.monotonic() < end:
        if all((folder / str(rank)).exists() for rank in range(count)):
            return True
        time.sleep(0.01)
    return False


def _run(program: str, module: bool) -> int:
    try:
        if module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    if status:
        os._exit(status)  # MPI would wait for ranks that wait for this one
