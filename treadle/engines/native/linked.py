"""A program with machine code and memory: what one native call runs.

All pointers and sizes of all steps stand in one table of integers. A run takes a lease
of the arena, fills in the addresses in one array expression, and calls the runner.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.engines.native.arena import Arena, Lease, Results
from treadle.engines.native.code import Code, coded
from treadle.engines.native.jit import compile_functions
from treadle.engines.native.kept import Kept, Packed
from treadle.engines.native.pool import pool
from treadle.graph.meaning import compute_at
from treadle.program.alias import overwrites
from treadle.program.layout import laid
from treadle.program.memory import Plan, Range, plan
from treadle.program.program import Fallback, Launch, Program
from treadle.rewrite.record import stage

__all__ = ["Linked"]

Arrays = Sequence[np.ndarray[Any, Any]]
FIELDS = 8  # integers of a step record: function, arguments, total, grain, and zeros


class Memory:
    """Arenas and results of one mode."""

    def __init__(self, mode: str) -> None:
        self.arena = Arena(mode)
        self.results = Results(mode)


_memories: dict[str, Memory] = {}


def memory_of(mode: str) -> Memory:
    """The memory that programs share in a mode: "fast", "poison" or "guard"."""
    if mode not in _memories:
        _memories[mode] = Memory(mode)
    return _memories[mode]


class Linked:
    """A program whose arena is planned and, once linked, whose kernels are compiled."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # Places of what an earlier program could have kept, and what inside of calls.
        self.again: Sequence[int] = ()
        self.inside: Sequence[tuple[int, int, int]] = ()
        with stage("write code"):
            steps = program.steps
            codes = [() if isinstance(s, Fallback) else coded(s) for s in steps]
        self.codes = codes
        every = [c for own in codes for c in own]
        texts = {name: text for c in every for name, text in c.texts.items()}
        self.texts = texts
        self.scratch = max((c.scratch for c in every), default=0)
        with stage("plan memory"):
            self._place_buffers(codes)

    def link(self) -> None:
        """Compile the kernels: what only plans does not need them."""
        # Kept: the code of a function goes with the last of its addresses.
        with stage("machine code"):
            self.functions = compile_functions(self.texts)
        self._fill_table(self.codes, self.functions)
        self.runs = _segments(self.codes)
        self.kept = Kept(self._packed(self.codes))
        self.copies = {
            step.written[0]: self.spans[k][0]
            for k, step in enumerate(self.program.steps)
            if isinstance(step, Launch) and step.copies
        }

    def workspace(self, threads: int) -> int:
        """The bytes that a run needs beside arguments and results."""
        return self.plan.size + self.scratch * threads

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and the constants, which stay between runs."""
        tables = self.records, self.table, self.slots, self.which, self.shifts
        return sum(x.nbytes for x in (*tables, *self.constants.values()))

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
                self.ranges[k] = replace(self.ranges[k], last=last[n])
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
        self.spans: list[tuple[int, int]] = []  # of each step: first record, how many
        table: list[int] = []
        slots: list[int] = []
        which: list[int] = []
        shifts: list[int] = []
        for k, own in enumerate(codes):
            special = {"scratch": count - 2, "status": count - 1}
            special["workspace"] = self.workspaces.get(k, -1)
            self.spans.append((len(records), len(own)))
            for code in own:
                start = functions[code.name], len(table)
                records.append([*start, code.total, max(code.grain, 1), 0, 0, 0, 0])
                for x in code.arguments:
                    if isinstance(x, tuple):
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

    # -- a run -----------------------------------------------------------------------

    def run(self, arrays: Arrays, spent: Set[int] = frozenset()) -> dict[int, Any]:
        """The results for the values of the arguments, in the program's order.

        Arguments numbered in `spent` may be overwritten.
        """
        program = self.program
        options = current()
        memory = memory_of(options.arena)
        addresses = self.fixed.copy()
        alive: dict[int, np.ndarray[Any, Any]] = {}
        for n, x in zip(program.arguments, arrays, strict=True):
            order = program.buffers[n].order
            if order:  # it lies as an earlier program has left it
                x = np.asarray(x.transpose(order), order="C")
                alive[n] = laid(x, order)
            else:
                alive[n] = x = np.asarray(x, order="C")
            addresses[n] = x.ctypes.data
        idle: list[int] = []  # copies from a buffer to itself, weights packed before
        free = {program.arguments[k] for k in spent}
        for result, argument in program.shared:
            x = alive[argument]
            if argument in free and x.flags.c_contiguous:
                alive[result], addresses[result] = x, addresses[argument]
                if result in self.copies:
                    idle.append(self.copies[result])
        for b in self.results:
            if b.number in alive:
                continue
            shape = [b.type.shape[k] for k in b.order] if b.order else b.type.shape
            x, addresses[b.number] = memory.results.lend(shape, b.type.dtype)
            alive[b.number] = laid(x, b.order) if b.order else x
        threads = pool(options.threads)
        scratch = np.empty(self.scratch * threads.threads + 64, np.uint8)
        addresses[-2] = scratch.ctypes.data + 63 & ~63
        status = np.zeros(1, np.int64)
        addresses[-1] = status.ctypes.data
        with memory.arena.lease(self.sizes, self.plan) as lease:
            addresses[self.placed] = lease.addresses[self.places]
            changing = {a for r, a in program.shared if alive.get(r) is alive[a]}
            kept = Kept(()) if options.workspace else self.kept
            panels = kept.place(alive, changing, addresses, memory.results.lend)
            idle += panels.ready
            table = self.table.copy()
            table[self.slots] = addresses[self.which] + self.shifts
            records = self.records
            if idle:
                records = records.copy()
                records[idle, 2] = 0
            self._execute(records, table, status, alive, addresses, lease, threads)
        if status[0]:
            raise PositionError
        panels.done()
        found = {}
        for serial, n, t in program.results:
            x = alive[n] if n in alive else self.constants[n]
            found[serial] = x if isinstance(t, TupleType) else x.reshape(t.shape)
        return found

    def _execute(
        self,
        steps: np.ndarray[Any, Any],
        table: np.ndarray[Any, Any],
        status: np.ndarray[Any, Any],
        alive: dict[int, np.ndarray[Any, Any]],
        addresses: np.ndarray[Any, Any],
        lease: Lease,
        threads: Any,
    ) -> None:
        records, arguments = steps.ctypes.data, table.ctypes.data
        flag = status.ctypes.data
        careful = type(lease) is not Lease
        for first, count in self.runs:
            if not count:
                self._fallback(first, alive, addresses)
            elif not careful:
                start, some = self.spans[first][0], sum(self.spans[first + count - 1])
                place = records + start * FIELDS * 8
                threads.run(place, some - start, arguments, flag)
            for k in range(first, first + max(count, 1)) if careful else ():
                place = records + self.spans[k][0] * FIELDS * 8
                if count:
                    threads.run(place, self.spans[k][1], arguments, flag)
                for n in self.dying[k]:
                    lease.poison(n)
            if status[0]:
                return

    def _fallback(
        self,
        k: int,
        alive: dict[int, np.ndarray[Any, Any]],
        addresses: np.ndarray[Any, Any],
    ) -> None:
        """One step by the NumPy rule of its op."""
        step = self.program.steps[k]
        assert isinstance(step, Fallback)

        def array(n: int) -> np.ndarray[Any, Any]:
            if n in alive or n in self.constants:
                return alive[n] if n in alive else self.constants[n]
            b = self.program.buffers[n]
            t, order = b.type, b.order or tuple(range(b.type.ndim))
            raw: Any = (ctypes.c_uint8 * t.nbytes).from_address(int(addresses[n]))
            flat = np.frombuffer(raw, np.uint8).view(t.dtype)
            return laid(flat.reshape([t.shape[k] for k in order]), order)

        found = compute_at(
            step.op, step.type, [array(n) for n in step.read], step.origin
        )
        several = found if isinstance(step.type, TupleType) else (found,)
        for n, x in zip(step.written, several, strict=True):
            if math.prod(x.shape):
                array(n)[...] = x


class PositionError(Exception):
    """A position read from data was out of range; the reference engine says which."""


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
