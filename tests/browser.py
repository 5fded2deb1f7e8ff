"""Pages in a headless browser: what they become, what clicks do, how they look."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
# A browser that may ask nobody: what a page needs must be in it.
OFFLINE = ("--host-resolver-rules=MAP * ~NOTFOUND", "--no-first-run")

REPORT = """
<script>
addEventListener("load", async () => {
  const wait = () => new Promise((done) => setTimeout(done, 50));
  const found = { errors: window.errors };
  try { await (async () => { %s })(); }
  catch (error) { found.errors.push(String(error)); }
  document.documentElement.dataset.found = JSON.stringify(found);
});
</script>
"""
ERRORS = """<head><script>
window.errors = [];
const note = (event) => errors.push(event.message || String(event.target.src));
addEventListener("error", note, true);
</script>"""


def browse(
    page: str, folder: Path, script: str, *, picture: str = ""
) -> dict[str, Any]:
    """What a script puts into `found` in a page; with `picture` a PNG is made, too.

    `found["errors"]` has what the page failed by.
    """
    path = folder / "page.html"
    begun = page.replace("<head>", ERRORS, 1)
    path.write_text(begun.replace("</body>", REPORT % script + "</body>"))
    dom = _run(path, folder, "--dump-dom")
    if picture:
        _run(path, folder, f"--screenshot={folder / picture}", "--window-size=1300,850")
    match = re.search(r'data-found="([^"]*)"', dom)
    assert match, dom[-2000:]
    found: dict[str, Any] = json.loads(unescape(match[1]))
    return found


def _run(path: Path, folder: Path, *words: str) -> str:
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", *OFFLINE]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*command, *words, path.as_uri()], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
