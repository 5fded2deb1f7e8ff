"""Activations as modules."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import FunctionLayer, TrainedDifferently
from treadle.nn.linear import above_zero
from treadle.nn.module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Plain(FunctionLayer):
    """A function without settings; `inplace` is for torch: memory is the planner's."""

    inplace: InitVar[bool] = False

    def forward(self, x: Any) -> Tensor:
        return self.function(x)


class ReLU(_Plain, function=F.relu):
    """max(x, 0).

    >>> td.nn.ReLU()([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """


class ReLU6(_Plain, function=F.relu6):
    """min(max(x, 0), 6).

    >>> td.nn.ReLU6()([-1.0, 8.0]).tolist()
    [0.0, 6.0]
    """


class SELU(_Plain, function=F.selu):
    """A scaled ELU that keeps mean 0 and variance 1. Klambauer et al. 2017.

    >>> f"{float(td.nn.SELU()(1.0)):.4f}"
    '1.0507'
    """


class SiLU(_Plain, function=F.silu):
    """x sigmoid(x).

    >>> f"{float(td.nn.SiLU()(1.0)):.4f}"
    '0.7311'
    """


class Mish(_Plain, function=F.mish):
    """x tanh(log(1 + e^x)). Misra 2019.

    >>> f"{float(td.nn.Mish()(1.0)):.4f}"
    '0.8651'
    """


class Sigmoid(_Plain, function=F.sigmoid):
    """1 / (1 + e^-x).

    >>> float(td.nn.Sigmoid()(0.0))
    0.5
    """


class LogSigmoid(_Plain, function=F.logsigmoid):
    """-log(1 + e^-x).

    >>> f"{float(td.nn.LogSigmoid()(0.0)):.4f}"
    '-0.6931'
    """


class Tanh(_Plain, function=F.tanh):
    """The hyperbolic tangent.

    >>> f"{float(td.nn.Tanh()(1.0)):.4f}"
    '0.7616'
    """


class Softsign(_Plain, function=F.softsign):
    """x / (1 + |x|).

    >>> float(td.nn.Softsign()(3.0))
    0.75
    """


class Hardsigmoid(_Plain, function=F.hardsigmoid):
    """min(max(x / 6 + 1/2, 0), 1).

    >>> float(td.nn.Hardsigmoid()(0.0))
    0.5
    """


class Hardswish(_Plain, function=F.hardswish):
    """x hardsigmoid(x). Howard et al. 2019.

    >>> float(td.nn.Hardswish()(3.0))
    3.0
    """


class LeakyReLU(FunctionLayer, function=F.leaky_relu):
    """x where it is positive, negative_slope x elsewhere.

    >>> td.nn.LeakyReLU(0.5)([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    negative_slope: float = 0.01
    inplace: InitVar[bool] = False


class PReLU(Module):
    """LeakyReLU whose slope is learned: one, or one for each channel. He et al. 2015.

    >>> td.nn.PReLU()([-2.0, 2.0]).tolist()
    [-0.5, 2.0]
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, dtype: Any = None
    ) -> None:
        above_zero(num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = param(shape=(num_parameters,), init=init, dtype=dtype)

    def forward(self, x: Any) -> Tensor:
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class ELU(FunctionLayer, function=F.elu):
    """x where it is positive, alpha (e^x - 1) elsewhere. Clevert et al. 2016.

    >>> f"{float(td.nn.ELU()(-1.0)):.4f}"
    '-0.6321'
    """

    alpha: float = 1.0
    inplace: InitVar[bool] = False


class CELU(FunctionLayer, function=F.celu):
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0). Barron 2017.

    >>> f"{float(td.nn.CELU(2.0)(-1.0)):.4f}"
    '-0.7869'
    """

    alpha: float = 1.0
    inplace: InitVar[bool] = False


class GELU(FunctionLayer, function=F.gelu):
    """x Phi(x), or with approximate="tanh" its common approximation. Hendrycks 2016.

    >>> f"{float(td.nn.GELU()(1.0)):.4f}"
    '0.8413'
    """

    approximate: str = "none"


class GLU(FunctionLayer, function=F.glu):
    """a sigmoid(b) for the halves a, b of x along `dim`. Dauphin et al. 2017.

    >>> td.nn.GLU()([3.0, 0.0]).tolist()
    [1.5]
    """

    dim: int = -1


class Hardtanh(FunctionLayer, function=F.hardtanh):
    """x brought into [min_val, max_val].

    >>> td.nn.Hardtanh()([-3.0, 0.5]).tolist()
    [-1.0, 0.5]
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: InitVar[bool] = False


class Softplus(FunctionLayer, function=F.softplus):
    """log(1 + e^(beta x)) / beta.

    >>> f"{float(td.nn.Softplus()(0.0)):.4f}"
    '0.6931'
    """

    beta: float = 1.0
    threshold: float = 20.0


class Softmax(FunctionLayer, function=F.softmax):
    """e^x / sum of e^x along `dim`.

    >>> td.nn.Softmax()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    dim: int = -1


class LogSoftmax(FunctionLayer, function=F.log_softmax):
    """log(softmax(x)) along `dim`.

    >>> f"{float(td.nn.LogSoftmax()([0.0, 0.0])[0]):.4f}"
    '-0.6931'
    """

    dim: int = -1


class Tanhshrink(FunctionLayer, function=F.tanhshrink):
    """x - tanh(x).

    >>> f"{float(td.nn.Tanhshrink()(1.0)):.4f}"
    '0.2384'
    """


class Hardshrink(FunctionLayer, function=F.hardshrink):
    """x where it is beyond [-lambd, lambd], else 0.

    >>> td.nn.Hardshrink()([-1.0, 0.25]).tolist()
    [-1.0, 0.0]
    """

    lambd: float = 0.5


class Softshrink(FunctionLayer, function=F.softshrink):
    """x brought nearer to 0 by lambd, 0 within [-lambd, lambd].

    >>> td.nn.Softshrink()([-1.0, 0.25]).tolist()
    [-0.5, 0.0]
    """

    lambd: float = 0.5


class Softmin(FunctionLayer, function=F.softmin):
    """softmax(-x) along `dim`.

    >>> td.nn.Softmin()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    dim: int = -1


class Softmax2d(Module):
    """softmax over the channels of (n, channels, height, width).

    >>> td.nn.Softmax2d()(td.zeros((1, 2, 1, 1))).ravel().tolist()
    [0.5, 0.5]
    """

    def forward(self, x: Any) -> Tensor:
        return F.softmax(x, -3)


class Threshold(FunctionLayer, function=F.threshold):
    """x where it is above the threshold, else `value`.

    >>> td.nn.Threshold(1.0, -1.0)([0.5, 2.0]).tolist()
    [-1.0, 2.0]
    """

    threshold: float
    value: float
    inplace: InitVar[bool] = False


class RReLU(TrainedDifferently, function=F.rrelu):
    """LeakyReLU with slopes drawn from [lower, upper] in training. Xu et al. 2015.

    >>> td.nn.RReLU(0.25, 0.75).eval()([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: InitVar[bool] = False
