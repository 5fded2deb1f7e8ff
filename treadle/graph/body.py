"""A Body: a traced subgraph with arguments, and the trace that makes one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from treadle.base.caches import Cache
from treadle.base.errors import TraceError, TreadleError
from treadle.base.symbolic import bits
from treadle.base.types import TupleType, Type
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.leaves import Argument, Constant, Draw, Leaf, draw_node
from treadle.graph.meaning import compute_at
from treadle.graph.op import Op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.graph.variable import Variable

Arrays = Sequence[np.ndarray[Any, Any]]
_numbers = itertools.count()
_kinds: dict[type[Op], _Kind] = {}
SHARED = 1024  # bodies kept so that the same one is found again
SIGNS = 4096  # structures of bodies that are known again
LARGE = 4096  # bytes of the constants of a body that is
_shared: Cache[Any, Body] = Cache("shared bodies", SHARED)
_signs: Cache[Any, int] = Cache("structures of bodies", SIGNS)


class Body:
    """A function as a graph: outputs computed from arguments and from nothing else.

    Bodies are compared by identity. `memo` keeps what is derived from one, such as
    its backward body, so that it is derived once.
    """

    __slots__ = (
        "__weakref__",
        "arguments",
        "closed",
        "memo",
        "name",
        "nodes",
        "number",
        "outputs",
        "result",
        "types",
    )

    def __init__(
        self, name: str, arguments: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        self.name = name
        self.arguments = tuple(arguments)
        self.outputs = tuple(functions.written_out(outputs))
        self.types: tuple[Type, ...] = tuple([y.type for y in self.outputs])
        # The type of a call.
        one = len(self.types) == 1
        self.result = self.types[0] if one else TupleType(self.types)
        self.nodes = reach([*self.outputs, *self.arguments])
        # Whether nothing it computes with leads to nodes outside.
        self.closed = all(x.op.closed for x in self.nodes)
        self.memo: dict[Any, Any] = {}
        self.number = next(_numbers)

    def numpy(self, arrays: Arrays) -> tuple[np.ndarray[Any, Any], ...]:
        """The outputs for these argument values, by the NumPy rule of each op."""
        pairs = zip(self.arguments, arrays, strict=True)
        values: dict[int, Any] = {x.serial: array for x, array in pairs}
        for node in self.nodes:
            if node.serial in values:
                continue
            if node.stored is not None and not node.inputs:
                values[node.serial] = node.array
            else:
                operands = [values[x.serial] for x in node.inputs]
                try:
                    values[node.serial] = compute_at(
                        node.op, node.type, operands, node.origin
                    )
                except TreadleError as error:
                    error.layer = error.layer or node.metadata.get("module", "")
                    raise
        return tuple(values[y.serial] for y in self.outputs)

    def resized(self, types: Sequence[Type]) -> Body:
        """The same with outputs of other extents, for who runs it in another way."""
        copy = object.__new__(Body)
        for name in Body.__slots__[1:]:
            setattr(copy, name, getattr(self, name))
        copy.types = tuple(types)
        copy.result = types[0] if len(types) == 1 else TupleType(types)
        return copy

    def shared(self) -> Body:
        """The first body of the same structure, numbers and name as this one.

        What is derived from a body stays with it: who traces the same again gets the
        same. Only for bodies without large constants: they are kept.
        """
        return _shared.setdefault((self.name, self.sign), self)

    @property
    def sign(self) -> int:
        """A number that bodies have in common which compute the same from the same.

        One with large constants, or with what is no constant, has one of its own.
        """
        known: int | None = self.memo.get("sign")
        if known is None:
            parts = self.sign_parts()
            if parts is None:
                known = self.number
            else:
                known = _signs.setdefault(parts, self.number)
            self.memo["sign"] = known
        return known

    def sign_parts(self) -> tuple[Any, ...] | None:
        """The structure with the constants in it, if they are small."""
        place = {node.serial: k for k, node in enumerate(self.nodes)}
        parts: list[Any] = []
        size = 0
        for node in self.nodes:
            raw = None
            if isinstance(node.op, Leaf) and not isinstance(node.op, Argument):
                if not isinstance(node.op, Constant) or node.array is None:
                    return None
                size += node.array.nbytes
                if size > LARGE:
                    return None
                raw = bits(node.array)
            read = tuple([place[x.serial] for x in node.inputs])
            parts.append((sign_of(node.op), node.type, read, raw))
        for ends in (self.arguments, self.outputs):
            parts.append(tuple([place[x.serial] for x in ends]))
        return tuple(parts)

    def __repr__(self) -> str:
        return f"<body {self.name}: {len(self.nodes)} nodes>"


class CalledBody(Body):
    """A body as an op's rule calls it where an engine runs it in a way of its own."""

    __slots__ = ("run",)

    def __init__(self, body: Body, run: Callable[[Arrays], Any]) -> None:
        for name in Body.__slots__[1:]:
            setattr(self, name, getattr(body, name))
        self.run = run

    def numpy(self, arrays: Arrays) -> tuple[np.ndarray[Any, Any], ...]:
        return self.run(arrays)


class _Kind(NamedTuple):
    """The names of the fields of a class of op, and what is among their values."""

    names: tuple[str, ...]
    has_body: bool
    has_sign: bool  # some are known by a sign


