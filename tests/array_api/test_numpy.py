"""NumPy's functions and ufuncs on tensors: nodes of the graph, with NumPy's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.ops import numpy_functions as table
from treadle.ops import ufuncs

CALLS = """
mean(t) | mean(t, 0, keepdims=True) | sum(t, axis=1, keepdims=True)
sum(a=t, dtype="float64")
concatenate([t, t]) | concatenate([t, a], axis=1) | stack([t, t]) | vstack([t, t[0]])
hstack([t, t]) | hstack([t[0], t[1]]) | reshape(t, (3, 2)) | reshape(t, -1) | ravel(t)
transpose(t) | swapaxes(t, 0, 1) | moveaxis(t, 0, 1)
clip(t, 1, 3) | clip(t, a_min=1, a_max=3)
var(t, ddof=1) | std(t, axis=0) | cumsum(t) | cumsum(t, axis=1) | cumprod(t, 0)
sort(t, axis=None) | argsort(t) | where(t > 1, t, 0) | einsum("ij,ij->i", t, t)
dot(t, t.T) | matmul(t, t.T) | tensordot(t, t, 2) | outer(t[0], t[1]) | kron(t, t)
squeeze(t[:1]) | expand_dims(t, 0) | round(t, 1) | argmax(t, axis=1) | argmin(t)
linalg.norm(t) | linalg.norm(t, axis=1) | linalg.norm(t, "nuc")
linalg.norm(t, 1, (0, 1), True)
linalg.det(t @ t.T) | linalg.inv(t @ t.T) | linalg.vector_norm(t) | linalg.pinv(t)
fft.rfft(t) | fft.fft2(t) | fft.fftshift(t) | max(t) | amin(t, 1) | prod(t) | median(t)
full_like(t, 2) | zeros_like(t) | ones_like(t) | tile(t, 2) | repeat(t, 2, axis=0)
isin(t, [1, 2]) | diff(t) | take(t, [0, 1], axis=1) | roll(t, 1) | flip(t, 1) | tril(t)
atleast_2d(t[0]) | broadcast_to(t[0], (4, 3)) | nan_to_num(t) | count_nonzero(t)
all(t) | any(t, axis=0) | searchsorted(t[0], 0.5) | real(t) | isclose(t, a) | copy(t)
exp(t) | absolute(t) | add(a, t) | power(t, 2) | maximum(t, a) | arctan2(t, t) | cbrt(t)
add.reduce(t) | maximum.reduce(t, axis=1) | add.accumulate(t)
multiply.outer(t[0], t[1])
nanmax(np.argsort(t)) | nansum(np.argsort(t), 0)
append(t, t) | append(t, t, 0) | average(t) | average(t, 1, weights=[1, 2, 3.0])
average(t, weights=t) | average(t, 0, t, keepdims=True) | average(t, -2, [3.0, 4])
nansum(log(t - 1)) | nanmean(sqrt(t - 1), 0) | nanmax(sqrt(t - 2), 1, keepdims=True)
nanmin(sqrt(t - 1)) | nanmax(t) | pad(t, 1) | pad(t, ((0, 1), (2, 0)), "edge")
pad(t, 1, constant_values=3) | ptp(t) | ptp(t, 0) | unique(t) | argwhere(t > 1)
select([t > 2, t > 1], [t, -t]) | select([t > 1], [1.0], t) | trapezoid(t, dx=0.5)
trapezoid(t, t) | trapezoid(t, axis=0) | trapezoid(t, [0, 1, 3.0])
add(t, 1, dtype="float64") | heaviside(t, 0.5) | logical_and.reduce(t) | equal(t, a)
"""


EVERY = [c.strip() for c in CALLS.strip().replace("\n", "|").split("|")]


@pytest.mark.parametrize("call", EVERY)
def test_a_call_makes_a_tensor_with_numpys_value(call: str) -> None:
    a = np.array([[0.5, 1.0, 2.0], [3.0, 1.5, 0.25]], np.float32)
    around = {"np": np, "log": np.log, "sqrt": np.sqrt, "a": a}
    with np.errstate(all="ignore"):
        found = eval(f"np.{call}", {**around, "t": td.asarray(a)})
        wanted = eval(f"np.{call}", {**around, "t": a})
    assert isinstance(found, td.Tensor)
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_every_row_of_the_tables_names_what_is_there() -> None:
    for name, (own, _) in table.FUNCTIONS.items():
        theirs, ours = np, td
        for part in name.split("."):
            theirs = getattr(theirs, part, None)  # type: ignore[assignment]
        for part in own.split("."):
            ours = getattr(ours, part)
        assert callable(ours), name
        if theirs is not None and name != "permute_dims":  # an alias of NumPy's
            assert table.name_of(theirs) == name  # type: ignore[arg-type]
    for names in (ufuncs.NUMPY, ufuncs.SCIPY, ufuncs.REDUCE, ufuncs.ACCUMULATE):
        assert all(callable(getattr(td, own)) for own in names.values())
    for name in (*ufuncs.NUMPY, *ufuncs.REDUCE, *ufuncs.ACCUMULATE):
        assert isinstance(getattr(np, name), np.ufunc)


def test_derivatives_pass_through_numpys_functions() -> None:
    p = td.Parameter([1.0, 2.0])
    (g,) = td.grad(np.mean(np.exp(p) * np.float32(2)), [p])
    np.testing.assert_allclose(g.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)


def test_arrays_and_numpys_scalars_meet_tensors_as_before() -> None:
    a, t = np.ones(3, np.float32), td.asarray([1.0, 2.0, 3.0])
    for made in (a + t, a - t, a * t, a / t, a == t, a @ t, np.float64(2) * t):
        assert isinstance(made, td.Tensor)
    assert (np.float64(2) * t).dtype == td.float32  # weak
    assert (np.int64(2) ** t).tolist() == [2.0, 4.0, 8.0]
    assert isinstance(a < t, td.Tensor) and (a < t).tolist() == [False, True, True]


def test_what_would_leave_the_graph_is_refused() -> None:
    a, t = np.ones(2, np.float32), td.asarray([1.0, 2.0])
    for call, said in (
        (lambda: np.add(a, t, out=a), "writes to no array"),
        (lambda: np.nanmedian(t), r"np\.nanmedian\(x\.numpy\(\)\)"),
        (lambda: np.mean(t, out=a), "takes no out="),
        (lambda: np.add(t, t, where=[True, False]), "takes no where="),
        (lambda: np.add.at(a, [0], t), "no counterpart"),
        (lambda: np.modf(t), "several results"),
        (lambda: np.round(t, out=a), "takes no out="),
        (lambda: np.add.reduce(t, initial=1), "takes no"),
    ):
        with pytest.raises(td.CallError, match=said):
            call()
    with pytest.raises(td.CallError, match="writes to no array"):
        a += t  # type: ignore[assignment]
    assert a.tolist() == [1.0, 1.0]


def test_what_looks_at_values_takes_them() -> None:
    t = td.asarray([1.0, 2.0])
    assert np.array_equal(t, t) is True and np.allclose(t, [1.0, 2.0])
    assert np.shape(td.placeholder((2, 3))) == (2, 3)
    assert np.size(t) == 2 and np.ndim(t) == 1
    assert "1., 2." in np.array_repr(t)


def test_a_ufunc_without_an_op_is_a_function_of_the_host() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([0.5, 1.5], np.float32)
    t = td.asarray(x)
    for name in ("erf", "expit", "gammaln", "jv"):
        f = getattr(special, name)
        args = (1, t) if name == "jv" else (t,)
        y = f(*args)
        assert isinstance(y, td.Tensor)
        wanted = f(1, x) if name == "jv" else f(x)
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5)
    p = td.Parameter(x)
    assert td.grad(special.erf(p).sum(), [p])[0].shape == (2,)
    with pytest.raises(td.GradientError):
        td.grad(special.jv(1, p).sum(), [p])


def test_functions_that_are_traced_take_numpys() -> None:
    f = td.function(lambda x: np.mean(np.exp(x)) + np.ndim(x))
    assert float(f(td.zeros(3))) == 2.0


def test_memory_that_is_looked_at_stays() -> None:
    v = td.Variable(np.arange(2000.0))
    seen = np.asarray(v)
    interface = v.__array_interface__
    v += 1
    v.numpy()
    assert seen[5] == 5.0 and np.asarray(interface["data"])[5] == 5.0
    assert not seen.flags.writeable
    assert np.asarray(td.asarray([1.0], "bfloat16")).dtype == td.bfloat16
    with pytest.raises(ValueError, match="is a copy"):
        td.ones(2).__array__(np.int32, copy=False)


def test_rounding_of_python() -> None:
    x = td.asarray([1.26, -0.5])
    assert round(x).tolist() == [1.0, -0.0]
    assert round(x, 1).numpy() == pytest.approx([1.3, -0.5])
    assert round(td.asarray([15]), 0).tolist() == [15]
    with pytest.raises(td.DTypeError, match="no decimals"):
        round(td.asarray([15]), 1)


def test_names_that_other_packages_look_for() -> None:
    einops = pytest.importorskip("einops.array_api")
    y: Any = einops.rearrange(td.ones((2, 3)), "a b -> (b a)")
    assert isinstance(y, td.Tensor) and y.shape == (6,)


def test_a_namespace_is_found_by_array_api_compat() -> None:
    compat = pytest.importorskip("array_api_compat")
    assert compat.array_namespace(td.ones(2), td.Parameter([1.0])) is td


def test_pandas_takes_tensors() -> None:
    pandas = pytest.importorskip("pandas")
    assert pandas.Series(td.ones(2)).sum() == 2.0
    assert pandas.DataFrame({"x": td.ones(2)}).shape == (2, 1)
