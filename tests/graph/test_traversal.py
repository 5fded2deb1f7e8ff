"""Walks, rebuilding and bodies."""

from __future__ import annotations

import numpy as np

import treadle as td
from treadle.graph.body import trace
from treadle.graph.traversal import reach, rebuild, stages, users


def test_reach_is_topological_and_complete() -> None:
    x = td.param("x", init=1.0)
    a = x * 2.0
    y = a + a * a
    nodes = reach([y])
    place = {n.serial: k for k, n in enumerate(nodes)}
    assert all(place[i.serial] < place[n.serial] for n in nodes for i in n.inputs)
    assert nodes[-1] is y and len(nodes) == 5
    assert len(users(nodes)[a.serial]) == 3


def test_stages_hold_independent_nodes() -> None:
    x = td.constant(1.0)
    left, right = td.sin(x), td.cos(x)
    top = left + right
    found = stages(reach([top]))
    assert found[left.serial] == found[right.serial] == 1 and found[top.serial] == 2


def test_rebuilding_shares_what_is_untouched() -> None:
    x, z = td.constant(1.0), td.constant(5.0)
    kept = td.sin(td.constant(2.0))
    y = x * 3.0 + kept
    (new,) = rebuild([y], {x.serial: z})
    assert float(new) == float(z * 3.0 + kept)
    assert new.inputs[1] is kept and y.inputs[0].inputs[0] is x


def test_a_body_reads_nothing_from_outside() -> None:
    outside = td.constant(2.0) * 3.0
    w = td.param("w", init=4.0)
    traced = trace(lambda x: [x * outside + w], [outside.type], "f")
    assert traced.captured == (outside,) and traced.variables == (w,)
    values = [np.float32(1), np.float32(4), np.float32(6)]
    assert traced.body.numpy([np.asarray(v) for v in values])[0] == 10.0
