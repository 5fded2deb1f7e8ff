"""Treadle: computation graphs of plain, dynamic Python.

>>> x = td.param("x", init=2.0)
>>> z = x * 3.0 + td.sin(x)
>>> f"{float(z):.4f}", f"{float(td.grad(z, [x])[0]):.4f}"
('6.9093', '2.5839')
"""

import typing as _typing
from functools import partial as _partial
from typing import Any as _Any

from treadle.autodiff.forward import *
from treadle.autodiff.gradient import *
from treadle.base.axes import *
from treadle.base.boundary import guard as _guard
from treadle.base.constants import *
from treadle.base.dtypes import *
from treadle.base.dtypes import bool_ as bool
from treadle.base.errors import *
from treadle.base.locks import imported as _imported
from treadle.base.names import listed as _listed
from treadle.base.names import public as _public
from treadle.base.options import *
from treadle.base.torch import missing as _missing
from treadle.base.types import *
from treadle.engines import reference as _reference
from treadle.graph.compare import *
from treadle.graph.frame import *
from treadle.graph.initial import *
from treadle.graph.inspect import *
from treadle.graph.mark import *
from treadle.graph.op import Op as _Op
from treadle.graph.operators import Operand as _Operand
from treadle.graph.pickled import *
from treadle.graph.scope import *
from treadle.graph.table import PUBLIC as _PUBLIC
from treadle.graph.table import late as _late
from treadle.graph.tensor import *
from treadle.graph.text import *
from treadle.graph.transaction import *
from treadle.graph.variable import *
from treadle.graph.verify import *
from treadle.runtime import eager as _eager
from treadle.runtime import reserve as _reserve
from treadle.runtime.computation import *
from treadle.runtime.evaluate import *
from treadle.runtime.function import *
from treadle.runtime.initialize import *

_guard(globals(), _Operand, _Op)

__version__ = "0.1.0"
_reserve.begin()

if _typing.TYPE_CHECKING:
    from treadle import data as data
    from treadle import distributed as distributed
    from treadle import fft as fft
    from treadle import io as io
    from treadle import linalg as linalg
    from treadle import nn as nn
    from treadle import optim as optim
    from treadle import random as random
    from treadle import train as train
    from treadle.io.graph import load_computation as load_computation
    from treadle.io.onnx import from_onnx as from_onnx
    from treadle.io.onnx import to_onnx as to_onnx
    from treadle.io.store import load as load
    from treadle.io.store import save as save
    from treadle.ops.activation import *
    from treadle.ops.attention import *
    from treadle.ops.bitwise import *
    from treadle.ops.cast import *
    from treadle.ops.compare import *
    from treadle.ops.contract import *
    from treadle.ops.control import *
    from treadle.ops.convolution import *
    from treadle.ops.create import *
    from treadle.ops.ctc import *
    from treadle.ops.custom import *
    from treadle.ops.distance import *
    from treadle.ops.dropout import *
    from treadle.ops.einops import *
    from treadle.ops.einsum import *
    from treadle.ops.elementary import *
    from treadle.ops.elementwise import *
    from treadle.ops.extrema import *
    from treadle.ops.flow import *
    from treadle.ops.host import *
    from treadle.ops.index import *
    from treadle.ops.join import *
    from treadle.ops.lookup import *
    from treadle.ops.loop import *
    from treadle.ops.loss import *
    from treadle.ops.margin import *
    from treadle.ops.movement import *
    from treadle.ops.naming import *
    from treadle.ops.nearest import *
    from treadle.ops.normalization import *
    from treadle.ops.norms import *
    from treadle.ops.order import *
    from treadle.ops.padding import *
    from treadle.ops.parts import *
    from treadle.ops.pick import *
    from treadle.ops.pooling import *
    from treadle.ops.power import *
    from treadle.ops.products import *
    from treadle.ops.promotion import *
    from treadle.ops.quantize import *
    from treadle.ops.rearrange import *
    from treadle.ops.rectifier import *
    from treadle.ops.recurrence import *
    from treadle.ops.recurrent import *
    from treadle.ops.reduce import *
    from treadle.ops.repeat import *
    from treadle.ops.rounding import *
    from treadle.ops.scan import *
    from treadle.ops.segments import *
    from treadle.ops.select import *
    from treadle.ops.sets import *
    from treadle.ops.softmax import *
    from treadle.ops.sparse import *
    from treadle.ops.special import *
    from treadle.ops.state import *
    from treadle.ops.statistics import *
    from treadle.ops.transposed import *
    from treadle.ops.upsample import *
    from treadle.ops.vmap import *
    from treadle.ops.while_loop import *
    from treadle.ops.window import *
    from treadle.rewrite.pattern import captures, numbers, of
    from treadle.rewrite.rule import Rule, RuleSet
    from treadle.rewrite.simplify import simplify as simplify
    from treadle.runtime.explain import *
    from treadle.runtime.gradcheck import *
    from treadle.runtime.largest import *
    from treadle.runtime.lower import *
    from treadle.runtime.memory import *
    from treadle.runtime.profile import *
    from treadle.runtime.replay import *
    from treadle.train.model import Model as Model
    from treadle.viz.dot import to_dot as to_dot
    from treadle.viz.memory import show_memory as show_memory
    from treadle.viz.show import show as show
    from treadle.viz.timeline import show_profile as show_profile

# Loaded when first named: `import treadle` brings what a first tensor needs.
_ELSEWHERE = {
    "data": "data",
    "distributed": "distributed",
    "io": "io",
    "io.graph": "load_computation",
    "io.onnx": "from_onnx to_onnx",
    "io.store": "load save",
    "nn": "nn",
    "ops.fft": "fft",
    "ops.linalg": "linalg",
    "ops.random": "random",
    "optim": "optim",
    "rewrite.pattern": "captures numbers of",
    "rewrite.rule": "Rule RuleSet",
    "rewrite.simplify": "simplify",
    "runtime.explain": "Explanation explain",
    "runtime.gradcheck": "GradientCheck check_gradient",
    "runtime.largest": "largest_batch",
    "runtime.lower": "cache_info clear_cache latest_program lower",
    "runtime.memory": "Memory fits memory",
    "runtime.profile": "Profile profile",
    "runtime.replay": "RecordedRun Recording record",
    "train": "train",
    "train.model": "Model",
    "viz.dot": "to_dot",
    "viz.memory": "show_memory",
    "viz.show": "show",
    "viz.timeline": "show_profile",
}
_LATER = {**_PUBLIC}
_LATER |= {name: m for m, names in _ELSEWHERE.items() for name in names.split()}
# Of these, modules; random and io would take the place of what a program has imported.
_MODULES = {
    "data",
    "distributed",
    "fft",
    "io",
    "linalg",
    "nn",
    "optim",
    "random",
    "train",
}
_ALL = {**globals(), **_LATER}
_NAMES = _listed(_ALL)
__all__ = [name for name in _public(_ALL) if name not in ("random", "io")]

if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> _Any:
        if name not in _LATER:
            raise _missing(__name__, name)
        if name in _MODULES:
            module = _imported(f"treadle.{_LATER[name]}")
            if _LATER[name] != name:  # what it imports is not listed
                _guard(vars(module))
                vars(module)["__dir__"] = _partial(list, module.__all__)
            globals()[name] = module
            return module
        loaded = {"__name__": "treadle", name: _late(_LATER[name], name)}
        _guard(loaded, _Operand, _Op)
        globals()[name] = loaded[name]
        return loaded[name]


def __dir__() -> list[str]:
    return _NAMES
