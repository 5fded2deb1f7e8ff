"""A profile as a page: what each thread did when, to be zoomed into."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from treadle.base.events import Event
from treadle.graph.origin import Origin, describe
from treadle.runtime.profile import Profile, threads_of
from treadle.viz.page import Page, as_script, filled, library

__all__ = ["show_profile"]

MOST = 100_000  # events that are drawn, the longest: more are hardly to be seen


def show_profile(
    profile: Profile, *, path: str | Path | None = None, title: str = "profile"
) -> Page:
    """The events of a profile as a page: a track for each thread, kernels in runs.

    Scroll to zoom, drag to move, click an event for its time, line, bytes and
    operations, search by name. The page asks no network for anything; with `path` it
    is written there too.

    >>> with td.profile() as p:
    ...     _ = td.tanh(td.ones((64, 64)) @ td.ones((64, 64))).numpy()
    >>> "product[1, 64, 64, 64] tanh" in td.show_profile(p).html
    True
    """
    data = _columns(profile.events)
    data["title"], data["total"] = title, len(profile.events)
    page = Page(
        filled(
            "timeline.html",
            title=escape(title),
            style=library("page.css") + library("timeline.css"),
            data=as_script(data),
            script=library("timeline.js"),
        )
    )
    if path is not None:
        page.save(path)
    return page


def _columns(events: list[Event]) -> dict[str, Any]:
    """The longest events in order of time, as columns; strings as numbers of a list."""
    longest = sorted(events, key=lambda e: e.begin - e.end)[:MOST]
    chosen = sorted(longest, key=lambda e: (e.begin, -e.end))
    strings: dict[str, int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    lines: dict[tuple[Origin, ...], int] = {}
    for e in chosen:
        if e.origins not in lines:
            texts = dict.fromkeys(map(describe, e.origins))
            lines[e.origins] = number("\n".join(texts))
    threads = {name: k for k, name in enumerate(threads_of(chosen))}
    first = min((e.begin for e in chosen), default=0)
    return {
        "threads": list(threads),
        "name": [number(e.name) for e in chosen],
        "kind": [number(e.kind) for e in chosen],
        "begin": [e.begin - first for e in chosen],
        "ns": [e.end - e.begin for e in chosen],
        "thread": [threads[e.thread] for e in chosen],
        "depth": _depths(chosen),
        "line": [lines[e.origins] for e in chosen],
        "bytes": [e.bytes for e in chosen],
        "flops": [e.flops for e in chosen],
        "strings": list(strings),
    }


def _depths(events: list[Event]) -> list[int]:
    """The nesting depth of each event within its thread."""
    around: dict[str, list[int]] = {}
    depths = []
    for e in events:
        ends = around.setdefault(e.thread, [])
        while ends and ends[-1] <= e.begin:
            ends.pop()
        depths.append(len(ends))
        ends.append(e.end)
    return depths
