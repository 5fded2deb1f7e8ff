"""Activations as modules."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Any

from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.applied import FunctionLayer, settings
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


@settings
class _Plain(FunctionLayer):
    """A function without settings; `inplace` is for torch: memory is the planner's."""

    inplace: InitVar[bool] = False

    def forward(self, x: Any) -> Tensor:
        return self.function(x)


class ReLU(_Plain):
    """max(x, 0).

    >>> td.nn.ReLU()([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """

    function = staticmethod(F.relu)


class ReLU6(_Plain):
    """min(max(x, 0), 6).

    >>> td.nn.ReLU6()([-1.0, 8.0]).tolist()
    [0.0, 6.0]
    """

    function = staticmethod(F.relu6)


class SELU(_Plain):
    """A scaled ELU that keeps mean 0 and variance 1. Klambauer et al. 2017.

    >>> f"{float(td.nn.SELU()(1.0)):.4f}"
    '1.0507'
    """

    function = staticmethod(F.selu)


class SiLU(_Plain):
    """x sigmoid(x).

    >>> f"{float(td.nn.SiLU()(1.0)):.4f}"
    '0.7311'
    """

    function = staticmethod(F.silu)


class Mish(_Plain):
    """x tanh(log(1 + e^x)). Misra 2019.

    >>> f"{float(td.nn.Mish()(1.0)):.4f}"
    '0.8651'
    """

    function = staticmethod(F.mish)


class Sigmoid(_Plain):
    """1 / (1 + e^-x).

    >>> float(td.nn.Sigmoid()(0.0))
    0.5
    """

    function = staticmethod(F.sigmoid)


class LogSigmoid(_Plain):
    """-log(1 + e^-x).

    >>> f"{float(td.nn.LogSigmoid()(0.0)):.4f}"
    '-0.6931'
    """

    function = staticmethod(F.logsigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent.

    >>> f"{float(td.nn.Tanh()(1.0)):.4f}"
    '0.7616'
    """

    function = staticmethod(F.tanh)


class Softsign(_Plain):
    """x / (1 + |x|).

    >>> float(td.nn.Softsign()(3.0))
    0.75
    """

    function = staticmethod(F.softsign)


class Hardsigmoid(_Plain):
    """min(max(x / 6 + 1/2, 0), 1).

    >>> float(td.nn.Hardsigmoid()(0.0))
    0.5
    """

    function = staticmethod(F.hardsigmoid)


class Hardswish(_Plain):
    """x hardsigmoid(x). Howard et al. 2019.

    >>> float(td.nn.Hardswish()(3.0))
    3.0
    """

    function = staticmethod(F.hardswish)


@settings
class LeakyReLU(FunctionLayer):
    """x where it is positive, negative_slope x elsewhere.

    >>> td.nn.LeakyReLU(0.5)([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    function = staticmethod(F.leaky_relu)
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


@settings
class ELU(FunctionLayer):
    """x where it is positive, alpha (e^x - 1) elsewhere. Clevert et al. 2016.

    >>> f"{float(td.nn.ELU()(-1.0)):.4f}"
    '-0.6321'
    """

    function = staticmethod(F.elu)
    alpha: float = 1.0
    inplace: InitVar[bool] = False


@settings
class CELU(FunctionLayer):
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0). Barron 2017.

    >>> f"{float(td.nn.CELU(2.0)(-1.0)):.4f}"
    '-0.7869'
    """

    function = staticmethod(F.celu)
    alpha: float = 1.0
    inplace: InitVar[bool] = False


@settings
class GELU(FunctionLayer):
    """x Phi(x), or with approximate="tanh" its common approximation. Hendrycks 2016.

    >>> f"{float(td.nn.GELU()(1.0)):.4f}"
    '0.8413'
    """

    function = staticmethod(F.gelu)
    approximate: str = "none"


@settings
class GLU(FunctionLayer):
    """a sigmoid(b) for the halves a, b of x along `dim`. Dauphin et al. 2017.

    >>> td.nn.GLU()([3.0, 0.0]).tolist()
    [1.5]
    """

    function = staticmethod(F.glu)
    dim: int = -1


@settings
class Hardtanh(FunctionLayer):
    """x brought into [min_val, max_val].

    >>> td.nn.Hardtanh()([-3.0, 0.5]).tolist()
    [-1.0, 0.5]
    """

    function = staticmethod(F.hardtanh)
    min_val: float = -1.0
    max_val: float = 1.0
    inplace: InitVar[bool] = False


@settings
class Softplus(FunctionLayer):
    """log(1 + e^(beta x)) / beta.

    >>> f"{float(td.nn.Softplus()(0.0)):.4f}"
    '0.6931'
    """

    function = staticmethod(F.softplus)
    beta: float = 1.0


@settings
class Softmax(FunctionLayer):
    """e^x / sum of e^x along `dim`.

    >>> td.nn.Softmax()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    function = staticmethod(F.softmax)
    dim: int = -1


@settings
class LogSoftmax(FunctionLayer):
    """log(softmax(x)) along `dim`.

    >>> f"{float(td.nn.LogSoftmax()([0.0, 0.0])[0]):.4f}"
    '-0.6931'
    """

    function = staticmethod(F.log_softmax)
    dim: int = -1


class Tanhshrink(FunctionLayer):
    """x - tanh(x).

    >>> f"{float(td.nn.Tanhshrink()(1.0)):.4f}"
    '0.2384'
    """

    function = staticmethod(F.tanhshrink)


@settings
class Hardshrink(FunctionLayer):
    """x where it is beyond [-lambd, lambd], else 0.

    >>> td.nn.Hardshrink()([-1.0, 0.25]).tolist()
    [-1.0, 0.0]
    """

    function = staticmethod(F.hardshrink)
    lambd: float = 0.5


@settings
class Softshrink(FunctionLayer):
    """x brought nearer to 0 by lambd, 0 within [-lambd, lambd].

    >>> td.nn.Softshrink()([-1.0, 0.25]).tolist()
    [-0.5, 0.0]
    """

    function = staticmethod(F.softshrink)
    lambd: float = 0.5


@settings
class Softmin(FunctionLayer):
    """softmax(-x) along `dim`.

    >>> td.nn.Softmin()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    function = staticmethod(F.softmin)
    dim: int = -1


class Softmax2d(Module):
    """softmax over the channels of (n, channels, height, width).

    >>> td.nn.Softmax2d()(td.zeros((1, 2, 1, 1))).ravel().tolist()
    [0.5, 0.5]
    """

    def forward(self, x: Any) -> Tensor:
        return F.softmax(x, -3)


@settings
class Threshold(FunctionLayer):
    """x where it is above the threshold, else `value`.

    >>> td.nn.Threshold(1.0, -1.0)([0.5, 2.0]).tolist()
    [-1.0, 2.0]
    """

    function = staticmethod(F.threshold)
    threshold: float
    value: float
    inplace: InitVar[bool] = False


class RReLU(Module):
    """LeakyReLU with slopes drawn from [lower, upper] in training. Xu et al. 2015.

    >>> td.nn.RReLU(0.25, 0.75).eval()([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    def __init__(
        self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False
    ) -> None:
        self.lower = lower
        self.upper = upper

    def forward(self, x: Any) -> Tensor:
        return F.rrelu(x, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"
