"""Functions of the library whose nodes are put down by the signature of a call."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, update_wrapper
from sys import intern
from typing import Any, TypeVar, cast

from treadle.base.boundary import guarded
from treadle.base.dtypes import float32, float64
from treadle.base.types import Type
from treadle.graph.call_sizes import family_of_call, nested, with_extents
from treadle.graph.calls import PLANS, SINGLE, Called, NodePlan, PlanStep, kept_of
from treadle.graph.leaves import CONSTANT, INTEGER, LITERAL
from treadle.graph.marks import NO_GRAD
from treadle.graph.operators import Operand
from treadle.graph.origin import handing_on, held, holding
from treadle.graph.serials import newest_serial
from treadle.graph.signature import (
    AS_PARTS,
    AS_ROWS,
    AS_SCALARS,
    NUMBER,
    SCALAR,
    TENSORS,
    kinds_of,
    things_of,
    told_as,
    waits,
)
from treadle.graph.tensor import Tensor, remade, watchers
from treadle.graph.thread import native_calls, thread_state
from treadle.graph.traversal import by_serial, reached
from treadle.graph.variable import Variable

__tracebackhide__ = True  # of frames here, by pytest

F = TypeVar("F", bound=Callable[..., Any])
OPERATORS = {  # functions that are methods of another name
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
    "getitem": "__getitem__",
}
METHODS = frozenset(  # functions that are methods of this name and take the same
    ("all", "any", "argmax", "argmin", "astype", "clip", "cos", "exp", "log", "log1p",
     "log2", "log_softmax", "logsumexp", "max", "mean", "min", "prod", "relu",
     "sigmoid", "sin", "softmax", "sqrt", "square", "squeeze", "sum", "tanh", "var")
)  # fmt: skip


class _Recorded(Called):
    """A function of the library that makes the same nodes for the same signature."""

    def __init__(self, f: Callable[..., Any], data: int) -> None:
        super().__init__(self.run, data)
        self.f = guarded(f)
        self.names: set[str] = set()  # of arguments, by which keys know them
        self.once: set[bytes] = set()  # of calls that were seen once
        self.open: set[bytes] = set()  # of those that have no plan
        update_wrapper(self, f)

    def __reduce__(self) -> str:
        return self.f.__qualname__  # as any function, by where it is found

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, and put down what it made, the second time."""
        if self.data == AS_PARTS and not waits(args[0]):
            return self.f(*args, **kwargs)
        frame = thread_state().frames[-1]
        things = (*args, *kwargs.values())
        busy = bool(watchers or holding)
        if frame.versions and not busy:  # Variables are read as what was assigned
            busy = any(id(x) in frame.versions for x in things_of(things))
        key = None
        self.names.update(map(intern, kwargs))
        if not busy and native_calls is not None:
            key = native_calls.signature(args, self.data, kwargs)
        if key is None:
            return self.f(*args, **kwargs)
        parts, due = list(things_of(things)), None
        if key not in self.once:  # most never come again where sizes change
            _put(self.once, key)
            opened = family_of_call(self, key, parts)
            if opened is None:
                return self.f(*args, **kwargs)
            family, extents = opened
            known = family.plan(extents, parts)
            if known is not None:
                self.keep(key, known)
                return self.__call__(*args, **kwargs)
            due = family.due(extents)
            if due is None:
                return self.f(*args, **kwargs)
        if key in self.open or _meet(parts):
            return self.f(*args, **kwargs)
        with held() if due else nullcontext():  # of what is called within none is due
            start = newest_serial()
            result = self.f(*args, **kwargs)
        plan = _plan(parts, result, start, key)
        if plan is None:
            _put(self.open, key)
            return result
        self.know(args, plan, kwargs, key)
        if due is not None:
            family.learn(due, plan, partial(self._planned, args, kwargs, parts, key))
        return result

    def _planned(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        parts: Sequence[Any],
        key: bytes,
        extents: Sequence[Any],
    ) -> NodePlan | None:
        """The plan of a call with other extents."""
        others = with_extents(parts, key, extents)
        rest = iter(others)
        values = [nested(rest, x) for x in (*args, *kwargs.values())]
        named = dict(zip(kwargs, values[len(args) :], strict=True))
        start = newest_serial()
        return _plan(others, self.f(*values[: len(args)], **named), start, key)


def _put(keys: set[bytes], key: bytes) -> None:
    if len(keys) >= PLANS:
        keys.clear()
    keys.add(key)


def _meet(things: Sequence[Any]) -> bool:
    """Return True if a Variable is read that is another argument too: a node would not
    tell which."""
    read = {id(x): x.node().serial for x in things if isinstance(x, Variable)}
    if not read:
        return False
    nodes = {x.serial for x in things if isinstance(x, Tensor)}
    return len(nodes.union(read.values())) < len(nodes) + len(read)


handing_on.add(_Recorded.run.__code__)


def recorded(f: F) -> F:
    """Have the nodes that `f` makes put down by its signature.

    They must be decided by that: by the types of tensors, and other arguments.
    """
    return _operator(f, _Recorded(f, 0))


