"""A page of HTML that needs nothing else: shown by notebooks, saved, opened."""

from __future__ import annotations

import html
import json
import re
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"


class Page:
    """A page with all it needs in it: it asks no network for anything.

    Notebooks show it in a frame, `save(path)` writes it, `open()` shows it in the
    browser.
    """

    def __init__(self, content: str, height: int = 560) -> None:
        self.html, self.height = content, height

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def open(self) -> None:
        """Show the page in the browser, from a file that stays for it to read."""
        with tempfile.NamedTemporaryFile(
            "w", prefix="treadle-", suffix=".html", delete=False, encoding="utf-8"
        ) as file:
            file.write(self.html)
        # By name: few programs open a browser, and the module starts others.
        import_module("webbrowser").open(Path(file.name).as_uri())

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" '
            f'height="{self.height}" '
            'style="border: 1px solid #8886; box-sizing: border-box"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<page, {len(self.html):,} characters of HTML: save(path) writes it>"


def as_script(data: Any) -> str:
    """Data as JSON that may stand in a script of a page, whatever its strings hold.

    >>> as_script({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def library(name: str) -> str:
    """The text of a file that comes with the package."""
    return (FILES / name).read_text(encoding="utf-8")


def filled(template: str, **parts: str) -> str:
    """A template of the package with `{{name}}` replaced by the parts, all at once."""
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], library(template))
