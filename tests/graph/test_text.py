"""The text of graphs, and what a tensor says of itself without running."""

from __future__ import annotations

import textwrap

import numpy as np

import treadle as td


def golden(wanted: str) -> str:
    return textwrap.dedent(wanted).strip()


def test_leaves_are_told_apart() -> None:
    x = td.param("x", init=2.0)
    p = td.placeholder((2,), name="p")
    v = td.Variable([1, 2], name="v")
    big = td.constant(np.zeros((3, 4), np.float32))
    assert td.text([x, p, v, big, td.constant([1.5, -2.0])]) == golden("""
        %0 = parameter 'x' : float32[]
        %1 = placeholder 'p' : float32[2]
        %2 = variable 'v' : int64[2]
        %3 = constant ... : float32[3, 4]
        %4 = constant [ 1.5, -2. ] : float32[2]
        return %0, %1, %2, %3, %4
    """)


def test_a_draw_tells_its_seed_and_number() -> None:
    with td.options(seed=7):
        lines = td.text(td.random.uniform((2,))).splitlines()
    assert lines[0] == "%0 = draw seed=7 number=0 : uint64[2]"


def test_attributes_names_and_lines() -> None:
    x = td.name_axes(td.param("x", shape=(2, 3)), "row", "column")
    y = x.sum("row")
    y.name = "total"
    assert td.text(y, lines=True).splitlines()[-2:] == [
        "%2 = Sum(axes=(0,), keepdims=False) %1 : float32[column=3]"
        f"  # total @ test_text.py:{y.lineno}",
        "return %2",
    ]


def test_a_pending_version_shows_its_update() -> None:
    v = td.Variable([1.0, 2.0], name="v")
    v += 1
    assert td.text(v * 2) == golden("""
        %0 = variable 'v' : float32[2]
        %1 = constant 1 : float32[]
        %2 = Add %0 %1 : float32[2]
        %3 = Update('v') %0 %2 : float32[2]
        %4 = constant 2 : float32[]
        %5 = Multiply %3 %4 : float32[2]
        return %5
    """)


def test_a_cut_node_tells_what_it_was() -> None:
    x = td.param("x", init=2.0)
    y = x * x
    td.optim.SGD(lr=0.1).step(y)
    assert td.text(y) == "%0 = cut Multiply : float32[]\nreturn %0"


def test_bodies_follow_under_names_of_their_own() -> None:
    x = td.param("x", init=2.0)

    def choose(y: td.Tensor) -> td.Tensor:
        return td.cond(y > 0, lambda: y * 2.0, lambda: y)

    assert td.text(choose(choose(x.node()))) == golden("""
        %0 = parameter 'x' : float32[]
        %1 = constant 0 : float32[]
        %2 = Greater %0 %1 : bool[]
        %3 = Cond(then=@then, otherwise=@otherwise, split=1) %2 %0 %0 : (float32[])
        %4 = Output(position=0) %3 : float32[]
        %5 = constant 0 : float32[]
        %6 = Greater %4 %5 : bool[]
        %7 = Cond(then=@then 2, otherwise=@otherwise 2, split=1) %6 %4 %4 : (float32[])
        %8 = Output(position=0) %7 : float32[]
        return %8

        then:
          %0 = argument 0 : float32[]
          %1 = constant 2 : float32[]
          %2 = Multiply %0 %1 : float32[]
          return %2

        otherwise:
          %0 = argument 0 : float32[]
          return %0

        then 2:
          %0 = argument 0 : float32[]
          %1 = constant 2 : float32[]
          %2 = Multiply %0 %1 : float32[]
          return %2

        otherwise 2:
          %0 = argument 0 : float32[]
          return %0
    """)


def test_a_tree_of_results() -> None:
    x = td.param("x", init=2.0)
    assert td.text({"y": x, "z": [x + x]}).endswith("return %0, %1")


def test_repr_shows_the_value_or_the_expression_and_runs_nothing() -> None:
    x = td.param("x", init=2.0)
    y = (x + 1.0) ** 2.0 / td.sin(x)
    assert repr(y) == "Tensor(square(x + 1) / sin(x) : float32[])"
    assert y.stored is None
    value = y.numpy()
    assert repr(y) == f"Tensor({np.array2string(value)}, float32[])"
    assert repr(td.constant([1, 2])) == "Tensor([1, 2], int64[2])"
    assert repr(td.stack([x, x, x, x, x]) * 1.0).count("...") == 1


def test_the_repr_of_a_deep_graph_is_short() -> None:
    z = x = td.param("x", init=1.0)
    for _ in range(100_000):
        z = z * x + x
    assert len(repr(z)) < 120 and "..." in repr(z)
    assert len(td.text(z).splitlines()) == 200_002


def test_notebooks_show_type_line_and_value_escaped() -> None:
    x = td.param("a<b", init=1.0)
    shown = (x + 1.0)._repr_html_()
    assert "a&lt;b + 1" in shown and "test_text.py" in shown
    assert "float32[]" in shown and "a<b" not in shown
    assert "a&lt;b" in x._repr_html_() and "1." in x._repr_html_()