def recorded_with_rows(f: F) -> F:
    """As `recorded`, for a function that takes ints as data, each for a leaf."""
    return cast(F, _Recorded(f, AS_ROWS))


def recorded_with_numbers(f: F) -> F:
    """As `recorded`, for a function of tensors and numbers beside them."""
    return _operator(f, _Recorded(f, AS_SCALARS))


def recorded_of_parts(f: F) -> F:
    """As `recorded`, for a function of a tensor and ranges, where that has no value."""
    return _operator(f, _Recorded(f, AS_PARTS))


def _operator(f: F, recorded: _Recorded) -> F:
    name = f.__name__ if f.__name__ in METHODS else OPERATORS.get(f.__name__)
    if native_calls is not None and name is not None:
        call = update_wrapper(recorded.__call__, getattr(Operand, name))
        call.__module__ = Operand.__module__  # to pickle, also what a base has
        call.__qualname__ = f"{Operand.__qualname__}.{name}"
        setattr(Operand, name, call)
        copyreg.pickle(type(call), _qualified)
    return cast(F, recorded)


def _qualified(call: Any) -> str:
    """The name under which a pickle has a method."""
    return str(call.__qualname__)


def _plan(
    things: Sequence[Any], result: Any, start: int, key: bytes
) -> NodePlan | None:
    """The plan of the nodes made from serial `start` on; None where that is no plan."""
    pairs = [*zip(things, kinds_of(key), strict=True)]
    operands = [x for x, k in pairs if isinstance(x, Operand) or k in (NUMBER, SCALAR)]
    variables = [k for k, x in enumerate(operands) if isinstance(x, Variable)]
    tensors = [(k, x) for k, x in enumerate(operands) if isinstance(x, Tensor)]
    place = {x.serial: k for k, x in reversed(tensors)}
    numbers = [k for k, x in enumerate(operands) if not isinstance(x, Operand)]
    data: list[tuple[int, Any]] = []
    for n, k in enumerate(variables, len(operands)):
        place.setdefault(operands[k].node().serial, n)
    results = result if type(result) in (tuple, list) else (result,)
    if not all(type(y) in TENSORS for y in results):
        return None
    nodes = _made(results, place, start)
    leaves = [x for x in nodes if x.op is CONSTANT or x.op is LITERAL]
    if numbers:
        scalars = any(k == SCALAR for _, k in pairs)
        constants = [x for x in leaves if x.op is CONSTANT]
        if len(constants) != len(numbers) or (scalars and len(constants) > 1):
            return None  # which is which would be a guess
        if not all(_is_leaf_of_number(x.type, scalars) for x in constants):
            return None
        place.update({x.serial: k for k, x in zip(numbers, constants, strict=True)})
        data = [
            (k, x.type if scalars else None)
            for k, x in zip(numbers, constants, strict=True)
        ]
        leaves = [x for x in leaves if x.op is LITERAL]
    first = len(operands) + len(variables)
    place.update({x.serial: k for k, x in enumerate(leaves, first)})
    steps: list[PlanStep] = []
    first += len(leaves)
    for node in nodes:
        if node.serial in place:
            continue
        if not _plain(node) or any(x.serial not in place for x in node.inputs):
            return None
        read = tuple(place[x.serial] for x in node.inputs)
        place[node.serial] = first + len(steps)
        steps.append(PlanStep(node.op, read, node.type))
    if any(y.serial not in place for y in results):
        return None
    narrow = any(operands[k].type.dtype is float32 for k in variables)
    if narrow and any(getattr(y.type, "dtype", None) is float64 for y in steps):
        return None  # each call warns
    form = SINGLE if isinstance(result, Tensor) else told_as(result)
    return NodePlan(
        len(operands),
        tuple(variables),
        (),
        tuple(map(_apart, leaves)),
        tuple(steps),
        form,
        tuple(place[y.serial] for y in results),
        kept_of(things),
        data=tuple(data),
    )


def _apart(leaf: Tensor) -> Tensor:
    """A leaf of the same value: what becomes of the one in a graph concerns no plan."""
    copy = remade(leaf, leaf.op, (), leaf.type)
    copy.stored = leaf.stored
    return copy


def _is_leaf_of_number(t: Type, scalars: bool) -> bool:
    """Return True if a leaf made in a call may be a number that was given: one beside
    tensors is none of what a comparison has found by itself."""
    return not t.shape and t.dtype.kind != "b" if scalars else t is INTEGER


def _made(results: Sequence[Tensor], place: dict[int, int], start: int) -> list[Tensor]:
    """The nodes behind results that are younger than `start`, in creation order."""

    def is_made(x: Tensor) -> bool:
        return x.serial > start and x.serial not in place

    nodes = reached(filter(is_made, results), lambda x: filter(is_made, x.inputs))
    return sorted(nodes, key=by_serial)


def _plain(node: Tensor) -> bool:
    """Return True if a node is no more than its op on its inputs."""
    new = node.mark is None or node.mark is NO_GRAD  # as each that a plan makes
    bare = node.stored is None and new and node._name is None
    same = node._metadata is thread_state().notes
    return bare and same and bool(node.inputs) and node.op.closed
