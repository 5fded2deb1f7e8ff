"""`treadle train --ranks N`: the model of one rank, one voice, resumed, interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.jobs import LONGEST, NEEDS_MPI, ROOT
from treadle.cli import main
from treadle.io.checkpoint import load_checkpoint

QUICK = ["train", "--network", "mlp", "--epochs"]


def started(*words: str, missing: str = "") -> subprocess.Popen[str]:
    block = f"sys.modules[{missing!r}] = None; " if missing else ""
    program = f"import sys; {block}from treadle.cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TREADLE_THREADS": "1"},
        # Shells have what runs in the background of a script ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def done(*words: str, missing: str = "") -> tuple[int, str, str]:
    process = started(*words, missing=missing)
    out, err = process.communicate(timeout=LONGEST)
    return process.returncode, out, err


def model(folder: str) -> bytes:
    return Path(folder, "model.safetensors").read_bytes()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@NEEDS_MPI
def test_any_number_of_ranks_writes_the_same_model() -> None:
    said = {}
    for ranks in ("1", "4"):  # two begin the one that goes on below
        code, out, err = done(*QUICK, "2", "--ranks", ranks, "--output", ranks)
        assert (code, err) == (0, "")
        said[ranks] = [x.rpartition(", ")[0] for x in out.splitlines() if "epoch" in x]
        assert out.count("epoch 1/2") == 1 and "[0]" not in out
        assert f"on {ranks} rank" in out.splitlines()[0]
    same = model("1") == model("4")
    assert same  # not compared by pytest, which would look for where
    assert said["1"] == said["4"] and len(said["1"]) == 2
    # A folder is chosen once, and what was saved goes on with other numbers of ranks.
    assert done(*QUICK, "1", "--ranks", "2")[0] == 0
    code, out, _ = done("train", "--resume", "--epochs", "2", "--ranks", "4")
    assert code == 0 and "going on at step 45 on 4 ranks in runs/digits-mlp" in out
    assert [p.name for p in Path("runs").iterdir()] == ["digits-mlp"]
    resumed = model("runs/digits-mlp") == model("1")
    assert resumed


@NEEDS_MPI
def test_an_interrupt_ends_all_ranks_where_they_can_be_resumed() -> None:
    child = started(*QUICK, "500", "--ranks", "2", "--output", "a")
    end = time.monotonic() + LONGEST
    while not list(Path("a").glob("checkpoints/step-*")):
        assert child.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=LONGEST)
    assert child.returncode == 130 and said.count("\n") == 1, said
    assert "go on with treadle train --resume --ranks 2 --output a" in said
    point = load_checkpoint("a/checkpoints")
    assert point is not None and f"step {point.step} is saved" in said
    epochs = str(point.step // 45 + 1)
    words = "train", "--resume", "--output", "a", "--epochs", epochs
    assert done(*words)[0] == 0
    assert done(*QUICK, epochs, "--ranks", "1", "--output", "b")[0] == 0
    same = model("a") == model("b")
    assert same


@NEEDS_MPI
def test_an_error_is_told_once() -> None:
    words = *QUICK, "2", "--ranks", "2", "--optimizer", "sgd", "--lr", "1e30"
    code, _, err = done(*words)
    assert code == 1 and err.count("\n") == 1 and "the loss is nan at step" in err, err


def test_without_mpi_the_extra_is_named_in_one_line() -> None:
    code, out, err = done(*QUICK, "1", "--ranks", "2", missing="mpi4py")
    assert code == 1 and not out
    assert err.count("\n") == 1 and 'pip install "treadle[mpi]"' in err


@pytest.mark.parametrize(
    "words, says",
    [
        (["--ranks", "0"], "--ranks is at least 1"),
        (
            ["--ranks", "2", "--shards", "3", "--batch", "33"],
            "3 shards are not to be had on 2 ranks",
        ),
        (["--ranks", "2", "--batch", "30"], "--batch 30 is not a multiple of 4"),
        (["--shards", "0"], "--shards is at least 1"),
    ],
)
def test_wrong_words(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words]) == 2
    assert says in capsys.readouterr().err


def test_what_decides_bits_stays_when_it_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*QUICK, "1", "--output", "a"]) == 0
    assert main(["train", "--resume", "--output", "a", "--ranks", "2"]) == 2
    assert "1 shards are not to be had on 2 ranks" in capsys.readouterr().err
    assert main(["train", "--resume", "--output", "a", "--shards", "4"]) == 2
    assert "it cannot become 4" in capsys.readouterr().err
