"""The command: what it writes, and one line with an exit code for every mistake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from treadle.base.options import options
from treadle.cli import main
from treadle.io.checkpoint import load_checkpoint
from treadle.io.tensors import load_arrays

QUICK = ["train", "--network", "mlp", "--epochs", "2"]
COMMAND = [sys.executable, "-c", "import sys; from treadle.cli import main; "
           "sys.exit(main())"]  # fmt: skip


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_train_writes_model_curve_and_snapshot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(QUICK) == 0
    out = capsys.readouterr().out
    assert "mlp on digits: 1,438 images, 359 held out; a new run in runs/" in out
    assert "engine native on cpu" in out
    assert "epoch 2/2: loss" in out and "images/s" in out
    folder = Path("runs/digits-mlp")
    assert f"wrote {folder}/loss.svg" in out
    arrays, about = load_arrays(folder / "model.safetensors")
    assert about["network"] == "mlp" and all(a.size for a in arrays.values())
    ElementTree.parse(folder / "loss.svg")
    point = load_checkpoint(folder / "checkpoints")
    assert point is not None and point.step == 90
    assert main(QUICK) == 0
    names = [f"runs/digits-mlp{end}/model.safetensors" for end in ("", "-2")]
    first, second = (Path(name).read_bytes() for name in names)
    assert first == second, "same seed, same bits"


def test_resume_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--output", "whole"]) == 0
    assert main(["train", "--network", "mlp", "--epochs", "1"]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", "--epochs", "2"]) == 0
    assert "going on at step 45 in runs/digits-mlp" in capsys.readouterr().out
    whole, resumed = (Path(f, "model.safetensors").read_bytes()
                      for f in ("whole", "runs/digits-mlp"))  # fmt: skip
    same = whole == resumed  # not compared by pytest, which would look for where
    assert same
    assert main(["train", "--resume"]) == 0, "nothing is left to do"


def wrong_file() -> str:
    Path("wrong.npz").write_bytes(b"PK wrong")
    return "wrong.npz"


MISTAKES: list[tuple[list[str], int, str]] = [
    ([], 2, "COMMAND"),
    (["weave"], 2, "weave"),
    (["train", "--colour", "red"], 2, "--colour"),
    (["train", "--network", "vgg"], 2, "'vgg' (networks: lenet, mlp)"),
    (["train", "--optimizer", "magic"], 2, "'magic' (optimizers: adadelta"),
    (["train", "--engine", "steam"], 2, "'steam' (engines: "),
    (["train", "--epochs", "x"], 2, "--epochs"),
    (["train", "--epochs", "0"], 2, "--epochs is at least 1"),
    (["train", "--batch", "-1"], 2, "--batch is at least 1"),
    (["train", "--seed", "-1"], 2, "--seed"),
    (["train", "--lr", "nan"], 2, "--lr"),
    (["train", "--data-dir", "."], 2, "--data-dir goes with"),
    (["train", "--resume"], 2, "no run to resume in runs"),
    (["train", "--resume", "--output", "none"], 2, "no run to resume in none"),
    (["train", "--data", "mnist"], 1, "known: digits, fashion-mnist, PATH.npz"),
    (["train", "--data", "missing.npz"], 1, "missing.npz: No such file"),
    (["train", "--data", "wrong.npz"], 1, "wrong.npz: "),
    (["train", "--data", "fashion-mnist", "--data-dir", "."], 1, "dataset-fashion"),
    ([*QUICK, "--output", "wrong.npz"], 1, "wrong.npz"),
]


@pytest.mark.parametrize("words, code, message", MISTAKES, ids=lambda v: str(v)[:40])
def test_mistakes(
    capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    wrong_file()
    assert main(words) == code
    said = capsys.readouterr().err
    assert message in said and said.startswith("treadle") and said.count("\n") == 1


def test_the_environment_chooses_too(capsys: pytest.CaptureFixture[str]) -> None:
    with options(seed=7):
        assert main([*QUICK, "--output", "a"]) == 0
    assert main([*QUICK, "--output", "b", "--seed", "7"]) == 0
    first, second = (Path(f, "model.safetensors").read_bytes() for f in "ab")
    assert first == second
    environment = {**os.environ, "TREADLE_ENGINE": "steam"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    done = subprocess.run(
        [*COMMAND, "train"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 2 and "no engine 'steam'" in done.stderr


def test_a_folder_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--output", "a"]) == 0
    before = Path("a/model.safetensors").stat().st_mtime_ns
    assert main([*QUICK, "--output", "a"]) == 2
    assert "add --resume" in capsys.readouterr().err
    assert main(["train", "--resume", "--output", "a", "--network", "lenet"]) == 2
    assert "cannot become lenet" in capsys.readouterr().err
    assert Path("a/model.safetensors").stat().st_mtime_ns == before


def test_users_images(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 9, 7, 3)).astype(np.uint8)
    np.savez("mine.npz", x=x, y=np.arange(60) % 3)
    assert main(["train", "--data", "mine.npz", "--epochs", "1"]) == 0
    assert "lenet on mine: 48 images, 12 held out" in capsys.readouterr().out


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert "reference" in out and "bfloat16" in out and "lenet" in out
    assert main(["--version"]) == 0 and main(["train", "--help"]) == 0


def wait_for(folder: Path, child: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not list(folder.glob("checkpoints/step-*")):
        assert child.poll() is None and time.monotonic() < end
        time.sleep(0.01)


def start(folder: str) -> subprocess.Popen[str]:
    words = [*COMMAND, "train", "--network", "mlp", "--epochs", "500"]
    return subprocess.Popen(
        [*words, "--output", folder],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        # Shells have what runs in the background of a script ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    child = start("a")
    wait_for(Path("a"), child)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130 and said.count("\n") == 1, said
    assert "is saved in a; go on with treadle train --resume --output a" in said
    point = load_checkpoint("a/checkpoints")
    assert point is not None and f"step {point.step} is saved" in said
    epochs = str(point.step // 45 + 1)
    assert main(["train", "--resume", "--output", "a", "--epochs", epochs]) == 0
    assert f"going on at step {point.step}" in capsys.readouterr().out
    assert main(["train", "--network", "mlp", "--epochs", epochs]) == 0
    whole, resumed = (Path(f, "model.safetensors").read_bytes()
                      for f in ("runs/digits-mlp", "a"))  # fmt: skip
    same = whole == resumed  # not compared by pytest, which would look for where
    assert same


def test_killed() -> None:
    child = start("a")
    wait_for(Path("a"), child)
    time.sleep(0.3)
    child.kill()
    child.communicate(timeout=60)
    point = load_checkpoint("a/checkpoints")
    assert point is not None
    epochs = str(point.step // 45 + 1)
    assert main(["train", "--resume", "--output", "a", "--epochs", epochs]) == 0
    assert main(["train", "--network", "mlp", "--epochs", epochs]) == 0
    whole, resumed = (Path(f, "model.safetensors").read_bytes()
                      for f in ("runs/digits-mlp", "a"))  # fmt: skip
    same = whole == resumed  # not compared by pytest, which would look for where
    assert same


def test_defaults_learn_the_digits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train"]) == 0
    last = next(line for line in capsys.readouterr().out.splitlines()
                if line.startswith("held-out accuracy"))  # fmt: skip
    assert float(last.split()[2].rstrip("%")) > 96
