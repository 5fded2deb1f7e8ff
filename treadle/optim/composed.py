"""The rules of the optimizers by name, composed as their settings say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.optim import rules
from treadle.optim.moves import exponentiated
from treadle.optim.transform import Transform, chain, identity


def _off(setting: Any) -> bool:
    """Whether a setting is the number 0: a Variable may become another one."""
    return isinstance(setting, (int, float)) and setting == 0


def _finished(
    rule: Transform, weight_decay: Any, decoupled: bool, maximize: bool
) -> Transform:
    """`rule` with weight decay, in the gradient or beside the direction, upward if
    `maximize`: weights decay all the same."""
    if isinstance(weight_decay, (int, float)) and weight_decay < 0:
        raise ArgumentError(f"weight decay is not negative, got {weight_decay}")
    if not _off(weight_decay):
        decay = rules.add_decayed_weights(weight_decay)
        rule = chain(rule, decay) if decoupled else chain(decay, rule)
    return chain(rules.scale(-1), rule) if maximize else rule


def _fraction(**settings: Any) -> None:
    for name, value in settings.items():
        if isinstance(value, (int, float)) and not 0.0 <= value <= 1.0:
            raise ArgumentError(f"{name} is from 0 to 1, got {value}")


def sgd(
    momentum: Any,
    dampening: Any,
    nesterov: bool,
    weight_decay: Any,
    decoupled: bool,
    maximize: bool,
) -> Transform:
    """The rule of SGD."""
    _fraction(momentum=momentum)
    if nesterov and (_off(momentum) or not _off(dampening)):
        raise ArgumentError("Nesterov's rule needs a momentum above 0, no dampening")
    still = _off(momentum)
    rule = identity() if still else rules.trace(momentum, nesterov, dampening)
    return _finished(rule, weight_decay, decoupled, maximize)


def adagrad(
    lr_decay: Any,
    eps: Any,
    eps_inside: bool,
    initial: float,
    weight_decay: Any,
    decoupled: bool,
    maximize: bool,
) -> Transform:
    """The rule of Adagrad."""
    if isinstance(lr_decay, (int, float)) and lr_decay < 0:
        raise ArgumentError(f"lr_decay is not negative, got {lr_decay}")
    rule = rules.scale_by_adagrad(eps, eps_inside, initial)
    rule = _finished(rule, weight_decay, decoupled, maximize)
    return rule if _off(lr_decay) else chain(rule, rules.decay_rate(lr_decay))


def adadelta(
    rho: Any, eps: Any, weight_decay: Any, decoupled: bool, maximize: bool
) -> Transform:
    """The rule of Adadelta."""
    _fraction(rho=rho)
    rule = rules.scale_by_adadelta(rho, eps)
    return _finished(rule, weight_decay, decoupled, maximize)


def rmsprop(
    alpha: Any,
    eps: Any,
    momentum: Any,
    centered: bool,
    eps_inside: bool,
    initial: float,
    weight_decay: Any,
    decoupled: bool,
    maximize: bool,
) -> Transform:
    """The rule of RMSProp."""
    _fraction(alpha=alpha, momentum=momentum)
    rule = rules.scale_by_rms(alpha, eps, centered, eps_inside, initial)
    if not _off(momentum):
        rule = chain(rule, rules.trace(momentum))
    return _finished(rule, weight_decay, decoupled, maximize)


def adam(
    betas: tuple[Any, Any],
    eps: Any,
    amsgrad: bool,
    weight_decay: Any,
    decoupled: bool,
    maximize: bool,
) -> Transform:
    """The rule of Adam, AdamW and AMSGrad."""
    beta1, beta2 = betas
    _fraction(beta1=beta1, beta2=beta2)
    rule = rules.scale_by_adam(beta1, beta2, eps, amsgrad)
    return _finished(rule, weight_decay, decoupled, maximize)


def exponentiated_gradient(momentum: Any) -> Transform:
    """The rule of ExponentiatedGradient."""
    return replace(rules.trace(momentum), move=exponentiated)
