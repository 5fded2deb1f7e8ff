"""Donation: versions a run takes from their Variables, to write over their values.

A reference count says who refers to a version now, not who is about to. So a run first
gives its Variables their next versions, in one step; nobody comes to those before any
more, and the counts of those are facts. Whoever asks for the value of a next version
before the run has begun, in whatever thread or signal handler, gets a copy of the one
before, of all of them at one moment; after that, what the run has made.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from operator import attrgetter, is_, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.locks import lock
from treadle.base.options import modes
from treadle.core import native
from treadle.graph.leaves import Unbound
from treadle.graph.resident import Future, Resident, Runs, RunTicket, newer, order
from treadle.graph.serials import next_serial
from treadle.graph.tensor import Tensor, remade, settle

if TYPE_CHECKING:
    from treadle.graph.variable import Variable

_committed = attrgetter("committed")


def exchange(
    variables: Sequence[Variable], nodes: Sequence[Tensor], into: list[Tensor]
) -> list[Tensor]:
    """Give Variables other versions, and put those that they had `into` a list. One
    call of C does it all: nothing comes between, who reads several sees all or none.
    """
    setting = map(setattr, variables, itertools.repeat("committed"), nodes)
    pairs = zip(map(_committed, variables), setting, strict=True)
    into.extend(map(itemgetter(0), pairs))
    return into


class Claim:
    """The next versions of Variables, which a run is to make, and those before.

    `values` has the values of the next ones as soon as the run may begin.
    """

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = tuple(variables)
        self.before: Sequence[Tensor] = ()
        self.nodes: Sequence[Tensor] = ()
        self.values: Sequence[Any] | None = None
        self.keys: Sequence[int] = ()  # of these values among the results of the run
        # While it runs without a queue; of no Variables, nobody waits for it.
        self._running = lock() if variables else nullcontext()
        self._places = {id(v): k for k, v in enumerate(self.variables)}
        self._reset()

    def _reset(self) -> None:
        self.copies: list[Array] | None = None  # of the values before
        self._ticket: RunTicket | None = None
        self._has_begun: Callable[[], bool] = lambda: False
        self._thread = 0  # which runs it without a queue

    # -- who runs it -------------------------------------------------------------------

    def take(self, bases: Sequence[Tensor | None]) -> Variable | None:
        """Take the versions away; nothing is taken if one is not its base, where there
        is one: the first such Variable.
        """
        pairs = zip(map(_committed, self.variables), self.variables, strict=True)
        self.nodes = [remade(x, v.version, (), v.type) for x, v in pairs]
        for k, node in enumerate(self.nodes):
            node.stored = StandIn(self, k)
        for around in modes.get().transactions:
            for v, node in zip(self.variables, self.nodes, strict=True):
                around.note(v, node)
        taken: list[Tensor] = []
        self.before = taken
        exchange(self.variables, self.nodes, taken)
        for v, x, base in zip(self.variables, self.before, bases, strict=True):
            waits = x.stored is None and not isinstance(x.op, Unbound)
            if waits or (base is not None and x is not base):
                self.give_back()
                return v
        return None

    def taken_from(self, variable: Variable) -> Tensor | None:
        """The version that a Variable had before, if that was taken away."""
        k = self._places.get(id(variable), len(self.before))
        return self.before[k] if k < len(self.before) else None

    def keyed(self, numbers: Mapping[int, int]) -> Claim:
        """The same, where results have these numbers for keys."""
        self.keys = [numbers[k] for k in self.keys]
        return self

    def expect(self, results: Any) -> None:
        """Know what the run is about to write, of all its results by their keys."""
        if self.values is None:
            self.values = [results[k] for k in self.keys]

    def begin(self, has_begun: Callable[[], bool], ticket: RunTicket | None) -> None:
        """The run is about to begin or to be queued, as this tells exactly; `order` is
        held."""
        self._ticket, self._has_begun = ticket, has_begun

    @contextmanager
    def running(self, has_begun: Callable[[], bool]) -> Iterator[None]:
        """Inside, this thread runs it; others wait for the end."""
        with self._running:
            with order:
                self._thread = threading.get_ident()
                self.begin(has_begun, None)
            try:
                yield
            finally:
                self._thread = 0

    def carry_out(
        self,
        run: Callable[..., int],
        arguments: Sequence[int],
        failed: Callable[[], bool],
    ) -> int:
        """Call `run`, which does not hold Python's lock; what it returns."""
        ran: list[int] = []  # by the call of C that runs it: there is nothing between
        with self.running(lambda: bool(ran) and not failed()):
            ran.extend(map(run, *zip(arguments, strict=True)))
        return ran[0]

    def finish(self, nodes: Sequence[Tensor] | None = None) -> Variable | None:
        """The run has been begun, or is over: the next versions have its values, or
        these nodes, which have them, take their place. What was assigned since stays: a
        Variable of which that may have been made from the value before.
        """
        values = self.values
        assert values is not None
        self._decide()
        if self.copies is None:
            for node, x, old in zip(self.nodes, values, self.before, strict=True):
                settle(node, newer(x, old.stored), node.stored)
        if nodes is None and self.copies is not None:  # who asked has the nodes there
            nodes = []
            for node, x, old in zip(self.nodes, values, self.before, strict=True):
                nodes.append(remade(node, node.op, (), node.type))
                settle(nodes[-1], newer(x, old.stored))
        later = [] if nodes is None else self._replace(self.nodes, nodes)
        return later[0] if later and self.copies is not None else None

    def give_back(self) -> None:
        """The run does not take place, or has failed and written nothing over."""
        if not self.before:
            return
        self.values = [x.stored for x in self.before]
        self._decide()
        if self.copies is None:
            for node, x in zip(self.nodes, self.values, strict=True):
                node.stored = x
        self._replace(self.nodes, self.before)

    def _decide(self) -> None:
        """Nobody gets a copy of what was before any more who has none yet."""
        with order:
            self._has_begun = lambda: True

    def leave(self, failed: bool) -> None:
        """Something was raised: the versions are those before, unless the run has begun
        and not `failed`."""
        if self._has_begun() and not failed and self.values is not None:
            self.finish()
        else:
            self.give_back()

    def _replace(
        self, nodes: Sequence[Tensor], others: Sequence[Tensor]
    ) -> list[Variable]:
        """Have other versions in the place of these; those of which it was another."""
        for around in modes.get().transactions:
            for v, node in zip(self.variables, others, strict=True):
                around.note(v, node)
        every = list(zip(self.variables, nodes, others, strict=True))
        current = [x for x in every if x[0].committed is x[1]]
        later = [x[0] for x in every if x[0].committed is not x[1]]
        exchanged = exchange([x[0] for x in current], [x[2] for x in current], [])
        for (v, node, _), now in zip(current, exchanged, strict=True):
            if now is not node:
                v.committed = now
                later.append(v)
        return later

    # -- who asks for a value ----------------------------------------------------------

    def value(self, k: int) -> Array:
        """The value of a next version, now: see the module."""
        with order:
            here = self._thread in (0, threading.get_ident())
            if self.copies is not None or (here and not self._has_begun()):
                return self._copied()[k]
        if not here:
            with self._running:
                pass
            return self.value(k)
        if self._ticket is not None:
            self._ticket.wait()
        assert self.values is not None
        value = self._made(k)
        return value.numpy() if isinstance(value, Resident) else value

    def _made(self, k: int) -> Any:
        assert self.values is not None
        return self.values[k]

    def _copied(self) -> list[Array]:
        """Copies of the values before, which the next versions have from now on."""
        if self.copies is None:
            copies = [np.array(x) for x in self._old()]
            for node, x in zip(self.nodes, copies, strict=True):
                x.flags.writeable = False
                node.stored = x
            self.copies = copies
        return self.copies

    def _old(self) -> list[Array]:
        return [x.array for x in self.before]  # type: ignore[misc]


