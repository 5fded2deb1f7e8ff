"""How graphs look: the same to Python and to the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import in_python
from treadle.graph import look as looks
from treadle.graph.frame import top
from treadle.graph.look import Look, assigned, look


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


@pytest.mark.parametrize("make", [marked, td.stop_gradient, td.tanh])
def test_what_a_step_let_go_of_is_known_where_no_derivative_goes(make: Any) -> None:
    x = td.param(init=np.ones(3, np.float32))
    y = x * 2.0
    td.optim.SGD([x], lr=0.1).step(y.sum())
    one, other = both([(make(y) * x).sum()], [], {})
    assert one == other
    assert (one is None) == (make is td.tanh)


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


@pytest.mark.parametrize("seed", range(8))
def test_a_derivative_by_nodes_ends_at_these(seed: int) -> None:
    """What is older than the targets is a leaf, waiting or not, unless a derivative
    among what is derived goes on to it."""
    draw = np.random.default_rng(seed)
    x = td.param(init=np.ones(3, np.float32))
    every: list[Any] = [x.node(), td.asarray(np.ones((2, 3), np.float32))[1]]
    for _ in range(30):
        a, b = (every[int(k)] for k in draw.integers(0, len(every), 2))
        every.append(td.tanh(a * b))
        if draw.random() < 0.2:
            every[-1].numpy()
        if draw.random() < 0.2:
            (g,) = td.grad(every[-1].sum(), [a])
            every.append(g * b)
    y, keys = td.sum(every[-1] * every[-2]), []
    for by in ([every[1]], [every[12]], every[20:24], [every[-2]]):
        found = []
        for modules in ([looks], []):
            with in_python(*modules):
                seen = look([y], by, {}, True, by=by)
            assert seen is not None
            places = [node.serial for node in seen.nodes]
            found.append((places, seen.key, seen.others, seen.held))
            del seen
        assert found[0] == found[1]
        keys.append(found[0][1])
    assert len(set(keys)) == len(keys)


def test_what_is_behind_a_derivative_that_has_a_value_is_seen() -> None:
    """A derivative of a gradient that has a value, by what is newer than all that it
    reads as it is."""
    x = td.param(init=np.full(3, 0.5, np.float32))
    y = td.tanh(x * 2)
    (g,) = td.grad(td.sum(y * y), [x])
    g.numpy()
    v = td.param(init=np.ones(3, np.float32))
    h = td.grad(td.sum(g * v * g), [v, x])
    looked = []
    for modules in ([looks], []):
        with in_python(*modules):
            seen = look(h, [], {}, False)
        assert seen is not None
        assert {y.serial, g.serial} <= {node.serial for node in seen.nodes}
        looked.append((seen.key, seen.others, seen.held))
        del seen
    assert looked[0] == looked[1]


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


def test_an_update_that_another_thread_has_carried_out_is_none_to_carry_out() -> None:
    count = td.Variable(0.0)
    count.assign(count + 1.0)
    (done,) = top().pending
    float(count)
    assert not done.inputs
    count.assign(count + 1.0)
    root, owned = count * 2.0, assigned([*top().pending])
    for way in (looks._look, looks._looked):
        seen = way([root, done], 1, 1, owned, False, False, looks.MOST, -1)
        assert seen is None
        listed = [root, *top().pending]
        assert way(listed, 1, 1, owned, False, False, looks.MOST, -1) is not None
