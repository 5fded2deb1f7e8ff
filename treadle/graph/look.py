"""The structural key of a graph: ops, types and operands as numbers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from treadle.base.types import TupleType, Type
from treadle.core import native
from treadle.graph.claim import StandIn
from treadle.graph.leaves import CONSTANT, LITERAL, Argument, Cut, Version
from treadle.graph.marks import NO_GRAD, PART
from treadle.graph.numbers import number, number_of, number_of_type
from treadle.graph.op import Op
from treadle.graph.references import counted
from treadle.graph.resident import Resident
from treadle.graph.serials import made_since_run
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import (
    NEWEST,
    oldest,
    oldest_data,
    targets_of,
    waiting_results,
)
from treadle.graph.variable import Update, Variable, variable_of

MOST = 4096  # nodes of a graph whose runs are planned
MADE = MOST  # nodes made since the run before: with more, the graph is too large
_RECIPE = {"carried", "program"}  # the marks of what has run
# A key is counts, then of each node a number times CODES and what it numbers, with the
# places of what is read, then what is held, then the order in which nodes were made, in
# which cotangents are summed and parameters listed.
# What is numbered: an op that waits, or of a value behind which a derivative goes on;
# the Variable of an update; the type of what is written in the program, whose bytes
# follow; of data, and of what trained Variables lie behind; of a version that is fixed
# or trained; of a value; a Variable of the caller; an op without gradients;
# an older version of a Variable of the caller; or an argument of a trace.
WAITS, OPEN, UPDATE, WRITTEN, DATA, CARRYING, FIXED, TRAINED = range(8)
VALUE, CARRYING_VALUE, OWN, WITHOUT, OLDER, ARGUMENT = range(8, 14)
CODES = 16
_assigned = itertools.count()  # Variables so far

# Nodes, references of others, places that are held, and the key.
Found = tuple[list[Tensor], list[int], list[int], bytes]
# Of Variables by id: the number of each while it trains, and while it does not.
Owned = dict[int, tuple[int, int]]


@dataclass
class Look:
    """A graph that is to run: its key, and its nodes, of which others may hold some.

    The first `asked` nodes are those whose values are asked for; `updates` are what was
    assigned and waits for the run. By place, `others`
    counts the references to a node but for those of nodes that the run does away with,
    `held` lists the nodes without a value that have any. A plan that makes more than
    nodes have leaves it in `outputs`, by its numbers, and what it is `about`.
    """

    nodes: list[Tensor]
    asked: int
    updates: list[Tensor]
    others: list[int]
    held: list[int]
    key: bytes
    family: Any = None  # what is left of it without extents, and these
    outputs: Any = ()
    about: Any = None


def look(
    asked: Sequence[Tensor],
    more: Sequence[Tensor],
    owned: Owned,
    derived: bool,
    updates: Sequence[Tensor] = (),
    whole: bool = False,
    by: Sequence[Tensor] = (),
    start: int = -1,
) -> Look | None:
    """How the graph below what is asked for, and below `more` that its run reads and
    the `updates` that wait for it, looks; None if there is more to its run than these.

    Nodes are numbered as they are found from these roots. With `derived` a derivative
    is taken: then, and if it is to be the `whole`, that goes on behind values; where it
    is `by` some nodes, to the oldest of these. Of what a trace has made arguments and
    what is no newer than its `start` are leaves. Of the Variables in `owned` it matters
    which they are.
    """
    if is_grown(asked):
        return None
    roots, wanted, waiting = [*asked, *more, *updates], len(asked), len(updates)
    ends = (oldest(by), oldest_data(by)) if by else (start,)
    whole = whole or derived
    seen = _look(roots, wanted, waiting, owned, whole, derived, MOST, *ends)
    if seen is None:
        return None
    nodes, others, held, key = seen
    return Look(nodes, wanted, [*updates], others, held, key)


def is_grown(asked: Sequence[Tensor]) -> bool:
    """Return True if more nodes were made since the last run than a look goes over."""
    return bool(asked) and made_since_run(asked[0]) > MADE


def assigned(updates: Sequence[Tensor]) -> Owned:
    """Numbers for the Variables that are assigned, of which each has its own."""
    numbers: Owned = {}
    for x in updates:
        variable = variable_of(x)
        assert variable is not None
        if variable.numbers is None:
            k = next(_assigned)
            pair = number(("assigned", k)), number(("assigned", k, "fixed"))
            variable.numbers = pair
        numbers[id(variable)] = variable.numbers
    return numbers


def numbered(variables: Iterable[Variable], kind: str = "own") -> Owned:
    """Numbers for the Variables of a caller, by their places among those of a kind."""
    return {
        id(v): (number((kind, k)), number((kind, k, "fixed")))
        for k, v in enumerate(variables)
    }


class _Limits(NamedTuple):
    """The limits of a look: whether it goes on behind values, no older than a floor,
    and behind parts of data that are newer; what is older than it `ends` is a leaf.
    """

    whole: bool
    ends: int
    floor: int
    parts: int

    def lower(self, derivatives: Sequence[Tensor], newest: int) -> _Limits | None:
        """The limits by which these derivatives are looked through, where more has to
        be seen; `newest` is that of the parts that were not looked behind."""
        targets = targets_of(derivatives)
        data, first = oldest_data(targets), oldest(targets)
        nested = any(d.op.nested for d in derivatives)  # type: ignore[attr-defined]
        below = first < self.floor and (nested or self.ends >= 0)
        if not derivatives or (self.whole and newest <= data and not below):
            return None
        floor = self.floor if self.whole and not below else first
        return _Limits(True, min(self.ends, first), floor, min(self.parts, data))


def _looked(roots: list[Tensor], asked: int, updates: int, owned: Owned, whole: bool,
            derived: bool, most: int, ends: int = -1,
            parts: int = NEWEST) -> Found | None:  # fmt: skip
    """As the core does it: the fields of a Look, and its key."""
    found: Found | _Limits | None = _Limits(whole, ends, ends, parts)
    while isinstance(found, _Limits):
        found = _read(roots, asked, updates, owned, derived, most, found)
    return found


def _read(roots: list[Tensor], asked: int, updates: int, owned: Owned, derived: bool,
          most: int, limits: _Limits) -> Found | _Limits | None:  # fmt: skip
    """The same within some limits, or others that it takes."""
    whole, ends, floor, parts = limits
    seen = _Seen(list(roots), {x.serial: k for k, x in enumerate(roots)})
    nodes, words = seen.nodes, seen.words
    if len(seen.place) < len(nodes):  # one is asked for twice
        return None
    changes, refused, newest, derivatives = 0, False, -1, list[Tensor]()
    unread = range(asked, len(roots) - updates)  # roots whose operands are not asked
    for k, node in enumerate(nodes):
        ended = node.serial <= ends and (k in unread or k >= len(roots))
        waits = node.stored is None and not ended
        marked = node.mark is not None and node.mark is not NO_GRAD
        if waits and ends >= 0 and type(node.op) is Argument:
            words.append(number_of_type(node.type) * CODES + ARGUMENT)
            continue
        if (waits and (marked or not node.inputs)) or k >= most:
            return None
        part = whole and not waits and node.mark is PART
        part = part and floor < node.serial <= parts
        newest = max(newest, node.serial) if part else newest
        opens = whole and node.inputs and node.serial > floor and not ended
        if whole and ends < 0 and node.serial > floor and _is_known_row(node):
            seen.go_on_behind(node, k)
            continue
        if not waits and (part or not opens):
            leaf = _leaf(node, owned, derived)
            refused = refused or leaf is None  # unless a derivative goes on behind it
            words += leaf or []
            if type(node.op) is Version:
                seen.ages.append((node.serial, k))
            elif not (node.inputs or node.serial <= ends):
                seen.lost |= set() if _is_constant(node.op, derived, ends >= 0) else {k}
                seen.ran |= getattr(node.op, "tape", None) is not None
            continue
        if not waits and not _RECIPE.issuperset(node.mark or ()):
            return None  # more is known of how it was made
        if node.op.family == "derivative":
            derivatives.append(node)
        changes += type(node.op) is Update
        if (word := _word(node, owned)) is None:
            return None
        words.append(word)
        seen.read(node, k)
    node = None  # type: ignore[assignment]
    lower = limits.lower(derivatives, newest)
    # By what the run of rows took for data a derivative does not go through its tape.
    data = {type(x.op) for x in targets_of(derivatives) if not hasattr(x.op, "tape")}
    derivatives.clear()  # what is listed would count
    if lower is not None:
        return lower
    if seen.lost and not seen.ends_before(len(roots)):
        return None
    late = seen.ran and seen.computes_late()
    if refused or changes != updates or late or (seen.runs and data - {Version}):
        return None
    counts = asked, len(roots) - updates - asked, updates
    order = [k for _, k in sorted(seen.ages)]
    return _keyed(nodes, counts, seen.uses, seen.place, [words, order])


@dataclass
class _Seen:
    """What a look has seen so far: nodes and their places, how often each is read
    inside, the words of the key, and when nodes were made.

    `lost` are leaves that are no constants for a derivative, `followed` what reads
    others; `ran` tells of rows that have run, `runs` numbers tapes it goes on behind.
    """

    nodes: list[Tensor]
    place: dict[int, int]
    uses: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    ages: list[tuple[int, int]] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    runs: dict[int, int] = field(default_factory=dict)
    followed: list[int] = field(default_factory=list)
    ran: bool = False

    def __post_init__(self) -> None:
        self.uses = [1] * len(self.nodes)

    def of(self, node: Tensor) -> int:
        """The place of a node, which is looked at later if it is new."""
        at = self.place.setdefault(node.serial, len(self.nodes))
        if at == len(self.nodes):
            self.nodes.append(node)
            self.uses.append(0)
        return at

    def read(self, node: Tensor, k: int) -> None:
        """Follow what a node reads, and what else it comes to."""
        self.ages.append((node.serial, k))
        self.followed.append(k)
        for x in node.inputs:
            at = self.of(x)
            self.uses[at] += 1
            self.words.append(at)
        for x in waiting_results(node):
            self.of(x)

    def go_on_behind(self, row: Tensor, k: int) -> None:
        """Follow what the run of a row of some kind has read."""
        tape, kind = row.op.tape, number_of_type(row.type)  # type: ignore[attr-defined]
        run = self.runs.setdefault(tape.number, len(self.runs))
        self.words += [number_of(row.op) * CODES + OPEN, kind * CODES + VALUE, run]
        self.ages.append((row.serial, k))
        self.words += [self.of(x) for x in tape.read]

    def computes_late(self) -> bool:
        """Whether a derivative is to be computed through rows that were to run with
        it."""
        waiting = [x for k in self.followed if (x := self.nodes[k]).stored is None]
        below = [x.inputs[0] for x in waiting if x.inputs]
        return any(getattr(x.op, "late", False) for x in below)

    def ends_before(self, roots: int) -> bool:
        """Whether what is lost to a derivative leads only to nodes that end it."""
        reached, nodes = set(self.lost), self.nodes
        for node in sorted([nodes[k] for k in self.followed], key=lambda x: x.serial):
            ends = node.mark is NO_GRAD or not node.op.traits.differentiable
            if not ends and any(self.place[x.serial] in reached for x in node.inputs):
                reached.add(self.place[node.serial])
        return reached.isdisjoint(range(roots))


def _keyed(
    nodes: list[Tensor],
    counts: tuple[int, int, int],
    uses: list[int],
    place: dict[int, int],
    words: list[list[int]],
) -> Found | None:
    """The fields of a Look by what was read, and how often nodes are used inside."""
    pairs = zip(counted(nodes), uses, strict=True)
    others = [count - inside for count, inside in pairs]
    roots = sum(counts)
    # The frame refers twice to the newest update of a Variable, once to older ones.
    updates = range(roots - counts[2], roots)
    bases = [nodes[k].inputs for k in updates]
    if not all(bases):  # a signal handler has carried one out since it was read
        return None
    older = {place[x[0].serial] for x in bases}
    if any(others[k] != (1 if k in older else 2) for k in updates):
        return None
    held = [k for k in range(roots, len(nodes)) if nodes[k].stored is None]
    held = _left(nodes, others, [k for k in held if others[k] > 0], place)
    key = *counts, len(nodes), len(held), *words[0], *held, *words[1]
    return nodes, others, held, np.array(key, np.int64).tobytes()


def _is_known_row(node: Tensor) -> bool:
    """Return True for a row of a run that looks like others of its kind."""
    tape = getattr(node.op, "tape", None)
    return not node.inputs and tape is not None and tape.kind is not None


def _word(node: Tensor, owned: Owned) -> int | None:
    """The word of an op whose operands are looked at; None of an update of no one's."""
    if type(node.op) is not Update:
        without = WAITS if node.mark is None else WITHOUT
        code = OPEN if node.stored is not None else without
        return number_of(node.op) * CODES + code
    known = owned.get(id(node.op.variable))
    return None if known is None else known[0] * CODES + UPDATE


