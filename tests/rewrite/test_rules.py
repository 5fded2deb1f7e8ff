"""Every rule by itself, on random instances of its left side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import assert_close
from tests.rewrite.draws import Draws, instance
from treadle.base.dtypes import is_inexact
from treadle.graph.body import Body
from treadle.graph.leaves import LITERAL
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.verify import problems
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract, letters
from treadle.ops.convolution import Conv
from treadle.ops.families import Movement, Reduction
from treadle.rewrite.driver import Driver
from treadle.rewrite.rule import Rule, RuleSet
from treadle.rewrite.rules.inference import INFERENCE
from treadle.rewrite.rules.readable import READABLE
from treadle.rewrite.simplify import COMPILED, NARROW

ALL = COMPILED + READABLE + INFERENCE + NARROW
CASES = [pytest.param(rule, id=rule.name) for rule in ALL]
SHAPES = [(), (3,), (2, 3), (1, 4)]


def applied(rule: Rule, y: Tensor) -> tuple[Tensor, int]:
    """A graph in normal form under one rule (and folding), and how often it fired."""
    fired = []
    driver = Driver(
        RuleSet("one", [rule]), lambda r, before, after: fired.append(r.name)
    )
    return driver.all({0: y})[0], len(fired)


def instances(rule: Rule) -> Any:
    for k, shape in enumerate(SHAPES * 2):
        with td.options(dtype="float64" if k >= len(SHAPES) else "float32"):
            d = Draws(k, "float64" if k >= len(SHAPES) else "float32", shape)
            yield d, instance(rule, d)


def values(d: Draws, y: Tensor) -> Any:
    with np.errstate(all="ignore"):
        return Body("value", d.arguments, [y]).numpy(d.values)[0]


def check_values(rule: Rule, before: Any, after: Any) -> None:
    if rule.exact:
        assert_close(after, before, "E")
        return
    finite = np.isfinite(before) if is_inexact(before.dtype) else True
    kept = np.where(finite, before, 0), np.where(finite, after, 0)
    assert_close(kept[1].astype(before.dtype), kept[0].astype(before.dtype), "R", 64)
    if not rule.stable:
        assert np.array_equal(np.isnan(before), np.isnan(after))


def slopes(d: Draws, y: Tensor) -> list[Any]:
    xs = [x for x in d.arguments if is_inexact(x.type.dtype)]
    total = td.sum(td.astype(y, "float64") * weights(y.type.shape))
    with np.errstate(all="ignore"):
        return list(
            Body("slopes", d.arguments, td.grad(total, xs, unused="zero")).numpy(
                d.values
            )
        )


def weights(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(3).uniform(0.5, 1.5, shape)


def check_gradients(d: Draws, y: Tensor, made: Tensor) -> None:
    if not is_inexact(y.type.dtype) or d.dtype != "float64":
        return
    for before, after in zip(slopes(d, y), slopes(d, made), strict=True):
        fine = np.isfinite(before) & np.isfinite(after)
        np.testing.assert_allclose(after[fine], before[fine], rtol=1e-6, atol=1e-9)


def work(node: Tensor) -> float:
    """Operations of a node, a division as 4 and an exponential as 8 of an addition."""
    op: Any = node.op
    if not node.inputs or isinstance(op, Movement) or type(op).__name__ == "Concat":
        return 0
    if all(x.op is LITERAL for x in node.inputs):
        return 0  # folded
    if isinstance(op, Contract):
        a, b, _ = letters(op.spec)
        shapes = node.inputs[0].type.shape + node.inputs[1].type.shape
        count = float(np.prod(list(dict(zip(a + b, shapes, strict=True)).values())))
        sizes = {x.inputs[0].type.dtype for x in node.inputs if type(x.op) is Cast}
        return count / 4 if sizes == {td.int8, td.uint8} else count  # by fours
    if isinstance(op, Conv):
        return float(node.type.size * np.prod(node.inputs[1].type.shape[1:]))
    if isinstance(op, Reduction):
        return float(node.inputs[0].type.size)
    if op.traits.tolerance == "U":
        return 8.0 * node.type.size
    heavy = 4.0 if type(op).__name__ in ("Divide", "Reciprocal", "Sqrt") else 1.0
    return heavy * node.type.size


def cost(y: Tensor) -> float:
    return sum(work(node) for node in reach([y]))


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_keeps_types_values_and_gradients_and_costs_no_more(rule: Rule) -> None:
    fired = 0
    for d, y in instances(rule):
        made, count = applied(rule, y)
        fired += count
        assert made.type == y.type
        assert not list(problems(reach([made])))
        check_values(rule, values(d, y), values(d, made))
        twice, count = applied(rule, made)
        assert count == 0 and td.alike(made, twice), "twice is once"
        if "gradient" not in rule.name:
            check_gradients(d, y, made)
        # Others are judged by the range they hold in, or by what follows.
        if not (rule.stable or rule.enables):
            assert cost(made) <= cost(y), (td.text(y), td.text(made))
    assert fired >= 4, "a rule must fire on its own instances"
