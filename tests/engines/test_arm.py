"""Code for a machine that is not here: every kind of kernel is printed for NEON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import treadle as td
from tests.programs import program_of
from treadle.base.dtypes import as_dtype
from treadle.engines.native.codegen.code import coded
from treadle.engines.native.codegen.compiler import assembly
from treadle.engines.native.system import host as machines
from treadle.engines.native.system.host import Host
from treadle.program.program import Fallback, program_text

ARM = Host("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8", 16)
RNG = np.random.default_rng(0)


def given(*shape: int, dtype: Any = np.float32) -> td.Tensor:
    return td.asarray(RNG.standard_normal(shape).astype(dtype))


def narrow(dtype: str, *shape: int) -> td.Tensor:
    """A weight of few bits, as a product takes it."""
    own = td.asarray((RNG.standard_normal(shape) * 9).astype(as_dtype(dtype)))
    return own.astype("float32")


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
    "rows of unequal length": lambda: td.csr_matmul(
        given(4), [0, 2, 1, 2], [0, 1, 1, 4], given(3, 70)
    ),
    "int8 by rows": lambda: given(3, 40) @ narrow("int8", 50, 40).mT,
    "int8 by columns": lambda: given(3, 40) @ narrow("int8", 40, 50),
    "bfloat16 from the left": lambda: narrow("bfloat16", 40, 40) @ given(40, 50),
    "float16, many rows": lambda: given(90, 40) @ narrow("float16", 50, 40).mT,
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
    program = program_of(y, vector_bytes=ARM.vector_bytes)
    if "narrow" in GRAPHS[name].__code__.co_names:
        assert " of " in program_text(program)
    for step in program.steps:
        assert not isinstance(step, Fallback)
        for code in coded(step):
            texts |= code.texts
    assert texts
    for text in texts.values():
        found = assembly(text, ARM)
        assert ".globl" in found and "zmm" not in found
        assert "ret" in found or "br\t" in found  # what goes on in a part
