"""Steps that can find their data wrong run first, so that others may write over
Variables: nothing may fail any more when the first of them changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.ops.cast import Cast
from treadle.ops.families import Elementwise, Reduction
from treadle.program.arrange import Arrangement, is_leaf
from treadle.program.units import Unit

SURE = (Elementwise, Reduction, Cast)  # what finds no data wrong, as products do not


def is_sure(units: Sequence[Unit], arranged: Arrangement) -> bool:
    """Whether units cannot fail: they read by no positions that are data."""
    stack = [node for unit in units for node in unit.nodes]
    if not all(isinstance(x.op, SURE) or x.serial in arranged.products for x in stack):
        return False
    seen = {node.serial for node in stack}
    while stack:
        for x in stack.pop().inputs:
            if x.serial in seen or x.serial in arranged.stored or is_leaf(x):
                continue
            if x.op.family == "gather":
                return False
            seen.add(x.serial)
            stack.append(x)
    return True


def risks_first(arranged: Arrangement) -> None:
    """Order the steps of an arrangement that has new versions and takes little memory:
    first those that could fail, and what they wait for. Those that make a version keep
    their place: they may be the ones that write over something.
    """
    if not arranged.versions or not arranged.small:
        return
    risky = [
        unit
        for unit in arranged.units
        if not is_sure([unit], arranged)
        and arranged.changed.isdisjoint(x.serial for x in unit.nodes)
    ]
    if not risky:
        return
    first = 0  # bits of units
    for unit in risky:
        first |= unit.before | 1 << unit.number
    first = _with_finishes(arranged, first)
    arranged.units.sort(key=lambda u: not first >> u.number & 1)


def _with_finishes(arranged: Arrangement, chosen: int) -> int:
    """The units some bits tell, and those that run with them, or that these wait for:
    a product and the unit that it does itself are one step.
    """
    finishes = arranged.finishes
    pairs = [(u, finishes.get(u.nodes[0].serial)) for u in arranged.units]
    both = [(u.number, f.number, u.before | f.before) for u, f in pairs if f]
    while True:
        more = chosen
        for unit, other, before in both:
            bits = 1 << unit | 1 << other
            if more & bits:
                more |= bits | before
        if more == chosen:
            return chosen
        chosen = more
