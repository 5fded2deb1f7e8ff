"""DataParallel: the same bits on all numbers of ranks; what one process computes."""

from __future__ import annotations

import functools
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.distributed.jobs import NEEDS_MPI, ranks
from tests.distributed.workloads import WORKLOADS, Images, digest, trained
from treadle.autodiff.gradient import gradings
from treadle.base.options import current
from treadle.core import native
from treadle.distributed import fixed
from treadle.distributed.buffers import Statistics
from treadle.distributed.filling import Filling
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Buffers, row_numbers, shards_of
from treadle.distributed.sums import ShardSums
from treadle.runtime.again import Plans
from treadle.runtime.steps import RunPlan
from treadle.runtime.store import store

UPDATES = 3
BITS = """
from treadle.distributed import layout
from tests.distributed.workloads import WORKLOADS, digest, trained
layout.BUCKET = int(sys.argv[1])
tell({name: digest(*trained(name, 3, 4)) for name in WORKLOADS})
"""


@functools.cache
def bits_of_one_rank() -> dict[str, str]:
    return {name: digest(*trained(name, UPDATES, 4)) for name in WORKLOADS}


@NEEDS_MPI
@pytest.mark.parametrize("count, bucket", [(2, 1 << 22), (2, 256), (4, 256)])
def test_weights_and_states_are_those_of_one_rank_to_the_bit(
    count: int, bucket: int
) -> None:
    assert ranks(count, BITS, str(bucket)) == [bits_of_one_rank()] * count


SHARDED = """
from treadle.distributed import layout
from tests.distributed.workloads import WORKLOADS, digest, trained
layout.BUCKET = int(sys.argv[1])
found, sizes = {}, {}
for name in WORKLOADS:
    model, opt = trained(name, 3, 4, sharded=True)
    found[name] = digest(model, opt)
    states = opt.optimizer._own_states()
    sizes[name] = sum(v.type.size for v in states)
model, half = trained("words", 1, 4, sharded=True)
state, weights = half.state_dict(), model.state_dict()
other, opt = trained("words", 0, 4, sharded=True)
other.load_state_dict(weights)
opt.load_state_dict(state)
share = 4 // size()
for k in range(8):
    if (k % 4) // share == rank():
        opt.step(other.loss(4 + k))
found["resumed"] = digest(other, opt)
tell([found, sizes])
"""


@NEEDS_MPI
@pytest.mark.parametrize("count, bucket", [(2, 1 << 22), (4, 256)])
def test_sharded_states_come_to_the_bits_of_one_rank(count: int, bucket: int) -> None:
    ((alone, whole),) = ranks(1, SHARDED, str(bucket))
    every = ranks(count, SHARDED, str(bucket))
    wanted = {**bits_of_one_rank(), "resumed": bits_of_one_rank()["words"]}
    assert alone == wanted
    for found, sizes in every:
        assert found == wanted
        assert sizes["images"] < whole["images"]
    # Each has its part; those of sparse parameters all have.
    assert sum(s["images"] for _, s in every) < 1.1 * whole["images"]


COUNTED = """
from tests.distributed.workloads import digest, trained
makes = [
    lambda: td.optim.SGD(lr=0.01, momentum=0.9, dampening=0.5, maximize=True),
    lambda: td.optim.Adagrad(lr=0.01, lr_decay=0.5, weight_decay=0.1),
]
tell([digest(*trained("words", 4, 4, make, sharded=size() > 1)) for make in makes])
"""


@NEEDS_MPI
def test_states_that_count_steps_are_those_of_one_rank_where_sharded() -> None:
    assert ranks(2, COUNTED) == ranks(1, COUNTED) * 2


