"""Rows of the table of importers: an op of ONNX in terms of Treadle's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.graph.tensor import Tensor

_ONE_NAME = [
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh",
    "Equal", "Erf", "Exp", "Floor", "Greater", "Less", "Log", "Mish", "Reciprocal",
    "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Tan", "Tanh",
]  # fmt: skip
# ONNX's ops by the names of those here that are the same, operand by operand.
COMMON = {
    **{name: name for name in _ONE_NAME},
    "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "LogicalXor": "Xor",
    "Negative": "Neg",
    "Subtract": "Sub",
}
LAST = 28  # the newest version of ONNX's ops that the rows are checked against


@dataclass(frozen=True)
class OnnxNode:
    """A node of an ONNX graph as a row sees it."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    opset: int
    function: Any = None  # the graph of other ops that its op is, if it is one

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute of the node, of the type of its default."""
        assert name in IMPORTS[self.kind].reads, (self.kind, name)
        value = self.attributes.get(name, default)
        if default is None or isinstance(value, type(default)):
            return value
        if isinstance(default, float) and isinstance(value, int):
            return float(value)
        if isinstance(default, tuple) and isinstance(value, list):
            return tuple(value)
        raise ValueError(f"{name!r} is {str(value)[:60]}")


Maker = Callable[..., Any]


@dataclass(frozen=True)
class ImporterRow:
    """An importer of a node's values: `make(node, *inputs)`, one or a tuple of them.

    Inputs at `static` come as arrays: shapes, axes, what the structure depends on. The
    others are tensors; None stands for one that is left out. `reads` names the
    attributes that are read, or say nothing of the values: a node with another one is
    refused. `first` and `last` are the versions of ONNX that the row holds for; a node
    that `takes` (of its message) is false of is written out as ONNX defines its op.
    A `raw` row gets values as they are: arrays of any dtype, sequences, tensors; the
    value of a `sequence` row is one sequence. Of `static`, -1 means all inputs.
    """

    make: Maker
    reads: frozenset[str] = frozenset()
    static: tuple[int, ...] = ()
    first: int = 1
    last: int = LAST
    raw: bool = False
    sequence: bool = False
    takes: Callable[[Any], bool] = lambda node: True


IMPORTS: dict[str, ImporterRow] = {}


def row(
    *kinds: str,
    reads: str = "",
    static: tuple[int, ...] = (),
    first: int = 1,
    last: int = LAST,
    **flags: Any,
) -> Callable[[Maker], Maker]:
    """Enter a function into the table under the names of ops."""

    def enter(make: Maker) -> Maker:
        for kind in kinds:
            assert kind not in IMPORTS, kind
            names = frozenset(reads.split())
            IMPORTS[kind] = ImporterRow(make, names, static, first, last, **flags)
        return make

    return enter


def integers(x: Any, what: str) -> tuple[int, ...]:
    """A list of numbers that says something of the structure."""
    array = np.asarray(x)
    if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > 1024:
        raise ValueError(f"{what} is no short list of integers")
    return tuple(int(v) for v in np.atleast_1d(array))


def axis_of(axis: int, x: Tensor) -> int:
    """An axis counted from the front."""
    ndim = len(x.type.shape)
    if not -ndim <= axis < max(ndim, 1):
        raise ValueError(f"axis {axis} is none of {x.type}")
    return axis % max(ndim, 1)
