"""Callbacks: what they are told, how they steer, and going on after a kill."""

from __future__ import annotations

import io
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import treadle as td
from treadle.train.callbacks import Callback, Logs


def data(count: int = 48) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4)).astype(np.float32)
    return x, x.sum(1, keepdims=True)


def model(**settings: Any) -> td.Model:
    net = td.nn.Sequential(td.nn.Linear(4, 8), td.nn.Dropout(0.1), td.nn.Linear(8, 1))
    return td.Model(net, "mse", td.optim.Adam(lr=0.05), metrics=["mae"], **settings)


def bits(m: td.Model) -> dict[str, bytes]:
    return {name: a.tobytes() for name, a in m.module.state_dict().items()}


class Given(Callback):
    """Puts given numbers in the logs."""

    def __init__(self, name: str, values: list[float]) -> None:
        self.name, self.values = name, values

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        logs[self.name] = self.values[epoch]


def test_hooks_come_in_order() -> None:
    x, y = data(8)
    told: list[str] = []
    names = [n for n in dir(Callback) if n.startswith("on_")]
    hooks = {n: (lambda *_, n=n: told.append(n)) for n in names}
    model().fit(
        x, y, batch_size=4, epochs=1, verbose=0, validation_data=(x, y),
        callbacks=[td.train.LambdaCallback(**hooks)],
    )  # fmt: skip
    assert told == [
        "on_train_begin", "on_epoch_begin",
        *["on_batch_begin", "on_batch_end"] * 2,
        "on_test_begin", "on_test_end", "on_epoch_end", "on_train_end",
    ]  # fmt: skip


def test_early_stopping_goes_back_to_the_best() -> None:
    x, y = data()
    kept: list[dict[str, bytes]] = []
    m = model()
    stop = td.train.EarlyStopping(
        "score", patience=2, mode="max", restore_best_weights=True
    )
    history = m.fit(
        x, y, epochs=9, verbose=0,
        callbacks=[
            Given("score", [1.0, 3.0, 2.0, 2.5, 9.0, 9.0, 9.0, 9.0, 9.0]),
            td.train.LambdaCallback(on_epoch_end=lambda *_: kept.append(bits(m))),
            stop,
        ],
    )  # fmt: skip
    assert stop.stopped_epoch == 3 and len(history.epoch) == 4
    assert bits(m) == kept[1] != kept[3]
    with pytest.raises(
        td.ArgumentError, match="watches 'val_loss', which is not logged"
    ):
        m.fit(x, y, verbose=0, callbacks=[td.train.EarlyStopping()])


def test_rates_by_epoch_and_on_a_plateau() -> None:
    x, y = data()
    m = model()
    halve = td.train.LearningRateScheduler(lambda epoch, lr: lr / 2 if epoch else lr)
    assert m.fit(x, y, epochs=3, verbose=0, callbacks=[halve])["lr"] == [
        0.05, 0.025, 0.0125
    ]  # fmt: skip
    m.optimizer.lr = 1.0
    values = [1.0, 1.0, 1.0, 1.0, 1.0, 0.5]
    plateau = td.train.ReduceLROnPlateau("score", 0.5, patience=2, min_lr=0.3)
    m.fit(x, y, epochs=6, verbose=0, callbacks=[Given("score", values), plateau])
    assert m.optimizer.lr == 0.3
    scheduled = model()
    scheduled.optimizer.lr = td.optim.schedules.constant(0.1)
    with pytest.raises(td.ArgumentError, match="schedule"):
        scheduled.fit(x, y, verbose=0, callbacks=[halve])


def test_checkpoints_of_the_best_and_of_steps(tmp_path: Path) -> None:
    x, y = data()
    best = td.train.ModelCheckpoint(
        tmp_path / "best-{epoch}-{score:.1f}.npz", "score", save_best_only=True
    )
    steps = td.train.ModelCheckpoint(tmp_path / "deep/step-{step}.npz", every=2)
    m = model()
    m.fit(x, y, batch_size=16, epochs=3, verbose=0,
          callbacks=[Given("score", [2.0, 3.0, 1.0]), best, steps])  # fmt: skip
    assert sorted(p.name for p in tmp_path.glob("*.npz")) == [
        "best-1-2.0.npz",
        "best-3-1.0.npz",
    ]
    assert sorted(p.name for p in tmp_path.glob("deep/*")) == [
        f"step-{k}.npz" for k in (2, 4, 6, 8)
    ]
    other = model()
    other.load_weights(tmp_path / "best-3-1.0.npz")
    assert bits(other) == bits(m)
    with pytest.raises(td.ArgumentError, match="'speed'"):
        named = td.train.ModelCheckpoint(tmp_path / "{speed}.npz")
        m.fit(x, y, verbose=0, callbacks=[named])


