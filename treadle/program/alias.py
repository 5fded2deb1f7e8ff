"""Buffer reuse: results written over operands that nobody will read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from treadle.base.caches import cached
from treadle.base.symbolic import is_same, whole
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import (
    Expression,
    Fetch,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    inside,
    places,
)
from treadle.loops.parameters import bound
from treadle.program.positions import last_risk
from treadle.program.program import Fallback, Launch, Program, Step
from treadle.program.units import Unit

Path = tuple[int, ...]


def in_place(
    program: Program, pairs: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """The pairs (result, argument) of which one buffer can be both.

    The step that writes the result must be the last to read the argument, and read it
    only where it writes; and no step after it may fail.
    """
    last = {n: k for k, step in enumerate(program.steps) for n in step.read}
    writer = {n: k for k, step in enumerate(program.steps) for n in step.written}
    asked = [n for _, n, _ in program.results]
    aliases = []
    for result, argument in pairs:
        k = writer.get(result)
        if k is None or last.get(argument, -1) > k or argument in asked:
            continue
        if asked.count(result) > 1:
            continue
        if _may_overwrite(program.steps[k], result, argument):
            aliases.append((result, argument))
    sure = last_risk(program)  # from here on nothing can fail
    return tuple((r, a) for r, a in aliases if writer[r] >= sure)


def overwrites(program: Program) -> dict[int, int]:
    """The buffers of the arena that may lie where one lies that dies as they begin."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, step in enumerate(program.steps):
        for n in (*step.read, *step.written):
            first.setdefault(n, k)
            last[n] = k
    buffers = program.buffers
    overwritten: dict[int, int] = {}
    taken = _read_by_chains(program)
    for k, step in enumerate(program.steps):
        free: list[int] | None = None
        for new in step.written:
            if buffers[new].place != "arena" or first[new] != k:
                continue
            if free is None:
                dying = [n for n in step.read if last[n] == k and n not in step.written]
                free = [n for n in dying if buffers[n].place == "arena"]
            for old in free:
                a, b = buffers[old].type, buffers[new].type
                alike = a.dtype.itemsize == b.dtype.itemsize and is_same(a.size, b.size)
                if alike and old not in taken and _may_overwrite(step, new, old):
                    overwritten[new] = old
                    taken.add(old)
                    break
    return overwritten


def _read_by_chains(program: Program) -> set[int]:
    """The buffers that several chains of one region read, at any time."""
    chains: dict[int, tuple[int, int]] = {}
    several = set()
    for k, place in program.chain_of.items():
        for n in program.steps[k].read:
            region, chain = chains.setdefault(n, place)
            if region != place[0]:
                chains[n] = place
            elif chain != place[1]:
                several.add(n)
    return several


def _may_overwrite(step: Step, result: int, operand: int) -> bool:
    """Whether a step reads an operand only before it writes the result there."""
    if isinstance(step, Launch):
        return _same_places(step, step.buffers, result, operand)
    if isinstance(step, Fallback) or step.finish is None or operand in step.operands:
        return False
    buffers = list(step.finish.buffers)
    buffers.insert(step.product_buffer, -1)  # the product itself, in registers
    return _same_places(step.finish, buffers, result, operand)


def _same_places(
    launch: Launch, numbers: Sequence[int], result: int, operand: int
) -> bool:
    """Whether no step of the loops reads of an operand what another has written.

    `numbers` are the program's buffers that the kernel's own stand for. A kernel writes
    each element of a result in one step only.
    """
    if operand not in numbers:
        return True
    if numbers.count(operand) != 1:
        return False
    source, target = numbers.index(operand), numbers.index(result)
    kernel, integers = launch.kernel, launch.integers
    return _for_all_sizes(kernel, source, target) or _reads_before(
        kernel, integers, source, target
    )


@cached(4096)
def _for_all_sizes(kernel: Kernel, source: int, target: int) -> bool:
    """The same of a kernel without sizes: it reads just where it writes."""
    return _in_steps(kernel, source, target, False)


@cached(4096)
def _reads_before(
    kernel: Kernel, integers: tuple[int, ...], source: int, target: int
) -> bool:
    """Whether no step reads of one buffer what another has written to the other."""
    return _in_steps(bound(kernel, integers), source, target, True)


