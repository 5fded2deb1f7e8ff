"""What calls come to: nodes that are made again by a plan, not by running Python.

A loop that builds its graph anew calls the same functions with operands of the same
types, thousands of times between two runs. What such a call makes is put down as a
`Plan` by the signature of the call, and the core follows plans.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from sys import intern
from typing import Any, TypeVar, cast

from treadle.base.boundary import guarded
from treadle.base.changes import Again, changes
from treadle.base.options import modes
from treadle.base.types import Type
from treadle.graph.frame import top
from treadle.graph.leaves import (
    CONSTANT,
    INTEGER,
    LITERAL,
    figure_array,
    integer_array,
    integers,
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
)
from treadle.graph.serials import newest_serial
from treadle.graph.signature import (
    FIGURE,
    FIGURES,
    LONGEST,
    NONE,
    NUMBER,
    OTHER,
    ROWS,
    TENSORS,
    kinds_of,
    signature,
    things_of,
    told_as,
)
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.thread import native_calls, thread_state
from treadle.graph.variable import Variable, VariableItem

__all__ = [
    "Called",
    "Plan",
    "Seen",
    "Step",
    "recorded",
    "recorded_with_numbers",
    "recorded_with_rows",
    "signature",
    "things_of",
]

F = TypeVar("F", bound=Callable[..., Any])
ATTRIBUTE, ITEM, MODE, STAMP = range(4)  # where something was seen
SINGLE = OTHER  # the result is one tensor; else it is a TUPLE or a LIST of them
PLANS = 256  # of a function
NOTHING = b"-"  # no key: those are whole numbers
OPERATORS = {  # functions that are methods
    "add": "__add__",
    "subtract": "__sub__",
    "multiply": "__mul__",
    "divide": "__truediv__",
    "matmul": "__matmul__",
    "negative": "__neg__",
    "less": "__lt__",
    "less_equal": "__le__",
    "greater": "__gt__",
    "greater_equal": "__ge__",
}


@dataclass(frozen=True)
class Step:
    """A node of a plan: its op, the places of the values it reads, its type."""

    op: Op
    places: tuple[int, ...]
    type: Any


@dataclass(frozen=True)
class Seen:
    """What stood in a place around a function when a call was traced.

    The place is an ATTRIBUTE, an ITEM of a dict, or a MODE of the task that calls: an
    attribute of what a context variable has. A STAMP is an owner that looks `Again`
    where the stamp has moved.
    """

    kind: int
    owner: Any
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class Plan:
    """The nodes of a call. Values are numbered: the tensors among the arguments, the
    newest versions of `variables` (each a Variable, or the place in the signature of
    one that is an argument, which a plan does not keep alive), what is `captured`, the
    `leaves` that the call has made, each made anew of its value, then the steps. At the
    places in `data` an argument is a number, which becomes a leaf: an int, or one of a
    type beside tensors.

    `form` says what the results are in. A call means this while what was `seen` is
    there and `holds`, which is asked after that, says so. What a signature tells by
    identity is kept alive in `things`.
    """

    given: int
    variables: tuple[Any, ...]
    captured: tuple[Tensor, ...]
    leaves: tuple[Tensor, ...]
    steps: tuple[Step, ...]
    form: int
    results: tuple[int, ...]
    things: tuple[Any, ...]
    holds: Callable[[], bool] | None = None
    data: tuple[tuple[int, Any], ...] = ()
    seen: tuple[Seen, ...] = ()

    @property
    def size(self) -> int:
        """How many values there are."""
        read = self.given + len(self.variables) + len(self.captured)
        return read + len(self.leaves) + len(self.steps)


if native_calls is not None:
    native_calls.bind_calls(
        item=VariableItem,
        library=library,
        capture=capture,
        watchers=watchers,
        holding=holding,
        integers=integers,
        integer=integer_array,
        figure=figure_array,
        constant=CONSTANT,
        whole=INTEGER,
        plumbing=plumbing,
        provided=provided,
        passing=handing_on,
        changes=changes,
        again=Again,
        variable=Variable,
    )


class Called:
    """A function whose calls are planned.

    What a call comes to is an attribute: what follows `plans` and leaves all other
    calls to a function of Python, or that where there is no core.
    """

    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, long: Callable[..., Any], data: int = 0) -> None:
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
        plan: Plan,
        named: Mapping[str, Any] = NONE,
        key: bytes | None = None,
    ) -> None:
        """Have calls like this one follow a plan, if they can be told from others."""
        key = key or signature(args, self.data, named)
        if key is None or native_calls is None or plan.size > LONGEST:
            return
        if len(self.plans) >= PLANS:
            self.forget()
        self.latest[:] = NOTHING, None
        self.plans[key] = _written(plan)
        things = things_of((*args, *named.values()))
        told = [x for x in things if isinstance(x, Variable)]
        self.watched[key] = [weakref.ref(v, lambda _: self.forget(key)) for v in told]

    def forget(self, key: bytes | None = None) -> None:
        """Drop a plan, or all of them."""
        self.latest[:] = NOTHING, None
        for kept in (self.plans, self.watched):
            if key is None:
                kept.clear()
            else:
                kept.pop(key, None)


def _written(plan: Plan) -> Any:
    """A plan as the core follows it."""
    assert native_calls is not None
    return native_calls.plan(
        plan.given,
        plan.variables,
        plan.captured,
        plan.leaves,
        tuple((x.op, x.places, x.type, x.op.closed) for x in plan.steps),
        plan.form,
        plan.results,
        plan.data,
        tuple((x.kind, x.owner, x.name, x.value) for x in plan.seen),
        plan.holds,
        plan.things,
    )


# -- functions of the library ----------------------------------------------------------


class _Recorded(Called):
    """A function of the library that makes the same nodes for the same signature."""

    def __init__(self, f: Callable[..., Any], data: int) -> None:
        super().__init__(self.run, data)
        self.f = guarded(f)
        self.names: set[str] = set()  # of arguments, by which keys know them
        self.once: set[bytes] = set()  # of calls that were seen once
        self.open: set[bytes] = set()  # of those that have no plan
        update_wrapper(self, f)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, and put down what it made, the second time."""
        frame, now = top(), modes.get()
        things = (*args, *kwargs.values())
        busy = watchers or holding or frame.tracing or now.no_grad
        if frame.versions and not busy:  # Variables are read as what was assigned
            busy = any(id(x) in frame.versions for x in things_of(things))
        key = None
        self.names.update(map(intern, kwargs))
        if not busy and native_calls is not None:
            key = signature(args, self.data, kwargs, sys._getframe())
        if key is None or key in self.open or _meet(things):
            return self.f(*args, **kwargs)
        if key not in self.once:  # most never come again where sizes change
            _put(self.once, key)
            return self.f(*args, **kwargs)
        start = newest_serial()
        found = self.f(*args, **kwargs)
        plan = _plan(things, found, start, key)
        if plan is not None:
            self.know(args, plan, kwargs, key)
        else:
            _put(self.open, key)
        return found


