"""Activations as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.linear import above_zero
from treadle.nn.module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
]


class _Plain(Module):
    """A function without settings."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, inplace: bool = False) -> None:
        """`inplace` is taken for torch's sake: memory is the planner's matter."""

    def forward(self, x: Any) -> Tensor:
        function: Callable[..., Tensor] = type(self).function
        return function(x)


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


class LeakyReLU(Module):
    """x where it is positive, negative_slope x elsewhere.

    >>> td.nn.LeakyReLU(0.5)([-2.0, 2.0]).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        return F.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


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


class ELU(Module):
    """x where it is positive, alpha (e^x - 1) elsewhere. Clevert et al. 2016.

    >>> f"{float(td.nn.ELU()(-1.0)):.4f}"
    '-0.6321'
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        return F.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class CELU(Module):
    """max(x, 0) + min(alpha (e^(x / alpha) - 1), 0). Barron 2017.

    >>> f"{float(td.nn.CELU(2.0)(-1.0)):.4f}"
    '-0.7869'
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        return F.celu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class GELU(Module):
    """x Phi(x), or with approximate="tanh" its common approximation. Hendrycks 2016.

    >>> f"{float(td.nn.GELU()(1.0)):.4f}"
    '0.8413'
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Any) -> Tensor:
        return F.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """a sigmoid(b) for the halves a, b of x along `dim`. Dauphin et al. 2017.

    >>> td.nn.GLU()([3.0, 0.0]).tolist()
    [1.5]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return F.glu(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Hardtanh(Module):
    """x brought into [min_val, max_val].

    >>> td.nn.Hardtanh()([-3.0, 0.5]).tolist()
    [-1.0, 0.5]
    """

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
    ) -> None:
        self.min_val, self.max_val = min_val, max_val

    def forward(self, x: Any) -> Tensor:
        return F.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Softplus(Module):
    """log(1 + e^(beta x)) / beta.

    >>> f"{float(td.nn.Softplus()(0.0)):.4f}"
    '0.6931'
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Any) -> Tensor:
        return F.softplus(x, self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta}"


class Softmax(Module):
    """e^x / sum of e^x along `dim`.

    >>> td.nn.Softmax()([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return F.softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """log(softmax(x)) along `dim`.

    >>> f"{float(td.nn.LogSoftmax()([0.0, 0.0])[0]):.4f}"
    '-0.6931'
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Tensor:
        return F.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