def _is_constant(op: Op, derived: bool, by_nodes: bool) -> bool:
    if derived and isinstance(op, Cut):  # a node may be behind what was let go
        return not op.carried and (op.trained is None or not by_nodes)
    return op.closed or hasattr(op, "tape")


def _left(
    nodes: list[Tensor], others: list[int], held: list[int], place: dict[int, int]
) -> list[int]:
    """Which nodes a run has values for, of those that are held; more of `others` are
    left: who holds another result of a node of several computes it from its operands.
    """
    stay = [k for k in held if isinstance(nodes[k].type, TupleType)]
    seen = set(stay)
    rest = [k for k in held if k not in seen]
    for k in stay:  # grows
        for x in nodes[k].inputs if nodes[k].stored is None else ():
            at = place[x.serial]
            others[at] += 1
            if at not in seen:
                seen.add(at)
                stay.append(at)
    return rest


def _leaf(node: Tensor, owned: Owned, derived: bool) -> list[int] | None:
    """The words of a node with a value, or of which it does not matter; None where
    there is more behind it: behind a row of a tape, if that is `derived`."""
    op, t, stored = node.op, node.type, node.stored
    if stored is None and isinstance(t, Type):
        return [number_of_type(t) * CODES + VALUE]
    array = isinstance(stored, np.ndarray)
    there = array or (isinstance(stored, Resident) and type(stored) is not StandIn)
    if not isinstance(t, Type) or not there:
        return None
    if array and op is LITERAL:
        bits = np.asarray(stored).tobytes()
        bits += bytes(-len(bits) % 8)
        return [number_of_type(t) * CODES + WRITTEN, *np.frombuffer(bits, np.int64)]
    if type(op) is Version:
        variable = op.variable
        if variable.frozen is not None:
            return None
        trains, known = variable.trainable, owned.get(id(variable))
        if known is None:
            return [number_of_type(t) * CODES + (TRAINED if trains else FIXED)]
        code = OWN if variable.committed is node else OLDER
        return [known[not trains] * CODES + code]
    if getattr(op, "tape", None) is not None and derived:
        return None
    if node.inputs:  # it is read as it is
        carried = bool(node.mark and node.mark.get("carried"))
        return [number_of_type(t) * CODES + (CARRYING_VALUE if carried else VALUE)]
    carried = isinstance(op, Cut) and op.carried
    carried = carried or getattr(op, "tape", None) is not None
    return [number_of_type(t) * CODES + (CARRYING if carried else DATA)]


_look = _looked if native is None else native.look
if native is not None:
    native.bind_look(
        *(Op, Type, Variable, Version, Update, Cut, TupleType, Resident),
        *(StandIn, Argument),
        *(CONSTANT, LITERAL, number_of_type, number_of, PART),
    )
