"""The page of a profile: tracks, totals, clicks, names that are no markup."""

from __future__ import annotations

from pathlib import Path

import treadle as td
from tests.browser import browse, needs_browser
from treadle.base.events import Event
from treadle.runtime.profile import Profile


def nested() -> Profile:
    """A run with two kernels in it, one beside them on another thread."""
    return Profile(
        [
            Event("run", "run", 0, 1000, "MainThread"),
            Event("</script><b>", "kernel", 100, 400, "MainThread", 1, (), 64, 128),
            Event("tanh", "kernel", 500, 900, "MainThread", 2),
            Event("</script><b>", "kernel", 100, 300, "treadle-1", 1),
        ]
    )


@needs_browser
def test_a_time_line_tells_of_events_and_totals(tmp_path: Path) -> None:
    page = td.show_profile(nested(), path=tmp_path / "time.html")
    assert (tmp_path / "time.html").read_text() == page.html
    script = """
    const panel = document.getElementById("panel"), canvas = document.getElementById("canvas");
    found.totals = panel.innerText;
    const box = canvas.getBoundingClientRect();
    const tap = async (x, y) => {
      const at = { clientX: box.x + x * box.width, clientY: box.y + y, bubbles: true };
      for (const kind of ["pointerdown", "pointerup"])
        canvas.dispatchEvent(new PointerEvent(kind, at));
      await wait();
    };
    await tap(0.25, 22 + 16 + 18 + 6); found.kernel = panel.innerText;
    await tap(0.05, 22 + 16 + 6); found.run = panel.innerText;
    const search = document.getElementById("search");
    search.value = "tanh"; search.dispatchEvent(new Event("input"));
    found.searched = panel.innerText;
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -500, clientX: box.x + box.width / 2 }));
    found.height = box.height;
    """  # noqa: E501
    found = browse(page.html, tmp_path, script)
    assert found["errors"] == []
    assert "</script><b>" in found["totals"] and "tanh" in found["totals"]
    assert found["kernel"].startswith("</script><b>") and "64" in found["kernel"]
    assert found["run"].startswith("run") and "1.000 µs" in found["run"]
    assert "tanh" in found["searched"] and "script" not in found["searched"]
    assert found["height"] > 80


def test_a_time_line_of_nothing_is_a_page() -> None:
    assert "0" in td.show_profile(Profile([])).html
