"""Derivatives recorded as one node each, and what these need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from treadle.autodiff.cached import KnownDerivative, SeenResults, TargetGroup, seen
from treadle.autodiff.dependence import Reached, reached
from treadle.autodiff.live import is_late, mind, some_live
from treadle.autodiff.reverse import cotangents_of, fitted, pull, zeros_like
from treadle.autodiff.tape import (
    Tape,
    TapeGradient,
    has_recipe,
    replayed,
    tape_of,
    through,
    unasked,
)
from treadle.autodiff.targets import Targets, blocks
from treadle.autodiff.written import Derivative, written_derivatives
from treadle.base.options import current
from treadle.graph.frame import top
from treadle.graph.leaves import Version
from treadle.graph.marks import PART
from treadle.graph.operators import Operand, functions
from treadle.graph.tensor import Tensor, new_node
from treadle.graph.traversal import living_results, reach
from treadle.ops.families import outputs_of
from treadle.ops.lookup import Embedding


def cotangents(
    ys: Sequence[Tensor], gs: Sequence[Tensor], xs: Sequence[Operand]
) -> dict[int, Tensor]:
    """The cotangent of each x that the results depend on, by its position.

    Outside of traces they are the results of one Derivative.
    """
    before = seen(ys, xs)
    if before is not None and before.known is not None:
        return recorded_as(before.known, before.targets, ys, gs)
    ys, dependence = analyze(ys, Targets(xs), before=before)
    return recorded(dependence, ys, gs, xs, used=False, before=before)


def analyze(
    ys: Sequence[Tensor],
    targets: Targets,
    once: bool = False,
    before: SeenResults | None = None,
) -> tuple[list[Tensor], Reached]:
    """Dependence analysis of results, with derivatives among them written out.

    What can run as rows does so now: a derivative goes through its tape as a whole,
    and `once` at most, if that is known. It waits where results that looked as these
    did `before` ran as rows, and the derivative is by Variables that are read as such.
    """
    if before is not None and before.late:
        dependence = reached(ys, targets)
        dependence.late = _may_wait(dependence, targets)
        if dependence.late:
            dependence.read_later()
            return list(ys), dependence
        del dependence  # what it lists would count as held
    every = _late_results(ys, targets) if some_live() else {}
    plain = not every  # nothing but derivatives is written out
    if every:
        nodes = [x for x in reach(ys, targets.ends) if not is_late(x)]
        every = written_derivatives(nodes, every, targets.nodes)
        ys, nodes = [every.get(y.serial, y) for y in ys], []
    functions.run_rows(ys, _asked(ys, targets), once, targets.floor)
    roots, origins = list(ys), dict[int, Tensor]()
    while True:
        dependence = reached(ys, targets)
        rows = dependence.rows if _replays(dependence.rows, targets) else []
        if not dependence.derivatives and not rows:
            dependence.rewritten = every
            if every and plain and not dependence.rows:
                dependence.roots, dependence.origins = roots, origins
            return list(ys), dependence
        nodes = reach(ys, targets.ends)
        plain = plain and not rows and not any(map(_is_of_rows, nodes))
        expanded = written_derivatives(nodes, replayed(rows, {}), targets.nodes)
        for x in nodes:
            written = expanded.get(x.serial, x)
            if written.serial > x.serial:
                origins[written.serial] = x
        ys = [expanded.get(y.serial, y) for y in ys]
        every = expanded | {k: expanded.get(x.serial, x) for k, x in every.items()}


def _late_results(ys: Sequence[Tensor], targets: Targets) -> dict[int, Tensor]:
    """What stands, by serial, for the results of derivatives among what these are
    computed from that go through rows: a derivative of one goes through its tape."""
    late = [x for x in reach(ys, targets.ends) if is_late(x)]
    results: dict[int, Tensor] = {}
    while late:
        node = late.pop()
        parts = through_rows(node)
        for x in living_results(node) if parts else ():
            results[x.serial] = parts[x.op.position]  # type: ignore[attr-defined]
    return results


def through_rows(node: Tensor) -> list[Tensor]:
    """The results of a Derivative of which some go through the tapes of rows; none if
    nothing that it derives runs as rows."""
    op = node.op
    assert isinstance(op, Derivative)
    ys, gs = node.inputs[: op.of], node.inputs[op.of : 2 * op.of]
    nodes = node.inputs[2 * op.of :]
    known = {x.serial for x in nodes}
    if op.late:
        functions.run_rows(ys, known, floor=Targets(nodes).floor)
    dependence = reached(ys, Targets(nodes))
    if dependence.derivatives or known.issuperset([x.serial for x in dependence.rows]):
        return []
    parts, results = recorded(dependence, ys, gs, nodes), list[Tensor]()
    first = 0
    for size in op.sizes:
        each = [parts[k] for k in range(first, first + size) if k in parts]
        total = each[0] if each else zeros_like(nodes[first])
        for part in each[1:]:
            total = total + part
        results.append(total)
        first += size
    return results


def _may_wait(dependence: Reached, targets: Targets) -> bool:
    """Whether rows among what a derivative reaches may run, or have their tapes gone
    through, when it is asked for."""
    if dependence.derivatives or dependence.computed_table:
        return False
    if not all(_can_be_read_later(tape_of(x), targets) for x in dependence.rows):
        return False
    nodes = [dependence.nodes.get(serial) for serial in targets.nodes]
    if any(x is not None and type(x.op) is not Version for x in nodes):
        return False  # of what is read as data a tape knows no derivative
    reads = [x for each in dependence.readers.values() for x in each]
    return all(type(x.op) is not Embedding for x in reads)


def _can_be_read_later(tape: Tape | None, targets: Targets) -> bool:
    """Whether a derivative by Variables goes through a tape as through others of its
    kind, and none of its parts is rows of a table."""
    if tape is None or tape.kind is None or not tape.data.isdisjoint(targets.nodes):
        return False
    variables = set(chain.from_iterable(targets.variables.values()))
    if not variables.issuperset(chain.from_iterable(targets.nodes.values())):
        return False
    return all(part.ids is None for part in tape.parts)


def _is_of_rows(node: Tensor) -> bool:
    """Return True for a node of which the recipe is that of a batched run."""
    return type(node.op) is TapeGradient or has_recipe(node)


def _asked(ys: Sequence[Tensor], targets: Targets) -> set[int]:
    """The serials of the nodes among the targets, and of what lies in them."""
    asked, views = set(targets.nodes), set(targets.nodes)
    for x in reach(ys, floor=targets.floor) if asked else ():
        if x.op.family == "movement" and x.inputs[0].serial in views:
            views.add(x.serial)
            if x.mark is PART:
                asked.add(x.serial)
    return asked


def _replays(rows: Sequence[Tensor], targets: Targets) -> bool:
    """Whether a derivative goes through how rows were computed, not through a tape:
    where it is part of a body, or by what the run took for data.
    """
    tapes = [tape for tape in map(tape_of, rows) if tape is not None]
    by_data = any(not tape.data.isdisjoint(targets.nodes) for tape in tapes)
    return (by_data or top().tracing) and all(map(has_recipe, rows))


def recorded(
    dependence: Reached,
    ys: Sequence[Tensor],
    gs: Sequence[Tensor],
    xs: Sequence[Operand],
    used: bool = True,
    before: SeenResults | None = None,
) -> dict[int, Tensor]:
    """The cotangents where it is known what they reach, which is noted for what looks
    as they did `before`.

    Those that are not `used` up by the next run are minded when their recipe is cut.
    """
    wanted = [
        dependence.rewritten.get(x.serial, x) if isinstance(x, Tensor) else x
        for x in xs
    ]
    if dependence.rows:
        if before is not None:
            before.ran()
        return _by_tapes(dependence, ys, gs, wanted, used)
    targets = Targets(wanted)
    groups = dependence.groups(targets)
    if not groups:
        return {}
    inside = top().tracing and before is None
    if inside or current().eager or dependence.computed_table:
        return pull(ys, gs, targets)
    chosen = []
    for k, nodes in sorted(groups.items()):
        reads = [] if top().tracing else _reads(nodes, dependence)
        chosen.append(TargetGroup(k, reads or nodes, bool(reads)))
    # Other derivatives that it goes on through are written out where it is.
    inner = _as_recorded(chosen, dependence)
    nested, ys = inner is not None, ys if inner is None else dependence.roots
    chosen = chosen if inner is None else inner
    sizes = [[1] * len(x.nodes) if x.reads else [len(x.nodes)] for x in chosen]
    counts = tuple(chain.from_iterable(sizes))
    op = Derivative(len(ys), counts, nested, dependence.late)
    derivative = op(*ys, *gs, *[x for group in chosen for x in group.nodes])
    # What a tape has read as data is not told from what it has not read.
    known = not dependence.taped or len(groups) == len(xs)
    if before is not None and known and (nested or not dependence.rewritten):
        before.note(derivative, chosen)
    return _results(derivative, chosen, used)


def recorded_as(
    known: KnownDerivative,
    targets: Sequence[Tensor],
    ys: Sequence[Tensor],
    gs: Sequence[Tensor],
) -> dict[int, Tensor]:
    """The cotangents of results that look like some that were derived before."""
    derivative = new_node(known.op, (*ys, *gs, *targets), known.type, 3)
    if known.positions is not None:
        mind(derivative)
        return dict(zip(known.positions, outputs_of(derivative), strict=True))
    groups, first = [], 0
    for position, count, reads in known.groups:
        nodes = [*targets[first : first + count]] if reads else []
        groups.append(TargetGroup(position, nodes, reads))
        first += count
    return _results(derivative, groups, used=False)


def _results(
    derivative: Tensor, groups: Sequence[TargetGroup], used: bool
) -> dict[int, Tensor]:
    """The cotangent of each target by its position."""
    if not used:
        mind(derivative)
    each = iter(outputs_of(derivative))
    return {
        k: _gathered(nodes, each) if reads else next(each) for k, nodes, reads in groups
    }


def _as_recorded(
    groups: Sequence[TargetGroup], dependence: Reached
) -> list[TargetGroup] | None:
    """Groups of the nodes that were there before derivatives were written out; None
    where there were none, or where something is derived by what was not there.
    """
    if not dependence.roots:
        return None
    newest = max(y.serial for y in dependence.roots)
    origins, result = dependence.origins, []
    for k, nodes, reads in groups:
        before = [origins.get(x.serial, x) for x in nodes]
        if any(x.serial > newest for x in before):
            return None
        if reads and any(type(x.op) is not Embedding for x in before):
            return None
        result.append(TargetGroup(k, before, reads))
    return result


def _by_tapes(
    dependence: Reached,
    ys: Sequence[Tensor],
    gs: Sequence[Tensor],
    xs: Sequence[Operand],
    used: bool,
) -> dict[int, Tensor]:
    """The cotangents where some of the way are batched runs, the newest first.

    A run is mostly gone through once. It is again where a value that it read, computed
    before, comes from what the run has made: from rows older than that value.
    """
    total: dict[int, Tensor] = {}
    waiting: dict[int, _RowCotangents] = {}
    # A tape knows the whole cotangent of its rows, what it is given for them included.
    asked = {k: x for k, x in enumerate(xs) if isinstance(x, Tensor) and tape_of(x)}

    def give(row: Tensor, g: Tensor) -> None:
        tape = tape_of(row)
        assert tape is not None
        waiting.setdefault(tape.number, _RowCotangents(tape)).add(row, g)

    while True:
        rows, dependence.rows = dependence.rows, []
        by_position = recorded(dependence, ys, gs, [*xs, *rows], used)
        for k, g in by_position.items():
            if k >= len(xs):
                give(rows[k - len(xs)], g)
            elif k not in asked:
                _add(total, k, g)
        if not waiting:
            return total
        seeds = waiting.pop(max(waiting, key=lambda n: waiting[n].newest))
        targets, ys, gs = Targets(xs), [], []
        for node in [x.node() for x in xs]:
            if node.serial in seeds.tape.data:
                raise unasked(node).located("gradient", repr(node.type), node.line)
        mine = [k for k, x in asked.items() if tape_of(x) is seeds.tape]
        sources, cotangents = through(seeds.tape, seeds.gs, [asked[k] for k in mine])
        for k, g in zip(mine, cotangents, strict=True):
            _add(total, k, g)
        for source, g in sources:
            if source.serial > seeds.newest:
                continue  # no row that was given comes from it
            if not blocks(source):  # that it may be asked for itself is known below
                ys, gs = [*ys, source], [*gs, g]
                continue
            for k in targets.of(source):
                if k not in asked:
                    _add(total, k, g)
            if tape_of(source) is not None:
                give(source, g)
        dependence = reached(ys, Targets(xs))


def _add(table: dict[int, Tensor], key: int, g: Tensor) -> None:
    table[key] = table[key] + g if key in table else g


class _RowCotangents:
    """Cotangents of rows of a tape by their number; the newest row among them."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.gs: dict[int, Tensor] = {}
        self.newest = -1

    def add(self, row: Tensor, g: Tensor) -> None:
        _add(self.gs, self.tape.place(row), g)
        self.newest = max(self.newest, row.serial)


# -- tables of rows --------------------------------------------------------------------


def _reads(nodes: Sequence[Tensor], dependence: Reached) -> list[Tensor]:
    """The look-ups that alone read a table, newest first; none if others do.

    By these it is derived, so that its gradient is known to be rows.
    """
    reads = []
    for node in nodes:
        readers = dependence.readers.get(node.serial, [])
        table = [
            x for x in readers if type(x.op) is Embedding and x.inputs[1] is not node
        ]
        if node.inputs or not readers or len(readers) > len(table):
            return []
        reads += table
    return sorted(reads, key=lambda x: -x.serial)


def _gathered(reads: Sequence[Tensor], results: Iterator[Tensor]) -> Tensor:
    """The gradient of a table from those of what was read."""
    total: Tensor | None = None
    for node in reads:
        part = cotangents_of(node, next(results), node)[0]
        assert part is not None
        g = fitted(part, node.inputs[0])
        total = g if total is None else total + g
    assert total is not None
    return total
