"""Serrano's FlatBuffers: its schema, read and written as the library does."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.io.hostile_serrano import flat
from treadle import nn

ARRAYS = {
    "conv/weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.array(2.5, np.float32),
    "": np.zeros((0, 3), np.float32),
}
ARRAYS["none"] = ARRAYS.pop("")


def test_vectors_where_there_are_no_shapes() -> None:
    own = td.load(flat(own=(8, 16, 4, 8, 0)), format=".serrano")
    assert own["a"].shape == (2,)
    table = td.load(flat(shape=(2, 1)), format=".serrano")
    assert table["a"].shape == (2, 1)
    without = td.load(flat(own=(6, 16, 4, 0, 0)), format=".serrano")
    assert without["a"].shape == (0,)
    assert td.load(flat(layout=(4, 8, 0)), format=".serrano") == {}


def test_a_network_goes_around(tmp_path: Any) -> None:
    net, again = nn.Linear(3, 2), nn.Linear(3, 2)
    td.save(tmp_path / "net.fb", net)
    td.load(tmp_path / "net.fb", again)
    np.testing.assert_array_equal(net.weight.numpy(), again.weight.numpy())
    mapped = td.load(tmp_path / "net.fb", copy=False)
    assert mapped["weight"].ctypes.data % 4 == 0
    np.testing.assert_array_equal(mapped["weight"], net.weight.numpy())


def test_the_library_reads_it() -> None:
    pytest.importorskip("flatbuffers")
    import flatbuffers
    from flatbuffers import number_types as kinds

    file = io.BytesIO()
    td.save(file, ARRAYS, format=".serrano")
    raw = file.getvalue()
    root = flatbuffers.encode.Get(flatbuffers.packer.uoffset, raw, 0)
    params = flatbuffers.table.Table(raw, root)
    tensors = params.Offset(4)
    found = {}
    for k in range(params.VectorLen(tensors)):
        place = params.Indirect(params.Vector(tensors) + 4 * k)
        tensor = flatbuffers.table.Table(raw, place)
        uid = tensor.String(place + tensor.Offset(4)).decode()
        found[uid] = tensor.GetVectorAsNumpy(kinds.Float32Flags, tensor.Offset(6))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array.reshape(-1))


def test_what_the_library_writes_is_read() -> None:
    pytest.importorskip("flatbuffers")
    import flatbuffers

    builder = flatbuffers.Builder(0)
    tensors = []
    for name, array in ARRAYS.items():
        uid = builder.CreateString(name)
        values = builder.CreateNumpyVector(array.reshape(-1))
        builder.StartObject(2)
        builder.PrependUOffsetTRelativeSlot(0, uid, 0)
        builder.PrependUOffsetTRelativeSlot(1, values, 0)
        tensors.append(builder.EndObject())
    builder.StartVector(4, len(tensors), 4)
    for tensor in reversed(tensors):
        builder.PrependUOffsetTRelative(tensor)
    vector = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, vector, 0)
    builder.Finish(builder.EndObject())
    loaded = td.load(bytes(builder.Output()), format=".serrano")
    assert list(loaded) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], array.reshape(-1))
        assert loaded[name].dtype == np.float32
