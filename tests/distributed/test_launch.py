"""`treadle launch` and what becomes of lost ranks: told, ended, never a success."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.jobs import LONGEST, NEEDS_MPI, ROOT, Job
from treadle.cli import main
from treadle.distributed.launch import reads_processes

GOOD = """
import sys, os, treadle as td
from treadle import distributed as d
total = d.all_reduce(td.asarray([d.rank() + 1.0]))
print("total", float(total[0]), os.environ["TREADLE_THREADS"], sys.argv[1:])
"""
BAD = """
import sys, time, treadle as td
from treadle import distributed as d
d.world()
if d.rank() == 1:
    {failure}
d.all_reduce(td.asarray([1.0])).numpy()
"""


def launched(
    tmp_path: Path, count: int, source: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(source)
    words = ["-m", "treadle", "launch", "-n", str(count), str(program), *arguments]
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


def test_one_rank_needs_no_mpi(tmp_path: Path) -> None:
    done = launched(tmp_path, 1, GOOD, "--flag", "7")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"total 1\.0 \d+ \['--flag', '7'\]\n", done.stdout)


@NEEDS_MPI
def test_lines_begin_with_the_rank(tmp_path: Path) -> None:
    done = launched(tmp_path, 2, GOOD)
    assert done.returncode == 0, done.stderr
    threads = os.environ.get("TREADLE_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    lines = sorted(done.stdout.splitlines())
    for k, line in enumerate(lines):  # "[0] " by MPICH, "[1,0]<stdout>: " by Open MPI
        label, _, rest = line.partition(" ")
        assert re.match(rf"\[(1,)?{k}\]", label)
        assert rest == f"total 3.0 {threads} []"
    assert len(lines) == 2


LARGE = """
import os, numpy as np, treadle as td
from treadle import distributed as d
x = np.arange(1 << 20, dtype=np.float32) * (d.rank() + 1)
total = d.all_reduce(td.asarray(x)).numpy()
print(np.array_equal(total, np.arange(1 << 20, dtype=np.float32) * 3),
      os.environ.get("MPIR_CVAR_CH4_CMA_ENABLE"))
