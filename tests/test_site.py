"""The pages of the site, before it is built: gathered, linked, near the first one.

`python docs/make_site.py` builds it and follows the links of the built pages (.ci/run).
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TARGET = re.compile(r"\]\(([^)\s]+)\)")


def load_script() -> ModuleType:
    path = ROOT / "docs" / "make_site.py"
    spec = importlib.util.spec_from_file_location("make_site", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


site = load_script()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target: Path = tmp_path_factory.mktemp("site")
    site.gather(target)
    site.write_reference(target)
    return target


def anchors(text: str) -> set[str]:
    """The anchors that headings of a page have."""
    text = site.FENCE.sub("", text)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return {re.sub(r"[-\s]+", "-", title) for title in plain}


def test_no_link_of_a_page_is_broken(folder: Path) -> None:
    pages = {p: p.read_text(encoding="utf-8") for p in folder.rglob("*.md")}
    assert len(pages) > 200
    for page, text in pages.items():
        for link in TARGET.findall(site.FENCE.sub("", text)):
            place, _, anchor = link.partition("#")
            if "://" in link or (anchor and not place):
                continue
            target = Path(posixpath.normpath(page.parent / place))
            assert target.exists(), f"{page.relative_to(folder)} links to {link}"
            if anchor:
                assert anchor in anchors(pages[target]), (page.name, link)


def test_each_page_is_in_the_navigation(folder: Path) -> None:
    pages = site.gather(folder)
    entries = site.navigation(pages, {})
    named = [p for entry in entries for part in entry.values() for p in part]
    assert sorted(named) == sorted(pages)
    assert all(chosen for entry in entries[:-1] for chosen in entry.values())


def test_every_public_function_is_in_the_reference() -> None:
    listed = {
        f"{package}.{name}"
        for package, modules in site.reference().items()
        for names in modules.values()
        for name in names
    }
    assert {"treadle.relu", "treadle.grad", "treadle.nn.Linear"} <= listed
    assert {"treadle.optim.Adam", "treadle.ops.linalg.svd", "treadle.io.save"} & listed
    assert len(listed) > 700


def test_faults_of_a_built_site_are_named(tmp_path: Path) -> None:
    def page(name: str, body: str) -> None:
        (tmp_path / f"{name}.html").write_text(body)

    page("index", '<a href="a.html#x">a</a> <a href="gone.html">b</a>')
    page("a", '<p id="y"></p> <a href="b.html">b</a>')
    page("b", '<a href="c.html">c</a> <script src="https://example.org/x.js"></script>')
    page("c", '<a href="d.html">d</a>')
    page("d", "")
    assert site.faults(tmp_path) == [
        "b.html: loads https://example.org/x.js",
        "index.html: no anchor a.html#x",
        "index.html: no gone.html",
        "more than 3 clicks: d.html",
    ]
