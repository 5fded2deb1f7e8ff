"""Convolution and pooling against loops over windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import differences
from treadle.base.errors import ArgumentError, TreadleError
from treadle.ops.pool import _all_see

RNG = np.random.default_rng(0)


def plain_conv(x: Any, w: Any, st: Any, pad: Any, dil: Any, groups: int) -> Any:
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    out, width, *kernel = w.shape
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, st, dil, strict=True)
    ]
    y = np.zeros((len(x), out, *counts))
    for o in range(out):
        first = o // (out // groups) * width
        for place in np.ndindex(*counts):
            part = [
                slice(i * s, i * s + d * (k - 1) + 1, d)
                for i, s, d, k in zip(place, st, dil, kernel, strict=True)
            ]
            seen = x[(slice(None), slice(first, first + width), *part)] * w[o]
            y[(slice(None), o, *place)] = seen.reshape(len(x), -1).sum(1)
    return y


@pytest.mark.parametrize(
    ("st", "pad", "dil"),
    [((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2)), ((2, 3), (2, 0), (2, 1))],
)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_sums_over_windows(
    st: Any, pad: Any, dil: Any, groups: int
) -> None:
    x = RNG.standard_normal((2, 4, 7, 6))
    w = RNG.standard_normal((6, 4 // groups, 3, 2))
    b = RNG.standard_normal(6)
    got = td.conv2d(x, w, b, st, pad, dil, groups).numpy()
    want = plain_conv(x, w, st, pad, dil, groups) + b[:, None, None]
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_the_transpose_is_the_transpose() -> None:
    x, w = RNG.standard_normal((1, 2, 8)), RNG.standard_normal((3, 2, 3))
    y = td.conv1d(x, w, None, 2, 1)
    h = RNG.standard_normal(y.shape)
    back = td.conv_transpose1d(h, w, None, 2, 1, 1)
    assert back.shape == x.shape
    assert np.isclose((y.numpy() * h).sum(), (back.numpy() * x).sum())


def test_padding_same_keeps_the_extents() -> None:
    for k in (1, 2, 3, 4):
        x, w = np.ones((1, 1, 9)), np.ones((1, 1, k))
        assert td.conv1d(x, w, padding="same").shape == (1, 1, 9)
    with pytest.raises(ArgumentError, match="stride 1"):
        td.conv1d(np.ones((1, 1, 9)), np.ones((1, 1, 3)), None, 2, "same")


def test_a_last_window_may_reach_over_the_end() -> None:
    x = np.arange(5.0)[None, None]
    assert td.max_pool1d(x, 2, ceil_mode=True).tolist() == [[[1.0, 3.0, 4.0]]]
    ones = np.ones((1, 1, 5))
    assert td.avg_pool1d(ones, 2, 2, 1).tolist() == [[[0.5, 1.0, 1.0]]]
    found = td.avg_pool1d(ones, 2, 2, 1, count_include_pad=False)
    assert found.tolist() == [[[1.0, 1.0, 1.0]]]


def test_of_equal_maxima_the_first_has_the_gradient() -> None:
    x = td.asarray([[[2.0, 2.0, 1.0, 2.0]]])
    (g,) = td.grad(td.max_pool(x, 2, 1).sum(), [x])
    assert g.tolist() == [[[1.0, 1.0, 0.0, 1.0]]]


def test_adaptive_bins_and_upsampling() -> None:
    x = RNG.standard_normal((2, 3, 5, 7))
    found = td.adaptive_avg_pool(x, (2, 7)).numpy()
    np.testing.assert_allclose(found[:, :, 0], x[:, :, :3].mean(2))
    up = td.upsample(x, (2, 3)).numpy()
    assert np.array_equal(up, x.repeat(2, 2).repeat(3, 3))


def test_what_does_not_slide_is_refused() -> None:
    image = np.ones((1, 2, 3, 3))
    for call in (
        lambda: td.conv2d(image, np.ones((1, 3, 2, 2))),
        lambda: td.conv1d(image, np.ones((1, 2, 2))),
        lambda: td.max_pool1d(image, 2),
        lambda: td.adaptive_avg_pool(np.ones((1, 2, 0)), 2),
        lambda: td.max_pool2d(image, 4),
        lambda: td.conv_transpose2d(image, np.ones((3, 1, 2, 2))),
    ):
        with pytest.raises(TreadleError):
            call()


@pytest.mark.parametrize("corners", [False, True])
def test_upsampling_draws_lines_between_elements(corners: bool) -> None:
    x = RNG.normal(size=(2, 1, 3, 4))
    up = td.upsample(x, (2, 3), "bilinear", align_corners=corners).numpy()
    assert up.shape == (2, 1, 6, 12)

    def places(n: int, k: int) -> Any:
        i = np.arange(n * k)
        return i * (n - 1) / (n * k - 1) if corners else (i + 0.5) / k - 0.5

    for image, found in zip(x[:, 0], up[:, 0], strict=True):
        rows = np.stack([np.interp(places(4, 3), np.arange(4), r) for r in image])
        want = np.stack([np.interp(places(3, 2), np.arange(3), c) for c in rows.T], 1)
        np.testing.assert_allclose(found, want, atol=1e-12)
    with pytest.raises(ArgumentError, match="is none of"):
        td.upsample(x, 2, "cubic")
    with pytest.raises(ArgumentError, match="of linear modes"):
        td.upsample(x, 2, align_corners=True)


def test_upsampling_has_the_gradient_of_its_weights() -> None:
    x = td.asarray(RNG.normal(size=(1, 2, 3)))
    w = RNG.normal(size=(1, 2, 9))

    def loss(v: Any) -> Any:
        return (td.upsample(v, 3, "linear") * w).sum()

    (g,) = td.grad(loss(x), [x])
    np.testing.assert_allclose(g.numpy(), differences(loss, x.numpy()), atol=1e-9)
    assert td.latest_program().fallbacks == ()


def test_windows_that_see_padding_alone_are_found() -> None:
    """The count of windows does not matter; the answer is that of looking at each."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        n, k, s, d = (int(v) for v in rng.integers(1, 6, 4))
        low, high = (int(v) for v in rng.integers(0, 9, 2))
        room = n + low + high - d * (k - 1) - 1
        if room < 0:
            continue
        m = room // s + 1
        seen = np.arange(m)[:, None] * s + np.arange(k) * d - low
        want = bool(((seen >= 0) & (seen < n)).any(1).all())
        assert _all_see(n, k, s, low, d, m) == want, (n, k, s, low, d, m)
    assert not _all_see(3, 2, 1, 10**11, 1, 10**11)
    assert _all_see(10**11, 2, 1, 0, 1, 10**11 - 1)