"""


@NEEDS_MPI
@pytest.mark.parametrize("chosen", [None, "0", "1"])
def test_large_messages_are_copied_once_where_the_system_lets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str | None
) -> None:
    single = "1" if reads_processes() else None
    if chosen is None:
        monkeypatch.delenv("MPIR_CVAR_CH4_CMA_ENABLE", raising=False)
    elif single is None:
        pytest.skip("a process may not read the memory of another one here")
    else:  # what somebody has set stays
        monkeypatch.setenv("MPIR_CVAR_CH4_CMA_ENABLE", chosen)
    done = launched(tmp_path, 2, LARGE)
    assert done.returncode == 0, done.stderr
    every = [line.partition(" ")[2] for line in done.stdout.splitlines()]
    assert every == [f"True {chosen or single}"] * 2


@NEEDS_MPI
@pytest.mark.parametrize(
    "failure, code",
    [("sys.exit(7)", 7), ("raise KeyError('no such')", 1), ("sys.exit('no')", 1)],
)
def test_the_exit_code_is_that_of_the_first_failure(
    tmp_path: Path, failure: str, code: int
) -> None:
    begin = time.monotonic()
    done = launched(tmp_path, 2, BAD.format(failure=failure))
    assert done.returncode == code, done.stderr
    assert f"rank 1 has failed with status {code}" in done.stderr
    assert time.monotonic() - begin < 45  # long before the timeout of the others


@NEEDS_MPI
def test_a_killed_rank_is_no_success(tmp_path: Path) -> None:
    failure = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done = launched(tmp_path, 2, BAD.format(failure=failure))
    assert done.returncode != 0
    assert "rank" in done.stderr and "not come to an end" in done.stderr


@NEEDS_MPI
def test_a_rank_that_fails_before_mpi_ends_the_others(tmp_path: Path) -> None:
    source = """
    import os, sys
    if os.environ["PMI_RANK"] == "1":
        sys.exit(5)
    import treadle as td
    td.distributed.world().barrier()
    """
    done = launched(tmp_path, 2, re.sub("(?m)^    ", "", source))
    assert done.returncode == 5, done.stderr


@NEEDS_MPI
def test_a_rank_that_stops_before_mpi_is_waited_for_until_the_deadline(
    tmp_path: Path,
) -> None:
    source = """
    import os, signal, sys, treadle as td
    sys.modules["treadle.distributed.world"].START = 1
    if os.environ["PMI_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGSTOP)
    td.distributed.world()  # the line of the start
    """
    done = launched(tmp_path, 2, re.sub("(?m)^    ", "", source))
    assert done.returncode != 0
    assert "Timeout (0:00:01)" in done.stderr, done.stderr
    assert re.search(r"program\.py\", line 6 in", done.stderr), done.stderr


def test_wrong_words_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "-n", "0", __file__]) == 2
    assert main(["launch", "-n", "2", "no-such.py"]) == 2
    assert main(["launch", __file__]) == 2
    assert "no program no-such.py" in capsys.readouterr().err


LATE = """
world().timeout = 2
tell(os.getpid())
x = td.asarray([1.0])
td.distributed.all_reduce(x).numpy()
{wait}
td.distributed.all_reduce(x * 2).numpy()  # the line of the late call
"""


def late(wait: str, stop: bool) -> tuple[int, str, float]:
    job = Job(2, LATE.format(wait=wait))
    if stop:
        end = time.monotonic() + 100
        while len(told := job.told()) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(told[1], signal.SIGSTOP)
    begin = time.monotonic()
    code, text = job.finish()
    return code, text, time.monotonic() - begin


@NEEDS_MPI
@pytest.mark.parametrize("stop", [False, True])
def test_a_rank_that_does_not_come_is_named(stop: bool) -> None:
    wait = "time.sleep(1.5)" if stop else "rank() == 1 and time.sleep(150)"
    code, text, seconds = late(wait, stop)
    assert code != 0
    assert re.search(r"AllReduce \(call \d\) has waited 2 s: rank 1 has not come", text)
    assert re.search(r"at: .*program\.py:\d+: td\.distributed\.all_reduce\(x", text)
    assert seconds < 120


@NEEDS_MPI
def test_ranks_in_different_calls_are_told_which() -> None:
    wait = "rank() == 1 and td.distributed.recv(x, source=0).numpy()"
    code, text, _ = late(wait, False)
    assert code != 0
    there = r"(rank 1 is in Exchange|rank 0 is in AllReduce) \(call \d\), .*program\.py"
    assert re.search(there, text), text


END = """
import signal
from mpi4py import MPI
def stop():
    os.kill(os.getpid(), signal.SIGSTOP)
world().timeout = 2
x = td.asarray([1.0])
td.distributed.all_reduce(x).numpy()
if rank() == 1:
    {last}
"""


@NEEDS_MPI
@pytest.mark.parametrize(
    "last, says",
    [
        ("stop()", r"MPI_Finalize \(call \d\) has waited 2 s: rank 1 has not come"),
        ("MPI.Finalize = stop", r"Timeout \(0:00:02\)"),  # all have come to the end
        (
            "td.distributed.all_reduce(x * 2).numpy()",
            r"rank 1 is in AllReduce \(call \d\), .*program\.py"
            r"|rank 0 is in MPI_Finalize \(call \d\)",
        ),
    ],
    ids=["before the end", "in the end", "elsewhere"],
)
def test_the_end_of_a_program_is_waited_for_until_the_deadline(
    last: str, says: str
) -> None:
    job = Job(2, END.format(last=last))
    code, text = job.finish(60)
    assert code != 0
    assert re.search(says, text), text


@NEEDS_MPI
def test_ranks_end_with_their_own_status() -> None:
    job = Job(2, END.format(last="time.sleep(0.5); sys.exit(3)"))
    assert job.finish(60) == (3, "")