class StandIn(Resident):
    """The value of a next version, until its run is over."""

    __slots__ = ("_claim", "_k")

    def __init__(self, claim: Claim, k: int) -> None:
        super().__init__(claim.variables[k].type)
        self._claim, self._k = claim, k

    def numpy(self) -> Array:
        return self._claim.value(self._k)


def running(claim: Claim | None) -> Any:
    """`running` of a run that tells nobody when it begins."""
    return nullcontext() if claim is None else claim.running(lambda: False)


class InPlace(Claim):
    """Variables whose values one run after another writes over where they lie: for
    good, each has one Future and two versions, of which one is its own by turns.
    """

    def __init__(self, variables: Sequence[Variable], versions: Sequence[Tensor],
                 arrays: Sequence[Array]) -> None:  # fmt: skip
        super().__init__(variables)
        self.runs = Runs()
        pairs = zip(variables, arrays, strict=True)
        self.futures = tuple([Future(v.type, x, self.runs) for v, x in pairs])
        self.values = self.futures
        self.before = tuple(versions)
        self.nodes = tuple([remade(x, x.op, (), x.type) for x in versions])
        for node, value in zip(self.nodes, self.futures, strict=True):
            node.stored = value
        self._found: list[Tensor] = []  # where they are others than those before
        self.turn = _next_turn()
        for x in arrays:
            _written[id(x)] = self

    def begin_run(self) -> Runs:
        """A run is about to write over all of them: to be told its ticket and end."""
        self.next_turn()
        self.runs.begin()
        return self.runs

    def next_turn(self) -> None:
        """A run is about to write over all of them, and is waited for."""
        self.turn = _next_turn()

    def take_if(self, alone: Callable[[], bool]) -> bool:
        """Take the versions away if nobody has assigned since, nor holds one or a
        value, which is asked when they are taken."""
        self._reset()
        for x in self.nodes:
            x.serial = next_serial()
        self.runs.claim = self
        taken: list[Tensor] = []
        self._found = taken
        exchange(self.variables, self.nodes, taken)
        if all(map(is_, taken, self.before)):
            taken.clear()  # they count
            if alone():
                return True
        self.give_back()
        return False

    def finish(self, nodes: Sequence[Tensor] | None = None) -> Variable | None:
        later: list[Variable] = []
        self._decide()
        if self.copies is None:
            self.before, self.nodes = self.nodes, self.before
        else:  # who asked has the nodes there: those before are free
            for x in self.before:
                x.serial = next_serial()
            later = self._replace(self.nodes, self.before)
        self.runs.claim = None
        return later[0] if later else None

    def give_back(self) -> None:
        self._decide()
        self._replace(self.nodes, self._found or self.before)
        self.runs.claim = None

    def value_of(self, future: Future) -> Array:
        """The value that one of the Futures has now."""
        return self.value(self.futures.index(future))

    def _made(self, k: int) -> Any:
        return self.futures[k].array

    def _old(self) -> list[Array]:
        self.runs.wait()  # for the run before
        return [x.array for x in self.futures]


_turns = itertools.count(1)
_latest = 0  # the last of them
# By the id of an array that is written over in its place: it is alive as long.
_written: weakref.WeakValueDictionary[int, InPlace] = weakref.WeakValueDictionary()


def _next_turn() -> int:
    global _latest
    _latest = next(_turns)
    if native is not None:
        native.note_turn(_latest)
    return _latest


def latest_turn() -> int:
    """The number of the last run that writes over arrays where they lie."""
    return _latest


def turn_of(array: Array) -> int:
    """Which of its values an array has, in all runs: 0 if that does not change."""
    written = _written.get(id(array))
    return 0 if written is None else written.turn
