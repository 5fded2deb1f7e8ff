"""Networks: modules, layers, initializers and functions under torch's names."""
# ruff: noqa: F403

import typing as _typing
from functools import partial as _partial

from treadle.base.boundary import guard as _guard
from treadle.base.names import public as _public
from treadle.base.torch import missing as _missing
from treadle.nn import functional as functional
from treadle.nn import init as init
from treadle.nn import utils as utils
from treadle.nn.activation import *
from treadle.nn.beam import *
from treadle.nn.container import *
from treadle.nn.convolution import *
from treadle.nn.dropout import *
from treadle.nn.generation import *
from treadle.nn.layout import *
from treadle.nn.lazy import *
from treadle.nn.linear import *
from treadle.nn.loss import *
from treadle.nn.memory import *
from treadle.nn.module import Module as Module
from treadle.nn.normalization import *
from treadle.nn.placed import *
from treadle.nn.pooling import *
from treadle.nn.quantized import *
from treadle.nn.recurrent import *
from treadle.nn.sampling import *
from treadle.nn.shortlist import *
from treadle.nn.similarity import *
from treadle.nn.transformer import *
from treadle.nn.universal import *
from treadle.nn.utils import *
from treadle.nn.vocabulary import *

_guard(globals())
_guard(vars(functional))
_guard(vars(init))
_guard(vars(utils))

__all__ = _public(globals(), ("functional", "init", "utils"))


if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name)

    def _no_initializer(name: str) -> object:
        raise _missing("treadle.nn.init", name)

    vars(init)["__getattr__"] = _no_initializer

    def _no_utility(name: str) -> object:
        raise _missing("treadle.nn.utils", name)

    vars(utils)["__getattr__"] = _no_utility


def __dir__() -> list[str]:
    return __all__


for _module in (init, utils):
    vars(_module)["__dir__"] = _partial(list, _module.__all__)
