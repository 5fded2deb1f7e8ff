"""Pictures by stage, by module and by the memory of the program, as SVG and for DOT."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

FORMS = ("op", "stage", "module", "memory")


def network(layers: int = 2) -> Any:
    own = [m for _ in range(layers) for m in (td.nn.Linear(4, 4), td.nn.Tanh())]
    return td.nn.Sequential(*own)(np.ones((2, 4), np.float32)).sum()


@pytest.mark.parametrize("by", FORMS)
@pytest.mark.parametrize("layers", [2, 30])
def test_every_form_is_drawn_small_and_large(by: str, layers: int) -> None:
    loss = network(layers)
    roots = [loss, *td.grad(loss)]
    svg = td.show(roots, by=by).svg
    width, height = re.findall(r'(?:width|height)="(\d+)"', svg)[:2]
    root = ET.fromstring(svg)
    assert 0 < int(width) < 20_000 and 0 < int(height) < 50_000
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert text.text
    dot = td.to_dot(roots, by=by)
    assert dot.count("{") == dot.count("}") and " -> " in dot
    assert loss.stored is None  # looking runs nothing


def test_a_row_for_each_stage() -> None:
    x = td.param("x", init=1.0)
    z = td.sin(td.cos(x)) + x
    svg = td.show(z, by="stage").svg
    for stage, count in enumerate(("1 node", "1 node", "1 node", "1 node")):
        assert f">stage {stage}<" in svg and count in svg
    assert "stage 4" not in svg
    dot = td.to_dot(z, by="stage")
    labels = re.findall(r"(\w+)\\n[^\"]*stage=(\d)", dot)
    assert labels == [("Cos", "1"), ("Sin", "2"), ("Add", "3")]
    assert dot.count("rank=same") == 4
    stages = [[n.op.name for n in stage] for stage in td.stages(z)]
    assert stages == [["parameter"], ["Cos"], ["Sin"], ["Add"]]


def test_nodes_of_a_stage_stand_in_one_row_in_one_color() -> None:
    x = td.param("x", init=1.0)
    svg = td.show(td.sin(x) + td.cos(x), by="stage").svg
    boxes = re.findall(r'<rect x="[\d.]+" y="([\d.]+)" [^>]*rx="7" fill="(#\w+)"', svg)
    assert len(boxes) == 4
    assert len(set(boxes)) == 3  # sin and cos are alike


def test_a_frame_around_each_module() -> None:
    svg = td.show(network(), by="module").svg
    assert svg.count("stroke-dasharray") == 4
    for path in "0123":
        assert f">{path}</text>" in svg
    dot = td.to_dot(network(), by="module")
    clusters = re.findall(r'subgraph cluster_\d \{\n\s+label="(\d)"', dot)
    assert clusters == ["0", "1", "2", "3"]
    inside = dot.split("subgraph cluster_0")[1].split("}")[0]
    assert "0.weight" in inside and "Contract" in inside


def test_what_is_outside_of_modules_is_told() -> None:
    svg = td.show(td.sin(td.constant(1.0)), by="module").svg
    assert "outside of modules" in svg


def test_steps_of_one_place_in_memory_have_one_color() -> None:
    x = td.ones((64, 64))
    y = x
    for _ in range(6):
        y = td.tanh(y @ x)
    dot = td.to_dot(y, by="memory")
    found = re.findall(r'block (\d+)", fillcolor="(#\w+)"', dot)
    assert len(found) >= 5
    colors = dict(found)
    assert all(colors[block] == color for block, color in found)
    assert 1 < len(colors) < len(found)  # blocks are used again
    svg = td.show(y, by="memory").svg
    assert "block 0 at 0" in svg and "float32[64, 64] result" in svg
    assert "product[1, 64, 64, 64] tanh" in svg


def test_the_optimized_graph_stands_beside_in_the_same_form(tmp_path: Path) -> None:
    x = td.param("x", init=1.0)
    z = td.log(td.exp(x)) * 1.0 + td.sin(x)
    plain = td.show(z, by="stage").svg
    path = tmp_path / "both.svg"
    both = td.show(z, by="stage", optimized=True, path=path).svg
    assert both.count(">stage 0<") == 2 and len(both) > len(plain)
    assert path.read_text() == both


def test_another_form_is_refused() -> None:
    for look in (td.show, td.to_dot):
        with pytest.raises(td.ArgumentError, match="by one of op, stage"):
            look(td.constant(1.0) + 1.0, by="color")
