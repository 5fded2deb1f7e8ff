"""`x[key]` and `x.at[key]` against NumPy's own indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import DTypeError, RunError, ShapeError, TraceError

X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
ALL = slice(None)
KEYS: list[Any] = [
    0,
    -1,
    np.int64(2),
    (1, 2),
    (1, 2, 3),
    ALL,
    (ALL, 2),
    (..., 1),
    (None, 1, None),
    (slice(None, None, -1), slice(3, 0, -2)),
    slice(1, 1),
    slice(5, -10, -1),
    [0, 2],
    [],
    (ALL, [1, 1]),
    ([0, 1], [1, 2]),
    ([0, 1], ALL, [1, 2]),
    (0, ALL, [1, 2]),
    (0, [1, 2]),
    (ALL, 1, [1, 2]),
    (ALL, [1, 2], None, [0, 1]),
    (None, [0, 1], [[1], [2]]),
    (..., [0, -1]),
    (ALL, ALL, [0, 1], None),
    (ALL, [[0, 1], [2, 3]], slice(1, 4)),
    np.array(1),
    X > 0,
    X[:, 0, 0] > 0,
    (ALL, X[0, :, 0] > 0, 0),
    (X[:, :, 0] > 0, 2),
    (..., X[0, 0] > 0),
    (1, ..., X[0, 0] > 0),
    (..., X[0] > 0),
    (None, ..., X[0, :, 0] > 0, 1),
]
FOLDS = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_key_reads_what_numpy_reads(key: Any) -> None:
    got = td.asarray(X)[key]
    assert got.shape == X[key].shape
    assert np.array_equal(got.numpy(), X[key])


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_key_writes_what_numpy_writes(key: Any) -> None:
    rng = np.random.default_rng(1)
    for value in (rng.standard_normal(X[key].shape).astype(np.float32), 1.5):
        want = X.copy()
        want[key] = value
        assert np.array_equal(td.asarray(X).at[key].set(value).numpy(), want)
        for mode, fold in FOLDS.items():
            want = X.copy()
            fold.at(want, key, value)
            got = getattr(td.asarray(X).at[key], mode)(value).numpy()
            np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    "key",
    [3, -4, (0, 0, 0, 0), np.zeros((3, 3), bool), (..., np.zeros(3, bool))],
    ids=["3", "-4", "four", "mask", "last mask"],
)
def test_a_key_outside_is_an_index_error(key: Any) -> None:
    with pytest.raises(IndexError):
        td.asarray(X)[key]


class Column:
    """An array of another library."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([2, 0])


def test_ranges_and_arrays_of_others_are_positions() -> None:
    x = td.param(init=X)
    for key in (range(2), (range(2), [3, 0]), (ALL, range(3, -1, -2)), range(0)):
        want = X[key]
        assert np.array_equal(x[key].numpy(), want)
        assert np.array_equal(
            x.node().at[key].set(1.0)[key].numpy(), np.ones_like(want)
        )
    assert np.array_equal(x[Column(), 1].numpy(), X[[2, 0], 1])


def test_positions_are_checked_when_they_run() -> None:
    with pytest.raises(RunError, match="index 7 is out of range for extent 3"):
        td.asarray(X)[td.asarray([7])].numpy()


def test_the_last_of_duplicates_has_the_value_and_the_gradient() -> None:
    x, e = td.asarray([1.0, 2.0, 3.0]), td.asarray([5.0, 6.0, 7.0])
    y = x.at[[0, 0, 1]].set(e)
    assert y.tolist() == [6.0, 7.0, 3.0]
    gx, ge = td.grad((y * td.asarray([1.0, 2.0, 3.0])).sum(), [x, e])
    assert gx.tolist() == [0.0, 0.0, 3.0] and ge.tolist() == [0.0, 1.0, 2.0]


def test_a_mask_has_no_value_in_a_trace() -> None:
    @td.function
    def positive(x: td.Tensor) -> td.Tensor:
        return x[x > 0].sum()

    @td.function
    def clipped(x: td.Tensor) -> td.Tensor:
        return x.at[x > 0].set(0.0).sum()

    with pytest.raises(TraceError, match=r"td\.where"):
        positive(td.asarray([1.0, -2.0])).numpy()
    assert float(clipped(td.asarray([1.0, -2.0]))) == -2.0


def test_parts_of_a_variable_are_assigned() -> None:
    v = td.Variable([1.0, 2.0, 3.0])
    v[:] = 7
    v[1] += 1
    v[[0, 0]] = [4.0, 5.0]
    assert v.numpy().tolist() == [5.0, 8.0, 7.0]
    assert [int(item) for item in v] == [5, 8, 7]


