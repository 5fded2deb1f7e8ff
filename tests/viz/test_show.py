"""Pictures: what they tell, that looking changes nothing, that large ones collapse."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

import treadle as td
from treadle.viz.layout import place


def test_values_and_gradients_are_told() -> None:
    x = td.param("x", init=2.0)
    svg = td.show(x * 3.0 + td.sin(x), values=True, gradients=True).svg
    ET.fromstring(svg)
    for part in ("parameter 'x'", "Multiply", "= 6", "grad 2.58385", "grad 1"):
        assert part in svg.replace("&#x27;", "'"), part


def test_a_picture_is_written_and_shown(tmp_path: Path) -> None:
    path = tmp_path / "z.svg"
    picture = td.show(td.constant(1.0) + 1.0, path=path)
    assert path.read_text() == picture.svg == picture._repr_svg_()


def test_a_large_graph_collapses_by_module() -> None:
    layers = [m for _ in range(30) for m in (td.nn.Linear(4, 4), td.nn.Tanh())]
    model = td.nn.Sequential(*layers)
    loss = model(np.ones((2, 4), np.float32)).sum()
    gradients = td.grad(loss)
    svg = td.show([loss, *gradients]).svg
    assert len(td.nodes([loss, *gradients])) > 200
    assert svg.count("<rect") < 200 and "nodes</text>" in svg
    assert ">0</text>" in svg and ">2</text>" in svg  # the paths of two layers


def test_boxes_of_a_layer_stand_apart() -> None:
    widths = [60.0, 80.0, 40.0, 100.0, 50.0]
    edges = [(0, 3), (1, 3), (2, 3), (2, 4), (0, 4)]
    layout = place(widths, edges)
    for a in range(5):
        for b in range(a):
            if layout.y[a] == layout.y[b]:
                apart = abs(layout.x[a] - layout.x[b])
                assert apart >= (widths[a] + widths[b]) / 2
    for a, b in edges:
        assert layout.y[a] < layout.y[b]
        assert layout.routes[a, b][0] == (layout.x[a], layout.y[a])


def test_dot_is_balanced_and_escaped() -> None:
    v = td.Variable(1.0, name='a "quoted" name')
    text = td.to_dot(v * 2.0, title='a "title"')
    assert text.count("{") == text.count("}") and "'quoted'" in text
