"""The public functions of derivatives: grad, value_and_grad, vjp, backward."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from treadle.autodiff.cached import seen_loss
from treadle.autodiff.derivative import analyze, cotangents, recorded, recorded_as
from treadle.autodiff.reverse import fitted, seed_for, zeros_like
from treadle.autodiff.targets import Trainable
from treadle.base import trees
from treadle.base.errors import ArityError, GradientError
from treadle.graph.gradients import give_gradients
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.origin import capture, describe
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable, variable_of

__all__ = [
    "backward",
    "grad",
    "graded",
    "gradings",
    "held_gradients",
    "put_gradients",
    "trainable_variables",
    "value_and_grad",
    "variables",
    "vjp",
]


def variables(y: Any) -> list[Variable]:
    """The Variables an expression (or several) reads, in the order of first use.

    >>> w, b = td.param("w", init=1.0), td.param("b", init=0.0)
    >>> [v.name for v in td.variables(w * 2 + b)]
    ['w', 'b']
    """
    leaves, _ = trees.flatten(y)
    unique: dict[int, Variable] = {}
    for node in reach(functions.written_out([as_tensor(leaf) for leaf in leaves])):
        variable = variable_of(node)
        if variable is not None:
            unique.setdefault(id(variable), variable)
    return list(unique.values())


def trainable_variables(y: Any) -> list[Variable]:
    """The trainable Variables an expression reads; an error if there are none."""
    trainable = [v for v in variables(y) if v.trainable]
    if not trainable:
        node = as_tensor(trees.flatten(y)[0][0])
        error = GradientError(
            "the expression reads no trainable parameter",
            hint="make what is to be learned with td.param(...)",
        )
        raise error.located("gradient", repr(node.type), node.line)
    return trainable


def grad(y: Any, xs: Any = None, *, unused: str = "error") -> Any:
    """Derivatives of the scalar `y` with respect to each of `xs`, as graphs.

    `xs` is a tree of Variables and tensors (default: the trainable parameters `y`
    reads, as a list); the result has its structure. Where `y` does not depend on one,
    an error says so, or the derivative is zero with `unused="zero"`. The derivative by
    a complex z = a + ib is dy/da + i dy/db: it points where y rises.

    >>> x = td.param("x", init=2.0)
    >>> (gx,) = td.grad(x**3, [x])
    >>> float(gx), float(td.grad(gx, [x])[0])
    (12.0, 12.0)
    """
    node = as_tensor(y)
    wanted = trainable_variables(node) if xs is None else xs
    leaves, structure = trees.flatten(wanted)
    gradients = derivatives([node], [seed_for(node)], leaves, unused)
    return trees.unflatten(structure, gradients)


def value_and_grad(y: Any, xs: Any = None, *, unused: str = "error") -> tuple[Any, Any]:
    """`y` itself and its derivatives, so that both can run together.

    >>> x = td.param("x", init=3.0)
    >>> y, (gx,) = td.value_and_grad(x * x, [x])
    >>> float(y), float(gx)
    (9.0, 6.0)
    """
    return as_tensor(y), grad(y, xs, unused=unused)


def vjp(y: Any, xs: Any, g: Any, *, unused: str = "error") -> Any:
    """Cotangents of `xs` for the cotangents `g` of the tensors `y`.

    >>> x = td.asarray([1.0, 2.0])
    >>> td.vjp(x * x, [x], td.asarray([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    ys = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    gs = [as_tensor(leaf) for leaf in trees.flatten(g)[0]]
    if len(ys) != len(gs):
        raise ArityError(f"{len(ys)} results with {len(gs)} cotangents").located("vjp")
    leaves, structure = trees.flatten(xs)
    cotangents = [fitted(gk, yk) for gk, yk in zip(gs, ys, strict=True)]
    return trees.unflatten(structure, derivatives(ys, cotangents, leaves, unused))


def derivatives(
    ys: Sequence[Tensor], gs: Sequence[Tensor], xs: Sequence[Any], unused: str
) -> list[Tensor]:
    """The cotangent of each x, with missing ones refused or zero."""
    for x in xs:
        if not isinstance(x, Operand):
            raise GradientError(f"derivatives are by tensors, not {type(x).__name__}")
    by_position = cotangents(ys, gs, xs)
    result = []
    for k, x in enumerate(xs):
        if k not in by_position and unused != "zero":
            name = x.name if isinstance(x, Variable) else repr(x.type)
            error = GradientError(
                f"the result does not depend on {name}",
                hint='leave it out, or pass unused="zero" if a zero derivative is '
                "meant; y.backward() passes over it",
            )
            raise error.located("gradient", repr(ys[0].type), describe(capture()))
        result.append(by_position[k] if k in by_position else zeros_like(x))
    return result


class _Graded:
    """The Variables that `backward` gave gradients in this thread, with the number of
    gradients when it last did; those of the latest call, by id, have theirs together.
    """

    def __init__(self) -> None:
        self.entries: dict[int, tuple[weakref.ref[Variable], list[int]]] = {}
        self.calls = 0
        self.latest, self.size, self.number = list[int](), 0, [0]


class _OwnGraded(threading.local):
    def __init__(self) -> None:
        self.now = _Graded()


_graded = _OwnGraded()


def graded(since: int = 0) -> list[Variable]:
    """The Variables that hold a gradient from `backward`, after `since` of them."""
    if _graded.now.calls <= since:
        return []
    newer = [ref() for ref, n in list(_graded.now.entries.values()) if n[0] > since]
    return [v for v in newer if v is not None and v._grad is not None]


def gradings() -> int:
    """The number of gradients that `backward` has given in this thread."""
    return _graded.now.calls


@provide
def backward(y: Any) -> None:
    """Add the gradient of scalar `y` into `p.grad` of each trainable parameter that it
    depends on; others keep the gradient that they have, None at first.

    >>> x = td.param("x", init=2.0)
    >>> (x * x).backward(); (3 * x).backward()
    >>> float(x.grad)
    7.0
    """
    node = as_tensor(y)
    parameters, gradients = _derived(node)
    if not put_gradients(parameters, gradients, fresh=True):
        for k, p in enumerate(parameters):
            if p._grad is not None:
                gradients[k] = p._grad + gradients[k]
        put_gradients(parameters, gradients)


def put_gradients(
    parameters: Sequence[Variable], gradients: Sequence[Tensor], fresh: bool = False
) -> bool:
    """Have parameters hold gradients as if `backward` had made them; `fresh` ones only
    where none holds any. Whether they do.

    >>> x, opt = td.param("x", init=2.0), td.optim.SGD(lr=0.5)
    >>> put_gradients([x], [td.constant(3.0)]), opt.step(), float(x)
    (True, None, 0.5)
    """
    if not give_gradients(parameters, gradients, fresh):
        return False
    state, keys = _graded.now, list(map(id, parameters))
    table = state.entries
    state.calls += len(parameters)
    if keys == state.latest and len(table) == state.size:  # none has gone since
        state.number[0] = state.calls
        return True
    number = [state.calls]
    for key, p in zip(keys, parameters, strict=True):
        known = table.pop(key, None)  # the order is that in which they were given last
        alive = weakref.ref(p, partial(table.pop, key)) if known is None else known[0]
        table[key] = alive, number
    state.latest, state.size, state.number = keys, len(table), number
    return True


@contextmanager
def held_gradients(
    parameters: Sequence[Variable], gradients: Sequence[Tensor]
) -> Iterator[None]:
    """A block in which parameters hold gradients as if `backward` had made them; none
    after it, and `gradings()` is what it was: nobody has to look for them."""
    calls = _graded.now.calls
    put_gradients(parameters, gradients)
    try:
        yield
    finally:
        give_gradients(parameters)
        _graded.now.calls = calls


def _derived(node: Tensor) -> tuple[list[Variable], list[Tensor]]:
    """The parameters that a loss trains, and their gradients."""
    before = seen_loss(node)
    if isinstance(before, tuple):
        parameters, results = before
        return parameters, [*results]
    seed = seed_for(node)
    if before is not None and before.known is not None:
        gradients = recorded_as(before.known, before.targets, [node], [seed])
        return [*before.variables], [*gradients.values()]
    ys, below = analyze([node], Trainable(), before=before)
    parameters = below.trainable()
    by_position = recorded(below, ys, [seed], parameters, used=False, before=before)
    if not by_position:
        raise untrained(node).located("backward", repr(node.type), node.line)
    order = sorted(by_position)
    return [parameters[k] for k in order], [by_position[k] for k in order]


def untrained(y: Tensor, of: str = "") -> GradientError:
    """The error of a loss that depends on no trainable parameter, or none `of` some."""
    text = f"the loss depends on no trainable parameter{of}"
    if not any(v.trainable for v in variables(y)):
        text = "the loss reads no trainable parameter"
    elif not of:
        text += (
            ": each one that it reads is behind a stop_gradient, a comparison, whole "
            "numbers or td.no_grad()"
        )
    return GradientError(
        text,
        hint="make what is to be learned with td.param(...), and let the loss follow "
        "from it by ops with a derivative",
    )
