"""Batching signatures: the key of nodes that are rows of one batched op."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from treadle.base.caches import Cache
from treadle.base.dtypes import is_inexact
from treadle.base.options import current
from treadle.batch.bodies import TEMPLATES, body_of
from treadle.batch.template import Template
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.graph.leaves import LITERAL, Version
from treadle.graph.op import Op
from treadle.graph.origin import Origin
from treadle.graph.rows import batched
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Update
from treadle.ops.call import Call
from treadle.ops.contract import Contract
from treadle.ops.control import Cond
from treadle.ops.flow import StopGradient
from treadle.ops.loop import Scan
from treadle.ops.while_loop import While

WIDE = 8  # uses of an element, with which a product is worth a kernel of its own

_templates: Cache[Any, Template] = Cache("templates of rows", TEMPLATES)


def apart(op: Op) -> bool:
    """True if an op is never a row: it changes state or is not written out yet."""
    return type(op) is Update or op.family in ("derivative", "state", "tape")


def shared_of(body: Body) -> tuple[list[int], list[int]]:
    """The arguments of a traced body that are Variables, and the others."""
    known = body.memo.get("shared")
    if known is None:
        marks = [(x.mark or {}).get("variable") for x in body.arguments]
        shared = [k for k, v in enumerate(marks) if v is not None]
        rows = [k for k, v in enumerate(marks) if v is None]
        known = body.memo["shared"] = shared, rows
    return known


class Signature:
    """One kind of unit: its body, and the nodes that all its units share.

    `shared` has those nodes by argument of the body, `serials` theirs, `rows` the other
    arguments; `origin` is where the first unit was written, if its body was not.
    """

    __slots__ = (
        "body",
        "number",
        "origin",
        "outputs",
        "rows",
        "serials",
        "shared",
    )

    def __init__(
        self, body: Body, shared: dict[int, Tensor], rows: Sequence[int]
    ) -> None:
        self.number = 0  # among those of a run
        self.body = body
        self.shared = shared
        self.serials = {k: node.serial for k, node in shared.items()}
        self.rows = rows
        self.origin: Origin | None = None
        self.outputs = len(body.outputs)

    @property
    def multiplies(self) -> bool:
        """True if there are products of matrices among what a unit does."""
        memo = self.body.memo
        if "multiplies" not in memo:
            multiplies = any(isinstance(x.op, Contract) for x in self.body.nodes)
            memo["multiplies"] = multiplies
        return bool(memo["multiplies"])

    @property
    def is_wide(self) -> bool:
        """Return True if its products use each element of their largest matrix so many
        times that products of more rows would be no quicker.
        """
        memo = self.body.memo
        if "wide" not in memo:
            products = [x for x in self.body.nodes if isinstance(x.op, Contract)]
            memo["wide"] = all(
                x.op.work(*[y.type for y in x.inputs])  # type: ignore[attr-defined]
                >= WIDE * max(y.type.size for y in (x, *x.inputs))
                for x in products
            )
        return bool(memo["wide"])

    def forget(self) -> None:
        """Let go of the nodes; the serials stay."""
        self.shared = {}

    def part(self, body: Body, places: Sequence[int]) -> Signature:
        """That of a part of the body, whose first arguments are those `places`; what
        comes after them is rows.
        """
        shared = {k: self.shared[x] for k, x in enumerate(places) if x in self.shared}
        rows = [k for k in range(len(body.arguments)) if k not in shared]
        signature = Signature(body, shared, rows)
        signature.origin = self.origin
        return signature

    @classmethod
    def whole(cls, body: Body, rows: int, shared: Sequence[Tensor]) -> Any:
        """That of a body whose first arguments are rows, so many, and the others these
        nodes; None if it can be done for no rows.
        """
        has_rows = tuple(k < rows for k in range(len(body.arguments)))
        if not any(has_rows) or not _works(body, has_rows):
            return None
        return cls(body, dict(enumerate(shared, rows)), range(rows))

    @classmethod
    def of(
        cls,
        node: Tensor,
        inputs: Sequence[Tensor],
        shares: Container[int],
        body: Body | None = None,
        constant: bool = False,
    ) -> Any:
        """The signature of a node that shares the operands numbered in `shares`; None
        if it can be no row. The operands have values or are rows.

        `body` is what the node does with them, if that is not its op alone; `constant`
        tells that no derivative goes on behind it.
        """
        op = node.op
        if type(op) is Call:
            body = op.body
        elif body is None:
            body = _single(node, inputs)
        if constant:
            body = _stopped(body)
        plain = type(op) is not Call  # whose literals are part of its body
        numbers = [k for k, x in enumerate(inputs) if not plain or x.op is not LITERAL]
        shared = {k: inputs[n] for k, n in enumerate(numbers) if n in shares}
        rows = [k for k in range(len(numbers)) if k not in shared]
        signature = cls(body, shared, rows)
        signature.origin = node.origin if plain else None
        has_rows = tuple(k not in shared for k in range(len(body.arguments)))
        return signature if any(has_rows) and _works(body, has_rows) else None


def _single(node: Tensor, inputs: Sequence[Tensor]) -> Body:
    """The body of one op, with the literals among its inputs."""
    arguments = [x for x in inputs if x.op is not LITERAL]
    numbers = iter(range(len(arguments)))
    operands = [x if x.op is LITERAL else ~next(numbers) for x in inputs]
    return body_of(node.op.name, [node], operands, [x.type for x in arguments], [0])


def _stopped(body: Body) -> Body:
    """A body that does the same, and through which no derivative goes on."""
    if "stopped" not in body.memo:
        with tracing(body.name):
            ends = [
                StopGradient()(y) if is_inexact(y.type.dtype) else y
                for y in body.outputs
            ]
            body.memo["stopped"] = Body(body.name, body.arguments, ends)
    stopped: Body = body.memo["stopped"]
    return stopped


def has_loops(body: Body) -> bool:
    """True if a body branches or loops, which is done by programs within programs."""
    known: bool | None = body.memo.get("loops")
    if known is None:
        inner = [x.op.body for x in body.nodes if type(x.op) is Call]
        loops = [x for x in body.nodes if isinstance(x.op, (Cond, Scan, While))]
        known = body.memo["loops"] = bool(loops) or any(map(has_loops, inner))
    return known


def ops_of(body: Body) -> int:
    """The number of ops of a body."""
    known: int | None = body.memo.get("ops")
    if known is None:
        known = body.memo["ops"] = sum(bool(x.inputs) for x in body.nodes)
    return known


def _works(body: Body, has_rows: tuple[bool, ...]) -> bool:
    """True if every op of a body has a rule for rows that steps of a forest can do."""
    key = "rows", has_rows
    if key not in body.memo and has_loops(body):
        body.memo[key] = False
    if key not in body.memo:
        with tracing(body.name):
            body.memo[key] = batched(body, has_rows, 2) is not None
    return body.memo[key]


def template_of(
    signature: Signature,
    wanted: Sequence[int],
    lasting: Sequence[int] = (),
    asked: Container[int] = (),
) -> Template:
    """The template of the rows of a signature; `wanted` rows may get cotangents, those
    of the `lasting` ones stay. What rows share gets one if it is trained or `asked`."""
    body, shared = signature.body, signature.shared
    has_rows = tuple(k not in shared for k in range(len(body.arguments)))

    def gets(k: int) -> bool:
        if has_rows[k]:
            return k in wanted
        return _trainable(shared[k]) or shared[k].serial in asked

    types = [x.type.dtype for x in body.arguments]
    derived = tuple([is_inexact(t) and gets(k) for k, t in enumerate(types)])
    key = current().compilation, body.number, has_rows, derived, tuple(lasting)
    template = _templates.get(key)
    if template is None:
        template = _templates[key] = Template(body, has_rows, derived, lasting)
    return template


def _trainable(node: Tensor) -> bool:
    """Return True if a derivative goes on below what rows share."""
    if type(node.op) is Version:
        return bool(node.op.variable.trainable)
    return bool(node.inputs)
