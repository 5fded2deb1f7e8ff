"""Optimizer: derives the loss, builds every update as a graph, runs all of it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from treadle.autodiff.derivative import analyze, recorded
from treadle.autodiff.gradient import gradings, untrained
from treadle.autodiff.live import endangered
from treadle.autodiff.reverse import seed_for
from treadle.autodiff.targets import Trainable
from treadle.base.collector import collector_paused
from treadle.base.errors import GradientError, RunError
from treadle.base.torch.arguments import only_none
from treadle.graph.awaited import Awaited
from treadle.graph.frame import top
from treadle.graph.gradients import give_gradients
from treadle.graph.leaves import as_tensor
from treadle.graph.look import Look, Owned, assigned, is_grown
from treadle.graph.operators import functions
from treadle.graph.serials import newest_serial
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import by_serial
from treadle.graph.variable import Variable
from treadle.ops.create import zeros
from treadle.optim.controls import Controls, LossScale, kept_where
from treadle.optim.decided import DecidedSteps
from treadle.optim.gradients import NormAverage, Sums, prepare, reads, sums_by, sums_of
from treadle.optim.groups import GroupMaker, Now, Rate, Rule, Work, named, parameters_of
from treadle.optim.stamp import Decisions
from treadle.optim.state import in_order
from treadle.optim.transform import Transform, identity
from treadle.optim.update import TracedUpdate, changed, next_value, release
from treadle.runtime.again import Plans
from treadle.runtime.around import settings
from treadle.runtime.evaluate import run
from treadle.runtime.planning import PlanRecording
from treadle.runtime.recorder import recording
from treadle.runtime.rows import rerolled
from treadle.runtime.store import Changes, each_once, store, updates_of

Only = set[int] | None  # the parameters that a step may change, by their ids


class Optimizer(DecidedSteps):
    """Moves parameters against their gradients: p = p - lr * rule(gradient).

    `params` is None (every trainable parameter the loss reaches), parameters, or
    groups [{"params": ..., "lr": ..., setting: ...}]; `lr` a number, a Variable or a
    schedule of the count of finished steps; `rule` a Transform. Gradients are clipped
    element by element, then by their global norm; after the update `clip_weights` clips
    the parameters. Where a gradient is rows of a sparse parameter (`td.lookup`,
    `nn.Embedding(sparse=True)`), only those rows of it and of its states change: rules
    that move a row without a gradient (momentum, running means, weight decay) wait for
    its next one. Other parameters change in all rows. `sparse_updates` says so of all
    parameters (True) or of none (False). `decay_after` shrinks parameters to 1 -
    decay_after of what they are after a step, whatever the rate: DyNet's weight decay.

    `accumulate=k` updates every k steps, with the mean of their gradients (2.5: after 3
    and 2 steps in turn; `flush()` at the end); `kahan` carries on what rounding lost of
    each update. `on_nan` says what follows gradients that are not finite: the step is
    left out ("skip"), or an error that changed nothing ("raise"), or a smaller
    `loss_scale` ("scale down").
    `norms`, a NormAverage, follows the gradient's norm. A parameter of 16 bits is moved
    in a float32 copy, its state "master", of which it is the rounding (Micikevicius et
    al. 2018); without `masters`, or with `kahan`, it is moved as it is.

    >>> from treadle.optim import rules, transform
    >>> x = td.param("x", init=2.0)
    >>> sign = transform.stateless(lambda g, p, step: g / td.abs(g))
    >>> opt = td.optim.Optimizer(lr=0.5, rule=sign)
    >>> float(opt.step(x * x)), float(x)
    (4.0, 1.5)
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-3,
        rule: Transform | Rule | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        clip_norm: Any = None,
        clip_value: Any = None,
        clip_weights: Any = None,
        kahan: bool = False,
        on_nan: str | None = None,
        loss_scale: LossScale | float | None = None,
        norms: NormAverage | None = None,
        accumulate: float = 1,
        masters: bool = True,
        sparse_updates: bool | None = None,
        decay_after: Any = 0.0,
    ) -> None:
        chosen = identity() if rule is None else rule
        make = (lambda: chosen) if isinstance(chosen, Transform) else chosen
        end = {"kahan": kahan, "clip_weights": clip_weights, "decay_after": decay_after}
        super().__init__(
            GroupMaker(lr, make, settings or {}, end),
            params,
            Controls(clip_norm, clip_value, on_nan, loss_scale, norms, accumulate),
            masters,
        )
        self.sparse_updates = sparse_updates
        self._traced = TracedUpdate()
        self._plans = Plans()
        self._behind_rows = Plans()  # of steps whose rows have run
        self._since = gradings()

    @property
    def lr(self) -> float:
        """The rate of the next step in the first group; setting it sets all groups."""
        return float(self.groups[0].rate(self._step()))

    @lr.setter
    def lr(self, rate: Rate) -> None:
        for group in self.groups:
            group.lr = rate

    @property
    def loss_scale(self) -> LossScale | None:
        """The factor of the loss, if there is one."""
        return self.controls.loss_scale

    @property
    def norms(self) -> NormAverage | None:
        """The average of the gradient's norm, if it is followed."""
        return self.controls.norms

    @property
    def skipped(self) -> int:
        """The number of steps skipped as their gradients were not finite."""
        return int(self.controls.skipped)

    def scaled(self, loss: Any) -> Tensor:
        """The loss times the loss scale, to call backward() of before step().

        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.25, loss_scale=8.0)
        >>> opt.scaled(x * x).backward(); opt.step(); float(x)
        1.0
        """
        node, scale = as_tensor(loss), self.loss_scale
        if scale is None:
            return node
        return node * scale.scale.node().astype(node.type.dtype)

    def step(self, loss: Any = None) -> Any:
        """Derive `loss`, update the parameters and return the loss's value, in one run.

        Without a loss the gradients are those `loss.backward()` has added into p.grad.
        Nodes that depend on an updated parameter are cut: their values stay. The run
        may go on beside Python: the value is a number that is waited for when it is
        looked at. In a traced function the loss is returned as a tensor.

        >>> x = td.param("x", init=2.0)
        >>> float(td.optim.SGD(lr=0.25).step(x * x)), float(x)
        (4.0, 1.0)
        """
        return self._stepped(loss, None)

    def update_subset(self, params: Any, loss: Any = None) -> Any:
        """A step that changes these parameters alone; others wait, with their states.

        Without a loss the gradients are those in p.grad. They are clipped by the norm
        of the subset. Everything counts as one step (DyNet's update_subset).

        >>> x, y = td.param("x", init=2.0), td.param("y", init=2.0)
        >>> float(td.optim.SGD(lr=0.25).update_subset([x], x * x * y)), float(y)
        (8.0, 2.0)
        """
        return self._stepped(loss, {id(p) for p in parameters_of(params)})

    def _stepped(self, loss: Any, only: Only, behind: bool = False) -> Any:
        """A step of all or some parameters; what is left of it `behind` its rows."""
        plans, decided = self._behind_rows if behind else self._plans, self._decisions()
        now = None if decided.numbers else self._now()
        node = None if loss is None else as_tensor(loss)
        seen = self._followed(node, only, now, plans, decided)
        if isinstance(seen, list):
            return None if node is None else Awaited(node.stored)
        if node is not None and rerolled([node], seen and seen[1]):
            del seen  # what it lists would count as asked for
            return self._stepped(node, only, behind)
        note = seen and plans.note(*seen)
        first = note is None and node is not None and not endangered([node])
        if first and (done := self._rows_first(node, only)) is not None:
            return done
        first = note is not None and plans is self._plans and not self._states
        result = self._step_anew(node, only, now, note)
        if first and note is not None:
            self._note_first(note.key, plans.known(note.key), len(note.place))
        return result

    @collector_paused
    def _rows_first(self, loss: Any, only: Only) -> Any:
        """A step of a graph that comes once, whose rows do, while what reads them looks
        as before; None where there are no rows."""
        some = functions.run_rows([loss], (), True, 0, looked=not is_grown([loss]))
        return self._stepped(loss, only, behind=True) if some else None

    @collector_paused
    def _step_anew(
        self,
        loss: Any,
        only: Only,
        now: Now | None,
        note: PlanRecording | None,
        more: Sequence[tuple[Variable, Any]] = (),
    ) -> Any:
        """A step that follows no plan, and makes `more` changes at once; one is made of
        it, if there is a `note`."""
        with recording(note):
            now = now or self._now()
            roots, finite, changes, since, chosen = self._asked(loss, only, now)
            changes = sorted([*changes, *more], key=in_order)
        if note is not None:
            note.owned = {**self._states_owned(), **note.owned}
        if top().tracing:
            self.controls.refuse_traces()
            for variable, value in changes:
                variable.assign(value)
            top().runs = True
            return None if loss is None else roots[0]
        updates = updates_of(changes, since)
        watched = self.controls.raised(finite)
        del changes, finite, now  # what these alone hold would be asked for
        spent = roots if loss is None else roots[:1]
        with (note.plans if note else self._plans).kept(note, chosen):
            run([*roots, *updates, *watched], spent=spent)
        release(spent, chosen)
        if watched and not watched[0].item():
            raise RunError(
                f"the gradients of step {int(self.count) + 1} are not finite",
                hint="nothing was updated; a smaller rate or clip_norm may help",
            )
        return None if loss is None else Awaited(roots[0].stored)

    def flush(self) -> bool:
        """Update with the mean of the gradients that `accumulate` still holds back;
        whether there were any. The next step begins anew to wait for so many.

        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.25, accumulate=2)
        >>> for _ in range(3):
        ...     _ = opt.step(x * x)
        >>> float(x), opt.flush(), float(x), opt.flush()
        (1.0, True, 0.5, False)
        """
        if not self.controls.gathers:
            return False
        work = [
            (group, p, zeros(p.type.shape, p.type.dtype))
            for group in self.groups
            for p in self.candidates(group, [p for _, p, _ in self._states.values()])
            if p.trainable and id(p) in self._states
        ]
        some = bool(work or not self.controls.measures.whole)
        if waits := some and (top().tracing or int(self.controls.gathered) > 0):
            store(self._changes(work, self._now(), flush=True)[1])
        return waits

    def planned(self, loss: Any = None) -> list[Tensor]:
        """The nodes that `step(loss)` would run: the loss, then the new versions.

        Nothing runs, and nothing changes but that parameters get their first states.

        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.25)
        >>> [node.op.name for node in opt.planned(x * x)], float(x)
        (['Multiply', 'Update', 'Update'], 2.0)
        """
        roots, finite, changes, since, _ = self._asked(loss, None, self._now())
        return [*roots, *updates_of(changes, since), *self.controls.raised(finite)]

    def states(self) -> list[Variable]:
        """The state of the optimizer: Variables that it keeps for the parameters."""
        return [*self._own().values(), *self._own_rates(), *self._own_states()]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients that backward() has added into p.grad: None then.

        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.1)
        >>> (x * x).backward(); opt.zero_grad(); x.grad is None
        True
        """
        only_none(set_to_none)
        give_gradients(self._chosen())

    def _asked(
        self, loss: Any, only: Only, now: Now
    ) -> tuple[list[Tensor], Tensor | None, Changes, int, set[int]]:
        """The roots of a step, what `_changes` gives, and the ids of what changes."""
        if loss is None:
            work = self._accumulated(only)
            roots = [*{x.serial: x for x in chain(*self._read(work))}.values()]
        else:
            roots = [as_tensor(loss)]
            work = self._derived(roots[0], only)
        return roots, *self._changes(work, now), {id(p) for _, p, _ in work}

    def _derived(self, loss: Tensor, only: Only) -> Work:
        (whole,), below = analyze([loss], Trainable(named(self.groups, only)), True)
        read = below.trainable()
        known = {id(v) for v in read if only is None or id(v) in only}
        pairs = [
            (group, p)
            for group in self.groups
            for p in self.candidates(group, read)
            if id(p) in known
        ]
        seed = seed_for(loss)
        if self.loss_scale is not None:
            seed = self.loss_scale.scale.node().astype(loss.type.dtype)
        gradients = recorded(below, [whole], [seed], [p for _, p in pairs])
        if not gradients:
            error = untrained(loss, " of this optimizer")
            raise error.located("step", repr(loss.type), loss.line)
        return [(*pairs[k], gradients[k]) for k in sorted(gradients)]

    def _accumulated(self, only: Only) -> Work:
        known = self._chosen()
        work = [
            (group, p, gradient)
            for group in self.groups
            for p in self.candidates(group, known)
            if (gradient := p._grad) is not None
            and p._trainable
            and (only is None or id(p) in only)
        ]
        if not work and self.controls.measures.whole:
            raise GradientError(
                "no trainable parameter holds a gradient",
                hint="call loss.backward() before step(), or step(loss)",
            ).located("step")
        return work

    def _read(self, work: Work) -> list[tuple[Tensor, ...]]:
        """The nodes that a step reads of each gradient."""
        return reads(work, not self.controls.gathers, self.sparse_updates)

    def _sums(self, only: Only, listed: tuple[Variable, ...] | None) -> Sums | None:
        """The gradients of a step that derives no loss."""
        known = sums_by(listed or self._chosen()) if only is None else None
        return known or sums_of(work := self._accumulated(only), self._read(work))

    def _followed(
        self, loss: Any, only: Only, now: Now | None, plans: Plans, decided: Decisions
    ) -> list[Tensor] | tuple[Any, Look, Owned] | None:
        """A step that looks like one before; without one how it looks, None where that
        cannot be told."""
        around, listed = settings(), decided.listed
        held = self._sums(only, listed) if loss is None else ((), [loss], (0,))
        if decided.sign is None or around is None or held is None:
            return None
        of, read, counts = held
        asked = [*read, *endangered(read)]
        if len(asked) > 1 and len(set(map(by_serial, asked))) < len(asked):
            number = {x.serial: k for k, x in enumerate(asked)}
            counts += tuple([number[x.serial] for x in read])
            asked = [*{x.serial: x for x in asked}.values()]
        pending, mine = top().pending, decided.owned
        mine = {**assigned(pending), **mine} if pending else mine
        chosen = None if only is None else frozenset(only)
        rest = chosen, of, counts, decided.sign, around
        rates = now.roots() if now else []
        found = plans.follow(rest, asked, mine, not of, pending, rates, True)
        first = plans is self._plans and not self._states
        seen = self._known_alike(plans, found) if first else found
        return (*seen, mine) if isinstance(seen, tuple) else seen

    def _changes(
        self, work: Work, now: Now, flush: bool = False
    ) -> tuple[Tensor | None, Changes, int]:
        """Whether the gradients are finite (None: nobody asks), all new versions as
        expressions, and a serial newer than their operands; nothing is assigned yet."""
        controls, sparse = self.controls, self.sparse_updates
        states, since = self._states_in(work), newest_serial()
        sums = [state.pop("accumulated") for state in states if controls.gathers]
        prepared = [
            prepare(g, not sums and group.by_rows(p, sparse), p.frozen)
            for group, p, g in work
        ]
        controlled = controls.apply(prepared, [v.node() for v in sums], flush)
        rates = {id(g): x for g, x in zip(self.groups, now.rates, strict=True)}
        changes: Changes = [*zip(sums, controlled.sums, strict=True)]
        each = zip(work, states, controlled.gradients, strict=True)
        for (group, p, _), state, gradient in each:
            rate = rates[id(group)].astype(gradient.value.type.dtype)
            once = group.rule.fixed and gradient.ids is None and not top().tracing
            make = self._traced if once else next_value
            move = partial(make, group.rule, rate=rate, step=now.step)
            changes += changed(p, gradient, state, move, controlled.hold)
        counted = kept_where([(self.count, self.count.node() + 1)], controlled.hold)
        changes += [*controlled.changes, *counted]
        return controlled.finite, each_once(changes), since

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.groups))})"
