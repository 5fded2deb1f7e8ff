"""Templates of a signature: forward, backward, and sums over rows.

A body is derived for one row and then done for n: so what mixes rows is known. It is
the gradient of shared operands alone, a sum over the rows, taken once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treadle.base.caches import lazy
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType, Type
from treadle.batch.part import Part
from treadle.batch.sums import frontier, only_rows, summed
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.graph.leaves import Argument
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild
from treadle.ops.lookup import sparse_rows
from treadle.ops.movement import Reshape


@dataclass(frozen=True)
class Sparse:
    """The gradient of a table: where the ids and the values are, as sources."""

    ids: tuple[str, int]
    values: tuple[str, int]
    rows: int
    tail: tuple[int, ...]


class Template:
    """A body of which the inputs marked in `has_rows` are rows, the others shared.

    `wanted` marks the inputs whose cotangents can be asked for; those of the `lasting`
    inputs stay where they are, and sums are taken of them there.
    """

    def __init__(
        self,
        body: Body,
        has_rows: Sequence[bool],
        wanted: Sequence[bool],
        lasting: Sequence[int] = (),
    ) -> None:
        self.body = body
        self.has_rows = tuple(has_rows)
        self.wanted = tuple(wanted)
        self.lasting = tuple(lasting)

    @lazy
    def forward(self) -> Part:
        """Outputs, then what is kept for the gradient."""
        body = Body(self.body.name, self.body.arguments, self._every)
        inputs = tuple(("input", k) for k in range(len(self.has_rows)))
        return Part(body, inputs, self.has_rows)

    @lazy
    def plain(self) -> Part:
        """Outputs alone, where no gradient follows."""
        inputs = tuple(("input", k) for k in range(len(self.has_rows)))
        return Part(self.body, inputs, self.has_rows)

    @property
    def kept(self) -> tuple[Type, ...]:
        """Types of what is kept of a row."""
        return tuple(x.type for x in self._derived.kept)

    @property
    def _every(self) -> list[Tensor]:
        return [*self.body.outputs, *self._derived.kept]

    @property
    def backward(self) -> Part | None:
        """Cotangents of the wanted rows, then the frontier, from those of outputs."""
        return self._derived.backward

    @property
    def total(self) -> Part | None:
        """Cotangents of the shared inputs that are summed up over all rows."""
        return self._derived.total

    @property
    def row_cotangents(self) -> tuple[int, ...]:
        """The inputs that the first results of `backward` belong to."""
        return self._derived.row_inputs

    @property
    def frontier(self) -> tuple[Type, ...]:
        """Types of the other results of `backward`."""
        return self._derived.frontier

    @property
    def shared_cotangents(self) -> tuple[int, ...]:
        """The inputs that the results of `total` belong to."""
        return self._derived.shared_inputs

    @property
    def sparse(self) -> dict[int, Sparse]:
        """The tables among the shared inputs whose gradients are rows."""
        return self._derived.sparse

    @lazy
    def _derived(self) -> _Derived:
        with tracing(f"gradient of {self.body.name}"):
            return _Derived(self)

    @lazy
    def sums(self) -> bool:
        """Return True if rows of zeros add nothing to the sums over rows."""
        return self.total is not None and only_rows(self.total)

    def total_at(self, n: int) -> Body:
        """The sums over n rows, as a body of the matrices."""
        part = self.total
        assert part is not None
        with tracing(f"totals of {self.body.name}"):
            return summed(part, n)


class _Derived:
    """The gradient of a template for one row, cut into its parts."""

    def __init__(self, template: Template) -> None:
        body, has_rows = template.body, template.has_rows
        self.body = body
        self.has_rows = has_rows
        count = len(body.arguments)
        floats = [k for k, t in enumerate(body.types) if is_inexact(t.dtype)]
        gs = [
            Tensor(Argument(count + j), (), body.outputs[k].type)
            for j, k in enumerate(floats)
        ]
        places = [k for k, w in enumerate(template.wanted) if w]
        xs = [body.arguments[k] for k in places]
        ys = [body.outputs[k] for k in floats]
        gradients = functions.pullback(ys, gs, xs) if gs and xs else ()
        grads = {k: g for k, g in zip(places, gradients, strict=False) if g is not None}
        self.source: dict[int, tuple[str, int]] = {}
        for k, x in enumerate(body.arguments):
            self.source[x.serial] = "input", k
        for k, g in zip(floats, gs, strict=True):
            self.source[g.serial] = "cotangent", k
        for k, y in enumerate(body.outputs):
            self.source.setdefault(y.serial, ("output", k))
        self.body_serials = {x.serial for x in body.nodes}
        self.rowwise = self._rowwise(list(grads.values()))
        self.kept: list[Tensor] = []
        self.extra: list[Tensor] = []
        self.row_inputs = tuple(k for k in grads if has_rows[k])
        dense = {k: g for k, g in grads.items() if not has_rows[k]}
        self.sparse = self._sparse(dense)
        self.shared_inputs = tuple(dense)
        wanted = [grads[k] for k in self.row_inputs]
        self.lasting = {
            grads[k].serial: ("lasting", k)
            for k in self.row_inputs
            if k in template.lasting
        }
        self._split(wanted, list(dense.values()))

    def _rowwise(self, roots: Sequence[Tensor]) -> set[int]:
        """The nodes that differ between rows."""
        rows = {
            x.serial
            for x, is_row in zip(self.body.arguments, self.has_rows, strict=True)
            if is_row
        }
        serials = {s for s, (kind, _) in self.source.items() if kind == "cotangent"}
        serials |= rows
        for node in reach([*roots, *self.body.outputs]):
            if any(x.serial in serials for x in node.inputs):
                serials.add(node.serial)
        return serials

    def _sparse(self, dense: dict[int, Tensor]) -> dict[int, Any]:
        """Gradients that are rows of a table; they leave `dense`."""
        sparse: dict[int, Any] = {}
        for k, g in list(dense.items()):
            parts = sparse_rows(g)
            if parts is None:
                continue
            ids, values = map(_bare, parts)
            known = ids.serial in self.body_serials or ids.serial in self.source
            if known and values.serial in self.rowwise:
                sparse[k] = ids, values, g.type.shape
                del dense[k]
        return sparse

    def _split(self, wanted: list[Tensor], dense: list[Tensor]) -> None:
        leaves: dict[int, Tensor] = {}
        known = self.lasting | self.source
        for g in dense:
            for x in frontier(g, self.rowwise, known):
                leaves[x.serial] = x
        for ids, values, _ in self.sparse.values():
            leaves[ids.serial], leaves[values.serial] = ids, values
        self.extra = [x for s, x in leaves.items() if s not in known]
        roots = [*wanted, *self.extra]
        replaced, sources = self._cut(roots)
        # What is kept of the forward pass needs no place of its own on the frontier.
        self.extra = [x for x in self.extra if x.serial not in self.source]
        roots = [*wanted, *self.extra]
        for k, x in enumerate(self.extra):
            self.source[x.serial] = "frontier", k
        self.frontier = tuple(x.type for x in self.extra)
        self.backward = self._part("gradient", roots, replaced, sources)
        self.source = self.lasting | self.source
        self.sparse = {
            k: Sparse(self.source[i.serial], self.source[v.serial], s[0], s[1:])
            for k, (i, v, s) in self.sparse.items()
        }
        self.total = self._totals(dense)

    def _cut(
        self, roots: Sequence[Tensor]
    ) -> tuple[dict[int, Tensor], list[tuple[str, int]]]:
        """Arguments in place of what the forward pass made; that is kept."""

        def is_forward(node: Tensor) -> bool:
            return (
                node.serial in self.body_serials
                and node.serial in self.rowwise
                and not isinstance(node.type, TupleType)
            )

        ends = [
            x
            for x in reach(roots, lambda n: n.serial in self.source or is_forward(n))
            if x.serial in self.source or is_forward(x)
        ]
        replaced: dict[int, Tensor] = {}
        sources: list[tuple[str, int]] = []
        for x in ends:
            if x.serial not in self.source:
                self.source[x.serial] = "kept", len(self.kept)
                self.kept.append(x)
            replaced[x.serial] = Tensor(Argument(len(sources)), (), x.type)
            sources.append(self.source[x.serial])
        return replaced, sources

    def _part(
        self,
        name: str,
        roots: Sequence[Tensor],
        replaced: dict[int, Tensor],
        sources: Sequence[tuple[str, int]],
    ) -> Part | None:
        if not roots:
            return None
        done = rebuild(roots, replaced)
        body = Body(f"{name} of {self.body.name}", list(replaced.values()), done)
        rows = tuple(kind != "input" or self.has_rows[k] for kind, k in sources)
        return Part(body, tuple(sources), rows)

    def _totals(self, dense: Sequence[Tensor]) -> Part | None:
        if not dense:
            return None
        ends: dict[int, Tensor] = {}
        for x in reach(dense, lambda n: n.serial in self.source):
            if x.serial in self.source:
                ends[x.serial] = x
        replaced = {
            s: Tensor(Argument(k), (), x.type) for k, (s, x) in enumerate(ends.items())
        }
        sources = [self.source[s] for s in ends]
        return self._part("totals", dense, replaced, sources)


def _bare(x: Tensor) -> Tensor:
    """The tensor before it was reshaped."""
    while isinstance(x.op, Reshape):
        (x,) = x.inputs
    return x
