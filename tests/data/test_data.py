"""Data sets, the order of batches, and files that are wrong."""

from __future__ import annotations

import gzip
import hashlib
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from treadle.base.errors import ArgumentError, DataFileError, ShapeError, StateError
from treadle.data.dataset import ArrayDataset, permutation
from treadle.data.images import fashion_mnist, images_from_npz, load_images, read_idx
from treadle.data.loader import Loader

Array = np.ndarray[Any, Any]


def idx(array: Array) -> bytes:
    lead = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return lead + array.astype(np.uint8).tobytes()


def test_digits() -> None:
    data = load_images("digits")
    x, y = data.train[:]
    assert x.shape == (1438, 1, 8, 8) and x.dtype == np.float32 and x.max() == 1
    assert set(y.tolist()) == set(range(10)) and y.dtype == np.int64
    total = np.bincount(np.concatenate([y, data.held_out[:][1]]))
    assert total.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_order_never_changes() -> None:
    """Anyone's saved position depends on these numbers."""
    assert permutation(8, seed=1, number=2).tolist() == ORDER
    digest = hashlib.sha256(permutation(1000, 7, 9).astype("<i8").tobytes())
    assert digest.hexdigest()[:16] == DIGEST


ORDER = [4, 2, 0, 6, 1, 5, 7, 3]
DIGEST = "3de05ac997bb63bc"


def test_loader_visits_each_example_once_per_epoch() -> None:
    loader = Loader(ArrayDataset(np.arange(10), -np.arange(10)), batch_size=4, seed=3)
    epochs = []
    for _ in range(2):
        batches = list(loader)
        assert [len(x) for x, _ in batches] == [4, 4, 2] and len(loader) == 3
        assert all((x == -y).all() for x, y in batches)
        epochs.append(np.concatenate([x for x, _ in batches]).tolist())
        assert sorted(epochs[-1]) == list(range(10))
    assert epochs[0] != epochs[1] and loader.epoch == 2
    short = Loader(ArrayDataset(np.arange(10)), batch_size=4, drop_last=True)
    assert [len(x) for (x,) in short] == [4, 4] and len(short) == 2


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 7), st.integers(0, 60))
def test_a_restored_loader_goes_on(count: int, batch: int, stop: int) -> None:
    def stream(loader: Loader, n: int) -> list[list[int]]:
        taken: list[list[int]] = []
        while len(taken) < n:
            for (x,) in loader:
                taken.append(x.tolist())
                if len(taken) == n:
                    break
        return taken

    data = ArrayDataset(np.arange(count))
    whole = stream(Loader(data, batch, seed=5), stop + 9)
    first, second = Loader(data, batch, seed=5), Loader(data, batch)
    assert stream(first, stop) == whole[:stop]
    second.restore(first.state())
    assert stream(second, 9) == whole[stop:]


def test_wrong_arguments() -> None:
    data = ArrayDataset(np.arange(10))
    for batch in (0, -1, 1.5, True):
        with pytest.raises(ArgumentError, match="batch"):
            Loader(data, batch)  # type: ignore[arg-type]
    with pytest.raises(StateError, match="batch_size=4"):
        Loader(data, 2).restore(Loader(data, 4).state())
    with pytest.raises(StateError, match="not the state"):
        Loader(data, 2).restore({**Loader(data, 2).state(), "epoch": -1})
    with pytest.raises(ShapeError, match="2, 3 examples"):
        ArrayDataset(np.zeros(2), np.zeros(3))
    with pytest.raises(ShapeError, match="at least one"):
        ArrayDataset()
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        data.split(1.5)


def fashion_folder(folder: Path, packed: bool) -> None:
    for part, n in (("train", 20), ("t10k", 6)):
        for kind, array in (
            ("images-idx3", np.arange(n * 784).reshape(n, 28, 28) % 256),
            ("labels-idx1", np.arange(n) % 10),
        ):
            raw = idx(array)
            path = folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(raw, mtime=0) if packed else raw)


@pytest.mark.parametrize("packed", [True, False])
def test_fashion_mnist(tmp_path: Path, packed: bool) -> None:
    fashion_folder(tmp_path, packed)
    data = load_images("fashion-mnist", tmp_path)
    assert (len(data.train), len(data.held_out), data.shape) == (20, 6, (1, 28, 28))
    x, y = data.held_out[np.array([3])]
    assert x.shape == (1, 1, 28, 28) and y.tolist() == [3] and 0.9 < x.max() <= 1


