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


@pytest.mark.parametrize("n", [5, 8, 9])
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(("stride", "dilation"), [(2, 1), (3, 2), (4, 1)])
def test_padding_same_gives_a_window_for_each_stride(
    n: int, k: int, stride: int, dilation: int
) -> None:
    x, w = RNG.standard_normal((1, 2, n)), RNG.standard_normal((2, 2, k))
    count = -(-n // stride)
    total = max((count - 1) * stride + dilation * (k - 1) + 1 - n, 0)
    wide = np.pad(x, ((0, 0), (0, 0), (total // 2, total - total // 2)))
    got = td.conv1d(x, w, None, stride, "same", dilation)
    want = td.conv1d(wide, w, None, stride, 0, dilation)
    assert got.shape[2] == count
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    best = td.max_pool1d(x, k, stride, "same", dilation)
    low = np.pad(x, ((0, 0), (0, 0), (total // 2, total - total // 2)),
                 constant_values=-np.inf)  # fmt: skip
    want = td.max_pool1d(low, k, stride, 0, dilation)
    np.testing.assert_array_equal(best.numpy(), want.numpy())
    assert td.avg_pool1d(x, k, stride, "same").shape[2] == count
    h = RNG.standard_normal((1, 2, count))
    back = td.conv_transpose1d(h, w, None, stride, "same", 0, 1, dilation)
    assert back.shape[2] == stride * count
    again = td.conv1d(back.numpy(), w, None, stride, "same", dilation)
    y = td.conv1d(RNG.standard_normal(back.shape), w, None, stride, "same", dilation)
    assert again.shape == y.shape == h.shape


def test_output_padding_adds_what_windows_reach_or_zeros() -> None:
    """As torch's, where it is not below the stride as well."""
    x, w, b = np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0]]]), np.array([0.5])
    wide = [1.0, 0.0, 12.0, 0.0, 20.0]  # strides of 2, dilation of 2
    for padding, extra in ((0, 0), (1, 0), (1, 1), (0, 1)):
        got = td.conv_transpose1d(x, w, b, 2, padding, extra, 1, 2).tolist()[0][0]
        whole = [*wide, 0.0][padding : len(wide) - padding + extra]
        assert got == [v + 0.5 for v in whole]
    dense = [1.0, 2.0, 0.0, 10.0, 20.0]  # strides of 1, dilation of 3
    for padding, extra in ((0, 2), (1, 1), (1, 2), (2, 2)):
        got = td.conv_transpose1d(x, w, b, 1, padding, extra, 1, 3).tolist()[0][0]
        whole = [*dense, 0.0, 0.0][padding : len(dense) - padding + extra]
        assert got == [v + 0.5 for v in whole]
    with pytest.raises(ArgumentError, match="output_padding"):
        td.conv_transpose1d(x, w, None, 2, 0, 2)


@pytest.mark.parametrize(
    ("mode", "numpy"),
    [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
@pytest.mark.parametrize("padding", [2, "same", (1, 2)])
def test_convolutions_pad_with_the_elements_themselves(
    mode: str, numpy: Any, padding: Any
) -> None:
    layer = td.nn.Conv2d(2, 3, 3, padding=padding, padding_mode=mode)
    x = RNG.standard_normal((1, 2, 4, 5)).astype("f4")
    pair = {2: (2, 2), "same": (1, 1), (1, 2): (1, 2)}[padding]
    wide = np.pad(x, ((0, 0), (0, 0), *((n, n) for n in pair)), mode=numpy)
    want = td.conv2d(wide, layer.weight, layer.bias)
    np.testing.assert_array_equal(layer(x).numpy(), want.numpy())
    np.testing.assert_array_equal(
        td.pad(x, ((0, 0), (0, 0), *((n, n) for n in pair)), mode).numpy(), wide
    )
    assert f"padding_mode={mode!r}" in repr(layer)
    with pytest.raises(ArgumentError, match="padding_mode is one of"):
        td.nn.Conv2d(2, 3, 3, padding_mode="wavy")


# As torch 2.13 gives for [0, 1, 4, 9, 16] (in two dimensions for the cubic).
RESIZED: list[tuple[dict[str, Any], list[float]]] = [
    ({"scale_factor": 1.5}, [0, 0, 1, 4, 4, 9, 16]),
    ({"size": 3}, [0, 1, 9]),
    ({"scale_factor": 1.5, "mode": "nearest-exact"}, [0, 1, 1, 4, 9, 9, 16]),
    ({"size": 3, "mode": "nearest-exact"}, [0, 4, 16]),
    ({"size": 4, "mode": "linear"}, [0.125, 2.125, 7.125, 15.125]),
    ({"size": 3, "mode": "linear", "align_corners": True}, [0, 4, 16]),
    ({"scale_factor": 0.5, "mode": "linear"}, [0.5, 6.5]),
    ({"size": 2, "mode": "area"}, [5 / 3, 29 / 3]),
    ({"size": 2, "mode": "bicubic"}, [0.45703125, 11.11328125]),
    ({"size": 3, "mode": "bicubic", "align_corners": True}, [0, 4, 16]),
]


@pytest.mark.parametrize(("settings", "want"), RESIZED)
def test_images_of_another_size(settings: dict[str, Any], want: list[float]) -> None:
    x = td.Parameter(np.arange(5.0)[None, None] ** 2)
    y = td.nn.functional.interpolate(x, **settings)
    np.testing.assert_allclose(y.numpy()[0, 0], want, atol=1e-6)
    layer = td.nn.Upsample(**settings)
    np.testing.assert_array_equal(layer(x).numpy(), y.numpy())
    if "nearest" not in settings.get("mode", "nearest"):
        f = td.nn.functional.interpolate
        td.check_gradient(lambda x: (f(x, **settings) ** 2).sum(), [x.numpy()])


def test_sizes_that_are_none_are_refused() -> None:
    x = np.ones((1, 1, 4))
    for settings in ({}, {"scale_factor": 2, "size": 3}, {"scale_factor": -1.0},
                     {"size": 0}, {"scale_factor": 0.1}, {"size": 2, "mode": "wavy"},
                     {"size": 2, "align_corners": True}):  # fmt: skip
        with pytest.raises(ArgumentError):
            td.nn.functional.interpolate(x, **settings)


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


@pytest.mark.parametrize("bins", range(1, 8))
@pytest.mark.parametrize("n", range(1, 8))
def test_bins_average_the_elements_from_floor_to_ceiling(n: int, bins: int) -> None:
    x = RNG.standard_normal((2, 3, n))
    spans = [slice(i * n // bins, -(-(i + 1) * n // bins)) for i in range(bins)]
    means = np.stack([x[..., span].mean(-1) for span in spans], -1)
    np.testing.assert_allclose(td.adaptive_avg_pool(x, bins).numpy(), means)
    peaks = np.stack([x[..., span].max(-1) for span in spans], -1)
    found, places = td.nn.functional.adaptive_max_pool1d(x, bins, return_indices=True)
    assert np.array_equal(found.numpy(), peaks)
    assert np.array_equal(np.take_along_axis(x, places.numpy(), -1), peaks)


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
        td.upsample(x, 2, "wavy")
    with pytest.raises(ArgumentError, match="of linear and cubic"):
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
