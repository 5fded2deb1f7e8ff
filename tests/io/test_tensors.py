"""Arrays in files: round trips, interchange, and files that are wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
import zipfile
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
        ("a.pt", {"w": one}, None, r"'\.pt' is not known"),
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


def st_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    return size.to_bytes(8, "little") + text + data


def entry(shape: Any, span: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": span}


F4 = b"\0" * 4
HOSTILE_SAFETENSORS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "too few"),
    "only a length": (b"\xff" * 8, "does not fit"),
    "huge header": (st_file({}, length=2**62), "does not fit"),
    "no dictionary": (st_file([]), "not a dictionary"),
    "not JSON": (st_file(b"{]"), "cannot be read"),
    "not UTF-8": (st_file(b"{\xff}"), "UTF-8"),
    "nested": (st_file(b'{"a":' * 100_000), "nested too deeply"),
    "long number": (st_file(b'{"a":' + b"9" * 5000 + b"}"), "a.safetensors"),
    "twice": (st_file(b'{"a":1,"a":2}'), "twice"),
    "entry": (st_file({"a": 1}), "'a': an entry has"),
    "unknown key": (st_file({"a": entry([1], [0, 4]) | {"x": 1}}, F4), "an entry has"),
    "dtype": (st_file({"a": entry([1], [0, 4], "F31")}, F4), "'F31' is not known"),
    "dtype list": (st_file({"a": entry([1], [0, 4], [])}, F4), "is not known"),
    "negative": (st_file({"a": entry([-1], [0, 4])}, F4), "not a shape"),
    "NaN": (st_file({"a": entry([float("nan")], [0, 4])}, F4), "not a shape"),
    "true": (st_file({"a": entry([True], [0, 4])}, F4), "not a shape"),
    "huge": (st_file({"a": entry([2**63], [0, 4])}, F4), "too large"),
    "product": (st_file({"a": entry([2**32] * 8, [0, 4])}, F4), "too large"),
    "zero times huge": (st_file({"a": entry([0, 2**63], [0, 0])}), "too large"),
    "many": (st_file({"a": entry([1] * 33, [0, 4])}, F4), "too many"),
    "outside": (st_file({"a": entry([2], [0, 8])}, F4), "outside"),
    "before": (st_file({"a": entry([1], [-4, 0])}, F4), "outside"),
    "backward": (st_file({"a": entry([1], [4, 0])}, F4), "outside"),
    "too short": (st_file({"a": entry([2], [0, 4])}, F4), "takes 8 bytes"),
    "hole": (st_file({"a": entry([1], [4, 8])}, F4 * 2), "hole"),
    "overlap": (
        st_file({"a": entry([2], [0, 8]), "b": entry([1], [4, 8])}, F4 * 2),
        "overlap",
    ),
    "more": (st_file({"a": entry([1], [0, 4])}, F4 * 2), "the header names 4"),
    "path": (st_file({"../a": entry([1], [0, 4])}, F4), "not a name"),
    "root": (st_file({"/etc/a": entry([1], [0, 4])}, F4), "not a name"),
    "dunder": (st_file({"a.__class__": entry([1], [0, 4])}, F4), "not a name"),
    "NUL": (st_file({"a\0": entry([1], [0, 4])}, F4), "not a name"),
    "no name": (st_file({"": entry([1], [0, 4])}, F4), "not a name"),
    "long name": (st_file({"a" * 2**20: entry([1], [0, 4])}, F4), "not a name"),
    "metadata": (st_file({"__metadata__": {"a": 1}}), "metadata"),
    "metadata list": (st_file({"__metadata__": []}), "metadata"),
    "truth": (st_file({"a": entry([1], [0, 1], "BOOL")}, b"\2"), "truth"),
}


@pytest.mark.parametrize("case", HOSTILE_SAFETENSORS)
def test_hostile_safetensors(tmp_path: Path, case: str) -> None:
    content, message = HOSTILE_SAFETENSORS[case]
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_arrays(path)
    assert str(path) in str(caught.value)


def npy(array: Any, header: str | None = None) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    raw = buffer.getvalue()
    if header is None:
        return raw
    body = raw[10 + int.from_bytes(raw[8:10], "little") :]
    return raw[:8] + len(header).to_bytes(2, "little") + header.encode() + body


def head(descr: str = "'<f8'", order: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def npz(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore")  # a name given twice is on purpose
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


TWO = np.zeros(2)
HOSTILE_NPZ: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "no zip": (b"x" * 100, "not a zip"),
    "objects": (npz(("a.npy", npy(np.array([{}])))), "refused"),
    "records": (npz(("a.npy", npy(np.zeros(1, "i4,f4")))), "refused"),
    "text": (npz(("a.npy", npy(np.array(["a"])))), "refused"),
    "dates": (npz(("a.npy", npy(np.zeros(1, "M8[s]")))), "refused"),
    "wide": (npz(("a.npy", npy(TWO, head("'<f3'")))), "not a dtype"),
    "expression": (npz(("a.npy", npy(TWO, head("__import__('os')")))), "refused"),
    "no dictionary": (npz(("a.npy", npy(TWO, "[]"))), "not a dictionary"),
    "incomplete": (npz(("a.npy", npy(TWO, "{}"))), "not complete"),
    "twice": (npz(("a.npy", npy(TWO)), ("a.npy", npy(TWO))), "twice"),
    "path": (npz(("../a.npy", npy(TWO))), "not a name"),
    "root": (npz(("/a.npy", npy(TWO))), "not a name"),
    "dunder": (npz(("__class__.npy", npy(TWO))), "not a name"),
    "other file": (npz(("a.txt", b"hello")), "not an array"),
    "no array": (npz(("a.npy", b"hello")), "not an array"),
    "ends in header": (npz(("a.npy", b"\x93NUMPY\1\0\x99")), "a.npz"),
    "shape": (npz(("a.npy", npy(TWO, head(shape="(3,)")))), "does not take"),
    "huge": (npz(("a.npy", npy(TWO, head(shape=f"({2**62},)")))), "too large"),
    "digits": (npz(("a.npy", npy(TWO, head(shape="(" + "9" * 5000 + ",)")))), "a.npz"),
    "order": (npz(("a.npy", npy(TWO, head(order="(1,)")))), "not complete"),
    "long header": (npz(("a.npy", npy(TWO, head() + " " * 20000))), "too long"),
    "bzip2": (npz(("a.npy", npy(TWO)), method=zipfile.ZIP_BZIP2), "neither stored"),
    "truth": (npz(("a.npy", npy(np.zeros(1, "?"))[:-1] + b"\2")), "truth"),
    "metadata": (npz(("__metadata__.npy", npy(TWO))), "__metadata__"),
}


@pytest.mark.parametrize("case", HOSTILE_NPZ)
def test_hostile_npz(tmp_path: Path, case: str) -> None:
    content, message = HOSTILE_NPZ[case]
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_arrays(path)
    assert str(path) in str(caught.value)


def test_encrypted_and_lying_directories(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    good = npz(("a.npy", npy(TWO)))
    where = good.index(b"PK\1\2")
    locked = bytearray(good)
    locked[where + 8] |= 1
    path.write_bytes(locked)
    with pytest.raises(ModelFileError, match="encrypted"):
        load_arrays(path)
    bomb = bytearray(npz(("a.npy", npy(TWO)), method=zipfile.ZIP_DEFLATED))
    where = bomb.index(b"PK\1\2")
    bomb[where + 24 : where + 28] = (2**31).to_bytes(4, "little")
    path.write_bytes(bomb)
    with pytest.raises(ModelFileError, match="do not fit the file"):
        load_arrays(path)
    save_arrays(path, {"a": np.zeros(1000)})
    with pytest.raises(ModelFileError, match="100 allowed"):
        load_arrays(path, max_bytes=100)


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
    (tmp_path / "a.pt").write_bytes(b"x")
    with pytest.raises(ModelFileError, match=r"known: \.npz, \.safetensors, \.bin"):
        load_arrays(tmp_path / "a.pt")


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
