"""The documentation as a site: `python docs/make_site.py [FOLDER]`.

Needs the extra `docs` (`pip install -e ".[docs]"`) and no network; the folder is
`build/site` unless another is named. Pages are gathered from where they are written:
`docs/`, the files at the top, READMEs of packages, examples. The API reference is a
page for each module that public names come from. Then every link of the built pages is
followed: a broken one, something loaded from elsewhere, or a page more than three
clicks from the first, is an error. `--pages` only gathers the pages: without the extra.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import posixpath
import re
import shutil
import sys
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "treadle", "treadle.nn", "treadle.nn.functional", "treadle.nn.init",
    "treadle.optim", "treadle.optim.schedules", "treadle.data", "treadle.io",
    "treadle.train", "treadle.distributed", "treadle.ops.fft", "treadle.ops.linalg",
    "treadle.ops.random",
]  # fmt: skip
CLICKS = 3
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)

SECTIONS = {  # of the navigation; what no section names is in "More"
    "Guide": "guide computations state data training recurrent transformers batching",
    "Topics": "arrays axes linear-algebra precision memory files onnx distributed",
    "Inspecting": "inspecting profiling rewriting to-machine-code command-line "
    "environment",
    "Coming from": "from-pytorch from-dynet heritage",
    "Examples": "gallery sentiment examples/*",
    "Extending": "howto/* architecture glossary miniature contributing packages/*",
    "Project": "status figures campaigns benchmarks changelog security",
}


def sources() -> dict[Path, str]:
    """The files that are pages, each with its place on the site."""
    pages = {ROOT / "README.md": "index.md", ROOT / "docs" / "README.md": "overview.md"}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        pages.setdefault(path, path.relative_to(ROOT / "docs").as_posix())
    for name in ("CONTRIBUTING", "CHANGELOG", "SECURITY"):
        pages[ROOT / f"{name}.md"] = f"{name.lower()}.md"
    pages[ROOT / "examples" / "README.md"] = "gallery.md"
    for path in sorted((ROOT / "examples").glob("*.py")):
        pages[path] = f"examples/{path.stem}.md"
    pages[ROOT / "docs" / "miniature.py"] = "miniature.md"
    pages[ROOT / "benchmarks" / "README.md"] = "benchmarks.md"
    pages[ROOT / "benchmarks" / "FIGURES.md"] = "figures.md"
    pages[ROOT / "tests" / "CAMPAIGNS.md"] = "campaigns.md"
    for path in sorted((ROOT / "treadle").rglob("README.md")):
        package = path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        pages[path] = f"packages/{package}.md"
    return pages


def relinked(text: str, path: Path, pages: dict[Path, str], files: set[Path]) -> str:
    """A page whose links lead to pages of the site; `files` gets the pictures it shows.

    What is no page (a source file) keeps its words and loses its link.
    """
    here = posixpath.dirname(pages[path])

    def link(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        place, _, anchor = target.partition("#")
        if not place or "://" in target or target.startswith("mailto:"):
            return match[0]
        found = (path.parent / place).resolve()
        found = found / "README.md" if found.is_dir() else found
        if picture or found.suffix == ".svg":
            files.add(found)
            pages.setdefault(found, f"pictures/{found.name}")
        if found not in pages:
            return words
        target = posixpath.relpath(pages[found], here or ".")
        return f"{picture}[{words}]({target}{'#' if anchor else ''}{anchor})"

    parts = FENCE.split(text)
    return "".join(p if p.startswith("```") else LINK.sub(link, p) for p in parts)


def gather(target: Path) -> list[str]:
    """Write all pages below a folder; their places."""
    pages, files = sources(), set[Path]()
    for path, place in list(pages.items()):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            name = path.relative_to(ROOT).as_posix()
            text = f"# {path.stem}\n\n`{name}`\n\n```python\n{text}```\n"
        else:
            text = relinked(text, path, pages, files)
        write(target / place, text)
    for path in files:
        (target / "pictures").mkdir(exist_ok=True)
        shutil.copy(path, target / pages[path])
    return [place for path, place in pages.items() if path not in files]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def owner(package: str, name: str, value: Any) -> tuple[str, str]:
    """The module and the name there of a public object: where it is defined."""
    plain = inspect.unwrap(value) if callable(value) else value
    own = getattr(plain, "__name__", name)
    if inspect.isclass(plain):
        return (plain.__module__, own) if own != "name" else (package, name)
    code = getattr(plain, "__code__", None)
    if code is None or not Path(code.co_filename).is_relative_to(ROOT / "treadle"):
        return package, name
    place = Path(code.co_filename).relative_to(ROOT).with_suffix("").as_posix()
    return place.replace("/", ".").removesuffix(".__init__"), own


def reference() -> dict[str, dict[str, dict[str, str]]]:
    """By package and module: the public names, each with its name in that module."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    seen: set[tuple[str, str]] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            where, own = owner(package, name, value)
            if (
                callable(value)
                and where.startswith("treadle.")
                and (where, own) not in seen
            ):
                seen.add((where, own))
                found.setdefault(package, {}).setdefault(where, {})[name] = own
    return found


