"""Attention with masks is one node; what sees no key takes nothing, as it does here."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

pytest.importorskip("onnx")

from tests.io.onnx.models import by_onnx, by_reference, by_treadle, kinds_of, same
from tests.io.onnx_published import session_of

RNG = np.random.default_rng(0)
Q = RNG.normal(size=(2, 3, 4, 8)).astype(np.float32)
K, V = (RNG.normal(size=(2, 3, 5, 8)).astype(np.float32) for _ in range(2))
SEEN = RNG.random((2, 3, 4, 5)) < 0.5
SEEN[0, 1, 2] = False  # a query that sees no key
SEEN[1] = True

# Masks of every shape that fits, the greater half with queries that see no key.
MASKS = {
    "all": SEEN,
    "of heads": SEEN[0],
    "of queries": SEEN[0, 1],
    "of each text": SEEN[:, :1],
    "padding": SEEN[:, :1, :1],
    "padding of all": SEEN[0, 1, 2],
    "columns": SEEN[:, :, :, :1],
    "added": np.where(SEEN, RNG.normal(size=SEEN.shape), -np.inf).astype(np.float32),
    "added, finite": RNG.normal(size=(4, 5)).astype(np.float32),
}


def file_of(f: Any, path: Path, **xs: Any) -> list[str]:
    """The ops of the file that is written of a function."""
    td.to_onnx(f, path, *xs.values(), inputs=list(xs))
    return kinds_of(path)


def agree(f: Any, path: Path, **xs: Any) -> None:
    """Refuse a file of other values than the function's, whoever runs it."""
    want = by_reference(lambda: f(*xs.values()))
    same(by_treadle(path, xs), want)
    same(by_onnx(path, xs), want)
    if find_spec("onnxruntime") is not None:
        same(session_of(path.read_bytes(), 1).run(None, xs), want)


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_that_is_given(name: str, tmp_path: Path) -> None:
    given = {"q": Q, "k": K, "v": V, "mask": MASKS[name]}
    kinds = file_of(td.attention, tmp_path / "m.onnx", **given)
    assert "Attention" in kinds and not {"Softmax", "MatMul"} & set(kinds)
    agree(td.attention, tmp_path / "m.onnx", **given)


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_that_is_known(name: str, tmp_path: Path) -> None:
    mask = MASKS[name]

    def f(q: Any, k: Any, v: Any) -> Any:
        return td.attention(q, k, v, mask, scale=0.5)

    kinds = file_of(f, tmp_path / "m.onnx", q=Q, k=K, v=V)
    seen = mask if mask.dtype == bool else mask > -np.inf
    assert "Attention" in kinds
    assert ("ReduceMax" in kinds) is (not seen.any(-1).all())
    agree(f, tmp_path / "m.onnx", q=Q, k=K, v=V)


def test_a_known_mask_that_lets_every_query_see(tmp_path: Path) -> None:
    for mask in (np.tri(4, 5) > 0, np.zeros((4, 1), np.float32), np.float32(1)):

        def f(q: Any, k: Any, v: Any, mask: Any = mask) -> Any:
            return td.attention(q, k, v, mask)

        kinds = file_of(f, tmp_path / "m.onnx", q=Q, k=K, v=V)
        assert "Attention" in kinds and "ReduceMax" not in kinds
        agree(f, tmp_path / "m.onnx", q=Q, k=K, v=V)


def test_a_mask_of_what_is_later_as_well(tmp_path: Path) -> None:
    given = {"q": Q, "k": K[:, :, :4], "v": V[:, :, :4], "mask": SEEN[:, :, :, 1:]}

    def f(*xs: Any) -> Any:
        return td.attention(*xs, causal=True)

    assert "Attention" in file_of(f, tmp_path / "m.onnx", **given)
    agree(f, tmp_path / "m.onnx", **given)


def test_texts_of_any_length(tmp_path: Path) -> None:
    net = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    def f(x: Any, padding: Any) -> Any:
        return net(x, x, x, key_padding_mask=padding)[0]

    open_ = {name: {0: "n", 1: "time"} for name in ("x", "padding")}
    x, padding = Q[:, 0], np.array([[False] * 4, [False, False, True, True]])
    td.to_onnx(
        f, tmp_path / "m.onnx", x, padding, inputs=["x", "padding"], dynamic=open_
    )
    assert "Attention" in kinds_of(tmp_path / "m.onnx")
    agree(f, tmp_path / "m.onnx", x=x, padding=padding)
    agree(f, tmp_path / "m.onnx", x=K[:1, 0], padding=np.arange(5)[None] > 2)
