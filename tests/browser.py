"""Pages in a headless browser: what they become, what clicks do, how they look."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from collections import Counter
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


COLORS = """
const image = document.images[0];
const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
const context = canvas.getContext("2d");
context.drawImage(image, 0, 0);
const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
const counts = new Uint32Array(1 << 24);
for (let k = 0; k < data.length; k += 4)
  counts[(data[k] << 16) | (data[k + 1] << 8) | data[k + 2]] += 1;
found.colors = [];
counts.forEach((count, color) => count > 99 && found.colors.push([color, count]));
image.remove();
"""


def painted(page: str, folder: Path, height: int = 850) -> Counter[str]:
    """How many pixels of each color, "#rrggbb", a picture of a page has: 100 or more.

    What is drawn on a canvas is no part of a document, so only a picture tells of it.
    """
    path, picture = folder / "page.html", folder / "page.png"
    path.write_text(page)
    _run(path, folder, f"--screenshot={picture}", f"--window-size=1300,{height}")
    data = b64encode(picture.read_bytes()).decode()
    shown = f"<head></head><body><img src='data:image/png;base64,{data}'></body>"
    colors = browse(shown, folder, COLORS)["colors"]
    return Counter({f"#{color:06x}": n for color, n in colors})


def browse(page: str, folder: Path, script: str) -> dict[str, Any]:
    """What a script puts into `found` in a page.

    `found["errors"]` has what the page failed by.
    """
    path = folder / "page.html"
    begun = page.replace("<head>", ERRORS, 1)
    path.write_text(begun.replace("</body>", REPORT % script + "</body>"))
    dom = _run(path, folder, "--dump-dom")
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
