"""Event files: what is logged is read, by TensorBoard too where it is installed."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle as td
from treadle import nn
from treadle.io.tensorboard.record import crc32c, framed

RNG = np.random.default_rng(0)


def network() -> Any:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return net(td.placeholder((2, 3), name="x"))


def written(folder: Path) -> Path:
    with td.io.EventWriter(folder) as log:
        for step in range(3):
            log.scalar("train/loss", td.asarray(1.0 / (step + 1)), step)
        log.histogram("weight", RNG.normal(size=(10, 20)), 1)
        log.image("color", RNG.uniform(size=(5, 7, 3)), 2)
        log.audio("beep", np.sin(np.arange(800) / 10), 3, rate=8000)
        log.text("note", "**grün**", 4)
        log.graph(network())
    return log.path


def by_kind(path: Path) -> dict[str, list[td.io.LogEntry]]:
    found: dict[str, list[td.io.LogEntry]] = {}
    for entry in td.io.read_events(path):
        found.setdefault(entry.kind, []).append(entry)
    return found


def test_what_is_logged_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.name.startswith("events.out.tfevents.")
    found = by_kind(path)
    assert [(e.name, e.step, e.value) for e in found["scalar"]] == [
        ("train/loss", 0, 1.0),
        ("train/loss", 1, 0.5),
        ("train/loss", 2, float(np.float32(1 / 3))),
    ]
    assert (found["text"][0].value, found["text"][0].step) == ("**grün**", 4)
    picture, sound = found["image"][0].value, found["audio"][0].value
    assert (picture["width"], picture["height"], picture["colorspace"]) == (7, 5, 3)
    assert (sound["sample_rate"], sound["length_frames"]) == (8000.0, 800)
    nodes = {n["name"]: n for n in found["graph"][0].value}
    assert nodes["1/Relu"]["input"] == ["0/Add"]
    assert nodes["0/Add"]["input"] == ["0/Contract", "0/bias"]
    shape = nodes["2/Add"]["attr"]["_output_shapes"]["list"]["shape"][0]
    assert [d["size"] for d in shape["dim"]] == [2, 2]


def unpacked(png: bytes) -> Any:
    """The pixels of a PNG whose rows have no filter."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, data, head = 8, b"", b""
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        kind, raw = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        check = png[place + 8 + size : place + 12 + size]
        assert struct.unpack(">I", check)[0] == zlib.crc32(kind + raw)
        head, data = (raw if kind == b"IHDR" else head), data + raw * (kind == b"IDAT")
        place += 12 + size
    width, height = struct.unpack(">2I", head[:8])
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, -1)


@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4])
def test_pixels(tmp_path: Path, channels: int | None) -> None:
    shape = (4, 6) if channels is None else (4, 6, channels)
    pixels = RNG.integers(0, 256, shape).astype(np.uint8)
    with td.io.EventWriter(tmp_path) as log:
        log.image("bytes", pixels, 0)
        log.image("floats", pixels / 255.0, 0)
        log.image("beyond", np.full((1, 1), 7.0), 0)
    a, b, c = (e.value["encoded_image_string"] for e in td.io.read_events(log.path))
    np.testing.assert_array_equal(unpacked(a), pixels.reshape(4, 6, -1))
    np.testing.assert_array_equal(unpacked(b), unpacked(a))
    assert unpacked(c).tolist() == [[[255]]]


def test_samples(tmp_path: Path) -> None:
    sound = RNG.uniform(-1.0, 1.0, (50, 2))
    with td.io.EventWriter(tmp_path) as log:
        log.audio("a", sound, 0, rate=100)
    (entry,) = td.io.read_events(log.path)
    with wave.open(io.BytesIO(entry.value["encoded_audio_string"])) as file:
        assert (file.getnchannels(), file.getframerate()) == (2, 100)
        back = np.frombuffer(file.readframes(50), "<i2").reshape(50, 2)
    np.testing.assert_allclose(back / 32767.0, sound, atol=1e-4)


VALUES = st.lists(st.floats(-1e30, 1e30), max_size=40)


@given(values=VALUES)
def test_buckets_hold_every_value(values: list[float]) -> None:
    message = td.io.tensorboard.summary.histogram(values)["histo"]
    limits, counts = np.array(message["bucket_limit"]), np.array(message["bucket"])
    assert counts.sum() == len(values) == message["num"]
    for k, (limit, count) in enumerate(zip(limits, counts, strict=True)):
        below = limits[k - 1] if k else -np.inf
        assert count == sum(below < v <= limit for v in values)
    if values:
        assert (message["min"], message["max"]) == (min(values), max(values))


def test_what_is_not_finite_is_left_out(tmp_path: Path) -> None:
    with td.io.EventWriter(tmp_path) as log:
        log.histogram("a", [1.0, np.nan, np.inf, -np.inf], 0)
        log.histogram("none", [], 0)
        log.scalar("nan", np.nan, 0)
    a, none, nan = (e.value for e in td.io.read_events(log.path))
    assert a["num"] == a["max"] == a["sum"] == 1.0
    assert none["num"] == 0.0 and np.isnan(nan)


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    log = td.io.EventWriter(tmp_path)
    with pytest.raises(td.ShapeError, match=r"one real number, not float64\[2\]"):
        log.scalar("a", np.ones(2), 0)
    with pytest.raises(td.ShapeError, match="one real number, not complex128"):
        log.scalar("a", 1j, 0)
    with pytest.raises(td.ShapeError, match=r"an image is .* not \[2, 2, 5\]"):
        log.image("a", np.ones((2, 2, 5)), 0)
    with pytest.raises(td.ShapeError, match=r"a sound is .* not \[\]"):
        log.audio("a", 1.0, 0)
    with pytest.raises(td.ArgumentError, match="samples a second, not 0"):
        log.audio("a", [1.0], 0, rate=0)
    log.close()
    log.close()
    with pytest.raises(td.RunError, match="is closed"):
        log.scalar("a", 1.0, 0)
    (tmp_path / "file").touch()
    with pytest.raises(td.ModelFileError, match="Not a directory"):
        td.io.EventWriter(tmp_path / "file" / "folder")


