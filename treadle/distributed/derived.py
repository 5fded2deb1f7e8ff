"""The gradients of a shard's loss as arrays, by the plan of a loss that looks alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.autodiff.derivative import analyze, endangered, recorded
from treadle.autodiff.gradient import graded, gradings, untrained
from treadle.autodiff.reverse import seed_for
from treadle.autodiff.targets import Trainable
from treadle.base.collector import collector_paused
from treadle.base.dtypes import accumulator
from treadle.base.errors import GradientError
from treadle.distributed.layout import GradientLayout
from treadle.graph.frame import top
from treadle.graph.gradients import give_gradients
from treadle.graph.look import Look, Owned, assigned, look, numbered
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.lookup import sparse_rows
from treadle.optim.gradients import plain
from treadle.optim.optimizer import Optimizer
from treadle.optim.release import release
from treadle.runtime.again import Plans
from treadle.runtime.around import settings
from treadle.runtime.evaluate import run
from treadle.runtime.recorder import recording
from treadle.runtime.recording import Recording
from treadle.runtime.rows import rerolled

# By the number of a parameter the numbers of the arrays that its gradient is; of a
# sparse one the ids of its rows before them.
Parts = dict[int, list[int]]
Seen = tuple[Any, Look, Owned]


class LossGradients:
    """The gradients of losses by the parameters of a layout, in the dtypes that they
    are summed in. A loss that looks like one before follows its plan, as that of a step
    of the optimizer does; what the run of one is to make is told before it.
    """

    def __init__(self, optimizer: Optimizer, layout: GradientLayout) -> None:
        self.optimizer, self.layout = optimizer, layout
        self.plans, self._since = Plans(), gradings()
        every = [x.variable for x in layout.places]
        scale = optimizer.loss_scale
        self._owned = numbered([*every, *([] if scale is None else [scale.scale])])

    def begin(self, loss: Tensor | None) -> PlannedGradients | DerivedGradients:
        """The gradients of a loss, or without one those in p.grad, yet to be run."""
        seen = self._seen(loss)
        plan = None if seen is None else self.plans.find(*seen[:2])
        if seen is not None and plan is not None:
            parts: Parts = {}
            for n, _ in plan.outputs:
                parts.setdefault(~n // 2, []).append(n)
            return PlannedGradients(self, seen, parts)
        if loss is not None and rerolled([loss], seen and seen[1]):
            return self.begin(loss)
        return self.derived(loss, seen)

    @collector_paused
    def derived(self, loss: Tensor | None, seen: Seen | None) -> DerivedGradients:
        """The same by a derivative that is recorded now, of which a plan is made."""
        note = None if seen is None else self.plans.note(*seen)
        with recording(note):
            pairs = self._pairs(loss)
            variables = [p for p, _ in pairs]
            asked = {
                self._number(p): _asked(p, gradient, accumulator(p.type.dtype))
                for p, gradient in pairs
            }
        return DerivedGradients(self, loss, note, variables, asked)

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

    def _seen(self, loss: Tensor | None) -> Seen | None:
        """How a loss looks, with all else that decides what is made of it; None where
        that cannot be told."""
        around = settings()
        if loss is None or around is None or graded(self._since):
            return None
        asked = [*{x.serial: x for x in (loss, *endangered([loss]))}.values()]
        pending = top().pending
        mine = {**assigned(pending), **self._owned}
        columns = look(asked, (), mine, True, pending, True)
        return None if columns is None else ((columns.key, around), columns, mine)


@dataclass
class PlannedGradients:
    """The gradients of a loss that looks like one before."""

    owner: LossGradients
    seen: Seen
    parts: Parts

    def run(self) -> Mapping[int, Any] | None:
        """The arrays by their numbers; None where it has to be derived."""
        key, columns, _ = self.seen
        done = self.owner.plans.run(key, columns)
        return None if done is None else columns.outputs


@dataclass
class DerivedGradients:
    """The gradients of a loss whose derivative was recorded."""

    owner: LossGradients
    loss: Tensor | None
    note: Recording | None
    variables: Sequence[Variable]
    asked: dict[int, list[Tensor]]

    @property
    def parts(self) -> Parts:
        return {k: [x.serial for x in parts] for k, parts in self.asked.items()}

    def run(self) -> Mapping[int, Any]:
        """The arrays by the serials of their nodes."""
        chosen, plans = set(map(id, self.variables)), self.owner.plans
        nodes = [x for parts in self.asked.values() for x in parts]
        outputs = {
            ~(2 * k + j): x for k, xs in self.asked.items() for j, x in enumerate(xs)
        }
        roots = [*([] if self.loss is None else [self.loss]), *nodes]
        with plans.kept(self.note, chosen, outputs):
            run(roots, cuts=True, plans=plans)
        give_gradients(self.variables, [None] * len(self.variables))
        release(roots, chosen)
        return {x.serial: x.array for x in nodes}


def _asked(p: Variable, gradient: Tensor, dtype: Any) -> list[Tensor]:
    """A gradient in the dtype that it is summed in; of a sparse parameter the ids of
    its rows before them, each row the sum of all that have its id."""
    gradient = plain(gradient)
    rows = sparse_rows(gradient) if p.sparse else None
    if rows is None:
        return [gradient.astype(dtype)]
    ids, values = rows
    return [ids, functions.combine_rows(ids, values.astype(dtype), p.shape[0])]