def test_fashion_mnist_files_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="dataset-fashion-mnist") as e:
        fashion_mnist(tmp_path)
    assert "train-images-idx3-ubyte.gz: there is no such file" in str(e.value)
    fashion_folder(tmp_path, packed=False)
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    cases: list[tuple[bytes, str]] = [
        (b"", "not an IDX file"),
        (b"\0\0\x09\1\0\0\0\1", "not an IDX file"),
        (b"\0\0\x08\2\0\0\0\1", "ends within its header"),
        (b"\0\0\x08\2" + b"\xff" * 8, "do not fit"),
        (idx(np.arange(6))[:-1], "ends after 5"),
        (idx(np.arange(6)) + b"\0", "there is more"),
        (idx(np.arange(5)), "do not fit images"),
        (idx(np.arange(6) + 9), "labels are 0 to 9"),
        (gzip.compress(idx(np.arange(6)))[:-9], "ended before"),
    ]
    for content, message in cases:
        labels.write_bytes(content)
        with pytest.raises(DataFileError, match=message) as caught:
            fashion_mnist(tmp_path)
        assert "t10k-labels-idx1-ubyte" in str(caught.value)


def test_users_arrays(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    rng = np.random.default_rng(0)
    y = np.arange(20) % 4
    cases: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((20, 5, 6), (1, 5, 6)),
        ((20, 3, 5, 6), (3, 5, 6)),
        ((20, 5, 6, 3), (3, 5, 6)),
    ]
    for shape, expected in cases:
        for names in (("x", "y"), ("images", "labels")):
            x = rng.integers(0, 256, shape).astype(np.uint8)
            np.savez(path, **dict(zip(names, (x, y[:, None]), strict=True)))
            data = load_images(str(path))
            assert data.shape == expected and data.classes == 4
            assert (len(data.train), len(data.held_out)) == (16, 4)
            assert data.train[:][0].max() <= 1
    x = rng.normal(size=(20, 5, 6))
    np.savez_compressed(path, x_train=x, y_train=y, x_test=x[:7], y_test=y[:7])
    data = images_from_npz(path)
    assert (len(data.train), len(data.held_out), data.name) == (20, 7, "mine")
    np.testing.assert_array_equal(data.held_out[:][0][:, 0], x[:7].astype(np.float32))


def test_users_arrays_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    x, y = np.zeros((20, 5, 6), np.float32), np.arange(20) % 4
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "are not among its arrays .none."),
        ({"x": x}, "are not among its arrays"),
        ({"x": x[0], "y": y}, "x has shape"),
        ({"x": x[:0], "y": y[:0]}, "x has shape"),
        ({"x": x + np.nan, "y": y}, "no brightness"),
        ({"x": x > 0, "y": y}, "no brightness"),
        ({"x": x, "y": y[:-1]}, "20 whole numbers"),
        ({"x": x, "y": y / 2}, "20 whole numbers"),
        ({"x": x, "y": y - 1}, "from -1 to 2"),
        ({"x": x, "y": y + 2**40}, "below 65536"),
        ({"x": x[:3], "y": y[:3]}, "too few"),
        ({"x": np.array([None] * 20), "y": y}, "'x.npy': .*refused"),
        (
            {"x_train": x, "y_train": y, "x_test": x[:, 1:], "y_test": y},
            "not of one kind",
        ),
    ]
    for arrays, message in cases:
        np.savez(path, **arrays)
        with pytest.raises(DataFileError, match=message) as caught:
            images_from_npz(path)
        assert str(path) in str(caught.value)
    with pytest.raises(DataFileError, match="No such file"):
        images_from_npz(tmp_path / "missing.npz")
    with pytest.raises(DataFileError, match="known: digits, fashion-mnist"):
        load_images("mnist")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["plain", "packed", "npz"]), st.data())
def test_mutations(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp()
    x, y = np.arange(180).reshape(6, 5, 6), np.arange(6)
    if kind == "npz":
        np.savez_compressed(folder / "good.npz", x=x.astype(np.uint8), y=y)
        content = bytearray((folder / "good.npz").read_bytes())
    else:
        content = bytearray(idx(x) if kind == "plain" else gzip.compress(idx(x)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] = data.draw(st.integers(0, 255))
        else:
            content = content[: at + 1]
    path = folder / f"{hashlib.md5(content).hexdigest()}.npz"
    path.write_bytes(content)
    try:
        if kind == "npz":
            images_from_npz(path)
        else:
            assert read_idx(path).nbytes <= 1100 * len(content)
    except DataFileError as error:
        assert str(path) in str(error)
    finally:
        path.unlink()


def test_the_room_is_loaded_when_it_is_named() -> None:
    """`import treadle` reads no files, so it needs nothing that does."""
    program = (
        "import sys, treadle as td\n"
        "assert not {'treadle.data', 'zipfile'} & set(sys.modules)\n"
        "assert 'data' in dir(td) and td.data.Loader and td.data is td.data\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'dates'"):
        _ = td.dates


def test_what_makes_a_batch_is_a_function() -> None:
    with pytest.raises(td.TreadleError, match="collate is a function"):
        td.data.ListDataset([1, 2], collate=np.ones(2))
