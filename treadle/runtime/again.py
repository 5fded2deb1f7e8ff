"""The trace cache of runs: a graph that looks like one before follows its plan.

A loop that builds its graph anew has the graph of the iteration before, but for the
values. What the run of a graph came to is recorded as a plan (`steps.py`), by how the
graph looks (`look.py`): programs and forests, where their arguments lie, what becomes
of their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from treadle.autodiff.live import endangered
from treadle.base.caches import Cache
from treadle.engines.base import Failed
from treadle.graph import look as looks
from treadle.graph.look import Look, Owned, look
from treadle.graph.tensor import Tensor
from treadle.graph.thread import native_calls
from treadle.runtime.moved import Together, let_go
from treadle.runtime.planning import PlanRecording
from treadle.runtime.polymorphic import Sizes
from treadle.runtime.recorder import recording
from treadle.runtime.steps import RunPlan

# Who is told what a plan that was followed is about, and what it puts out.
Tell = Callable[[Any, Mapping[int, Any]], object]
PLANS = 256  # of one caller: sentences have as many lengths
TRIED = 32  # runs that are planned at the first sight, whether graphs come again or not


def _follow(*request: Any) -> Any:
    """A look and a run by a plan at once, which only the core does (core/run.cpp)."""
    return NotImplemented


follow: Callable[..., Any] = native_calls.follow if native_calls else _follow


class _Table(Cache[Any, "RunPlan | bool"]):
    """Plans by keys, and how many more are made at the first sight."""

    def __init__(self) -> None:
        super().__init__("plans of steps", PLANS)
        self.credit = TRIED

    def clear(self) -> None:
        super().clear()
        self.credit = TRIED


class Plans:
    """The plans of a caller, by how graphs look; one is made at the first sight, or at
    the second where many graphs have not come again so far.
    """

    def __init__(self) -> None:
        self._table = _Table()
        self._together: dict[tuple[int, ...], Together] = {}
        self._sizes = Sizes()
        # Of graphs that became loops: whether one may have a plan as it was written.
        self._loops: Cache[Any, bool] = Cache("loops that Python wrote out", PLANS)
        self._latest: RunPlan | None = None  # the last one, if no other came since
        self.hits = self.misses = 0

    def __deepcopy__(self, memo: object) -> Plans:
        return Plans()

    def __reduce__(self) -> Any:
        return Plans, ()

    def known(self, key: Any) -> RunPlan | None:
        """The plan of graphs that look like this."""
        plan = self._table.get(key)
        return plan if isinstance(plan, RunPlan) else None

    def has_met(self, key: Any) -> bool:
        """Return True if a graph that looks like this has run, as it stood then."""
        return key in self._table

    def find(self, key: Any, look: Look) -> RunPlan | None:
        """The same, or one for a size never seen, if others of its family tell it."""
        plan = self._table.get(key)
        return plan if isinstance(plan, RunPlan) else self._resized(key, look)

    def run(self, key: Any, look: Look, cuts: bool = False) -> list[Tensor] | None:
        """Run a graph as one that looked alike, and tell which nodes have values now;
        None if there was none. One that `cuts` would lose derivatives that are yet to
        be computed; among the roots of a step they are already.
        """
        table = self._table
        plan = table.get(key)
        if not isinstance(plan, RunPlan):
            plan = self._resized(key, look)
            if plan is None:
                return None
        if plan.once:
            self._put(key, True)
        if cuts and (lost := endangered(look.nodes[: look.asked])):
            inside = {node.serial for node in look.nodes}
            if any(x.serial not in inside for x in lost):
                return None
        try:
            done = plan.run(look)
        except Failed:
            table.pop(key, None)
            return None
        if done is not None:
            look.about = plan.about
            self._count(key, plan)
        return done

    def follow(
        self,
        rest: tuple[Any, ...],
        asked: Sequence[Tensor],
        owned: Owned,
        derived: bool,
        updates: list[Tensor],
        more: Sequence[Tensor] = (),
        whole: bool = False,
        cuts: bool = False,
        tell: Tell | None = None,
    ) -> list[Tensor] | tuple[Any, Look] | None:
        """Look at a graph as `look` does, and run it by the plan of those that looked
        alike, with the `rest` of their key; as `run` otherwise. Without a plan the key
        and the look, None where there is none of it. `tell` is called with what a plan
        that was followed is about, and the arrays that it puts out.
        """
        count, whole = len(asked), whole or derived
        found = follow(
            self._table, rest, [*asked, *more, *updates], count, updates, owned, whole,
            derived, looks.MOST, cuts,
        )  # fmt: skip
        if found is None:
            return None
        if found is NotImplemented:
            seen = look(asked, more, owned, derived, updates, whole)
            if seen is None:
                return None
            key: tuple[Any, ...] = seen.key, *rest
        else:
            if len(found) == 4:
                plan, key, done, made = found
                self._count(key, plan)
                if tell is not None:
                    tell(plan.about, plan.put_out(*made) if made else {})
                return done
            plan, key, nodes, others, held, waiting = found
            seen = Look(nodes, count, waiting, others, held, key[0])
            if plan is False:  # a program is not what is wanted any more
                self._table.pop(key, None)
                return key, seen
        done = self.run(key, seen, cuts)
        if done is not None and tell is not None:
            tell(seen.about, seen.outputs)
        return (key, seen) if done is None else done

    def take(self, key: Any, look: Look, plan: RunPlan) -> list[Tensor] | None:
        """Have a plan of another caller's, and run a graph by it as `run` does."""
        self._put(key, plan)
        if look.family is not None:
            self._sizes.note(look.family, plan, len(look.nodes))
        return self.run(key, look)

    def _count(self, key: Any, plan: RunPlan) -> None:
        """Know that a plan was followed."""
        self.hits += 1
        if self._table.credit < TRIED:
            self._table.credit += 1
        if plan is not self._latest:  # it goes last
            self._latest = plan
            self._table.renew(key)

    def _resized(self, key: Any, look: Look) -> RunPlan | None:
        """A plan made of those of other sizes."""
        if key in self._table:  # it was seen, and has none of its own
            return None
        look.family = self._sizes.key(key, look)
        if look.family is None:
            return None
        plan = self._sizes.find(look.family, look)
        if plan is not None:
            self._put(key, plan)
        return plan

    def _put(self, key: Any, plan: RunPlan | bool) -> None:
        self._table[key], self._latest = plan, None

    def note(
        self,
        key: Any,
        look: Look,
        owned: Owned,
        spends: bool = True,
        nodes: Callable[[], list[Tensor]] | None = None,
    ) -> PlanRecording | None:
        """Who is to be told of the run of a graph that looks like this; its nodes are
        let go of: `nodes` has them where they were before. One that `spends` what it
        reads may write over it.
        """
        seen = self._table.get(key)
        first = seen is None
        self.misses += 1
        if first:
            seen = self._table.credit > 0 or self._sizes.is_known(look.family)
            self._table.credit = max(self._table.credit - 1, 0)
            self._put(key, True)
        recording = None
        if seen is True:
            look.nodes = look.nodes if nodes is None else nodes()
            recording = PlanRecording(key, look, owned, spends, first)
            recording.plans = self
        look.nodes, look.updates = [], []  # what it holds would count as asked for
        return recording

    def note_loop(
        self, key: Any, look: Look, owned: Owned, spends: bool
    ) -> PlanRecording | None:
        """The recording of the run of the loop that a graph is about to become, if
        one that looked like this became one before."""
        if not self._loops.get(key, False):
            return None
        note = PlanRecording(key, look, owned, spends, first=False)
        note.stacks = {}
        look.nodes, look.updates = [], []
        return note

    def has_looped(self, key: Any) -> None:
        """Know that a graph that looked like this became a loop."""
        self._loops.setdefault(key, True)

    @contextmanager
    def kept(
        self,
        note: PlanRecording | None,
        chosen: set[int] | None = None,
        outputs: Mapping[int, Tensor] | None = None,
        about: Any = None,
    ) -> Iterator[None]:
        """Tell `note` of the run inside, and keep the plan for the next ones, `about`
        which its caller notes something. It cuts what depends on the `chosen`
        Variables, or it is of values, which stay; next runs put out the `outputs`,
        which are not of the graph, by their numbers.
        """
        let_go(chosen or set())
        if note is not None:
            note.values, note.together = chosen is None, self._together
            note.chosen, note.outputs = chosen or set(), dict(outputs or {})
        with recording(note):
            yield
        if note is not None:
            plan = note.plan()
            if plan is not None:
                plan.about = about
            if note.stacks is not None and plan is None:
                self._loops[note.key] = False
                return
            self._put(note.key, plan or note.first)
            if plan is not None and note.family is not None:
                self._sizes.note(note.family, plan, len(note.place))
