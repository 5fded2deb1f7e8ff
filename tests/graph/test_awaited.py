"""A number that is waited for is NumPy's scalar to whoever looks at it."""

from __future__ import annotations

import copy
import math
import numbers
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.awaited import Awaited

LOOKS: list[Callable[[Any], Any]] = [
    float,
    int,
    bool,
    repr,
    str,
    hash,
    abs,
    round,
    lambda x: round(x, 1),
    lambda x: f"{x:.2f} {x}",
    lambda x: "{:.3f}".format(x),  # noqa: UP032
    lambda x: x + 1,
    lambda x: 1 - x,
    lambda x: x * np.float64(2),
    lambda x: np.float32(2) * x,
    lambda x: x + x,
    lambda x: -x,
    lambda x: x**2,
    lambda x: x / 3,
    lambda x: x // 2,
    lambda x: x % 2,
    lambda x: divmod(x, 2),
    lambda x: x < 3,
    lambda x: x >= 2.5,
    lambda x: x == 2.5,
    lambda x: x != x,
    lambda x: x < 3,
    lambda x: min(x, 1.0),
    lambda x: sum([x, x, x]),
    lambda x: x.dtype,
    lambda x: x.shape,
    lambda x: x.item(),
    lambda x: x.tolist(),
    lambda x: x.astype("float64"),
    lambda x: math.sqrt(x),
    lambda x: math.isnan(x),
    lambda x: np.exp(x),
    lambda x: np.mean([x, x]),
    lambda x: np.asarray(x).tolist(),
    lambda x: np.array([x, 1.0], np.float64),
    lambda x: np.isfinite(x),
    lambda x: np.maximum(x, 3),
    lambda x: isinstance(x, numbers.Real),
    lambda x: td.asarray(x).numpy(),
    lambda x: td.asarray([x, x]).numpy(),
    lambda x: (td.ones(2) * x).numpy(),
    lambda x: (x * td.ones(2)).numpy(),
    lambda x: (td.ones(2, dtype="float16") * x).numpy(),
]


@pytest.mark.parametrize("k", range(len(LOOKS)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_looks_like_a_scalar(k: int, dtype: str) -> None:
    number = np.dtype(dtype).type(2.5)
    found, wanted = LOOKS[k](Awaited(np.asarray(number))), LOOKS[k](number)
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(found, wanted)
    assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None)


def test_copies_are_scalars() -> None:
    x = Awaited(np.asarray(np.float32(2.5)))
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is np.float32
        assert made == 2.5


def test_a_sum_of_losses_is_a_number() -> None:
    w, opt, total = td.param("w", init=3.0), td.optim.SGD(lr=0.1), 0.0
    wanted = []
    for _ in range(5):
        wanted.append(float(w.numpy()) ** 2)
        total += opt.step(w * w)
    assert isinstance(total, np.floating)
    np.testing.assert_allclose(total, sum(wanted), rtol=1e-6)