def test_names_follow_the_dimensions() -> None:
    x = td.asarray(X, axes=("a", "b", "c"))
    assert x[0].axes == ("b", "c")
    assert x[:, None, 1:].axes == ("a", None, "b", "c")
    assert x[:, [0, 1]].axes == ("a", None, "c")
    assert td.asarray(X[0]).at[0].set(1).axes is None
    assert x.at[0].set(1.0).axes == ("a", "b", "c")


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="does not fill"):
        td.zeros(3).at[:2].set([1.0, 2.0, 3.0])
    with pytest.raises(DTypeError, match="does not fit"):
        td.asarray([1, 2]).at[0].set(1.5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("extent", [1, 7, 16, 33, 1000])
def test_folds_at_positions_have_kernels(extent: int, dtype: str) -> None:
    rng = np.random.default_rng(extent)
    x = rng.integers(1, 4, (extent, 5)).astype(dtype)
    ids = rng.integers(-extent, extent, 9)
    e = rng.integers(1, 3, (9, 5)).astype(dtype)
    for mode, fold in FOLDS.items():
        want = x.copy()
        fold.at(want, ids, e)
        y = getattr(td.asarray(x).at[td.asarray(ids)], mode)(e)
        with td.options(engine="native"):
            assert td.lower(y).fallbacks == ()
            assert np.array_equal(y.numpy(), want)


def test_a_number_chooses_a_part_of_tensors_and_variables() -> None:
    for x in (td.asarray(X) * 1.0, td.Variable(X)):
        for k in (0, 2, -1):
            assert np.array_equal(x[k].numpy(), X[k])
        assert np.array_equal(x[0][1][-1].numpy(), X[0, 1, -1])
        for k in (3, -4):
            with pytest.raises(IndexError, match=f"index {k} is out of range"):
                x[k]
        with pytest.raises(IndexError, match="1 indices for 0 dimensions"):
            x[0][0][0][0]
    assert td.asarray(X[:1])[0].numpy().shape == (4, 5)
    named = td.asarray(X, axes=("a", None, "c"))
    assert named[1].type.axes == (None, "c")
    v = td.Variable(X)
    v[1].assign(v[0] * 2.0)
    v[-1] += 1.0
    assert np.array_equal(v.numpy(), np.stack([X[0], X[0] * 2, X[2] + 1]))


@pytest.mark.parametrize("count", [2, 31, 32, 33, 200])
def test_long_lists_join(count: int) -> None:
    own = np.arange(3.0 * count, dtype=np.float32).reshape(count, 3)
    for wide in (False, True):
        items = [td.asarray(x) * 1.0 for x in own]
        items[-1] = items[0]  # the same twice
        if wide:
            items[1] = items[1].astype("float64")
        want = [x.numpy() for x in items]
        for _ in range(3):  # as it is made, and by its plan
            joined, stacked = td.concat(items), td.stack(items)
            assert np.array_equal(joined.numpy(), np.concatenate(want))
            assert np.array_equal(stacked.numpy(), np.stack(want))
        assert np.array_equal(td.stack(items, 1).numpy(), np.stack(want, 1))


def test_lists_that_do_not_join_name_the_item() -> None:
    a, b, c = td.ones(3) * 1.0, td.ones(3) * 1.0, td.ones(4) * 1.0
    with pytest.raises(ShapeError, match=r"item 2 has shape \(4,\), item 0 has \(3,\)"):
        td.stack([a, b, c])
    with pytest.raises(ShapeError, match=r"\(1, 4\) does not join \(3,\)"):
        td.concat([a, c.reshape(1, 4)])
    for join in (td.stack, td.concat):
        with pytest.raises(td.TreadleError, match="nothing to join"):
            join([])
    mixed = [a, td.ones(3, dtype="int32"), td.ones(3, dtype="float64")]
    assert td.stack(mixed).dtype == td.concat(mixed).dtype == np.float64
    empty = td.zeros((0, 3))
    assert td.stack([empty, empty], 1).numpy().shape == (0, 2, 3)
    assert td.concat([empty, empty, td.ones((1, 3))]).numpy().shape == (1, 3)
    assert td.concat([a]) is a and td.stack([a], -1).shape == (3, 1)
    with pytest.raises(td.AxisError, match="out of range"):
        td.stack([a, b], 2)
    one = td.name_axes(a, "n")
    assert td.stack([one, one]).type.axes == (None, "n")
    with pytest.raises(td.AxisError, match="names differ"):
        td.stack([one, b])


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int64"])
def test_the_least_elements_in_rising_order(dtype: str) -> None:
    x = np.array([[3, 0, 2, 0], [7, 127, 1, 5]], dtype)
    values, places = td.top_k(x, 3, largest=False)
    order = np.argsort(x, -1, kind="stable")[:, :3]
    np.testing.assert_array_equal(places.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, -1))
    first, _ = td.top_k(x, 2, 0, largest=False)
    np.testing.assert_array_equal(first.numpy(), np.sort(x, 0))
    least = np.iinfo(np.int64).min
    assert td.top_k(np.array([least, 0]), 1, largest=False)[0].tolist() == [least]


NO_INDEX = [
    "abc", 1.5, 1j, {}, {1, 2}, object(), b"x", [[1], [1, 2]], ([0, 1], [5, "a"]),
    slice(1.5, 2), slice(None, "a"), slice(None, None, 0), (..., ...), (0, 0, 0), True,
    [1.5], np.array([object()]), np.ones((5, 5), bool), 10**30,
]  # fmt: skip


@pytest.mark.parametrize("key", NO_INDEX)
def test_what_is_no_index_is_refused(key: object) -> None:
    v = td.Variable(np.ones((2, 3)))
    with pytest.raises(td.TreadleError):
        v[key]
    with pytest.raises(td.TreadleError):
        v.node()[key]
    with pytest.raises(td.TreadleError):
        v[key] = 1.0
    with pytest.raises(td.TreadleError):
        v.at[key].add(1.0)


def test_in_asks_for_any_equal_item() -> None:
    x = td.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert 3 in x and 5 not in x and [1, 2] in x and "a" not in x
    for value in ([1, 2, 3], [[1], [1, 2]], np.ones((3, 3))):
        with pytest.raises(ShapeError, match="is no item of"):
            assert value in x
