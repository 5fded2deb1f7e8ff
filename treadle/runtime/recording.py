"""A run told part by part, of which a plan is made for graphs that look alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import wraps
from typing import Any, ParamSpec

from treadle.autodiff.dependence import behind
from treadle.autodiff.tape import Tape, spent_by, tape_of
from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.engines.base import Found, chosen
from treadle.graph.leaves import CONSTANT, LITERAL, Cut, Version, cut_of, is_older
from treadle.graph.look import Look, Owned
from treadle.graph.marks import NO_GRAD, PART
from treadle.graph.resident import Future, soon
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, uses
from treadle.graph.variable import Update, Variable, variable_of
from treadle.runtime.forests import Reads, Rows
from treadle.runtime.history import DATA, carries, depends, of_data, stale_of, trainable
from treadle.runtime.moved import Together
from treadle.runtime.plan_parts import Change, Computed, Part, Pulled, Rowed
from treadle.runtime.recorder import Recorder
from treadle.runtime.sources import Slot, Source, Stacked
from treadle.runtime.steps import Noted

_Told = ParamSpec("_Told")


class _Unforeseen(Exception):
    """Something that another run of a graph that looks alike would not read."""


def foreseen(tell: Callable[_Told, None]) -> Callable[_Told, None]:
    """Give up at the first thing that is not foreseen."""

    @wraps(tell)
    def wrapper(*arguments: _Told.args, **more: _Told.kwargs) -> None:
        recording: Any = arguments[0]
        if recording.possible:
            try:
                tell(*arguments, **more)
            except _Unforeseen:
                recording.possible = False

    return wrapper


class RunRecording(Recorder):
    """A run of which a plan is made. What depends on the `chosen` Variables is cut, but
    for one of `values`. If it `spends` what it reads, that may be written over. A plan
    puts out the `outputs` besides: by numbers below zero, nodes that the run makes.
    Where that cannot be at the `first` sight, it may be at the second.
    """

    def __init__(
        self, key: Any, look: Look, owned: Owned, spends: bool, first: bool
    ) -> None:
        self.key, self.owned, self.first, self.family = key, owned, first, look.family
        self.values, self.spends = False, spends
        self.stacks: dict[int, list[int]] | None = None  # of steps that are a loop
        self.carried: set[int] = set()  # serials of what depends on trainable Variables
        self.kept: list[int] = []  # of what is kept for gradients besides
        self.noted: Noted | None = None
        self.asked, self.held = look.asked, look.held
        self.assigned = {x.serial for x in look.updates}
        others = [x for x in look.nodes if type(x.op) is not Update]
        seen = self.assigned & {x.serial for node in others for x in node.inputs}
        # What was assigned and is read: recipes that stay lead to it, by place.
        self.written = [
            (x.serial, k, x.op.variable.version)  # type: ignore[attr-defined]
            for k, x in enumerate(look.nodes)
            if x.serial in seen
        ]
        self.place = {x.serial: k for k, x in enumerate(look.nodes)}
        ran = [(k, x) for k, x in enumerate(look.nodes) if x.stored is None]
        # What is made without gradients keeps no recipe, by place.
        without = [(k, x.op.name) for k, x in ran if x.mark is NO_GRAD]
        self.without = {k: cut_of(name, False) for k, name in without}
        self.known = {k for k, x in enumerate(look.nodes) if x.stored is not None}
        # Versions that are no Variable's newest: nobody writes over them.
        self.older = {k for k, x in enumerate(look.nodes) if is_older(x)}
        read = uses(look.nodes)
        self.uses = {k: read.get(x.serial, 0) for k, x in enumerate(look.nodes)}
        self.open = {  # what has a value and a recipe, and what this trains
            k: (x.op.name, carries(x), trainable(reach([x])))
            for k, x in enumerate(look.nodes)
            if x.stored is not None and x.inputs and x.mark is not PART
        }
        data = of_data([look.nodes[k] for k in self.open])
        self.open_data = {k for k in self.open if look.nodes[k].serial in data}
        self.chosen, self.outputs = set[int](), dict[int, Tensor]()
        self.cut = any(isinstance(x.op, Cut) and x.op.carried for x in look.nodes)
        self.changes: dict[Slot, Change] = {}
        self.made: dict[int, Slot] = {}  # by serial
        self.arrays: dict[int, tuple[Any, Slot]] = {}  # by identity
        self.below: dict[Slot, int] = {}  # what integers of a slot are below of
        self.leaves, self.stale = dict[int, Cut](), set[int]()  # what nodes are cut to
        self.trained: dict[int, frozenset[int]] = {}  # Variables by what they train by
        self.tapes, self.parts, self.forests = dict[int, int](), list[Part](), 0
        self.reads: list[tuple[set[int], set[int]]] = []  # and exits, of each forest
        self.ran: dict[int, int] = {}  # places of rows that ran before, by their tapes
        for k, x in enumerate(look.nodes):
            if (tape := tape_of(x)) is not None:
                self.ran.setdefault(tape.number, k)
                self._read(tape, [x])
        self.pulls = set[int]()  # serials of results of a TapeGradient
        # Of the newest program: Variables by id that it can write over, as which
        # argument; and those that plans move at once.
        self.over: dict[int, tuple[int, Variable]] = {}
        self.together: dict[tuple[int, ...], Together] = {}
        self.possible, self.small, self.slots = True, False, 0

    @foreseen
    def program(self, nodes: Sequence[Tensor], keep: Set[int]) -> None:
        entry = chosen(current().engine, nodes).program(nodes, keep)
        if entry is None:
            raise _Unforeseen
        sources = [self._source(x) for x in entry.arguments]
        updates = {x.serial for x in nodes if isinstance(x.op, Update)} & keep
        writes = updates if self.spends else ()
        reused = dict(sorted(entry.reused.items())) if writes else {}
        reused = {k: n for k, n in reused.items() if sources[k] not in self.older}
        trained, by = depends(nodes), self._trained_by()
        if trained and self.stacks is not None:  # a derivative goes on behind the loop
            raise _Unforeseen
        self._train(nodes)
        self.stale |= stale_of(nodes, self.chosen, self._stale())
        self.carried |= trained
        data = of_data(nodes) if self.spends else set()
        results = [(entry.results[s], self._slot(s)) for s in entry.more]
        self.kept += entry.more
        if entry.noted is not None:
            key, places, leaves = entry.noted
            at = [(self.place[s], n) for s, n in places.items() if s in self.place]
            self.noted = key, at, leaves
        for node in nodes:
            serial = node.serial
            if serial not in keep or isinstance(node.type, TupleType):
                continue
            results.append((entry.results[serial], self._slot(serial)))
            if serial in updates:
                variable: Variable = node.op.variable  # type: ignore[attr-defined]
                if id(variable) not in self.owned:  # the key does not tell which it is
                    raise _Unforeseen
                place = self._base(node.inputs[0])
                change = Change(variable, place, entry.results[serial])
                self.changes[self.made[serial]] = change
            elif serial in self.place:
                self.leaves[serial] = cut_of(node.op.name, serial in trained, by)
                if serial in data:
                    self.without[self.place[serial]] = cut_of(node.op.name, False, DATA)
            elif updates and not any(x is node for x in self.outputs.values()):
                raise _Unforeseen  # others hold it
        reads = [self.uses[x] if type(x) is int else 0 for x in sources]
        over = [(k, sources[k], reads[k]) for k in reused]
        rest = self._needs(entry, sources), entry.as_argument, entry.still
        part = Computed(entry.program, sources, results, over, *rest)
        of = {k: self.changes.get(slot) for k, slot in results}
        self.over = {}
        for k, result in reused.items():
            new = of.get(result)
            if new is not None and entry.arguments[k].op is new.variable.version:
                self.over[id(new.variable)] = k, new.variable
        self.parts.append(part)

    @foreseen
    def rows(
        self, rows: Rows, reads: Reads[Tensor], tape: Tape | None, again: bool
    ) -> None:
        if rows.moves or (tape is None and not self.values):
            raise _Unforeseen
        number, parts = self.forests, () if tape is None else tape.parts
        self.forests += 1
        if tape is not None:
            self.tapes[tape.number] = number
        read = reads.leaves, reads.shared
        leaves, shared = [[self._source(x) for x in each] for each in read]
        exits = []
        for k, node in enumerate(reads.exits):
            exits.append((k, self._slot(node.serial)))
            self.leaves[node.serial] = spent_by(self._trained_by())
        ids = []
        for part in parts:
            if part.ids is not None:
                slot = self._slot(None)
                # A node has the array itself when that is there.
                late = type(part.ids) is Future
                for x in (part.ids, soon(part.ids)) if late else (part.ids,):
                    self.arrays[id(x)] = x, slot
                self.below[slot] = part.source.type.shape[0]
                ids.append((part.source.serial, slot))
        self._read(tape, reads.exits)
        rowed = Rowed(number, rows, leaves, shared, exits, ids, self._slot(None))
        if self.values:
            rowed.places, rowed.again = reads.map(self._place), again
        self.parts.append(rowed)

    def _read(self, tape: Tape | None, exits: Sequence[Tensor]) -> None:
        """Note what the run of these rows has read."""
        serials, read_by = {node.serial for node in exits}, behind([tape])
        self.reads.append(({id(variable_of(x)) for x in read_by}, serials))
        self.trained |= dict.fromkeys(serials, trainable(read_by))

    @foreseen
    def pulled(self, pull: Tensor, results: Sequence[tuple[int, Tensor]]) -> None:
        op: Any = pull.op
        pairs = zip(op.places, pull.inputs, strict=False)
        cotangents = {k: self._source(x) for k, x in pairs}
        slots = [(k, self._slot(node.serial)) for k, node in results]
        number = self.tapes.get(op.tape.number)  # None: of a run before this one
        behind = list[int]()
        if number is None and pull.serial in self.place:
            behind = [self._place(pull)]
        elif number is None:
            rows = map(op.tape.row, (*op.places, *op.asked))
            behind = [-1 if x is None else self._place(x) for x in rows]
            if -1 in behind:
                raise _Unforeseen
        self.pulls |= {node.serial for _, node in results if node.serial in self.place}
        for part in self.parts:
            if isinstance(part, Pulled) and part.number == number:
                part.last = False
        rest = op.tape.run.rows, cotangents, op.asked, slots, not self.values
        self.parts.append(Pulled(number, behind, *rest))

    @foreseen
    def stood_for(self, nodes: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        by = self._trained_by()
        for node, result in zip(nodes, results, strict=True):
            serial, slot = node.serial, self.made.get(result.serial)
            if slot is None:
                raise _Unforeseen
            read = reach([node])
            rows = [self.trained[x.serial] for x in read if x.serial in self.trained]
            trained = trainable(read).union(*rows)
            if not trained.isdisjoint(self.chosen):
                self.stale.add(serial)
            self.made[serial], self.trained[serial] = slot, trained
            self.leaves[serial] = cut_of(node.op.name, True, by)
            self.carried.add(serial)

    def _trained_by(self) -> frozenset[int] | None:
        """The serials behind the nodes that are cut, where nothing was cut before."""
        return None if self.cut else frozenset(self.chosen)

    def _train(self, nodes: Sequence[Tensor]) -> None:
        """Note which Variables are trained by what others hold."""
        among = set(self.held)
        held = {serial for serial, k in self.place.items() if k in among}
        for node in nodes:
            if node.serial in held and node.serial not in self.trained:
                self.trained[node.serial] = trainable(reach([node]))

    def _stale(self) -> set[int]:
        """The serials known to depend on the chosen Variables."""
        rows = [rows for by, rows in self.reads if not self.chosen.isdisjoint(by)]
        return self.stale.union(*rows)

    def _base(self, node: Tensor) -> int:
        """The place of the version that a Variable has before a run, of which this is
        the one that is changed: the last of several alone is committed."""
        slot = self.made.get(node.serial)
        if slot is None:
            return self.place.get(node.serial, -1)
        before = self.changes.pop(slot, None)
        if before is None:
            raise _Unforeseen
        return before.base

    def _slot(self, serial: int | None) -> Slot:
        slot = Slot(self.slots)
        self.slots += 1
        if serial is not None:
            self.made[serial] = slot
        return slot

    def _needs(
        self, entry: Found, sources: Sequence[Source]
    ) -> list[tuple[Source, int]] | None:
        """The values to look at before a run, for it to find nothing wrong."""
        needs = []
        for k, extent in entry.needs or ():
            source = sources[k]
            if type(source) is Slot:
                if self.below.get(source) != extent:
                    return None
            elif entry.arguments[k].op is CONSTANT or entry.arguments[k].mark is PART:
                needs.append((source, extent))
            else:
                return None
        return None if entry.needs is None else needs

    def _place(self, node: Tensor) -> int:
        """The place of a node; raises _Unforeseen."""
        if node.serial not in self.place:
            raise _Unforeseen
        return self.place[node.serial]

    def _source(self, node: Tensor) -> Source:
        """The source of the value of a node; raises _Unforeseen."""
        known = self.made.get(node.serial)
        if known is not None:
            return known
        place = self.place.get(node.serial)
        if place in self.known:
            return place
        if type(node.op) is Version and id(node.op.variable) in self.owned:
            return node.op.variable
        if node.op is CONSTANT or node.op is LITERAL:
            if (stacked := (self.stacks or {}).get(id(node.stored))) is not None:
                return Stacked(self.place[serial] for serial in stacked)
            _, slot = self.arrays.get(id(node.stored), (None, None))
            return node.stored if slot is None else slot
        raise _Unforeseen
