"""Look-ups and the sparse gradients of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import RunError
from treadle.ops.lookup import combine_rows, sparse_rows

TABLE = np.arange(10.0).reshape(5, 2)


def test_gradients_of_several_lookups_stay_sparse() -> None:
    table = td.asarray(TABLE)
    loss = (td.embedding(table, [1, 1]) * 2.0).sum() + td.rows(table, [[4]]).sum()
    (g,) = td.grad(loss * 3.0, [table])
    found = sparse_rows(g * 0.5)
    assert found is not None
    ids, values = found
    dense = np.zeros((5, 2))
    np.add.at(dense, ids.numpy(), values.numpy())
    assert np.array_equal(dense, (g * 0.5).numpy())
    assert dense[:, 0].tolist() == [0.0, 6.0, 0.0, 0.0, 1.5]
    total = combine_rows(ids, values).numpy()
    assert np.array_equal(total, dense[ids.numpy()])


@pytest.mark.parametrize("count", [10**30, 1 << 63, -1, 2.5, "5"])
def test_rows_are_combined_up_to_a_count_that_is_an_extent(count: Any) -> None:
    with pytest.raises(td.ShapeError):
        combine_rows([7, 3, 7], [1.0, 2.0, 3.0], count).numpy()


def test_a_dense_gradient_is_not_sparse() -> None:
    table = td.asarray(TABLE)
    loss = td.embedding(table, [1]).sum() + table.sum()
    (g,) = td.grad(loss, [table])
    assert sparse_rows(g) is None


def test_the_padding_row_has_no_gradient() -> None:
    table = td.asarray(TABLE)
    y = td.embedding(table, [0, 3, 0], padding_index=0)
    assert np.array_equal(y.numpy(), TABLE[[0, 3, 0]])
    (g,) = td.grad(y.sum(), [table])
    assert g.numpy()[:, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]


def test_an_id_outside_names_itself_the_table_and_the_op() -> None:
    with pytest.raises(RunError, match="Embedding: id 5 is out of range for extent 5"):
        td.embedding(TABLE, [5]).numpy()
    with pytest.raises(RunError, match="label 3 is out of range for extent 3"):
        td.one_hot([3], 3).numpy()


def test_elements_are_picked_along_an_axis() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    labels = np.array([[0, 1, 2, 3, 4]] * 3)[:, :4]
    want = np.take_along_axis(x, labels[..., None], -1)[..., 0]
    assert np.array_equal(td.pick(x, labels).numpy(), want)
    first = np.array([[[1]]])
    got = td.take_along_axis(x, first, 1).numpy()
    assert np.array_equal(got, x[:, 1:2])
    assert np.array_equal(td.take(x, [[2, 0]], 1).numpy(), np.take(x, [[2, 0]], 1))


def test_a_number_chooses_a_row_as_data() -> None:
    table = td.param("table", init=TABLE, sparse=True)
    for k in (0, 3, -1):
        row = table[k]
        assert row.op.name == "Embedding" and row.inputs[1].array is not None
        assert np.array_equal(row.numpy(), TABLE[k].astype(np.float32))
    for row in (td.rows(table, 3), td.embedding(table, 3)):
        assert np.array_equal(row.numpy(), TABLE[3].astype(np.float32))
    (g,) = td.grad((table[-2] * 2.0).sum() + table[0].sum(), [table])
    assert sparse_rows(g) is not None
    assert g.numpy()[:, 0].tolist() == [1.0, 0.0, 0.0, 2.0, 0.0]
    with pytest.raises(IndexError, match="index 5 is out of range for extent 5"):
        table[5]
    with pytest.raises(RunError, match="Embedding: id -1 is out of range"):
        td.rows(table, -1).numpy()
    with pytest.raises(td.ShapeError, match="a scalar has no rows"):
        td.rows(1.0, 0)
    table[1].assign([7.0, 8.0])
    table[-1] = 9.0
    assert table.numpy()[[1, 4]].tolist() == [[7.0, 8.0], [9.0, 9.0]]


def test_a_row_of_a_named_table_keeps_the_other_names() -> None:
    table = td.param("table", init=TABLE, sparse=True, axes=("word", "width"))
    assert table[1].type.axes == ("width",) == td.rows(table, 1).type.axes


def test_a_sum_of_thousands_of_look_ups_is_sparse() -> None:
    table = td.param("table", init=np.ones((5, 2), np.float32))
    one = td.grad(td.rows(table, [3]).sum(), [table])[0]
    total = one
    for _ in range(3000):
        total = total + one
    found = sparse_rows(-total * 0.5 + one)
    assert found is not None
    ids, values = found
    assert ids.shape == (3002,) and values.op.name == "Concat"
    assert values.numpy().sum(0).tolist() == [1 - 3001 / 2] * 2
