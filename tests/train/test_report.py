"""The page of a training, and what classes are taken for which."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import treadle as td
from tests.browser import browse, needs_browser, painted
from treadle.train import Confusion, Report, confusion_matrix


def test_confusion_counts_true_and_predicted() -> None:
    scores = np.eye(3)[[0, 1, 2, 2, 0]]
    expected = [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    assert confusion_matrix([0, 1, 2, 0, 2], scores).tolist() == expected
    assert confusion_matrix([0, 1, 1], [[0.2], [0.7], [0.1]]).tolist() == [
        [1, 0],
        [1, 1],
    ]
    assert confusion_matrix([1, 0], [1, 1], classes=3).sum(0).tolist() == [0, 2, 0]
    with pytest.raises(td.ShapeError):
        confusion_matrix([0, 1], [0, 1, 1])
    for target, chosen, classes in [
        ([0.5], [1], None), ([0, 3], [0, 1], 2), ([-1], [0], None),
    ]:  # fmt: skip
        with pytest.raises(td.ArgumentError):
            confusion_matrix(target, chosen, classes)


def test_many_classes_are_told_by_pairs() -> None:
    counts = np.eye(100, dtype=np.int64) * 5
    counts[3, 7] = 9
    shown = Confusion(counts)._repr_html_()
    assert shown.count("<tr") == 1 + 1 + 1 + 100 and ">9<" in shown
    assert Confusion(counts).rows()[3][2:] == ("100.0%", "35.7%")
    with pytest.raises(td.ArgumentError):
        Confusion(counts, ["a"])


@needs_browser
def test_a_report_has_curves_epochs_and_confusion(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 4)).astype(np.float32)
    y = np.argmax(x[:, :3], 1)
    net = td.nn.Sequential(td.nn.Linear(4, 3))
    model = td.Model(net, "cross_entropy", td.optim.Adam(lr=0.05), ["accuracy"])
    names, path = ["cat", "</script><b>", "fish"], tmp_path / "report.html"
    seen: list[bool] = []
    watch = td.train.LambdaCallback(on_epoch_begin=lambda _: seen.append(path.exists()))
    history = model.fit(
        x, y, epochs=4, verbose=0, validation_split=0.2,
        callbacks=[Report(path, (x, y), names, title="<i>"), watch],
    )  # fmt: skip
    assert seen == [False, True, True, True]
    page = path.read_text()
    assert page == model.report(history, x, y, classes=names, title="<i>").html
    script = """
    found.title = document.title;
    found.curves = document.querySelectorAll("figure svg").length;
    found.confusion = document.querySelector("table.confusion").innerText;
    found.text = document.body.innerText;
    found.wide = document.documentElement.scrollWidth <= innerWidth;
    """
    found = browse(page, tmp_path, script)
    assert found["errors"] == [] and found["title"] == "<i>" and found["wide"]
    assert found["curves"] == 2 and "</script><b>" in found["confusion"]
    assert "Confusion of 200 examples" in found["text"]
    assert "the least val_loss" in found["text"] and "val_accuracy" in found["text"]
    assert "15 parameters" in found["text"]
    colors = painted(page, tmp_path)
    assert min(colors["#2f6fb0"], colors["#d9772b"]) > 250, "two curves in two figures"


def test_a_report_without_examples_or_epochs_is_a_page() -> None:
    model = td.Model(td.nn.Linear(1, 1), "mse")
    assert "Confusion" not in model.report(td.train.History()).html
    history = td.train.History()
    history.take(0, {"loss": float("nan")})
    assert "No loss is finite" in model.report(history).html