def _kind(op: Op) -> _Kind:
    known = _kinds.get(type(op))
    if known is None:
        names = tuple(f.name for f in fields(op))  # type: ignore[arg-type]
        values = [type(getattr(op, name)) for name in names]
        has_body = any(issubclass(x, Body) for x in values)
        # Not of the values: a sign of theirs may ask for that of an op of this class.
        has_sign = any(hasattr(x, "sign") for x in values)
        known = _kinds[type(op)] = _Kind(names, has_body, has_sign)
    return known


def bodies(op: Op) -> dict[str, Body]:
    """The bodies among an op's attributes, by name."""
    kind = _kind(op)
    if not kind.has_body:
        return {}
    return {n: v for n in kind.names if isinstance(v := getattr(op, n), Body)}


def effect_of(op: Op) -> str:
    """The effect of an op, or of those in its bodies, as in Traits."""
    effect = op.traits.effect
    for body in bodies(op).values() if op.family == "control" else ():
        known = body.memo.get("effect")
        if known is None:
            every = {effect_of(node.op) for node in body.nodes}
            known = next((e for e in ("each", "once") if e in every), "")
            body.memo["effect"] = known
        effect = known if known == "each" else effect or known
    return effect


def is_repeatable(op: Op) -> bool:
    """True if an op, with those in its bodies, comes to the same when done again."""
    return op.traits.repeatable and all(
        is_repeatable(node.op) for body in bodies(op).values() for node in body.nodes
    )


def with_bodies(op: Op, make: Callable[[Body], Body]) -> Op:
    """The op with what is made of each of its bodies in the body's place."""
    replaced = {name: make(body) for name, body in bodies(op).items()}
    if all(getattr(op, name) is body for name, body in replaced.items()):
        return op
    return replace(op, **replaced)  # type: ignore[type-var]


def sign_of(op: Op) -> Any:
    """The key by which an op is equal, without its bodies or its tape themselves: for
    tables that stay."""
    kind = _kind(op)
    if not kind.names:
        return type(op)
    if not kind.has_sign:
        return op
    values = [getattr(op, name) for name in kind.names]
    return type(op), *[getattr(x, "sign", x) for x in values]


@dataclass(frozen=True)
class Trace:
    """A traced function: its body and where the inputs of a call come from.

    The body's arguments are, in order: the explicit ones, the Variables read, the
    captured tensors, and one draw for each random op.
    """

    body: Body
    variables: tuple[Variable, ...]
    captured: tuple[Tensor, ...]
    draws: int
    assigned: tuple[tuple[Variable, int], ...] = ()

    def drawn(self) -> list[Tensor]:
        """The next draws of this thread for the random ops of the body."""
        count = len(self.body.arguments) - self.draws
        return [draw_node(x.type.shape[:-1]) for x in self.body.arguments[count:]]


class Traceable:
    """A function that keeps its traces, each for what it is called with."""

    __slots__ = ()

    def traced(self, *args: Any) -> tuple[Trace, Any] | None:
        """The trace for such arguments, trees of tensors, and the structure of its
        result; None where a call is more than the nodes of that."""
        raise NotImplementedError


def trace(
    function: Callable[..., Sequence[Tensor]], types: Sequence[Type], name: str
) -> Trace:
    """Run `function` on arguments of these types and keep the graph it builds."""
    return close(*traced(function, types, name))


def traced(
    function: Callable[..., Sequence[Tensor]], types: Sequence[Type], name: str
) -> tuple[TraceFrame, list[Tensor], list[Tensor]]:
    """The frame of a trace, its arguments and what `function` builds of them."""
    frame = TraceFrame(name)
    arguments = [Tensor(Argument(k), (), t) for k, t in enumerate(types)]
    for argument in arguments:
        argument.mark = {"trace": name}
    with pushed(frame):
        outputs = list(function(*arguments))
    return frame, arguments, outputs


def close(frame: TraceFrame, arguments: list[Tensor], outputs: list[Tensor]) -> Trace:
    """Make a Body of what a frame has built: everything from outside is an argument."""
    count = len(outputs)
    everything = outputs + [update.inputs[1] for update in frame.versions.values()]
    argument_serials = {x.serial for x in arguments}
    reads = list(frame.reads.values())
    argument_serials |= {x.serial for _, x in reads}

    def outside(node: Tensor) -> bool:
        # Of a node of several results each one is read, and not the node.
        several = node.op.family == "output"
        source = node.inputs[0] if several else node
        return source.serial < frame.start and node.serial not in argument_serials

    everything = functions.written_in_order(everything, outside)
    nodes = reach(everything, outside)
    captured = [n for n in nodes if outside(n)]
    draws = [n for n in nodes if isinstance(n.op, Draw) and not outside(n)]
    replaced = {x.serial: Tensor(Argument(-1), (), x.type) for x in captured + draws}
    for x in captured + draws:
        replaced[x.serial].mark = x.mark
    done = rebuild(everything, replaced, outside)
    inputs = arguments + [x for _, x in reads]
    inputs += [replaced[x.serial] for x in captured + draws]
    for k, x in enumerate(inputs):
        x.op = replace(Argument(), position=k)
    return Trace(
        Body(frame.name, inputs, done),
        tuple(v for v, _ in reads),
        tuple(captured),
        len(draws),
        tuple((v, count + k) for k, v in enumerate(frame.assigned)),
    )


def argument_error(node: Tensor) -> TraceError:
    """The error for asking a value of something that only a call will know."""
    name = (node.mark or {}).get("trace", "a function")
    return TraceError(
        f"the value of {node.type} is asked for while {name!r} is being traced",
        hint="choose by value with td.cond, td.while_loop, td.scan or td.where, or "
        "return the tensor and decide outside",
    )
