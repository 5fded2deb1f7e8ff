"""Notes on nodes and Variables that are written one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self


class Remarks(dict[str, Any]):
    """Notes among which may be tensors that read what has them: a cycle.

    Nodes that the collector does not see are shown to it then, down to their leaves,
    and tuples of them; those that only an object of another kind holds are not found.
    """

    __slots__ = ()
    node: ClassVar[Any]  # the class, of a graph, and what shows one: tensor.py has them
    track: ClassVar[Callable[[Any], None]]

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._show(value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *pairs: Any, **notes: Any) -> None:
        for key, value in dict(*pairs, **notes).items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self

    def _show(self, value: Any) -> None:
        stack, seen = [value], set[int]()
        while stack:
            here = stack.pop()
            if isinstance(here, self.node):
                if id(here) not in seen:
                    seen.add(id(here))
                    type(self).track(here)
                    stack.extend(here.inputs)
            elif isinstance(here, dict):
                stack.extend(here.values())
            elif isinstance(here, (list, tuple, set, frozenset)):
                if type(here) is tuple:  # it may be that of several results
                    type(self).track(here)
                stack.extend(here)
