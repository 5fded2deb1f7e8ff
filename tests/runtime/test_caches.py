"""Programs are found by structure: data, rates and labels never make a new one."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.networks import small_network
from treadle.cli import main
from treadle.engines.native.translation.programs import Programs
from treadle.graph.body import Body
from treadle.rewrite.pattern import captures, of


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native"):
        yield


def test_rates_labels_and_rows_are_data() -> None:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((100, 1, 12, 12)).astype(np.float32)
    labels = rng.integers(0, 10, 100)
    model, opt = small_network(maps=4, hidden=20), td.optim.Adagrad(lr=0.005)
    losses = []
    for k in range(50):
        ids = rng.integers(0, 100, 8)
        opt.lr = 0.01 / (k + 1)
        logits = model(td.rows(images, ids))
        losses.append(opt.step(td.nn.functional.cross_entropy(logits, labels[ids])))
        if k == 0:
            before = td.cache_info()
    after = td.cache_info()
    assert after.misses == before.misses and after.compiled == before.compiled
    assert after.programs == before.programs and after.hits >= before.hits + 49
    assert np.isfinite(losses).all() and len(set(losses)) == 50


COLUMNS: dict[str, Any] = {
    "last": lambda x, k: x[:, k],
    "negative": lambda x, k: x[..., -k],
    "range": lambda x, k: x[:4, k],
    "both": lambda x, k: x[1:, k] * x[k % 3, k],
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_a_variable_are_data(column: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    table = td.Parameter(rng.standard_normal((6, 9)))
    wanted, opt = table.numpy().copy(), td.optim.SGD([table], lr=0.1)
    for k, (i, j, m) in enumerate(rng.permutation(8)[:3] + 1 for _ in range(12)):
        parts = [column(table, int(x)) for x in (i, j, m)]
        loss = opt.step(sum((part * part).sum() for part in parts))
        known = sum((column(wanted, int(x)) ** 2).sum() for x in (i, j, m))
        assert float(loss) == pytest.approx(known)
        wanted = table.numpy().copy()
        if k == 2:
            before = td.cache_info()
    after = td.cache_info()
    assert (after.misses, after.compiled) == (before.misses, before.compiled)


def test_columns_that_stand_in_the_code_are_structure() -> None:
    table, k = td.Parameter(np.zeros((6, 9))), 3
    written = table[:, 0], table[..., -1], table[1:4, 2], table[0, :, None]
    data = table[:, k], table[..., -k], table[1:k, 2], table[:k, k]
    assert [x.op.name == "Index" for x in written] == [False] * 4
    assert [x.op.name == "Index" for x in data] == [True] * 4


PARTS: dict[str, Any] = {
    "number": lambda x, k: x[k],
    "range": lambda x, k: x[k, 1:5],
    "numbers": lambda x, k: x[0][np.arange(k, k + 4)],
    "twice": lambda x, k: x[k][k % 3 : k % 3 + 4],
}


def _backward(loss: Any, opt: Any, model: Any) -> None:
    opt.zero_grad()
    loss.backward()
    opt.step()


STEPS: dict[str, Any] = {
    "step": lambda loss, opt, model: opt.step(loss),
    "backward": _backward,
    "looked at, backward": lambda loss, *rest: (float(loss), _backward(loss, *rest)),
    "grad": lambda loss, opt, model: td.evaluate(
        loss, *td.grad(loss, list(model.parameters()))
    ),
    "norm": lambda loss, opt, model: float(
        sum((g * g).sum() for g in td.grad(loss, list(model.parameters())))
    ),
    "hvp": lambda loss, opt, model: td.evaluate(
        *td.grad(
            sum((g * g).sum() for g in td.grad(loss, [*model.parameters()][:1])),
            [*model.parameters()][:1],
        )
    ),
}


@pytest.mark.parametrize("spelling", STEPS)
@pytest.mark.parametrize("part", PARTS)
def test_where_a_batch_lies_in_its_data_makes_no_program(
    part: str, spelling: str
) -> None:
    x = td.asarray(np.random.default_rng(0).standard_normal((20, 12, 5), np.float32))
    model = td.nn.Sequential(td.nn.Linear(5, 4), td.nn.Tanh(), td.nn.Linear(4, 1))
    opt = td.optim.SGD(model.parameters(), lr=0.01)
    for k in range(8):
        with td.options(engine="auto"):
            rows = PARTS[part](x, k)
            STEPS[spelling]((model(rows) ** 2).mean(), opt, model)
        if k == 3:
            before = td.cache_info()
    after = td.cache_info()
    assert (after.misses, after.programs) == (before.misses, before.programs)


@pytest.mark.parametrize("by", ["data", "part"])
def test_gradients_by_data_go_on_behind_its_parts(by: str) -> None:
    whole = np.random.default_rng(0).standard_normal((6, 4, 3))
    x = td.asarray(whole)
    for k in range(5):
        part = x[k]
        loss = (part[1:3] ** 2).sum() + (part * 2).sum()
        (found,) = td.grad(loss, [x if by == "data" else part])
        wanted = np.zeros_like(whole)
        wanted[k] = 2
        wanted[k, 1:3] += 2 * whole[k, 1:3]
        np.testing.assert_allclose(
            found.numpy(), wanted if by == "data" else wanted[k], 1e-12
        )


def test_what_cannot_serve_other_sizes_keeps_no_graph() -> None:
    """The error that says why had kept it, by its frames."""
    w = td.param("w", shape=(3, 3), init=1.0)
    alive = []
    for k in range(4):
        x = td.asarray(np.ones((3, 3 + k), np.float32))
        rolled = td.roll(w @ x, 1 + k, 1)[:, k : k + 2]
        alive.append(weakref.ref(rolled))
        rolled.sum().numpy()
        del x, rolled
    gc.collect()
    assert not any(ref() is not None for ref in alive)


def test_plans_of_values_that_assign_go_with_their_variables() -> None:
    def trained() -> list[Any]:
        v, w = (td.param(name, init=np.ones(3, np.float32)) for name in "vw")
        with td.options(engine="auto"):
            for _ in range(4):
                loss = (v * w).sum()
                for p, g in zip((v, w), td.grad(loss, [v, w]), strict=True):
                    p.assign(p - 0.1 * g)
                float(loss)
        assert v.plans.hits >= 2
        return [weakref.ref(v), weakref.ref(w)]

    alive = trained()
    gc.collect()
    assert not any(ref() is not None for ref in alive)


@pytest.mark.parametrize("read", ["value", "no_grad", "both"])
def test_a_value_stepped_by_hand_is_one_program(read: str) -> None:
    """What lies behind the values that it is derived by is not looked at again."""
    data = np.random.default_rng(1).standard_normal((30, 4))
    x = td.asarray(data)
    q, wanted = td.zeros(4, dtype="float64") + 1.0, np.ones(4)
    for k in range(12):
        half = q - 0.01 * td.grad(((x @ q) ** 2).sum(), [q])[0]
        new = half - 0.01 * td.grad(((x @ half) ** 2).sum(), [half])[0]
        if read == "no_grad":
            with td.no_grad():
                new.numpy()
        elif read == "value":
            new.numpy()
        else:
            td.evaluate(half, new)
        q = new
        for _ in range(2):
            wanted = wanted - 0.02 * data.T @ (data @ wanted)
        np.testing.assert_allclose(q.numpy(), wanted, 1e-9)
        if k == 4:
            before = td.cache_info()
    after = td.cache_info()
    assert (after.misses, after.programs) == (before.misses, before.programs)


def test_a_model_made_again_finds_its_program() -> None:
    x = td.asarray(np.ones((3, 5), np.float32))

    def train() -> None:
        w = td.param(init=np.ones((5, 2), np.float32))
        opt = td.optim.Adam(lr=0.1)
        for _ in range(2):
            opt.step(td.tanh(x @ w).sum())

    train()
    before = td.cache_info().misses
    train()
    assert td.cache_info().misses == before


def test_a_cleared_cache_fills_again() -> None:
    x = td.asarray(np.arange(3.0, dtype=np.float32))
    first = (td.sin(x) * 2.0).numpy()
    td.clear_cache()
    info = td.cache_info()
    assert (info.programs, info.program_bytes, info.kernels) == (0, 0, 0)
    assert (td.sin(x) * 2.0).numpy().tobytes() == first.tobytes()
    assert td.cache_info().programs == 1
    assert "1 of at most 256" in str(td.cache_info())


class Sized:
    def __init__(self, size: int) -> None:
        self.nbytes = size


def entry(size: int = 1) -> Any:
    return Sized(size), []


def test_the_longest_unused_program_goes_first() -> None:
    kept = Programs(limit=2, most_bytes=100)
    a, b = kept.get("a", entry), kept.get("b", entry)
    assert kept.get("a", entry) is a
    kept.get("c", entry)
    assert kept.get("a", entry) is a and kept.get("b", entry) is not b
    kept.get("large", lambda: entry(99))
    assert len(kept) == 2 and kept.bytes == 100
    kept.get("larger", lambda: entry(1000))
    assert len(kept) == 1, "one is kept whatever its size"


def test_threads_that_miss_together_compile_once() -> None:
    kept, made = Programs(), []
    start = threading.Barrier(8)

    def make() -> Any:
        made.append(1)
        return entry()

    def work() -> None:
        start.wait()
        for k in range(20):
            kept.get(k, make)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == kept.misses == 20 and kept.hits == 140


def test_a_failed_compilation_is_tried_again() -> None:
    kept = Programs()

    def fail() -> Any:
        raise ValueError

    with pytest.raises(ValueError):
        kept.get("a", fail)
    assert kept.get("a", entry) is kept.get("a", fail)


def test_the_command_shows_and_clears(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TREADLE_CACHE", "1")
    td.clear_cache()
    td.sin(td.asarray(np.ones(3, np.float32))).numpy()
    assert td.cache_info(disk=True).disk_files > 0
    assert main(["cache"]) == 0
    assert str(tmp_path) in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["files", "0"] in rows
    assert td.cache_info(disk=True).disk_files == 0


def test_tables_of_structure_hold_no_bodies() -> None:
    w = td.param(init=np.ones(3, np.float32))

    def once() -> weakref.ref[Body]:
        @td.function
        def f(x: Any) -> Any:
            return td.sin(x) * w

        y = f(td.ones(3)).sum()
        td.grad(y, [w])[0].numpy()
        (traced,) = f.traces.values()
        return weakref.ref(traced.trace.body)

    body = once()
    td.clear_cache()
    gc.collect()
    assert body() is None


@pytest.mark.parametrize("first", ["with", "without"])
def test_a_rule_of_the_users_is_used_within_its_scope_alone(first: str) -> None:
    """As rows and node by node, whichever ran before."""
    td.clear_cache()
    (x,) = captures("x")
    tanh = of("Tanh")
    rules = [td.Rule("one tanh for two", tanh(tanh(x)), tanh(x), exact=False)]
    weight = td.param("w", init=np.eye(8, dtype=np.float32) / 2)
    cell = td.function(lambda h: td.tanh(td.tanh(h) @ weight))
    leaves = np.random.default_rng(0).normal(size=(40, 8)).astype("f4")

    def total() -> float:
        rows = []
        for k, leaf in enumerate(leaves):
            h = td.tanh(td.constant(leaf))
            for _ in range(1 + k % 3):
                h = cell(h)
            rows.append(h)
        with td.no_grad():
            return float(td.stack(rows).sum())

    found: dict[str, set[float]] = {"with": set(), "without": set()}
    other = "without" if first == "with" else "with"
    for way in (first, other, first):
        with td.options(rules=rules if way == "with" else []):
            for autobatch in (True, False):
                with td.options(autobatch=autobatch):
                    found[way].add(round(total(), 4))
    assert len(found["with"]) == len(found["without"]) == 1
    assert found["with"] != found["without"]
