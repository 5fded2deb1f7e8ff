"""Where boxes stand: layers, distances, routes; and how large graphs are gathered."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET

import numpy as np

import treadle as td
from treadle.graph.operators import functions
from treadle.graph.traversal import reach
from treadle.viz.boxes import collapsed
from treadle.viz.layout import place


def test_rows_are_as_high_as_their_boxes() -> None:
    heights = [40.0, 100.0, 40.0]
    layout = place([50.0] * 3, [(0, 2), (1, 2)], heights)
    assert layout.y[0] == layout.y[1]
    assert layout.y[2] - layout.y[1] > (heights[1] + heights[2]) / 2
    assert layout.height > layout.y[2] + heights[2] / 2


def test_what_is_read_late_stands_late() -> None:
    # 0, 2, 3, 4 are a chain; 1 is read by 4 alone.
    layout = place([50.0] * 5, [(0, 2), (1, 4), (2, 3), (3, 4)])
    assert layout.y[1] == layout.y[3] > layout.y[0]


def test_random_layouts_keep_boxes_apart() -> None:
    source = random.Random(0)
    for _ in range(20):
        count = source.randrange(2, 40)
        widths = [source.uniform(20, 150) for _ in range(count)]
        edges = [
            (a, b)
            for b in range(count)
            for a in range(b)
            if source.random() < 2 / count
        ]
        layout = place(widths, edges)
        for a, b in edges:
            assert layout.y[a] < layout.y[b]
        for b in range(count):
            assert layout.x[b] - widths[b] / 2 >= 0
            assert layout.x[b] + widths[b] / 2 <= layout.width
            for a in range(b):
                if layout.y[a] == layout.y[b]:
                    apart = abs(layout.x[a] - layout.x[b])
                    assert apart > (widths[a] + widths[b]) / 2


def test_an_empty_layout_has_a_size() -> None:
    assert place([], []).width >= 0


def test_gathered_boxes_have_no_cycle_and_lose_nothing() -> None:
    layers = [td.nn.Sequential(td.nn.Linear(4, 4), td.nn.GELU()) for _ in range(12)]
    model = td.nn.Sequential(*layers)
    loss = model(np.ones((2, 4), np.float32)).sum()
    nodes = reach(functions.written_out([loss, *td.grad(loss)]))
    boxes = collapsed(nodes)
    home = {n.serial: k for k, box in enumerate(boxes) for n in box.nodes}
    assert sorted(home) == [n.serial for n in nodes]
    assert all(home[x.serial] <= home[n.serial] for n in nodes for x in n.inputs)
    # Backward, a layer is a box of its own again.
    told = [box.lines[0] for box in boxes]
    assert told.count("3.0") == 2 and len(boxes) < 120


def test_a_long_loop_is_drawn_in_few_boxes() -> None:
    z = x = td.param("x", init=1.0)
    for _ in range(2_000):
        z = td.sin(z * x)
        z = z + x
    svg = td.show(z).svg
    assert svg.count("<rect") <= 401
    ET.fromstring(svg)


def test_every_type_of_value_can_be_shown() -> None:
    x = td.asarray(np.arange(6.0).reshape(2, 3))
    for y in (x > 2, td.astype(x, "bfloat16"), td.astype(x, "complex64"), x[:0]):
        ET.fromstring(td.show(y, values=True).svg)
