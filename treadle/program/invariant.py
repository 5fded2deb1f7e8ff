"""Steps that depend on weights alone: what they compute may be kept from run to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from treadle.program.dependences import nanoseconds
from treadle.program.program import Fallback, Launch, Program, Step

CHECK = 500  # ns a run for each array that is asked for and each that is placed
MOST = 256 << 20  # bytes of a program


@dataclass(frozen=True)
class Invariant:
    """Steps whose `results` other steps read, and the arguments they depend on.

    `time` is roughly what they take, in ns.
    """

    steps: tuple[int, ...]
    sources: tuple[int, ...]
    results: tuple[int, ...]
    time: int


def invariants(program: Program) -> list[Invariant]:
    """The groups of steps that depend on weights and constants alone, where that is
    worth the memory; no group reads what another one computes."""
    steps = program.steps
    fixed = {*program.weights, *(n for n, _ in program.constants)}
    alone = _alone(program, fixed)
    if not alone:
        return []
    computed = {n for k in alone for n in steps[k].written}
    wanted = {n for k, s in enumerate(steps) if k not in alone for n in s.read}
    times, chosen, left = nanoseconds(program), [], MOST
    for group in _groups(steps, alone, computed):
        read = {n for k in group for n in steps[k].read}
        sources = tuple(sorted(read & set(program.weights)))
        results = tuple(sorted({n for k in group for n in steps[k].written} & wanted))
        time = sum(times[k] for k in group)
        size = sum(program.buffers[n].type.nbytes for n in results)
        if time > CHECK * (2 + len(sources) + len(results)) and size <= left:
            chosen.append(Invariant(tuple(group), sources, results, time))
            left -= size
    return chosen


def _alone(program: Program, fixed: Collection[int]) -> set[int]:
    """The steps that read nothing but what is fixed or such steps write."""
    steps, buffers = program.steps, program.buffers
    writers = Counter(n for s in steps for n in s.written)
    apart: set[int] = set()  # that write what another one writes from other data
    while True:
        known, alone, seen = set(fixed), set[int](), Counter[int]()
        for k, s in enumerate(steps):
            inner = all(buffers[n].place == "arena" for n in s.written)
            if isinstance(s, Fallback) or not inner or k in apart:
                continue
            if known.issuperset(s.read):
                alone.add(k)
                seen.update(s.written)
                known.update(n for n in s.written if seen[n] == writers[n])
        mixed = {k for k in alone if not known.issuperset(steps[k].written)}
        if not mixed:
            return alone
        apart |= mixed


def _groups(
    steps: tuple[Step, ...], alone: Collection[int], computed: Collection[int]
) -> list[list[int]]:
    """Some steps in groups that share no buffer which is computed."""
    group: dict[int, list[int]] = {}  # by buffer, of which all in a group have one list
    for k in sorted(alone):
        s = steps[k]
        touched = s.buffers if isinstance(s, Launch) else (*s.read, *s.written)
        shared = [n for n in touched if n in computed]
        joined = {
            id(members): members
            for n in shared
            if (members := group.get(n)) is not None
        }
        whole = sorted([k, *(j for members in joined.values() for j in members)])
        group.update((n, whole) for j in whole for n in steps[j].written)
    return list({id(members): members for members in group.values()}.values())