def _put(keys: set[bytes], key: bytes) -> None:
    if len(keys) >= PLANS:
        keys.clear()
    keys.add(key)


def _meet(args: Iterable[Any]) -> bool:
    """Whether a Variable is read that is another argument too, or is read as one: which
    of them a node reads would not be told.
    """
    things = list(things_of(args))
    nodes = {x.serial for x in things if isinstance(x, Tensor)}
    read = {id(x): x.committed.serial for x in things if isinstance(x, Variable)}
    return len(nodes.union(read.values())) < len(nodes) + len(read)


handing_on.add(_Recorded.run.__code__)


def recorded(f: F) -> F:
    """Have the nodes that `f` makes put down by its signature.

    They must be decided by that: by the types of tensors, and other arguments.
    """
    return _operator(f, _Recorded(f, 0))


def recorded_with_rows(f: F) -> F:
    """As `recorded`, for a function that takes ints as data, each for a leaf."""
    return cast(F, _Recorded(f, ROWS))


def recorded_with_numbers(f: F) -> F:
    """As `recorded`, for a function of tensors and numbers beside them."""
    return _operator(f, _Recorded(f, FIGURES))


def _operator(f: F, made: _Recorded) -> F:
    if native_calls is not None and f.__name__ in OPERATORS:
        setattr(Operand, OPERATORS[f.__name__], made.__call__)
    return cast(F, made)