def _in_steps(kernel: Kernel, source: int, target: int, sized: bool) -> bool:
    """Whether all steps read before others write; False where sizes must tell."""
    steps = list(_walk(kernel.body, (), ()))
    stores = [
        (s, path) for s, path, _ in steps if isinstance(s, Store) and s.buffer == target
    ]
    loaded: dict[Path, set[Load]] = {}  # what a body has in registers, by its path
    written: list[tuple[Store, Path]] = []
    for s, path, axes in steps:
        loads = {x for x in _read(s) if isinstance(x, Load) and x.buffer == source}
        known = [x for k in range(len(path) + 1) for x in loaded.get(path[:k], ())]
        for x in loads - set(known):
            for store, other in stores:
                first = (store, other) not in written
                if first and x.index == store.index and not _repeated(store, axes):
                    continue  # the very element that this step writes
                if not sized:
                    return False
                around = axes[: _shared(path, other)]
                if _meet(x.index, store.index, around, not first):
                    return False
        loaded.setdefault(path, set()).update(loads)
        if isinstance(s, Store) and s.buffer == target:
            if s.combine is not None or _repeated(s, axes):
                return False
            written.append((s, path))
    return True


def _repeated(store: Store, axes: Sequence[LoopAxis]) -> bool:
    """Whether some of these loops come to the element that is written again."""
    seen = store.index.axes()
    return any(a not in seen and a.extent != 1 for a in axes)


def _read(s: Statement) -> list[Expression]:
    """All expressions of a statement itself."""
    if isinstance(s, Loop):
        return _within_indices(places(s))
    if isinstance(s, Store):
        return [*_within_indices(places(s)), *inside(s.value)]
    return [] if isinstance(s, Fetch) else inside(s.value)


def _within_indices(every: Sequence[Index]) -> list[Expression]:
    """All expressions that stand in indices."""
    return [e for i in every for x in i.data() for e in inside(x)]


def _shared(a: Path, b: Path) -> int:
    """The number of loops that are around both of two statements."""
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return count


def _meet(a: Index, b: Index, axes: Sequence[LoopAxis], same: bool) -> bool:
    """Whether two steps of some loops may meet, one in the one place, one in the other:
    different ones, or also the `same`.

    Exactly, where the places are a constant apart; what else stands in them than these
    loops may be any number within its bounds.
    """
    if any(a.coefficient(x) != b.coefficient(x) for x in axes):
        return True
    one, other = _without(a, axes), _without(b, axes)
    if any(x in axes for x in (*one.axes(), *other.axes())):
        return True  # a place depends on the loops in another way too
    (least, most), (low, high) = one.bounds(), other.bounds()
    steps = [(abs(whole(a.coefficient(x))), x.extent - 1) for x in axes]
    return _adds_up(low - most, high - least, sorted(steps, reverse=True), same)


def _without(i: Index, axes: Sequence[LoopAxis]) -> Index:
    """A place without what some loops add to it."""
    return Index(tuple(t for t in i.terms if t[0] not in axes), i.constant)


def _adds_up(
    low: int, high: int, steps: Sequence[tuple[int, int]], apart: bool
) -> bool:
    """Whether whole steps, at most so many of each either way, make up a distance.

    Any one between two bounds; `steps` are the longest first.
    """
    if not steps:
        return low <= 0 <= high and apart
    (step, most), *others = steps
    if not step:
        return _adds_up(low, high, others, apart or most > 0)
    reach = sum(s * n for s, n in others)
    first, last = -((reach - low) // step), (high + reach) // step
    first, last = max(-most, first), min(most, last)
    k = first
    while k <= last:
        if _adds_up(low - k * step, high - k * step, others, apart or k != 0):
            return True
        k += 1
    return False


def _walk(
    body: Sequence[Statement], path: Path, axes: tuple[LoopAxis, ...]
) -> Iterator[tuple[Statement, Path, tuple[LoopAxis, ...]]]:
    """Statements in the order in which they run, and the loops around them."""
    for k, s in enumerate(body):
        yield s, path, axes
        if isinstance(s, Loop):  # one with a stride moves where one inside begins
            axis = s.axis if s.stride == 1 else LoopAxis(s.axis.name, 1)
            yield from _walk(s.body, (*path, k), (*axes, axis))


def after_readers(
    units: Sequence[Unit],
    pairs: Sequence[tuple[Tensor, Tensor]],
    step: Mapping[int, int],
) -> None:
    """Have the unit that makes a new version wait for all that read the old one.

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
        bit, more = 1 << writer.number, 0
        for unit in units:
            if old.serial not in unit.operands:
                continue
            reader = by_number[step.get(unit.number, unit.number)]
            if reader is not writer and not reader.before & bit:
                more |= reader.before | 1 << reader.number
        more &= ~writer.before
        if not more:
            continue
        writer.before |= more
        for later in units:
            if later.before & bit:
                later.before |= more
