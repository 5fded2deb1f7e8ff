"""Hoisting: parts of a body done for all rows at once, before the first of its groups.

A cell reads what it has made itself, so its rows run in many groups; but what it does
with its input alone waits for none of them. So do recurrent layers of libraries, which
multiply the inputs of all steps at once (Appleyard, Kocisky and Blunsom, "Optimizing
performance of recurrent neural networks on GPUs", 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.base.types import TupleType
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.ops.contract import Contract

WIDER = 8  # times the bytes of what it reads: more is not worth its memory


@dataclass(frozen=True)
class Apart:
    """A body in two: `first` makes what `rest` reads after its own arguments.

    `inputs` and `left` have the arguments of both, by those of the body.
    """

    first: Body
    inputs: tuple[int, ...]
    rest: Body
    left: tuple[int, ...]


def apart_from(body: Body, rows: Sequence[int], early: Sequence[int]) -> Apart | None:
    """The split of a body by the `early` among the arguments that are rows; None where
    that is no product, makes much of little, or is all of it."""
    if not early or len(early) == len(rows):
        return None
    key = "apart", tuple(rows), tuple(early)
    if key not in body.memo:
        with tracing(body.name):
            body.memo[key] = _apart(body, rows, early)
    return body.memo[key]


def _apart(body: Body, rows: Sequence[int], early: Sequence[int]) -> Apart | None:
    late = {body.arguments[k].serial for k in rows if k not in early}
    ahead = {body.arguments[k].serial for k in early}
    products = False
    for node in body.nodes:
        if any(x.serial in late for x in node.inputs):
            late.add(node.serial)
        elif any(x.serial in ahead for x in node.inputs):
            ahead.add(node.serial)
            products |= isinstance(node.op, Contract)
    ends = _ends(body, ahead)
    if not products or any(x.serial in ahead for x in body.outputs):
        return None
    size = sum(body.arguments[k].type.nbytes for k in early)
    if any(isinstance(x.type, TupleType) for x in ends):
        return None
    if sum(x.type.nbytes for x in ends) > WIDER * size:
        return None
    name = body.name
    first, inputs = _body(f"inputs of {name}", body, ends, ())
    rest, left = _body(name, body, body.outputs, ends)
    return Apart(first, inputs, rest, left)


def _ends(body: Body, ahead: set[int]) -> list[Tensor]:
    """The nodes ahead that the others read, but for arguments."""
    read = {
        x.serial: x
        for node in body.nodes
        for x in node.inputs
        if node.serial not in ahead and x.serial in ahead and x.inputs
    }
    return [read[serial] for serial in sorted(read)]


def _body(
    name: str, body: Body, outputs: Sequence[Tensor], ahead: Sequence[Tensor]
) -> tuple[Body, tuple[int, ...]]:
    """The body of some nodes from the arguments of another and what is `ahead`, and
    which of the arguments it reads.
    """
    known = {x.serial for x in ahead}
    read = {x.serial for x in reach(outputs, lambda x: x.serial in known)}
    places = [k for k, x in enumerate(body.arguments) if x.serial in read]
    replaced = {
        x.serial: Tensor(Argument(k), (), x.type)
        for k, x in enumerate([*(body.arguments[k] for k in places), *ahead])
    }
    rebuilt = rebuild(outputs, replaced)
    return Body(name, list(replaced.values()), rebuilt), tuple(places)
