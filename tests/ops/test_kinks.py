"""Where a derivative has no one value, it is torch's."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.ops.kinks import CALLS, GRADIENTS, places
from treadle.nn import functional as F


@pytest.mark.parametrize("name", CALLS)
def test_derivatives_at_kinks_are_torchs(name: str) -> None:
    call, point = CALLS[name]
    x = td.Parameter(np.array(point, np.float32))
    y = call(td, F, td.asarray, x)
    (g,) = td.grad((y.reshape(-1) * places(y.numel())).sum(), [x])
    np.testing.assert_allclose(g.numpy().ravel(), GRADIENTS[name], rtol=1e-5, atol=1e-7)


def test_each_call_has_its_numbers() -> None:
    assert list(CALLS) == list(GRADIENTS) and len(CALLS) > 70
