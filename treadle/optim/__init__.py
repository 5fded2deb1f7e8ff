"""Optimizers, schedules and averages of the weights, all of them graphs."""

from treadle.optim import rules, schedules, transform
from treadle.optim.algorithms import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    AMSGrad,
    CyclicalSGD,
    Momentum,
    Nesterov,
    RMSProp,
)
from treadle.optim.average import CumulativeAverage, ExponentialAverage, WeightAverage
from treadle.optim.optimizer import Optimizer
from treadle.optim.transform import Transform, chain

__all__ = [
    "AMSGrad",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "CumulativeAverage",
    "CyclicalSGD",
    "ExponentialAverage",
    "Momentum",
    "Nesterov",
    "Optimizer",
    "RMSProp",
    "SGD",
    "Transform",
    "WeightAverage",
    "chain",
    "rules",
    "schedules",
    "transform",
]
