"""Units (fusion clusters): nodes of one step, their dependences, and merging two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from treadle.graph.tensor import Tensor
from treadle.graph.traversal import by_serial
from treadle.loops.index import LoopAxis
from treadle.loops.lower import At, is_virtual, unflatten
from treadle.loops.region import Region
from treadle.program.places import operand_places, producers, run_of, sources

MEMBERS = 96  # nodes of one kernel at most
OPERANDS = 40  # buffers of one kernel at most


@dataclass(eq=False, slots=True)
class Unit:
    """Nodes computed by one step: a region of fused nodes, or one op by itself."""

    number: int
    nodes: list[Tensor]
    region: Region | None = None
    before: int = 0  # bits of the units that must run first
    operands: set[int] = field(default_factory=set)
    waiting: dict[int, Unit] = field(default_factory=dict)  # those that read it
    absorbed_by: Unit | None = None
    done_by: Unit | None = None  # the product that does this unit itself


def _waiting(unit: Unit) -> dict[int, Unit]:
    """The units that wait for one, not only for what waits for it, by number."""
    waiting = {}
    for other in unit.waiting.values():
        while other.absorbed_by is not None:
            other = other.absorbed_by
        for waiter in (other, other.done_by):
            if waiter is not None and waiter is not unit:
                waiting[waiter.number] = waiter
    return waiting


def depend(unit: Unit, other: Unit) -> None:
    """Have a unit wait for another one."""
    other.waiting[unit.number] = unit
    spread(unit, (other.before | 1 << other.number) & ~unit.before)


def spread(unit: Unit, more: int) -> None:
    """Have a unit, and all that wait for it, wait for what some bits tell."""
    stack = [unit] if more else []
    while stack:
        each = stack.pop()
        each.before |= more
        if each.waiting:
            waiting = _waiting(each).values()
            stack += [later for later in waiting if more & ~later.before]


def between(first: Unit, last: Unit) -> bool:
    """Whether some third unit waits for the first and is waited for by the last."""
    return bool(first.waiting) and any(
        last.before >> k & 1 for k in _waiting(first) if k != last.number
    )


def read_at(region: Region, node: Tensor) -> list[tuple[Tensor, At | None]]:
    """The operands of a member, and where it reads them."""
    if node.serial in region.reads:
        return [(node.inputs[0], region.reads[node.serial])]
    return operand_places(node, region.placement[node.serial])


def fits(region: Region, x: Tensor, at: At | None) -> bool:
    """Whether an operand read at `at` reads all members where they are computed."""
    if not is_virtual(x):
        known = region.placement.get(x.serial)
        return known is None or at == known
    return all(
        place == region.placement[p.serial]
        for p, place in sources(x, at)
        if p.serial in region.placement
    )


def compatible(unit: Unit, other: Unit) -> bool:
    """Whether two units over the same loops read each other where they may."""
    most = len(unit.operands) + len(other.operands)
    if most > OPERANDS and len(unit.operands | other.operands) > OPERANDS:
        return False
    for a, b in ((unit, other), (other, unit)):
        region, theirs = a.region, b.region
        if region is None or theirs is None or not _reads(a, b):
            continue
        members = theirs.placement
        for node in region.nodes:
            for x in node.inputs:
                if x.serial in members or _leads_to(x, members):
                    break
            else:
                continue
            if not all(fits(theirs, x, at) for x, at in read_at(region, node)):
                return False
    return True


def _leads_to(x: Tensor, members: Mapping[int, At]) -> bool:
    """Whether an operand is computed from a member where it is read."""
    if not is_virtual(x):
        return x.serial in members
    return any(p.serial in members for p in producers(x))


def _reads(unit: Unit, other: Unit) -> bool:
    """Whether a unit reads what another one computes."""
    return not unit.operands.isdisjoint([x.serial for x in other.nodes])


def absorb(unit: Unit, other: Unit) -> None:
    """Have a unit do what another one does, and wait for what that waits for."""
    a, b = unit.region, other.region
    assert a is not None and b is not None
    nodes = sorted([*a.nodes, *b.nodes], key=by_serial)
    a.nodes, unit.nodes = nodes, list(nodes)
    a.placement |= b.placement
    a.reads |= b.reads
    unit.operands |= other.operands
    mine, theirs = 1 << unit.number, 1 << other.number
    unit.before = (unit.before | other.before) & ~(mine | theirs)
    unit.waiting |= other.waiting
    other.region, other.nodes, other.before = None, [], 0
    other.absorbed_by = unit
    seen = {unit.number}
    stack = [unit]
    while stack:
        for k, later in _waiting(stack.pop()).items():
            if k not in seen:
                seen.add(k)
                stack.append(later)
                later.before = (later.before | mine | unit.before) & ~theirs


def wait_for(node: Tensor, other: Tensor) -> Tensor:
    """Order a node of a program after another, though it does not read it."""
    node.mark = {**(node.mark or {}), "after": other}
    return node


def waited_for(node: Tensor) -> Tensor | None:
    """The node that a node is to be computed after, if that was said."""
    return node.mark.get("after") if node.mark else None


def rebase(region: Region, axes: tuple[LoopAxis, ...]) -> None:
    """Run the loops of a region over axes, if that divides none of its indices.

    Loops over more dimensions than before leave a fold the choice between them.
    """
    if len(axes) <= len(region.axes) or _steps(axes) != _steps(region.axes):
        return
    place = run_of(axes)
    indices = unflatten(place, tuple(a.extent for a in region.axes))
    by = dict(zip(region.axes, indices, strict=True))
    placement, reads = (
        {serial: tuple(i.replaced(by) for i in known) for serial, known in old.items()}
        for old in (region.placement, region.reads)
    )
    replaced = [
        i for new in (placement, reads) for known in new.values() for i in known
    ]
    for i in [*indices, *replaced]:
        if any(not isinstance(atom, LoopAxis) for atom, _ in i.terms):
            return
    inner = {b for a in region.inner for b in by[a].axes()}
    if any(inner & set(by[a].axes()) for a in region.rows):
        return
    region.axes, region.placement, region.reads = axes, placement, reads
    region.inner = frozenset(inner)


def _steps(axes: Sequence[LoopAxis]) -> int:
    return math.prod(a.extent for a in axes)
