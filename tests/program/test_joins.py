"""Many joined arrays: each is copied to its place, before anybody reads the whole."""

from __future__ import annotations

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
