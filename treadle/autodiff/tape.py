"""The tape of a batched run: values that are leaves now, and their derivative.

Such a value is a `Row` of a tape. A derivative that arrives at rows goes through the
tape as a whole: `TapeGradient` has the cotangents of all that the run had read.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from treadle.base.caches import lazy
from treadle.base.errors import GradientError
from treadle.base.types import TupleType, Type
from treadle.core import native
from treadle.graph.leaves import Cut, Leaf, constant_node, cut_of
from treadle.graph.numbers import number
from treadle.graph.op import Cotangents, Op, op
from treadle.graph.resident import Resident
from treadle.graph.tensor import RECIPE, Tensor, cut, remade
from treadle.ops.families import Output
from treadle.ops.lookup import RowsToDense

TWICE = "the gradient of a batched run"  # what a Cut says that it was
_numbers = itertools.count()


def spent_by(trained: frozenset[int] | None = None) -> Cut:
    """The op of rows whose tape has been used up."""
    return cut_of("row", True, trained)


def is_spent(op: Op) -> bool:
    """True for the op of a row whose tape has been used up."""
    return type(op) is Cut and op.carried and op.of == "row"


class Pull(Protocol):
    """The requests of a tape to the run it stands for."""

    def pull(
        self, cotangents: Mapping[int, Any], asked: Sequence[int], begin: bool = False
    ) -> list[Any]:
        """An array for each part and then for each row asked for, by cotangents of
        rows by their number; a Future, where it may only `begin`.
        """


@dataclass(frozen=True)
class GradientPart:
    """A piece of the gradient of a source: dense, or at the rows `ids` of a table."""

    source: Tensor
    type: Type
    ids: Any = None  # an array, or a Future


class Tape:
    """A run that is derived as a whole.

    `parts` are the pieces of its gradient, of `sources`, the nodes with values that it
    read and a derivative may go on to; `indices` has the rows of tables, by serial, and
    `data` the serials of what it read. The run and its parts are made when somebody
    asks. A tape of a later run has the greater number; runs of one `kind` differ in
    values alone, None is of no kind.
    """

    def __init__(
        self,
        make: Callable[[], tuple[Pull, Sequence[GradientPart]]],
        sources: Sequence[Tensor],
        ids: Mapping[int, Any],
        data: Collection[int] = (),
        kind: int | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.sources, self.kind = sources, kind
        self.indices = {serial: constant_node(x) for serial, x in ids.items()}
        self.read = [*sources, *self.indices.values()]  # which a look goes on to
        self._make: Callable[[], tuple[Pull, Sequence[GradientPart]]] | None = make
        self._data = data
        self.references: list[weakref.ref[Tensor]] = []

    @lazy
    def _made(self) -> tuple[Pull, Sequence[GradientPart]] | None:
        make = self._make
        return None if make is None else make()

    @property
    def run(self) -> Pull | None:
        """The run; None once it was let go of."""
        return self._made[0] if self._made and self._make else None

    @property
    def parts(self) -> Sequence[GradientPart]:
        """The pieces of the gradient; none once the run was let go of."""
        return self._made[1] if self._made and self._make else ()

    @lazy
    def data(self) -> frozenset[int]:
        """The serials of what it has read besides its sources."""
        return frozenset(self._data).difference([x.serial for x in self.sources])

    @property
    def sign(self) -> tuple[str, int]:
        """The key of a tape in tables that stay."""
        return "tape", self.number

    def made(self, rows: Sequence[Tensor]) -> None:
        """Know of the rows, in the order of their numbers, as long as they live."""
        self.references = list(map(weakref.ref, rows))

    def place(self, row: Tensor) -> int:
        """The number of a row."""
        # Thousands may be held of which a derivative arrives at the first.
        return 0 if self.references[0]() is row else self.numbers[row.serial]

    def row(self, number: int) -> Tensor | None:
        """The row of a number, if it is still there."""
        return self.references[number]()

    @lazy
    def numbers(self) -> dict[int, int]:
        """The numbers of the rows that are still there, by serial."""
        rows = [ref() for ref in self.references]
        return {row.serial: k for k, row in enumerate(rows) if row is not None}

    def close(self, trained: frozenset[int] | None = None) -> None:
        """Cut the rows, and let go of the run: what it read may be written over now.
        If it is known, what was read depends on `trained`.
        """
        spent = spent_by(trained)
        if native is not None:  # thousands, which have their values already
            native.end_rows(self.references, spent)
        else:
            for row in self.rows:
                cut(row, spent, older=True)
        self._make = self._made = None
        self.sources, self.read, self.kind = (), [], None

    @property
    def rows(self) -> list[Tensor]:
        """The rows that are still there."""
        return [row for row in (ref() for ref in self.references) if row is not None]


@op(differentiable=False)
class Row(Leaf):
    """A value of a batched run: one op for all of them."""

    tape: Any = None

    @property
    def name(self) -> str:
        return "row"

    def __repr__(self) -> str:
        return "row of a batched run"


if native is not None:  # how a graph looks hangs on whether it reads some
    native.bind_row(Row)


def tape_of(node: Tensor) -> Tape | None:
    """The tape that a node is a row of."""
    return node.op.tape if type(node.op) is Row else None


def number_row(row: Row) -> None:
    """Have the op of the rows of a run look like that of others of its kind."""
    object.__setattr__(row, "_number", number((Row, row.tape.kind)))


Recipe = tuple[Op, tuple[Tensor, ...]]


def recipe_of(node: Tensor) -> Recipe | None:
    """The recipe of a leaf, its op and inputs, if that was noted."""
    return node.mark.get(RECIPE) if node.mark else None


def has_recipe(node: Tensor) -> bool:
    """Whether it is known how a leaf was computed."""
    return recipe_of(node) is not None


def replayed(rows: Sequence[Tensor], ends: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Rows rematerialized as new nodes, by serial; `ends` has what stands
    for nodes, at which it ends. Raises where a recipe is gone.
    """
    nodes: dict[int, Tensor] = {}
    recipes: dict[int, Recipe] = {}
    stack = list(rows)
    while stack:
        node = stack.pop()
        if node.serial in nodes or node.serial in ends:
            continue
        nodes[node.serial] = node
        recipe = recipe_of(node) if type(node.op) is Row else None
        if recipe is not None:
            recipes[node.serial] = recipe
        elif node.stored is None:
            recipe = node.op, node.inputs
        stack += recipe[1] if recipe is not None else ()
    if any(row.serial not in recipes and row.serial not in ends for row in rows):
        raise twice()
    every = dict(ends)
    for serial in sorted(nodes):
        node = nodes[serial]
        op, inputs = recipes.get(serial, (node.op, node.inputs))
        inner = node.stored is None and any(x.serial in every for x in inputs)
        if serial in recipes or inner:
            operands = tuple([every.get(x.serial, x) for x in inputs])
            every[serial] = remade(node, op, operands, node.type)
    return every


