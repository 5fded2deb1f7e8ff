"""Gradients of graphs that look like one before: what they reach is known then."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.autodiff.reverse import one_of
from treadle.base.caches import Cache
from treadle.base.options import modes
from treadle.base.types import Type
from treadle.core import native
from treadle.graph import look as looks
from treadle.graph.frame import TraceFrame, top
from treadle.graph.leaves import LITERAL
from treadle.graph.look import assigned, look
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.thread import native_calls
from treadle.graph.traversal import NEWEST, oldest, oldest_data
from treadle.graph.variable import Variable, variable_of
from treadle.ops.families import selections

LOSSES = 256  # whose gradients are remembered


class TargetGroup(NamedTuple):
    """The nodes that a derivative by one target is taken by, and its position among the
    targets; or, of a table, the look-ups that alone read it.
    """

    position: int
    nodes: list[Tensor]
    reads: bool = False


class KnownDerivative(NamedTuple):
    """The node that was recorded, the places of all that it is by, and its groups: the
    position of each, how many of these are its own, and whether they are `reads`."""

    op: Any
    type: Any
    places: list[int]
    groups: list[tuple[int, int, bool]]
    positions: list[int] | None  # of the groups, if none are reads
    # What selects each result, if each is of one node, which is what is derived by.
    single: tuple[Any, ...] | None


# LATE: its rows ran as it was derived; it is recorded without that from now on.
_known: Cache[Any, KnownDerivative | str] = Cache("gradients of losses", LOSSES)
LATE, NOW = "late", "now"


@dataclass
class SeenResults:
    """How results look with what they are derived by, and if some that looked alike
    were derived, what is known of that, the nodes that it is by, and the Variables
    among its targets.
    """

    key: Any
    place: dict[int, int]  # by serial, where nothing is known
    by_variables: bool  # the key does not tell two versions of one from those of two
    known: KnownDerivative | None = None
    targets: Sequence[Tensor] = ()
    variables: Sequence[Variable] = ()
    late: bool = False  # whether what runs as rows may wait until it is asked for

    def ran(self) -> None:
        """Know that rows were run for the derivative, which may wait at its next sight;
        not if it should have waited already."""
        _known[self.key] = LATE if _known.get(self.key) is None else NOW

    def note(self, derivative: Tensor, groups: Sequence[TargetGroup]) -> None:
        """Remember the node that was recorded."""
        places = [self.place.get(x.serial, -1) for group in groups for x in group.nodes]
        if -1 in places or (self.by_variables and any(map(_has_versions, groups))):
            return
        kept = [(group.position, len(group.nodes), group.reads) for group in groups]
        reads = any(group.reads for group in groups)
        positions = None if reads else [group.position for group in groups]
        alone = not reads and len(places) == len(groups)
        single = selections(len(places)) if alone else None
        result = derivative.op, derivative.type, places, kept, positions, single
        _known[self.key] = KnownDerivative(*result)

    def note_rows(self, loop: Tensor, first: int) -> None:
        """Remember the loop that computes all rows, which reads what these results are
        computed from, from the `first` operand on."""
        places = [self.place.get(x.serial, -1) for x in loop.inputs[first:]]
        if -1 not in places:
            result = loop.op, loop.type, places
            _known[self.key] = KnownDerivative(*result, [], [], None)


def _variables(
    known: KnownDerivative, targets: Sequence[Tensor], chosen: Sequence[bool]
) -> list[Variable]:
    """The Variable that each group is of, but for those of tensors; all of them if none
    is `chosen` by its position."""
    if known.single is not None and not chosen:
        return [x.op.variable for x in targets]  # type: ignore[attr-defined]
    first, variables = 0, []
    for position, count, reads in known.groups:
        if not chosen or chosen[position]:
            node = targets[first]
            variable = variable_of(node.inputs[0] if reads else node)
            assert variable is not None
            variables.append(variable)
        first += count
    return variables


def _has_versions(group: TargetGroup) -> bool:
    """Return True if the nodes of a group are of several versions of a Variable."""
    nodes = [x.inputs[0] for x in group.nodes] if group.reads else group.nodes
    return len({x.serial for x in nodes}) > 1


def _have_versions(nodes: Sequence[Tensor]) -> bool:
    """Return True if some nodes are several versions of a Variable."""
    of = [id(v) for x in nodes if (v := variable_of(x)) is not None]
    return len(set(of)) < len(of)


def seen_loss(y: Tensor) -> SeenResults | tuple[list[Variable], Any] | None:
    """The key of a loss that is derived by all that is trained, with what was recorded
    of it before; None without a key, or in a trace. A derivative that is known the core
    records at once: the Variables that it is by, and its results."""
    entry: Any = _look_at_loss(_known, y, looks.MOST)
    if entry is NotImplemented:
        now, frame = modes.get(), top()
        if watchers or now.options.eager or frame.tracing or not frame.alone():
            return None
        rest = now.options.compilation, now.no_grad > 0
        entry = _sought(rest, [y], [], frame.pending, [])
    if entry is None or len(entry) == 2:
        return entry
    return _seen_results(*entry)


def _in_python(*request: Any) -> Any:
    """A look at a loss that the core does not do."""
    return NotImplemented


_look_at_loss: Callable[..., Any] = _in_python
if native_calls is not None:
    native_calls.bind_losses(assigned, one_of, LITERAL, Type)
    _look_at_loss = native_calls.seen_loss


def seen(
    ys: Sequence[Tensor], xs: Sequence[Operand], rows: bool = False
) -> SeenResults | None:
    """The key of results that are derived by `xs`, with what was recorded of it before;
    None without a key. In a trace they are derived by what it has made or read. All
    `rows` of a Jacobian are known apart from a derivative."""
    now, frame = modes.get(), top()
    if watchers or now.options.eager or not frame.alone():
        return None
    if isinstance(frame, TraceFrame) and not (xs and frame.has_made(xs)):
        return None
    by: list[Tensor] = []
    roots = {x.serial: k for k, x in enumerate((*ys, *frame.pending))}
    wanted, more = _targets(xs, roots)
    roots |= {x.serial: k for k, x in enumerate(more, len(roots))}
    variables = tuple([isinstance(x, Variable) for x in xs])
    if frame.tracing or True not in variables:  # one version of each
        by = [x.node() for x in xs]
    places = tuple([roots[n] for n in wanted])
    rest = now.options.compilation, now.no_grad > 0, rows, places, variables
    found = _sought(rest, ys, more, frame.pending, by)
    if found is None:
        return None
    key, known, nodes = found
    if isinstance(frame, TraceFrame) and True in variables:
        # What was there before the trace may come of other versions of them.
        before = [x for x in nodes if x.serial <= frame.start]
        if any(x.inputs or variable_of(x) is not None for x in before):
            return None
    if rows and not by and _have_versions(nodes):
        return None
    return _seen_results(key, known, nodes, variables, bool(by), rows)


def _seen_results(
    key: Any,
    known: KnownDerivative | str | None,
    nodes: Sequence[Tensor],
    variables: Sequence[bool] = (),
    by: bool = False,
    rows: bool = False,
) -> SeenResults | None:
    """The results with this key and what is known of them, derived by Variables, each
    of which is read as one version, or `by` nodes."""
    if known is None or isinstance(known, str):
        place = {x.serial: k for k, x in enumerate(nodes)}
        return SeenResults(key, place, not by, late=known == LATE)
    _known.renew(key)
    targets = [nodes[n] for n in known.places]
    if by or rows:
        return SeenResults(key, {}, False, known, targets)
    of = _variables(known, targets, variables)
    if len(set(map(id, of))) < len(of):  # they are two versions of one
        return None
    return SeenResults(key, {}, True, known, targets, of)


def _sought(
    rest: tuple[Any, ...],
    ys: Sequence[Tensor],
    more: Sequence[Tensor],
    pending: Sequence[Tensor],
    by: Sequence[Tensor],
) -> tuple[Any, KnownDerivative | str | None, list[Tensor]] | None:
    """The key of results with its `rest`, what is known of a derivative of them, and
    the nodes that they are computed from; None where these cannot be looked at."""
    owned = assigned(pending) if pending else {}
    if native is None:
        columns = look(ys, more, owned, True, pending, by=by)
        if columns is None:
            return None
        key = columns.key, *rest
        return key, _known.get(key), columns.nodes
    ends = (oldest(by), oldest_data(by)) if by else (-1, NEWEST)
    asked = [*ys, *more, *pending], len(ys), len(pending)
    return native.sought(_known, rest, *asked, owned, looks.MOST, *ends)


def _targets(
    xs: Sequence[Operand], known: Container[int]
) -> tuple[list[int], list[Tensor]]:
    """The serial of each target's node, and the nodes but for those that are known: who
    else refers to what is assigned is counted."""
    serials, more = list[int](), dict[int, Tensor]()
    for x in xs:
        node = x.node()
        serials.append(node.serial)
        if node.serial not in known:
            more[node.serial] = node
    return serials, list(more.values())
