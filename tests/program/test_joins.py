"""Many joined arrays: each is copied to its place, before anybody reads the whole."""

from __future__ import annotations

import re

import numpy as np
import pytest

import treadle as td


@pytest.mark.parametrize("count", [2, 7, 8, 40])
@pytest.mark.parametrize("axis", [0, 1])
def test_what_reads_joined_arrays_comes_after_them(count: int, axis: int) -> None:
    draw = np.random.default_rng(count)
    shapes = [(1 + k % 3, 5) if axis == 0 else (5, 1 + k % 3) for k in range(count)]
    arrays = [draw.normal(size=shape) for shape in shapes]

    def run() -> list[np.ndarray]:
        parts = [td.constant(x) for x in arrays]
        whole = td.concat([x * 2.0 for x in parts], axis)
        labels = np.arange(whole.shape[0]) % whole.shape[1]
        loss = td.nn.functional.cross_entropy(whole, labels)  # a unit of its own reads
        return td.evaluate([loss, whole, *td.grad(loss, parts[:2])])

    with td.options(dtype="float64", arena="poison"):
        found = run()
        with td.options(engine="reference"):
            wanted = run()
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_a_join_of_many_is_a_copy_for_each_operand() -> None:
    parts = [td.constant(np.full((2, 3), k, "float32")) for k in range(9)]
    text = td.lower(td.concat([td.exp(x) for x in parts], 1)).program
    assert text.count("= join(") == 9
    few = td.lower(td.concat([td.exp(x) for x in parts[:7]], 1)).program
    assert "= join(" not in few


def joins_of_joins(form: str) -> td.Tensor:
    draw = np.random.default_rng(0)
    sizes = [(1, c, n, n) for n in (8, 4, 2) for c in (12, 5)]
    parts = [td.asarray(draw.standard_normal(s).astype(np.float32)) for s in sizes]
    joins = [td.concat(parts[k : k + 2], 1) for k in (0, 2, 4)]
    if form == "sliced":
        moved = [(x[:, 2:, 1:] * 3.0).reshape(15, -1).T for x in joins]
    elif form == "permuted":
        moved = [x.reshape(17, -1).T for x in joins]
    else:
        moved = [x.reshape(-1) for x in joins]
    return td.concat(moved, 0) * 2.0


@pytest.mark.parametrize("form", ["flat", "permuted", "sliced"])
def test_joins_read_as_something_else_are_copied_without_divisions(form: str) -> None:
    """As the heads of detectors are: 79 ms of divisions and choices, 0.4 of copies."""
    if form != "sliced":  # what is left out of the rows is divided for
        assert not re.search("//|%", td.lower(joins_of_joins(form)).kernels)
    with td.options(engine="reference"):
        wanted = joins_of_joins(form).numpy()
    np.testing.assert_array_equal(joins_of_joins(form).numpy(), wanted)


@pytest.mark.parametrize("form", ["flat", "permuted", "three deep"])
def test_parts_of_joins_are_copied_once(form: str) -> None:
    """For the second size as well, whose program is that of all sizes."""

    def joined(arrays: list[np.ndarray]) -> td.Tensor:
        parts = [td.asarray(x) for x in arrays]
        joins = [td.concat(parts[k : k + 2], 1) for k in range(0, len(parts), 2)]
        if form == "three deep":
            flat = [td.concat([x.reshape(1, 7, -1), x[:, :, 0]], 2) for x in joins]
            return td.concat([x.reshape(-1) for x in flat], 0)
        if form == "permuted":
            return td.concat([x.reshape(7, -1).T for x in joins], 0)
        return td.concat([x.reshape(1, 7, -1) for x in joins], 2)

    draw = np.random.default_rng(0)
    for sizes in ((8, 4, 2), (12, 6, 3), (20, 10, 5)):
        shapes = [(1, c, n, n) for n in sizes for c in (4, 3)]
        arrays = [draw.standard_normal(shape).astype("float32") for shape in shapes]
        got = joined(arrays).numpy()
        if form != "three deep":  # joins of the second level are stored there
            assert td.latest_program().steps == 6
        with td.options(engine="reference"):
            np.testing.assert_array_equal(got, joined(arrays).numpy())


def test_parts_of_one_place_are_joined_without_divisions() -> None:
    """As real and imaginary parts are: 2.8 ms of divisions, 0.05 of choices."""
    draw = np.random.default_rng(0)
    parts = [draw.standard_normal((3, 4, 5)).astype(np.float32) for _ in range(2)]
    a, b = (td.asarray(x).transpose(0, 2, 1).reshape(15, 4) for x in parts)
    whole = td.concat([a[..., None], b[..., None]], -1)
    want = np.stack([x.transpose(0, 2, 1).reshape(15, 4) for x in parts], -1)
    text = td.lower(whole.reshape(3, 5, 4, 2)).kernels
    assert "//" not in text and "%" not in text
    np.testing.assert_array_equal(whole.numpy(), want)


def test_joined_images_lie_as_their_parts_do() -> None:
    """Channels last: a copy, where planes of them took 16 times as long."""
    draw = np.random.default_rng(0)
    x, v, w = (
        td.asarray(draw.standard_normal(shape).astype(np.float32))
        for shape in ((1, 3, 9, 8), (16, 3, 3, 3), (4, 32, 3, 3))
    )
    conv = td.nn.functional.conv2d
    y = td.relu(conv(x, v))
    joined = td.concat([y[:, 8:], y[:, :8], td.tanh(y)], 1)
    z = conv(joined, w)
    text = td.lower(z).kernels
    assert "b0[i0 + i1*n" in text[text.index("kernel concat") :]
    with td.options(engine="reference"):
        want = conv(td.concat([y[:, 8:], y[:, :8], td.tanh(y)], 1), w).numpy()
    np.testing.assert_allclose(z.numpy(), want, rtol=1e-4, atol=1e-5)
