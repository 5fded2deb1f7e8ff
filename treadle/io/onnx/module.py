"""A network of an ONNX file as a module, whose calls are those of a traced function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import cached, lazy
from treadle.base.changes import changed
from treadle.base.errors import ArityError, DTypeError, ShapeError, TreadleError
from treadle.graph.frame import top
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Placeholder, Variable
from treadle.io.onnx.build import Asked, Value, asking, run
from treadle.io.onnx.file import CODES
from treadle.io.onnx.parse import OnnxGraph
from treadle.io.onnx.table import OnnxNode
from treadle.nn.module import Module
from treadle.runtime.computation import Computation
from treadle.runtime.function import Function

_FEW = 8  # elements of an input whose values may be a part of a signature


@dataclass(frozen=True)
class Port:
    """An input of a file: a number, a name or None (any) for each dimension.

    A sequence or optional value has no dtype.
    """

    name: str
    dtype: Any
    shape: tuple[int | str | None, ...]


class OnnxModule(Module):
    """A network of an ONNX file: call it with values of its `inputs`.

    Its weights are `parameters`, by the names that they have in the file, running
    statistics and the like buffers. A call is one of a `td.function` that is traced
    once for the shapes of the inputs, and for the values of those few and whole numbers
    that shapes, counts and choices depend on. Where these depend on other values, each
    call builds its graph anew.
    """

    _unseen = Module._unseen | {
        "constants",
        "inputs",
        "nodes",
        "outputs",
        "place",
        "_settings",
        "_traced",
        "_varies",
    }
    _settings: frozenset[str]  # inputs whose values are a part of a call's signature
    _varies: bool  # whether the structure depends on other values

    def __init__(
        self,
        place: str,
        nodes: Sequence[OnnxNode],
        values: dict[str, Variable | Array],
        inputs: Sequence[Port],
        outputs: Sequence[str],
    ) -> None:
        super().__init__()
        self.place, self.nodes, self.inputs = place, tuple(nodes), tuple(inputs)
        self.outputs = tuple(outputs)
        self.constants = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
        self.weights = {k: v for k, v in values.items() if isinstance(v, Variable)}
        self._settings, self._varies = frozenset(), False

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_traced", None)  # it is traced again
        return state

    def _attributes(self) -> list[tuple[str, Any]]:
        return list(self.__dict__.get("weights", {}).items())

    def _replace(self, name: str, value: Any) -> None:
        self.weights[name] = value
        changed()

    def forward(self, *values: Any, **named: Any) -> Any:
        """The output, or a tuple of several, for the inputs in order or by name."""
        bound = self._bound(values, named)
        if self._varies or top().tracing or not all(map(_is_traced, bound.values())):
            return self._built(bound)
        while True:
            few = self._settings
            inputs = [_kept(x) if name in few else x for name, x in bound.items()]
            asked = Asked()
            before = asking.set(asked)
            try:
                result = self._traced(*inputs)
            except TreadleError:
                if not (asked.names or asked.others):
                    raise
                result = None
            finally:
                asking.reset(before)
            more = {name for name in asked.names if _is_setting(bound[name])}
            if more:
                self.__dict__["_settings"] |= more
            elif result is None:
                self.__dict__["_varies"] = True
                return self._built(bound)
            else:
                return result

    @lazy
    def _traced(self) -> Function:
        return Function(self._called)

    def _called(self, *inputs: Any) -> Any:
        """What is traced: settings are given as what keeps them, others as tensors."""
        names = [port.name for port in self.inputs]
        asked = asking.get()
        if asked is not None:
            pairs = zip(names, inputs, strict=True)
            asked.arguments = {x.serial: n for n, x in pairs if isinstance(x, Tensor)}
        plain = [x.array if isinstance(x, _Kept) else x for x in inputs]
        return self._built(dict(zip(names, plain, strict=True)))

    def _built(self, bound: dict[str, Value]) -> Any:
        """The results for values of the inputs by name, as the nodes compute them."""
        known: dict[str, Value] = {**self.constants, **self.weights, **bound}
        graph = OnnxGraph(self.nodes, {}, (), self.outputs)
        results = tuple(map(_result, run(graph, known, self.place)))
        return results[0] if len(results) == 1 else results

    def computation(self, **extents: int) -> Computation:
        """A `td.computation` with placeholders by the names of the inputs.

        Dimensions that the file leaves open are given by their names.
        """
        placeholders = []
        for port in self.inputs:
            shape = [extents.get(n, n) if isinstance(n, str) else n for n in port.shape]
            open_ = [n for n in shape if not isinstance(n, int)]
            if open_:
                raise ShapeError(
                    f"input {port.name!r} has the open dimension {open_[0]!r}",
                    hint="give it by name, computation(batch=8), or call the module",
                ).located("from_onnx")
            placeholders.append(Placeholder(shape, port.dtype, name=port.name))
        return Computation(self(*placeholders), *placeholders)

    def _bound(self, values: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The value of each input by name, of the type that the file says."""
        names = [port.name for port in self.inputs]
        by_name = dict(zip(names, values, strict=False)) | named
        if set(by_name) != set(names) or len(values) + len(named) != len(names):
            raise ArityError(
                f"takes {', '.join(names) or 'no inputs'}, "
                f"got {len(values)} values and {', '.join(named) or 'no names'}"
            ).located("from_onnx")
        bound: dict[str, Any] = {}
        extents: dict[str, int] = {}
        for port in self.inputs:
            x = by_name[port.name]
            if port.dtype is None:
                bound[port.name] = _structured(x)
                continue
            node = x if isinstance(x, (Tensor, Variable)) else _array(x, port.dtype)
            if node.dtype != port.dtype:
                raise DTypeError(
                    f"input {port.name!r} is {port.dtype}, got {node.dtype}"
                ).located("from_onnx")
            shape = tuple(node.shape)
            wanted = [
                extents.setdefault(n, m)
                if isinstance(n, str)
                else m
                if n is None
                else n
                for n, m in zip(port.shape, shape, strict=False)
            ]
            if wanted != list(shape) or len(wanted) != len(port.shape):
                raise ShapeError(
                    f"input {port.name!r} has shape {port.shape}, "
                    f"got {node.dtype}{list(shape)}"
                ).located("from_onnx")
            bound[port.name] = node
        return bound

    def extra_repr(self) -> str:
        return f"{len(self.nodes)} nodes, {len(self.weights)} weights"


