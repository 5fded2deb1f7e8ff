"""The gradients of a shard's loss, by the plan of a loss that looks alike: added to the
sums of its rank, in an update of their own, or as arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.autodiff.derivative import analyze, recorded
from treadle.autodiff.gradient import graded, gradings, held_gradients, untrained
from treadle.autodiff.live import endangered
from treadle.autodiff.reverse import seed_for
from treadle.autodiff.targets import Trainable
from treadle.base.changes import changes as stamp
from treadle.base.collector import collector_paused
from treadle.base.dtypes import accumulator
from treadle.base.errors import GradientError
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import row_numbers
from treadle.distributed.sums import ShardSums, SumTarget
from treadle.graph.frame import top
from treadle.graph.gradients import give_gradients
from treadle.graph.leaves import constant_node
from treadle.graph.look import Look, Owned, assigned, numbered
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable, variable_of
from treadle.ops.lookup import RowsToDense, sparse_rows
from treadle.optim.gradients import plain
from treadle.optim.optimizer import Optimizer
from treadle.optim.update import release
from treadle.runtime.again import Plans, Tell
from treadle.runtime.around import settings
from treadle.runtime.evaluate import run
from treadle.runtime.history import forget
from treadle.runtime.moved import let_go
from treadle.runtime.planning import PlanRecording
from treadle.runtime.recorder import recording
from treadle.runtime.rows import rerolled
from treadle.runtime.store import Changes, updates_of

# By the number of a parameter the numbers of the arrays that its gradient is; of a
# sparse one the ids of its rows before them.
Parts = dict[int, list[int]]
Seen = tuple[Any, Look, Owned]
_ARRAYS, _ADDED, _UPDATED = range(3)  # what becomes of gradients


class LossGradients:
    """The gradients of losses by the parameters of a layout, in the dtypes that they
    are summed in. A loss that looks like one before follows its plan, as that of a step
    of the optimizer does.
    """

    def __init__(
        self, optimizer: Optimizer, layout: GradientLayout, sums: ShardSums
    ) -> None:
        self.optimizer, self.layout, self.sums = optimizer, layout, sums
        self.plans, self._since = Plans(), gradings()
        self._parameters = [x.variable for x in layout.places]
        self._trained: tuple[int, tuple[bool, ...]] = -1, ()  # as of a stamp
        self._numbers: Owned = {}
        self._of: tuple[Owned, int] = self._numbers, 0  # the optimizer's, and of sums

    # -- added to the sums -------------------------------------------------------------

    def add(self, loss: Tensor | None) -> None:
        """Add the gradients of a loss, or without one those in p.grad, to the sums of
        the shards before."""
        sums, target = self.sums, self.sums.state.target
        key, anew = (_ADDED, target.key), (self._added, target)
        self._follow(self.plans, loss, key, anew, sums.add)

    @collector_paused
    def _added(self, loss: Tensor | None, seen: Seen | None, target: SumTarget) -> None:
        """The same by a derivative that is recorded now, of which a plan is made."""
        derived = self.derived(loss, seen)
        used, rows = frozenset(derived.asked), derived.rows
        with self.plans.kept(derived.note, derived.chosen, derived.outputs, used):
            derived.run_inside()
            changes = self.sums.changes(target, derived.dense)
            updates = updates_of([*derived.assigned(changes), *changes])
            del changes  # what it alone holds would be asked for
            if derived.note is not None:
                derived.note.outputs = rows  # the next part alone reads others
                derived.note.owned = {**derived.note.owned, **self._owned()}
            if updates:
                run(updates)
        self.sums.add(used, {n: np.asarray(x.array) for n, x in rows.items()})

    # -- an update of their own --------------------------------------------------------

    def update(self, loss: Tensor) -> bool:
        """Have the optimizer make a step of the mean gradient of the shards before and
        of this loss, the last one; whether that could be, as there is but one rank."""
        optimizer, sums = self.optimizer, self.sums
        if (sign := optimizer._decisions().sign) is None:
            return False
        now = optimizer._scheduled()
        rows = {n: constant_node(x) for n, x in sums.rows({}).items()}
        key = _UPDATED, sums.state.rest.key, sums.count, self._trainable(), sign, *rows
        more = [*(now.roots() if now else ()), *rows.values()]
        anew = self._updated, now, rows
        self._follow(optimizer._plans, loss, key, anew, more=more)
        sums.clear()
        return True

    @collector_paused
    def _updated(
        self, loss: Tensor, seen: Seen | None, now: Any, rows: Mapping[int, Tensor]
    ) -> None:
        derived = self.derived(loss, seen, self.optimizer._plans)
        note, sums, rest = derived.note, self.sums, self.sums.state.rest
        if note is not None:
            note.chosen, note.outputs = derived.chosen, derived.outputs
        let_go(derived.chosen)
        with recording(note):
            derived.run_inside()
            totals = self._means(sums.totals(rest, derived.dense))
            of = sums.statistics
            joined = self._joined([rows, derived.rows])
            means = of.means(sums.statistics_of(rest), sums.count + 1)
            roots = [*totals.values(), *means, *(x for y in joined.values() for x in y)]
            run(roots)
            for x in roots:
                forget(x)
        totals |= {k: self._table(k, *x) for k, x in joined.items()}
        pairs = [(self.layout.places[k].variable, x) for k, x in totals.items()]
        pairs = [(p, x) for p, x in pairs if p.trainable]
        variables = [p for p, _ in pairs]
        more = of.changes(means)
        more = [*derived.assigned([*pairs, *more]), *more]
        with held_gradients(variables, [x for _, x in pairs]):
            self.optimizer._step_anew(None, None, now, note, more)

    def _means(self, totals: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Sums over all shards, as means."""
        scale, places = np.float64(1.0 / (self.sums.count + 1)), self.layout.places
        if scale == 1.0:
            return dict(totals)
        return {
            k: x * constant_node(np.array(scale.astype(places[k].dtype)))
            for k, x in totals.items()
        }

    def _joined(
        self, shards: Sequence[Mapping[int, Tensor]]
    ) -> dict[int, tuple[Tensor, Tensor]]:
        """The ids and values of sparse gradients over all shards, as means."""
        ids, values = dict[int, Tensor](), dict[int, Tensor]()
        for k in filter(self._is_sparse, range(len(self.layout.places))):
            for n, joined in zip(row_numbers(k), (ids, values), strict=True):
                if parts := [x[n] for x in shards if n in x]:
                    joined[k] = functions.concat(parts)
        means = self._means(values)
        return {k: (ids[k], means[k]) for k in ids}

    def _table(self, k: int, ids: Tensor, values: Tensor) -> Tensor:
        """A sparse gradient, of these rows."""
        return RowsToDense(self.layout.places[k].variable.shape[0])(ids, values)

    # -- as arrays ---------------------------------------------------------------------

    def arrays(
        self, loss: Tensor | None, begin: Callable[[Parts], object]
    ) -> Mapping[int, Any]:
        """The gradients of a loss, or without one those in p.grad, by the numbers of
        the parts that `begin` is called with, before the run if that can be."""
        results: list[Mapping[int, Any]] = []

        def tell(parts: Parts, arrays: Mapping[int, Any]) -> None:
            begin(parts)
            results.append(arrays)

        def derive(loss: Tensor | None, seen: Seen | None) -> None:
            derived = self.derived(loss, seen)
            begin(derived.parts)
            results.append(derived.run())

        self._follow(self.plans, loss, (_ARRAYS,), (derive,), tell)
        return results[0]

    @collector_paused
    def derived(
        self, loss: Tensor | None, seen: Seen | None, plans: Plans | None = None
    ) -> DerivedGradients:
        """Gradients by a derivative that is recorded now, of which a plan is made."""
        note = None if seen is None else (plans or self.plans).note(*seen)
        with recording(note):
            pairs = self._pairs(loss)
            asked = {
                self._number(p): _asked(p, gradient, accumulator(p.type.dtype))
                for p, gradient in pairs
            }
        waiting = [variable_of(x) for x in top().pending]
        return DerivedGradients(self, loss, note, [p for p, _ in pairs], asked, waiting)

    def _is_sparse(self, k: int) -> bool:
        return self.layout.places[k].variable.sparse

    def _pairs(self, loss: Tensor | None) -> list[tuple[Variable, Tensor]]:
        """The parameters that a loss trains, with gradients; `backward` may have given
        some, or more of them."""
        already = graded(self._since)
        if loss is None or already:
            if loss is not None:
                self.optimizer.scaled(loss).backward()
                already = graded(self._since)
            grads = [(p, p.grad) for p in already if p.trainable]
            return [(p, gradient) for p, gradient in grads if gradient is not None]
        scale = self.optimizer.loss_scale
        seed = seed_for(loss)
        if scale is not None:
            seed = scale.scale.node().astype(loss.type.dtype)
        (whole,), below = analyze([loss], Trainable(), True)
        read = below.trainable()
        gradients = recorded(below, [whole], [seed], read)
        if not gradients:
            raise untrained(loss).located("step", repr(loss.type), loss.line)
        return [(read[k], gradients[k]) for k in sorted(gradients)]

    def _number(self, p: Variable) -> int:
        number = self.layout.number(p)
        if number is None:
            raise GradientError(
                f"the loss trains {p.name!r}, which is no parameter of this optimizer "
                "or of the model that DataParallel was given",
                hint="make parameters before DataParallel, and list them all",
            ).located("step", repr(p.type))
        return number

    # -- how a loss looks --------------------------------------------------------------

    def _follow(
        self,
        plans: Plans,
        loss: Tensor | None,
        key: tuple[Any, ...],
        anew: tuple[Any, ...],
        tell: Tell | None = None,
        more: Sequence[Tensor] = (),
    ) -> None:
        """Run what a loss that looks like this one has become, with the `key` of what
        is made of it and `more` that is read; without such a plan make it `anew`, by a
        function of the loss, how it looks, and more arguments."""
        seen = self._followed(plans, loss, key, tell, more)
        if isinstance(seen, list):
            return
        if loss is not None and rerolled([loss], seen and seen[1]):
            del seen  # what it lists would count as asked for
            return self._follow(plans, loss, key, anew, tell, more)
        make, *arguments = anew
        make(loss, seen, *arguments)

    def _followed(
        self,
        plans: Plans,
        loss: Tensor | None,
        key: tuple[Any, ...],
        tell: Tell | None,
        more: Sequence[Tensor],
    ) -> list[Tensor] | Seen | None:
        """As `Optimizer._followed`: how a loss looks, unless its plan was followed."""
        around = settings()
        if loss is None or around is None or graded(self._since):
            return None
        mine, pending = self._owned(), top().pending
        if pending and not (others := assigned(pending)).keys() <= mine.keys():
            mine = {**others, **mine}
        asked, rest = [loss, *endangered([loss])], (*key, around)
        seen = plans.follow(rest, asked, mine, True, pending, more, True, tell=tell)
        return (*seen, mine) if isinstance(seen, tuple) else seen

    def _owned(self) -> Owned:
        """Numbers for all Variables that plans read or assign."""
        theirs, size = self.optimizer._decisions().owned, len(self.sums.variables)
        if self._of[0] is not theirs or self._of[1] != size:
            scale, of = self.optimizer.loss_scale, self.sums.statistics
            every = [*self._parameters, *([] if scale is None else [scale.scale])]
            every += [*of.variables, *of.kept, *self.sums.variables.values()]
            self._of = theirs, size
            self._numbers = {**theirs, **numbered(every, "shard")}
        return self._numbers

    def _trainable(self) -> tuple[bool, ...]:
        """Which parameters train."""
        if self._trained[0] != (now := stamp.now):
            self._trained = now, tuple([p.trainable for p in self._parameters])
        return self._trained[1]