def write_reference(target: Path) -> dict[str, list[str]]:
    """Write the pages of the API reference; by package their places."""
    places: dict[str, list[str]] = {}
    for package, modules in reference().items():
        short = short_name(package)
        lines = [f"# {short}", "", sys.modules[package].__doc__ or "", ""]
        places[short] = [f"api/{package}/index.md"]
        for where, names in sorted(modules.items()):
            page = f"{where.removeprefix('treadle.')}.md"
            places[short].append(f"api/{package}/{page}")
            listed = ", ".join(f"`{short}.{n}`" for n in names)
            lines.append(f"- [{where}]({page}): {listed}")
            text = [f"# {where.rpartition('.')[2]}", "", f"Public as {listed}.", ""]
            for own in names.values():
                text += [f"::: {where}.{own}", ""]
            write(target / "api" / package / page, "\n".join(text))
        write(target / "api" / package / "index.md", "\n".join(lines) + "\n")
    return places


def short_name(package: str) -> str:
    return package.replace("treadle.ops", "treadle").replace("treadle", "td")


def navigation(pages: list[str], api: dict[str, list[str]]) -> list[Any]:
    """The navigation of the site: sections with their pages."""
    rest = [p for p in pages if p not in ("index.md", "overview.md")]
    entries: list[Any] = [{"Treadle": ["index.md", "overview.md"]}]
    for section, names in SECTIONS.items():
        chosen = []
        for name in names.split():
            folder = name.removesuffix("*")
            fits = [
                p
                for p in rest
                if p == f"{name}.md" or (p.startswith(folder) and "*" in name)
            ]
            chosen += fits
            rest = [p for p in rest if p not in fits]
        entries.append({section: chosen})
    if rest:
        entries.append({"More": rest})
    entries.append({"API": [{package: places} for package, places in api.items()]})
    return entries


def settings(target: Path, folder: Path, nav: list[Any]) -> dict[str, Any]:
    """The settings of mkdocs: no fonts and no scripts from elsewhere."""
    python = {
        "paths": [str(ROOT)],
        "options": {
            "show_root_heading": True,
            "show_root_full_path": False,
            "show_source": False,
            "show_bases": False,
            "heading_level": 2,
            "separate_signature": True,
            "members_order": "source",
            "docstring_style": None,
            "extensions": [str(ROOT / "docs" / "site_examples.py")],
        },
    }
    return {
        "site_name": "Treadle",
        "docs_dir": str(target),
        "site_dir": str(folder),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.indexes", "navigation.prune", "navigation.top"],
            "palette": {"scheme": "default", "primary": "blue grey"},
        },
        "plugins": [
            {"search": {}},
            {"mkdocstrings": {"handlers": {"python": python}}},
        ],
        "markdown_extensions": [
            "tables",
            "pymdownx.highlight",
            "pymdownx.superfences",
            {"toc": {"permalink": True}},
        ],
        "nav": nav,
    }


class Page(HTMLParser):
    """The links and the anchors of a built page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: set[str] = set()  # scripts, styles and pictures
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {k: v or "" for k, v in attrs}
        self.anchors.update(given[k] for k in ("id", "name") if k in given)
        target = given.get("href" if tag in ("a", "link") else "src")
        if target and tag in ("a", "link", "img", "script"):
            self.links.append(target)
            if tag != "a" and given.get("rel") not in ("canonical", "next", "prev"):
                self.loads.add(target)


def faults(folder: Path) -> list[str]:
    """The broken links of a built site, what it loads from elsewhere, far pages."""
    built = [p for p in sorted(folder.rglob("*.html")) if p.name != "404.html"]
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in built}
    found: list[str] = []
    nexts: dict[Path, set[Path]] = {p: set() for p in pages}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads:
                    found.append(f"{path.relative_to(folder)}: loads {link}")
                continue
            target = (
                (path.parent / unquote(parts.path)).resolve() if parts.path else path
            )
            anchor = unquote(parts.fragment)
            if not target.exists():
                found.append(f"{path.relative_to(folder)}: no {link}")
            elif target in pages:
                nexts[path].add(target)
                if anchor not in pages[target].anchors and not anchor.startswith("__"):
                    found.append(f"{path.relative_to(folder)}: no anchor {link}")
    steps = clicks(folder / "index.html", nexts)
    far = [p for p in pages if steps.get(p, CLICKS + 1) > CLICKS]
    return found + [f"more than {CLICKS} clicks: {p.relative_to(folder)}" for p in far]


def clicks(first: Path, nexts: dict[Path, set[Path]]) -> dict[Path, int]:
    """How many links lead from the first page to each other, at least."""
    steps, waiting = {first: 0}, deque([first])
    while waiting:
        page = waiting.popleft()
        for target in nexts[page]:
            if target not in steps:
                steps[target] = steps[page] + 1
                waiting.append(target)
    return steps


def build(folder: Path) -> list[str]:
    """Build the site; its faults."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    target = folder.with_name(f"{folder.name}-pages")
    shutil.rmtree(target, ignore_errors=True)
    pages = gather(target)
    nav = navigation(pages, write_reference(target))
    given = settings(target, folder, nav)
    config = target.with_suffix(".yml")
    config.write_text(json.dumps(given), encoding="utf-8")
    build_site(load_config(str(config)))
    return faults(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/make_site.py")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--pages", action="store_true", help="only gather the pages")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    if chosen.pages:
        print("\n".join(gather(folder)))
        return 0
    wrong = build(folder)
    print("\n".join(wrong[:50]))
    print(f"{len(list(folder.rglob('*.html')))} pages in {folder}, {len(wrong)} faults")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