class _Kept:
    """The value of an input that is a part of a signature, by identity."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array


@cached(1024)
def _kept_for(dtype: Any, shape: tuple[int, ...], raw: bytes) -> _Kept:
    return _Kept(np.frombuffer(raw, dtype).reshape(shape))


def _kept(x: Any) -> _Kept:
    """The same object for the same value."""
    array = np.asarray(x.numpy())
    return _kept_for(array.dtype, array.shape, array.tobytes())


def _is_setting(x: Any) -> bool:
    """Whether the value of an input may be a part of a signature."""
    return x.dtype.kind in "iub" and x.type.size <= _FEW


def _is_traced(x: Value) -> bool:
    """Whether a value can be an argument of a trace."""
    return isinstance(x, Tensor) or (
        isinstance(x, Variable) and not isinstance(x, Placeholder)
    )


def _result(x: Value) -> Any:
    """A result as a caller gets it: a Tensor, or an array of a dtype only stored."""
    if isinstance(x, tuple):
        return [_result(item) for item in x]
    if x is None or (isinstance(x, np.ndarray) and x.dtype not in CODES):
        return x
    return as_tensor(x)


def _structured(x: Any) -> Value:
    """A sequence or an optional value: a list of arrays, an array or None."""
    if isinstance(x, (list, tuple)):
        return tuple(_structured(item) for item in x)
    return x if x is None else as_tensor(x)


def _array(x: Any, dtype: Any) -> Tensor | Array:
    array = np.asarray(x)
    array = array if array.dtype == dtype else np.asarray(x, dtype)
    return as_tensor(array) if dtype in CODES else array