@dataclass
class DerivedGradients:
    """The gradients of a loss whose derivative was recorded."""

    owner: LossGradients
    loss: Tensor | None
    note: PlanRecording | None
    variables: Sequence[Variable]
    asked: dict[int, list[Tensor]]
    waiting: Sequence[Variable | None]  # Variables that the loss assigns

    def assigned(self, pairs: Changes) -> Changes:
        """Assignments that repeat those of the loss but for what pairs assign: the last
        part of a plan makes all that is assigned."""
        known = {id(v) for v, _ in pairs}
        return [(v, v) for v in self.waiting if v is not None and id(v) not in known]

    @property
    def chosen(self) -> set[int]:
        """The ids of the parameters."""
        return set(map(id, self.variables))

    @property
    def parts(self) -> Parts:
        return {k: [x.serial for x in parts] for k, parts in self.asked.items()}

    @property
    def numbers(self) -> Parts:
        """The numbers that a plan has for the arrays."""
        return {k: [*row_numbers(k)][-len(xs) :] for k, xs in self.asked.items()}

    @property
    def outputs(self) -> dict[int, Tensor]:
        """The nodes by these numbers."""
        return {
            n: x
            for k, numbers in self.numbers.items()
            for n, x in zip(numbers, self.asked[k], strict=True)
        }

    @property
    def dense(self) -> dict[int, Tensor]:
        """The gradients that are no rows."""
        return {k: xs[0] for k, xs in self.asked.items() if len(xs) == 1}

    @property
    def rows(self) -> dict[int, Tensor]:
        """The gradients that are, by `row_numbers`."""
        dense = {row_numbers(k)[1] for k in self.dense}
        return {n: x for n, x in self.outputs.items() if n not in dense}

    def run(self) -> Mapping[int, Any]:
        """The arrays by the serials of their nodes."""
        with self.owner.plans.kept(self.note, self.chosen, self.outputs, self.numbers):
            self.run_inside()
        return {x.serial: x.array for x in self.outputs.values()}

    def run_inside(self) -> None:
        """Run the gradients, and cut what the parameters were derived through."""
        roots = [*([] if self.loss is None else [self.loss]), *self.outputs.values()]
        run(roots, cuts=True, plans=self.owner.plans)
        give_gradients(self.variables)
        release(roots, self.chosen)


def _asked(p: Variable, gradient: Tensor, dtype: Any) -> list[Tensor]:
    """A gradient in the dtype that it is summed in; of a sparse parameter the ids of
    its rows before them."""
    gradient = plain(gradient)
    if not p.sparse:
        return [gradient.astype(dtype)]
    every = constant_node(np.arange(p.shape[0])), gradient
    ids, values = sparse_rows(gradient) or every
    return [ids, values.astype(dtype)]