def rows_given(node: Tensor) -> list[Tensor] | None:
    """The rows whose cotangents a TapeGradient takes, then those it is asked for, if
    it is known how all were computed.
    """
    rows: list[Tensor] | None = getattr(node.op, "rows_given", None)
    return rows if rows is not None and all(map(has_recipe, rows)) else None


def cut_pulled(nodes: Sequence[Tensor]) -> None:
    """Make leaves of evaluated results of TapeGradients; how they were computed is
    noted where they can be derived again.
    """
    again: dict[int, bool] = {}  # by TapeGradient: rows may be thousands
    for node in [x for x in nodes if x.inputs]:  # others were cut by another thread
        recipe = node.op, node.inputs
        below = node.inputs[0]
        if below.serial not in again:
            again[below.serial] = rows_given(below) is not None
        cut(node, Cut(TWICE, True))
        if again[below.serial]:
            node.mark = {**(node.mark or {}), RECIPE: recipe}


@op()
class TapeGradient(Op):
    """The parts of a tape's gradient for cotangents of some of its rows.

    After them those of the rows `asked` for, of which the types are given. Inputs: the
    cotangents, and what the run had read.
    """

    tape: Any
    places: tuple[int, ...]
    asked: tuple[int, ...] = ()
    types: tuple[Type, ...] = ()
    family = "tape"

    def infer(self, *types: Any) -> TupleType:
        return TupleType((*(part.type for part in self.tape.parts), *self.types))

    def numpy(self, *arrays: Any) -> Any:
        results = self.pull(arrays)  # of a device they lie there
        return tuple(x.numpy() if isinstance(x, Resident) else x for x in results)

    def pull(self, arrays: Sequence[Any], begin: bool = False) -> list[Any]:
        """The values for arrays of the inputs; Futures, where it may only `begin`."""
        cotangents = dict(zip(self.places, arrays, strict=False))
        return self.tape.run.pull(cotangents, self.asked, begin)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        raise twice()


def unasked(x: Tensor) -> GradientError:
    """The error of a derivative by what a run took for data."""
    return GradientError(
        f"a batched run has read {x.type!r} as data, for no derivative",
        hint="ask for the gradient before the value, or make it td.param(...)",
    )


def twice() -> GradientError:
    """The error of a second derivative."""
    return GradientError(
        "the gradient of a batched run has no gradient of its own",
        hint="build what is to be derived twice under td.options(autobatch=False)",
    )


def through(
    tape: Tape, gs: Mapping[int, Tensor], rows: Sequence[Tensor] = ()
) -> tuple[list[tuple[Tensor, Tensor]], list[Tensor]]:
    """Each source that a tape's gradient reaches, with a part of its cotangent, and
    the cotangents of some of its rows.

    `gs` has the cotangents of rows by their number.
    """
    asked = tuple(tape.place(row) for row in rows)
    types = tuple(row.type for row in rows)
    op = TapeGradient(tape, tuple(gs), asked, types)
    every = [*[tape.row(k) for k in gs], *rows]
    if all(row is not None and has_recipe(row) for row in every):
        object.__setattr__(op, "rows_given", every)
    if tape.kind is not None:  # graphs of one kind look alike
        same = number((TapeGradient, tape.kind, len(gs), types))
        object.__setattr__(op, "_number", same)
    node = op(*gs.values(), *tape.sources)
    parts = []
    for k, part in enumerate(tape.parts):
        g = Tensor(Output(k), (node,), part.type)
        if part.ids is not None:
            count = part.source.type.shape[0]
            g = RowsToDense(count)(tape.indices[part.source.serial], g)
        parts.append((part.source, g))
    first = len(tape.parts)
    cotangents = [Tensor(Output(first + k), (node,), t) for k, t in enumerate(types)]
    return parts, cotangents
