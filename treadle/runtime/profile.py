"""Profiles: time by kernel, by stage of compilation and by line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.base.events import Event, watch
from treadle.base.notebook import table
from treadle.graph.origin import describe, line_of

__all__ = ["Profile", "profile"]

KINDS = ("kernel", "line", "compile", "run")
STEPS = ("kernel", "numpy")  # kinds of events that compute
WIDE = 60  # characters of a user's line in a table


@dataclass(frozen=True)
class Timed:
    """Steps with something in common: how often they ran, and what they took.

    `seconds` are by the clock, from the first part of each step to its last, `busy`
    those of all threads. `bytes` and `flops` are of all calls, 0 if not known.
    """

    name: str
    calls: int
    seconds: float
    busy: float
    bytes: int
    flops: int
    lines: tuple[str, ...]


class Profile:
    """A profile of `with td.profile() as p`: `p.events`, tables and a trace."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def by_kernel(self) -> list[Timed]:
        """The steps by what they do, those that took longest first."""
        return self._timed(STEPS, lambda e: e.name)

    def by_line(self) -> list[Timed]:
        """The steps by the user's line that most of each computes."""
        return self._timed(STEPS, _line)

    def by_stage(self) -> list[Timed]:
        """The stages of compilation."""
        return self._timed(("compile",), lambda e: e.name)

    def runs(self) -> list[Timed]:
        """The runs of engines: with what they compiled, where they did."""
        return self._timed(("run",), lambda e: e.name)

    def _timed(self, kinds: Sequence[str], key: Callable[[Event], str]) -> list[Timed]:
        groups: dict[str, dict[Any, list[Event]]] = {}
        for k, event in enumerate(self.events):
            if event.kind in kinds:
                parts = groups.setdefault(key(event), {})
                parts.setdefault(event.number or -1 - k, []).append(event)
        rows = [_sum(name, list(calls.values())) for name, calls in groups.items()]
        return sorted(rows, key=lambda one: -one.seconds)

    def table(self, by: str = "kernel", most: int = 20) -> str:
        """A table as text by "kernel", "line", "compile" (stages of it) or "run".

        Bandwidth counts all that a step reads and writes as if it moved once,
        operations those of the op as it is written: neither is what a machine did.
        """
        ways = self.by_kernel, self.by_line, self.by_stage, self.runs
        if by not in KINDS:
            raise ArgumentError(f"a table is by one of {', '.join(KINDS)}, not {by!r}")
        rows = ways[KINDS.index(by)]()
        total = sum(row.seconds for row in rows)
        head = f"{'share':>6} {'ms':>10} {'calls':>6} {'us each':>9} "
        steps = by in ("kernel", "line")
        head += f"{'GB/s':>7} {'GFLOP/s':>8}  " if steps else " "
        lines = [head + by]
        for row in rows[:most]:
            text = f"{row.seconds / total if total else 0:6.1%} "
            text += f"{row.seconds * 1e3:10.3f} {row.calls:6} "
            text += f"{row.seconds / row.calls * 1e6:9.1f} "
            if steps:
                text += f"{_rate(row.bytes, row.seconds):>7} "
                text += f"{_rate(row.flops, row.seconds):>8} "
            lines.append(f"{text} {row.name}" + _where(row, by))
        if len(rows) > most:
            rest = sum(row.seconds for row in rows[most:])
            lines.append(
                f"{rest / total:6.1%} {rest * 1e3:10.3f}  {len(rows) - most} more"
            )
        lines.append(f"{'':6} {total * 1e3:10.3f}  ms in all")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        steps = sum(e.kind in STEPS for e in self.events)
        return f"<profile: {steps} parts of steps; print it, or .save('trace.json')>"

    def _repr_html_(self) -> str:
        kernels = self.by_kernel()
        total = sum(row.seconds for row in kernels) or 1.0
        rows = [
            (
                f"{row.seconds / total:.1%}",
                f"{row.seconds * 1e3:.3f}",
                row.calls,
                f"{row.seconds / row.calls * 1e6:.1f}",
                _rate(row.bytes, row.seconds),
                _rate(row.flops, row.seconds),
                row.name,
                _where(row, "kernel").strip(),
            )
            for row in kernels[:20]
        ]
        head = ("share", "ms", "calls", "\N{MICRO SIGN}s each", "GB/s", "GFLOP/s")
        more = f", the first 20 of {len(kernels)}" if len(kernels) > 20 else ""
        caption = f"kernels, {total * 1e3:.3f} ms in all{more}"
        return table(rows, (*head, "kernel", "line"), range(6), caption)

    def trace(self) -> dict[str, Any]:
        """The events in the format of Chrome's and Perfetto's traces, by threads."""
        threads = {name: k for k, name in enumerate(threads_of(self.events))}
        first = min((e.begin for e in self.events), default=0)
        process = os.getpid()
        events: list[dict[str, Any]] = []
        for name, k in threads.items():
            common = {"ph": "M", "pid": process, "tid": k}
            events.append({**common, "name": "thread_name", "args": {"name": name}})
            events.append(
                {**common, "name": "thread_sort_index", "args": {"sort_index": k}}
            )
        for e in sorted(self.events, key=lambda e: (e.begin, -e.end)):
            about: dict[str, Any] = {}
            lines = [describe(origin) for origin in e.origins]
            if lines:
                about["lines"] = lines
            if e.bytes:
                about["bytes"] = e.bytes
            if e.flops:
                about["flops"] = e.flops
            events.append(
                {
                    "name": e.name,
                    "cat": e.kind,
                    "ph": "X",
                    "ts": (e.begin - first) / 1e3,
                    "dur": (e.end - e.begin) / 1e3,
                    "pid": process,
                    "tid": threads[e.thread],
                    "args": about,
                }
            )
        return {"traceEvents": events, "displayTimeUnit": "ns"}

    def save(self, path: str | Path) -> None:
        """Write the trace as JSON: ui.perfetto.dev and chrome://tracing open it."""
        Path(path).write_text(json.dumps(self.trace()), encoding="utf-8")


