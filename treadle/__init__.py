"""Treadle: computation graphs of plain, dynamic Python."""

from treadle import nn, optim
from treadle.autodiff.forward import hessian, hvp, jacobian, jvp
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
from treadle.base.errors import *
from treadle.base.options import options, set_options
from treadle.base.types import Axis
from treadle.engines import reference as _reference
from treadle.graph.frame import explicit_updates, metadata, no_grad
from treadle.graph.scope import lookup, param, scope
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.ops.cast import *
from treadle.ops.compare import *  # noqa: F403
from treadle.ops.extreme import *  # noqa: F403
from treadle.ops.rounding import *  # noqa: F403
from treadle.ops.bitwise import *  # noqa: F403
from treadle.ops.logarithm import *  # noqa: F403
from treadle.ops.power import *  # noqa: F403
from treadle.ops.trigonometric import *  # noqa: F403
from treadle.ops.contract import *
from treadle.ops.control import *
from treadle.ops.create import *
from treadle.ops.elementary import *
from treadle.ops.elementwise import *
from treadle.ops.flow import *
from treadle.ops.loop import *
from treadle.ops.index import *  # noqa: F403
from treadle.ops.movement import *
from treadle.ops.reduce import *
from treadle.ops.pick import *  # noqa: F403
from treadle.ops.lookup import *  # noqa: F403
from treadle.ops.window import *  # noqa: F403
from treadle.ops.convolution import *  # noqa: F403
from treadle.ops.transposed import *  # noqa: F403
from treadle.ops.pooling import *  # noqa: F403
from treadle.ops.einsum import *  # noqa: F403
from treadle.ops.products import *  # noqa: F403
from treadle.ops.division import *  # noqa: F403
from treadle.ops.activation import *  # noqa: F403
from treadle.ops.rectifier import *  # noqa: F403
from treadle.ops.softmax import *  # noqa: F403
from treadle.ops.extrema import *  # noqa: F403
from treadle.ops.statistics import *  # noqa: F403
from treadle.ops.rearrange import *  # noqa: F403
from treadle.ops.naming import *  # noqa: F403
from treadle.ops.join import *  # noqa: F403
from treadle.ops.scan import *  # noqa: F403
from treadle.ops.order import *  # noqa: F403
from treadle.ops.special import *  # noqa: F403
from treadle.ops.padding import *  # noqa: F403
from treadle.ops import random
from treadle.graph.compare import alike
from treadle.graph.inspect import *  # noqa: F403
from treadle.graph.text import text
from treadle.graph.verify import verify
from treadle.ops.debug import *  # noqa: F403
from treadle.viz.dot import to_dot
from treadle.viz.show import show
from treadle.runtime.computation import computation, placeholder
from treadle.runtime.evaluate import evaluate
from treadle.runtime.function import function

__version__ = "0.1.0"
