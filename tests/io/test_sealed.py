"""Marian's encrypted .bin: its layout, what is hidden and what is not, wrong keys."""

from __future__ import annotations

import hashlib
import io
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.io.fuzz import mutated, problem
from treadle.base.extras import extra

ARRAYS = {f"layer.{k}": np.arange(k + 1, dtype=np.float32) for k in range(9)}
KEY = "a key of Marian's"


def saved(key: str | bytes | None = KEY, **settings: Any) -> bytes:
    file = io.BytesIO()
    td.save(file, ARRAYS, format=".bin", key=key, **settings)
    return file.getvalue()


def sealed(header: bytes, data: bytes, key: str = KEY, gap: int | None = None) -> bytes:
    """A file as Marian's binary.cpp and crypt.h lay it out, written by hand."""
    aead = extra("cryptography.hazmat.primitives.ciphers.aead", "crypt")
    cipher = aead.AESGCM(hashlib.sha256(key.encode()).digest())
    nonce = b"\7" * 12
    hidden = nonce + cipher.encrypt(nonce, header, None)
    raw = struct.pack("<2Q", 2, len(hidden)) + hidden
    fill = 256 - (len(raw) + 8) % 256
    return raw + struct.pack("<Q", fill if gap is None else gap) + bytes(fill) + data


HEADER = (
    struct.pack("<Q", 1)
    + struct.pack("<4Q", 2, 0x404, 1, 256)
    + b"a\0"
    + struct.pack("<i", 2)
)
DATA = np.array([1.5, -2.0], "<f4").tobytes().ljust(256, b"\0")


def test_a_file_of_marian_is_read() -> None:
    loaded = td.load(sealed(HEADER, DATA), format=".bin", key=KEY)
    assert {k: v.tolist() for k, v in loaded.items()} == {"a": [1.5, -2.0]}
    mapped = td.load(sealed(HEADER, DATA), format=".bin", key=KEY, copy=False)
    assert mapped["a"].tolist() == [1.5, -2.0]


def test_bits_come_back_and_names_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "m.bin"
    td.save(path, ARRAYS, metadata={"model.yml": "dim: 3"}, key=KEY)
    raw = path.read_bytes()
    assert b"layer" not in raw and b"model.yml" not in raw
    assert b"dim: 3" in raw, "what arrays and texts hold is not hidden"
    loaded = td.load(path, key=KEY.encode())
    assert loaded.metadata == {"model.yml": "dim: 3"} and set(loaded) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], array)
    assert list(td.load(saved(), format="bin", key=KEY)) != list(
        td.load(saved(), format="bin", key=KEY)
    ), "arrays are shuffled"
    assert td.load(saved(None), format="bin", key=KEY).keys() == ARRAYS.keys()


def test_a_wrong_key_or_none_is_told() -> None:
    raw = saved()
    with pytest.raises(td.ModelFileError, match="pass the key="):
        td.load(raw)
    with pytest.raises(td.ModelFileError, match="another key, or changed since"):
        td.load(raw, key="another")
    changed = bytearray(raw)
    changed[40] ^= 1
    with pytest.raises(td.ModelFileError, match="another key, or changed since"):
        td.load(bytes(changed), key=KEY)
    with pytest.raises(td.ArgumentError, match="key is text or bytes"):
        td.load(raw, key="")
    with pytest.raises(td.ArgumentError, match=r"\.npz is not encrypted"):
        td.save(io.BytesIO(), ARRAYS, format=".npz", key=KEY)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "no length": (lambda: struct.pack("<Q", 2), "ends within the length"),
    "header beyond the end": (
        lambda: struct.pack("<2Q", 2, 2**63),
        "ends within the header",
    ),
    "header too short": (lambda: struct.pack("<2Q", 2, 8) + bytes(8), "too short"),
    "more in the header": (
        lambda: sealed(HEADER + b"\0", DATA),
        "more than its arrays",
    ),
    "count": (lambda: sealed(struct.pack("<Q", 2**60), DATA), "are not in"),
    "shape cut off": (lambda: sealed(HEADER[:-1], DATA), "ends within the shape"),
    "data cut off": (lambda: sealed(HEADER, DATA[:-1]), "outside the file"),
    "gap": (lambda: sealed(HEADER, DATA, gap=2**64 - 1), "the data begin at"),
    "no data": (lambda: sealed(HEADER, b"")[:-100], "the data begin at"),
    "path": (lambda: sealed(HEADER.replace(b"a\0", b"/\0"), DATA), "not a name"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_refused(case: str) -> None:
    made, said = HOSTILE[case]
    content = made()
    with pytest.raises(td.ModelFileError, match=said) as caught:
        td.load(content, format=".bin", key=KEY)
    assert caught.value.message.startswith("the buffer: ")


def test_mutations_under_the_key_are_loaded_or_refused() -> None:
    """The tag tells of any change, so the header is changed before it is sealed."""
    good = [HEADER, struct.pack("<Q", 0)]
    load = lambda raw: td.load(raw, format=".bin", key=KEY, max_bytes=1 << 24)  # noqa: E731
    for k in range(300):
        header = mutated(random.Random(f"sealed {k}"), good)
        assert not problem(load, sealed(header, DATA)), f"mutation {k}"
        raw = mutated(random.Random(f"raw {k}"), [sealed(HEADER, DATA)])
        assert not problem(load, raw), f"mutation {k}"


def test_without_the_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = "cryptography.hazmat.primitives.ciphers.aead"
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(td.MissingExtraError, match=r"treadle\[crypt\]"):
        td.save(tmp_path / "m.bin", ARRAYS, key=KEY)
    assert not list(tmp_path.iterdir())
