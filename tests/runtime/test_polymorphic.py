"""Plans for sizes never seen: what they do is what the long way does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph import extents, numbers
from treadle.runtime import evaluate

F = td.nn.functional


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with td.options(engine="native"):
        td.clear_cache()
        yield


def data(*shape: int) -> Any:
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape)
    return drawn.astype(np.float32)


def network(seed: int, norm: bool = False) -> tuple[Any, Any]:
    with td.options(seed=seed):
        middle = [td.nn.BatchNorm1d(20)] if norm else []
        first, last = td.nn.Linear(6, 20), td.nn.Linear(20, 4)
        net = td.nn.Sequential(first, *middle, td.nn.ReLU(), last)
    return net, td.optim.Adam(lr=1e-2)


def step(net: Any, opt: Any, n: int) -> float:
    labels = np.random.default_rng(n).integers(0, 4, n)
    return float(opt.step(F.cross_entropy(net(data(n, 6)), labels)))


SIZES = [40, 60, 50, 45, 47, 59, 41, 38, 70, 44, 33, 58]


def trained(clear: bool, norm: bool = False) -> tuple[list[float], list[Any], Any]:
    """Losses and state after steps of many sizes; `clear`: each is the first."""
    net, opt = network(3, norm)
    losses = []
    for n in SIZES:
        if clear:
            td.clear_cache()
        losses.append(step(net, opt, n))
    return losses, [*net.state_dict().values()], opt


@pytest.mark.parametrize("norm", [False, True])
def test_steps_of_sizes_never_seen_are_planned_and_have_the_same_bits(
    norm: bool,
) -> None:
    losses, weights, opt = trained(False, norm)
    assert opt._plans.misses <= 6  # and the sizes at which kernels are other ones
    wanted, own, _ = trained(True, norm)
    assert losses == wanted
    for x, y in zip(weights, own, strict=True):
        assert x.tobytes() == y.tobytes()


def test_ops_that_were_numbered_before_a_clear_are_of_the_family() -> None:
    counts = []
    for _ in range(3):
        td.clear_cache()
        counts.append(trained(clear=False)[2]._plans.misses)
        trained(clear=True)  # call sites keep ops of some sizes, by which they recorded
    assert len(set(counts)) == 1


@pytest.mark.parametrize("labels", ["parts", "arrays"])
def test_backward_of_batches_cut_from_data_is_planned_for_all_sizes(
    labels: str,
) -> None:
    x, y = td.asarray(data(80, 6)), td.asarray(np.arange(80) % 4)

    def losses(sizes: list[int], clear: bool) -> tuple[list[float], Any]:
        net, _ = network(3)
        opt, found = td.optim.Adam(net.parameters()), []
        for n in sizes:
            if clear:
                td.clear_cache()
            with td.options(engine="auto"):
                own = y[:n] if labels == "parts" else np.arange(n) % 4
                loss = F.cross_entropy(net(x[:n]), own)
                opt.zero_grad()
                loss.backward()
                opt.step()
                found.append(float(loss))
        return found, opt

    found, opt = losses(SIZES, clear=False)
    assert opt._plans.misses <= 6
    assert found == losses(SIZES, clear=True)[0]


def misses_of(graph: Callable[..., Any], sizes: list[tuple[int, ...]]) -> int:
    """How many values went the long way; each is held against that of itself alone."""
    before = evaluate._plans.misses
    found = [np.asarray(graph(*own).numpy()) for own in sizes]
    missed = evaluate._plans.misses - before
    for own, got in zip(sizes, found, strict=True):
        td.clear_cache()
        wanted = np.asarray(graph(*own).numpy())
        assert got.shape == wanted.shape and got.tobytes() == wanted.tobytes(), own
    return missed


def test_values_of_sizes_never_seen_are_planned() -> None:
    w = td.param("w", init=data(8, 8))

    def graph(n: int, m: int) -> Any:
        x, y = td.asarray(data(n, 8)), td.asarray(data(m, 8))
        return td.softmax(td.tanh(x @ w) @ y.T, 1) @ y

    sizes = [(70, 90), (80, 75), (91, 83), (77, 99), (85, 71), (98, 97), (73, 73)]
    assert misses_of(graph, sizes) <= 5


def test_extents_that_moved_alike_by_chance_are_told_apart() -> None:
    def graph(n: int, m: int) -> Any:
        x, y = td.asarray(data(n, 3)), td.asarray(data(m, 3))
        return td.concat([td.exp(x), td.sin(y)], 0).sum(0)

    assert misses_of(graph, [(20, 20), (30, 30), (25, 25), (20, 30), (31, 22)]) >= 3


def test_numbers_that_come_from_sizes_are_of_the_size() -> None:
    def graph(n: int) -> Any:
        x = td.asarray(data(n, 5))
        return (td.cumulative_sum(x, axis=0) / n + x.mean(0)).sum() * (n - 1)

    misses_of(graph, [(n,) for n in (20, 30, 25, 41, 9, 8, 7, 3, 2, 27)])


MADE_INSIDE: list[tuple[str, Callable[[Any], Any]]] = [
    ("matrix", td.linalg.cholesky),
    ("matrix", lambda a: td.linalg.solve(a, a[0])),
    ("matrix", lambda a: td.tril(td.exp(a), 1)),
    ("matrix", lambda a: td.linalg.qr(a)[1]),
    ("vector", lambda v: td.sort(v)[:3] - td.top_k(v, 3)[0]),
    ("vector", lambda v: v.at[2].multiply(v[0])),
]


@pytest.mark.parametrize(("kind", "rule"), MADE_INSIDE)
def test_arrays_that_rules_make_of_sizes_are_of_the_size(
    kind: str, rule: Callable[[Any], Any]
) -> None:
    """A mask, or a folded constant, of one size leaves a program a size."""
    w = td.param("w", init=np.float32(1.5))
    opt = td.optim.SGD([w], lr=0.0)

    def loss(n: int) -> Any:
        x = data(n)
        if kind == "matrix":
            x = data(n, n) @ data(n, n).T / n + np.eye(n, dtype=np.float32)
        return (rule(td.asarray(x) * w) ** 2).mean()

    sizes = [21, 34, 27, 30, 25, 33, 23]
    before = td.cache_info().misses
    found = [float(opt.step(loss(n))) for n in sizes]
    assert td.cache_info().misses - before <= 4
    for n, value in zip(sizes, found, strict=True):
        td.clear_cache()
        assert float(opt.step(loss(n))) == value


def test_slices_that_reach_an_end_are_of_the_size() -> None:
    def graph(n: int) -> Any:
        x = td.exp(td.asarray(data(n, 5)))
        return x[-30:].sum(0) + x[: n // 2].mean(0) + x[10:40:3].sum(0)

    misses_of(graph, [(n,) for n in (60, 80, 70, 65, 31, 30, 29, 20, 12, 41)])


def test_a_size_that_comes_again_keeps_what_gradients_need() -> None:
    w = td.param("w", init=data(6, 6))

    def once(n: int) -> tuple[Any, Any]:
        loss = (td.tanh(td.asarray(data(n, 6)) @ w) ** 2).mean()
        return float(loss), td.grad(loss, w).numpy()

    sizes = [20, 30, 25, 27, 29, 27, 29, 27, 21]
    found = [once(n) for n in sizes]
    for n, (loss, g) in zip(sizes, found, strict=True):
        td.clear_cache()
        wanted, own = once(n)
        assert loss == wanted and g.tobytes() == own.tobytes()


def test_positions_out_of_range_are_told_at_every_size() -> None:
    table = td.asarray(data(50, 4))

    def graph(n: int, last: int) -> Any:
        ids = np.arange(n) % 50
        ids[-1] = last
        return td.take(table, ids, axis=0).sum(0)

    for n in (20, 30, 25, 27):
        graph(n, 3).numpy()
    with pytest.raises(td.RunError, match="index 50 is out of range"):
        graph(29, 50).numpy()
    assert np.isfinite(graph(31, 49).numpy()).all()


def test_what_was_numbered_long_ago_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numbers of ops and types are forgotten when there are very many of others."""

    def known(part: int) -> Any:
        found = numbers.known_by(part)
        return found if type(found) is tuple else None  # no op and no type

    monkeypatch.setattr(extents, "known_by", known)

    def graph(n: int) -> Any:
        x = td.asarray(data(n, 8))
        return td.softmax(td.reshape(td.tanh(x), (n, 4, 2)) * 2.0, 1).sum(0)

    before = evaluate._plans.misses
    found = [graph(n).numpy() for n in (70, 80, 75, 91, 78)]
    assert evaluate._plans.misses - before < 5
    assert all(np.isfinite(x).all() for x in found)


