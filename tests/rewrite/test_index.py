"""Rules are found by what stands at and below a node, and none is left out wrongly."""

from __future__ import annotations

import pytest

import treadle as td
from tests.rewrite.campaign import grown
from treadle.base.types import TupleType
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.elementary import Exp
from treadle.ops.elementwise import Add, Divide, Multiply
from treadle.rewrite.driver import Driver
from treadle.rewrite.index import RuleIndex, Within
from treadle.rewrite.pattern import captures
from treadle.rewrite.rule import Rule
from treadle.rewrite.simplify import COMPILED

x, y = captures("x y")
INSIDE = Within((Exp,), (Add, Multiply))
SUM_OF_QUOTIENTS = Within((Add,), (Multiply,), over=Within((Divide,), (Multiply,)))


def rule(within: Within) -> Rule:
    return Rule("a product", x * y, x, within=within)


def found(index: RuleIndex, root: Tensor) -> list[str]:
    signs: dict[int, int] = {}
    rules: tuple[Rule, ...] = ()
    for node in reach([root]):
        rules = index.of(node, signs)
    return [r.name for r in rules]


@pytest.mark.parametrize("seed", range(150))
def test_what_is_left_out_would_not_have_fitted(seed: int) -> None:
    _, roots = grown(seed)
    normal = Driver(COMPILED).all(dict(enumerate(roots)))
    signs: dict[int, int] = {}
    for node in reach(normal.values()):
        some, every = COMPILED.of(node, signs), COMPILED.of(node)
        assert [r for r in every if r in some] == list(some)
        real = not isinstance(node.type, TupleType) and node.type.dtype.kind != "c"
        for r in set(every) - set(some) if real else ():
            assert r.apply(node) is None, f"{r.name} is left out, and fits {node.op}"


def test_what_must_stand_within_is_seen_through_some_ops_alone() -> None:
    a, b = td.param("a", init=[1.0]), td.param("b", init=[2.0])
    index = RuleIndex([rule(INSIDE)])
    assert found(index, (td.exp(a) * a + b) * b) == ["a product"]
    assert found(index, (td.sigmoid(td.exp(a)) + b) * b) == []
    assert found(index, (a + b) * b) == []


def test_something_is_sought_over_something() -> None:
    a, b, c = (td.param(n, init=[2.0]) for n in "abc")
    index = RuleIndex([rule(SUM_OF_QUOTIENTS)])
    assert found(index, (a / c * b + b) * c) == ["a product"]
    assert found(index, (a / c) * (a + b)) == []
    assert found(index, ((a / c + b) + a) * b) == []  # not through a second sum


def test_a_node_whose_operands_are_not_known_may_have_anything_within() -> None:
    a, b = td.param("a", init=[1.0]), td.param("b", init=[2.0])
    index = RuleIndex([rule(INSIDE)])
    assert index.of((a + b) * b, {}) and index.of((a + b) * b)


def test_what_a_node_itself_tells_is_asked_of_each() -> None:
    pairs = Within((Multiply,), (), when=lambda node: node.type.shape == (2,))
    index = RuleIndex([rule(pairs)])
    for n in (2, 3, 2):  # the signs of the operands are the same each time
        a, b = td.param(init=[1.0] * n), td.param(init=[2.0] * n)
        assert found(index, a * b) == ["a product"] * (n == 2)


def unrolled(steps: int) -> Driver:
    """What has rewritten the graph of an LSTM of so many steps, and its gradient."""
    cell = td.nn.LSTMCell(3, 3)
    h = c = td.zeros((2, 3))
    total = td.constant(0.0)
    for k in range(steps):
        h, c = cell(td.ones((2, 3)) * float(k), (h, c))
        total = total + ((h - 1.5) ** 2).mean()
    gradients = td.grad(total, list(cell.parameters()))
    roots = td.graph.operators.functions.written_out([total, *gradients])
    driver = Driver(COMPILED)
    driver.all(dict(enumerate(roots)))
    return driver


def test_equal_parts_of_a_graph_are_matched_with_the_rules_once() -> None:
    drivers = [unrolled(steps) for steps in (10, 20, 40)]
    kinds = [len(set(d._signs.values())) for d in drivers]
    assert kinds[0] == kinds[1] == kinds[2]
    few, some, many = (d.tried for d in drivers)
    assert many - some == 2 * (some - few)  # nothing is tried more often than it stands


def test_products_of_gates_are_not_looked_through_for_exponentials() -> None:
    tried = []
    watched = [r for r in COMPILED if r.name.endswith("in a sigmoid")]
    assert len(watched) == 3
    driver = unrolled(5)
    by_serial = driver._signs
    for node in reach(driver._done.values()):
        if node.serial in by_serial:
            tried += [r for r in COMPILED.of(node, dict(by_serial)) if r in watched]
    assert not tried
