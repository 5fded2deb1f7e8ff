"""Axis names in files: kept in every format that has text, compared where loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import treadle as td
from treadle import nn
from treadle.io.tensors import load_arrays, save_arrays

ENDINGS = [".npz", ".safetensors", ".bin"]
NAMES: list[tuple[Any, ...]] = [
    ("out", "in"),
    (None, "in"),
    ("ü", "a b"),
    ('"', "\\"),
    ("", "\0"),
    ("special:x", "..__"),
]


def named(*axes: Any) -> td.Variable:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    return td.param("w", (2, 3), init=value, axes=axes)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("axes", NAMES, ids=repr)
def test_axes_come_back(tmp_path: Path, ending: str, axes: tuple[Any, ...]) -> None:
    path, w, b = tmp_path / f"a{ending}", named(*axes), td.param("b", (2,), init=1.0)
    td.save(path, [w, b], metadata={"made by": "hand"})
    again, other = named(*axes), td.param("b", (2,), init=0.0)
    found = td.load(path, [again, other])
    assert found.axes == {"w": axes} and found.metadata == {"made by": "hand"}
    assert found["w"].tobytes() == w.numpy().tobytes() == again.numpy().tobytes()
    td.save(tmp_path / f"b{ending}", td.load(path))
    twice = td.load(tmp_path / f"b{ending}")
    assert twice.axes == found.axes and twice.metadata == found.metadata
    if ending == ".npz":
        assert (tmp_path / "b.npz").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_module_keeps_its_axes(tmp_path: Path, ending: str) -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            self.w = named("n", "c")
            self.plain = td.param(init=2.0)

    path = tmp_path / f"a{ending}"
    td.save(path, {"net": Scale(), "mean": td.name_axes(td.ones(2), "n")})
    assert td.load(path).axes == {"net.w": ("n", "c"), "mean": ("n",)}
    renamed = td.load(path, Scale(), prefix="net.")
    assert renamed.axes == {"w": ("n", "c")}
    own = td.load(path, prefix="net.", rename={"w": "v"})
    assert own.axes == {"v": ("n", "c")}


@pytest.mark.parametrize("ending", ENDINGS)
def test_other_axes_are_refused_and_none_pass(tmp_path: Path, ending: str) -> None:
    path, w = tmp_path / f"a{ending}", named("n", "c")
    td.save(path, [w])
    other = td.param("w", (2, 3), init=0.0, axes=("c", "n"))
    for given in (path, td.load(path)):
        with pytest.raises(td.ModelFileError) as caught:
            td.load(given, [other])
        text = "of other axes: w is float32[n=2, c=3], here float32[c=2, n=3]"
        assert text in str(caught.value) and "dict(td.load(path))" in str(caught.value)
    assert not other.numpy().any()
    td.load(dict(td.load(path)), [other])
    assert other.numpy().tobytes() == w.numpy().tobytes()
    plain = td.param("w", (2, 3), init=0.0)
    td.load(path, [plain])
    assert plain.numpy().tobytes() == w.numpy().tobytes() and plain.axes is None


def test_other_readers_pass_over_them(tmp_path: Path) -> None:
    w = named("n", "c")
    td.save(tmp_path / "a.npz", [w])
    with np.load(tmp_path / "a.npz") as read:
        np.testing.assert_array_equal(read["w"], w.numpy())
        assert read.files == ["special:treadle.axes", "w"]
    td.save(tmp_path / "a.safetensors", [w])
    found = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(found["w"], w.numpy())
    for ending in ENDINGS:
        path = tmp_path / f"a{ending}"
        td.save(path, [w])
        arrays, facts = load_arrays(path)
        assert list(arrays) == ["w"] and facts == {}


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    w = named("n", "c")
    for path, what, facts, message in (
        ("a.dynet", [w], None, "'w': dynet keeps no axis names; .npz does"),
        ("a.npz", [w], {"treadle.axes": "{}"}, "is for the names of axes"),
        ("a.npz", [named("n" * 2000, "c")], None, "'w': an axis has a name of over"),
    ):
        with pytest.raises(td.ModelFileError, match=message):
            td.save(tmp_path / path, what, metadata=facts)
    assert not list(tmp_path.iterdir())
    td.save(tmp_path / "a.dynet", {"w": w.numpy()})


def test_text_that_others_call_axes_is_text(tmp_path: Path) -> None:
    for ending in ENDINGS:
        path = tmp_path / f"a{ending}"
        save_arrays(path, {"w": np.ones(1, "f4")}, {"axes": "x, y"})
        found = td.load(path)
        assert found.metadata == {"axes": "x, y"} and found.axes == {}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_graph_keeps_axes(tmp_path: Path, ending: str) -> None:
    x = td.placeholder((4, 2), name="x", axes=("b", "n"))
    w = named("n", "c")
    td.save(tmp_path / f"a{ending}", td.computation({"y": td.dot(x, w)}, x))
    again = td.load_computation(tmp_path / f"a{ending}")
    assert {v.name: v.axes for v in again.variables} == {
        "w": ("n", "c"),
        "x": ("b", "n"),
    }
    given = np.ones((4, 2), "f4")
    assert (again(x=given)["y"] == given @ w.numpy()).all()
