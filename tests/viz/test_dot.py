"""What the labels and colors of a Graphviz picture tell."""

from __future__ import annotations

import re

import numpy as np

import treadle as td


def labels(text: str) -> dict[str, str]:
    return dict(re.findall(r'(n\d+) \[label="(.*?)", fill', text))


def test_labels_as_marian_and_owl_write_them() -> None:
    x = td.param("x", shape=(8, 4))
    y = td.ones((1, 4))
    assert labels(td.to_dot(td.sin(x * y) + x)) == {
        "n0": "0: parameter 'x'\\n(0, 1) [8, 4] refs=2",
        "n1": "1: constant [[1., 1., 1., 1.]]\\n(1, 0) [1, 4] refs=1",
        "n2": "2: Multiply\\n(2, 0) [8, 4] refs=1",
        "n3": "3: Sin\\n(3, 0) [8, 4] refs=1",
        "n4": "4: Add\\n(4, 0) [8, 4] refs=0",
    }


def test_an_edge_for_each_input() -> None:
    x = td.param("x", init=1.0)
    text = td.to_dot(x * x)
    assert text.count("n0 -> n1;") == 2


def test_running_and_training_on_do_not_change_a_picture() -> None:
    x = td.param("x", init=1.0)
    y = td.sin(x) * 2.0
    before = td.to_dot(y)
    float(y)
    float(td.grad(y, [x])[0])
    assert td.to_dot(y) == before


def test_a_color_for_each_family() -> None:
    x = td.param("x", shape=(2, 2))
    y = td.Variable(np.ones((2, 2), np.float32))
    z = (x.T @ y + 1.0).sum()
    colors = re.findall(r'fillcolor="(#\w+)"', td.to_dot(z))
    names = [node.op.name for node in td.nodes(z)]
    found = dict(zip(names, colors, strict=True))
    kinds = ("parameter", "constant", "PermuteDims", "Contract", "Add", "Sum")
    assert len({found[kind] for kind in kinds}) == 6
    assert found["variable"] == found["constant"]


def test_several_results_show_their_shapes() -> None:
    values, _ = td.top_k(td.ones((3,)), 2)
    assert "[2] [2]" in td.to_dot(values)