def test_a_third_size_follows_the_plans_of_the_first_two() -> None:
    net, _ = network(3)
    for p in reversed([*net.parameters()]):  # their versions are in another order
        p.assign(p.numpy())
        td.evaluate(p)
    opt = td.optim.Adam(net.parameters(), lr=1e-2)
    for n in SIZES[:3]:
        step(net, opt, n)
    assert (opt._plans.misses, opt._plans.hits) == (2, 1)


LAYERS = [
    ("LSTM", {"bidirectional": True}),
    ("LSTM", {"num_layers": 2, "dropout": 0.25}),
    ("GRU", {}),
]


@pytest.mark.parametrize(("cell", "settings"), LAYERS)
@pytest.mark.parametrize("whole", [False, True], ids=["last", "every step"])
def test_minibatches_of_sequences_never_seen_are_planned(
    cell: str, settings: dict[str, Any], whole: bool
) -> None:
    """Zeros where no derivative comes from, a mean's count, and states side by side
    have extents that the graph has not, or twice."""

    def losses(clear: bool) -> tuple[list[float], int]:
        with td.options(seed=3):
            return trained_by(clear)

    def trained_by(clear: bool) -> tuple[list[float], int]:
        rng = np.random.default_rng(5)
        layer = getattr(td.nn, cell)(6, 12, batch_first=True, **settings)
        out = td.nn.Linear(24 if "bidirectional" in settings else 12, 3)
        opt = td.optim.Adam(lr=1e-2)
        result = []
        for _ in range(24):
            n = int(rng.integers(9, 40))
            lengths = rng.integers(3, 20, n)
            x = rng.standard_normal((n, lengths.max(), 6)).astype(np.float32)
            if clear:
                td.clear_cache()
            y, (*_, h) = layer(x, lengths=lengths)
            z = out(y) if whole else out(y[:, 0] + h[-1].mean())
            loss = F.cross_entropy(z.reshape((-1, 3)), rng.integers(0, 3, z.size // 3))
            result.append(float(opt.step(loss)))
        return result, opt._plans.misses

    planned, misses = losses(clear=False)
    assert misses <= 12
    assert planned == losses(clear=True)[0]


def test_a_scan_reads_no_zeros_for_outputs_that_no_derivative_comes_from() -> None:
    def step(h: Any, x: Any) -> Any:
        return (h + x).tanh(), h * 2

    h, ys = (x.node() for x in td.scan(step, data(5), data(9, 5)))
    (scan,) = h.inputs
    for cotangents, rows in (((h, None), 2), ((h, ys), 3)):
        back = next(iter(scan.op.vjp(cotangents, scan, *scan.inputs)))
        assert back.inputs[0].op.scanned == rows
