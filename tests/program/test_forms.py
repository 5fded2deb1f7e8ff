"""Equal units share the kernel of the first, on buffers of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.loops.test_kernels import kernels_of, program_of
from treadle.base import caches
from treadle.engines.base import engine
from treadle.loops.nest import kernel_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 5, 8)).astype(np.float32)
W = RNG.standard_normal((8, 8)).astype(np.float32)


def unrolled(swapped: bool = False) -> Any:
    """A cell at six steps; at the last one it may take its operands in turn."""
    h, w = td.zeros((5, 8)), td.asarray(W)
    for k, x in enumerate(X):
        a, b = (td.asarray(x), h @ w)
        h = td.tanh(b - a * 0.25) if swapped and k == 5 else td.tanh(a - b * 0.25)
    return h


def by_numpy(swapped: bool = False) -> Any:
    h = np.zeros((5, 8), np.float32)
    for k, x in enumerate(X):
        a, b = x, h @ W
        h = np.tanh(b - a / 4) if swapped and k == 5 else np.tanh(a - b / 4)
    return h


def test_a_cell_is_scheduled_once() -> None:
    caches.clear()
    program = program_of(unrolled())
    steps = [s.finish or s for s in program.steps if hasattr(s, "finish")]
    found = {
        id(s.kernel) for s in [*steps, *kernels_of(program)] if hasattr(s, "kernel")
    }
    assert len(program.steps) >= 6 and len(found) <= 3


@pytest.mark.parametrize("kind", [td.nn.LSTMCell, td.nn.GRUCell])
def test_more_steps_make_no_more_kernels(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def noting(*given: Any) -> Any:
        made.append(given)
        return kernel_of(*given)

    for module in ("build", "epilogue"):
        monkeypatch.setattr(f"treadle.program.{module}.kernel_of", noting)
    cell = kind(8, 8)
    td.evaluate(*cell.parameters())

    def count(steps: int) -> int:
        state: Any = td.zeros((2, 8))
        state = (state, state) if kind is td.nn.LSTMCell else state
        total = td.constant(0.0)
        for k in range(steps):
            state = cell(td.ones((2, 8)) * float(k), state)
            y = state[0] if kind is td.nn.LSTMCell else state
            total = total + ((y - 1.5) ** 2).mean()
        engine("native").clear_cache()
        made.clear()
        with td.options(autobatch=False):
            td.optim.SGD(lr=0.1).step(total)
        return len(made)

    ten, hundred, many = map(count, (10, 100, 200))
    # A sum of the gradients of all steps is cut where a kernel has enough operands.
    assert 8 < ten <= hundred <= ten + 4 and many <= hundred


def test_each_reads_its_own_buffers() -> None:
    for swapped in (False, True, False):
        found = unrolled(swapped).numpy()
        np.testing.assert_allclose(found, by_numpy(swapped), rtol=1e-5, atol=1e-6)


def test_what_a_kernel_knows_is_in_its_form() -> None:
    x = td.asarray(X[0])
    same = [x * 3.0, x * 5.0, x * 3.0 + 1.0, td.permute_dims(x, (1, 0)) * 3.0]
    for y, want in zip(
        same, [X[0] * 3, X[0] * 5, X[0] * 3 + 1, X[0].T * 3], strict=True
    ):
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