BESIDE = """
from treadle.distributed import derived, exchange, layout
layout.BUCKET = 256
sent, send, running = [], exchange.GradientExchange._send, []
def note(self, bucket):
    sent.append((self.sent, len(p.events), bool(running)))
    send(self, bucket)
def noted(run):
    def noting(self, *given):
        running.append(1)
        try:
            return run(self, *given)
        finally:
            running.clear()
    return noting
exchange.GradientExchange._send = note
derived.LossGradients.arrays = noted(derived.LossGradients.arrays)
net = td.nn.Sequential(*[td.nn.Linear(300, 300) for _ in range(4)])
opt = td.distributed.DataParallel(td.optim.SGD(lr=0.1), net)
for _ in range(3):  # compiled, planned, by the plan
    sent.clear()
    with td.profile() as p:
        opt.step(net(td.ones((30, 300))).sum())
spans = [e for e in p.events if e.kind == "exchange"]
watched, beside = sent[:], []
for _ in range(4):  # runs that nobody watches follow plans
    sent.clear()
    opt.step(net(td.ones((30, 300))).sum())
    beside.append(sum(inside for *_, inside in sent) / len(sent))
thread = {e.thread for e in spans} == {"treadle-exchange"}
tell([watched, len(p.events), thread, beside, opt._gradients.plans.hits])
"""