def _plan(args: Sequence[Any], found: Any, start: int, key: bytes) -> Plan | None:
    """What a call made from serial `start` on; None where that is no plan."""
    things = list(things_of(args))
    told = [*zip(things, kinds_of(key), strict=True)]
    given = [x for x, k in told if isinstance(x, Tensor) or k in (NUMBER, FIGURE)]
    variables = [x for x in things if isinstance(x, Variable)]
    tensors = [(k, x) for k, x in enumerate(given) if isinstance(x, Tensor)]
    place = {x.serial: k for k, x in reversed(tensors)}
    numbers = [k for k, x in enumerate(given) if not isinstance(x, Tensor)]
    data: list[tuple[int, Any]] = []
    for k, v in enumerate(variables, len(given)):
        place.setdefault(v.committed.serial, k)
    results = found if type(found) in (tuple, list) else (found,)
    if not all(type(y) in TENSORS for y in results):
        return None
    made = _made(results, place, start)
    leaves = [x for x in made if x.op is CONSTANT or x.op is LITERAL]
    if numbers:
        figures = any(k == FIGURE for _, k in told)
        own = [x for x in leaves if x.op is CONSTANT]
        if len(own) != len(numbers) or (figures and len(own) > 1):
            return None  # which is which would be a guess
        if not all(_is_leaf_of_number(x.type, figures) for x in own):
            return None
        place.update({x.serial: k for k, x in zip(numbers, own, strict=True)})
        data = [
            (k, x.type if figures else None) for k, x in zip(numbers, own, strict=True)
        ]
        leaves = [x for x in leaves if x.op is LITERAL]
    first = len(given) + len(variables)
    place.update({x.serial: k for k, x in enumerate(leaves, first)})
    steps: list[Step] = []
    first += len(leaves)
    for node in made:
        if node.serial in place:
            continue
        if not _plain(node) or any(x.serial not in place for x in node.inputs):
            return None
        read = tuple(place[x.serial] for x in node.inputs)
        place[node.serial] = first + len(steps)
        steps.append(Step(node.op, read, node.type))
    if any(y.serial not in place for y in results):
        return None
    form = SINGLE if isinstance(found, Tensor) else told_as(found)
    return Plan(
        len(given),
        tuple(array("q", key).index(id(v)) for v in variables),
        (),
        tuple(leaves),
        tuple(steps),
        form,
        tuple(place[y.serial] for y in results),
        tuple(
            x.type if isinstance(x, Tensor) else x
            for x in things
            if not isinstance(x, Variable)
        ),
        data=tuple(data),
    )


def _is_leaf_of_number(t: Type, figures: bool) -> bool:
    """Whether a leaf made in a call may be a number that was given: one beside tensors
    is none of what a comparison has found by itself."""
    return not t.shape and t.dtype.kind != "b" if figures else t is INTEGER


def _made(results: Sequence[Tensor], place: dict[int, int], start: int) -> list[Tensor]:
    """The nodes behind results that are younger than `start`, in creation order."""
    seen: dict[int, Tensor] = {}
    stack = list(results)
    while stack:
        x = stack.pop()
        if x.serial > start and x.serial not in place and x.serial not in seen:
            seen[x.serial] = x
            stack += x.inputs
    return [seen[serial] for serial in sorted(seen)]


def _plain(node: Tensor) -> bool:
    """Whether a node is no more than its op on its inputs."""
    bare = node.stored is None and node.mark is None and node._name is None
    same = node._metadata is thread_state().notes
    return bare and same and bool(node.inputs) and node.op.closed
