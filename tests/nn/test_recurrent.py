"""Recurrent cells do what their formulas say, alone, in stacks and in batches."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.nn.cells import HIDDEN, ROWS, Row, over
from treadle import nn
from treadle.runtime.rows import counts

RNG = np.random.default_rng(11)
KINDS = [row for row in ROWS if row.name in ("LSTMCell-3", "GRUCell-3", "SRUCell-3")]


def parts(state: Any) -> list[Any]:
    return list(state) if isinstance(state, tuple) else [state]


def close(got: Any, want: Any, rtol: float = 1e-10) -> None:
    for a, b in zip(parts(got), parts(want), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=rtol, atol=rtol / 100)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_values_and_gradients_of_a_cell(row: Row) -> None:
    """Both against the formula, the gradient as differences in a random direction."""
    cell, rng = row.cell(), np.random.default_rng(1)
    x, state = rng.normal(size=(2, row.width)), row.state(cell, (2,))
    w = cell.state_dict()
    trained = dict(cell.named_parameters())
    inputs = [td.asarray(x), *map(td.asarray, parts(state))]
    given = tuple(inputs[1:]) if isinstance(state, tuple) else inputs[1]
    with td.options(engine="reference"):
        after = cell(inputs[0], given)
        close(after, row.formula(w, x, state))
        weights = [rng.normal(size=(2, HIDDEN)) for _ in parts(after)]
        loss = sum((y * k).sum() for y, k in zip(parts(after), weights, strict=True))
        grads = td.grad(loss, [*trained.values(), *inputs], unused="zero")
        found = [g.numpy() for g in grads]
    ways = [rng.normal(size=g.shape) for g in found]
    names = list(trained)

    def value(step: float) -> float:
        moved = {k: w[k] + step * d for k, d in zip(names, ways, strict=False)}
        x2, *s2 = (
            v + step * d
            for v, d in zip([x, *parts(state)], ways[len(names) :], strict=True)
        )
        y = row.formula(
            {**w, **moved}, x2, tuple(s2) if isinstance(state, tuple) else s2[0]
        )
        pairs = zip(parts(y), weights, strict=True)
        return float(sum((a * k).sum() for a, k in pairs))

    want = (value(1e-5) - value(-1e-5)) / 2e-5
    slope = sum(float((g * d).sum()) for g, d in zip(found, ways, strict=True))
    assert slope == pytest.approx(want, rel=1e-6, abs=1e-7)
    for name, g in zip(names, found, strict=False):
        assert (g != 0).any(), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_cell_in_a_stack_over_a_list(row: Row) -> None:
    cell = row.cell()
    stack = nn.Recurrent(
        row.make, row.width, HIDDEN, dtype="float64", **row.settings
    ).eval()
    stack.load_state_dict(
        {
            name: cell.state_dict()[name.replace("_l0", "")]
            for name in stack.state_dict()
        }
    )
    xs = [RNG.normal(size=(n, row.width)) for n in (2, 4, 1)]
    with td.options(engine="reference"):
        outputs, last = stack(xs)
        for k, x in enumerate(xs):
            start = [np.zeros(HIDDEN)] * cell.states
            want, end = over(
                row, cell.state_dict(), x, tuple(start) if len(start) > 1 else start[0]
            )
            np.testing.assert_allclose(outputs[k].numpy(), np.stack(want), rtol=1e-9)
            for a, b in zip(parts(last), parts(end), strict=True):
                np.testing.assert_allclose(a.numpy()[0, k], b, rtol=1e-9)
        whole = np.stack([xs[1], xs[1] * 0.5], 1)
        some = stack(whole)[0].numpy()
        one = [np.stack(row_) for row_ in (some[:, 0], some[:, 1])]
        np.testing.assert_allclose(one[0], outputs[1].numpy(), rtol=1e-9)


def stacks(row: Row, **settings: Any) -> Any:
    made = nn.Recurrent(row.make, 3, HIDDEN, dtype="float64", **settings)
    return made


def alone(stack: Any, xs: list[Any], state: Any = None) -> tuple[list[Any], list[Any]]:
    """Each sequence by itself, node by node: outputs, and last states as arrays."""
    outputs, lasts = [], []
    for k, x in enumerate(xs):
        own = None
        if state is not None:
            own = [part[:, k] for part in parts(state)]
            own = tuple(own) if len(own) > 1 else own[0]
        y, last = stack(td.asarray(x), own)
        outputs.append(y)
        lasts.append(last)
    columns = zip(*[parts(last) for last in lasts], strict=True)
    return outputs, [np.stack(td.evaluate(one), 1) for one in columns]


FORMS = [*[("list", row) for row in KINDS], ("padded", KINDS[0])]
FORMS += [("batch first", KINDS[1]), ("traced", KINDS[0]), ("traced", KINDS[2])]


@pytest.mark.parametrize(
    ("form", "row"), FORMS, ids=lambda x: x if isinstance(x, str) else x.name
)
def test_sequences_of_unequal_length(form: str, row: Row) -> None:
    """Outputs, last states and gradients are those of each sequence by itself."""
    first = form == "batch first"
    stack = stacks(row, num_layers=2, bidirectional=True, batch_first=first)
    lengths = [3, 1, 6, 5, 2]
    xs = [RNG.normal(size=(n, 3)) for n in lengths]
    shape = (4, len(xs), HIDDEN)
    start = [RNG.normal(size=shape) for _ in range(stack.cells[0].states)]
    state = tuple(start) if len(start) > 1 else start[0]
    padded = np.full((6, len(xs), 3), np.nan)
    for k, x in enumerate(xs):
        padded[: len(x), k] = x
    given = [td.asarray(x) for x in xs]
    if form == "list":
        outputs, last = stack(given, state)
    else:
        where = [td.asarray(padded.swapaxes(0, 1) if first else padded)]
        if form == "traced":
            call = td.function(lambda x, n: stack(x, state, lengths=n))
            y, last = call(where[0], np.array(lengths))
        else:
            y, last = stack(where[0], state, lengths=lengths)
        y = y.transpose(1, 0, 2) if first else y
        found = y.numpy()
        assert all(not found[n:, k].any() for k, n in enumerate(lengths))
        outputs, given = [y[:n, k] for k, n in enumerate(lengths)], where
    leaves = [*stack.parameters(), *given]

    def grads(outputs: list[Any], leaves: list[Any]) -> list[Any]:
        return td.grad(sum((y * y * y).sum() for y in outputs), leaves)

    # By data a gradient is asked for before the value.
    derived = [g.numpy() for g in grads(outputs, leaves)]
    got = [[y.numpy() for y in outputs], [y.numpy() for y in parts(last)], derived]
    with td.options(autobatch=False, engine="reference"):
        nodes = [td.asarray(x) for x in xs]
        wanted, lasts = alone(stack, nodes, state)
        for a, b in zip(got[0], td.evaluate(wanted), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        for a, b in zip(got[1], lasts, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        again = [_again(stack, x, state, k) for k, x in enumerate(nodes)]
        want = td.evaluate(grads(again, [*stack.parameters(), *nodes]))
    count = len(list(stack.parameters()))
    for a, b in zip(got[2][:count], want[:count], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    for k, b in enumerate(want[count:]):
        if form == "list":
            a = got[2][count + k]
        else:
            whole = got[2][count].swapaxes(0, 1) if first else got[2][count]
            a = whole[: lengths[k], k]
            assert not np.nan_to_num(whole[lengths[k] :, k], nan=1.0).any()
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def _again(stack: Any, x: Any, state: Any, k: int) -> Any:
    own = [part[:, k] for part in parts(state)]
    return stack(x, tuple(own) if len(own) > 1 else own[0])[0]


def test_lengths_that_are_all_alike_and_none() -> None:
    stack = nn.LSTM(3, 4, bidirectional=True)
    x = RNG.normal(size=(4, 2, 3)).astype("f4")
    whole, (h, _) = stack(x)
    same, (h2, _) = stack(x, lengths=[4, 4])
    np.testing.assert_allclose(whole.numpy(), same.numpy(), rtol=1e-5)
    np.testing.assert_allclose(h.numpy(), h2.numpy(), rtol=1e-5)
    outputs, (h, c) = stack([])
    assert outputs == [] and h.shape == c.shape == (2, 0, 4)
    outputs, (h, _) = stack([x[:0, 0], x[:2, 0], x[:0, 1]])
    assert [y.shape for y in outputs] == [(0, 8), (2, 8), (0, 8)]
    assert not h.numpy()[:, [0, 2]].any() and h.numpy()[:, 1].all()
    outputs, h = nn.GRU(3, 4)([x[:0, 0]], np.ones((1, 1, 4), "f4"))
    assert outputs[0].numpy().shape == (0, 4) and (h.numpy() == 1).all()
    y, (h, _) = stack(x, lengths=[0, 0])
    assert not y.numpy().any() and not h.numpy().any()
    y, (h, _) = stack(x[:, :0], lengths=np.zeros(0, np.int64))
    assert y.numpy().shape == (4, 0, 8) and h.numpy().shape == (2, 0, 4)


def test_what_is_no_batch_of_sequences_is_refused() -> None:
    stack = nn.GRU(3, 4)
    x = td.zeros((4, 2, 3))
    with pytest.raises(td.ShapeError, match=r"sequence 1 of the list is .*\[2, 5\]"):
        stack([td.zeros((2, 3)), td.zeros((2, 5))])
    with pytest.raises(td.ShapeError, match="sequence 0 of the list"):
        stack([x])
    with pytest.raises(td.ArgumentError, match="length 5 of sequence 1"):
        stack(x, lengths=[4, 5])
    with pytest.raises(td.ArgumentError, match="length -1 of sequence 0"):
        stack(x, lengths=[-1, 2])
    with pytest.raises(td.ShapeError, match="2 sequences have 2 lengths"):
        stack(x, lengths=[1, 2, 3])
    with pytest.raises(td.DTypeError, match="whole numbers"):
        stack(x, lengths=[1.0, 2.0])
    with pytest.raises(td.ShapeError, match="lengths go with"):
        stack(x[:, 0], lengths=[2])
    with pytest.raises(td.ArgumentError, match="lengths of its own"):
        stack([x[:, 0]], lengths=[2])
    with pytest.raises(td.ShapeError, match="width 3"):
        stack(td.zeros((4, 2, 5)))
    with pytest.raises(td.ShapeError, match="at least one step"):
        stack(x[:0])
    with pytest.raises(td.ShapeError, match="a state is"):
        stack(x, td.zeros((2, 2, 4)))


def test_lengths_of_a_placeholder() -> None:
    stack = nn.GRU(3, 4)
    x = RNG.normal(size=(4, 2, 3)).astype("f4")
    lengths = td.placeholder((2,), "int64")
    run = td.computation(stack(x, lengths=lengths)[0], lengths)
    for given in ([4, 1], [2, 3]):
        want = stack(x, lengths=given)[0].numpy()
        np.testing.assert_allclose(run(np.array(given)), want, rtol=1e-5, atol=1e-7)


def test_a_state_that_is_added_to() -> None:
    stack = nn.LSTM(3, 4, 2, dtype="float64")
    x = RNG.normal(size=(5, 3))
    outputs, (h, c) = stack(x)
    start = stack.initial_state()
    states = start.add_inputs(x)
    np.testing.assert_allclose(
        np.stack([s.output().numpy() for s in states]), outputs.numpy(), rtol=1e-12
    )
    last = states[-1]
    np.testing.assert_allclose(last.s()[1][1].numpy(), c.numpy()[1], rtol=1e-12)
    assert last.prev is states[-2] and start.prev is None
    # Two ways on from one state, as a search takes them.
    a, b = states[1].add_input(x[0]), states[1].add_input(x[2])
    np.testing.assert_allclose(b.output().numpy(), outputs.numpy()[2], rtol=1e-12)
    assert (a.output().numpy() != b.output().numpy()).any()
    again = stack.initial_state((h, c)).add_input(x[0])
    other = last.set_h([y * 1.0 for y in last.h()]).add_input(x[0])
    np.testing.assert_allclose(again.output().numpy(), other.output().numpy())
    with pytest.raises(td.ArgumentError, match="no output before"):
        start.output()
    with pytest.raises(td.ArgumentError, match="2 layers"):
        last.set_s([last.s()[0]])
    with pytest.raises(td.ArgumentError, match="whole of it"):
        nn.GRU(3, 4, bidirectional=True).initial_state()


def test_sentences_word_by_word_are_batched() -> None:
    stack = nn.Recurrent(nn.LSTMCell, 3, HIDDEN, 2, bidirectional=True, dtype="float64")
    words = td.param("words", init=RNG.normal(size=(9, 3)), dtype="float64")
    ids = [RNG.integers(0, 9, n).tolist() for n in (3, 5, 2, 7, 4, 6, 7, 5)]

    def run(whole: bool) -> list[Any]:
        sentences = [[td.rows(words, k) for k in own] for own in ids]
        if whole:
            found, _ = stack([td.stack(rows) for rows in sentences])
        else:
            found = [td.stack(stack.transduce(rows)) for rows in sentences]
        loss = td.stack([(y * y * y).sum() for y in found]).sum()
        grads = td.grad(loss, [words, *stack.parameters()])
        return [float(loss), *[g.numpy() for g in grads]]

    before = counts.rows
    batched = run(False)
    assert counts.rows >= before + 4 * sum(map(len, ids))
    with td.options(autobatch=False, engine="reference"):
        for other in (run(False), run(True)):
            for a, b in zip(batched, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_dropout_of_a_sequence_is_one_mask() -> None:
    x = np.ones((30, 2, 4), "f4")
    stack = nn.Recurrent(nn.RNNCell, 4, 4, variational=(0.5, 0.0))
    eye = np.eye(4, dtype="f4")
    zero = np.zeros(4, "f4")
    stack.load_state_dict(
        {
            "weight_ih_l0": eye, "weight_hh_l0": 0 * eye,
            "bias_ih_l0": zero, "bias_hh_l0": zero,
        }
    )  # fmt: skip
    with td.options(seed=4):
        for form in (x, [x[:, 0], x[:9, 1]]):
            y, _ = stack(form)
            for one in y if isinstance(y, list) else [y]:
                found = one.numpy()
                assert (found == found[:1]).all()
                assert np.isin((found * 1000).round(), [0, 964]).all()
        states = stack.initial_state().add_inputs(x[:5, 0])
        found = np.stack([s.output().numpy() for s in states])
        assert (found == found[:1]).all() and len(np.unique(found)) == 2
        again = stack(x)[0].numpy()
    assert (again != y[0].numpy()[0]).any()
    assert (stack.eval()(x)[0].numpy() > 0.7).all()


def test_dropout_between_layers_and_of_states() -> None:
    with td.options(seed=2):
        stack = nn.GRU(3, 4, 2, dropout=0.5, variational=(0.0, 0.5))
        x = RNG.normal(size=(3, 2, 3)).astype("f4")
        a, b = stack(x)[0].numpy(), stack(x)[0].numpy()
        assert (a != b).any()
        stack.eval()
        assert (stack(x)[0].numpy() == stack(x)[0].numpy()).all()
    for wrong in ({"dropout": 1.5}, {"variational": -0.1}):
        with pytest.raises(td.ArgumentError, match="from 0 to 1"):
            nn.GRU(3, 4, **wrong)


def test_layers_that_skip() -> None:
    stack = nn.Recurrent(nn.CoupledLSTMCell, 3, 4, 3, skip=True)
    assert [cell.input_size for cell in stack.cells] == [3, 7, 7]
    xs = [RNG.normal(size=(n, 3)).astype("f4") for n in (2, 4)]
    outputs, (h, _) = stack(xs)
    assert outputs[1].shape == (4, 12) and h.shape == (3, 2, 4)
    np.testing.assert_allclose(
        outputs[0].numpy(), stack(xs[0])[0].numpy(), rtol=1e-4, atol=1e-6
    )
    top = stack.initial_state().transduce(xs[0])
    np.testing.assert_allclose(
        top[1].numpy(), outputs[0].numpy()[1], rtol=1e-4, atol=1e-6
    )


def test_parameters_stand_in_the_stack_as_torch_names_them() -> None:
    stack = nn.LSTM(3, 4, 2, bidirectional=True)
    names = [name for name, _ in stack.named_parameters()]
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    tags = ("_l0", "_l0_reverse", "_l1", "_l1_reverse")
    assert names == [kind + tag for tag in tags for kind in kinds]
    assert [p.name for p in stack.parameters()] == names
    holder = nn.Sequential({"rnn": nn.GRU(2, 3)})
    assert next(holder.parameters()).name == "rnn.weight_ih_l0"
    shared = td.param(init=np.zeros((16, 3), "f4"))
    stack.weight_ih_l0 = shared
    assert stack.cells[0].weight_ih is shared
    wrapped = nn.WeightNorm(nn.GRU(3, 4), "weight_hh_l0")
    assert wrapped(td.ones((2, 1, 3)))[0].shape == (2, 1, 4)
    again = copy.deepcopy(stack)
    assert again.cells[0].weight_ih is again.weight_ih_l0 is not shared
    assert repr(stack) == "LSTM(3, 4, num_layers=2, bidirectional=True)"


def test_weights_with_noise_in_training() -> None:
    with td.options(seed=1):
        cell = nn.LSTMCell(3, 4, weight_noise=0.5)
        x = td.ones((2, 3))
        assert (cell(x)[0].numpy() != cell(x)[0].numpy()).any()
        cell.eval()
        assert (cell(x)[0].numpy() == cell(x)[0].numpy()).all()
        stack = nn.Recurrent(nn.SSRUCell, 3, 4, weight_noise=0.5)
        for run in (lambda: stack([x])[0][0], lambda: td.stack(stack.transduce(x))):
            stack.train()
            assert (run().numpy() != run().numpy()).any()
            stack.eval()
            assert (run().numpy() == run().numpy()).all()


def test_a_cell_without_input_needs_a_state() -> None:
    cell = nn.GRUCell(0, 4)
    assert cell(None, td.ones((2, 4))).shape == (2, 4)
    assert nn.GRUCell(0, 4, reset_after=False)(None, td.ones(4)).shape == (4,)
    for x, state in ((None, None), (td.ones(3), td.ones(4))):
        with pytest.raises(td.ArgumentError, match="without input"):
            cell(x, state)
    for wrong in (
        lambda: nn.DeepTransitionCell([]),
        lambda: nn.DeepTransitionCell([nn.GRUCell(3, 4), nn.GRUCell(3, 4)]),
        lambda: nn.CoupledLSTMCell(3, 4, peepholes="some"),
        lambda: nn.LSTMCell(3, 4, weight_noise=-1.0),
        lambda: nn.LSTMCell(3, 4, bias=False, forget_bias=1.0),
        lambda: nn.MLSTMCell(0, 4),
        lambda: nn.SparseLSTMCell(3, 4).set_sparsity(1.5),
        lambda: nn.Recurrent(nn.Linear, 3, 4),  # type: ignore[arg-type]
    ):
        with pytest.raises(td.ArgumentError):
            wrong()


def test_the_forget_gate_starts_open() -> None:
    with td.options(seed=1):
        plain = nn.LSTMCell(3, 4).bias_hh.numpy()
    with td.options(seed=1):
        lifted = nn.LSTMCell(3, 4, forget_bias=1.0).bias_hh.numpy()
    np.testing.assert_allclose(lifted - plain, np.repeat([0, 1, 0, 0], 4), atol=1e-6)


def test_the_same_bits_with_any_number_of_threads() -> None:
    stack = nn.LSTM(8, 16, bidirectional=True)
    xs = [RNG.normal(size=(n, 8)).astype("f4") for n in (9, 3, 14, 6, 1)]
    found = []
    for threads in (1, 2, 4):
        with td.options(threads=threads):
            outputs, last = stack(xs)
            loss = sum((y * y).sum() for y in outputs) + last[1].sum()
            grads = td.grad(loss, list(stack.parameters()))
            found.append([y.numpy().tobytes() for y in [*outputs, *last, *grads]])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_lengths_outside_of_the_steps_are_refused_in_a_trace_too(
    kind: str, batch_first: bool
) -> None:
    layer = getattr(nn, kind)(3, 4, batch_first=batch_first, bidirectional=True)
    x = np.ones((2, 5, 3) if batch_first else (5, 2, 3), "f4")
    traced = td.function(lambda x, lengths: layer(x, lengths=lengths)[0])
    assert traced(x, td.asarray([5, 0])).shape == (*x.shape[:2], 8)
    for lengths in ([6, 1], [-1, 3]):
        with pytest.raises(td.ArgumentError, match="is not from 0 to 5"):
            layer(x, lengths=lengths)
        for engine in ("native", "reference"):
            refused = pytest.raises(td.RunError, match="is not from 0 to 5")
            with td.options(engine=engine), refused:
                traced(x, td.asarray(lengths)).numpy()
