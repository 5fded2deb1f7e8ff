"""The inline cache of calls: nodes made by a recorded plan, not by running Python.

A loop that builds its graph anew calls the same functions with operands of the same
types, thousands of times between two runs. What such a call makes is put down as a
`NodePlan` by the signature of the call, and the core follows plans.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from treadle.base.changes import StampCheck, changes
from treadle.base.dtypes import OWN
from treadle.base.types import Type
from treadle.graph.leaves import (
    CONSTANT,
    INTEGER,
    integer_array,
    integers,
    scalar_array,
    to_array,
)
from treadle.graph.op import Op
from treadle.graph.operators import Operand
from treadle.graph.origin import (
    capture,
    handing_on,
    holding,
    library,
    plumbing,
    provided,
    written,
    written_at,
)
from treadle.graph.signature import (
    AS_FLOATS,
    LONGEST,
    NONE,
    OTHER,
    TAKEN,
    signature,
    things_of,
)
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.thread import native_calls
from treadle.graph.variable import Variable, VariableItem

__all__ = [
    "Called",
    "NodePlan",
    "Seen",
    "PlanStep",
    "Where",
    "signature",
    "things_of",
]

F = TypeVar("F", bound=Callable[..., Any])
SINGLE = OTHER  # the result is one tensor; else it is a TUPLE or a LIST of them
PLANS = 2048  # of a function: for each size of what it is called with
NOTHING = b"-"  # no key: those are whole numbers


@dataclass(frozen=True)
class PlanStep:
    """A node of a plan: its op, the places of the values it reads, its type."""

    op: Op
    places: tuple[int, ...]
    type: Any


class Where(IntEnum):
    """Where something was seen, as the core knows it."""

    ATTRIBUTE, ITEM, MODE, STAMP, CONTENT, ABSENT, KEYS, PARTS = range(8)


@dataclass(frozen=True)
class Seen:
    """A value seen around a function when a call was traced.

    The place is an ATTRIBUTE, an ITEM of a dict, or a MODE of the task that calls: an
    attribute of what a context variable has. A STAMP is an owner with a `StampCheck`,
    which looks again where the stamp has moved. An array that may be written has a
    CONTENT, which the value is a copy of. What is ABSENT is no item of a dict. A dict
    has its KEYS, strings in order, a list the PARTS that it holds: tuples of them.
    """

    kind: Where
    owner: Any
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class NodePlan:
    """The nodes of a call. Values are numbered: the tensors among the arguments, with
    Variables that are told by type, the newest versions of `variables` (each a
    Variable, or the number of one that is an argument), what is `captured`, the
    `leaves` that the call has made, each made anew of its value, then the steps. At the
    places in `data` an argument is a number or an array, which becomes a leaf: an int,
    or one of a type.

    `form` says what the results are in. A call means this while `holds` says so. What a
    signature tells by identity is kept alive in `things`. A call that is more than
    nodes is left to `run`, with the tensors, and copies of the arrays, that it has.
    """

    operand_count: int
    variables: tuple[Any, ...]
    captured: tuple[Tensor, ...]
    leaves: tuple[Tensor, ...]
    steps: tuple[PlanStep, ...]
    form: int
    results: tuple[int, ...]
    things: tuple[Any, ...]
    holds: Callable[[], bool] | None = None
    data: tuple[tuple[int, Any], ...] = ()
    run: Callable[[tuple[Any, ...]], Any] | None = None

    @property
    def size(self) -> int:
        """How many values there are."""
        read = self.operand_count + len(self.variables) + len(self.captured)
        return read + len(self.leaves) + len(self.steps)


def kept_of(things: Iterable[Any]) -> tuple[Any, ...]:
    """The arguments that the signature of a call tells by identity, and types."""
    return tuple([(type(x), x.type) if isinstance(x, Operand) else x for x in things])


if native_calls is not None:
    native_calls.bind_calls(
        item=VariableItem,
        library=library,
        capture=capture,
        watchers=watchers,
        holding=holding,
        integers=integers,
        integer=integer_array,
        scalar=scalar_array,
        constant=CONSTANT,
        whole=INTEGER,
        plumbing=plumbing,
        provided=provided,
        passing=handing_on,
        changes=changes,
        written=written,
        written_at=written_at,
        dtypes=OWN,
        type=Type,
        copied=to_array,
        again=StampCheck,
        variable=Variable,
        taken=TAKEN,
    )


class Called:
    """A function whose calls are planned.

    What a call comes to is an attribute: what follows `plans` and leaves all other
    calls to a function of Python, or that where there is no core.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, long: Callable[..., Any], data: int = AS_FLOATS) -> None:
        """`long` is the way of a call that has no plan; `data`: which numbers are."""
        self.long = long
        self.data = data
        self.plans: dict[bytes, Any] = {}
        self.latest: list[Any] = [NOTHING, None]  # key and plan of the last call
        self.watched: dict[bytes, Any] = {}  # Variables that keys tell, weakly
        self.__call__ = long
        if native_calls is not None:
            self.__call__ = native_calls.call(self.plans, self.latest, long, data)

    def know(
        self,
        args: Sequence[Any],
        plan: NodePlan,
        named: Mapping[str, Any] = NONE,
        key: bytes | None = None,
    ) -> None:
        """Have calls like this one follow a plan, if they can be told from others."""
        key = key or signature(args, self.data, named)
        if key is None or native_calls is None or plan.size > LONGEST:
            return
        steps = written_steps(plan)
        self.keep(key, written_plan(plan, steps, plan.leaves, plan.things))
        if self.data == AS_FLOATS:
            things = things_of((*args, *named.values()))
            variables = [x for x in things if isinstance(x, Variable)]
            self.watched[key] = [
                weakref.ref(v, lambda _: self.forget(key)) for v in variables
            ]

    def keep(self, key: bytes, plan: Any) -> None:
        """Have calls of a key follow a plan as the core does."""
        if len(self.plans) >= PLANS:
            self.forget()
        self.latest[:] = NOTHING, None
        self.plans[key] = plan

    def forget(self, key: bytes | None = None) -> None:
        """Drop a plan, or all of them."""
        self.latest[:] = NOTHING, None
        for kept in (self.plans, self.watched):
            if key is None:
                kept.clear()
            else:
                kept.pop(key, None)


def written_plan(plan: NodePlan, steps: Any, leaves: Any, things: Any) -> Any:
    """A plan as the core follows it, with other such steps, leaves and things."""
    assert native_calls is not None
    return native_calls.plan(
        plan.operand_count,
        plan.variables,
        plan.captured,
        leaves,
        steps,
        plan.form,
        plan.results,
        plan.data,
        plan.holds,
        things,
        plan.run,
    )


def written_steps(plan: NodePlan) -> Any:
    """The steps of a plan as the core reads them."""
    return tuple([(x.op, x.places, x.type, x.op.closed) for x in plan.steps])
