"""ONNX files that lie: one kind of error that names file, item and reason."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

pytest.importorskip("onnx")

import onnx
from onnx import helper, numpy_helper

from tests.io.onnx.models import save
from treadle.io.onnx.file import array_of

X = np.ones((2, 3), np.float32)
Change = Callable[[Any], object]


def made(tmp_path: Path, change: Change) -> Path:
    """A good file, spoiled."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    weights = {"w": np.ones((3, 2), np.float32)}
    path = save(tmp_path / "m.onnx", [node], {"x": X}, weights)
    model = onnx.load(path)
    change(model)
    path.write_bytes(model.SerializeToString())
    return path


def weight(**fields: Any) -> Change:
    def change(model: Any) -> None:
        (w,) = model.graph.initializer
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(w, name)[:]
                getattr(w, name).extend(value)
            else:
                setattr(w, name, value)

    return change


def outside(location: str, **more: str) -> Change:
    def change(model: Any) -> None:
        (w,) = model.graph.initializer
        w.ClearField("raw_data")
        w.data_location = 1
        for key, value in {"location": location, **more}.items():
            w.external_data.add(key=key, value=value)

    return change


def cycle(model: Any) -> None:
    model.graph.node.insert(0, helper.make_node("Relu", ["z"], ["x2"], name="first"))
    model.graph.node.append(helper.make_node("Relu", ["x2"], ["z"], name="last"))


def unknown(model: Any) -> None:
    add = model.graph.node.add
    add(op_type="Strange", name="a", domain="com.some")
    add(op_type="StringSplit", name="b", input=["x"], output=["q"])
    add(op_type="StringSplit", name="c", input=["x"], output=["r"])


def node(kind: str, *inputs: str, **fields: Any) -> Change:
    def change(model: Any) -> None:
        made = helper.make_node(kind, inputs, ["z"], name="it", **fields)
        model.graph.node.append(made)
        model.graph.output[0].name = "z"

    return change


def constant(kind: str, value: Any, *before: str, **fields: Any) -> Change:
    def change(model: Any) -> None:
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), "k"))
        node(kind, *before, "k", **fields)(model)

    return change


def endless(model: Any) -> None:
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    own = helper.make_opsetid("own", 1)
    model.functions.append(
        helper.make_function("own", "F", ["a"], ["b"], [call], [own])
    )
    model.opset_import.append(own)
    model.graph.node.append(helper.make_node("F", ["y"], ["z"], domain="own"))
    model.graph.output[0].name = "z"


ROWS: dict[str, tuple[Change, str]] = {
    "dims do not fit": (weight(dims=[3, 3]), "'w': 24 bytes for float32"),
    "negative dims": (weight(dims=[-1, 2]), "'w': .*is not a shape"),
    "huge dims": (weight(dims=[1 << 40, 1 << 40]), "'w': .*too large"),
    "large dims": (weight(dims=[1 << 36]), "'w': .*more than the"),
    "many dims": (weight(dims=[1] * 40), "'w': 40 dimensions are too many"),
    "no such dtype": (weight(data_type=77), "'w': the dtype with the number 77"),
    "text": (weight(data_type=8), "'w': the dtype with the number 8"),
    "two of a name": (
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        "two weights have this name",
    ),
    "data above": (outside("../secret"), "'w': '../secret' is not a name"),
    "data elsewhere": (outside("/etc/passwd"), "'w': '/etc/passwd' is not a name"),
    "data behind a link": (outside("link/secret"), "is not beside the model"),
    "data of two names": (outside("hard"), "hard links"),
    "data that ends": (outside("short.bin"), "has 5 bytes: none for 24 at 0"),
    "data before": (outside("short.bin", offset="-8"), "none for 24 at -8"),
    "data at no number": (outside("short.bin", offset="x"), "'w': invalid literal"),
    "data missing": (outside("none.bin"), "No such file"),
    "a cycle": (cycle, "node 'first' reads 'z', which nothing before it computes"),
    "ops of nobody": (
        unknown,
        r"no importer in version 20 for: StringSplit \(b, c\); com.some.Strange \(a\)",
    ),
    "a subgraph": (
        lambda m: m.graph.node[0].attribute.append(
            helper.make_attribute("body", m.graph)
        ),
        "node 'product': MatMul with 'body' is not read",
    ),
    "no version": (lambda m: m.ClearField("opset_import"), "this is not an ONNX model"),
    "an old version": (
        lambda m: setattr(m.opset_import[0], "version", 0),
        "version 0 of ONNX's ops",
    ),
    "no such output": (
        lambda m: setattr(m.graph.output[0], "name", "q"),
        "nothing computes the output 'q'",
    ),
    "twice": (
        lambda m: m.graph.node.append(m.graph.node[0]),
        "'y' is computed twice",
    ),
    "an input without a shape": (
        lambda m: m.graph.input[0].type.tensor_type.ClearField("shape"),
        "input 'x' has no dtype or shape",
    ),
}

