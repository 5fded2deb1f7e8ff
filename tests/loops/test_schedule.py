"""Which loop runs in vectors."""

from __future__ import annotations

import re

import numpy as np

import treadle as td


def test_conditions_are_not_taken_for_memory() -> None:
    """Of what three parts are joined to, elements lie side by side, not the parts."""
    w = td.param("w", init=np.ones((16, 3 * 2 * 64), np.float32))
    x = td.asarray(np.ones((2, 32, 16), np.float32))
    joint = (x @ w).reshape((2, 32, 3, 2, 64))
    q, k, v = td.permute_dims(joint, (2, 0, 3, 1, 4))
    y = td.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    down = td.lower(td.grad(td.square(y).sum(), [w])[0])
    kernels = down.kernels.split("\nkernel ")
    joins = [text for text in kernels if text.count(" where ") >= 3]
    assert joins
    for text in joins:
        axis = re.findall(r"vector (\w+) <", text)[-1]
        assert re.search(rf"^ *b0\[.*\+ {axis}\] = ", text, re.MULTILINE), text
