"""What every optimizer shares: groups, rates, clipping, freezing, cuts, state."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.autodiff.gradient import put_gradients
from treadle.optim import rules, schedules, transform


def pair() -> tuple[td.Variable, td.Variable]:
    return td.param("a", init=1.0), td.param("b", init=1.0)


def test_the_step_of_the_document() -> None:
    x = td.param("x", init=2.0)
    td.optim.SGD(lr=0.005).step(td.abs(6 - (x * 3.0 + td.sin(x))))
    assert x.numpy() == np.float32(1.9870807)


def test_groups_have_rates_and_settings_of_their_own() -> None:
    a, b = pair()
    groups = [{"params": [a], "lr": 0.5}, {"params": [b], "weight_decay": 1.0}]
    td.optim.SGD(groups, lr=0.1).step(a + b)
    assert float(a) == 0.5 and float(b) == pytest.approx(0.8)
    with pytest.raises(td.ArgumentError, match="no setting 'speed'"):
        td.optim.SGD([{"params": [a], "speed": 1}])
    with pytest.raises(td.ArgumentError, match="in two groups"):
        td.optim.SGD([{"params": [a]}, {"params": [a]}])


def test_a_group_may_take_the_rest() -> None:
    a, b = pair()
    groups: list[dict[str, Any]] = [{"params": [a], "lr": 0.0}, {"params": None}]
    td.optim.SGD(groups, lr=0.5).step(a + b)
    assert float(a) == 1.0 and float(b) == 0.5


def test_the_rate_is_data() -> None:
    a, _ = pair()
    optimizer = td.optim.SGD([a], lr=0.5)
    optimizer.step(a * 1.0)
    optimizer.lr = 0.25
    optimizer.step(a * 1.0)
    assert optimizer.lr == 0.25 and float(a) == 0.25
    rate = td.Variable(0.125)
    td.optim.SGD([a], lr=rate).step(a * 1.0)
    assert float(a) == 0.125
    with pytest.raises(td.ArgumentError, match="not negative"):
        optimizer.lr = -1.0


def test_a_schedule_is_not_frozen_in_a_traced_step() -> None:
    a = td.param("a", init=0.0)
    optimizer = td.optim.SGD([a], lr=schedules.exponential(1.0, 0.5))

    @td.function
    def train() -> td.Tensor:
        return optimizer.step(a * 1.0)

    seen = []
    for _ in range(3):
        train()
        seen.append(float(a))
    assert seen == [-1.0, -1.5, -1.75] and train.count == 1


def test_a_rate_set_later_reaches_a_traced_step() -> None:
    a = td.param("a", init=0.0)
    optimizer = td.optim.SGD([a], lr=1.0)

    @td.function
    def train() -> td.Tensor:
        return optimizer.step(a * 1.0)

    train()
    optimizer.lr = 0.5
    train()
    assert float(a) == -1.5 and train.count == 1


def test_clipping() -> None:
    a, b = pair()
    td.optim.SGD(lr=1.0, clip_norm=1.0).step(3.0 * a + 4.0 * b)
    assert float(a) == pytest.approx(0.4) and float(b) == pytest.approx(0.2)
    a, b = pair()
    td.optim.SGD(lr=1.0, clip_value=0.5).step(3.0 * a - 0.25 * b)
    assert float(a) == 0.5 and float(b) == 1.25


def test_frozen_parameters_have_no_gradient_and_no_update() -> None:
    a, b = pair()
    optimizer = td.optim.Adam(lr=0.5)
    optimizer.step(a * b)
    a.trainable = False
    before = float(a)
    optimizer.step(a * b)
    assert float(a) == before
    a.trainable = True
    optimizer.step(a * b)
    assert float(a) != before


def test_errors_say_what_is_missing() -> None:
    a, b = pair()
    with pytest.raises(td.GradientError, match="no trainable parameter"):
        td.optim.SGD(lr=0.1).step(td.constant(1.0) * 2.0)
    with pytest.raises(td.GradientError, match="of this optimizer"):
        td.optim.SGD([a], lr=0.1).step(b * 2.0)
    with pytest.raises(td.GradientError, match="holds a gradient"):
        td.optim.SGD([a], lr=0.1).step()
    with pytest.raises(td.GradientError, match="float scalar"):
        td.optim.SGD(lr=0.1).step(td.ones(3) * a)
    with pytest.raises(td.ArgumentError, match="changes parameters"):
        td.optim.SGD(["a"])


def test_a_parameter_behind_stop_gradient_stays() -> None:
    a, b = pair()
    td.optim.SGD(lr=0.5).step(td.stop_gradient(a) * b)
    assert float(a) == 1.0 and float(b) == 0.5


def test_accumulated_gradients_as_in_torch() -> None:
    a, b = pair()
    optimizer = td.optim.SGD(lr=0.25)
    (a * 1.0).backward()
    (a * 1.0).backward()
    optimizer.step()
    assert float(a) == 0.5 and float(b) == 1.0
    optimizer.zero_grad()
    assert a.grad is None


def test_two_networks_that_share_a_graph() -> None:
    g, d = pair()
    fake = g * 2.0
    d_loss, g_loss = fake * d, fake * fake
    td.optim.SGD([d], lr=0.5).step(d_loss)
    td.optim.SGD([g], lr=0.125).step(g_loss)
    assert float(d) == 0.0 and float(g) == 0.0


def test_pending_updates_run_with_the_step() -> None:
    a, _ = pair()
    seen = td.Variable(0.0)
    loss = a * 2.0
    seen.assign(seen * 0.5 + td.stop_gradient(loss))
    td.optim.SGD([a], lr=0.5).step(loss)
    assert seen.committed.stored == 2.0 and float(a) == 0.0


def test_a_failing_step_changes_nothing() -> None:
    a = td.param("a", init=[1.0, 2.0])
    far = td.asarray([7])
    optimizer = td.optim.Momentum([a], lr=0.1)
    with pytest.raises(td.TreadleError):
        optimizer.step(td.take(a, far, 0).sum())
    assert a.tolist() == [1.0, 2.0] and int(optimizer.count) == 0


MAKERS: list[Any] = [
    td.optim.SGD,
    td.optim.Momentum,
    td.optim.Nesterov,
    td.optim.CyclicalSGD,
    td.optim.Adagrad,
    td.optim.Adadelta,
    td.optim.RMSProp,
    td.optim.Adam,
    td.optim.AdamW,
    td.optim.AMSGrad,
]
by_name = pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)


@by_name
def test_sparse_rows_stay_sparse_and_right(make: Any) -> None:
    """Touched rows go as under the dense rule with a row each; others stay."""
    start = np.arange(8.0, dtype="f4").reshape(4, 2) + 1
    table = td.lookup("table", (4, 2), init=start)
    dense = td.param("dense", init=start[[1, 3]])
    ids = np.array([1, 3, 1])
    one, two = make([table]), make([dense])
    for _ in range(3):
        one.step((td.rows(table, ids) ** 2).sum())
        two.step((dense**2 * np.array([[2.0], [1.0]], "f4")).sum())
    np.testing.assert_allclose(table.numpy()[[1, 3]], dense.numpy(), rtol=1e-5)
    assert table.numpy()[[0, 2]].tobytes() == start[[0, 2]].tobytes()


@pytest.mark.parametrize("count", [5, 300, 5000])
def test_any_number_of_rows_is_updated_by_kernels(count: int) -> None:
    """An id that occurs often has the sum of its rows, whichever way it is found."""
    start = np.arange(80.0).reshape(40, 2)
    table, dense = td.lookup("table", (40, 2), init=start), td.param("d", init=start)
    ids = np.arange(count) * count % 37
    weights = np.cos(np.arange(2.0 * count)).reshape(count, 2).astype("f4")
    one, two = td.optim.Adagrad([table]), td.optim.Adagrad([dense])
    one.step((td.rows(table, ids) * weights).sum())
    assert not td.latest_program().fallbacks
    places = td.one_hot(ids, 40)
    two.step((places.T @ weights * dense).sum())
    np.testing.assert_allclose(table.numpy(), dense.numpy(), rtol=1e-4, atol=1e-5)


def test_all_rows_are_updated_where_that_is_asked_for() -> None:
    table = td.lookup("table", (3, 1), init=np.ones((3, 1)))
    optimizer = td.optim.Momentum([table], lr=0.5, sparse_updates=False)
    optimizer.step(td.rows(table, [0]).sum())
    optimizer.step(td.rows(table, [1]).sum())
    np.testing.assert_allclose(table.numpy().ravel(), [0.05, 0.5, 1.0], rtol=1e-5)


def _by_rows(ids: Any, how: str, table: td.Variable) -> td.Tensor:
    """The look-up of ids, or what gives the same without one."""
    if how == "dense":
        return td.one_hot(ids, 5) @ table
    if how == "rows":
        return td.stack([td.embedding(table, int(k)) for k in ids])
    return td.embedding(table, ids)


@by_name
@pytest.mark.parametrize("how", ["ids", "rows", "function"])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_an_embedding_trains_in_all_its_rows(make: Any, how: str, decay: float) -> None:
    start = np.arange(10.0).reshape(5, 2) - 4
    layers = [td.nn.Embedding.from_array(start) for _ in range(2)]
    assert not layers[0].weight.sparse
    optimizers = [make([layer.weight], weight_decay=decay) for layer in layers]

    def step(ids: Any, k: int, way: str) -> Any:
        y = _by_rows(ids, way, layers[k].weight)
        return optimizers[k].step((y * y).sum())

    traced = td.function(lambda ids: step(ids, 0, "ids"))
    for ids in ([0, 1, 1], [3, 0, 0], [1, 1, 1]):
        known = np.array(ids)
        traced(known) if how == "function" else step(known, 0, how)
        step(known, 1, "dense")
    first, second = (layer.weight.numpy() for layer in layers)
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


@by_name
def test_a_sparse_embedding_trains_as_a_lookup(make: Any) -> None:
    start = np.arange(10.0).reshape(5, 2) - 4
    layer = td.nn.Embedding(5, 2, weight_init=start, sparse=True)
    tables = [layer.weight, td.lookup("t", (5, 2), init=start), td.param(init=start)]
    more: list[dict[str, Any]] = [{}, {}, {"sparse_updates": True}]
    for table, settings in zip(tables, more, strict=True):
        optimizer = make([table], weight_decay=0.5, **settings)
        for ids in ([0, 1, 1], [3, 0, 0]):
            optimizer.step((td.rows(table, ids) ** 2).sum())
        assert (table.numpy()[[2, 4]] == start[[2, 4]]).all()
        np.testing.assert_array_equal(table.numpy(), tables[0].numpy())


@by_name
@pytest.mark.parametrize("sparse", [True, False])
def test_frozen_rows_stay_bit_for_bit(make: Any, sparse: bool) -> None:
    start = np.arange(6.0, dtype="f4").reshape(3, 2) + 1
    table = td.lookup("table", (3, 2), init=start)
    other = td.param("other", init=start)
    settings = {} if make is td.optim.CyclicalSGD else {"lr": 0.1}
    optimizer = make([table, other], weight_decay=0.5, clip_norm=100.0, **settings)
    optimizer.sparse_updates = sparse
    for p in (table, other):
        p.freeze_rows([0, -1])
    for _ in range(2):
        found = (td.rows(table, [0, 1, 2, 1]) ** 2).sum() + (other * other).sum()
        optimizer.step(found)
    for p in (table, other):
        kept = p.numpy()[[0, 2]]
        assert kept.tobytes() == start[[0, 2]].tobytes()
        assert (p.numpy()[1] != start[1]).all()
        p.freeze_rows(None)
    optimizer.step((td.rows(table, [0]) ** 2).sum() + (other * other).sum())
    assert (other.numpy() != start).all() and (table.numpy()[0] != start[0]).all()


def test_frozen_rows_do_not_count_in_the_norm() -> None:
    table = td.lookup("table", (2, 1), init=np.zeros((2, 1)))
    table.freeze_rows(np.array([True, False]))
    td.optim.SGD([table], lr=1.0, clip_norm=5.0).step(
        4.0 * td.rows(table, [0, 1]).sum()
    )
    assert table.numpy().ravel().tolist() == [0.0, -4.0]
    copied = copy.deepcopy(table)
    copied.freeze_rows([0, 1])
    td.optim.SGD(lr=1.0).step(td.rows(table, [1]).sum() + td.rows(copied, [1]).sum())
    assert table.numpy().ravel().tolist() == [0.0, -5.0]
    assert copied.numpy().ravel().tolist() == [0.0, -4.0]
    for ids, error in (([2], td.ShapeError), ([0.5], td.DTypeError)):
        with pytest.raises(error):
            table.freeze_rows(ids)
    with pytest.raises(td.ShapeError):
        td.param(init=1.0).freeze_rows([0])


def test_frozen_rows_in_a_traced_step() -> None:
    table = td.lookup("table", (3, 1), init=np.zeros((3, 1)))
    table.freeze_rows([0])
    optimizer = td.optim.SGD([table], lr=1.0)

    @td.function
    def train() -> td.Tensor:
        return optimizer.step(td.rows(table, [0, 1]).sum())

    train()
    table.freeze_rows([1])
    train()
    assert table.numpy().ravel().tolist() == [-1.0, -1.0, 0.0]


def test_a_step_of_some_parameters() -> None:
    a, b = pair()
    optimizer = td.optim.Adam([a, b], lr=0.5)
    optimizer.step(a * b)
    before = b.numpy().copy()
    optimizer.update_subset([a], a * b)
    assert b.numpy() == before and "b/moment1" in optimizer.state_dict()
    assert (
        optimizer.state_dict()["a/correction1"]
        > optimizer.state_dict()["b/correction1"]
    )
    (a * b).backward()
    old = a.numpy().copy()
    optimizer.update_subset(b)
    assert a.numpy() == old and b.numpy() != before and a.grad is not None
    with pytest.raises(td.GradientError, match="of this optimizer"):
        optimizer.update_subset([a], b * 2.0)
    with pytest.raises(td.ArgumentError, match="changes parameters"):
        optimizer.update_subset(["a"], a * b)


def test_weights_shrink_after_the_update() -> None:
    """p = (p - lr g) (1 - decay), as DyNet has it."""
    start = np.array([[4.0], [8.0]])
    for p in (td.param("p", init=start), td.lookup("table", (2, 1), init=start)):
        optimizer = td.optim.SGD([p], lr=1.0, decay_after=0.5)
        optimizer.step(td.rows(p, [0]).sum())
        assert p.numpy().ravel().tolist() == [1.5, 4.0]
        optimizer.step(td.rows(p, [1]).sum())
        assert p.numpy().ravel().tolist() == [0.75, 1.5]
    clipped = td.param("c", init=8.0)
    td.optim.SGD([clipped], lr=1.0, decay_after=0.25, clip_weights=2.0).step(clipped)
    assert float(clipped) == 2.0
    with pytest.raises(td.ArgumentError, match="from 0 to 1"):
        td.optim.SGD([clipped], decay_after=2.0)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_by_sparse_gradients_of_backward_makes_no_table(accumulate: int) -> None:
    table = td.lookup("table", (5, 2), init=np.ones((5, 2), np.float32))
    opt = td.optim.SGD([table], lr=1.0, accumulate=accumulate)
    for k in range(6):  # compiled, planned, by the plan
        td.rows(table, [1, 1, 3 + k % 2]).sum().backward()
        opt.step()
        assert table.grad is not None
        assert (table.grad.stored is None) == (accumulate == 1)
        wanted = [[0.0], [2.0], [0.0], [1.0 - k % 2], [0.0 + k % 2]]
        np.testing.assert_array_equal(table.grad.numpy(), np.repeat(wanted, 2, 1))
        opt.zero_grad()
    change = np.array([[0.0], [12.0], [0.0], [3.0], [3.0]]) / accumulate
    np.testing.assert_array_equal(table.numpy(), 1 - np.repeat(change, 2, 1))


def test_gradients_that_are_one_node_go_to_each_of_their_parameters() -> None:
    a, b, c = (td.param(name, init=0.0) for name in "abc")
    opt = td.optim.SGD([a, b, c], lr=1.0)
    for which in [(0, 0, 1)] * 3 + [(0, 1, 1)] * 3:
        gradients = td.constant(1.0), td.constant(2.0)
        put_gradients([a, b, c], [gradients[k] for k in which])
        opt.step()
        opt.zero_grad()
    assert [float(x) for x in (a, b, c)] == [-6.0, -9.0, -12.0]


def test_sparse_norm_counts_a_row_once() -> None:
    table = td.lookup("table", (3, 1), init=np.zeros((3, 1)))
    td.optim.SGD([table], lr=1.0, clip_norm=1.0).step(
        td.rows(table, [1, 1, 1, 2, 2, 2, 2]).sum()
    )
    np.testing.assert_allclose(table.numpy().ravel(), [0.0, -0.6, -0.8], rtol=1e-6)


def test_lazy_rows_keep_their_moments() -> None:
    table = td.lookup("table", (2, 1), init=np.ones((2, 1)))
    optimizer = td.optim.Adam([table], lr=0.1)
    optimizer.step(td.rows(table, [0]).sum())
    after = table.numpy()[0].copy()
    optimizer.step(td.rows(table, [1]).sum())
    assert table.numpy()[0] == after


def test_state_waits_for_parameters_that_are_not_known_yet() -> None:
    a, b = pair()
    optimizer = td.optim.Adam(lr=0.1)
    optimizer.step(a * b)
    state = optimizer.state_dict()
    again = td.optim.Adam(lr=0.5)
    again.load_state_dict(state)
    assert sorted(again.state_dict()) == sorted(state) and again.lr == 0.1
    again.step(a * b)
    assert int(again.count) == 2
    bad = {**state, "a/moment1": np.zeros(3)}
    with pytest.raises(td.ModelFileError, match=r"misshapen: a/moment1 is \(3,\)"):
        optimizer.load_state_dict(bad)
    with pytest.raises(td.ModelFileError, match="missing: step"):
        optimizer.load_state_dict({})


def test_names_that_occur_twice_have_states_of_their_own() -> None:
    p, q = td.param("w", init=1.0), td.param("w", init=2.0)
    optimizer = td.optim.Momentum([p, q], lr=0.1)
    optimizer.step(p * 1.0 + q * 2.0)
    assert {"w/momentum", "w.1/momentum"} <= set(optimizer.state_dict())


def test_rules_compose() -> None:
    a, _ = pair()
    rule = transform.chain(
        rules.add_decayed_weights(1.0), rules.trace(0.5), rules.scale(2.0)
    )
    optimizer = td.optim.Optimizer([a], lr=0.125, rule=rule)
    optimizer.step(a * 1.0)
    assert float(a) == 0.5


def test_memory_stays_flat_for_any_optimizer() -> None:
    w = td.param("w", shape=(4,), init=1.0)
    optimizer = td.optim.Adam(lr=1e-4, clip_norm=1.0)
    losses, counts = [], []
    for step in range(400):
        loss = (w * w).sum()
        if step % 3 == 0:
            float(loss)
        optimizer.step(loss)
        losses.append(loss)
        if step in (150, 399):
            gc.collect()
            every = map(type, gc.get_objects())  # a list of nodes would hold some
            counts.append(sum(x is td.Tensor for x in every) - len(losses))
    assert counts[1] <= counts[0] + 10
    assert not losses[0].inputs and losses[0].stored is not None


def test_named_parameters_keep_their_axes() -> None:
    w = td.param("w", shape=(2,), init=1.0, axes=("f",))
    x = td.asarray([1.0, -2.0], axes=("f",))
    td.optim.Adam(lr=0.5, clip_norm=1.0).step((w * x).sum())
    assert w.axes == ("f",)
    np.testing.assert_allclose(w.numpy(), [0.5, 1.5], rtol=1e-5)


def test_a_pending_assignment_comes_first() -> None:
    a, _ = pair()
    a.assign(5.0)
    assert td.optim.SGD([a], lr=1.0).step(a * 2.0) == 10.0
    assert float(a) == 3.0


def test_eager_nodes_are_stepped_alike() -> None:
    found = []
    for eager in (False, True):
        a, b = pair()
        with td.options(eager=eager):
            optimizer = td.optim.Adam(lr=0.1)
            found.append([float(optimizer.step(a * b + a)) for _ in range(3)])
    assert found[0] == found[1]


@pytest.mark.parametrize("how", ["parameters", "groups", "named"])
def test_an_optimizer_of_what_can_be_gone_through_once_copies(how: str) -> None:
    """`model.parameters()` gives them once; copies train theirs."""
    net = td.nn.Linear(3, 2)
    given: Any = {
        "parameters": {"params": net.parameters()},
        "groups": {"params": iter([{"params": net.parameters(), "lr": 0.25}])},
        "named": {"params": [{"params": (p for p in net.parameters())}]},
    }[how]
    optimizer = td.optim.SGD(**given, lr=0.5, momentum=0.5)

    def step(net: Any, optimizer: Any) -> Any:
        optimizer.step((net(np.ones((2, 3), np.float32)) ** 2).sum())
        return net.weight.numpy()

    step(net, optimizer)
    copies = copy.deepcopy((net, optimizer)), pickle.dumps((net, optimizer))
    after = step(net, optimizer)
    for pair in (copies[0], pickle.loads(copies[1])):
        np.testing.assert_array_equal(step(*pair), after)
