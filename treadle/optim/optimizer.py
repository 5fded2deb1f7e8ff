"""Optimizer: derives the loss, builds every update as a graph, runs all of it once."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from treadle.autodiff.derivative import looked_at, recorded
from treadle.autodiff.gradient import graded, gradings, variables
from treadle.autodiff.reverse import Trainable, seed_for
from treadle.base.dtypes import accumulator, as_dtype, float64
from treadle.base.errors import GradientError, ModelFileError
from treadle.base.types import Type
from treadle.graph.frame import explicit_updates, top
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.nn.state import Keys, Rename, choose, compare
from treadle.optim.gradients import (
    clip_by_norm,
    clip_by_value,
    prepare,
)
from treadle.optim.groups import Group, Rate, Rule, groups_of, parameters_of, store
from treadle.optim.release import release
from treadle.optim.transform import Transform, identity
from treadle.optim.update import Traced, changed, moved
from treadle.runtime.evaluate import run

__all__ = ["Optimizer"]

State = dict[str, np.ndarray[Any, Any]]
Work = list[tuple[Group, Variable, Tensor]]
_AUTOMATIC = re.compile(r"variable_\d+")


class Optimizer:
    """Moves parameters against their gradients: p = p - lr * rule(gradient).

    `params` is None (every trainable parameter the loss reaches), parameters, or
    groups [{"params": ..., "lr": ..., setting: ...}]; `lr` a number, a Variable or a
    schedule of the count of finished steps; `rule` a Transform. Gradients are clipped
    element by element, then by their global norm. Where a gradient is rows of a table,
    only those rows of the parameter and of its states change, unless `sparse_updates`
    is set to False: for SGD and Adagrad both are the same, rules that move a parameter
    without a gradient (momentum, running means, weight decay) wait for the next one.

    >>> import treadle as td
    >>> from treadle.optim import rules, transform
    >>> x = td.param("x", init=2.0)
    >>> sign = transform.stateless(lambda g, p, step: g / td.abs(g))
    >>> opt = td.optim.Optimizer(lr=0.5, rule=sign)
    >>> float(opt.step(x * x)), float(x)
    (4.0, 1.5)
    """

    sparse_updates = True

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-3,
        rule: Transform | Rule | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        clip_norm: Any = None,
        clip_value: Any = None,
    ) -> None:
        chosen = identity() if rule is None else rule
        make = (lambda: chosen) if isinstance(chosen, Transform) else chosen
        self.groups = groups_of(params, lr, make, settings or {})
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.count = Variable(np.zeros((), np.int64), name="step")
        self._states: dict[int, tuple[str, Variable, dict[str, Variable]]] = {}
        self._waiting: State = {}
        self._traced = Traced()
        self._since = gradings()

    # -- the rate ------------------------------------------------------------------

    @property
    def lr(self) -> float:
        """The rate of the next step in the first group; setting it sets all groups."""
        return float(self.groups[0].rate(self._step()))

    @lr.setter
    def lr(self, rate: Rate) -> None:
        for group in self.groups:
            group.lr = rate

    # -- a step --------------------------------------------------------------------

    def step(self, loss: Any = None) -> Any:
        """Derive `loss`, update the parameters and return the loss's value, in one run.

        Without a loss the gradients are those `loss.backward()` has added into p.grad.
        Nodes that depend on an updated parameter are cut: their values stay. In a
        traced function, and on an engine with a memory of its own, the loss is returned
        as a tensor.

        >>> import treadle as td
        >>> x = td.param("x", init=2.0)
        >>> float(td.optim.SGD(lr=0.25).step(x * x)), float(x)
        (4.0, 1.0)
        """
        return self._stepped(loss, None)

    def update_subset(self, params: Any, loss: Any = None) -> Any:
        """A step that changes these parameters alone; others wait, with their states.

        Without a loss the gradients are those in p.grad. They are clipped by the norm
        of the subset. Everything counts as one step (DyNet's update_subset).

        >>> import treadle as td
        >>> x, y = td.param("x", init=2.0), td.param("y", init=2.0)
        >>> float(td.optim.SGD(lr=0.25).update_subset([x], x * x * y)), float(y)
        (8.0, 2.0)
        """
        return self._stepped(loss, {id(p) for p in parameters_of(params)})

    def _stepped(self, loss: Any, only: set[int] | None) -> Any:
        """A step of all parameters, or only of some."""
        if loss is None:
            work = self._accumulated(only)
            roots = [g for _, _, g in work]
        else:
            roots = [as_tensor(loss)]
            work = self._derived(roots[0], only)
        chosen = {id(p) for _, p, _ in work}
        changes = self._changes(work)
        del work
        if top().tracing:
            for variable, value in changes:
                variable.assign(value)
            top().runs = True
            return None if loss is None else roots[0]
        with explicit_updates():
            updates = [variable.assign(value) for variable, value in changes]
        del changes  # what only this list holds would count as asked for
        run([*roots, *updates], spent=roots)
        release(roots, chosen)
        if loss is None:
            return None
        stored = roots[0].stored
        # A loss in an engine's memory stays there until it is looked at.
        return stored[()] if isinstance(stored, np.ndarray) else roots[0]

    def zero_grad(self) -> None:
        """Forget the gradients that backward() has added into p.grad.

        >>> import treadle as td
        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.1)
        >>> (x * x).backward(); opt.zero_grad(); x.grad is None
        True
        """
        for group in self.groups:
            for p in self._candidates(group, graded(self._since)):
                p.zero_grad()

    def _candidates(self, group: Group, found: Sequence[Variable]) -> list[Variable]:
        """The parameters of a group; one without a list takes those nobody names."""
        if group.parameters is not None:
            return list(group.parameters)
        named = {id(p) for other in self.groups for p in other.parameters or ()}
        return [p for p in found if id(p) not in named]

    def _derived(self, loss: Tensor, only: set[int] | None) -> Work:
        (whole,), below = looked_at([loss], Trainable())
        read = below.trainable()
        known = {id(v) for v in read if only is None or id(v) in only}
        pairs = [
            (group, p)
            for group in self.groups
            for p in self._candidates(group, read)
            if id(p) in known
        ]
        seed = seed_for(loss)
        found = recorded(below, [whole], [seed], [p for _, p in pairs])
        if not found:
            error = GradientError(
                "the loss reads no trainable parameter"
                if not any(v.trainable for v in variables(loss))
                else "the loss depends on no trainable parameter of this optimizer",
                hint="make what is to be learned with td.param(...)",
            )
            raise error.located("step", repr(loss.type), loss.line)
        return [(*pairs[k], found[k]) for k in sorted(found)]

    def _accumulated(self, only: set[int] | None) -> Work:
        known = graded(self._since)
        work = [
            (group, p, p.grad)
            for group in self.groups
            for p in self._candidates(group, known)
            if p.trainable and p.grad is not None and (only is None or id(p) in only)
        ]
        if not work:
            raise GradientError(
                "no trainable parameter holds a gradient",
                hint="call loss.backward() before step(), or step(loss)",
            ).located("step")
        return work

    def _step(self) -> Tensor:
        return self.count.node().astype(float64)

    def _changes(self, work: Work) -> list[tuple[Variable, Tensor]]:
        """All new versions, as expressions; nothing is assigned yet."""
        step = self._step()
        gradients = [
            prepare(g, group.rule.rowwise and self.sparse_updates, p.frozen)
            for group, p, g in work
        ]
        if self.clip_value is not None:
            gradients = clip_by_value(gradients, self.clip_value)
        if self.clip_norm is not None:
            gradients = clip_by_norm(gradients, self.clip_norm)
        rates: dict[int, Tensor] = {}
        found: list[tuple[Variable, Tensor]] = []
        for (group, p, _), gradient in zip(work, gradients, strict=True):
            if id(group) not in rates:
                rates[id(group)] = group.rate(step)
            states = self._states_of(p, group.rule)
            rate = rates[id(group)].astype(gradient.value.type.dtype)
            once = group.rule.fixed and gradient.ids is None and not top().tracing
            make = self._traced if once else moved
            move = partial(make, group.rule, rate=rate, step=step)
            found += changed(p, gradient, states, move)
        found.append((self.count, self.count + 1))
        return found

    # -- states --------------------------------------------------------------------

    def _states_of(self, p: Variable, rule: Transform) -> dict[str, Variable]:
        """The state Variables of a parameter, made when it is first updated."""
        if id(p) in self._states:
            return self._states[id(p)][2]
        key = self._key(p)
        states: dict[str, Variable] = {}
        wide = p.type.with_dtype(accumulator(p.type.dtype))
        for name, initial in rule.init(wide).items():
            given = self._waiting.pop(f"{key}/{name}", None)
            if given is not None and given.shape != initial.shape:
                raise ModelFileError(
                    f"state {key}/{name} has shape {given.shape}, "
                    f"the optimizer needs {initial.shape}"
                )
            value = initial if given is None else given
            states[name] = Variable(
                value, name=f"{key}/{name}", dtype=initial.dtype, copy=given is not None
            )
        self._states[id(p)] = key, p, states
        return states

    def _key(self, p: Variable) -> str:
        """The parameter's name; its position where it has none of its own."""
        taken = {key for key, _, _ in self._states.values()}
        name = p.name
        if _AUTOMATIC.fullmatch(name):
            name = f"parameter_{len(self._states)}"
        key, k = name, 1
        while key in taken:
            key, k = f"{name}.{k}", k + 1
        return key

    def state_dict(self) -> State:
        """Everything a later run needs to go on alike: name -> array.

        >>> import treadle as td
        >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.1, momentum=0.9)
        >>> _ = opt.step(x * x)
        >>> {name: float(array) for name, array in opt.state_dict().items()}
        {'step': 1.0, 'lr.0': 0.1, 'x/momentum': 4.0}
        """
        found: State = {"step": self.count.numpy()}
        for k, group in enumerate(self.groups):
            if group.own_rate is not None:
                found[f"lr.{k}"] = group.own_rate.numpy()
        for key, _, states in self._states.values():
            for name, variable in states.items():
                found[f"{key}/{name}"] = variable.numpy()
        return {**found, **self._waiting}

    def _targets(self, names: Container[str]) -> dict[str, Variable]:
        """Where a state with these names goes, of what is there already."""
        found: dict[str, Variable] = {"step": self.count}
        for k, group in enumerate(self.groups):
            if group.own_rate is not None and f"lr.{k}" in names:
                found[f"lr.{k}"] = group.own_rate
        for key, _, states in self._states.values():
            for name, variable in states.items():
                found[f"{key}/{name}"] = variable
        return found

    def check_state(
        self,
        types: Mapping[str, Type | None],
        strict: bool = True,
        wrong: Iterable[tuple[str, list[str]]] = (),
    ) -> Keys:
        """The names without a partner; raises ModelFileError where a state of these
        types, or what else is `wrong` with it, does not let it be loaded."""
        own = {name: v.type for name, v in self._targets(types).items()}
        known = {k: t for k, t in types.items() if k in own or not _may_wait(k)}
        return compare(own, known, strict, type(self).__name__, wrong)

    def load_state_dict(
        self,
        state: Mapping[str, Any],
        strict: bool = True,
        *,
        rename: Rename | None = None,
        prefix: str = "",
    ) -> Keys:
        """Go on from what `state_dict` gave, for parameters of the same names.

        States of parameters that were not updated yet wait for their first step. All is
        taken over or nothing; `strict`, `rename` and `prefix` are as for a Module.

        >>> import treadle as td
        >>> x, opt = td.param("x", init=2.0), td.optim.Adam()
        >>> _ = opt.step(x * x)
        >>> again = td.optim.Adam()
        >>> _ = again.load_state_dict(opt.state_dict())
        >>> sorted(again.state_dict()) == sorted(opt.state_dict())
        True
        """
        taken = choose(state, rename, prefix)
        rest = {name: np.array(state[given]) for name, given in taken.names.items()}
        types = {k: Type(v.shape, as_dtype(v.dtype)) for k, v in rest.items()}
        keys = self.check_state(types, strict, taken.wrong)
        targets = self._targets(rest)
        store([(v, rest.pop(name)) for name, v in targets.items() if name in rest])
        self._waiting = {k: v for k, v in rest.items() if "/" in k}
        return keys

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.groups))})"


def _may_wait(name: str) -> bool:
    """Whether a state may belong to a parameter or a group that is not known yet."""
    return "/" in name or name.startswith("lr.")