class Full(io.RawIOBase):
    """A file on a disk that is full after so many bytes, for a while."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, raw: Any) -> int:
        if self.room <= 0:
            self.room = 1 << 20
            raise OSError(28, "No space left on device")
        part = bytes(raw[: self.room])
        self.room -= len(part)
        return int(self.file.write(part))

    def tell(self) -> int:
        return int(self.file.tell())

    def seek(self, place: int, whence: int = 0) -> int:
        return int(self.file.seek(place, whence))

    def truncate(self, size: int | None = None) -> int:
        return int(self.file.truncate(size))

    def fileno(self) -> int:
        return int(self.file.fileno())


@pytest.mark.parametrize("room", [1, 11, 30])
def test_a_record_that_does_not_fit_leaves_the_log_whole(
    tmp_path: Path, room: int
) -> None:
    log = td.io.EventWriter(tmp_path)
    log.scalar("a", 1.0, 1)
    log._file = Full(log._file, room)  # type: ignore[assignment]
    with pytest.raises(td.ModelFileError, match="No space left"):
        log.scalar("a", 2.0, 2)
    log.scalar("a", 3.0, 3)
    log.close()
    assert [e.value for e in td.io.read_events(log.path)] == [1.0, 3.0]


def test_check_sums_are_those_of_rfc_3720() -> None:
    assert crc32c(b"") == 0 and crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


def test_a_cut_file_gives_its_whole_records(tmp_path: Path) -> None:
    with td.io.EventWriter(tmp_path) as log:
        for step in range(4):
            log.scalar("a", step, step)
    raw = log.path.read_bytes()
    whole = [e.value for e in td.io.read_events(raw)]
    assert whole == [0.0, 1.0, 2.0, 3.0]
    size = (len(raw) - len(framed(b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"))) // 4
    for cut in range(1, 2 * size):
        left = 4 - -(-cut // size)
        assert [e.value for e in td.io.read_events(raw[:-cut])] == whole[:left]


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    written(tmp_path)
    board = events.EventAccumulator(str(tmp_path)).Reload()
    tags = board.Tags()
    assert tags["scalars"] == ["train/loss"] and tags["histograms"] == ["weight"]
    assert tags["images"] == ["color"] and tags["audio"] == ["beep"] and tags["graph"]
    assert [e.value for e in board.Scalars("train/loss")][:2] == [1.0, 0.5]
    assert board.Histograms("weight")[0].histogram_value.num == 200.0
    names = {node.name for node in board.Graph().node}
    assert {"0/weight", "0/Contract", "x"} <= names
    with td.io.EventWriter(tmp_path) as log:  # after a kill, from step 1
        log.restart(1)
        log.scalar("train/loss", 0.25, 1)
    board = events.EventAccumulator(str(tmp_path)).Reload()
    assert [e.value for e in board.Scalars("train/loss")] == [1.0, 0.25]


def test_hyperparameters_are_logged_for_the_table_of_runs(tmp_path: Path) -> None:
    model = td.Model(td.nn.Linear(2, 1), "mse", td.optim.SGD(lr=0.1))
    x = np.ones((16, 2), np.float32)
    chosen = {"lr": 0.1, "name": "<sgd>", "big": True, "n": np.int64(3)}
    board = td.train.TensorBoard(tmp_path, hparams=chosen)
    model.fit(
        x, x[:, :1], epochs=2, verbose=0, validation_split=0.25, callbacks=[board]
    )
    (path,) = tmp_path.glob("events*")
    entries = list(td.io.read_events(path))
    assert [(e.kind, e.value) for e in entries] == [
        ("hparams", {"lr": 0.1, "name": "<sgd>", "big": True, "n": 3.0})
    ]
    with (
        td.io.EventWriter(tmp_path) as log,
        pytest.raises(td.ArgumentError, match="lr"),
    ):
        log.hparams({"lr": [0.1]})


def test_tensorboard_reads_hyperparameters_with_their_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2 as plugin

    with td.io.EventWriter(tmp_path) as log:
        log.hparams({"lr": 0.1, "name": "sgd"}, ["loss", "validation:loss"], group="a")
        log.end_hparams()
    board = EventAccumulator(str(tmp_path)).Reload()
    content = board.PluginTagToContent("hparams")
    data = {tag: plugin.HParamsPluginData.FromString(x) for tag, x in content.items()}
    start = data["_hparams_/session_start_info"].session_start_info
    assert start.hparams["lr"].number_value == 0.1 and start.group_name == "a"
    metrics = data["_hparams_/experiment"].experiment.metric_infos
    assert [(m.name.group, m.name.tag) for m in metrics] == [
        ("", "loss"), ("validation", "loss"),
    ]  # fmt: skip
    assert data["_hparams_/session_end_info"].session_end_info.status == 1
