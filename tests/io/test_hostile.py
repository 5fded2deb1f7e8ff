"""Each hostile file is refused in words, within a bounded amount of memory."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.io.fuzz import NAMES, good_files, mutated, problem, reader
from tests.io.hostile import HOSTILE, MANY, PART
from treadle.base.errors import ModelFileError
from treadle.io import dynet, files, protobuf, safetensors
from treadle.io.torch import file as torch_file
from treadle.io.torch import pickle as torch_pickle

CASES = [(kind, case) for kind, rows in HOSTILE.items() for case in rows]
SLACK = 64 << 20
LIMITS: list[tuple[Any, str, int]] = [
    (files, "_MOST_TOKENS", 1 << 19),
    (protobuf, "_MOST_FIELDS", 1 << 19),
    (dynet, "MAX_ITEMS", 1 << 16),
    (safetensors, "MAX_ITEMS", 1 << 16),
    (torch_pickle, "MOST_CODES", 1 << 19),
    (torch_file, "MOST_VALUES", 1 << 17),
]
LOADS: dict[str, Any] = {
    "graph": td.load_computation,
    "events": lambda path: list(td.io.read_events(path)),
    "nervana": td.io.load_nervana,
}


@pytest.mark.parametrize("kind, case", CASES, ids=lambda s: s)
def test_a_hostile_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, case: str
) -> None:
    """Of too many things with a part of the limits, and of the memory for them."""
    made, item, reason = HOSTILE[kind][case]
    part = PART if (kind, case) in MANY else 1
    for module, name, limit in LIMITS:
        assert getattr(module, name) == limit
        monkeypatch.setattr(module, name, limit // part)
    content = made if isinstance(made, bytes) else made()
    path = tmp_path / ("a.npz" if kind == "graph" else f"a{kind}")
    path.write_bytes(content)
    load = LOADS.get(kind, td.load)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    text = caught.value.message
    assert text.startswith(f"{path}: "), "the message names the file"
    assert item in text.removeprefix(str(path)), "the message names the item"
    assert reason in text, "the message tells the reason"
    assert len(text) < 2000
    assert peak <= 2 * len(content) + SLACK // part
    if kind in (".bin", ".safetensors"):
        with pytest.raises(ModelFileError):
            td.load(path, copy=False)
    if kind not in LOADS:
        with pytest.raises(ModelFileError, match="the buffer"):
            td.load(content, format=kind)


@pytest.mark.parametrize("name", NAMES)
def test_mutations_are_loaded_or_refused(name: str) -> None:
    good, load = good_files(name), reader(name)
    for k in range(300):
        content = mutated(random.Random(f"{name} {k}"), good)
        assert not problem(load, content), f"mutation {k}"


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 60 and all(len(rows) >= 15 for rows in HOSTILE.values())


def test_a_file_that_expands_is_told_by_its_size(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(1 << 24, "u1"))
    with pytest.raises(
        ModelFileError, match="16777216 bytes declared, 1000000 allowed"
    ):
        td.load(tmp_path / "a.npz", max_bytes=1_000_000)
    layer = td.nn.Linear(2, 2)
    with pytest.raises(ModelFileError, match="unexpected: a"):
        td.load(tmp_path / "a.npz", layer)


def test_nothing_is_read_that_is_not_taken(tmp_path: Path) -> None:
    layer = td.nn.Linear(2, 2)
    arrays = {**layer.state_dict(), "large": np.zeros(1 << 26, "u1")}
    np.savez_compressed(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    tracemalloc.start()
    loaded = td.load(tmp_path / "a.npz", layer, strict=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "large" not in loaded and peak < 1 << 24


def test_a_link_and_a_pipe(tmp_path: Path) -> None:
    """What is read is a regular file; a link to one is followed as everywhere."""
    td.save(tmp_path / "a.bin", {"w": np.ones(2)})
    (tmp_path / "b.bin").symlink_to(tmp_path / "a.bin")
    assert td.load(tmp_path / "b.bin")["w"].tolist() == [1, 1]
    (tmp_path / "c.bin").symlink_to("/dev/zero")
    with pytest.raises(ModelFileError, match="not a regular file"):
        td.load(tmp_path / "c.bin")
