"""A program with machine code and memory: what one native call runs.

All pointers and sizes of all steps stand in one table of integers. A run takes a lease
of the arena, fills in the addresses in one array expression, and calls the runner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import accumulate
from typing import Any

import numpy as np

from treadle.engines.native.code import Code, coded
from treadle.engines.native.jit import compile_functions
from treadle.engines.native.kept import Kept, Packed
from treadle.engines.native.run import FIELDS, Run, Tables
from treadle.engines.native.timing import Key, Told, told
from treadle.graph.body import bodies
from treadle.graph.origin import Origin
from treadle.program.alias import overwrites
from treadle.program.memory import Plan, Range, plan
from treadle.program.program import Fallback, Launch, Program
from treadle.rewrite.record import stage

__all__ = ["Linked"]

Arrays = Sequence[np.ndarray[Any, Any]]


class Linked:
    """A program whose arena is planned and, once linked, whose kernels are compiled."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # Places of what an earlier program could have kept, and what inside of calls.
        self.again: Sequence[int] = ()
        self.inside: Sequence[tuple[int, int, int]] = ()
        self.lines: Mapping[Key, int] = {}  # where its graph's origins are found
        with stage("write code"):
            steps = program.steps
            codes = [() if isinstance(s, Fallback) else coded(s) for s in steps]
        self.codes = codes
        # Of each step with bodies, by the number of the body: its program, and what
        # that is given.
        self.inner = {
            k: {
                body.number: (Linked(own.program), own.given)
                for body, own in zip(bodies(s.op).values(), s.bodies, strict=True)
            }
            for k, s in enumerate(steps)
            if isinstance(s, Fallback) and s.bodies
        }
        self.within: list[Linked] = [
            x for own in self.inner.values() for x, _ in own.values()
        ]
        every = [c for own in codes for c in own]
        texts: dict[str, str] = {
            name: text for c in every for name, text in c.texts.items()
        }
        for inner in self.within:
            texts |= inner.texts
        self.texts: dict[str, str] = texts
        self.scratch: int = max((c.scratch for c in every), default=0)
        counts = list(map(len, codes))
        starts = accumulate(counts, initial=0)
        # Of each step: its first record, and how many it has.
        self.spans = list(zip(starts, counts, strict=False))
        with stage("plan memory"):
            self._place_buffers(codes)
        self.kept = Kept(self._packed(codes))

    def link(self) -> None:
        """Compile the kernels: what only plans does not need them."""
        with stage("machine code"):
            self._fill(compile_functions(self.texts))

    def _fill(self, functions: dict[str, int]) -> None:
        # Kept: the code of a function goes with the last of its addresses.
        self.functions = functions
        for inner in self.within:
            inner._fill(functions)
        self._fill_table(self.codes, self.functions)
        self.told: list[Told] | None = None
        self.runs = _segments(self.codes)
        self.tables: list[Tables] = []  # of no run at this moment
        self.copies = {
            step.written[0]: self.spans[k][0]
            for k, step in enumerate(self.program.steps)
            if isinstance(step, Launch) and step.copies
        }

    def workspace(self, threads: int) -> int:
        """The bytes that a run needs beside arguments and results."""
        inner = max((x.workspace(threads) for x in self.within), default=0)
        return self.plan.size + self.scratch * threads + inner

    @property
    def arena(self) -> int:
        """The bytes of planned memory: a loop has that of its body beside its own."""
        return self.plan.size + max((x.arena for x in self.within), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and the constants, which stay between runs."""
        tables = self.records, self.table, self.slots, self.which, self.shifts
        own = sum(x.nbytes for x in (*tables, *self.constants.values()))
        return own + sum(x.nbytes for x in self.within)

    # -- what never changes ----------------------------------------------------------

    def _place_buffers(self, codes: Sequence[Sequence[Code]]) -> None:
        """Plan the arena, by the first and the last step of each of its buffers."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for k, step in enumerate(self.program.steps):
            for n in (*step.read, *step.written):
                first.setdefault(n, k)
                last[n] = k
        buffers = self.program.buffers
        over = overwrites(self.program)
        place: dict[int, int] = {}  # of a buffer among the ranges
        self.ranges: list[Range] = []
        # Creation order is not the order of steps: an overwritten buffer comes first.
        for n in sorted(first, key=lambda n: (first[n], n)):
            if buffers[n].place != "arena":
                continue
            size = buffers[n].type.nbytes
            if n in over:
                k = place[n] = place[over[n]]
                old = self.ranges[k]
                self.ranges[k] = Range(old.bytes, old.first, last[n])
            else:
                place[n] = len(self.ranges)
                self.ranges.append(Range(size, first[n], last[n]))
        self.workspaces: dict[int, int] = {}  # of steps, by number
        for k, own in enumerate(codes):
            size = max((c.workspace for c in own), default=0)
            if size:
                n = self.workspaces[k] = len(buffers) + len(self.workspaces)
                place[n] = len(self.ranges)
                self.ranges.append(Range(size, k, k))
        # Of each buffer and workspace: its place among the ranges, its first and last
        # step.
        self.lives = {n: (k, first.get(n, 0), last.get(n, 0)) for n, k in place.items()}
        self.sizes = [r.bytes for r in self.ranges]
        self.plan: Plan = plan(self.ranges)
        self.dying: list[list[int]] = [[] for _ in self.program.steps]
        for k, r in enumerate(self.ranges):
            self.dying[r.last].append(k)
        self.placed = np.array(list(place), np.intp)
        self.places = np.array(list(place.values()), np.intp)
        self.results = [b for b in buffers if b.place == "result"]
        self.constants = {
            n: np.asarray(x, order="C") for n, x in self.program.constants
        }
        # Addresses that are the same in every run; the last are scratch and status.
        count = len(buffers) + len(self.workspaces)
        self.fixed = np.zeros(count + 2, np.int64)
        for n, x in self.constants.items():
            self.fixed[n] = x.ctypes.data

    def _fill_table(
        self, codes: Sequence[Sequence[Code]], functions: dict[str, int]
    ) -> None:
        """The records of the steps, and the table of their arguments."""
        count = len(self.fixed)
        records: list[list[int]] = []
        table: list[int] = []
        slots: list[int] = []
        which: list[int] = []
        shifts: list[int] = []
        for k, own in enumerate(codes):
            special = {"scratch": count - 2, "status": count - 1}
            special["workspace"] = self.workspaces.get(k, -1)
            for code in own:
                start = functions[code.name], len(table)
                records.append([*start, code.total, max(code.grain, 1), 0, 0, 0, 0])
                for x in code.arguments:
                    if type(x) is int:
                        table.append(x)
                    elif isinstance(x, tuple):
                        slots.append(len(table))
                        which.append(special[x[0]] if isinstance(x[0], str) else x[0])
                        shifts.append(x[1])
                        table.append(0)
                    else:
                        table.append(functions[x] if isinstance(x, str) else x)
        self.records = np.array(records, np.int64).reshape(len(records), FIELDS)
        self.table = np.array(table or [0], np.int64)
        self.slots = np.array(slots, np.intp)
        self.which = np.array(which, np.intp)
        self.shifts = np.array(shifts, np.int64)

    def _packed(self, codes: Sequence[Sequence[Code]]) -> list[Packed]:
        """The workspaces that hold nothing but weights which are arguments."""
        found = []
        for k, workspace in self.workspaces.items():
            first = self.spans[k][0]
            of = [(first + i, c.packs) for i, c in enumerate(codes[k])]
            records = tuple(record for record, packs in of if packs is not None)
            sources = {packs for _, packs in of if packs is not None}
            if len(sources) == 1 and sources <= set(self.program.arguments):
                size = max(c.workspace for c in codes[k])
                found.append(Packed(workspace, sources.pop(), size, records))
        return found

    def about(self) -> list[Told]:
        """What is told of each record to those who watch."""
        if self.told is None:
            self.told = told(self.program, self.spans)
        return self.told

    def run(
        self,
        arrays: Arrays,
        spent: Set[int] = frozenset(),
        lines: Mapping[Key, Origin] | None = None,
    ) -> dict[int, Any]:
        """The results for the values of the arguments, in the program's order.

        Arguments numbered in `spent` may be overwritten; `lines` as in `Timing.tell`.
        """
        with Run(self, lines) as run:
            return run(arrays, spent)


def _segments(codes: Sequence[Sequence[Code]]) -> list[tuple[int, int]]:
    """Runs of native steps as (first, count), and fallbacks as (step, 0)."""
    found: list[tuple[int, int]] = []
    for k, own in enumerate(codes):
        if not own:
            found.append((k, 0))
        elif found and found[-1][1] and sum(found[-1]) == k:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((k, 1))
    return found