@NEEDS_MPI
def test_gradients_are_sent_while_others_are_made() -> None:
    for sent, events, thread, beside, hits in ranks(2, BESIDE, fresh=True):
        assert beside == [1.0] * 4 and hits >= 2
        numbers = [number for number, *_ in sent]
        assert numbers == sorted(numbers) and len(numbers) > 3
        # Kernels ran after the first bucket was sent.
        assert sent[0][1] < sent[len(sent) // 2][1] < events
        assert thread


@NEEDS_MPI
def test_a_run_that_fails_half_way_fails_all_later_updates() -> None:
    program = """
    from treadle.distributed import layout
    layout.BUCKET = 64
    world().timeout = 3
    net = td.nn.Sequential(*[td.nn.Linear(300, 300) for _ in range(3)])
    opt = td.distributed.DataParallel(td.optim.SGD(lr=0.1), net)
    def bad(g, y, x):
        raise ValueError("no gradient here")
    x = td.ones((30, 300))
    broken = td.py_function(lambda x: x, host_gradient=bad)
    y = net[0](x) if rank() == 0 else broken(net[0](x))
    said = []
    for _ in range(2):
        try:
            opt.step(net[2](net[1](y)).sum())
        except td.TreadleError as error:
            said.append(str(error))
    world().timeout = 60  # rank 1 is at the end before rank 0 has given up
    tell(said)
    """
    first, second = ranks(2, program, fresh=True)
    assert len(first) == len(second) == 2
    assert "has waited 3 s" in first[0]
    assert all("no gradient here" in line for line in second)


def summed(weights: Any, gradients: list[Any], **settings: Any) -> np.ndarray:
    """Weights after each of `gradients`, one a shard, has been stepped by."""
    w = td.param("w", init=weights)
    opt = td.distributed.DataParallel(td.optim.Adam([w], lr=0.1), **settings)
    for g in gradients:
        opt.step((w * g).sum())
    return w.numpy()


@pytest.mark.parametrize("name", WORKLOADS)
def test_shards_that_look_alike_follow_plans_to_the_same_bits(name: str) -> None:
    def bits(plans: bool) -> str:
        td.set_options(seed=5)
        model = WORKLOADS[name]()
        inner = td.optim.Adam(lr=0.01, clip_norm=1.0)
        opt = td.distributed.DataParallel(inner, model, shards=2)
        for k in range(18):
            if not plans:
                opt._gradients.plans = inner._plans = Plans()
            opt.step(model.loss(k % 3))
        hits = opt._gradients.plans.hits + inner._plans.hits
        assert hits >= (9 if plans else 0)
        return digest(model, opt)

    assert bits(True) == bits(False)


def test_the_update_of_one_rank_is_one_plan_of_one_call_of_the_core() -> None:
    td.set_options(seed=5)
    net = td.nn.Sequential(
        td.nn.Linear(6, 8), td.nn.BatchNorm1d(8), td.nn.Tanh(), td.nn.Linear(8, 2)
    )
    inner, calls = td.optim.Adam(lr=0.01), td.Variable(0, dtype=td.int64)
    opt = td.distributed.DataParallel(inner, net, shards=4)
    draws = np.random.default_rng(0)

    def step(rows: int) -> None:
        calls.assign(calls + 1)  # what nobody restores
        x = draws.normal(size=(rows, 6)).astype(np.float32)
        opt.step(td.square(net(x)).mean())

    for _ in range(12):
        step(5)
    hits = opt._gradients.plans.hits, inner._plans.hits
    for _ in range(8):
        step(5)
    assert (opt._gradients.plans.hits, inner._plans.hits) == (hits[0] + 6, hits[1] + 2)
    assert int(calls) == 20 and int(net[1].num_batches_tracked) == 5
    tables = opt._gradients.plans._table, inner._plans._table
    newest = [list(x.values())[-n:] for x, n in zip(tables, (2, 1), strict=True)]
    plans = [x for each in newest for x in each if isinstance(x, RunPlan)]
    # The gradients, their sums, and the update by the last shard's.
    assert [len(x.parts) for x in plans] == [2, 2, 3]
    assert native is None or all(x.quick is not None for x in plans)
    for rows in range(6, 40):  # sizes never seen
        step(rows)
    assert opt._gradients.plans.hits + inner._plans.hits >= sum(hits) + 8 + 12


def test_an_update_of_rows_is_a_plan_of_the_core() -> None:
    td.set_options(seed=5)
    net = td.nn.Sequential(td.nn.Embedding(50, 4, sparse=True), td.nn.Linear(4, 2))
    inner = td.optim.Adam(lr=0.01, clip_norm=0.1)
    opt = td.distributed.DataParallel(inner, net, shards=4)
    draws = np.random.default_rng(0)

    def step() -> None:
        opt.step(td.square(net(draws.integers(0, 50, 7))).mean())

    for _ in range(12):
        step()
    hits = opt._gradients.plans.hits, inner._plans.hits
    for _ in range(8):
        step()
    assert (opt._gradients.plans.hits, inner._plans.hits) == (hits[0] + 6, hits[1] + 2)
    tables = opt._gradients.plans._table, inner._plans._table
    plans = [list(x.values())[-n:] for x, n in zip(tables, (2, 1), strict=True)]
    of_shards, of_update = plans
    for plan in (*of_shards, *of_update):
        assert isinstance(plan, RunPlan) and (native is None or plan.quick is not None)
    # The rows of a shard, which the update reads.
    assert [len(x.outputs) for x in (*of_shards, *of_update)] == [2, 2, 0]


def test_a_loss_that_was_read_before_its_step_is_a_plan_too() -> None:
    w = td.param("w", init=[1.0, 2.0])
    opt = td.distributed.DataParallel(td.optim.SGD([w], lr=0.25), shards=2)
    for _ in range(8):
        loss = (w * w).sum()
        before = float(loss)
        assert opt.step(loss) == before
    assert opt._gradients.plans.hits + opt.optimizer._plans.hits >= 4
    np.testing.assert_array_equal(w.numpy(), np.array([1.0, 2.0]) / 16)


def test_a_gradient_from_backward_adds_to_that_of_a_known_loss() -> None:
    w = td.param("w", init=1.0)
    opt = td.distributed.DataParallel(td.optim.SGD([w], lr=1.0))
    for k in range(6):
        if k == 5:
            (w * 10.0).backward()
        opt.step(w * 2.0)
    assert float(w) == 1.0 - 6 * 2.0 - 10.0
    assert w.grad is None


def test_a_parameter_that_is_frozen_between_two_shards_has_no_gradient() -> None:
    v, w = td.param("v", init=1.0), td.param("w", init=1.0)
    opt = td.distributed.DataParallel(td.optim.SGD([v, w], lr=1.0))
    for _ in range(4):
        opt.step(v + 2.0 * w)
    w.trainable = False
    opt.step(v + 2.0 * w)
    w.trainable = True
    opt.step(v + 2.0 * w)
    assert (float(v), float(w)) == (1.0 - 6.0, 1.0 - 10.0)


def test_two_shards_are_two_steps_that_are_accumulated() -> None:
    first = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    gradients = list(np.random.default_rng(1).normal(size=(4, 7, 3)).astype(np.float32))
    w = td.param("w", init=first)
    opt = td.optim.Adam([w], lr=0.1, accumulate=2)
    for g in gradients:
        opt.step((w * g).sum())
    assert summed(first, gradients, shards=2).tobytes() == w.numpy().tobytes()


def test_one_shard_is_the_optimizer_itself() -> None:
    for name in WORKLOADS:
        other, _ = trained(name, 1, 1, lambda: td.optim.SGD(lr=0.1))
        td.set_options(seed=5)
        model = WORKLOADS[name]()
        current().scope.count = 1 << 24  # as of the first shard
        td.optim.SGD(lr=0.1).step(model.loss(0))
        for key, a in model.state_dict().items():
            b = other.state_dict()[key]
            np.testing.assert_allclose(a, b, 1e-5, 1e-7, err_msg=f"{name} {key}")


def test_backward_and_step_without_a_loss() -> None:
    w = td.param("w", init=[1.0, 2.0])
    opt = td.distributed.DataParallel(td.optim.SGD([w], lr=0.5), shards=2)
    for factor in (1.0, 3.0):
        (w * factor).sum().backward()
        assert opt.step() is None
    assert w.tolist() == [0.0, 1.0]
    assert w.grad is None


def test_gradients_that_an_update_gives_are_taken_back() -> None:
    w = td.param("w", init=[1.0, 1.0])
    opt = td.distributed.DataParallel(td.optim.SGD([w], lr=1.0), shards=2)
    before = gradings()
    opt.step((w * 2.0).sum())
    opt.step((w * 2.0).sum())  # in one run
    opt.step((w * 2.0).sum())
    (w * 2.0).sum().backward()
    opt.step()  # by arrays
    assert gradings() == before + 1  # that of backward: none is looked for in vain
    assert w.grad is None
    assert w.tolist() == [-3.0, -3.0]


def test_what_no_shard_uses_rests_and_what_one_uses_counts_as_zero_elsewhere() -> None:
    used, rare, never = (td.param(name, init=1.0) for name in ("used", "rare", "never"))
    inner = td.optim.Momentum([used, rare, never], lr=1.0)
    opt = td.distributed.DataParallel(inner, shards=2)
    for _ in range(2):
        opt.step(used * 1.0)
        opt.step(used * 1.0 + rare * 4.0)
    assert float(rare) == pytest.approx(1.0 - 2.0 - (2.0 + 0.9 * 2.0))
    assert float(never) == 1.0
    assert not any(key.startswith("never/") for key in opt.state_dict())


def test_a_tied_table_has_rows_and_a_dense_gradient() -> None:
    def table(shards: int) -> np.ndarray:
        t = td.lookup("table", (5, 2), init=np.ones((5, 2), np.float32))
        opt = td.distributed.DataParallel(td.optim.SGD([t], lr=1.0), shards=shards)
        for _ in range(shards // 2):
            opt.step(td.rows(t, [1, 1, 3]).sum())
            opt.step((t * 2.0).sum() + td.rows(t, [0]).sum())
        return t.numpy()

    wanted = 1 - np.array([[1.5], [2.0], [1.0], [1.5], [1.0]]).repeat(2, 1)
    np.testing.assert_array_equal(table(2), wanted)
    np.testing.assert_array_equal(table(4), wanted)


def test_statistics_are_the_mean_over_the_shards() -> None:
    td.set_options(seed=3)
    model = Images()
    norm = model.layers[1]
    opt = td.distributed.DataParallel(td.optim.SGD(lr=0.0), model, shards=4)
    for k in range(4):
        opt.step(model.loss(k))
    td.set_options(seed=3)
    means = []
    for k in range(4):
        fresh = Images()
        fresh.layers[0].load_state_dict(model.layers[0].state_dict())
        float(fresh.loss(k))
        means.append(fresh.layers[1].running_mean.numpy())
    np.testing.assert_allclose(norm.running_mean.numpy(), np.mean(means, 0), rtol=1e-6)
    assert int(norm.num_batches_tracked) == 1


@NEEDS_MPI
def test_ranks_with_unequal_numbers_of_batches_end_together() -> None:
    program = """
    x = td.param("x", init=0.0)
    opt = td.distributed.DataParallel(td.optim.SGD([x], lr=1.0))
    for k in range(1 if rank() == 0 else 3):
        opt.step(x * (k + 1.0))
    opt.join()
    tell([float(x), opt.updates])
    """
    assert ranks(2, program) == [[-6.0, 3]] * 2  # 1, then 2 and 3 of one rank alone


def test_a_last_update_of_some_shards_is_their_mean() -> None:
    x = td.param("x", init=0.0)
    opt = td.distributed.DataParallel(td.optim.SGD([x], lr=1.0), shards=4)
    for k in range(6):
        opt.step(x * (k + 1.0))
    opt.join()
    assert float(x) == -(2.5 + 5.5)
    assert opt.updates == 2
    opt.join()
    assert opt.updates == 2


def test_a_state_goes_on_and_is_told_between_updates_only() -> None:
    model, opt = trained("images", 4, 4)
    half, before = trained("images", 2, 4)
    other, after = trained("images", 0, 4)
    other.load_state_dict(half.state_dict())
    after.load_state_dict(before.state_dict())
    for k in range(8, 16):
        after.step(other.loss(k))
    assert digest(other, after) == digest(model, opt)
    after.step(other.loss(16))
    with pytest.raises(td.ArgumentError, match="1 of this rank's 4 shards wait"):
        after.state_dict()


def test_gradients_that_are_not_finite_leave_an_update_out() -> None:
    x = td.param("x", init=1.0)
    inner = td.optim.SGD([x], lr=1.0, on_nan="skip")
    opt = td.distributed.DataParallel(inner, shards=2)
    opt.step(x * np.inf)
    opt.step(x * 1.0)
    assert (float(x), inner.skipped) == (1.0, 1)
    opt.step(x * 1.0)
    opt.step(x * 1.0)
    assert float(x) == 0.0


def test_a_scaled_loss_is_scaled_back() -> None:
    first = np.ones((3,), np.float32)
    gradients = [np.full(3, 2.0, np.float32)] * 2
    w = td.param("w", init=first)
    inner = td.optim.SGD([w], lr=0.25, loss_scale=8.0)
    opt = td.distributed.DataParallel(inner, shards=2)
    for g in gradients:
        opt.step((w * g).sum())
    assert w.tolist() == [0.5] * 3


@pytest.mark.parametrize("shards, size", [(3, 2), (6, 2), (12, 2), (0, 1), (2, 4)])
def test_shards_that_ranks_cannot_share(shards: int, size: int) -> None:
    with pytest.raises(td.ArgumentError, match="not to be had"):
        shards_of(shards, size)


def test_what_is_not_known_is_refused() -> None:
    w, other = td.param("w", init=1.0), td.param("other", init=1.0)
    with pytest.raises(td.ArgumentError, match="lists no parameters"):
        td.distributed.DataParallel(td.optim.SGD())
    model = td.nn.Linear(1, 1)
    opt = td.distributed.DataParallel(td.optim.SGD(), model)
    with pytest.raises(td.GradientError, match="trains 'other'"):
        opt.step(model(td.ones((1, 1))).sum() + other)
    del w


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(0, 1000))
def test_shards_add_up_as_the_tree_says(shards: int, seed: int) -> None:
    p, q = td.param("p", (3,)), td.lookup("q", (6, 2))
    layout = GradientLayout([("p", p), ("q", q)])
    numbers = [k for k in (layout.number(p), layout.number(q)) if k is not None]
    draws = np.random.default_rng(seed)
    mean, count = td.Variable(np.zeros(2)), td.Variable(np.zeros((), np.int64))
    sums = ShardSums(layout, Statistics([mean, count]), shards)
    dense, rows, means, counts = [], [], [], []
    for k in range(shards):
        dense.append(draws.normal(size=3).astype(np.float32))
        ids = np.flatnonzero(draws.random(6) < 0.5)
        values = draws.normal(size=(len(ids), 2)).astype(np.float32)
        rows.append(dict(zip(row_numbers(numbers[1]), (ids, values), strict=True)))
        means.append(draws.normal(size=2))
        counts.append(draws.integers(0, 9))
        store([(mean, means[-1]), (count, counts[-1])])
        if k < shards - 1:
            target = sums.state.target
            store(sums.changes(target, {numbers[0]: td.constant(dense[-1])}))
            sums.add(frozenset(numbers), rows[-1])
            assert mean.tolist() == [0.0, 0.0] and int(count) == 0
    assert sums.count == shards - 1
    wanted = fixed.tree(dense, np.add)
    total = np.empty_like(dense[-1])
    sums.complete(numbers[0], dense[-1], total)
    assert total.tobytes() == wanted.tobytes()
    (graph,) = sums.totals(
        sums.state.rest, {numbers[0]: td.constant(dense[-1])}
    ).values()
    assert graph.numpy().tobytes() == wanted.tobytes()
    every = sums.rows(rows[-1])
    for n in row_numbers(numbers[1]):
        assert every[n].tolist() == [v for x in rows for v in x[n].tolist()]
    made = sums.buffers(Buffers(means[-1], np.array([counts[-1]])))
    assert made.floats.tobytes() == fixed.tree(means, np.add).tobytes()
    assert made.integers.tolist() == [max(counts)]
    mean_sum, greatest = sums.statistics_of(sums.state.rest)
    assert mean_sum.numpy().tobytes() == made.floats.tobytes()
    assert int(greatest) == max(counts)


CONTROLLED = """
from tests.distributed.workloads import WORKLOADS, digest, trained
Opt = td.optim
makes = {
    "skip": lambda: Opt.Adam(lr=0.01, clip_norm=1.0, on_nan="skip"),
    "scale": lambda: Opt.Adam(lr=0.01, loss_scale=Opt.LossScale(64.0, interval=2)),
    "norms": lambda: Opt.SGD(lr=0.1, momentum=0.9,
                             norms=Opt.NormAverage(window=2, deviations=0.1)),
    "accumulate": lambda: Opt.Adam(lr=0.01, accumulate=2, clip_norm=0.5),
}
found = {}
for kind, make in makes.items():
    for name in ("images", "trees"):
        model, opt = trained(name, 3, 4, make, sharded=sys.argv[1] == "1")
        if kind == "accumulate":
            assert opt.flush() and not opt.flush()
        found[f"{kind} {name}"] = digest(model, opt)
x, y = td.param("x", init=np.ones(5)), td.param("y", init=np.ones(3))
inner = Opt.SGD([x, y], lr=0.5, on_nan="scale down", loss_scale=Opt.LossScale(8.0))
opt = td.distributed.DataParallel(inner, shards=4, sharded=sys.argv[1] == "1")
first, count = rank() * 4 // size(), 4 // size()
for update in range(3):
    for shard in range(first, first + count):
        bad = np.inf if (update, shard) == (1, 3) else 1.0
        opt.step((x * bad).sum() + (y * 2.0).sum())
found["values"] = [x.tolist(), y.tolist(), inner.skipped, inner.loss_scale.value]
z = td.param("z", init=np.ones(2))
one = Opt.SGD([z], lr=0.5, on_nan="raise")  # a rank has no parameter of its own
opt = td.distributed.DataParallel(one, shards=4, sharded=sys.argv[1] == "1")
try:
    for _ in range(count):
        opt.step((z * np.inf).sum())
except td.RunError as error:
    found["raised"] = [error.message, z.tolist()]
tell(found)
"""


@NEEDS_MPI
@pytest.mark.parametrize("count", [2, 4])
def test_sharded_states_under_all_controls(count: int) -> None:
    (alone,) = ranks(1, CONTROLLED, "0")
    assert alone["values"] == [[0.0] * 5, [-1.0] * 3, 1, 4.0]
    assert "not finite" in alone["raised"][0] and alone["raised"][1] == [1.0, 1.0]
    assert ranks(count, CONTROLLED, "1") == [alone] * count


class Mixed(td.nn.Module):
    """Rows, and layers of two dtypes, of which not every loss uses all."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = td.nn.Embedding(40, width, sparse=True)
        self.narrow = td.nn.Linear(width, 31)
        self.wide = td.nn.Linear(width, 19, dtype=td.float64)

    def loss(self, number: int) -> Any:
        draws = np.random.default_rng(number)
        h = self.embed(draws.integers(0, 40, 3 + number % 50))
        total = td.square(self.narrow(h)).mean()
        if number % 3:
            more = td.square(self.wide(h.astype(td.float64))).mean()
            total = total + more.astype(td.float32)
        return total


@pytest.mark.parametrize(
    "settings",
    [{"clip_norm": 0.1}, {"clip_norm": 0.1, "accumulate": 2},
     {"clip_norm": 0.1, "on_nan": "skip", "loss_scale": 8.0},
     {"norms": (2, 0.1), "clip_value": 0.01}],
)  # fmt: skip
def test_the_norm_of_sharded_states_is_rounded_as_that_of_whole_ones(
    settings: dict[str, Any],
) -> None:
    def bits(sharded: bool) -> str:
        td.set_options(seed=4)
        model, more = Mixed(29), dict(settings)
        if "norms" in more:
            window, deviations = more["norms"]
            more["norms"] = td.optim.NormAverage(window=window, deviations=deviations)
        inner = td.optim.Adam(lr=0.01, **more)
        opt = td.distributed.DataParallel(inner, model, shards=2, sharded=sharded)
        for number in range(12):
            opt.step(model.loss(number))
        return digest(model, opt)

    assert bits(True) == bits(False)


DIFFER = {
    "seed": ("td.set_options(seed=rank())", "seed is 1, there 0"),
    "shape": ("x = td.param('x', init=np.ones(2 + rank()))", "x: float64[3], there"),
    "rate": ("inner = td.optim.SGD([x], lr=1.0 + rank())", "lr=2.0"),
    "setting": ("inner = td.optim.SGD([x], momentum=rank() / 2)", "momentum=0.5"),
    "schedule": ("inner = td.optim.SGD([x], lr=lambda i: 1.0 + rank())", "lr=2.0"),
    "state": ("update = rank()", "rank 1 is at update 1, rank 0 at update 0"),
}


@NEEDS_MPI
@pytest.mark.parametrize("what", DIFFER)
def test_ranks_that_differ_are_told_in_what(what: str) -> None:
    change, message = DIFFER[what]
    program = f"""
    x, update = td.param("x", init=np.ones(2)), 0
    inner = td.optim.SGD([x], lr=1.0)
    {change}
    if "{what}" == "shape":
        inner = td.optim.SGD([x], lr=1.0)
    try:
        opt = td.distributed.DataParallel(inner)
        opt.updates = update
        opt.step(x.sum())
    except td.distributed.DistributedError as error:
        tell(str(error))
    """
    lines = ranks(2, program, fresh=what == "state")  # found in the midst of a step
    assert all("rank 1" in line and message in line for line in lines), lines


CHANGES = {
    "": "",
    "net[0].weight.trainable = False": "rank 1 differs from rank 0: 0.weight is not",
    "opt.lr = 0.5": "rank 1 has another learning rate or another seed than rank 0",
    "td.set_options(seed=7)": "rank 1 has another learning rate or another seed",
    "net[1].bias.assign([5.0])": "rank 1 differs from rank 0: the value of 1.bias is",
}
CHANGED = """
net = td.nn.Sequential(td.nn.Linear(4, 4), td.nn.Linear(4, 1))
rate = lambda count: 0.1 / (count + 1)  # each rank has another function
opt = td.distributed.DataParallel(td.optim.SGD(lr=0.1 if "lr" in CHANGE else rate), net)
x, before = td.ones((2, 4)) * (1.0 + rank()), net[0].weight.numpy().copy()
def train():
    for _ in range(2):
        opt.step(td.square(net(x)).mean())
train()
net[0].weight.trainable = False
train()
net[0].weight.trainable = True
assert (net[0].weight.numpy() != before).any()
if rank() == 1:
    exec(CHANGE)
try:
    train()
    opt.join()
    tell("")
except td.distributed.DistributedError as error:
    tell(str(error))
"""


@NEEDS_MPI
@pytest.mark.parametrize("change", CHANGES)
def test_what_one_rank_changes_alone_is_told(change: str) -> None:
    lines = ranks(2, CHANGED.replace("CHANGE", repr(change)), fresh=bool(change))
    message = CHANGES[change]
    assert all(message in line and bool(line) == bool(message) for line in lines), lines


@NEEDS_MPI
def test_all_ranks_begin_with_the_parameters_of_rank_0() -> None:
    program = """
    x = td.param("x", init=np.full(3, 1.0 + rank()))
    opt = td.distributed.DataParallel(td.optim.SGD([x], lr=1.0))
    tell(x.tolist())
    """
    assert ranks(2, program) == [[1.0] * 3] * 2


def test_the_memory_of_a_share_goes_when_nobody_holds_it() -> None:
    nothing: Any = None
    exchange: Any = SimpleNamespace(channel=object())
    filling = Filling(nothing, nothing, nothing, exchange)
    listener = filling.listener()
    alive = weakref.ref(filling)
    del filling, listener
    assert alive() is None  # without a look for cycles
