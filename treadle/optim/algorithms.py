"""The optimizers by name: a rule, its defaults and where they come from.

All take the keywords of Optimizer as well: clipping, accumulation, sparse updates and
so on. With `maximize` rules see the negative gradient, so that the loss goes up.
"""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from treadle.optim.composed import (
    adadelta,
    adagrad,
    adam,
    exponentiated_gradient,
    rmsprop,
    sgd,
)
from treadle.optim.controls import LossScale
from treadle.optim.gradients import NormAverage
from treadle.optim.groups import Rate
from treadle.optim.optimizer import Optimizer
from treadle.optim.schedules import cyclic

# The keywords that optimizers hand on, for type checkers.


class OptimizerSettings(TypedDict, total=False):
    """The keywords of an Optimizer that all kinds of it take."""

    clip_norm: Any
    clip_value: Any
    clip_weights: Any
    kahan: bool
    on_nan: str | None
    loss_scale: LossScale | float | None
    norms: NormAverage | None
    accumulate: float
    masters: bool
    sparse_updates: bool | None
    decay_after: Any


class DecoupledSettings(OptimizerSettings, total=False):
    """And whether weight decay is beside the direction and the loss is to grow."""

    decoupled: bool
    maximize: bool


class DecayedSettings(DecoupledSettings, total=False):
    """And how large it is."""

    weight_decay: Any


class DampedSettings(DecayedSettings, total=False):
    """And how little a moving mean takes of a gradient."""

    dampening: Any


class MovingSettings(DampedSettings, total=False):
    """And those of a moving mean of gradients."""

    momentum: Any
    nesterov: bool


class SGD(Optimizer):
    """p = p - lr v with v = momentum v + g (Nesterov: g + momentum v in v's place).

    `dampening` takes (1 - dampening) g in v, but for the first v, which is g, as in
    torch. `weight_decay` adds weight_decay p to g; with `decoupled` to the direction
    instead. Robbins and Monro 1951.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.SGD(lr=0.1).step(x * x); f"{float(x):.1f}"
    '1.6'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-3,
        momentum: Any = 0.0,
        dampening: Any = 0.0,
        weight_decay: Any = 0.0,
        nesterov: bool = False,
        *,
        decoupled: bool = False,
        maximize: bool = False,
        **controls: Unpack[OptimizerSettings],
    ) -> None:
        settings = {
            "momentum": momentum,
            "dampening": dampening,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
            "decoupled": decoupled,
            "maximize": maximize,
        }
        super().__init__(params, lr, sgd, settings, **controls)


class Momentum(SGD):
    """SGD with a momentum of 0.9: v = momentum v + g, p = p - lr v. Polyak 1964.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.Momentum(lr=0.1).step(x * x); f"{float(x):.1f}"
    '1.6'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-2,
        momentum: Any = 0.9,
        **settings: Unpack[DampedSettings],
    ) -> None:
        super().__init__(params, lr, momentum, **settings)


class Nesterov(SGD):
    """SGD with Nesterov's momentum of 0.9: p = p - lr (g + momentum v). Nesterov 1983.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.Nesterov(lr=0.1).step(x * x); f"{float(x):.2f}"
    '1.24'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-2,
        momentum: Any = 0.9,
        **settings: Unpack[DecayedSettings],
    ) -> None:
        super().__init__(params, lr, momentum, nesterov=True, **settings)


class CyclicalSGD(SGD):
    """SGD whose rate goes up and down between lr_min and lr_max, `half` steps each way.

    The amplitude shrinks as gamma^step. Smith, Cyclical learning rates, 2017; defaults
    of DyNet.

    >>> td.optim.CyclicalSGD(lr_min=0.01, lr_max=0.1).lr
    0.01
    """

    def __init__(
        self,
        params: Any = None,
        lr_min: float = 0.01,
        lr_max: float = 0.1,
        half: int = 2000,
        gamma: float = 1.0,
        **settings: Unpack[MovingSettings],
    ) -> None:
        super().__init__(params, cyclic(lr_min, lr_max, half, gamma), **settings)


class Adagrad(Optimizer):
    """G = G + g²; p = p - lr g / (sqrt(G) + eps), as Marian and torch write it.

    `lr_decay` divides lr by 1 + lr_decay t after t steps of a parameter. `eps_inside`
    divides by sqrt(G + eps), as DyNet and Nervana Graph do. `initial` is the first G.
    Duchi, Hazan and Singer 2011.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.Adagrad(lr=0.1).step(x * x); f"{float(x):.1f}"
    '1.9'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-2,
        lr_decay: Any = 0.0,
        weight_decay: Any = 0.0,
        *,
        eps: Any = 1e-10,
        eps_inside: bool = False,
        initial: float = 0.0,
        decoupled: bool = False,
        maximize: bool = False,
        **controls: Unpack[OptimizerSettings],
    ) -> None:
        settings = {
            "lr_decay": lr_decay,
            "eps": eps,
            "eps_inside": eps_inside,
            "initial": initial,
            "weight_decay": weight_decay,
            "decoupled": decoupled,
            "maximize": maximize,
        }
        super().__init__(params, lr, adagrad, settings, **controls)


