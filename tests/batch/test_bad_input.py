"""What goes wrong in graphs that differ for every example: errors that help, or what
is right all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from tests.batch.test_batching import agree, both, value_and_gradients

F = td.nn.functional


def told(call: Callable[[], Any], error: type[Exception]) -> str:
    """The text of the error that a call raises."""
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


# -- cells whose outputs change --------------------------------------------------------


def test_a_cell_with_more_outputs_each_time() -> None:
    net = Net()

    def run() -> list[Any]:
        calls: list[int] = []

        @td.function
        def moody(x: Any) -> Any:
            calls.append(1)
            h = td.tanh(x @ net.below)
            return (h,) if len(calls) % 2 else (h, h * 2)

        xs = [td.constant(np.arange(6.0) / 9 + k, "float64") for k in range(40)]
        found = [moody(x) for x in xs]
        assert [len(own) for own in found] == [1, 2] * 20
        states = [net.leaf_cell(own[-1][:6]) for own in found]
        tops = [net.inner_cell(h, c, h, c)[0] for h, c in states]
        loss = td.stack([h.sum() for h in tops]).sum()
        return [float(loss), td.grad(loss, [net.below])[0].numpy()]

    agree(both(run))


def test_a_cell_with_another_type_of_output_each_time() -> None:
    net = Net()

    def run() -> list[Any]:
        widths = iter([2, 3] * 30)

        def moody(x: Any, width: int) -> Any:
            return td.tanh(x @ net.below[:, :width])

        cell = td.function(moody)
        xs = [td.constant(np.arange(6.0) / 9 + k, "float64") for k in range(60)]
        found = [cell(x, next(widths)) for x in xs]
        assert [y.shape for y in found[:2]] == [(2,), (3,)]
        loss = td.stack([y.sum() for y in found]).sum()
        return [float(loss), td.grad(loss, [net.below])[0].numpy()]

    agree(both(run))


# -- recursion without an end ----------------------------------------------------------


def test_a_cell_that_calls_itself() -> None:
    @td.function
    def again(x: Any) -> Any:
        return again(x) + 1

    text = told(lambda: again(td.ones(3)), td.TraceError)
    assert "'again' calls itself with the same signature" in text
    assert "float32[3]" in text and "return again(x) + 1" in text
    assert "recursion over data belongs outside" in text


@pytest.mark.parametrize("way", ["types", "numbers", "two"])
def test_a_cell_that_calls_itself_ever_anew(way: str) -> None:
    @td.function
    def grow(x: Any, k: int) -> Any:
        if way == "types":
            return grow(td.concat([x, x[:1]]), k)
        return other(x, k + 1) if way == "two" else grow(x, k + 1)

    @td.function
    def other(x: Any, k: int) -> Any:
        return grow(x, k + 1)

    text = told(lambda: grow(td.ones(3), 0), td.TraceError)
    assert "calls itself without an end" in text and "another signature" in text
    assert "in test_a_cell" in text or "grow(" in text
    assert "recursion over data belongs outside" in text
    # Nothing is left of it.
    assert float(td.function(lambda x: x.sum())(td.ones(3))) == 3.0


def test_recursion_over_data_that_ends() -> None:
    @td.function
    def power(x: Any, k: int) -> Any:
        return power(x, k - 1) * x if k else td.ones(())

    assert float(power(td.constant(2.0), 12)) == 4096.0


# -- lists of unequal types ------------------------------------------------------------


def test_a_list_of_unequal_shapes() -> None:
    text = told(lambda: td.stack([td.ones(3), td.ones(4)]), td.ShapeError)
    assert "item 1 has shape (4,), item 0 has (3,)" in text
    assert "operands: float32[3], float32[4]" in text and "td.pad" in text
    assert "test_bad_input.py" in text

    text = told(lambda: td.concat([td.ones(3), td.ones((3, 1))]), td.ShapeError)
    assert "does not join (3,)" in text and "other dimensions must be equal" in text


def test_a_list_of_what_is_no_array() -> None:
    for odd in (None, "a", (td.ones(2), td.ones(2))):
        assert "stack: " in told(lambda odd=odd: td.stack([td.ones(2), odd]), TypeError)


def test_a_list_of_unequal_dtypes_is_promoted() -> None:
    y = td.stack([td.ones(2), td.ones(2, "int32"), td.ones(2, "float64")])
    assert y.dtype == td.float64 and y.tolist() == [[1.0, 1.0]] * 3


def test_one_wrong_example_is_named_where_it_is_built() -> None:
    net = Net()

    def build() -> Any:
        states = [net.encode(t) for t in trees(40, 16)]
        wrong = net.encode(3)[0][:4]
        return net.inner_cell(*states[0], wrong, wrong)

    text = told(build, td.TreadleError)
    assert "operands: float64[10], float64[12, 30]" in text
    assert "nets.py" in text and "@ self.inner" in text


# -- nothing at all --------------------------------------------------------------------


def test_an_empty_batch() -> None:
    net = Net()
    for call in (lambda: td.stack(net.losses([])), lambda: td.concat([])):
        text = told(call, td.ArityError)
        assert "there is nothing to join" in text and "skip it" in text
    assert td.evaluate() == () and td.evaluate([]) == []
    logits, labels = td.zeros((0, 3)), np.zeros(0, np.int64)
    assert float(F.cross_entropy(logits, labels, reduction="sum")) == 0.0
    assert np.isnan(float(F.cross_entropy(logits, labels)))  # the mean of nothing
    assert list(td.data.Loader(td.data.ListDataset([]))) == []


def test_an_empty_batch_of_rows() -> None:
    cell = td.nn.LSTMCell(3, 4)
    h, c = td.function(lambda x: cell(x))(td.zeros((0, 3)))
    (g,) = td.grad((h * h).sum() + c.sum(), [cell.weight_ih])
    assert h.numpy().shape == (0, 4) and not g.numpy().any()
    assert td.nn.LSTM(3, 4)(td.zeros((2, 0, 3)))[0].numpy().shape == (2, 0, 4)
    assert td.vmap(td.tanh)(td.zeros((0, 3))).numpy().shape == (0, 3)


def test_examples_without_elements() -> None:
    w = td.param("w", init=np.ones((3, 2)), dtype="float64")
    cell = td.function(lambda x: td.tanh(x @ w))

    def run() -> list[Any]:
        xs = [td.constant(np.ones((k % 3, 3)) * k, "float64") for k in range(60)]
        loss = td.stack([cell(x).sum() for x in xs]).sum()
        return [float(loss), td.grad(loss, [w])[0].numpy()]

    agree(both(run))


def test_an_empty_sequence() -> None:
    text = told(lambda: td.nn.LSTM(3, 4)(td.zeros((0, 2, 3))), td.ShapeError)
    assert "at least one step" in text
    carry, ys = td.scan(lambda c, x: (c + x, c), td.zeros(3), td.zeros((0, 3)))
    assert not carry.numpy().any() and ys.numpy().shape == (0, 3)
    assert td.unstack(td.zeros((0, 3))) == ()
    padded, lengths = td.data.pad([[], [1, 2]])
    assert padded.tolist() == [[0, 0], [1, 2]] and lengths.tolist() == [0, 2]


def test_an_empty_sentence_among_others() -> None:
    net = Net()
    start = td.zeros(6, "float64"), td.zeros(6, "float64")

    def run() -> list[Any]:
        states = []
        for length in (0, 5, 0, 9, 1, 12, 0, 7, 12, 9):
            state = start
            for k in range(length):
                state = net.inner_cell(
                    *net.leaf_cell(td.rows(net.table, k % 11)), *state
                )
            states.append(state[0])
        loss = td.stack([(h * h).sum() for h in states]).sum()
        grads = td.grad(loss, net.parameters[:4])
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_trees_of_single_words() -> None:
    net = Net()
    agree(both(lambda: value_and_gradients(net, [k % 11 for k in range(40)])))
