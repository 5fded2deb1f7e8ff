"""Optimizer: derives the loss, builds every update as a graph, runs all of it once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.autodiff.derivative import looked_at, recorded
from treadle.autodiff.gradient import graded, gradings, variables
from treadle.autodiff.reverse import Trainable, seed_for
from treadle.base.dtypes import accumulator, float64
from treadle.base.errors import ArgumentError, GradientError, ModelFileError
from treadle.graph.body import Trace, trace
from treadle.graph.frame import explicit_updates, top
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable, variable_of
from treadle.ops.call import Call, inputs_of
from treadle.ops.families import outputs_of
from treadle.optim.gradients import (
    Gradient,
    clip_by_norm,
    clip_by_value,
    plain,
    prepare,
)
from treadle.optim.groups import Group, Rate, Rule, groups_of, store
from treadle.optim.transform import Transform, identity
from treadle.runtime.evaluate import forget, run

__all__ = ["Optimizer"]

State = dict[str, np.ndarray[Any, Any]]
Work = list[tuple[Group, Variable, Tensor]]
_AUTOMATIC = re.compile(r"variable_\d+")


class Optimizer:
    """Moves parameters against their gradients: p = p - lr * rule(gradient).

    `params` is None (every trainable parameter the loss reaches), parameters, or
    groups [{"params": ..., "lr": ..., setting: ...}]; `lr` a number, a Variable or a
    schedule of the count of finished steps; `rule` a Transform. Gradients are clipped
    element by element, then by their global norm.

    >>> import treadle as td
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
    ) -> None:
        chosen = identity() if rule is None else rule
        make = (lambda: chosen) if isinstance(chosen, Transform) else chosen
        self.groups = groups_of(params, lr, make, settings or {})
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.count = Variable(np.zeros((), np.int64), name="step")
        self._states: dict[int, tuple[str, Variable, dict[str, Variable]]] = {}
        self._waiting: State = {}
        self._bodies: dict[Any, tuple[Trace, tuple[str, ...]]] = {}
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
        if loss is None:
            work = self._accumulated()
            roots = [g for _, _, g in work]
        else:
            roots = [as_tensor(loss)]
            work = self._derived(roots[0])
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

    def _derived(self, loss: Tensor) -> Work:
        (whole,), below = looked_at([loss], Trainable())
        read = below.trainable()
        known = {id(v) for v in read}
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

    def _accumulated(self) -> Work:
        known = graded(self._since)
        work = [
            (group, p, p.grad)
            for group in self.groups
            for p in self._candidates(group, known)
            if p.trainable and p.grad is not None
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
        gradients = [prepare(g, group.rule.rowwise) for group, _, g in work]
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
            if group.rule.fixed and gradient.ids is None and not top().tracing:
                found += self._called(p, gradient.value, rate, group.rule, states, step)
            else:
                found += changed(p, gradient, rate, group.rule, states, step)
        found.append((self.count, self.count + 1))
        return found

    def _called(
        self,
        p: Variable,
        gradient: Tensor,
        rate: Tensor,
        rule: Transform,
        states: Mapping[str, Variable],
        step: Tensor,
    ) -> list[tuple[Variable, Tensor]]:
        """The same as `changed`, by one call of a body that is traced once."""
        olds = [plain(v.node()) for v in states.values()]
        inputs = [gradient, plain(p.node()), rate, step, *olds]
        key = rule, p.dtype, *[x.type for x in inputs]
        known = self._bodies.get(key)
        if known is None:

            def update(g: Tensor, old: Tensor, rate: Tensor, step: Tensor,
                       *own: Tensor) -> list[Tensor]:  # fmt: skip
                wide = old.astype(g.type.dtype)
                direction, new = rule.update(
                    g, dict(zip(states, own, strict=True)), wide, step
                )
                names.extend(new)
                return [(wide - direction * rate).astype(p.dtype), *new.values()]

            names: list[str] = []
            traced = trace(update, [x.type for x in inputs], "update")
            traced = replace(traced, body=traced.body.shared())
            known = self._bodies[key] = traced, tuple(names)
        traced, written = known
        moved, *new = outputs_of(Call(traced.body)(*inputs_of(traced, tuple(inputs))))
        found = [(states[k], value) for k, value in zip(written, new, strict=True)]
        return [*found, (p, moved)]

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

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, for parameters of the same names.

        States of parameters that were not updated yet wait for their first step.

        >>> import treadle as td
        >>> x, opt = td.param("x", init=2.0), td.optim.Adam()
        >>> _ = opt.step(x * x)
        >>> again = td.optim.Adam()
        >>> again.load_state_dict(opt.state_dict())
        >>> sorted(again.state_dict()) == sorted(opt.state_dict())
        True
        """
        rest = {name: np.array(value) for name, value in state.items()}
        if "step" not in rest:
            raise ModelFileError("the optimizer's state has no 'step'")
        targets: dict[str, Variable] = {"step": self.count}
        for k, group in enumerate(self.groups):
            if group.own_rate is not None and f"lr.{k}" in rest:
                targets[f"lr.{k}"] = group.own_rate
        for key, _, states in self._states.values():
            for name, variable in states.items():
                targets[f"{key}/{name}"] = variable
        missing = [name for name in targets if name not in rest]
        if missing:
            raise ModelFileError(f"the optimizer's state has no {', '.join(missing)}")
        pairs = [(variable, rest.pop(name)) for name, variable in targets.items()]
        for variable, value in pairs:
            if value.shape != variable.shape:
                raise ModelFileError(
                    f"state {variable.name} has shape {value.shape}, "
                    f"the optimizer needs {variable.shape}"
                )
        odd = [k for k in rest if "/" not in k and not k.startswith("lr.")]
        if odd:
            raise ArgumentError(f"{odd[0]!r} is no state of an optimizer")
        store(pairs)
        self._waiting = {k: v for k, v in rest.items() if "/" in k}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.groups))})"


def changed(
    p: Variable,
    gradient: Gradient,
    rate: Tensor,
    rule: Transform,
    states: Mapping[str, Variable],
    step: Tensor,
) -> list[tuple[Variable, Tensor]]:
    """The next versions of a parameter and its states, at some rows or everywhere."""
    ids, dtype = gradient.ids, gradient.value.type.dtype

    def seen(variable: Variable) -> Tensor:
        node = plain(variable.node())
        whole = ids is None or variable.shape != p.shape
        found: Tensor = node if whole else functions.embedding(node, ids)
        return found

    def whole(variable: Variable, value: Tensor) -> Tensor:
        if ids is None or variable.shape != p.shape:
            return value
        found: Tensor = functions.at(plain(variable.node()))[ids].set(value)
        return found

    own = {name: seen(variable) for name, variable in states.items()}
    old = seen(p).astype(dtype)
    direction, new = rule.update(gradient.value, own, old, step)
    moved = (old - direction * rate).astype(p.dtype)
    found = [(states[name], whole(states[name], value)) for name, value in new.items()]
    return [*found, (p, whole(p, moved))]


def release(roots: Sequence[Tensor], chosen: set[int]) -> None:
    """Cut the roots and the evaluated nodes that depend on the updated Variables.

    What depends on none of them (a second network's part of the graph) stays whole.
    """
    stale: set[int] = set()
    nodes = reach(roots)
    for node in nodes:
        variable = variable_of(node)
        if variable is not None:
            if id(variable) in chosen:
                stale.add(node.serial)
            continue
        for x in node.inputs:
            if x.serial in stale:
                stale.add(node.serial)
                break
    for node in nodes:
        if node.stored is not None and node.serial in stale:
            forget(node)
    for root in roots:
        forget(root)
