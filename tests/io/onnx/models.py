"""Models for tests of ONNX files: made, run by onnx itself, and compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

pytest.importorskip("onnx")

import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from treadle.base import trees

Arrays = dict[str, np.ndarray[Any, Any]]


def save(
    path: Path,
    nodes: list[Any],
    inputs: Arrays,
    weights: Arrays | None = None,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 20,
    open_: tuple[str, ...] = (),
) -> Path:
    """A file of these nodes; dimension 0 of the inputs in `open_` is called "batch"."""

    def info(name: str, x: np.ndarray[Any, Any]) -> Any:
        shape = ["batch", *x.shape[1:]] if name in open_ else x.shape
        code = helper.np_dtype_to_tensor_dtype(x.dtype)
        return helper.make_tensor_value_info(name, code, shape)

    graph = helper.make_graph(
        nodes,
        "test",
        [info(name, x) for name, x in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in (weights or {}).items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9
    )
    onnx.save(model, path)
    return path


def by_onnx(path: Path, inputs: Arrays) -> list[Any]:
    """What onnx's own evaluator computes from a file."""
    with np.errstate(all="ignore"):
        found: list[Any] = ReferenceEvaluator(str(path)).run(None, inputs)
    return found


def by_treadle(path: Path, inputs: Arrays) -> list[Any]:
    """What Treadle computes from a file."""
    return by_reference(lambda: td.from_onnx(path)(**inputs))


def by_reference(compute: Callable[[], Any]) -> list[Any]:
    """The values of tensors by their meaning: files are tested here, not engines."""
    with td.options(engine="reference"):
        return [y.numpy() for y in trees.flatten(compute())[0]]


def same(got: list[Any], want: list[Any], rtol: float = 1e-5) -> None:
    """Equal shapes and dtypes, and values within a tolerance."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        b = np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(
            a.astype(float), b.astype(float), rtol=rtol, atol=rtol / 10
        )


def kinds_of(path: Path) -> list[str]:
    """The ops of a file, but for constants, shapes and names."""
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    return [kind for kind in kinds if kind not in ("Constant", "Identity", "Reshape")]


def is_right(f: Callable[[Any], Any], path: Path, x: Any) -> None:
    """Refuse a file that comes to other values than the function it is of."""
    want = f(td.asarray(x)).numpy()
    for run in (by_onnx, by_treadle):
        (y,) = run(path, {"x": x})
        np.testing.assert_allclose(np.asarray(y), want, rtol=1e-5, atol=2e-6)
