"""Equal units: what decides the kernel of one, so that it is made once for all of them.

A cell that a graph holds a hundred times gives units that differ in their nodes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.base.caches import Cache
from treadle.base.symbolic import bits
from treadle.graph.tensor import Tensor
from treadle.loops.lower import Strides, is_virtual
from treadle.loops.region import Region

KNOWN = 2048  # forms whose kernels are kept

_MISSING: Any = object()
_known: Cache[Any, tuple[Any, tuple[int, ...]] | None]
_known = Cache("kernels by form", KNOWN)


@dataclass(frozen=True, slots=True)
class RegionForm:
    """A region without its nodes: what was done to which numbers, and those nodes."""

    key: tuple[Any, ...]
    nodes: Sequence[Tensor]
    numbers: dict[int, int]  # of the nodes by serial


def form_of(
    region: Region,
    stored: Sequence[Tensor],
    has_buffer: Callable[[Tensor], bool],
    strides: Strides,
) -> RegionForm:
    """The form of a region that stores some members, as `kernel_of` takes it."""
    numbers: dict[int, int] = {}
    nodes: list[Tensor] = []
    parts: list[Any] = []
    members, written = region.placement, {x.serial for x in stored}
    # Members at one place share its tuple, which is hashed and compared but once.
    places: dict[int, int] = {}
    listed: list[Any] = []
    for member in region.nodes:
        stack = [member]
        while stack:
            x = stack[-1]
            serial = x.serial
            if serial in numbers:
                stack.pop()
                continue
            at = members.get(serial)
            buffered = at is None and has_buffer(x)
            leaf = buffered or (at is None and x.stored is not None)
            if not leaf:
                height = len(stack)
                for y in x.inputs[::-1]:
                    if y.serial not in numbers:
                        stack.append(y)
                if len(stack) > height:
                    continue
            stack.pop()
            numbers[serial] = len(nodes)
            nodes.append(x)
            if leaf:
                # What a kernel knows of it: where it lies, or its value.
                content = strides(x) if buffered else _bytes(x)
                parts.append((x.type, content))
                continue
            if id(at) not in places:
                places[id(at)] = len(listed)
                listed.append(at)
            inputs = tuple([numbers[y.serial] for y in x.inputs])
            layout = strides(x) if serial in written else None
            read = region.reads.get(serial)
            folded = None if read is None else (read, strides(x.inputs[0]))
            where = layout, places[id(at)], folded
            parts.append((x.op, x.type, is_virtual(x), inputs, where))
    loops = region.axes, region.inner, region.turns, tuple(listed)
    order = tuple([numbers[x.serial] for x in region.nodes])
    kept = tuple([numbers[x.serial] for x in stored])
    return RegionForm((loops, tuple(parts), order, kept), nodes, numbers)


def _bytes(x: Tensor) -> Any:
    """The value of a number or an array that stands in a kernel."""
    assert x.array is not None
    return bits(x.array)


Made = tuple[Any, Sequence[Tensor]]


def once(key: Any, form: RegionForm, make: Callable[[], Made | None]) -> Made | None:
    """The result of `make` for a form and a key, and nodes that it is about.

    Where it was made before, for other nodes, these stand in their places.
    """
    key = key, form.key
    known = _known.get(key, _MISSING)
    if known is not _MISSING:
        return known and (known[0], [form.nodes[k] for k in known[1]])
    result = make()
    _known[key] = result and (
        result[0],
        tuple(form.numbers[x.serial] for x in result[1]),
    )
    return result
