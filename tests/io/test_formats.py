"""Every format gives back the bits it was given, and lays them out as told."""

from __future__ import annotations

import io
import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nst

import treadle as td
from treadle.base import dtypes
from treadle.io.format import Format
from treadle.io.tensors import FORMATS, load_arrays, save_arrays

Arrays = dict[str, np.ndarray[Any, Any]]
NAMES = st.text(st.sampled_from("abcXYZ012._/-éß→"), min_size=1, max_size=12).filter(
    lambda s: not (s.startswith("/") or ".." in s or "__" in s)
)


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def array_of(dtype: Any) -> st.SearchStrategy[Any]:
    """Arrays of any bits that a dtype has."""
    shapes = nst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)

    def filled(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
        size = int(np.prod(shape)) * dtype.itemsize
        raw = st.binary(min_size=size, max_size=size)
        if dtype == dtypes.bool_:
            raw = raw.map(lambda b: bytes(x & 1 for x in b))
        return raw.map(lambda b: np.frombuffer(b, dtype).reshape(shape))

    return shapes.flatmap(filled)


def holds(format: Format, array: Any) -> bool:
    try:
        format.check("a", array)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bits_come_back(format: Format, data: st.DataObject) -> None:
    kinds = st.sampled_from(sorted(format.dtypes, key=str))
    any_array = kinds.flatmap(array_of).filter(lambda a: holds(format, a))
    arrays = data.draw(st.dictionaries(NAMES, any_array, min_size=1, max_size=4))
    texts = st.dictionaries(NAMES, TEXT)
    facts = data.draw(texts) if format.keeps_text else {}
    file = io.BytesIO()
    td.save(file, arrays, metadata=facts, format=format.name)
    raw = file.getvalue()
    copies = [False, True] if format.mappable else [True]
    for copy in copies:
        loaded = td.load(raw, copy=copy, format=format.name)
        assert set(loaded) == set(arrays) and loaded.metadata == facts
        for name, array in arrays.items():
            assert loaded[name].dtype == array.dtype
            assert loaded[name].shape == array.shape
            assert loaded[name].tobytes() == array.tobytes()
            assert loaded[name].flags.writeable == copy


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
def test_what_a_format_cannot_hold_is_named(format: Format) -> None:
    for dtype in set(dtypes.ALL) - format.dtypes:
        with pytest.raises(td.ModelFileError) as caught:
            td.save(io.BytesIO(), {"w": np.ones(2, dtype)}, format=format.name)
        text = str(caught.value)
        assert f"'w': {format.name} has no {dtype.name}; " in text and ".npz" in text


def test_dynet_says_what_it_cannot_hold() -> None:
    cases: list[tuple[str, Any, str]] = [
        ("w", np.float32(1), "1 to 7 dimensions, not 0; reshape"),
        ("w", np.ones([1] * 8, "f4"), "1 to 7 dimensions, not 8"),
        ("w", np.array([np.inf], "f4"), "not finite; .npz keeps"),
        ("a w", np.ones(1, "f4"), "no blank"),
        ("a#w", np.ones(1, "f4"), "no blank and no '#'"),
    ]
    for name, array, message in cases:
        with pytest.raises(td.ModelFileError, match=f"'{name}'.*{message}"):
            td.save(io.BytesIO(), {name: array}, format="dynet")
    with pytest.raises(td.ModelFileError, match="keeps no metadata"):
        td.save(
            io.BytesIO(), {"w": np.ones(1, "f4")}, metadata={"a": ""}, format="dynet"
        )


# -- Marian ------------------------------------------------------------------------


def marian_bytes() -> bytes:
    """Two arrays and a text as Marian's binary.cpp lays them out, written by hand."""
    text = b"dim: 3\n"
    head = struct.pack("<2Q", 1, 3)
    head += struct.pack("<4Q", 2, 0x404, 2, 256)  # W, float32[2, 3]
    head += struct.pack("<4Q", 2, 0x101, 1, 256)  # b, int8[300], two blocks
    head = head[:-8] + struct.pack("<Q", 512)
    head += struct.pack("<4Q", 18, 0x101, 1, 256)
    head += b"W\0b\0special:model.yml\0"
    head += struct.pack("<4i", 2, 3, 300, 256)
    after = (len(head) + 8) // 256 * 256 + 256
    head += struct.pack("<Q", after - len(head) - 8)
    body = head.ljust(after, b"\0")
    body += np.arange(6, dtype="<f4").tobytes().ljust(256, b"\0")
    body += (np.arange(300) % 100).astype("i1").tobytes().ljust(512, b"\0")
    return body + text.ljust(256, b"\0")


def test_marians_layout(tmp_path: Path) -> None:
    raw = marian_bytes()
    path = tmp_path / "model.bin"
    path.write_bytes(raw)
    loaded = td.load(path)
    assert loaded.metadata == {"model.yml": "dim: 3\n"} and list(loaded) == ["W", "b"]
    assert loaded["W"].tolist() == [[0, 1, 2], [3, 4, 5]]
    td.save(path, loaded)
    assert path.read_bytes() == raw, "written as Marian writes it"


def test_every_truncation_is_an_error() -> None:
    raw = marian_bytes()
    for length in range(len(raw)):
        with pytest.raises(td.ModelFileError, match="the buffer"):
            load_arrays(raw[:length], format=".bin")


def test_marians_npz_keeps_its_text(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    text = np.frombuffer(b"dim: 3\0\0", np.int8)
    np.savez(path, **{"special:model.yml": text, "W": np.ones(2)})
    loaded = td.load(path)
    assert list(loaded) == ["W"] and loaded.metadata == {"model.yml": "dim: 3"}


@pytest.mark.parametrize("ending", [".bin", ".safetensors"])
def test_a_mapped_file_is_not_copied(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    arrays = {"a": np.arange(3, dtype="i1"), "w": np.arange(1 << 20, dtype="f4")}
    save_arrays(path, arrays | {"none": np.zeros((0, 2), "f4")})
    loaded = td.load(path, copy=False)
    assert loaded["w"].tobytes() == arrays["w"].tobytes()
    assert loaded["none"].shape == (0, 2)
    maps = Path("/proc/self/maps").read_text().splitlines()
    where = {line.split()[0]: line for line in maps}
    address = loaded["w"].ctypes.data
    mapped = [
        line
        for span, line in where.items()
        if int(span.split("-")[0], 16) <= address < int(span.split("-")[1], 16)
    ]
    assert mapped and mapped[0].rstrip().endswith(str(path))
    if ending == ".bin":
        assert address % 256 == 0
    variable = td.Variable(loaded["w"], copy=False)
    assert variable.numpy().ctypes.data == address
    # Replacing the file leaves what is mapped as it was.
    save_arrays(path, {"w": np.zeros(3)})
    assert float((variable + 1)[5]) == 6.0
    os.unlink(path)
    assert variable.numpy()[-1] == (1 << 20) - 1


def test_training_from_a_mapped_file_leaves_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    save_arrays(path, {"w": np.zeros(1 << 16, "f4")})
    before = path.read_bytes()
    # The Variable alone refers to the mapping, which nobody can write to.
    w = td.Parameter(td.load(path, copy=False)["w"], copy=False)
    raw = td.Parameter(np.frombuffer(bytes(1 << 18), "f4"), copy=False)
    whole = np.zeros(1 << 17, "f4")
    half = td.Parameter(whole[: 1 << 16], copy=False)
    optimizer = td.optim.SGD(lr=0.25)
    for _ in range(3):
        optimizer.step(td.sum(w + raw + half))
    for p in (w, raw, half):
        assert (p.numpy() == -0.75).all()
    assert path.read_bytes() == before and not whole.any()


def test_npz_is_not_mapped(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", {"w": np.ones(1)})
    with pytest.raises(td.ArgumentError, match=r"(?s)without a copy.*\.bin, .* can be"):
        td.load(tmp_path / "a.npz", copy=False)


# -- DyNet -------------------------------------------------------------------------

# What DyNet 2.1 wrote for these parameters: W (2, 3), an infinity and a NaN, a
# (2, 2, 2), a lookup of four rows of two.
DYNET = b"""\
#Parameter# /W {2,3} 97 ZERO_GRAD
-2.49999994e-03 +2.99749994e+00 +9.97500002e-01 +3.99749994e+00 +1.99749994e+00 \
+4.99749994e+00 \n\
#Parameter# /_0 {2} 33 ZERO_GRAD
+inf +nan \n\
#Parameter# /enc/_0 {2,2,2} 129 ZERO_GRAD
+0.00000000e+00 +4.00000000e+00 +2.00000000e+00 +6.00000000e+00 +1.00000000e+00 \
+5.00000000e+00 +3.00000000e+00 +7.00000000e+00 \n\
#LookupParameter# /enc/E {2,4} 129 ZERO_GRAD
+0.00000000e+00 +1.00000000e+00 +2.00000000e+00 +3.00000000e+00 +4.00000000e+00 \
+5.00000000e+00 +6.00000000e+00 +7.00000000e+00 \n"""


def test_dynets_text() -> None:
    loaded = td.load(DYNET)
    assert (
        loaded["W"].tobytes()
        == (np.arange(6, dtype="f4").reshape(2, 3) - np.float32(2.5e-3))
        .astype("f4")
        .tobytes()
    )
    assert np.isposinf(loaded["_0"][0]) and np.isnan(loaded["_0"][1])
    assert loaded["enc/_0"].tolist() == np.arange(8.0).reshape(2, 2, 2).tolist()
    assert loaded["enc/E"].tolist() == np.arange(8.0).reshape(4, 2).tolist()
    assert loaded.tables == {"enc/E"}
    del loaded["_0"]
    file = io.BytesIO()
    td.save(file, loaded, format="dynet")
    assert file.getvalue() == re.sub(rb"#Parameter# /_0.*\n.*\n", b"", DYNET)


def test_dynets_gradients_are_passed_over() -> None:
    raw = b"#Parameter# /a {1} 34 FULL_GRAD\n+1.00000000e+00 \n+2.00000000e+00 \n"
    old = b"#Parameter# /b {1} 17\n+3.00000000e+00 \n"
    loaded = td.load(raw + old)
    assert {k: v.tolist() for k, v in loaded.items()} == {"a": [1.0], "b": [3.0]}


def test_a_table_is_dynets_lookup_parameter(tmp_path: Path) -> None:
    table, w = td.lookup("E", (3, 2)), td.param("w", (2, 3))
    td.save(tmp_path / "m.dynet", [table, w])
    lines = (tmp_path / "m.dynet").read_bytes().split(b"\n")
    assert lines[0] == b"#Parameter# /w {2,3} 97 ZERO_GRAD"
    assert lines[2] == b"#LookupParameter# /E {2,3} 97 ZERO_GRAD"
    before = table.numpy().copy(), w.numpy().copy()
    table.assign(0.0)
    w.assign(0.0)
    td.load(tmp_path / "m.dynet", [w, table])
    assert (table.numpy() == before[0]).all() and (w.numpy() == before[1]).all()


# -- which format ------------------------------------------------------------------


def test_the_first_bytes_tell_where_the_ending_does_not(tmp_path: Path) -> None:
    for format in FORMATS:
        path = tmp_path / f"model-{format.name}.renamed"
        td.save(path, {"w": np.ones(2, "f4")}, format=format.name)
        assert td.load(path)["w"].tolist() == [1, 1]
        assert load_arrays(path.read_bytes())[0]["w"].tolist() == [1, 1]
    with pytest.raises(td.ModelFileError, match="the buffer: neither the ending"):
        td.load(b"something else")
    with pytest.raises(td.ArgumentError, match=r"no format is named 'pickle'"):
        td.load(b"", format="pickle")
    with pytest.raises(td.ModelFileError, match=r"(?s)an open file.*or say format="):
        td.save(io.BytesIO(), {"w": np.ones(2)})
    with pytest.raises(td.ArgumentError, match="not int"):
        load_arrays(3)  # type: ignore[arg-type]
