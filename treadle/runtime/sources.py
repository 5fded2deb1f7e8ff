"""Sources of the arrays of a planned run, and their targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import OWN
from treadle.base.types import Type
from treadle.engines.base import Failed
from treadle.graph.claim import Claim
from treadle.graph.look import Look
from treadle.graph.resident import Future, Futures, Resident, soon
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.runtime.forests import RowsRun


class Slot(int):
    """The number of an array that a run makes; a plain int is a place of the graph."""

    __slots__ = ()


class Stacked(tuple[int, ...]):
    """The places of nodes of the graph whose arrays are one, one a row."""

    __slots__ = ()


# A place of the graph that is looked at, or several, a Variable, what is made, or a
# constant.
Source = Any
# What a program takes as a value, and the node that has it, if one has (`Found`).
AsArgument = Callable[[Any, Tensor | None], Any]


class Values:
    """The arrays of one run, by their sources."""

    def __init__(self, look: Look, made: list[Any]) -> None:
        self.look, self.made = look, made
        self.rows: dict[int, RowsRun] = {}
        self.sure: dict[int, Callable[[], bool]] = {}  # of rows
        self.late: dict[Slot, Futures] = {}  # what arrays of rows are yet to come of
        self.begun: list[Futures] = []  # what goes on beside this, in order
        self.claim: Claim | None = None  # of what the last part makes

    def __call__(
        self, source: Source, begin: bool = False, as_argument: AsArgument | None = None
    ) -> Any:
        """The array of a source, or what `as_argument` makes of its value; it may not
        be there yet, where a run only begins.
        """
        node = None
        if type(source) is int:
            node = self.look.nodes[source]
            value = node.stored
        elif type(source) is Slot:
            value = self.made[source]
        elif type(source) is Stacked:
            nodes = [self.look.nodes[k] for k in source]
            value = np.stack([x.array for x in nodes])  # type: ignore[misc]
        elif isinstance(source, Variable):
            claim = self.claim
            node = None if claim is None else claim.taken_from(source)
            node = source.committed if node is None else node
            value = node.stored
            if value is None:  # another thread has assigned it
                raise Failed
        else:
            value = source
        if as_argument is not None:
            return as_argument(value, node)
        if isinstance(value, Resident):
            return soon(value) if begin else value.numpy()
        return value

    def there(self, slot: Slot) -> Any:
        """The array of rows that a node gets, when it has been written."""
        array, run = self.made[slot], self.late.get(slot)
        if run is None or run.went_well:
            return array
        return run.of(Type(array.shape, OWN[array.dtype]), array)

    def put(self, arrays: Mapping[int, Any] | Sequence[Any], slots: Slots) -> None:
        """Keep some of these arrays, each in its slot."""
        x = None
        for k, slot in slots:
            self.made[slot] = x = arrays[k]
        if type(x) is Future:
            self.begun.append(x.run)


Slots = list[tuple[int, Slot]]  # the number of a result, and where it goes
