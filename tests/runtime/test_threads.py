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


def network(seed: int) -> bytes:
    """A graph of its own: a convolution, a loop, dropout, two steps of training."""
    rng = np.random.default_rng(seed)
    with td.options(engine="native", seed=seed, threads=1 + seed % 3):
        images = td.asarray(rng.standard_normal((2, 1, 6, 6)).astype(np.float32))

        def made(name: str, *shape: int) -> td.Parameter:
            first = rng.standard_normal(shape) * 0.1
            return td.param(f"{name}{seed}", init=first, dtype="float32")

        filters, w = made("f", 3, 1, 3, 3), made("w", 16, 5 + seed)
        u = made("u", 5 + seed, 5 + seed)
        opt = td.optim.Adam([filters, w, u], lr=0.01)
        for _ in range(2):
            maps = td.dropout(td.relu(td.conv2d(images, filters)), 0.3)
            rows = maps.transpose(1, 0, 2, 3).reshape(3, 2, 16)

            def step(h: td.Tensor, row: td.Tensor) -> tuple[td.Tensor, td.Tensor]:
                h = td.tanh(row @ w + h @ u)
                return h, h

            hs = td.scan(step, td.zeros((2, 5 + seed)), rows)[1]
            loss = td.cond(hs.sum() > 0, lambda hs=hs: hs.sum(), lambda: w.sum())
            opt.step(loss * loss)
        return b"".join(v.numpy().tobytes() for v in (filters, w, u))


def test_eight_threads_with_graphs_of_their_own_change_no_bits() -> None:
    td.clear_cache()  # so that they compile at the same time
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(network, [*range(8), *range(8)]))
    td.clear_cache()
    assert [network(seed) for seed in range(8)] * 2 == together


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