def test_a_loss_that_is_not_finite_ends_it() -> None:
    x, y = data()
    x[20] = math.nan
    history = model().fit(x, y, batch_size=4, shuffle=False, epochs=3, verbose=0,
                          callbacks=[td.train.TerminateOnNaN()])  # fmt: skip
    assert history.epoch == [0] and math.isnan(history["loss"][0])


def test_a_bar_ends_with_the_training() -> None:
    x, y = data()
    for steps in (0, 2):
        console = Console(file=io.StringIO(), force_terminal=True, width=200)
        bar = td.train.ProgressBar(console)
        try:
            model().fit(x, y, epochs=1, verbose=0, callbacks=[bar, Break(steps)])
        except KeyboardInterrupt:
            assert steps
        assert bar._shown is None
        assert isinstance(console.file, io.StringIO)
        assert ("epoch 1/1: loss" in console.file.getvalue()) == (not steps)


def test_divergence_raises() -> None:
    x, y = data()
    m = model()
    m.optimizer.lr = 0.0
    y[-4:] += 1e3
    with pytest.raises(td.RunError, match="the loss diverges"):
        m.fit(x, y, batch_size=4, shuffle=False, verbose=0,
              callbacks=[td.train.ThrowOnDivergence(12, 1, 3.0)])  # fmt: skip


def test_the_table_of_logs(tmp_path: Path) -> None:
    x, y = data()
    path = tmp_path / "logs" / "log.csv"
    history = model().fit(
        x, y, epochs=2, verbose=0, callbacks=[td.train.CSVLogger(path)]
    )
    lines = path.read_text().splitlines()
    assert lines[0] == "epoch,loss,mae" and len(lines) == 3
    assert float(lines[2].split(",")[1]) == history["loss"][1]


def test_validation_by_averages() -> None:
    x, y = data()
    m = model()
    average = td.optim.ExponentialAverage(m.module, 0.9)
    history = m.fit(x, y, epochs=2, verbose=0, validation_data=(x, y),
                    callbacks=[td.train.SwapAverages(average)])  # fmt: skip
    assert m.evaluate(x, y)["loss"] == history["val_loss"][-1]
    average.swap()
    assert m.evaluate(x, y)["loss"] != history["val_loss"][-1]


def callbacks(folder: Path, every: int | None) -> list[Callback]:
    return [
        td.train.BackupAndRestore(folder, every=every),
        td.train.ReduceLROnPlateau("val_loss", 0.5, patience=1, min_delta=1.0),
        td.train.EarlyStopping("val_loss", patience=20, restore_best_weights=True),
        td.train.CSVLogger(folder.parent / f"{folder.name}.csv"),
    ]


def fitted(m: td.Model, folder: Path, every: int | None, *more: Callback) -> Any:
    x, y = data()
    return m.fit(x, y, batch_size=8, epochs=4, verbose=0, validation_split=0.25,
                 callbacks=[*callbacks(folder, every), *more])  # fmt: skip


class Break(Callback):
    """Raises after so many steps: nothing is tidied up."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        if self.fit.steps == self.steps:
            raise KeyboardInterrupt


@pytest.mark.parametrize("every", [None, 1, 3])
def test_going_on_equals_never_stopping(tmp_path: Path, every: int | None) -> None:
    with td.options(seed=7):
        whole = model()
        history = fitted(whole, tmp_path / "whole", every, Break(0))
    for stop in (1, 5, 7, 10, 20):
        folder = tmp_path / f"stop-{stop}"
        with td.options(seed=7), pytest.raises(KeyboardInterrupt):
            fitted(model(), folder, every, Break(stop))
        with td.options(seed=7):
            again = model()
            resumed = fitted(again, folder, every, Break(0))
        assert bits(again) == bits(whole), stop
        assert resumed.history == history.history
        texts = [(tmp_path / f"{n}.csv").read_text() for n in ("whole", folder.name)]
        assert texts[0] == texts[1]
    with td.options(seed=7):
        done = model()
        assert (
            fitted(done, tmp_path / "whole", every, Break(0)).history == history.history
        )
        assert bits(done) == bits(whole)
    with td.options(seed=7), pytest.raises(td.ModelFileError, match="callbacks were"):
        fitted(model(), tmp_path / "whole", every)


PROGRAM = """
import sys
from pathlib import Path
import treadle as td
from tests.train.test_callbacks import fitted, model
with td.options(seed=7):
    m = model()
    fitted(m, Path(sys.argv[1]), 1)
    m.save_weights(Path(sys.argv[1]) / "done.npz")
