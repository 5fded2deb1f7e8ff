"""The driver, rule sets, literals, and programs with rules on and off."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.fuzz.graphs import build, draw, outputs_of
from tests.rewrite.campaign import Campaign
from treadle.engines.base import engine
from treadle.graph.leaves import LITERAL
from treadle.graph.operators import functions
from treadle.graph.traversal import reach
from treadle.rewrite.driver import Driver, RewriteError
from treadle.rewrite.pattern import captures, numbers, of
from treadle.rewrite.rule import Rule, RuleSet
from treadle.rewrite.simplify import COMPILED, STANDARD

x, y = captures("x y")
(c,) = numbers("c")


def arrays(*shape: int, seed: int = 0) -> Any:
    return td.asarray(np.random.default_rng(seed).normal(size=shape).astype("float32"))


def test_rules_have_names_and_are_counted() -> None:
    assert len(COMPILED) == len({rule.name for rule in COMPILED}) > 150
    assert repr(Rule("own", x * 1 + y, y)) == "own: ((x * 1) + y) -> y"
    with pytest.raises(td.OptionError, match="two rules are named 'a'"):
        RuleSet("own", [Rule("a", x * 1, x), Rule("a", x + 0, x)])
    with pytest.raises(td.OptionError, match="no rule is named 'b'"):
        RuleSet("own", [Rule("a", x * 1, x)]).without("b")


def test_an_endless_rule_is_named() -> None:
    up = RuleSet(
        "own", [Rule("there", -x, of("Abs")(x)), Rule("back", of("Abs")(x), -x)]
    )
    with pytest.raises(RewriteError, match="'there', 'back'"):
        Driver(up).all({0: -arrays(2)})
    grow = RuleSet("own", [Rule("more", of("Sin")(x), of("Sin")(x * 3.0) + 1.0)])
    with pytest.raises(RewriteError, match=r"without an end.*'more'"):
        Driver(grow).all({0: td.sin(arrays(2))})


def test_deep_graphs_need_no_stack() -> None:
    z = arrays(2)
    for _ in range(20_000):
        z = z * 1 + 0
    made = Driver(STANDARD).all({0: z})
    assert not made[0].inputs


def test_rules_of_your_own() -> None:
    sine, cosine = td.of("Sin"), td.of("Cos")
    own = td.Rule("pythagoras", sine(x) ** 2 + cosine(x) ** 2, 1, exact=False)
    squares = td.of("Square")
    own = td.Rule("pythagoras", squares(sine(x)) + squares(cosine(x)), 1, exact=False)
    v = td.param("v", init=[0.3, 0.4])
    z = td.sin(v) ** 2 + td.cos(v) ** 2
    assert str(td.simplify(z, rules=[own])) == "1"
    with td.options(rules=[own]):
        assert z.tolist() == [1.0, 1.0]
    with pytest.raises(td.OptionError, match="is no rule"), td.options(rules=[3]):
        pass


def test_only_numbers_in_code_are_literals() -> None:
    v = arrays(3)

    def scaled(rate: Any) -> Any:
        return v * rate

    assert (v * 2).inputs[1].op is LITERAL
    assert td.where(v > 0, v, 0).inputs[2].op is LITERAL
    for rate in (2, 2.0, np.float32(2), td.constant(2.0)):
        assert scaled(rate).inputs[1].op is not LITERAL
    assert (v * 2.3).inputs[1].op is not LITERAL


def test_a_number_that_changes_makes_no_new_program() -> None:
    native: Any = engine("native")
    v = arrays(4)

    def stepped(rate: float, label: int) -> Any:
        return ((v * rate - label) ** 2).sum().numpy()

    stepped(0.3, 3)
    before = len(native.programs)
    for rate, label in ((0.5, 1), (1.0, 0), (2.0, 1), (0.0, 5)):
        want = np.sum((v.numpy() * np.float32(rate) - label) ** 2)
        np.testing.assert_allclose(stepped(rate, label), want, rtol=1e-5)
    assert len(native.programs) == before


def test_literals_are_part_of_the_key() -> None:
    v = arrays(4)
    np.testing.assert_array_equal((v * 2).numpy(), v.numpy() * 2)
    np.testing.assert_array_equal((v * 3).numpy(), v.numpy() * 3)
    np.testing.assert_array_equal((v * 1).numpy(), v.numpy())


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_bits_do_not_depend_on_what_else_is_asked_for(seed: int) -> None:
    recipe = draw(seed, most=20)

    def results(extra: bool) -> Any:
        _, values = build(recipe, "float32")
        outputs = [values[k] for k in outputs_of(recipe)]
        kept = values if extra else []
        found = td.evaluate(*outputs, *[v * 1 for v in kept])
        del values
        several = found if isinstance(found, tuple) else (found,)
        return [a.tobytes() for a in several[: len(outputs)]]

    with td.options(engine="native"):
        assert results(False) == results(True)


@pytest.mark.parametrize("part", range(4))
def test_random_graphs_keep_their_meaning(part: int) -> None:
    campaign = Campaign()
    for seed in range(40 * part, 40 * part + 40):
        assert campaign.one(seed) == "", seed
    assert campaign.applied.total() > 300


def lstm(steps: int, width: int = 8) -> list[Any]:
    w = td.param("w", (2 * width, 4 * width), init=0.1)
    xs = [arrays(2, width, seed=t) for t in range(steps)]
    state, cell, loss = td.zeros((2, width)), td.zeros((2, width)), 0
    for t in range(steps):
        z = td.concat([xs[t], state], 1) @ w
        i, f, g, o = [z[:, k * width : (k + 1) * width] for k in range(4)]
        cell = td.sigmoid(f) * cell + td.sigmoid(i) * td.tanh(g)
        state = td.sigmoid(o) * td.tanh(cell)
        loss = loss + (state * state).sum()
    return functions.written_out([loss, *td.grad(loss, [w])])


class Counted(Driver):
    """A driver that counts its steps."""

    steps = 0

    def _step(self, node: td.Tensor) -> None:
        self.steps += 1
        super()._step(node)


def calls(run: Callable[[], object]) -> int:
    """The Python functions that something calls."""
    count = 0

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def test_a_large_graph_takes_a_step_a_node() -> None:
    roots = dict(enumerate(lstm(250)))
    size = len(reach(roots.values()))
    driver = Counted(STANDARD)
    made = driver.all(roots)
    assert size > 13_000 and driver.steps < 1.2 * size
    assert len(reach(made.values())) < size


def test_the_work_of_rewriting_grows_as_the_graph_does() -> None:
    found = []
    for length in (40, 80):
        roots = dict(enumerate(lstm(length)))
        Driver(STANDARD).all(roots)  # which rules may fit is known from now on
        found.append(calls(partial(Driver(STANDARD).all, roots)))
    assert found[1] < 2.1 * found[0]


def test_stages_are_verified_where_that_is_asked_for() -> None:
    with td.options(check=True):
        v, w = arrays(3, 4), td.param("w", (4, 2), init=0.5)
        loss = td.cross_entropy(td.relu(v @ w), td.asarray([0, 1, 1]))
        assert np.isfinite(td.grad(loss, [w])[0].numpy()).all()
        image = arrays(1, 2, 5, 5)
        assert td.conv2d(image, arrays(3, 2, 2, 2)).numpy().shape == (1, 3, 4, 4)