def threads_of(events: Iterable[Event]) -> list[str]:
    """The threads in the order in which they are drawn: callers before workers."""
    names = dict.fromkeys(e.thread for e in sorted(events, key=lambda e: e.begin))
    return sorted(names, key=lambda name: name.startswith("treadle-"))


def _sum(name: str, calls: Sequence[Sequence[Event]]) -> Timed:
    """The sum of the calls with a name in common; each is a step's parts."""
    seconds = sum(max(e.end for e in c) - min(e.begin for e in c) for c in calls)
    busy = sum(e.end - e.begin for parts in calls for e in parts)
    size, flops = (sum(getattr(c[0], k) for c in calls) for k in ("bytes", "flops"))
    lines = dict.fromkeys(o for parts in calls for o in parts[0].origins)
    described = dict.fromkeys(map(describe, lines))
    return Timed(
        name, len(calls), seconds / 1e9, busy / 1e9, size, flops, tuple(described)
    )


def _line(event: Event) -> str:
    """The line that most of a step computes."""
    place = line_of(event.origins[0]) if event.origins else None
    return describe(event.origins[0]) if place else "(no line)"


def _where(row: Timed, by: str) -> str:
    """The lines of a kernel, shortened; a table by lines has them as names."""
    if by != "kernel" or not row.lines:
        return ""
    first = row.lines[0]
    shown = Path(first.partition(": ")[0]).name
    more = f" and {len(row.lines) - 1} more lines" if len(row.lines) > 1 else ""
    source = first.partition(": ")[2]
    if len(source) > WIDE:
        source = source[: WIDE - 3] + "..."
    return f"   {shown}: {source}{more}"


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds / 1e9:.1f}" if count and seconds else ""


@contextmanager
def profile() -> Iterator[Profile]:
    """Note what compiles and runs within, in all threads of this process.

    Each part of each step with its thread, its time to the ns, the lines it computes,
    and the stages of whatever is compiled. Reading the clock costs some 60 ns a part,
    noting it down 1 to 2 us, outside of what is measured; nothing if nobody watches.

    >>> x = td.ones((64, 64))
    >>> with td.profile() as p:
    ...     _ = td.tanh(x @ x).numpy()
    >>> [(row.name, row.calls, row.flops) for row in p.by_kernel()]
    [('product[1, 64, 64, 64] tanh', 1, 524288)]
    """
    with watch() as log:
        yield Profile(log)
