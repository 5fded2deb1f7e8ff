"""The page of a graph, as a browser has it: opened, searched, clicked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.browser import browse, needs_browser, painted
from treadle.viz.explorer import entries_of, explorer
from treadle.viz.page import Page
from treadle.viz.tree import NodeGroup, contiguous, grouped

# What the tests do in a page: its viewer, a box by the text of it, a click on one.
HANDS = """
const cy = document.getElementById("graph")._cyreg.cy;
const panel = document.getElementById("panel");
const box = (text) => cy.nodes().filter((one) => one.data("label").startsWith(text));
const click = async (text) => { box(text)[0].emit("tap"); await wait(); };
const labels = () => cy.nodes().map((one) => one.data("label"));
"""


def transformer() -> list[Any]:
    """A loss and its gradients: 943 nodes or more."""
    layers = [td.nn.TransformerEncoderLayer(16, 2, 32) for _ in range(7)]
    loss = td.nn.Sequential(*layers)(np.ones((2, 5, 16), np.float32)).sum()
    return [loss, *td.grad(loss)]


def page_of(y: Any, tmp_path: Path, **how: Any) -> str:
    page = td.show(y, browser=True, path=tmp_path / "graph.html", **how)
    assert isinstance(page, Page)
    assert (tmp_path / "graph.html").read_text() == page.html
    return page.html


def visible(of: list[Any]) -> int:
    return len(td.nodes(of))


@needs_browser
def test_a_page_tells_of_a_node_its_type_line_memory_and_value(tmp_path: Path) -> None:
    x = td.param("x", init=np.ones((2, 3), np.float32))
    loss = (td.sin(x) * 3.0).sum()
    page = page_of(loss, tmp_path, values=True, gradients=True)
    script = """
    found.labels = labels();
    await click("Sin"); found.panel = panel.innerText;
    await click("Sum"); found.sum = panel.innerText;
    """
    found = browse(page, tmp_path, HANDS + script)
    assert found["errors"] == []
    assert {"Sin\nfloat32[2, 3]", "Sum\nfloat32[]"} <= set(found["labels"])
    for part in ("float32[2, 3]", "24 bytes", "test_page.py", "sin(x)", "gradient",
                 "parameter 'x'", "Multiply"):  # fmt: skip
        assert part in found["panel"], part
    assert "15.1" in found["sum"] and "reads (1)" in found["sum"]


@needs_browser
def test_modules_open_and_close_and_a_search_goes_into_them(tmp_path: Path) -> None:
    y = transformer()
    assert visible(y) >= 943
    script = """
    found.first = labels();
    await click("gradient"); found.group = panel.innerText;
    document.getElementById("toggle").click(); await wait();
    found.opened = labels();
    document.getElementById("toggle").click(); await wait();
    found.closed = labels().length;
    const search = document.getElementById("search");
    search.value = "softmax 3"; search.dispatchEvent(new Event("input"));
    found.hits = panel.innerText;
    panel.querySelector("button.link").click(); await wait();
    found.chosen = panel.innerText; found.selected = cy.$(":selected").length;
    document.getElementById("more").click(); await wait(); found.more = labels().length;
    document.getElementById("less").click(); await wait(); found.less = labels().length;
    """
    found = browse(page_of(y, tmp_path), tmp_path, HANDS + script)
    assert found["errors"] == []
    assert len(found["first"]) == found["closed"] == found["less"] < 20
    assert "6\n65 nodes" in found["first"] and "nodes" in found["group"]
    assert len(found["opened"]) > len(found["first"]) + 7, "the layers of the gradient"
    assert "found" in found["hits"] and "Softmax" in found["hits"]
    assert found["chosen"].startswith("Softmax") and found["selected"] == 1
    assert found["more"] > found["first"].__len__()


@needs_browser
def test_a_picture_of_943_nodes_has_boxes_and_edges(tmp_path: Path) -> None:
    colors = painted(page_of(transformer(), tmp_path), tmp_path)
    assert colors["#e2e8f0"] > 10_000, "eight groups"
    assert colors["#dcfce7"] > 1000, "the sum"
    assert colors["#a9b0b7"] > 1000, "edges"


@needs_browser
def test_ten_thousand_nodes_are_a_few_boxes_that_open(tmp_path: Path) -> None:
    y = td.ones((4,))
    for _ in range(2500):
        y = td.sin(y * 1.5) + td.ones((4,))
    assert visible([y]) >= 10_000
    script = """
    found.first = labels().length;
    const begin = performance.now();
    for (let k = 0; k < 3; k += 1) {
      cy.nodes(".group")[0].emit("tap"); await wait();
      document.getElementById("toggle").click(); await wait();
    }
    found.opened = labels().length;
    """
    found = browse(page_of(y, tmp_path), tmp_path, HANDS + script)
    assert found["errors"] == []
    assert 5 < found["first"] < found["opened"] < 300


NASTY = "</script><script>errors.push('run')</script><!--<script>"


@needs_browser
def test_a_page_is_not_led_astray_by_a_name(tmp_path: Path) -> None:
    x = td.Variable(np.ones(3, np.float32), name=NASTY)
    with td.metadata(module="a.<b>&amp;", note=NASTY):
        y = td.sin(x) * td.cos(x)
    page = explorer({NASTY: entries_of([y])}, NASTY).html
    script = "await click('variable'); found.panel = panel.innerText;"
    found = browse(page, tmp_path, HANDS + script + "found.title = document.title;")
    assert found["errors"] == [] and found["title"] == NASTY
    assert NASTY in found["panel"]


@needs_browser
def test_a_program_has_the_times_of_its_steps(tmp_path: Path) -> None:
    w = td.param("w", (64, 64))
    y = td.softmax(td.tanh(td.ones((64, 64)) @ w) @ w)
    with td.profile() as profile:
        y.numpy()
    page = page_of(y, tmp_path, by="memory", optimized=True, profile=profile)
    script = """
    await click("product"); found.panel = panel.innerText;
    document.getElementById("shade").value = "ns";
    document.getElementById("shade").dispatchEvent(new Event("change"));
    found.colors = [...new Set(cy.nodes().map((one) => one.data("color")))];
    const which = document.getElementById("which"); which.value = "compiled";
    which.dispatchEvent(new Event("change")); await wait();
    found.after = labels();
    """
    found = browse(page, tmp_path, HANDS + script)
    assert found["errors"] == []
    assert re.search(r"time\s+[\d.]+ [mµ]s", found["panel"]), found["panel"]
    assert "16.4 kB" in found["panel"] and "written to" in found["panel"]
    assert any(color.startswith("hsl") for color in found["colors"])
    assert any(label.startswith("Contract") for label in found["after"])


def test_a_page_opens_where_no_notebook_is(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = td.show(td.constant(1.0) + 1.0, browser=True)
    assert isinstance(page, Page)
    (address,) = opened
    path = Path(address.removeprefix("file://"))
    assert path.read_text() == page.html
    path.unlink()
    assert page._repr_html_().startswith("<iframe srcdoc=") and "page" in repr(page)
    assert not re.search(r"(src|href)=[\"']?https?:", page.html)


def test_groups_are_runs_that_no_cycle_joins() -> None:
    paths = [("a",), ("b",), ("a",), ("b",), ("a",)]
    inputs: list[list[int]] = [[], [0], [], [2], [3]]
    order = contiguous(inputs, paths)
    assert order == [0, 2, 1, 3, 4]
    tree = grouped([paths[k] for k in order], [""] * 5)
    assert [m.name if isinstance(m, NodeGroup) else m for m in tree.members] == [
        "a",
        "b",
        4,
    ]


def test_no_group_has_more_members_than_can_be_shown() -> None:
    def widest(group: NodeGroup) -> int:
        inner = [widest(m) for m in group.members if isinstance(m, NodeGroup)]
        return max([len(group.members), *inner])

    def count(group: NodeGroup) -> int:
        return sum(count(m) if isinstance(m, NodeGroup) else 1 for m in group.members)

    for lines in ([""] * 9000, [f"a.py:{k // 500}" for k in range(9000)],
                  [f"a.py:{k % 3}" for k in range(9000)]):  # fmt: skip
        tree = grouped([()] * 9000, lines)
        assert widest(tree) <= 48 and count(tree) == 9000


def test_nodes_of_an_onnx_file_are_grouped_by_their_names(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    make, kind = onnx.helper.make_node, onnx.TensorProto.FLOAT
    value = onnx.helper.make_tensor_value_info
    nodes = [
        make("Relu", ["x"], ["a"], name="/encoder/layer.0/Relu"),
        make("Tanh", ["a"], ["b"], name="/encoder/layer.0/Tanh"),
        make("Exp", ["b"], ["y"], name="/head/Exp"),
    ]
    ports = [value("x", kind, [2])], [value("y", kind, [2])]
    graph = onnx.helper.make_graph(nodes, "g", *ports)
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)]
    )
    net = td.from_onnx(model.SerializeToString())
    y = net(td.placeholder((2,), name="x"))
    entries = {e.label: e for e in entries_of(td.nodes(y)[-1:])}
    assert entries["Tanh"].path == ("OnnxModule", "encoder", "layer.0")
    assert entries["Exp"].path == ("OnnxModule", "head")
    assert [n.op.name for n in td.select(y, onnx="/head/Exp")] == ["Exp"]
