"""Values told inside cells, where the rest of the graph runs as rows."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from treadle.runtime.rows import counts


def found(net: Net, mark: Any) -> list[Any]:
    """Loss and gradients of trees whose states are told at the root, in a cell."""
    top = td.function(lambda h: mark(h @ net.top))
    tops = [top(net.encode(t)[0]) for t in trees(20, 24)]
    loss = td.stack([(x * x).sum() for x in tops]).sum()
    return [float(loss), *[g.numpy() for g in td.grad(loss, net.parameters[:4])]]


def test_printing_changes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net()
    expected = found(net, lambda x: x)
    assert capsys.readouterr().out == ""
    before = counts.runs
    told = found(net, lambda x: td.print(x, "scores"))
    assert counts.runs > before  # what lies below is rows all the same
    assert capsys.readouterr().out.count("scores: float64[3] [") == 24
    for x, y in zip(expected, told, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)


def test_a_cell_that_prints_is_run_for_each_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    net = Net()
    cell = td.function(lambda x: td.print(net._leaf(x)[0], "leaf"))
    words = [k % 7 for k in range(40)]
    leaves = [cell(td.rows(net.table, k)) for k in words]
    values = np.array(td.evaluate(*leaves))
    lines = capsys.readouterr().out.replace("\n ", " ").splitlines()
    assert len(lines) == 40
    with td.options(autobatch=False, engine="reference"):
        one = [net._leaf(td.rows(net.table, k))[0].numpy() for k in words]
    np.testing.assert_allclose(values, one, rtol=1e-12)


def test_debug_tells_values_and_cotangents(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="treadle")
    net = Net()
    expected = found(net, lambda x: x)
    told = found(net, lambda x: td.debug(x, "scores"))
    kinds = [message.split(":")[0] for message in caplog.messages]
    assert kinds.count("Debug") == kinds.count("Debug Grad") == 24
    for x, y in zip(expected, told, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10)
