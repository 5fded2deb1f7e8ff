"""What cells do with their inputs alone is done for all rows before the first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.test_batching import agree, both
from treadle.base.dtypes import float64
from treadle.base.types import Type
from treadle.batch.ahead import WIDER, apart_from
from treadle.batch.forest import Forest
from treadle.graph.body import Body
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.runtime import rows

SIZE, HIDDEN = 3, 4
CELLS = {
    "lstm": td.nn.LSTMCell,
    "gru": td.nn.GRUCell,
    "peephole": td.nn.PeepholeLSTMCell,
    "sru": td.nn.SRUCell,
}


def body_of(make: Any, *shapes: tuple[int, ...]) -> Body:
    with pushed(TraceFrame("cell")):
        own = [Tensor(Argument(k), (), Type(s, float64)) for k, s in enumerate(shapes)]
        return Body("cell", own, [make(*own)])


def test_the_two_parts_are_the_whole() -> None:
    def cell(x: Any, h: Any, w: Any, v: Any) -> Any:
        return td.tanh(td.sin(x) @ w + h @ v) * x.sum()

    body = body_of(cell, (3,), (4,), (3, 4), (4, 4))
    apart = apart_from(body, (0, 1), (0,))
    assert apart is not None
    assert apart.inputs == (0, 2) and apart.left == (1, 3)
    draw = np.random.default_rng(1)
    arrays = [draw.normal(size=x.type.shape) for x in body.arguments]
    made = apart.first.numpy([arrays[k] for k in apart.inputs])
    found = apart.rest.numpy([*(arrays[k] for k in apart.left), *made])
    np.testing.assert_allclose(found[0], body.numpy(arrays)[0], rtol=1e-12)
    assert apart_from(body, (0, 1), (0,)) is apart


@pytest.mark.parametrize(
    ("why", "make", "early"),
    [
        ("no product", lambda x, h, w: td.tanh(x).sum() + h @ w, (0,)),
        ("nothing", lambda x, h, w: x @ w + h @ w, ()),
        ("everything", lambda x, h, w: x @ w + h @ w, (0, 1)),
        ("a result", lambda x, h, w: x @ w, (0,)),
        (
            "much of little",
            lambda x, h, w: td.concat([w @ x] * (WIDER + 1)) * h.sum(),
            (0,),
        ),
    ],
)
def test_what_stays_whole(why: str, make: Any, early: tuple[int, ...]) -> None:
    assert apart_from(body_of(make, (3,), (3,), (3, 3)), (0, 1), early) is None, why


def forests(monkeypatch: pytest.MonkeyPatch) -> list[Forest]:
    """The forests that are run from now on."""
    found: list[Forest] = []

    def noted(*given: Any) -> Forest:
        found.append(Forest(*given))
        return found[-1]

    monkeypatch.setattr(rows, "Forest", noted)
    return found


@pytest.mark.parametrize("name", sorted(CELLS))
@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_layers(
    name: str, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences of unequal length; a second layer reads the first from end to start,
    so that one has to be over. The inputs are asked for their gradients too."""
    found, draw = forests(monkeypatch), np.random.default_rng(2)
    sizes = [SIZE, HIDDEN]
    cells = [CELLS[name](n, HIDDEN, dtype="float64") for n in sizes[:layers]]
    steps = [td.function(lambda x, h, cell=cell: cell(x, h)) for cell in cells]
    data = [draw.normal(size=(n, SIZE)) for n in (5, 3, 6, 4, 6)]
    zero = td.zeros(HIDDEN, "float64")
    state = zero if cells[0].states == 1 else (zero,) * cells[0].states

    def run() -> list[Any]:
        inputs = [td.constant(x, "float64") for x in data]
        given = [p for cell in cells for p in cell.parameters()]
        outputs: list[Any] = []
        for x in inputs:
            xs = list(td.unstack(x))
            for step in steps:
                h, made = state, []
                for own in xs:
                    h = step(own, h)
                    made.append(h[0] if isinstance(h, tuple) else h)
                xs = made[::-1]
            outputs += xs
        y = td.stack(outputs)
        loss = (td.sin(y) * y).sum()
        grads = td.grad(loss, [*given, *inputs])
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))
    aligned = [x for forest in found for x in forest.instances if x.aligned]
    assert len(aligned) == layers
    for forest in found:
        for x in forest.instances:
            for number, _ in x.aligned.values():
                first = forest.instances[number]
                assert first.count == x.count and not len(first.units)
                assert first.groups.turns[0] < x.groups.turns.min()


def test_rows_of_a_table_by_what_comes_late() -> None:
    """The gradient of these rows is that of what is done ahead, where it lies."""
    draw = np.random.default_rng(6)
    shapes = {"w": (3, 4), "v": (4, 4), "table": (4, 4)}
    given = {
        name: td.param(name, init=draw.normal(size=shape), dtype="float64")
        for name, shape in shapes.items()
    }
    data = draw.normal(size=(9, 6, 3))

    @td.function
    def cell(x: Any, h: Any) -> Any:
        own = td.rows(given["table"], td.argmax(h))
        return td.tanh(x @ given["w"] + own + h @ given["v"])

    def run() -> list[Any]:
        losses = []
        for x in data:
            h = td.zeros(4, "float64")
            for own in x:
                h = cell(td.constant(own, "float64"), h)
            losses.append((h * h).sum())
        loss = td.stack(losses).sum()
        return [float(loss), *[g.numpy() for g in td.grad(loss, [*given.values()])]]

    agree(both(run))
