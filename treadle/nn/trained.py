"""Trainable Variables: those that may by themselves and by all modules around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from weakref import WeakSet

from treadle.graph.variable import Variable


class TrainedPart(Protocol):
    """A module's part in training: its own setting, the modules around and below."""

    _trains: bool
    _above: WeakSet[Any]

    def _items(self) -> Iterator[tuple[str, Any]]: ...


def trains(module: TrainedPart) -> bool:
    """Whether a module and all around it are set to train."""
    return all(m._trains for m in _around(module))


def update_trainable(module: TrainedPart) -> None:
    """Tell every Variable of the network of which this is a part whether it may train.

    One that several modules hold trains if all of them do.
    """
    allowed: dict[int, tuple[Variable, bool]] = {}
    seen: set[tuple[int, bool]] = set()
    stack = [(m, True) for m in _around(module) if not m._above]
    while stack:
        part, free = stack.pop()
        free = free and part._trains
        if (id(part), free) in seen:
            continue
        seen.add((id(part), free))
        for _, item in part._items():
            if isinstance(item, Variable):
                known = allowed.get(id(item), (item, True))[1]
                allowed[id(item)] = item, known and free
            else:
                stack.append((item, free))
    for variable, free in allowed.values():
        variable.allow(free)


def released(module: TrainedPart, gone: Sequence[Any]) -> None:
    """What was in an attribute trains as it may without this module around it; what is
    new there as it may within."""
    kept = {id(item) for _, item in module._items()} if gone else set()
    for item in gone:
        if isinstance(item, Variable):
            item.allow(True)
        elif id(item) not in kept:
            item._above.discard(module)
            update_trainable(item)
    if gone or not trains(module):
        update_trainable(module)


def _around(module: TrainedPart) -> list[Any]:
    """The module, and all that hold it, directly or not."""
    modules = {id(module): module}
    stack: list[Any] = [module]
    while stack:
        for above in stack.pop()._above:
            if id(above) not in modules:
                modules[id(above)] = above
                stack.append(above)
    return list(modules.values())
