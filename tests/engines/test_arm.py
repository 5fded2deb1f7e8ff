"""Code for a machine that is not here: every kind of kernel is printed for NEON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import treadle as td
from tests.programs import program_of
from treadle.engines.native import host as machines
from treadle.engines.native.code import coded
from treadle.engines.native.compiler import assembly
from treadle.engines.native.host import Host
from treadle.program.program import Fallback

ARM = Host("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8", 16)
RNG = np.random.default_rng(0)


def given(*shape: int, dtype: Any = np.float32) -> td.Tensor:
    return td.asarray(RNG.standard_normal(shape).astype(dtype))


GRAPHS: dict[str, Callable[[], td.Tensor]] = {
    "chain": lambda: td.tanh(td.exp(given(5, 70)) * 2.0 + given(70)),
    "softmax": lambda: td.softmax(given(9, 300)),
    "layer norm": lambda: td.layer_norm(given(9, 300)),
    "sum over rows": lambda: given(300, 65).sum(0),
    "product and relu": lambda: td.relu(given(33, 40) @ given(40, 50) + given(50)),
    "double": lambda: given(33, 40, dtype=np.float64) @ given(40, 1, dtype=np.float64),
    "convolution": lambda: td.conv2d(given(2, 3, 9, 9), given(8, 3, 3, 3), padding=1),
    "half": lambda: given(5, 70, dtype=np.float16) + 1.0,
    "gather": lambda: given(9, 30)[td.asarray(np.array([3, 1, 4]))],
    "random": lambda: td.random.uniform((40,)),
    "scan": lambda: td.cumulative_sum(given(9, 30), axis=0),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_kernels_are_printed_for_arm(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    y = GRAPHS[name]()
    monkeypatch.setattr(machines, "_host", lambda _: ARM)
    texts: dict[str, str] = {}
    for step in program_of(y, vector_bytes=ARM.vector_bytes).steps:
        assert not isinstance(step, Fallback)
        for code in coded(step):
            texts |= code.texts
    assert texts
    for text in texts.values():
        found = assembly(text, ARM)
        assert ".globl" in found and "zmm" not in found and "ret" in found
