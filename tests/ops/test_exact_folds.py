"""How exact long folds are: as sums by halves, whatever divides their extents."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(3)
LENGTHS = [
    *(1, 2, 3, 31, 33, 65, 257, 1009, 4099, 8191, 8193, 19997),
    *((1 << 18) - 1, 1 << 18, (1 << 18) + 3, 2 * 499979),
]
DATA: dict[str, Callable[..., Any]] = {
    "uniform": lambda *n: RNG.uniform(0, 1, n),
    "normal": lambda *n: RNG.standard_normal(n),
    "equal": lambda *n: np.full(n, 0.1),
    "far from 0": lambda *n: 1e6 + RNG.integers(0, 2, n),
}


@pytest.fixture(autouse=True)
def _same_data(request: pytest.FixtureRequest) -> None:
    """Each test has data of its own, whatever ran before: bounds are near what is."""
    global RNG
    RNG = np.random.default_rng(zlib.crc32(request.node.name.encode()))


def by_halves(x: Any) -> Any:
    """The sum over the first axis: halves are added, down to single elements."""
    while len(x) > 1:
        half = len(x) // 2
        rest = x[2 * half :]
        x = np.concatenate([x[:half] + x[half : 2 * half], rest])
    return x[0]


def error(y: Any, x: Any, axis: Any) -> float:
    """The largest error over the sums of magnitudes."""
    wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
    magnitudes = np.abs(wide).sum(axis)
    found = np.abs(np.asarray(y, wide.dtype) - wide.sum(axis))
    return float((found / magnitudes).max())


def allowed(x: Any) -> float:
    """Four times the error of a sum by halves, or of two roundings."""
    unit = np.finfo(x.dtype).eps / 2
    return 4 * max(error(by_halves(x), x, 0), 2 * unit)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize(
    ("n", "dtype"),
    [*((n, "float32") for n in LENGTHS), (8193, "float64"), (1 << 18, "float64")],
)
def test_sums(kind: str, n: int, dtype: str) -> None:
    x = DATA[kind](n).astype(dtype)
    assert error(td.asarray(x).sum().numpy(), x, 0) <= allowed(x)
    for width in (1, 3, 70) if n < 1 << 13 else (3,):
        x = DATA[kind](n, width).astype(dtype)
        limit = allowed(x)
        assert error(td.asarray(x).sum(0).numpy(), x, 0) <= limit
        y = td.asarray(np.ascontiguousarray(x.T))
        assert error(y.sum(1).numpy(), x, 0) <= limit


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), None])
@pytest.mark.parametrize("shape", [(7, 611, 67), (331, 5, 130), (67, 97, 3)])
def test_axes(shape: tuple[int, ...], axis: Any) -> None:
    """Of several dimensions each, and of what is computed on the way."""
    x = RNG.uniform(0, 1, shape).astype(np.float32)
    axes = tuple(range(3)) if axis is None else axis
    moved = np.moveaxis(x, axes, range(np.size(axes)))
    flat = moved.reshape(-1, *moved.shape[np.size(axes) :])
    assert error(td.asarray(x).sum(axis).numpy(), x, axes) <= allowed(flat)
    squares = td.sum(td.square(td.asarray(x)), axis).numpy()
    assert error(squares, x.astype("float64") ** 2, axes) <= allowed(flat * flat)


@pytest.mark.parametrize("n", [3, 100, 8193, 10000])
@pytest.mark.parametrize("width", [None, 1, 3, 70])
def test_variance_of_data_far_from_0(n: int, width: int | None) -> None:
    x = np.resize(np.array([1e6, 1e6 + 1], np.float32), n)
    x = x if width is None else np.repeat(x[:, None], width, 1)
    want = x.astype("float64").var(0)
    y = td.asarray(x)
    found = [td.var(y, 0), td.moments(y, 0)[1], td.std(y, 0) ** 2]
    if width is not None:
        found.append(td.var(td.asarray(x.T.copy()), 1))
    for v in found:
        np.testing.assert_allclose(v.numpy(), want, rtol=1e-5)
    flat = td.asarray(np.full(x.shape, 0.1, np.float32))
    assert np.all(np.abs(td.std(flat, 0).numpy()) <= 1e-7)
    param = td.Parameter(x)
    (g,) = td.grad(td.var(param, 0).sum(), [param])
    np.testing.assert_allclose(g.numpy(), 2 / n * (x - x.astype("f8").mean(0)), 1e-3)


@pytest.mark.parametrize("n", [1009, 300007])
def test_orders_are_those_of_shapes(n: int) -> None:
    """Threads, and what else is computed from the same array, change no bit."""
    x, w = td.asarray(DATA["normal"](n, 3)), td.asarray(DATA["uniform"](n))
    alone = [x.sum(0).numpy(), w.sum().numpy(), w.max().numpy()]
    for threads in (1, 2, 4):
        with td.options(threads=threads):
            ys = [(x * 1.0).sum(0), (w + 0.0).sum(), w.max(), td.exp(w), x.sum(1)]
            td.evaluate(*ys)
            for y, own in zip(ys[:3], alone, strict=True):
                assert y.numpy().tobytes() == own.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "bool"])
@pytest.mark.parametrize("n", [1 << 20, 2 * 499979])
def test_other_folds_of_long_rows(dtype: str, n: int) -> None:
    x = RNG.integers(0, 2 if dtype == "bool" else 100, n).astype(dtype)
    y = td.asarray(x)
    assert y.max().numpy() == x.max() and y.min().numpy() == x.min()
    assert y[:-1].any().numpy() == x[:-1].any() and y.all().numpy() == x.all()
    assert y.argmax().numpy() == x.argmax()
    assert td.asarray(-x[:-7].astype("int64")).max().numpy() == -x[:-7].min().astype(
        int
    )


def of_products(y: Any, a: Any, b: Any) -> tuple[float, float]:
    """The largest error of a product over sums of magnitudes, and what it may be."""
    terms = np.swapaxes(a, 0, 1)[:, :, None] * b[:, None, :]
    x, z = a.astype("float64"), b.astype("float64")
    found = np.abs(y.astype("float64") - x @ z) / (np.abs(x) @ np.abs(z))
    return float(found.max()), allowed(terms)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("k", [1, 63, 65, 127, 1009, 4099, 20011])
def test_products(kind: str, k: int) -> None:
    """Row by row, column by column, and tile by tile; more terms than one sums up."""
    for m, n in ((1, 1), (1, 19), (3, 5), (17, 7)):
        a, b = (DATA[kind](*s).astype(np.float32) for s in ((m, k), (k, n)))
        x, y = td.asarray(a), td.asarray(b)
        xt, yt = td.asarray(a.T.copy()), td.asarray(b.T.copy())
        ways = [
            x @ y,
            x @ td.permute_dims(yt, (1, 0)),
            td.einsum("km,kn->mn", xt, y),
            td.einsum("km,nk->mn", xt, yt),
        ]
        if (m, n) == (1, 1):
            ways.append(td.vecdot(x[0], y[:, 0]))
        for way in ways:
            found, limit = of_products(way.numpy().reshape(m, n), a, b)
            assert found <= limit


@pytest.mark.parametrize("n", [1 << 14, 20011])
def test_gradients_over_many_rows(n: int) -> None:
    """The gradients of weights and biases are sums over the rows of a batch."""
    x, g = (DATA["uniform"](n, w).astype(np.float32) for w in (3, 70))
    layer = td.nn.Linear(3, 70)
    parameters = [layer.weight, layer.bias]
    loss = (layer(td.asarray(x)) * td.asarray(g)).sum()
    weight, bias = (v.numpy() for v in td.grad(loss, parameters))
    found, limit = of_products(weight.reshape(70, 3), g.T, x)
    assert found <= limit
    assert error(bias, g, 0) <= allowed(g)


def test_products_of_several_letters() -> None:
    x, y = (DATA["uniform"](9, 41, 131, w).astype(np.float32) for w in (2, 3))
    found = td.einsum("abci,abcj->ij", td.asarray(x), td.asarray(y)).numpy()
    a, b = x.reshape(-1, 2), y.reshape(-1, 3)
    error, limit = of_products(found, a.T, b)
    assert error <= limit


@pytest.mark.parametrize("kind", DATA)
def test_sums_up_to_each_place(kind: str) -> None:
    x = DATA[kind](20011, 3).astype(np.float32)
    for reverse in (False, True):
        found = td.cumulative_sum(td.asarray(x), 0, reverse=reverse).numpy()
        y, whole = (found[::-1], x[::-1]) if reverse else (found, x)
        wide = whole.astype(np.float64)
        wrong = np.abs(y - wide.cumsum(0)) / np.abs(wide).cumsum(0)
        assert wrong.max() <= 2 * np.finfo(np.float32).eps
    before = td.cumulative_sum(td.asarray(x), 0, exclusive=True).numpy()
    np.testing.assert_array_equal(before[1:], td.cumulative_sum(x, 0).numpy()[:-1])


def test_infinite_sums() -> None:
    """What is infinite, or no number, in some block is so in the whole."""
    for special in (np.inf, -np.inf, np.nan):
        x = np.ones((5003, 3), np.float32)
        x[4001, 1] = special
        for y in (td.asarray(x).sum(0), td.cumulative_sum(x, 0)[-1]):
            np.testing.assert_array_equal(y.numpy(), [5003, special, 5003])
    large = td.asarray(np.full(100_003, 3e38, np.float32))
    assert large.sum().numpy() == np.inf and (-large).sum().numpy() == -np.inf


def test_the_meaning_is_as_exact() -> None:
    x = DATA["far from 0"](10007, 3).astype(np.float32)
    with td.options(engine="reference"):
        assert error(td.sum(x, 0).numpy(), x, 0) <= allowed(x)
        want = x.astype(np.float64).var(0)
        np.testing.assert_allclose(td.var(x, 0).numpy(), want, 1e-5)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_logarithms_of_sums_of_exponentials(engine: str) -> None:
    x = RNG.uniform(1, 2, 99991).astype(np.float32)
    exact = np.log(np.exp(x.astype(np.float64)).sum())
    with td.options(engine=engine):
        assert abs(td.logsumexp(x).numpy() - exact) < 1e-5


def test_the_meaning_of_what_has_logsumexp_inside_is_as_exact() -> None:
    x, labels = RNG.uniform(0, 1, (2, 99991)).astype(np.float32), np.array([3, 7])
    e = np.exp(x.astype(np.float64))
    rest = e.sum(1) - e[[0, 1], labels]
    with td.options(engine="reference"):
        y = td.unlikelihood(x, labels, reduction="none").numpy()
        assert np.abs(y - np.log(e.sum(1) / rest)).max() < 1.5e-6
        p = td.constrained_softmax(x, np.ones_like(x)).numpy()
        np.testing.assert_allclose(p, e / e.sum(1, keepdims=True), 3e-6)


@pytest.mark.parametrize("shape", [(90, 4), (64, 7), (64, 1000)])
def test_what_is_done_with_sums_decides_no_bit_of_them(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype("f")
    alone = td.asarray(x).sum(1).numpy()
    y = td.asarray(x).sum(1)
    beside = td.exp(y), td.tanh(y), td.sin(y), td.cos(y), y * y, y + 1
    np.testing.assert_array_equal(td.evaluate(y, *beside)[0], alone)
