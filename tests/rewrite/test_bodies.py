"""Rules inside the bodies of branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.body import bodies
from treadle.graph.text import bodies_of
from treadle.graph.traversal import reach
from treadle.rewrite.driver import Driver
from treadle.rewrite.simplify import COMPILED

ENGINES = ("reference", "native", "device")
NEUTRAL, LOGARITHM = "neutral element", "logarithm of an exponential"


def rows() -> Any:
    return td.asarray(np.linspace(0.1, 1.2, 12, dtype=np.float32).reshape(4, 3))


def scanned(x: Any) -> Any:
    return td.scan(lambda c, r: (c * 1 + r, td.log(td.exp(c))), x[0], x)


def backwards(x: Any) -> Any:
    return td.scan(lambda c, r: (c + r * 1, c * 1), x[0], x, reverse=True)


def captured(x: Any) -> Any:
    w = td.asarray(np.array([2.0, 3.0, 4.0], np.float32))
    return td.scan(lambda c, r: (c * (w * 1) + r, ()), x[0], x)[0]


def branched(x: Any) -> Any:
    return td.cond(x.sum() > 0, lambda v: v * 1, lambda v: td.log(td.exp(v)), x)


def repeated(x: Any) -> Any:
    return td.while_loop(lambda s: s.sum() * 1 < 50.0, lambda s: s * 2.0 * 1, x)


def bounded(x: Any) -> Any:
    loop = td.while_loop
    return loop(lambda s: s.sum() < 50.0, lambda s: s * 2.0 * 1, x, max_iterations=5)


def nested(x: Any) -> Any:
    def inner(v: Any) -> Any:
        return td.cond(v.sum() > 1, lambda u: td.log(td.exp(u)), lambda u: u * 1, v)

    return td.scan(lambda c, r: (inner(c) + r * 1, c), x[0], x)


def called(x: Any) -> Any:
    double = td.function(lambda v: td.log(td.exp(v)) * 2.0)
    return td.map(lambda r: double(r) * 1, x)


def derived(x: Any) -> Any:
    v = td.param("v", init=np.full(3, 0.5, np.float32))
    y = td.scan(lambda c, r: (td.log(td.exp(c * v)) + r * 1, c), x[0], x)[1]
    return td.grad(y.sum(), [v])[0]


TABLE: list[tuple[Callable[[Any], Any], tuple[str, ...], tuple[str, ...]]] = [
    (scanned, (NEUTRAL, LOGARITHM), ("Multiply", "Exp", "Log")),
    (backwards, (NEUTRAL,), ("Multiply",)),
    (captured, (NEUTRAL,), ()),
    (branched, (NEUTRAL, LOGARITHM), ("Multiply", "Exp", "Log")),
    (repeated, (NEUTRAL,), ()),
    (bounded, (NEUTRAL,), ()),
    (nested, (NEUTRAL, LOGARITHM), ("Multiply", "Exp", "Log")),
    (called, (NEUTRAL,), ()),
    (derived, (NEUTRAL, LOGARITHM), ()),
]
NAMES = [f.__name__ for f, *_ in TABLE]


@pytest.mark.parametrize(("f", "rules", "gone"), TABLE, ids=NAMES)
def test_rules_look_into_bodies(f: Any, rules: Any, gone: Any) -> None:
    why = td.explain(f(rows()))
    assert set(rules) <= set(why.counts())
    inside = [n for b in bodies_of(reach(why.after)) for n in b.nodes]
    assert not {n.op.name for n in inside} & set(gone)
    for name in rules:
        at = [row.line for row in why.applied if row.rule == name]
        assert all(line.startswith("test_bodies.py:") for line in at)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", [f for f, *_ in TABLE], ids=NAMES)
def test_every_engine_gives_the_same(f: Any, engine: str) -> None:
    wants = td.evaluate(f(rows()))
    with td.options(engine=engine, check=True):
        found = td.evaluate(f(rows()))
    if not isinstance(found, tuple):
        found, wants = (found,), (wants,)
    for got, want in zip(found, wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6)


def test_a_body_is_rewritten_once() -> None:
    (y, _) = scanned(rows())
    loop = y.inputs[0]
    first = Driver(COMPILED).all({0: loop})[0].op
    again = Driver(COMPILED).all({0: loop})[0].op
    assert bodies(first) == bodies(again) != bodies(loop.op)
    assert len(loop.op.body.memo) == 1
    settled = Driver(COMPILED).all({0: first(*loop.inputs)})[0].op
    assert bodies(settled) == bodies(first)


def test_what_is_simplified_keeps_its_derivative() -> None:
    v = td.param("v", init=2.0)
    x = td.asarray(np.ones(3, np.float32))
    y = td.scan(lambda c, r: (c * v * 1 + td.stop_gradient(c) * r, ()), v * 1, x)[0]
    simple = td.simplify(y)
    inside = [n.op.name for b in bodies_of(reach([simple])) for n in b.nodes]
    assert "StopGradient" in inside and inside.count("Multiply") == 2
    assert float(simple) == float(y)
    assert float(td.grad(simple, [v])[0]) == float(td.grad(y, [v])[0])
