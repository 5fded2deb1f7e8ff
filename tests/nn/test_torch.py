"""What torch's people bring: layouts of attention, tensors of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn


def as_torch_has_it(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a layer with attention, under torch's names."""
    given = {k: v for k, v in state.items() if "q_proj" not in k}
    given = {k: v for k, v in given.items() if "k_proj" not in k and "v_proj" not in k}
    for kind in ("weight", "bias"):
        for name in [k for k in state if k.endswith(f"q_proj.{kind}")]:
            start = name.removesuffix(f"q_proj.{kind}")
            parts = [state[f"{start}{letter}_proj.{kind}"] for letter in "qkv"]
            given[f"{start}in_proj_{kind}"] = np.concatenate(parts)
    return given


def test_attention_takes_the_layout_of_torch() -> None:
    with td.options(seed=1):
        first = nn.TransformerEncoderLayer(8, 2, 16).eval()
        second = nn.TransformerEncoderLayer(8, 2, 16).eval()
    given = as_torch_has_it(first.state_dict())
    assert "self_attn.in_proj_weight" in given
    keys = second.load_state_dict(given)
    assert not keys.missing_keys and not keys.unexpected_keys
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)
    assert np.array_equal(first(x).numpy(), second(x).numpy())
    given["self_attn.in_proj_weight"] = np.zeros((5, 8), np.float32)
    with pytest.raises(td.ModelFileError, match="in_proj_weight"):
        second.load_state_dict(given)


def test_attention_of_several_widths_takes_the_layout_of_torch() -> None:
    first, second = (nn.MultiHeadAttention(4, 2, kdim=3, vdim=5) for _ in range(2))
    state = first.state_dict()
    given = {
        "in_proj_bias": np.concatenate([state[f"{c}_proj.bias"] for c in "qkv"]),
        **{f"{c}_proj_weight": state[f"{c}_proj.weight"] for c in "qkv"},
        **{k: v for k, v in state.items() if k.startswith("out")},
    }
    second.load_state_dict(given)
    for name, array in second.state_dict().items():
        assert np.array_equal(array, state[name])


def test_tensors_of_torch_are_inputs() -> None:
    torch = pytest.importorskip("torch")
    for dtype in ("float16", "bfloat16", "float32", "int64"):
        x = torch.ones(2, 3, dtype=getattr(torch, dtype)).t()
        y = td.asarray(x)
        assert y.dtype.name == dtype and y.shape == (3, 2) and bool((y == 1).all())
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.full((2,), 1.5, dtype=dtype, requires_grad=True)
        assert (td.ones(2) * x).tolist() == [1.5, 1.5]
        layer = nn.Linear(2, 1)
        assert layer(x).shape == (1,)
        layer.load_state_dict({"weight": x.reshape(1, 2), "bias": x[:1]})
        assert layer.weight.tolist() == [[1.5, 1.5]]
