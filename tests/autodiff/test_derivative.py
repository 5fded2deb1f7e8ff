"""Gradients are recorded as one node and derived when they are compiled or seen."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.autodiff import live as recorded
from treadle.autodiff.written import Derivative, expansion
from treadle.base.errors import GradientError
from treadle.graph import frame
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach

ENGINES = ["native", "reference", "device"]


def rows(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def below(g: Tensor) -> Tensor:
    """The Derivative that a gradient is a result of."""
    (found,) = [n for n in reach([g]) if isinstance(n.op, Derivative)]
    return found


def test_a_gradient_is_one_node() -> None:
    w, b = td.param("w", init=rows(3, 4)), td.param("b", init=rows(4))
    y = td.tanh(td.asarray(rows(5, 3)) @ w + b).sum()
    gw, gb = td.grad(y, [w, b])
    assert below(gw) is below(gb)
    assert len(reach([gw])) == len(reach([y])) + 3  # seed, Derivative and result
    assert gw.shape == (3, 4) and gb.shape == (4,)


def test_what_is_seen_is_what_it_is() -> None:
    x = td.param("x", init=2.0)
    (g,) = td.grad(x**2, [x])
    text = td.text(g)
    assert "Derivative" not in text and "Output" not in text
    assert text.splitlines()[0] == "%0 = parameter 'x' : float32[]"
    assert "Derivative" not in repr(g) + td.to_dot(g) + str(td.stats(g))
    assert str(td.simplify(g)) == "2 * x"
    assert td.verify(g) == (True, "") and td.alike(g, td.grad(x**2, [x])[0])
    assert [v.name for v in td.variables(g)] == ["x"]
    assert td.variables(td.grad(x * 3.0, [x])[0]) == []


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("evaluated", [False, True])
def test_values_are_those_of_graphs_derived_at_once(name: str, evaluated: bool) -> None:
    a, b = rows(4, 3), rows(3, 5, seed=1)

    def losses() -> Any:
        w = td.param("w", init=b)
        h = td.tanh(td.asarray(a) @ w)
        return w, h, (td.softmax(h, axis=1) * h).sum()

    with td.options(engine=name):
        w, h, y = losses()
        if evaluated:
            y.numpy(), h.numpy()
        g, gh = td.grad(y, [w, h])
        z = (g * g).sum()
        found = [x.numpy() for x in (g, gh, z)]
        again = td.grad(z, [w])[0].numpy()
        w, h, y = losses()
        with td.options(eager=True):
            g, gh = td.grad(y, [w, h])
            z = (g * g).sum()
            for mine, x in zip(found, (g, gh, z), strict=True):
                np.testing.assert_allclose(mine, x.numpy(), rtol=2e-5, atol=1e-6)
            want = td.grad(z, [w])[0].numpy()
        np.testing.assert_allclose(again, want, rtol=2e-4, atol=1e-5)


def test_a_hit_derives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    w = td.param("w", init=rows(3, 4))
    opt = td.optim.SGD(lr=0.1)
    count = 0

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return expansion(*given)

    monkeypatch.setattr("treadle.rewrite.expand.expansion", counted)
    for k in range(6):
        y = td.sigmoid(td.asarray(rows(5, 3, seed=k)) @ w).sum()
        td.grad(y, [w])[0].numpy()
        opt.step(y)
        if k == 2:
            learned = count
    assert count == learned <= 6  # the gradient alone and the step, with what is kept


@pytest.mark.parametrize("name", ENGINES)
def test_what_a_step_would_cut_is_derived_before(name: str) -> None:
    with td.options(engine=name):
        w = td.param("w", init=rows(3, 4))
        other = td.param("other", init=rows(4))
        y = (td.tanh(td.asarray(rows(5, 3)) @ w) * other).sum()
        g, go = td.grad(y, [w, other])
        norm = (g * g).sum()
        want = [td.grad(y, [w])[0].numpy(), td.grad(y, [other])[0].numpy()]
        td.optim.SGD([w], lr=0.5).step(y)
        np.testing.assert_allclose(float(norm), (want[0] ** 2).sum(), rtol=1e-5)
        assert np.array_equal(g.numpy(), want[0])
        assert np.array_equal(go.numpy(), want[1])
        with pytest.raises(GradientError, match="let go"):
            td.grad(y, [w])


def test_a_step_of_another_loss_derives_nothing_of_this_one() -> None:
    w, v = td.param("w", init=2.0), td.param("v", init=3.0)
    (g,) = td.grad(w * w, [w])
    td.optim.SGD([v], lr=0.5).step(v * v)
    assert g.stored is None and float(g) == 4.0


def test_backward_gives_gradients_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    w, v = td.param("w", init=2.0), td.param("v", init=3.0)
    (w * w * v).backward()
    (w * v).backward()
    td.optim.SGD([w], lr=0.0).step()
    assert float(w.grad) == 15.0 and float(v.grad) == 6.0


def test_a_function_with_a_step_keeps_gradients() -> None:
    w, v = td.param("w", init=2.0), td.param("v", init=3.0)
    opt = td.optim.SGD([w], lr=0.5)

    @td.function
    def step(h: Any) -> Any:
        return opt.step(h * w)

    h = v * v * v
    (g,) = td.grad(h, [v])
    step(h)
    assert float(g) == 27.0


def test_history_keeps_what_gradients_need() -> None:
    w = td.param("w", init=2.0)
    found = []
    for k in range(12):
        y = w * w * float(k)
        found.append(td.grad(y, [w])[0])
        y.numpy()
    assert [float(g) for g in found] == [4.0 * k for k in range(12)]


def test_nothing_is_left_of_gradients_that_are_gone() -> None:
    w = td.param("w", init=rows(3, 4))
    gc.collect()
    before = len(recorded._recorded)
    for _ in range(3):
        td.grad((w * w).sum(), [w])[0].numpy()
        td.optim.SGD(lr=0.1).step((w * w).sum())
    gc.collect()
    assert len(recorded._recorded) == before


def test_a_step_gives_out_no_gradients() -> None:
    w = td.param("w", init=rows(3, 4))
    with td.options(engine="native"):
        td.optim.SGD(lr=0.1).step(td.tanh(td.asarray(rows(5, 3)) @ w).sum())
        program = td.latest_program()
    assert program is not None
    # The loss, the parameter, the count.
    assert sum(" result" in line for line in program.program.splitlines()) == 3


def test_errors_come_at_the_call() -> None:
    w, v = td.param("w", init=[1.0, 2.0]), td.param("v", init=1.0)
    y = (w * w).sum()
    with pytest.raises(GradientError, match="does not depend on v"):
        td.grad(y, [v])
    assert float(td.grad(y, [v], unused="zero")[0]) == 0.0
    ids = td.argmax(w) * 1.0
    with pytest.raises(GradientError, match="does not depend on w"):
        td.grad(ids.astype("float32").sum(), [w])
    with pytest.raises(GradientError, match="does not depend on w"):
        td.grad(td.stop_gradient(w).sum() * v, [w])
    with pytest.raises(GradientError, match="does not depend on v"):
        td.grad(td.scale_gradient(w, v).sum(), [v])
    endless = td.while_loop(lambda x: x < 10.0, lambda x: x * 2.0, v)
    with pytest.raises(GradientError, match="max_iterations"):
        td.grad(endless * 1.0, [v])
    assert td.grad(y + td.stop_gradient(endless), [w])[0].tolist() == [2.0, 4.0]
    unrelated = (y * w).sum() + endless * 0.0
    assert td.grad(unrelated, [w])[0].shape == (2,)


def test_scopes_around_the_first_look_do_not_matter() -> None:
    x = td.param("x", init=3.0)
    (g,) = td.grad(x**3, [x])
    with td.no_grad(), td.metadata(layer="look"):
        assert "Square" in td.text(g)
    assert float(td.grad(g, [x])[0]) == 18.0
    y = x**3
    with td.no_grad():
        (h,) = td.grad(y, [x])
    assert float(td.grad(h * x, [x])[0]) == 27.0


def test_all_versions_are_summed() -> None:
    x = td.Variable(3.0, name="x")
    first = x * 2.0
    x.assign(first)
    y = x * x + first
    (g,) = td.grad(y, [x])
    x.numpy()
    assert float(g) == 12.0 + 2.0


def test_tables_keep_sparse_gradients() -> None:
    table, w = td.lookup("table", (7, 3), init=1.0), td.param("w", init=rows(3, 2))
    e = td.embedding(table, [1, 4]) @ w
    f = td.rows(table, [4]).sum()
    (g,) = td.grad(td.tanh(e).sum() + f, [table])
    found = td.sparse_rows(g)
    assert found is not None and sorted(found[0].tolist()) == [1, 4, 4]
    (dense,) = td.grad((table * table).sum() + f, [table])
    assert td.sparse_rows(dense) is None and dense.tolist()[4] == [3.0, 3.0, 3.0]
    (scaled,) = td.grad(td.rows(table * 2.0, [0]).sum(), [table])
    assert scaled.tolist()[0] == [2.0, 2.0, 2.0]
    other = td.rows(table, td.argmax(td.rows(table, [0, 1]).sum(1))).sum()
    assert td.grad(other, [table])[0].numpy().sum() == 3.0


def test_gradients_among_placeholders() -> None:
    x, w = td.placeholder((), name="x"), td.param("w", init=2.0)
    (g,) = td.grad(td.sin(w * x), [w])
    with td.explicit_updates():
        pass
    run = td.computation([g, td.grad(g, [x])[0]], x)
    value, second = run(0.5)
    np.testing.assert_allclose(value, 0.5 * np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(second, np.cos(1.0) - np.sin(1.0), rtol=1e-6)


def test_updates_in_a_row_are_derived_in_order() -> None:
    x = td.asarray(rows(4, 3))

    def train(eager: bool) -> bytes:
        w = td.Variable(rows(3, 2, seed=2))
        for _ in range(4):
            loss = td.tanh(x @ w).sum()
            w.assign(w - 0.1 * td.grad(loss, [w])[0])
            if eager:
                w.numpy()
        return w.numpy().tobytes()

    assert train(True) == train(False)
    for name in ENGINES:
        with td.options(engine=name):
            np.testing.assert_allclose(
                np.frombuffer(train(False), np.float32),
                np.frombuffer(train(True), np.float32),
                rtol=1e-5,
            )


def test_no_grad_holds_after_an_interrupt_within_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One came between counting a scope and having new nodes marked.
    monkeypatch.setattr(frame, "_constant", frame._constant + 1)
    x = td.param("x", init=2.0)
    with td.no_grad():
        target = x * 3
    monkeypatch.undo()
    assert float(td.grad(x * target, [x])[0]) == 6.0
    with td.no_grad():
        pass
    assert (x * 3).mark is None


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("checked", [False, True])
def test_operands_may_have_one_cotangent(engine: str, checked: bool) -> None:
    """A sum gives all its terms the same node, each of which is asked for."""
    xs = [td.param("x", init=np.full(3, k), dtype="float64") for k in (0.5, 1.0)]
    with td.options(engine=engine, check=checked, check_numerics=checked):
        loss = td.tanh(xs[0] + xs[1]).sum()
        found = td.evaluate([loss, *td.grad(loss, xs)])
    want = 1 - np.tanh(1.5) ** 2
    for g in found[1:]:
        np.testing.assert_allclose(g, np.full(3, want))
