"""Optimizers, schedules and averages of the weights, all of them graphs."""

import typing as _typing

from treadle.base.boundary import guard as _guard
from treadle.base.names import public as _public
from treadle.base.torch import missing as _missing
from treadle.base.torch import name_elsewhere as _name_elsewhere
from treadle.optim import moves as moves
from treadle.optim import penalty as penalty
from treadle.optim import rules as rules
from treadle.optim import schedules as schedules
from treadle.optim import transform as transform
from treadle.optim.algorithms import SGD as SGD
from treadle.optim.algorithms import Adadelta as Adadelta
from treadle.optim.algorithms import Adagrad as Adagrad
from treadle.optim.algorithms import Adam as Adam
from treadle.optim.algorithms import AdamW as AdamW
from treadle.optim.algorithms import AMSGrad as AMSGrad
from treadle.optim.algorithms import CyclicalSGD as CyclicalSGD
from treadle.optim.algorithms import ExponentiatedGradient as ExponentiatedGradient
from treadle.optim.algorithms import Momentum as Momentum
from treadle.optim.algorithms import Nesterov as Nesterov
from treadle.optim.algorithms import RMSProp as RMSProp
from treadle.optim.average import CumulativeAverage as CumulativeAverage
from treadle.optim.average import ExponentialAverage as ExponentialAverage
from treadle.optim.average import WeightAverage as WeightAverage
from treadle.optim.controls import LossScale as LossScale
from treadle.optim.full_batch import ConjugateGradient as ConjugateGradient
from treadle.optim.full_batch import FullBatch as FullBatch
from treadle.optim.full_batch import Newton as Newton
from treadle.optim.full_batch import NewtonCG as NewtonCG
from treadle.optim.gradients import NormAverage as NormAverage
from treadle.optim.lbfgs import LBFGS as LBFGS
from treadle.optim.optimizer import Optimizer as Optimizer
from treadle.optim.quantizer import WeightQuantizer as WeightQuantizer
from treadle.optim.transform import Transform as Transform
from treadle.optim.transform import chain as chain

__all__ = _public(globals(), ("moves", "penalty", "rules", "schedules", "transform"))

_guard(globals())
_name_elsewhere(Optimizer, "Optimizer", "opt")
for _module in (moves, penalty, rules, schedules, transform):
    _guard(vars(_module))


if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
