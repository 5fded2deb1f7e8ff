"""Snapshots: the newest whole one is found, a damaged one is named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from treadle.base.errors import ModelFileError
from treadle.io.checkpoint import load_checkpoint, save_checkpoint


def save(folder: Path, step: int) -> Path:
    parts = {"model": {"w": np.full(3, step)}, "optimizer": {"m": np.zeros(2)}}
    return save_checkpoint(folder, step, parts, {"epoch": step})


def test_newest_is_loaded_and_two_are_kept(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "none") is None
    for step in (1, 2, 10):
        save(tmp_path, step)
    assert sorted(os.listdir(tmp_path)) == ["step-10", "step-2"]
    with pytest.raises(ModelFileError, match="already there"):
        save(tmp_path, 10)
    point = load_checkpoint(tmp_path)
    assert point is not None and point.step == 10 and point.facts == {"epoch": 10}
    assert point.parts["model"]["w"].tolist() == [10, 10, 10]


def test_a_failing_part_keeps_what_was(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(ModelFileError, match="cannot be saved"):
        save_checkpoint(tmp_path, 2, {"a": {"w": np.array([None])}}, {})
    assert os.listdir(tmp_path) == ["step-1"]


def test_damage_is_named(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    part = folder / "model.npz"
    raw = bytearray(part.read_bytes())
    raw[-100] ^= 1
    part.write_bytes(raw)
    with pytest.raises(ModelFileError, match=r"model\.npz: its digest"):
        load_checkpoint(tmp_path)
    manifest = folder / "manifest.json"
    good = json.loads(manifest.read_text())
    wrong = [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        json.dumps(good | {"version": 2}).encode(),
        json.dumps(good | {"step": 7}).encode(),
        json.dumps(good | {"parts": {"../../a": "x"}}).encode(),
        json.dumps(good | {"parts": {"absent": "x"}}).encode(),
        json.dumps(good | {"facts": 1}).encode(),
    ]
    for content in wrong:
        manifest.write_bytes(content)
        with pytest.raises(ModelFileError):
            load_checkpoint(tmp_path)
    manifest.unlink()
    with pytest.raises(ModelFileError, match=r"manifest\.json: No such file"):
        load_checkpoint(tmp_path)
