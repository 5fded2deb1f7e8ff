"""The rules of the known optimizers, each a Transform; g is the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.types import Type
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.optim.transform import Initial, States, Transform, stateless

__all__ = [
    "add_decayed_weights",
    "decay_rate",
    "scale",
    "scale_by_adadelta",
    "scale_by_adagrad",
    "scale_by_adam",
    "scale_by_rms",
    "trace",
]

Number = Any


def _filled(t: Type, value: float = 0.0) -> np.ndarray[Any, Any]:
    if not isinstance(t, Type):
        raise ArgumentError(f"states are made for a type, not {t!r}")
    return np.full(t.shape, value, t.dtype)


def _root(x: Tensor, eps: Number, inside: bool) -> Tensor:
    """sqrt(x + eps) where eps is inside the root, else sqrt(x) + eps."""
    return functions.sqrt(x + eps) if inside else functions.sqrt(x) + eps


def scale(factor: Number) -> Transform:
    """factor g.

    >>> x = td.ones(())
    >>> float(scale(-2.0).update(x, {}, x, x)[0])
    -2.0
    """
    rule = stateless(lambda gradient, parameter, step: gradient * factor)
    return replace(rule, resting=True)


def add_decayed_weights(weight_decay: Number) -> Transform:
    """g + weight_decay p: before other rules the L2 penalty, after them decoupled.

    Loshchilov and Hutter, Decoupled weight decay regularization, 2019.

    >>> g, p = td.asarray(1.0), td.asarray(2.0)
    >>> float(add_decayed_weights(0.5).update(g, {}, p, g)[0])
    2.0
    """
    return stateless(
        lambda gradient, parameter, step: gradient + parameter * weight_decay
    )


def decay_rate(decay: Number) -> Transform:
    """g / (1 + decay t) at a parameter's step t, counted from 0: after other rules.

    >>> g = td.asarray(3.0)
    >>> direction, states = decay_rate(0.5).update(g, {"steps": g * 0 + 1}, g, g)
    >>> float(direction), float(states["steps"])
    (2.0, 2.0)
    """

    def init(t: Type) -> Initial:
        return {"steps": np.zeros((), np.float64)}

    def update(
        g: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        t = states["steps"]
        return g / (1.0 + t * decay).astype(g.type.dtype), {"steps": t + 1.0}

    return Transform(init, update, True, fixed=True, counts=("steps",), resting=True)


def trace(
    momentum: Number, nesterov: bool = False, dampening: Number = 0.0
) -> Transform:
    """v = momentum v + g; the direction is v, or g + momentum v with `nesterov`.

    `dampening` takes (1 - dampening) g in the place of g, but at a parameter's first
    step. Polyak 1964; Sutskever et al., On the importance of initialization and
    momentum, 2013.

    >>> g = td.asarray(1.0)
    >>> direction, states = trace(0.5).update(g, {"momentum": g}, g, g)
    >>> float(direction)
    1.5
    """
    damped = not isinstance(dampening, (int, float)) or dampening != 0

    def init(t: Type) -> Initial:
        first = {"begun": np.zeros((), np.float64)} if damped else {}
        return {"momentum": _filled(t), **first}

    def update(
        g: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        part, new = g, dict[str, Tensor]()
        if damped:
            taken = 1.0 - states["begun"] * dampening
            part, new = (
                g * taken.astype(g.type.dtype),
                {"begun": states["begun"] * 0 + 1},
            )
        v = states["momentum"] * momentum + part
        return (g + v * momentum if nesterov else v), {"momentum": v, **new}

    counts = ("begun",) if damped else ()
    return Transform(init, update, rowwise=True, fixed=True, counts=counts)


def scale_by_adagrad(
    eps: Number = 1e-10, eps_inside: bool = False, initial: float = 0.0
) -> Transform:
    """G = G + g²; g / (sqrt(G) + eps), or g / sqrt(G + eps) with `eps_inside`.

    Duchi, Hazan and Singer, Adaptive subgradient methods, 2011.

    >>> g = td.asarray(3.0)
    >>> direction, states = scale_by_adagrad().update(g, {"squares": g * 0}, g, g)
    >>> float(direction), float(states["squares"])
    (1.0, 9.0)
    """

    def init(t: Type) -> Initial:
        return {"squares": _filled(t, initial)}

    def update(
        g: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        total = states["squares"] + g * g
        return g / _root(total, eps, eps_inside), {"squares": total}

    return Transform(init, update, rowwise=True, fixed=True, resting=True)


def scale_by_rms(
    decay: Number = 0.99,
    eps: Number = 1e-8,
    centered: bool = False,
    eps_inside: bool = False,
    initial: float = 0.0,
) -> Transform:
    """v = decay v + (1 - decay) g²; g / (sqrt(v) + eps), or g / sqrt(v + eps).

    `centered` takes v - a² for v, with a the running mean of g (Graves 2013,
    Generating sequences with recurrent neural networks). Hinton's lecture 6e, 2012.

    >>> g = td.asarray(2.0)
    >>> direction, _ = scale_by_rms(0.75, 0.0).update(g, {"squares": g * 0}, g, g)
    >>> float(direction)
    2.0
    """

    def init(t: Type) -> Initial:
        states = {"squares": _filled(t, initial)}
        if centered:
            states["mean"] = _filled(t)
        return states

    def update(
        g: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        v = states["squares"] * decay + g * g * (1 - decay)
        new, spread = {"squares": v}, v
        if centered:
            a = states["mean"] * decay + g * (1 - decay)
            new["mean"] = a
            # Rounding can push the difference below zero, where no root exists.
            spread = functions.maximum(v - a * a, 0.0)
        return g / _root(spread, eps, eps_inside), new

    return Transform(init, update, rowwise=True, fixed=True)


def scale_by_adadelta(rho: Number = 0.9, eps: Number = 1e-6) -> Transform:
    """v = rho v + (1 - rho) g²; d = g sqrt(u + eps) / sqrt(v + eps), u the same of d².

    Zeiler, Adadelta: an adaptive learning rate method, 2012.

    >>> g = td.asarray(1.0)
    >>> zero = {"squares": g * 0, "changes": g * 0}
    >>> f"{float(scale_by_adadelta(0.0, 1e-6).update(g, zero, g, g)[0]):.4f}"
    '0.0010'
    """

    def init(t: Type) -> Initial:
        return {"squares": _filled(t), "changes": _filled(t)}

    def update(
        g: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        v = states["squares"] * rho + g * g * (1 - rho)
        u = states["changes"]
        d = g * functions.sqrt(u + eps) / functions.sqrt(v + eps)
        return d, {"squares": v, "changes": u * rho + d * d * (1 - rho)}

    return Transform(init, update, rowwise=True, fixed=True)


def scale_by_adam(
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    eps: Number = 1e-8,
    amsgrad: bool = False,
) -> Transform:
    """m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g²; (m / c1) / (sqrt(v / c2) + eps).

    c = b c + (1 - b) is 1 - b^t, kept in float64 for each parameter, so one that some
    steps do not reach is still corrected by its own count; where all steps reach the
    same ones, once for them. `amsgrad` divides by the
    largest v so far. Kingma and Ba, Adam, 2015; Reddi, Kale and Kumar, 2018.

    >>> g = td.asarray(5.0)
    >>> rule = scale_by_adam()
    >>> states = {k: td.asarray(v) for k, v in rule.init(g.type).items()}
    >>> f"{float(rule.update(g, states, g, g)[0]):.6f}"
    '1.000000'
    """

    def init(t: Type) -> Initial:
        states = {"moment1": _filled(t), "moment2": _filled(t)}
        if amsgrad:
            states["moment2_max"] = _filled(t)
        for name in ("correction1", "correction2"):
            states[name] = np.zeros((), np.float64)
        return states

    def update(
        g: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        m = states["moment1"] * beta1 + g * (1 - beta1)
        v = states["moment2"] * beta2 + g * g * (1 - beta2)
        c1 = states["correction1"] * beta1 + (1 - beta1)
        c2 = states["correction2"] * beta2 + (1 - beta2)
        new = {"moment1": m, "moment2": v, "correction1": c1, "correction2": c2}
        if amsgrad:
            v = functions.maximum(states["moment2_max"], v)
            new["moment2_max"] = v
        dtype = g.type.dtype
        root = functions.sqrt(v / c2.astype(dtype)) + eps
        return m / c1.astype(dtype) / root, new

    counts = "correction1", "correction2"
    return Transform(init, update, rowwise=True, fixed=True, counts=counts)
