"""Optimizers, schedules and averages of the weights, all of them graphs."""

import typing as _typing

from treadle.base.boundary import guard as _guard
from treadle.base.torch import missing as _missing
from treadle.base.torch import name_elsewhere as _name_elsewhere
from treadle.optim import moves, penalty, rules, schedules, transform
from treadle.optim.algorithms import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    AMSGrad,
    CyclicalSGD,
    ExponentiatedGradient,
    Momentum,
    Nesterov,
    RMSProp,
)
from treadle.optim.average import CumulativeAverage, ExponentialAverage, WeightAverage
from treadle.optim.controls import LossScale
from treadle.optim.full_batch import ConjugateGradient, FullBatch, Newton, NewtonCG
from treadle.optim.gradients import NormAverage
from treadle.optim.lbfgs import LBFGS
from treadle.optim.optimizer import Optimizer
from treadle.optim.quantizer import WeightQuantizer
from treadle.optim.transform import Transform, chain

__all__ = [
    "LBFGS",
    "SGD",
    "AMSGrad",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "ConjugateGradient",
    "CumulativeAverage",
    "CyclicalSGD",
    "ExponentialAverage",
    "ExponentiatedGradient",
    "FullBatch",
    "LossScale",
    "Momentum",
    "Nesterov",
    "Newton",
    "NewtonCG",
    "NormAverage",
    "Optimizer",
    "RMSProp",
    "Transform",
    "WeightAverage",
    "WeightQuantizer",
    "chain",
    "moves",
    "penalty",
    "rules",
    "schedules",
    "transform",
]

_guard(globals())
_name_elsewhere(Optimizer, "Optimizer", "opt")
for _module in (moves, penalty, rules, schedules, transform):
    _guard(vars(_module))


if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
