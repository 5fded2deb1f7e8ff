"""NVIDIA's assembler takes what is written, and finds registers enough."""

from __future__ import annotations

import pytest

from tests.engines.cuda.ptxas import assembler, problem_of
from tests.engines.cuda.works import elementwise
from treadle.engines.gpu.cuda.ptx import Architecture, architecture

pytestmark = pytest.mark.skipif(not assembler(), reason="there is no ptxas here")
NEWER = [architecture(c) for c in ((7, 5), (8, 9), (9, 0), (10, 0), (12, 0))]


@pytest.mark.parametrize("target", NEWER, ids=lambda a: a.processor)
def test_a_kernel_assembles_for_each_architecture(target: Architecture) -> None:
    work = elementwise("rest", lambda b, x, y: b.frem(x, y), "f4")
    assert problem_of(work, target) == ""
