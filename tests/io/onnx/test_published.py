"""The script that compares published ONNX files, on a file that is made here."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper

from tests.io.onnx.models import save
from tests.io.onnx_published import apart, feed_of, files, row_of, session_of

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
NODES = [helper.make_node("Relu", ["x"], ["y"])]


def test_files_are_those_of_wheels_and_folders(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", NODES, {"x": X})
    with zipfile.ZipFile(tmp_path / "name-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(path, "name/data/m.onnx")
        wheel.writestr("name/other.txt", "")
    for place, name in (
        (tmp_path, "m.onnx"),
        (Path(wheel.filename or ""), "name/m.onnx"),
    ):
        assert list(files(place)) == [(name, path.read_bytes())]


def test_results_are_apart_by_value_shape_dtype_and_what_is_no_number() -> None:
    assert apart(X, X) == 0 and apart(X + 1, X) == 1 / 3
    for other in (X[0], X.astype(np.float64), np.where(X > 1, np.nan, X)):
        assert apart(other, X) == float("inf")
    infinite = np.array([np.inf, 1.0])
    assert apart(infinite, infinite) == 0
    assert apart(-infinite, infinite) == float("inf")
    assert apart(np.array([np.inf, 2.0]), infinite) == 1


def test_a_file_is_compared_with_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = save(tmp_path / "m.onnx", NODES, {"x": X}, open_=("x",))
    model = path.read_bytes()
    assert feed_of(session_of(model, 1))["x"].shape == (1, 3)
    row = row_of("m", model, 3, 1)
    assert row.difference == 0 and row.ratio > 0 and not row.reason
