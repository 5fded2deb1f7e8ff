"""Values are computed again where memory is short, with the same bits."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treadle as td
from treadle.base.dtypes import float32
from treadle.base.types import Type
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.program.arrange import Arrangement
from treadle.program.flow import ENDLESS, Network
from treadle.program.rematerialize import lighter

RNG = np.random.default_rng(11)
EDGES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), max_size=20
)


@given(EDGES)
def test_a_cut_costs_the_least(edges: list[tuple[int, int, int]]) -> None:
    network = Network()
    for _ in range(5):
        network.point()
    known = [(a, b, c) for a, b, c in edges if a != b and b != 0 and a != 1]
    for edge in known:
        network.join(*edge)

    def price(side: set[int]) -> int:
        return sum(c for a, b, c in known if a in side and b not in side)

    side = network.cut()
    assert 0 in side and 1 not in side
    others = itertools.chain.from_iterable(
        itertools.combinations(range(2, 7), k) for k in range(6)
    )
    assert price(side) == min(price({0, *other}) for other in others)


@given(EDGES, st.lists(st.integers(0, 9), min_size=20, max_size=20))
def test_a_cut_goes_on_from_a_smaller_one(
    edges: list[tuple[int, int, int]], more: list[int]
) -> None:
    grown, anew = Network(), Network()
    for network in (grown, anew):
        for _ in range(5):
            network.point()
    known = [(a, b, c) for a, b, c in edges if a != b and b != 0 and a != 1]
    numbers = [grown.join(*edge) for edge in known]
    grown.cut()
    for k, (a, b, c), extra in zip(numbers, known, more, strict=False):
        grown.residual[k] += extra
        anew.join(a, b, c + extra)
    assert grown.cut() == anew.cut()


def test_what_is_endless_is_not_cut() -> None:
    network = Network()
    a, b = network.point(), network.point()
    for edge in ((0, a, ENDLESS), (a, b, 3), (b, 1, ENDLESS)):
        network.join(*edge)
    assert network.cut() == {0, a}


def test_a_graph_without_steps_gets_no_lighter() -> None:
    leaf = Tensor(Argument(0), (), Type((3,), float32))
    arranged = Arrangement({0: leaf}, [], lambda node: True, True)
    assert not arranged.steps()
    ways = (lambda roots: arranged,) * 2
    assert list(lighter(arranged, ways)) == []


class Deep(td.nn.Module):
    """Layers one behind the other, each a product and an expensive function."""

    def __init__(self, layers: int, width: int) -> None:
        self.layers = [td.nn.Linear(width, width) for _ in range(layers)]

    def forward(self, x: td.Tensor) -> td.Tensor:
        for layer in self.layers:
            x = x + td.erf(layer(x))
        return x


X = RNG.standard_normal((64, 96)).astype(np.float32)


@functools.cache
def trained(workspace: int, layers: int = 8) -> tuple[list[bytes], int]:
    """The parameters after two steps, and the arena of a step."""
    with td.options(seed=3, workspace=workspace):
        model = Deep(layers, 96)
        optimizer = td.optim.Adam(lr=1e-3)
        for _ in range(2):
            optimizer.step((model(td.asarray(X)) ** 2).mean())
        down = td.latest_program()
        assert down is not None
        return [p.numpy().tobytes() for p in model.parameters()], down.memory.arena


@functools.cache
def refused(layers: int = 8) -> td.WorkspaceError:
    with pytest.raises(td.WorkspaceError) as found:
        trained(1, layers)
    return found.value


def test_a_workspace_changes_no_bit() -> None:
    wanted, natural = trained(0)
    needed = refused().needed
    assert needed < natural / 2
    for workspace in (natural * 2, natural * 3 // 4, natural * 3 // 5, needed):
        found, arena = trained(workspace)
        assert arena <= workspace
        assert found == wanted


def test_less_than_is_needed_is_refused_before_anything_runs() -> None:
    needed = refused().needed
    with pytest.raises(td.WorkspaceError, match=f"{needed:,}") as found:
        trained(needed - 1)
    text = str(found.value)
    assert f"workspace={needed}" in text
    assert "float32[64, 96]" in text
    assert re.search(r"test_rematerialize\.py:\d+: ", text)


def test_memory_grows_slower_than_depth() -> None:
    """What many layers keep is computed again, from a few of them."""
    natural = [trained(0, layers)[1] for layers in (2, 8)]
    assert natural[1] > 2.5 * natural[0]
    needed = [refused(layers).needed for layers in (2, 8)]
    assert needed[1] < 1.5 * needed[0]


class Decoder(td.nn.Module):
    """A language model without attention, its head far larger than the rest."""

    def __init__(self, layers: int, width: int, words: int) -> None:
        self.table = td.nn.Embedding(words, width)
        self.norms = [td.nn.LayerNorm(width) for _ in range(layers + 1)]
        self.wide = [td.nn.Linear(width, 4 * width) for _ in range(layers)]
        self.narrow = [td.nn.Linear(4 * width, width) for _ in range(layers)]
        self.head = td.nn.Linear(width, words, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.table(ids)
        for norm, wide, narrow in zip(self.norms, self.wide, self.narrow, strict=False):
            x = x + narrow(td.gelu(wide(norm(x))))
        return self.head(self.norms[-1](x))


def test_a_large_head_is_updated_before_what_is_computed_again() -> None:
    """Its logits are not kept meanwhile: they are over half of the memory."""
    ids = np.random.default_rng(0).integers(0, 8192, 256)

    def step(workspace: int) -> tuple[list[bytes], int]:
        with td.options(seed=1, workspace=workspace):
            model, optimizer = Decoder(4, 256, 8192), td.optim.Adam(lr=1e-3)
            loss = td.nn.functional.cross_entropy(model(ids), np.roll(ids, 1))
            optimizer.step(loss)
            down = td.latest_program()
            assert down is not None
            values = [loss, *model.parameters()]
            return [x.numpy().tobytes() for x in values], down.memory.arena

    wanted, natural = step(0)
    found, arena = step(natural * 4 // 5)
    assert arena <= natural * 4 // 5
    assert found == wanted


def test_what_is_cheap_is_not_kept() -> None:
    """Of a chain that the gradient needs in three places only its start is kept."""
    x = td.asarray(RNG.standard_normal((32, 1 << 16)).astype(np.float32))
    w = [td.asarray(RNG.standard_normal((32, 32)).astype(np.float32)) for _ in range(4)]
    y = x
    for m in w:
        y = td.gelu(m @ y)
    down = td.lower(td.grad((y * y).sum(), w)[0])
    size = x.type.nbytes
    assert down.memory.arena < 6.5 * size, "two values a layer would be 8 and more"


def test_draws_are_the_same_when_they_are_made_again() -> None:
    def step(workspace: int) -> bytes:
        with td.options(seed=5, workspace=workspace):
            x = td.param(init=X)
            y = x
            for _ in range(6):
                y = td.tanh(td.nn.functional.dropout(y, 0.3, training=True) + 1.0)
            return td.grad((y * y).sum(), [x])[0].numpy().tobytes()

    with pytest.raises(td.WorkspaceError) as found:
        step(1)
    assert step(found.value.needed) == step(0)


def checkpointed(
    marks: bool, engine: str = "native", dropped: float = 0.0
) -> tuple[list[np.ndarray], int]:
    """Gradients of a deep chain of blocks, and the arena that they take."""
    with td.options(seed=4, engine=engine):
        layers = [td.nn.Linear(96, 96) for _ in range(12)]

        def block(x: td.Tensor, *inner: td.nn.Linear) -> td.Tensor:
            for layer in inner:
                x = td.erf(layer(x))
                if dropped:
                    x = td.nn.functional.dropout(x, dropped, training=True)
            return x

        y = td.asarray(X)
        f = td.checkpoint(block) if marks else block
        for k in range(0, 12, 4):
            y = f(y, *layers[k : k + 4])
        found = td.evaluate(*td.grad((y * y).mean(), [m.weight for m in layers]))
        down = td.latest_program()
        return list(found), down.memory.arena if down is not None else 0


def test_a_checkpoint_keeps_what_it_is_given_alone() -> None:
    wanted, natural = checkpointed(False)
    found, arena = checkpointed(True)
    assert [g.tobytes() for g in found] == [g.tobytes() for g in wanted]
    assert arena < 0.6 * natural


def test_a_draw_inside_a_checkpoint_is_made_once() -> None:
    wanted, _ = checkpointed(True, "reference", 0.3)
    found, _ = checkpointed(True, "native", 0.3)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-6)
        assert np.abs(w).max() > 1e-4


def test_second_derivatives_through_a_checkpoint() -> None:
    x = td.param(init=np.linspace(-1, 1, 5).astype(np.float32))

    def f(x: td.Tensor) -> td.Tensor:
        return td.exp(td.sin(x) * x)

    def second(g: td.Tensor) -> np.ndarray:
        first = td.grad(g.sum(), [x])[0]
        return td.grad((first * first).sum(), [x])[0].numpy()

    wanted, found = second(f(x)), second(td.checkpoint(f)(x))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
