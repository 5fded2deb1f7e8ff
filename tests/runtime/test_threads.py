"""Many graphs at once, from many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import treadle as td


def work(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    w = td.param(f"w{seed}", shape=(4, 3), init=rng.standard_normal((4, 3)))
    for _ in range(10):
        x = td.asarray(rng.standard_normal((5, 4)).astype(np.float32))
        loss = ((x @ w) * (x @ w)).sum()
        w.assign(w - 0.01 * td.grad(loss, [w])[0])
    return w.numpy().tobytes()


def test_threads_change_no_bits() -> None:
    alone = [work(seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(16))) == alone


def test_threads_share_a_function() -> None:
    w = td.param("w", init=2.0)

    @td.function
    def f(x: td.Tensor) -> td.Tensor:
        return x * w

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: float(f(td.constant(float(k)))), range(64)))
    assert found == [2.0 * k for k in range(64)]
    assert f.count == 1


def test_options_are_a_threads_own() -> None:
    with td.options(dtype="float64"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: td.asarray(1.0).dtype).result() == td.float32
