"""What the optimizer did, told with the user's lines."""

from __future__ import annotations

import re

import numpy as np

import treadle as td


def test_the_rules_are_told_with_their_lines() -> None:
    x = td.asarray(np.ones(3, np.float32))
    y = x * 1  # here
    z = td.log(td.exp(y))
    why = td.explain(z)
    assert [row.rule for row in why.applied] == [
        "neutral element",
        "logarithm of an exponential",
    ]
    lines = [row.line.split(":") for row in why.applied]
    assert all(name == "test_explain.py" for name, _ in lines)
    assert int(lines[1][1]) == int(lines[0][1]) + 1
    assert why.applied[0].before == "argument 0 * 1"
    assert [n.op.name for n in why.before][-1:] == ["Log"]
    assert [n.op.name for n in why.after] == ["argument"]


def test_counts_stages_and_text() -> None:
    w = td.param("w", init=np.eye(3, dtype=np.float32))
    y = (w @ w * 1 + 0.0 * w * 1).sum()
    why = td.explain(td.grad(y, [w]), y)
    assert sum(why.counts().values()) == sum(row.count for row in why.applied)
    stages = [name for name, _ in why.stages]
    expected = ["inline", "split loops", "rewrite", "narrow", "write out"]
    assert stages[:5] == expected
    assert stages[-1] == "machine code"
    assert all(seconds >= 0 for _, seconds in why.stages)
    sizes = {size.stage: (size.nodes, size.edges) for size in why.sizes}
    assert list(sizes)[:4] == ["graph", "inline", "split loops", "rewrite"]
    assert sizes["rewrite"] == (td.stats(why.after).nodes, td.stats(why.after).edges)
    assert sizes["rewrite"][0] < sizes["inline"][0]
    shown = str(why)
    assert re.search(r"^before: \d+ nodes, \d+ edges$", shown, re.M)
    assert re.search(r"^after: \d+ nodes, \d+ edges$", shown, re.M)
    assert "neutral element" in shown and "parameter 'w'" in shown
    assert re.search(r"^program: \d+ steps, [\d,]+ bytes of arena$", shown, re.M)


def test_what_was_evaluated_is_explained_too() -> None:
    x = td.asarray(np.ones(3, np.float32))
    y = x * 1 + 2.0
    assert y.numpy().tolist() == [3.0, 3.0, 3.0]
    assert td.explain(y).counts() == {"neutral element": 1}


def test_nothing_runs_and_nothing_is_recorded_afterwards() -> None:
    x = td.asarray(np.ones(3, np.float32))
    y = td.exp(x)
    td.explain(y)
    assert y.stored is None
    assert td.explain(y).counts() == {}


def test_before_and_after_side_by_side() -> None:
    x = td.param("x", init=2.0)
    y = td.log(td.exp(x)) * 1
    one, both = td.show(y).svg, td.show(y, optimized=True).svg
    assert both.count("<svg") == 1
    assert both.count("<g transform") == 2 and one.count("<g transform") == 1
    width = [int(re.search(r'width="(\d+)"', svg)[1]) for svg in (one, both)]  # type: ignore[index]
    assert width[1] > width[0]
    assert both.count("Exp") == one.count("Exp")


def test_records_as_rows_and_one_by_one() -> None:
    xs = [td.constant(np.full(4, k, "float32")) for k in range(40)]
    why = td.explain(td.stack([(td.tanh(x) * x).sum() for x in xs]).sum())
    assert why.rows is not None
    together, alone = why.rows
    assert 2 * together <= alone
    assert str(why).endswith(f"rows: {together} records as rows, {alone} one by one")
    assert td.explain(xs[0] + xs[1]).rows is None


def test_guards_of_programs_for_many_sizes_are_told() -> None:
    def graph(n: int) -> td.Tensor:
        x = td.asarray(np.ones((n, 16), np.float32))
        return td.softmax(td.tanh(x), 1)

    td.clear_cache()
    with td.options(engine="native"):
        assert td.explain(graph(100)).lowered.served is None
        for n in (100, 150):
            graph(n).numpy()
        why = td.explain(graph(131))
    served = why.lowered.served
    assert served is not None and served.programs == 1 and not served.failed
    assert all(".py:" in line for _, line in served.guards)
    assert any(guard.startswith("16*n0 < ") for guard, _ in served.guards)
    assert "1 programs for many sizes" in str(why)
