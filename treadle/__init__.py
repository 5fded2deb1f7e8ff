"""Treadle: computation graphs of plain, dynamic Python."""

from treadle.autodiff.gradient import grad, value_and_grad, variables, vjp
from treadle.base.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from treadle.base.dtypes import bool_ as bool
from treadle.base.errors import *  # noqa: F403
from treadle.base.options import options, set_options
from treadle.base.types import Axis
from treadle.engines import reference as _reference
from treadle.graph.frame import explicit_updates, metadata, no_grad
from treadle.graph.scope import lookup, param, scope
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.ops.cast import *  # noqa: F403
from treadle.ops.contract import *  # noqa: F403
from treadle.ops.create import *  # noqa: F403
from treadle.ops.elementary import *  # noqa: F403
from treadle.ops.elementwise import *  # noqa: F403
from treadle.ops.flow import *  # noqa: F403
from treadle.ops.movement import *  # noqa: F403
from treadle.ops.reduce import *  # noqa: F403
from treadle.runtime.evaluate import evaluate

__version__ = "0.1.0"