# What only shows when the graph is built.
BUILT: dict[str, tuple[Change, str]] = {
    "a function of itself": (endless, "nested too deeply"),
    "a wrong axis": (node("Softmax", "y", axis=7), r"node 'it' \(Softmax\): axis 7"),
    "no such shape": (constant("Reshape", [5, 5], "y"), r"node 'it' \(Reshape\)"),
    "a huge shape": (
        constant("Expand", [1 << 40, 1 << 40, 1], "y"),
        r"\(Expand\): .*too large",
    ),
    "a huge fill": (
        constant("ConstantOfShape", [1 << 40, 1 << 40]),
        r"\(ConstantOfShape\): .*too large",
    ),
    "a huge border": (
        constant("Pad", [0, 0, 1 << 61, 1 << 61], "y"),
        r"\(Pad\): .*too large",
    ),
    "huge counts": (
        constant("Tile", [1 << 50, 1 << 50], "y"),
        r"\(Tile\): .*too large",
    ),
    "too few operands": (node("Gemm", "y"), r"node 'it' \(Gemm\)"),
    "an attribute of another kind": (
        node("Softmax", "y", axis=1.5),
        r"\(Softmax\): 'axis' is 1.5",
    ),
    "a stride of 0": (
        node("MaxPool", "y", kernel_shape=[1], strides=[0]),
        r"node 'it' \(MaxPool\)",
    ),
    "a shape that is data": (
        node("Reshape", "x", "y"),
        "the shape is no short list of integers",
    ),
}


@pytest.mark.parametrize("name", [*ROWS, *BUILT])
def test_a_file_that_lies_is_told(name: str, tmp_path: Path) -> None:
    change, says = {**ROWS, **BUILT}[name]
    (tmp_path / "secret").write_bytes(b"0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "short.bin").write_bytes(b"12345")
    (folder / "link").symlink_to(tmp_path)
    (folder / "hard").hardlink_to(tmp_path / "secret")
    path = made(folder, change)
    tracemalloc.start()
    with pytest.raises(td.ModelFileError, match=says) as found:
        td.from_onnx(path)(X)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in found.value.message
    assert most < 16 << 20


def test_a_file_that_is_cut_is_told(tmp_path: Path) -> None:
    whole = made(tmp_path, lambda model: None).read_bytes()
    path = tmp_path / "cut.onnx"
    for n in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:n])
        with pytest.raises(td.ModelFileError, match=r"cut\.onnx"):
            td.from_onnx(path)


def test_bytes_that_are_changed_never_break_out(tmp_path: Path) -> None:
    whole = made(tmp_path, lambda model: None).read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "changed.onnx"
    for _ in range(500):
        raw = bytearray(whole)
        for place in rng.integers(0, len(raw), 3):
            raw[place] = rng.integers(256)
        path.write_bytes(bytes(raw))
        try:
            net = td.from_onnx(path, max_bytes=1 << 20)
            net(*[X] * len(net.inputs))
        except td.TreadleError:
            pass


def test_data_beside_the_model_is_read(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    (tmp_path / "w.bin").write_bytes(b"1234" + values.tobytes())
    path = made(tmp_path, outside("w.bin", offset="4", length="24"))
    np.testing.assert_array_equal(td.from_onnx(path)(X).numpy(), X @ values)


@pytest.mark.parametrize("code", ["f2", "f4", "f8", "i1", "u2", "i4", "i8", "u8", "?"])
@pytest.mark.parametrize("raw", [True, False])
def test_arrays_of_every_dtype_are_read(code: str, raw: bool) -> None:
    value = np.array([[0, 1, 1]], code)
    data = value.tobytes() if raw else value.reshape(-1)
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    tensor = helper.make_tensor("w", kind, value.shape, data, raw=raw)
    found = array_of(tensor, None)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)
