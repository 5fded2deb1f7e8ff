"""`td.options(check=True)`: a wrong rule, stage or engine is caught and named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import Values, provide_engine
from treadle.engines.native.engine import Native
from treadle.graph.tensor import Tensor
from treadle.graph.tolerance import strays
from treadle.rewrite import pipeline
from treadle.rewrite.values import ReferenceValues

(x,) = td.captures("x")
sin, exp = td.of("Sin"), td.of("Exp")


def rows() -> Any:
    return td.asarray(np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(4, 3))


def plain(v: Any) -> Any:
    return (td.sin(v) * 2.0).sum()  # plain


def scanned(v: Any) -> Any:
    return td.scan(lambda c, r: (c + td.sin(r), ()), v[0], v)[0]  # scanned


def branched(v: Any) -> Any:
    return td.cond(v.sum() < 1, lambda: td.sin(v), lambda: v)  # branched


def called(v: Any) -> Any:
    return td.function(lambda u: td.sin(u) * 3.0)(v)  # called


def derived(v: Any) -> Any:
    w = td.param("w", init=0.5)
    return td.grad((td.sin(v * w)).sum(), [w])[0]  # derived


GRAPHS = [plain, scanned, branched, called]


def line_of(name: str) -> int:
    with open(__file__) as source:
        found = [k for k, text in enumerate(source, 1) if text.endswith(f"# {name}\n")]
    return found[0]


@pytest.mark.parametrize("f", GRAPHS, ids=[f.__name__ for f in GRAPHS])
def test_a_wrong_rule_is_named_with_the_line(f: Any) -> None:
    y = f(rows())
    wrong = td.Rule("sine is cosine", sin(x), td.of("Cos")(x), exact=False)
    with td.options(check=True, rules=[wrong]), pytest.raises(td.RunError) as caught:
        y.numpy()
    told = str(caught.value)
    assert told.startswith("Sin: after 'rewrite': rule 'sine is cosine' made cos(")
    assert "float32[" in told and "element" in told
    assert f"test_checked.py:{line_of(f.__name__)}" in told
    assert np.isfinite(f(rows()).numpy()).all()


def test_a_small_mistake_is_seen() -> None:
    near = td.Rule("near", exp(x), td.of("Expm1")(x) + 1.0001, exact=False)
    y = td.exp(rows())
    with td.options(check=True, rules=[near]), pytest.raises(td.RunError, match="near"):
        y.numpy()


def test_a_wrong_stage_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(graph: Any, ways: Any) -> Any:
        return {k: root * 2.0 for k, root in graph.roots.items()}

    bad = pipeline.Stage("write out", doubled, "nothing", lambda node, ways: True)
    tuple_ = tuple([bad if x.name == bad.name else x for x in pipeline.PIPELINE])
    assert bad in tuple_
    monkeypatch.setattr(pipeline, "PIPELINE", tuple_)
    with td.options(check=True), pytest.raises(td.RunError) as caught:
        td.exp(rows()).numpy()
    assert "Exp: after 'write out' a value is not what it was" in str(caught.value)
    assert "test_checked.py:" in str(caught.value)


class Off(Native):
    """An engine whose results are a little off."""

    name = "off"

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
    ) -> Values:
        found = super().run(nodes, feeds, keep, spent)
        return {k: v * np.float32(1.00001) for k, v in found.items()}


def test_a_wrong_engine_is_named() -> None:
    provide_engine("off", Off)
    with td.options(check=True, engine="off"), pytest.raises(td.RunError) as caught:
        td.exp(rows()).numpy()
    assert "Exp: on the off engine it is not the reference's value" in str(caught.value)


def test_what_is_right_passes() -> None:
    w = td.param("w", init=np.eye(3, dtype=np.float32))
    opt = td.optim.Adam([w], lr=0.1)
    with td.options(check=True):
        for _ in range(3):
            h = td.softmax(rows() @ w) + td.dropout(rows(), 0.5)
            loss = td.log(td.exp(h).sum()) + td.sort(h).sum() / (h.sum() + 1e4)
            opt.step(loss + scanned(rows()).sum() * derived(rows()))
        low = td.lower(td.exp(w))  # is only looked at
        assert low.steps == 1
        logits = rows() * 1e4
        assert np.isfinite(td.log(td.exp(logits).sum()).numpy())


def test_noise_is_told_from_mistakes() -> None:
    big = td.asarray(np.array([1e8, 1.0, -1e8, 3.0], np.float32))
    total = ReferenceValues({0: big.sum()}, {})
    assert not total.wrong(0, np.float32(0.0)) and not total.wrong(0, np.float32(4.0))
    assert "differ" in total.wrong(0, np.float32(4000.0))
    kink = ReferenceValues({0: (td.sin(rows()) * 1.0 > 0.5).sum()}, {})
    assert "differ" in kink.wrong(
        0, np.array(11, kink.expected[kink.roots[0].serial].dtype)
    )
    with np.errstate(all="ignore"):
        wide = np.array([1.0, np.inf, 2.0])
        off = strays(wide.astype("f") + np.float32(0.1), wide.astype("f"), wide, 1e-9)
    assert off.tolist() == [True, False, True]


def test_a_gradient_that_is_given_may_be_written_in_any_way() -> None:
    """A body that is only derived from is not rewritten, and need not be."""
    w = td.param("w", init=np.ones((3, 3)))
    f = td.custom_gradient(td.exp, lambda g, y, x: g * 7 * x)
    inside = td.scan(lambda h, x: (f(h * w[0] + x),) * 2, w[1], w)[0]
    with td.options(check=True):
        assert np.isfinite(f(w @ w).sum().numpy())
        (g,) = td.grad(f(w).sum() + inside.sum() * 0, [w])
        np.testing.assert_array_equal(g.numpy(), np.full((3, 3), 7.0))
