"""Results that may be written over an argument that nobody will read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from treadle.graph.tensor import Tensor
from treadle.loops.index import Datum, Index, Parameter
from treadle.loops.kernel import (
    Kernel,
    Load,
    Loop,
    Store,
    expressions,
    indices,
    inside,
    statements,
)
from treadle.program.group import Unit
from treadle.program.program import Fallback, Launch, Product, Program

__all__ = ["after_readers", "in_place"]


def in_place(
    program: Program, pairs: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Of the pairs (result, argument), those where one buffer can be both.

    The step that writes the result must be the last to read the argument, and read it
    only where it writes; and no step after it may fail.
    """
    last = {n: k for k, step in enumerate(program.steps) for n in step.read}
    writer = {n: k for k, step in enumerate(program.steps) for n in step.written}
    asked = [n for _, n in program.results]
    found = []
    for result, argument in pairs:
        k = writer.get(result)
        if k is None or last.get(argument, -1) > k or argument in asked:
            continue
        if asked.count(result) > 1:
            continue
        step = program.steps[k]
        if isinstance(step, Product):
            if step.finish is None or argument in step.operands:
                continue
            own = list(step.finish.buffers)
            own.insert(step.own, -1)  # the product itself, in registers
            safe = _same_places(step.finish.kernel, own, result, argument)
        else:
            safe = isinstance(step, Launch) and _same_places(
                step.kernel, step.buffers, result, argument
            )
        if safe:
            found.append((result, argument))
    sure = _last_risk(program)  # from here on nothing can fail
    return tuple((r, a) for r, a in found if writer[r] >= sure)


def _last_risk(program: Program) -> int:
    """The last step that can find its data wrong, or is a library's.

    Positions that an earlier step has found within the same extent are right.
    """
    known: set[tuple[int, int]] = set()
    last = -1
    for k, step in enumerate(program.steps):
        if isinstance(step, Fallback):
            last = k
        elif isinstance(step, Launch) and step.kernel.checks:
            own = set(_checked(step))
            if not own <= known:
                last = k
            known |= own
    return last


def _checked(step: Launch) -> Iterator[tuple[int, int]]:
    """The buffers that a kernel reads positions from, with the extents they lie in."""
    body = step.kernel.body
    found = [i for x in expressions(body) for i in indices(x)]
    found += [s.index for s in statements(body) if isinstance(s, Store)]
    for i in found:
        for atom, _ in i.terms:
            if isinstance(atom, Datum):
                extent = atom.extent
                if isinstance(extent, Parameter):
                    extent = step.integers[extent.slot]
                for x in inside(atom.value):
                    if isinstance(x, Load):
                        yield step.buffers[x.buffer], extent


def _same_places(
    kernel: Kernel, numbers: Sequence[int], result: int, argument: int
) -> bool:
    """Whether a kernel reads an argument only at the elements it writes just then.

    `numbers` are the program's buffers that the kernel's own stand for.
    """
    if argument not in numbers:
        return True
    inner = [s for s in statements(kernel.body) if isinstance(s, Loop)]
    if any(s.kind == "serial" or s.folds for s in inner):
        return False
    own, target = numbers.index(argument), numbers.index(result)
    places: set[Index] = {
        s.index
        for s in statements(kernel.body)
        if isinstance(s, Store) and s.buffer == target
    }
    reads = {
        x.index
        for x in expressions(kernel.body)
        if isinstance(x, Load) and x.buffer == own
    }
    return reads <= places


def after_readers(
    units: Sequence[Unit],
    pairs: Sequence[tuple[Tensor, Tensor]],
    step: Mapping[int, int],
) -> None:
    """Let the unit that makes a new version wait for all that read the old one.

    `pairs` are (new version, old version); `step` maps the number of a unit that
    another one does to that other. A reader that waits for the new version stays where
    it is.
    """
    by_number = {u.number: u for u in units}
    maker = {n.serial: step.get(u.number, u.number) for u in units for n in u.nodes}
    for new, old in pairs:
        if new.serial not in maker:
            continue
        writer = by_number[maker[new.serial]]
        bit = 1 << writer.number
        for unit in units:
            reader = by_number[step.get(unit.number, unit.number)]
            if old.serial not in unit.operands or reader is writer:
                continue
            more = (reader.before | 1 << reader.number) & ~writer.before
            if reader.before & bit or not more:
                continue
            writer.before |= more
            for later in units:
                if later.before & bit:
                    later.before |= more
