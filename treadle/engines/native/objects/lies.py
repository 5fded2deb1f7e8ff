"""Whether Variables have the values they had, in memory that nobody else looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from treadle.base.routine import routine
from treadle.engines.native.objects.arrays import NumPy
from treadle.engines.native.objects.layout import known_slots
from treadle.engines.native.objects.things import Bytes, Node, Object, Tuple
from treadle.engines.native.routines.compiled import machine
from treadle.graph.references import in_place
from treadle.graph.resident import Future
from treadle.graph.tensor import Tensor

__all__ = ["Late", "lies"]


class Late(Object):
    """A Future."""

    type: Object
    home: Object
    array: NumPy
    before: Object
    run: Object
    _node: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        names = "type", "home", "array", "before", "run", "_node"
        return known_slots(Future, *names)


def lies(versions: Sequence[Tensor], values: Sequence[Future], counts: bytes) -> bool:
    """`in_place` of tuples, in machine code where things lie as expected."""
    function: Any = machine(lie)
    if function is None:
        return in_place(versions, values, counts)
    found: bool = function(versions, values, counts, np.ndarray)
    return found


@routine
def lie(versions: Tuple, values: Tuple, counts: Bytes, arrays: Object) -> bool:
    """`references.in_place`; `arrays` is their class."""
    for k in range(versions.size):
        version = cast(Node, versions.items[k])
        if version.count != counts.words[k] + 1:
            return False
        value = cast(Late, values.items[k])
        # Three refer to it: two versions and the tuple.
        if value is not version.stored or value.count != 3:
            return False
        if not _is_alone(value.array, arrays):
            return False
    return True


@routine
def _is_alone(array: NumPy, arrays: Object) -> bool:
    """Whether one alone refers to an array, and to each whose memory it is part of."""
    under = array
    while under is not None and (under is array or under.kind is arrays):
        if under.count != 1 or under.kind is not arrays:
            return False
        under = under.base
    return True