"""


def test_a_killed_process_goes_on_bit_for_bit(tmp_path: Path) -> None:
    with td.options(seed=7):
        whole = model()
        fitted(whole, tmp_path / "whole", None)
    folder, rng = tmp_path / "killed", np.random.default_rng(0)
    kills = 0
    while not (folder / "done.npz").exists():
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)])
        begin = len(list(folder.glob("step-*")))
        while kills < 4 and process.poll() is None:
            # Wait for a first snapshot of this process, then a moment more.
            if len(list(folder.glob("step-*"))) > min(begin, 1):
                time.sleep(float(rng.random()) * 0.02)
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.001)
        process.wait(120)
    again = model()
    again.load_weights(folder / "done.npz")
    assert bits(again) == bits(whole) and kills


def logged(folder: Path) -> list[tuple[str, str, int, float]]:
    return [
        (path.parent.name, e.name, e.step, e.value)
        for path in sorted(folder.glob("*/events*"), key=lambda p: p.stat().st_mtime_ns)
        for e in td.io.read_events(path)
        if e.kind == "scalar"
    ]


def test_a_training_is_logged_for_tensorboard(tmp_path: Path) -> None:
    x, y = data(8)
    board = td.train.TensorBoard(tmp_path, every=2, histograms=2)
    history = model().fit(
        x, y, batch_size=2, epochs=2, verbose=0, validation_data=(x, y),
        callbacks=[board],
    )  # fmt: skip
    found = logged(tmp_path)
    epochs = [(r, n, s, v) for r, n, s, v in found if n != "batch_loss"]
    want = [
        (run, name, 4 * (k + 1), float(np.float32(history[key][k])))
        for key, run, name in (
            ("loss", "train", "loss"), ("mae", "train", "mae"),
            ("val_loss", "validation", "loss"), ("val_mae", "validation", "mae"),
        )
        for k in range(2)
    ]  # fmt: skip
    assert sorted(epochs) == sorted(want)
    assert [s for _, n, s, _ in found if n == "batch_loss"] == [2, 4, 6, 8]
    (path,) = (tmp_path / "train").iterdir()
    spread = [e for e in td.io.read_events(path) if e.kind == "histogram"]
    assert {(e.name, e.step) for e in spread} == {
        ("0/weight", 8), ("0/bias", 8), ("2/weight", 8), ("2/bias", 8)
    }  # fmt: skip


def test_the_log_goes_on_after_a_snapshot(tmp_path: Path) -> None:
    """What was logged after the snapshot is taken back: TensorBoard is told so."""
    x, y = data(8)

    def fit(epochs: int, stop: int | None = None) -> None:
        halt = td.train.LambdaCallback(
            on_batch_end=lambda k, logs: 1 / 0 if m.optimizer.count == stop else None
        )
        m = model()
        m.fit(
            x, y, batch_size=4, epochs=epochs, verbose=0,
            callbacks=[
                td.train.TensorBoard(tmp_path / "log", every=1), halt,
                td.train.BackupAndRestore(tmp_path / "kept"),
            ],
        )  # fmt: skip

    with td.options(seed=3), pytest.raises(ZeroDivisionError):
        fit(3, stop=3)
    with td.options(seed=3):
        fit(3)
    first, second = sorted(
        (tmp_path / "log" / "train").iterdir(), key=lambda p: p.stat().st_mtime_ns
    )
    steps = lambda p: [e.step for e in td.io.read_events(p) if "batch" in e.name]  # noqa: E731
    assert steps(first) == [1, 2, 3] and steps(second) == [3, 4, 5, 6]
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(tmp_path / "log" / "train")).Reload()
    assert [e.step for e in board.Scalars("batch_loss")] == [1, 2, 3, 4, 5, 6]