class Adadelta(Optimizer):
    """p = p - lr g sqrt(u + eps) / sqrt(v + eps), with running means v of g², u of
    the squared changes. Zeiler 2012.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.Adadelta().step(x * x); f"{float(x):.4f}"
    '1.9968'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1.0,
        rho: Any = 0.9,
        eps: Any = 1e-6,
        weight_decay: Any = 0.0,
        *,
        decoupled: bool = False,
        maximize: bool = False,
        **controls: Unpack[OptimizerSettings],
    ) -> None:
        settings = {
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled": decoupled,
            "maximize": maximize,
        }
        super().__init__(params, lr, adadelta, settings, **controls)


class RMSProp(Optimizer):
    """v = alpha v + (1 - alpha) g²; p = p - lr g / (sqrt(v) + eps).

    `momentum` carries the scaled gradient on; `centered` subtracts the squared mean of
    g from v; `eps_inside` and `initial=1` give Nervana Graph's form. Hinton 2012.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.RMSProp(lr=0.01).step(x * x); f"{float(x):.1f}"
    '1.9'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-2,
        alpha: Any = 0.99,
        eps: Any = 1e-8,
        weight_decay: Any = 0.0,
        momentum: Any = 0.0,
        centered: bool = False,
        *,
        eps_inside: bool = False,
        initial: float = 0.0,
        decoupled: bool = False,
        maximize: bool = False,
        **controls: Unpack[OptimizerSettings],
    ) -> None:
        settings = {
            "alpha": alpha,
            "eps": eps,
            "momentum": momentum,
            "centered": centered,
            "eps_inside": eps_inside,
            "initial": initial,
            "weight_decay": weight_decay,
            "decoupled": decoupled,
            "maximize": maximize,
        }
        super().__init__(params, lr, rmsprop, settings, **controls)


class Adam(Optimizer):
    """p = p - lr (m / c1) / (sqrt(v / c2) + eps), with running means m of g, v of g².

    Each parameter counts its own steps for c = 1 - beta^t, a sparse one also those that
    do not change a row. Kingma and Ba 2015.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.Adam(lr=0.1).step(x * x); f"{float(x):.1f}"
    '1.9'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: Any = 1e-8,
        weight_decay: Any = 0.0,
        amsgrad: bool = False,
        *,
        decoupled: bool = False,
        maximize: bool = False,
        **controls: Unpack[OptimizerSettings],
    ) -> None:
        settings = {
            "betas": betas,
            "eps": eps,
            "amsgrad": amsgrad,
            "weight_decay": weight_decay,
            "decoupled": decoupled,
            "maximize": maximize,
        }
        super().__init__(params, lr, adam, settings, **controls)


class AdamW(Adam):
    """Adam with decoupled decay: p = p - lr (direction + weight_decay p).

    Loshchilov and Hutter 2019.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.AdamW(lr=0.1, weight_decay=0.5).step(x * x); f"{float(x):.1f}"
    '1.8'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: Any = 1e-8,
        weight_decay: Any = 1e-2,
        amsgrad: bool = False,
        **settings: Unpack[DecoupledSettings],
    ) -> None:
        given: dict[str, Any] = {"decoupled": True, **settings}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **given)


class AMSGrad(Adam):
    """Adam that divides by the largest v so far. Reddi, Kale and Kumar 2018.

    >>> x = td.param("x", init=2.0)
    >>> _ = td.optim.AMSGrad(lr=0.1).step(x * x); f"{float(x):.1f}"
    '1.9'
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: Any = 1e-8,
        weight_decay: Any = 0.0,
        **settings: Unpack[DecoupledSettings],
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, True, **settings)


class ExponentiatedGradient(Optimizer):
    """v = momentum v + g; p = p e^(-lr v) / sum of the same: for mixture weights.

    Each parameter starts positive; it is one distribution and stays one. Defaults of
    DyNet's EGTrainer. Kivinen and Warmuth, Exponentiated gradient versus gradient
    descent for linear predictors, 1997.

    >>> w = td.param("w", init=[0.5, 0.5])
    >>> opt = td.optim.ExponentiatedGradient(lr=1.0)
    >>> _ = opt.step((w * td.log(td.asarray([2.0, 4.0]))).sum())
    >>> [round(x, 4) for x in w.tolist()]
    [0.6667, 0.3333]
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 0.1,
        momentum: Any = 0.9,
        **controls: Unpack[OptimizerSettings],
    ) -> None:
        settings = {"momentum": momentum}
        super().__init__(params, lr, exponentiated_gradient, settings, **controls)
