"""The ABI of program steps: tables of addresses, sizes and numbers for machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from treadle.base.symbolic import is_symbolic, most
from treadle.engines.native.codegen.builder import LINE
from treadle.engines.native.codegen.code import Code, coded
from treadle.engines.native.codegen.texts import FunctionChoice
from treadle.program.program import Fallback, Program


class ProgramTable(NamedTuple):
    """Integers of a program: records of steps, their arguments one after the other, and
    which of these are addresses: where, of which buffer, and how far into it; and which
    are functions that a run may choose: where, and among which.
    """

    records: Any
    table: Any
    slots: Any
    which: Any
    shifts: Any
    choices: Any = ()


def codes_of(
    program: Program,
    room: int = 0,
    known: Mapping[int, tuple[Code, ...]] | None = None,
) -> list[tuple[Code, ...]]:
    """The code of each step, with so much room as `coded` takes it, or as it is `known`
    by the identity of steps."""
    if known is not None:
        return [known[id(s)] for s in program.steps]
    return [() if isinstance(s, Fallback) else coded(s, room) for s in program.steps]


def memory_beside(
    program: Program, codes: Sequence[Sequence[Code]]
) -> tuple[dict[int, int], dict[int, int], dict[int, tuple[int, int]]]:
    """The numbers of the workspaces of steps, and of the scratch memory of those in
    chains; of each its step and its bytes.
    """
    workspaces: dict[int, int] = {}
    scratches: dict[int, int] = {}
    sizes: dict[int, tuple[int, int]] = {}
    for k, step_codes in enumerate(codes):
        needs = [(workspaces, _most([c.workspace for c in step_codes]))]
        if k in program.chain_of:
            needs.append((scratches, _most([c.scratch for c in step_codes])))
        for numbers, size in needs:
            if size:
                n = numbers[k] = len(program.buffers) + len(sizes)
                sizes[n] = k, size
    return workspaces, scratches, sizes


def scratch_of(program: Program, codes: Sequence[Sequence[Code]]) -> int:
    """The bytes of scratch memory of a worker: chains have their own."""
    chained = program.chain_of
    shared = [
        c for k, step_codes in enumerate(codes) if k not in chained for c in step_codes
    ]
    return _most([c.scratch for c in shared])


def table_of(
    program: Program,
    codes: Sequence[Sequence[Code]],
    functions: Mapping[str, int],
    spans: Sequence[tuple[int, int]],
    workspaces: Mapping[int, int],
    scratches: Mapping[int, int],
    count: int,
) -> ProgramTable:
    """The records of steps with some code, and the table of their arguments; of each
    step `spans` has its first record and how many, and others which of the `count`
    addresses its workspace and its scratch memory are, if it has some of its own.
    """
    program_table = ProgramTable([], [], [], [], [], [])
    records, table, slots, which, shifts, choices = program_table
    regions = {r.first: r for r in program.regions}
    for k, step_codes in enumerate(codes):
        if k in regions:
            inside = spans[regions[k].first : regions[k].stop]
            chains = len(regions[k].chains)
            total = sum(n for _, n in inside)
            records.append([0, len(table), chains, 1, total, 0, 0, 0])
            # Where the chains begin and end, in records after the region's.
            ends = [sum(spans[stop - 1]) for _, stop in regions[k].bounds]
            table += [0, *(end - spans[k][0] for end in ends)]
        special = {"status": count - 1}
        special["workspace"] = workspaces.get(k, -1)
        special["scratch"] = scratches.get(k, count - 2)
        for code in step_codes:
            start = functions[code.name] if code.name else 0, len(table)
            records.append([*start, code.total, most(code.grain, 1), 0, 0, 0, 0])
            for x in code.arguments:
                if type(x) is int:
                    table.append(x)
                elif isinstance(x, tuple):
                    slots.append(len(table))
                    which.append(special[x[0]] if isinstance(x[0], str) else x[0])
                    shifts.append(x[1])
                    table.append(0)
                elif isinstance(x, FunctionChoice):
                    choices.append((len(table), x))
                    several, number = is_symbolic(x.number), x.number
                    table.append(
                        number if several else functions[x.functions[number].name]
                    )
                else:
                    table.append(functions[x] if isinstance(x, str) else x)
    return program_table


def _most(sizes: Sequence[int]) -> int:
    return reduce(most, sizes, 0)


def constants_of(
    constants: Sequence[tuple[int, np.ndarray[Any, Any]]], count: int
) -> tuple[dict[int, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """The constants of a program by their buffers, and addresses that are the same in
    every run, of so many; the last are of scratch memory and the status.
    """
    arrays = {n: np.asarray(x, order="C") for n, x in constants}
    fixed = np.zeros(count, np.int64)
    for n, x in arrays.items():
        fixed[n] = x.ctypes.data
    return arrays, fixed


def lines(bytes: int) -> int:
    """So many bytes, up to a whole cache line."""
    return -(-bytes // LINE) * LINE
