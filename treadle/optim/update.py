"""The update of one parameter, as expressions, and what a step cuts after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from treadle.autodiff.dependence import behind
from treadle.autodiff.tape import is_spent, tape_of
from treadle.graph.body import Trace, trace
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, with_results
from treadle.graph.variable import Variable, variable_of
from treadle.ops.call import Call, inputs_of
from treadle.ops.families import outputs_of
from treadle.optim.gradients import Gradient, plain
from treadle.optim.transform import States, Transform
from treadle.runtime.history import DATA, forget, lasting, of_data, trained_by, trains

MASTER = "master"  # the state that holds a 16-bit parameter in float32


def next_value(
    rule: Transform,
    gradient: Tensor,
    old: Tensor,
    states: Mapping[str, Tensor],
    rate: Tensor,
    step: Tensor,
) -> tuple[Tensor, States]:
    """The next value of a parameter, old - rate * direction, and its next states.

    A master copy goes on from where it was, unless the parameter, its rounding, was
    assigned from elsewhere since.
    """
    short, master = old.type.dtype, states.get(MASTER)
    wide = old.astype(gradient.type.dtype)
    if master is not None:
        same = master.astype(old.type.dtype) == old
        wide = old = functions.where(same, master, wide)
    direction, new = rule.update(gradient, states, wide, step)
    value, more = rule.move.to(old, direction, rate, states)
    if master is not None:
        more = {**more, MASTER: value}
    return value.astype(short), {**new, **more}


def changed(
    p: Variable,
    gradient: Gradient,
    states: Mapping[str, Variable],
    move: Callable[[Tensor, Tensor, States], tuple[Tensor, States]],
    hold: Tensor | None = None,
) -> list[tuple[Variable, Tensor]]:
    """The next versions of a parameter and its states, at some rows or everywhere.

    `move` makes the next value and states of a gradient, a value and states; where the
    scalar `hold` is True, they are what they were.
    """
    ids = gradient.ids

    def seen(variable: Variable) -> Tensor:
        node = plain(variable.node())
        whole = ids is None or variable.shape != p.shape
        return node if whole else functions.embedding(node, ids)

    def whole(variable: Variable, value: Tensor) -> Tensor:
        if ids is None or variable.shape != p.shape:
            return value
        return functions.at(plain(variable.node()))[ids].set(value)

    def kept(variable: Variable, before: Tensor, after: Tensor) -> Tensor:
        """The old value where the parameter is frozen or the step is skipped."""
        if gradient.frozen is not None and variable.shape == p.shape:
            after = functions.where(gradient.frozen, before, after)
        return after if hold is None else functions.where(hold, before, after)

    old_states = {name: seen(variable) for name, variable in states.items()}
    old = seen(p)
    value, new = move(gradient.value, old, old_states)
    versions = [
        (states[name], whole(states[name], kept(states[name], old_states[name], x)))
        for name, x in new.items()
    ]
    return [*versions, (p, whole(p, kept(p, old, value)))]


class TracedUpdate:
    """`next_value`, by calls of bodies that are traced once for each rule and types."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Trace, tuple[str, ...]]] = {}

    def __call__(
        self,
        rule: Transform,
        gradient: Tensor,
        old: Tensor,
        states: Mapping[str, Tensor],
        rate: Tensor,
        step: Tensor,
    ) -> tuple[Tensor, States]:
        inputs = [gradient, old, rate, step, *states.values()]
        key = rule, *[x.type for x in inputs]
        known = self._known.get(key)
        if known is None:

            def update(g: Tensor, old: Tensor, rate: Tensor, step: Tensor,
                       *values: Tensor) -> list[Tensor]:  # fmt: skip
                old_states = dict(zip(states, values, strict=True))
                value, new = next_value(rule, g, old, old_states, rate, step)
                names.extend(new)
                return [value, *new.values()]

            names: list[str] = []
            traced = trace(update, [x.type for x in inputs], "update")
            traced = replace(traced, body=traced.body.shared())
            known = self._known[key] = traced, tuple(names)
        traced, written = known
        value, *new = outputs_of(Call(traced.body)(*inputs_of(traced, tuple(inputs))))
        return value, dict(zip(written, new, strict=True))


def release(roots: Sequence[Tensor], chosen: set[int]) -> None:
    """Cut the roots and the evaluated nodes that depend on the updated Variables.

    What others are trained by yet (a second network's part of the graph) stays whole:
    old versions stand in the graph. What was computed of data alone is cut: a state
    that each step makes of the last one would lead to all before.
    """
    last = lasting(roots, chosen)
    stale: set[int] = set()
    tapes: dict[int, bool] = {}
    nodes = with_results(reach(roots))
    trained = trained_by(nodes, chosen)
    for node in nodes:
        variable = variable_of(node)
        if variable is not None:
            if id(variable) in chosen:
                stale.add(node.serial)
            continue
        if is_spent(node.op):
            stale.add(node.serial)
            continue
        tape = tape_of(node)
        if tape is not None:
            if tape.number not in tapes:
                read = {id(variable_of(x)) for x in behind([tape])}
                gone = not chosen.isdisjoint(read) and not trains(tape, chosen)
                tapes[tape.number] = gone
                if tapes[tape.number]:
                    tape.close(trained)
            if tapes[tape.number]:
                stale.add(node.serial)
            continue
        for x in node.inputs:
            if x.serial in stale:
                stale.add(node.serial)
                break
    stale -= last | {root.serial for root in roots}  # others may be behind a root
    data = of_data(roots)
    for node in nodes:
        if node.stored is None or variable_of(node) is not None:
            continue
        if node.serial in stale:
            forget(node, trained)
        elif node.inputs and node.serial in data:
            forget(node, DATA)
    for root in roots:
        forget(root)
