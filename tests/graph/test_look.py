"""How graphs look: the same to Python and to the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import in_python
from treadle.graph import look as looks
from treadle.graph.look import Look, look


def network(draw: np.random.Generator, depth: int) -> tuple[Any, list[Any], list[Any]]:
    """A loss, some nodes of its graph that are held, and its parameters."""
    own = [td.param(init=draw.normal(size=(4, 4))) for _ in range(3)]
    fixed = td.asarray(draw.normal(size=(4, 4)))
    every: list[Any] = [*own, fixed]
    for _ in range(depth):
        a, b = (every[k] for k in draw.integers(0, len(every), 2))
        ways = [lambda a, b: a + b, lambda a, b: td.tanh(a), lambda a, b: a @ b]
        every.append(ways[draw.integers(3)](a, b))
    held = [every[k] for k in draw.integers(4, len(every), 2)]
    return td.sum(every[-1] * every[-2]), held, own


def both(asked: list[Any], more: list[Any], own: Any) -> list[Look | None]:
    """What both come to, without the nodes: a list of them would count."""
    found = []
    for modules in ([looks], []):
        with in_python(*modules):
            found.append(look(asked, more, own, True))
        if found[-1] is not None:
            found[-1].nodes = [x.serial for x in found[-1].nodes]  # type: ignore[misc]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_both_ways_are_the_same(seed: int) -> None:
    draw = np.random.default_rng(seed)
    loss, held, own = network(draw, int(draw.integers(4, 120)))
    known = {id(v): (-2 * k - 2, -2 * k - 3) for k, v in enumerate(own)}
    step = own[0].node() * 2
    one, other = both([loss], [step], known)
    assert one is not None and other is not None
    assert one == other
    serials: list[Any] = one.nodes
    waits = {x.serial for x in held if x.serial in serials and x.inputs}
    assert waits <= {serials[k] for k in one.held} | {loss.serial}


def marked(x: Any) -> Any:
    with td.no_grad():
        return td.tanh(x)


def changed(x: Any) -> Any:
    v = td.param("v", init=np.zeros(3, np.float32), trainable=False)
    with td.explicit_updates():
        return v.assign(x)


@pytest.mark.parametrize("make", [changed, lambda x: x])
def test_what_is_not_told_from_values(make: Any) -> None:
    x = td.param(init=np.ones(3, np.float32))
    y = td.sum(make(x * 2))
    found = both([y, y] if make(x) is x else [y], [], {})
    assert found == [None, None]


def test_without_gradients_a_graph_looks_different() -> None:
    x = td.param(init=np.ones(3, np.float32))
    keys = []
    for y in (td.sum(marked(x * 2)), td.sum(td.tanh(x * 2))):
        one, other = both([y], [], {})
        assert one is not None and other is not None and one == other
        keys.append(one.key)
    assert keys[0] != keys[1]


def test_a_derivative_goes_on_behind_values() -> None:
    x = td.param(init=np.ones(3, np.float32))
    y = td.tanh(x * 2)
    float(td.sum(y))  # y is held, and has a value
    (g,) = td.grad(td.sum(y * y), [x])
    found = []
    for modules in ([looks], []):
        with in_python(*modules):
            seen = look([g], [], {}, False)
        assert seen is not None
        assert any(x.inputs and x.stored is not None for x in seen.nodes)
        found.append((seen.key, seen.others, seen.held))
        del seen  # its list would count
    assert found[0] == found[1]


def test_other_ops_and_other_shapes_look_different() -> None:
    x = td.param(init=np.ones((3, 3), np.float32))
    data = [td.asarray(np.ones((3, n), np.float32)) for n in (3, 3, 4)]
    ways = [x @ data[0], x @ data[1], x @ data[2], td.matmul(x, td.tanh(data[0]))]
    keys = []
    for y in ways:
        one, other = both([y], [], {})
        assert one is not None and other is not None and one.key == other.key
        keys.append(one.key)
    assert keys[0] == keys[1] and len(set(keys)) == 3
