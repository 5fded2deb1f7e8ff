"""What notebooks show: displays as HTML, errors in ten lines, a bar; as a picture."""

from __future__ import annotations

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.browser import browse, needs_browser, painted
from treadle.base.notebook import brief_traceback, table
from treadle.train import progress

CELLS = [
    """
import numpy as np, treadle as td
rng = np.random.default_rng(0)
x = rng.standard_normal((120, 3)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = td.nn.Sequential(td.nn.Linear(3, 8), td.nn.Tanh(), td.nn.Linear(8, 2))
model = td.Model(net, "cross_entropy", metrics=["accuracy"])
model.fit(x, y, epochs=3, validation_split=0.2)""",
    "model",
    "td.computation(net(p := td.placeholder((2, 3), name='p')), p)",
    "td.memory(net(x).sum())",
    "td.show(net(x), browser=True)",
    """
def apply(x):
    y = x * 2
    return net(y)

apply(td.ones((5, 4)))""",
]


class Balanced(HTMLParser):
    """A reader of HTML that fails where a tag is closed that was not opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def text_of(shown: str) -> str:
    reader = Balanced()
    reader.feed(shown)
    assert not reader.open, reader.open
    return reader.text


def executed(folder: Path) -> Any:
    """The notebook with its outputs."""
    client = pytest.importorskip("nbclient")
    form = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    exceptions = pytest.importorskip("nbclient.exceptions")
    resources = {"metadata": {"path": str(Path(__file__).parents[1])}}
    env = {k: v for k, v in os.environ.items() if k != "TREADLE_TRACEBACK"}
    for tries in (2, 1):  # a kernel's first messages can be lost before anybody listens
        book = form.v4.new_notebook()
        book.cells = [form.v4.new_code_cell(cell.strip()) for cell in CELLS]
        run = client.NotebookClient(
            book,
            allow_errors=True,
            kernel_name="python3",
            resources=resources,
            timeout=90,
        )
        try:
            run.execute(env=env)
            break
        except exceptions.CellTimeoutError:
            if tries == 1:
                raise
    return book


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return executed(tmp_path_factory.mktemp("book"))


def test_a_notebook_shows_tables_curves_and_pages(book: Any) -> None:
    shown = []
    for cell in book.cells[:-1]:
        errors = [o for o in cell.outputs if o.output_type == "error"]
        assert not errors, "\n".join(errors[0].traceback)
        shown.append([o for o in cell.outputs if o.output_type == "execute_result"])
    (history,), (model,), (call,), (memory,), (page,) = shown
    assert history.data["text/html"].count("<svg") == 2, "loss and accuracy"
    assert "Linear" in text_of(model.data["text/html"])
    assert "float32[2, 3]" in text_of(call.data["text/html"])
    assert "workspace" in text_of(memory.data["text/html"])
    assert page.data["text/html"].startswith("<iframe srcdoc=")
    told = str(book.cells[0].outputs)
    assert "epoch 3/3: loss" in told and "Output()" in told, "lines, and the bar"
    assert "Warning" not in told


def test_a_notebook_bar_has_no_thread_that_draws_it() -> None:
    """A line printed while another thread drew went into the bar, and with it."""
    bar = progress._bar(progress._Cell(quiet=False), True)
    assert not bar.live.auto_refresh


def test_a_shape_error_in_a_notebook_is_ten_lines(book: Any) -> None:
    (error,) = book.cells[-1].outputs
    lines = "\n".join(error.traceback).splitlines()
    assert len(lines) <= 10, lines
    told = re.sub(r"\x1b\[\d+m", "", "\n".join(lines))
    assert "Cell In[6], line 5" in told and "Cell In[6], line 3 in apply" in told
    assert "got 4 columns, takes 3" in told and "return net(y)" in told
    assert "site-packages" not in told and "/tmp" not in told


@needs_browser
def test_a_notebook_is_seen_in_a_browser(book: Any, tmp_path: Path) -> None:
    exporter = pytest.importorskip("nbconvert").HTMLExporter(
        mathjax_url="", require_js_url=""
    )
    page, _ = exporter.from_notebook_node(book)
    script = """
    await wait();
    found.curves = document.querySelectorAll("svg path").length;
    found.tables = document.querySelectorAll("table").length;
    found.heights = [...document.querySelectorAll("svg, table, iframe")]
      .map((one) => one.getBoundingClientRect().height);
    const inner = document.querySelector("iframe").contentDocument;
    found.boxes = inner.body.dataset.shown;
    const cell = document.querySelector("iframe").parentElement;
    found.over = cell.scrollWidth - cell.clientWidth;
    """
    found = browse(page, tmp_path, script)
    assert found["curves"] >= 4 and found["tables"] >= 4
    assert min(found["heights"]) > 10 and int(found["boxes"]) >= 5
    assert found["over"] == 0, "a bar below the page of a graph"
    colors = painted(page, tmp_path, height=3600)
    curves, graph = ("#2f6fb0", "#d9772b"), ("#fde68a", "#fbcfe8")
    assert min(colors[one] for one in curves) > 500
    assert min(colors[one] for one in graph) > 3000, "parameters and products"


def test_displays_are_html_whatever_names_hold() -> None:
    name = "<script>alert(1)</script>"
    p = td.placeholder((2, 3), name=name)
    call = td.computation({"y": td.sin(p)}, p)
    double = td.function(lambda x: x * 2.0)
    double(td.ones(3))
    with td.profile() as profile:
        td.tanh(td.ones((64, 64)) @ td.ones((64, 64))).numpy()
    history = td.train.History()
    for k in range(30):
        history.take(k, {name: 1.0 / (k + 1), "val_" + name: 2.0})
    module = td.nn.Sequential(td.nn.Linear(2, 3))
    model = td.Model(module, "mse")
    summary = model.summary()
    for shown, part in [
        (call, "float32[2, 3]"), (double, "float32[3]"), (td.memory(call), "bytes"),
        (profile, "tanh"), (history, "30"), (summary, "9 parameters"),
        (model, "loss mse"),
    ]:  # fmt: skip
        found = shown._repr_html_()
        assert part in text_of(found), part
        assert name not in found
    assert repr(summary) == str(summary) and "..." in history._repr_html_()
    assert table([("a",)], ["<b>"], caption="&").count("&lt;b&gt;") == 1


def test_a_traceback_is_brief_unless_another_error_caused_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.base.notebook._FULL", False)

    def deep(depth: int) -> Any:
        return td.ones(3) @ td.ones((4, 4)) if depth == 0 else deep(depth - 1)

    with pytest.raises(td.ShapeError) as caught:
        deep(5)
    lines = caught.value._render_traceback_()
    assert len(lines) <= 10 and "more calls" in "".join(lines)
    assert "deep" in "".join(lines) and "do not meet" in "".join(lines)
    error = RuntimeError("x")
    error.__cause__ = ValueError("the cause")
    assert "the cause" in "\n".join(brief_traceback(error))


def test_history_draws_each_number_with_its_validation() -> None:
    history = td.train.History()
    for k in range(3):
        history.take(k, {"loss": 1.0, "val_loss": 2.0, "lr": np.float32(0.1)})
    loss, lr = history.curves()
    assert "val_loss" in loss and "val_loss" not in lr
