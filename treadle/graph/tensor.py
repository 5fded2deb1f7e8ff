"""Tensor: the one node type of the graph, and the array a user holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.types import TupleType, Type
from treadle.core import native
from treadle.graph.marks import new_mark
from treadle.graph.operators import Operand, functions
from treadle.graph.origin import Origin, capture, describe, line_of
from treadle.graph.remarks import Remarks
from treadle.graph.resident import Future, Futures, Resident
from treadle.graph.serials import LOOK, next_serial, warn_if_growing
from treadle.graph.thread import local, native_calls

if TYPE_CHECKING:
    from treadle.graph.op import Op

__all__ = ["Tensor"]

Stored = np.ndarray[Any, Any] | Resident
# Called with each new node, in eager and metadata scopes.
watchers: list[Callable[[Tensor], None]] = []


class Notes(dict[str, Any]):
    """Notes that many nodes share; who writes to them gets a copy.

    They are closed if all of them are plain data.
    """

    def __init__(self, before: Any = (), /, **more: Any) -> None:
        super().__init__(before, **more)
        self.closed = all(type(note) in _PLAIN for note in self.values())


_PLAIN = (str, int, float, bool, type(None))
_NO_TYPE: Any = None


class Tensor(Operand):
    """The result of an op on inputs: immutable, typed, evaluated when it is asked for.

    `serial` grows with creation, so sorting by it is a topological order; `depth` is
    the longest path from a leaf. `name`, `metadata`, `mark` and the origin are notes
    outside the meaning. A node is pending, evaluated (value and recipe) or cut. None
    shares its tuple of `inputs`: what is held is told by counting references.
    """

    __slots__ = (
        "__weakref__", "_code", "_metadata", "_name", "_offset", "_results", "depth",
        "inputs", "mark", "op", "serial", "stored", "type",
    )  # fmt: skip
    op: Op
    inputs: tuple[Tensor, ...]
    type: Type  # no property: it is read hundreds of times a node on the way to code
    serial: int
    depth: int

    stored: Stored | None
    mark: Any
    _code: CodeType | None
    _offset: int
    _name: str | None
    _metadata: dict[str, Any] | None
    _results: Any  # of one that has several weak references, or what the core has

    def __new__(
        cls,
        op: Op,
        inputs: tuple[Tensor, ...] = (),
        type_: Type = _NO_TYPE,
        stored: Stored | None = None,
        above: int = 2,
    ) -> Self:
        # Tensor([1, 2]) is refused below. `above`: how many frames up the user's may
        # be, from where it is looked for.
        try:
            node: Any = new_node(op, inputs, type_, above + 1, stored, cls)
        except (AttributeError, TypeError):
            raise ArgumentError(
                f"a Tensor is a node of an op on inputs, not of {type(op).__name__}",
                hint="td.asarray(...) makes one of numbers",
            ).located("Tensor") from None
        return node

    @property
    def array(self) -> np.ndarray[Any, Any] | None:
        """The stored value on the host, copied from its engine if need be."""
        stored = self.stored
        while isinstance(stored, Resident):
            value, before, stored = stored.numpy(), stored, self.stored
            if stored is before:  # else another one has asked first, and got this value
                return value
        return stored

    def node(self) -> Tensor:
        return self

    @property
    def name(self) -> str:
        """A unique name, made from the op and the serial unless it is set."""
        return self._name or f"{self.op.name}_{self.serial}"

    @name.setter
    def name(self, name: str) -> None:
        self._name = str(name)

    @property
    def metadata(self) -> dict[str, Any]:
        """Notes by key, for selecting nodes; `with td.metadata(k=v)` sets them."""
        if self._metadata is None or type(self._metadata) is Notes:
            self._metadata = Remarks(self._metadata or ())
            track(self)  # anything may be written there
        return self._metadata

    @property
    def origin(self) -> Origin:
        """The call that made this node, for `describe`."""
        return self._code, self._offset

    @origin.setter
    def origin(self, origin: Origin) -> None:
        self._code, self._offset = origin

    @property
    def line(self) -> str:
        """`file:line: source` of the call that made this node."""
        return describe(self.origin)

    @property
    def filename(self) -> str:
        """The file of the call that made this node."""
        place = line_of(self.origin)
        return place[0] if place else ""

    @property
    def lineno(self) -> int:
        """The line of the call that made this node; 0 where it is not known."""
        place = line_of(self.origin)
        return place[1] if place else 0

    def __repr__(self) -> str:
        return functions.represent(self)

    def _repr_html_(self) -> str:
        return functions.represent_html(self)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self


def _make_node(
    kind: type[Tensor],
    op: Op,
    inputs: tuple[Tensor, ...],
    type_: Type,
    stored: Stored | None,
    code: CodeType | None,
    offset: int,
    notes: dict[str, Any] | None,
    closed: bool = False,
) -> Tensor:
    """A node with all its fields.

    A closed one refers to older nodes and plain data, so it is in no cycle.
    """
    node = _new(kind)
    node.op = op
    node.inputs = inputs
    node.type = type_
    node.serial = serial = next_serial()
    if serial & LOOK == LOOK:
        warn_if_growing(node)
    depth = 0
    for x in inputs:
        below = x.depth
        if below >= depth:
            depth = below + 1
    node.depth = depth
    # Two slots and no tuple kept: each object less spares the collector a visit.
    node._code, node._offset = code, offset
    node.stored = stored
    node.mark = new_mark()
    node._name, node._metadata, node._results = None, notes, None
    if len(inputs) == 1 and isinstance(inputs[0].type, TupleType):
        whole = inputs[0]
        whole._results = [*(whole._results or ()), weakref.ref(node)]
    return node


def _make_results(
    kind: type[Tensor], node: Tensor, ops: tuple[Op, ...]
) -> tuple[Tensor, ...]:
    """A node for each result of a node, made where it was; as `make_node`."""
    code, offset, notes = node._code, node._offset, node._metadata
    types: Any = node.type
    return tuple(
        [
            _make_node(kind, op, (node,), types[k], None, code, offset, notes)
            for k, op in enumerate(ops)
        ]
    )


def _track(x: Tensor | list[Tensor] | tuple[Any, ...]) -> None:
    """Show the collector nodes that were closed and are no more, or a tuple of some."""


# What makes nodes: the core, which hides closed ones from the collector, or Python.
make_node: Callable[..., Tensor] = _make_node
make_results: Callable[..., tuple[Tensor, ...]] = _make_results
track: Callable[[Tensor | list[Tensor] | tuple[Any, ...]], None] = _track
if native is not None:
    native.bind_nodes(Tensor, TupleType, warn_if_growing, LOOK)
    make_node, make_results = native.node, native.results
    track = native.track

Remarks.node = Tensor
Remarks.track = staticmethod(track)


Site = tuple["CodeType | None", int, "Notes | None", bool]


def site(above: int = 2) -> Site:
    """The last arguments of `make_node` for nodes made here: code and offset of the
    call, notes, and whether they are closed if their ops are."""
    code, offset = capture(above)
    notes = local.state.notes
    return code, offset, notes, notes is None or notes.closed


def node_at(
    here: Site,
    op: Op,
    inputs: tuple[Tensor, ...],
    type_: Type,
    stored: Stored | None = None,
) -> Tensor:
    """A node of a closed op at a site: several that are made there look for it once."""
    node = make_node(Tensor, op, inputs, type_, stored, *here)
    if watchers:
        _tell(node)
    return node


def _tell(node: Tensor) -> None:
    for watch in tuple(watchers):
        watch(node)


def _new_node(
    op: Op,
    inputs: tuple[Tensor, ...],
    type_: Type,
    above: int = 2,
    stored: Stored | None = None,
    kind: type[Tensor] = Tensor,
) -> Tensor:
    """`Tensor(op, inputs, type_)`, without the detour over the class."""
    code, offset = capture(above)
    notes = local.state.notes
    closed = op.closed and kind is Tensor and (notes is None or notes.closed)
    node = make_node(kind, op, inputs, type_, stored, code, offset, notes, closed)
    if watchers:
        _tell(node)
    return node


# The core makes it in one call, where nobody watches.
new_node: Callable[..., Tensor] = _new_node
if native_calls is not None:
    native_calls.bind_new_node(_new_node)
    new_node = native_calls.new_node


def results(node: Tensor, ops: Sequence[Op]) -> tuple[Tensor, ...]:
    """The results of a node that has several: one node for each, made where it was."""
    nodes = make_results(Tensor, node, ops)
    if watchers:
        for result in nodes:
            _tell(result)
    return nodes


_new = object.__new__


def noted(node: Tensor, like: Tensor, marked: bool = True) -> Tensor:
    """A new node with the notes of another one, and its marks."""
    node._code, node._offset = like._code, like._offset
    node._name, node._metadata = like._name, like._metadata
    if marked:
        node.mark = like.mark
    return node


def copied(
    node: Tensor,
    inputs: tuple[Tensor, ...],
    op: Op | None = None,
    *,
    marked: bool = True,
) -> Tensor:
    """A node on other operands, with its notes; marks are what a pass made of it."""
    copy = remade(node, op or node.op, inputs, node.type)
    copy._name, copy._metadata = node._name, node._metadata
    if marked:
        copy.mark = node.mark
    return copy


def remade(like: Tensor, op: Op, inputs: tuple[Tensor, ...], type_: Type) -> Tensor:
    """A node made where another one was, by a pass that goes over many."""
    notes = local.state.notes
    closed = op.closed and (notes is None or notes.closed)
    code, offset = like._code, like._offset
    node = make_node(Tensor, op, inputs, type_, None, code, offset, notes, closed)
    if watchers:
        _tell(node)
    return node


def leave(
    nodes: list[Tensor],
    arrays: Sequence[Any],
    leaf: Op,
    run: Futures | None = None,
    noted: bool = False,
) -> None:
    """Give many nodes values that nobody can write, which a run may be yet to write,
    and make them a leaf; how each was made may be `noted` for what derives it again.

    The leaf leads to older nodes alone, as a recipe does.
    """
    if native is not None:
        native.leave(nodes, [*arrays], run, leaf, noted)
        return
    for node, array in zip(nodes, arrays, strict=True):
        recipe = node.op, node.inputs
        node.stored = array if run is None else Future(node.type, array, run)
        node.op, node.inputs = leaf, ()
        if node.mark:
            unmark(node)
        if noted:
            node.mark = {**(node.mark or {}), RECIPE: recipe}


def forget(nodes: list[Tensor]) -> None:
    """Empty a list of nodes in creation order: the newest goes first, so that none
    takes others along, and new ones find memory in order.
    """
    if native is not None:
        native.forget(nodes)
    while nodes:
        del nodes[-1]


def settle(node: Tensor, value: Stored, before: Stored | None = None) -> None:
    """Give a node that had the value `before` another, but for one of another thread's;
    the recipe stays, so it can still be differentiated."""
    if node.stored is not before:
        return
    node.stored = value  # since the line above no other thread had a turn
    if isinstance(value, Resident):
        value.belongs(node)
    elif isinstance(value, np.ndarray) and value.flags.writeable:
        value.flags.writeable = False


def cut(node: Tensor, leaf: Op, older: bool = False) -> None:
    """Forget the recipe of an evaluated node: it becomes the given leaf. The collector
    is shown it unless that leads to `older` nodes or none.
    """
    node.op = leaf
    node.inputs = ()
    if not older and not leaf.closed:
        track(node)
    if node.mark:
        unmark(node)


RECIPE = "recipe"  # the mark of rows
_RECIPES = ("program", RECIPE)  # the marks that tell how a node was made


def unmark(node: Tensor) -> None:
    """How a node was made does not matter any more."""
    node.mark = {k: v for k, v in (node.mark or {}).items() if k not in _RECIPES}
