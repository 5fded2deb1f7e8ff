"""Arrays in files: round trips, interchange, and files that are wrong."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.base import dtypes
from treadle.base.errors import ModelFileError
from treadle.io.tensors import load_arrays, save_arrays

Arrays = dict[str, np.ndarray[Any, Any]]
ENDINGS = [".safetensors", ".npz"]


def examples() -> Arrays:
    rng = np.random.default_rng(0)
    found: Arrays = {
        f"all.{d.name}": rng.integers(0, 2, (3, 2)).astype(d) for d in dtypes.ALL
    }
    found["scalar"] = np.array(2.5, np.float32)
    found["empty"] = np.zeros((0, 3), np.float32)
    found["columns"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found["every second"] = np.arange(10)[::2]
    found["big endian"] = np.arange(3, dtype=">i4")
    return found


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip(tmp_path: Path, ending: str) -> None:
    arrays, path = examples(), tmp_path / f"a{ending}"
    if ending == ".safetensors":
        del arrays["all.complex128"]
    facts = {"b": "ü", "a": "", "c": "1"}
    save_arrays(path, arrays, facts)
    loaded, metadata = load_arrays(path)
    assert metadata == facts and set(loaded) == set(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype.newbyteorder("="), name
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].flags.writeable
    first = path.read_bytes()
    save_arrays(path, dict(reversed(arrays.items())), dict(reversed(facts.items())))
    assert path.read_bytes() == first, "equal contents, equal bytes"


def test_the_safetensors_library_agrees(tmp_path: Path) -> None:
    arrays = {k: v for k, v in examples().items() if "complex" not in k}
    arrays["big endian"] = arrays["big endian"].astype("i4")
    ours, theirs = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    plain = {k: v for k, v in arrays.items() if v.dtype != dtypes.bfloat16}
    save_arrays(ours, plain, {"k": "v"})
    for name, array in safetensors.numpy.load_file(ours).items():
        np.testing.assert_array_equal(array, arrays[name])
    dense = {k: np.asarray(v, order="C") for k, v in arrays.items()}
    safetensors.numpy.save_file(dense, theirs, metadata={"k": "v"})
    loaded, metadata = load_arrays(theirs)
    assert metadata == {"k": "v"} and set(loaded) == set(arrays)
    for name, array in loaded.items():
        assert array.dtype == dense[name].dtype
        np.testing.assert_array_equal(array, arrays[name])


def test_numpy_agrees(tmp_path: Path) -> None:
    arrays = {k: v for k, v in examples().items() if "bfloat16" not in k}
    ours, theirs = tmp_path / "a.npz", tmp_path / "b.npz"
    save_arrays(ours, arrays)
    for writer in (np.savez, np.savez_compressed):
        writer(theirs, **arrays)  # type: ignore[arg-type]
        loaded, _ = load_arrays(theirs)
        with np.load(ours) as read:
            for name, array in arrays.items():
                np.testing.assert_array_equal(loaded[name], array)
                np.testing.assert_array_equal(read[name], array)


def test_refused_at_saving(tmp_path: Path) -> None:
    one = np.ones(1)
    cases: list[tuple[str, Any, Any, str]] = [
        ("a.h5", {"w": one}, None, r"'\.h5' is not known"),
        ("a.npz", {"../w": one}, None, "not a name"),
        ("a.npz", {"w": np.array(["text"])}, None, "'w'.*cannot be saved"),
        ("a.npz", {"w": np.array([None])}, None, "'w'.*cannot be saved"),
        ("a.safetensors", {"w": one.astype("c16")}, None, "has no complex128"),
        ("a.safetensors", {"w": one}, {"k": 1}, "text by name"),
        ("no/such/folder/a.npz", {"w": one}, None, "No such file"),
    ]
    for file, arrays, facts, message in cases:
        with pytest.raises(ModelFileError, match=message):
            save_arrays(tmp_path / file, arrays, facts)
    assert os.listdir(tmp_path) == []


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    for path in (pipe, folder):
        with pytest.raises(ModelFileError, match=r"regular file|directory"):
            load_arrays(path)
    with pytest.raises(ModelFileError, match="No such file"):
        load_arrays(tmp_path / "missing.npz")
    (tmp_path / "a.h5").write_bytes(b"x")
    with pytest.raises(ModelFileError, match=r"known: .*\.npz, \.safetensors, \.bin"):
        load_arrays(tmp_path / "a.h5")


def good_file(folder: Path, ending: str) -> bytes:
    arrays = {
        "w": np.arange(6.0, dtype=np.float32).reshape(2, 3),
        "b": np.array([True, False]),
        "h": np.ones(3, dtypes.bfloat16),
    }
    path = folder / f"good{ending}"
    save_arrays(path, arrays, {"made": "here"})
    return path.read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_mutations(
    tmp_path_factory: pytest.TempPathFactory, ending: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    content = bytearray(good_file(folder, ending))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        action = data.draw(st.sampled_from(["flip", "cut", "drop", "double", "set"]))
        if action == "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        elif action == "set":
            content[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, 0x39]))
        elif action == "cut":
            content = content[: at + 1]
        elif action == "drop":
            del content[at : at + data.draw(st.integers(1, 9))]
        else:
            content[at:at] = content[at : at + 30]
        if not content:
            break
    path = folder / f"mutated-{hashlib.md5(content).hexdigest()}{ending}"
    path.write_bytes(content)
    try:
        arrays, _ = load_arrays(path)
        assert sum(a.nbytes for a in arrays.values()) <= 1100 * len(content)
    except ModelFileError as error:
        assert str(path) in str(error)
    finally:
        path.unlink()


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_truncation_is_an_error(tmp_path: Path, ending: str) -> None:
    content = good_file(tmp_path, ending)
    path = tmp_path / f"a{ending}"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load_arrays(path)
