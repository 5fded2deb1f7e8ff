"""The instructions of a work item: a Builder with memory of devices, lanes, barriers.

Values, arithmetic and control are those of the native engine's Builder, so scalar ops
and elementary functions are the very code that runs on the CPU. A driver whose language
is LLVM IR derives from it and adds what is abstract here; `text.py` writes C-like text.
All values are scalars: what a vector is on a CPU are the items of a group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from treadle.engines.gpu.remainder import remainder
from treadle.engines.native.codegen.builder import Builder, Value


class DeviceBuilder(Builder):
    """One kernel under construction, run by every item of every work group.

    `buffer(k)` and `shared(...)` give pointers for `offset`, `load` and `store`;
    indices are i64 as on the CPU, whatever the device counts by.
    """

    def opaque(self, x: Value) -> Value:
        """x as it is: devices have no use for inline assembly."""
        return x

    @abstractmethod
    def buffer(self, k: int) -> Value:
        """The pointer to buffer number k of the work."""

    @abstractmethod
    def slot(self, k: int, kind: str) -> Value:
        """Number k of the launch, as a value of a kind: "i64", "float" or "double"."""

    @abstractmethod
    def group(self) -> Value:
        """The number of this work group, an i64."""

    @abstractmethod
    def item(self) -> Value:
        """The number of this item in its group, an i64."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait for all items of the group; what they stored is seen after it."""

    @abstractmethod
    def shared(self, kind: str, count: int) -> Value:
        """The pointer to memory for `count` elements that the group shares."""

    @abstractmethod
    def private(self, kind: str, count: int = 1) -> Value:
        """The pointer to memory for `count` elements that this item has of its own."""

    def frem(self, x: Value, y: Value) -> Value:
        """The exact remainder: languages of devices round a quotient first."""
        return remainder(self, x, y)

    def folded(
        self, x: Value, lanes: int, combine: Callable[[Value, Value], Value]
    ) -> Value | None:
        """The values of a group's lanes, combined in halves, for all its items; None
        where the memory that they share for it is too small."""
        return None

    def guarded(self, kind: str, condition: Value, pointer: Value) -> Value:
        """The value at a pointer where a condition holds, and 0 elsewhere, unread."""
        place = self.private(kind)
        self.store(self.constant(kind, 0), place)
        with self.when(condition):
            self.store(self.load(kind, pointer), place)
        return self.load(kind, place)

    def only(self, condition: Value) -> None:
        """End the groups for which a condition does not hold: those that a driver has
        launched beside what it was asked for. It is nothing to others.
        """
