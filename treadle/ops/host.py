"""Functions of the host in a graph: on NumPy arrays, with gradients of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, as_dtype, whole
from treadle.base.errors import ArgumentError, GradientError, RunError, TreadleError
from treadle.base.types import TupleType, Type, as_shape
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.ops.custom import derived_by
from treadle.ops.families import Family, outputs_of

__all__ = ["callback", "py_function"]


@op(tolerance="R")
class Host(Family):
    """A call of a host function on arrays; done as often as is convenient.

    `dtypes` has the dtypes it is called with, `results` the types it is to return.
    """

    function: Any
    label: str
    dtypes: tuple[DType, ...]
    results: tuple[Type, ...]
    family = "opaque"

    @property
    def name(self) -> str:
        return self.label

    def infer(self, *types: Type) -> TupleType:
        return TupleType(self.results)

    def numpy(self, *arrays: Any) -> Any:
        pairs = zip(arrays, self.dtypes, strict=True)
        returned = called_back(self.label, self.function, pairs)
        several = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(self.results) == 1 and not isinstance(returned, tuple):
            several = (returned,)
        if len(several) != len(self.results):
            raise RunError(
                f"returned {len(several)} results, {len(self.results)} were declared",
                hint="declare a list with the type of each",
            )
        return tuple(map(_fitting, several, self.results))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        raise GradientError(
            f"{self.label} is a function of the host without a gradient",
            hint="give one to td.py_function, gradient=(of tensors) or "
            "host_gradient=(of arrays), or use td.stop_gradient on its operands",
        )


@op(effect="each", repeatable=False)
class HostEffect(Host):
    """The same of a function that does more than to return something."""

    function: Any
    label: str
    dtypes: tuple[DType, ...]
    results: tuple[Type, ...]


@op(effect="each", tolerance="E")
class Callback(Family):
    """The first operand, once a function was called with the values of all."""

    function: Any
    label: str
    dtypes: tuple[DType, ...]
    family = "opaque"

    @property
    def name(self) -> str:
        return self.label

    def infer(self, *types: Type) -> Type:
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        pairs = zip(arrays, self.dtypes, strict=True)
        called_back(self.label, self.function, pairs)
        return arrays[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g, *[None] * (len(xs) - 1))


def called_back(label: str, function: Callable[..., Any], pairs: Any) -> Any:
    """The results of a function for arrays of these dtypes: copies, its to keep."""
    copies = [np.array(x, dtype=dtype) for x, dtype in pairs]
    try:
        with np.errstate(all="warn"):
            return function(*copies)
    except TreadleError:
        raise
    except Exception as error:
        raise RunError(
            f"the function {label} raised {type(error).__name__}: {error}"
        ) from error


def _fitting(x: Any, wanted: Type) -> Array:
    """The array that a function returned, of the type that was declared."""
    array = x.numpy() if isinstance(x, Operand) else np.asarray(whole(x))
    same = array.shape == wanted.shape and array.dtype.kind in "biufcV"
    if not same or not np.can_cast(array.dtype, wanted.dtype, "same_kind"):
        raise RunError(
            f"returned {array.dtype}{[*array.shape]} where {wanted} was declared",
            hint="td.py_function(f, (shape, dtype)) declares it, or a function of the "
            "operands' types; without, it is the type of the first operand",
        )
    return np.array(array, dtype=wanted.dtype)


def _label(function: Any, name: str | None = None) -> str:
    if not callable(function) or isinstance(function, Operand):
        raise ArgumentError(
            f"takes a function, not {type(function).__name__}",
            hint="the function comes first: td.callback(print, x)",
        )
    return name or str(getattr(function, "__name__", type(function).__name__))


def callback(function: Callable[..., Any], x: Any, *more: Any) -> Tensor:
    """`x`; each time it is computed, `function` is called with the values of all.

    Use the result in place of x: what nothing asks for is not computed, and nothing is
    called. It is called with arrays that are its to keep, in the order of effects: that
    in which they were written. Gradients pass unchanged. In a loop it is called in each
    iteration, in a cell for each example; `td.print` prints.

    >>> seen = []
    >>> y = td.callback(lambda x: seen.append(float(x)), td.constant(2.0)) * 3
    >>> len(seen), float(y), seen
    (0, 6.0, [2.0])
    """
    label = _label(function)
    xs = [as_tensor(each) for each in (x, *more)]
    return Callback(function, label, tuple(x.type.dtype for x in xs))(*xs)


def py_function(
    function: Callable[..., Any] | None = None,
    result: Any = None,
    *,
    gradient: Callable[..., Any] | None = None,
    host_gradient: Callable[..., Any] | None = None,
    pure: bool = False,
    label: str | None = None,
) -> Any:
    """A function of NumPy arrays as a function of tensors, called when values are.

    `result` tells the type of what it returns: a pair (shape, dtype), a dtype (in the
    shape of the first operand), a tensor or array as an example, a list of these for
    several results, or a function of the operands' types that returns one of these; by
    default it is the type of the first operand.

    Derivatives are by `gradient(g, y, *xs)`, which makes them of tensors: cotangent,
    result and operands (g and y are tuples for several results), or by
    `host_gradient(g, y, *xs)`, which is called with arrays; one for each operand, None
    where nothing depends on it. `pure` says that it does nothing else and depends on
    nothing else: calls with the same operands may then be made once.

    >>> import numpy as np
    >>> sort = td.py_function(np.sort, pure=True)
    >>> sort(td.asarray([2.0, 3.0, 1.0])).tolist()
    [1.0, 2.0, 3.0]
    >>> cube = td.py_function(lambda x: x**3, gradient=lambda g, y, x: g * 3 * x**2)
    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(cube(x), [x])[0])
    12.0
    """
    if function is None:
        return functools.partial(
            py_function, result=result, gradient=gradient, host_gradient=host_gradient,
            pure=pure, label=label,
        )  # fmt: skip
    if gradient is not None and host_gradient is not None:
        raise ArgumentError("one gradient is enough: of tensors or of arrays")
    for each in (gradient, host_gradient):
        if each is not None and not callable(each):
            raise ArgumentError(f"a gradient is a function of g, y, *xs, not {each!r}")
    if not isinstance(pure, (bool, np.bool_)):
        raise ArgumentError(f"pure is True or False, not {pure!r}").located(
            "py_function"
        )
    host_function = HostFunction(function, result, bool(pure), _label(function, label))
    host_function.gradient, host_function.host_gradient = gradient, host_gradient
    return host_function


class HostFunction:
    """A function of tensors that runs on the host, made by `td.py_function`."""

    gradient: Callable[..., Any] | None = None
    host_gradient: Callable[..., Any] | None = None

    def __init__(
        self, function: Callable[..., Any], result: Any, pure: bool, name: str
    ) -> None:
        self.function = function
        self.result = result
        self.pure = pure
        self.__name__ = name

    def __call__(self, *xs: Any) -> Any:
        operands = [as_tensor(x) for x in xs]
        name, types = self.__name__, [x.type for x in operands]
        try:
            results, one = _declared(self.result, types)
        except TreadleError as error:
            raise error.located(name, ", ".join(map(repr, types))) from None
        ys = self._called(self.function, name, results, operands)
        if self.gradient is not None:
            ys = derived_by(name, self.gradient, ys, operands, one)
        elif self.host_gradient is not None:
            ys = derived_by(name, self._on_host, ys, operands, one)
        return ys[0] if one else list(ys)

    def _called(
        self, f: Any, name: str, results: Sequence[Type], xs: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        kind = Host if self.pure else HostEffect
        dtypes = tuple(x.type.dtype for x in xs)
        return outputs_of(kind(f, name, dtypes, tuple(results))(*xs))

    def _on_host(self, g: Any, y: Any, *xs: Tensor) -> list[Tensor]:
        """The cotangents by a function of arrays, in the types of the operands."""
        types = [Type(x.type.shape, x.type.dtype) for x in xs]
        gs, ys = (g, y) if isinstance(g, tuple) else ((g,), (y,))
        count, one = len(gs), not isinstance(g, tuple)
        pulled = _Pulled(self.host_gradient, count, one, tuple(types))
        op = Host(
            pulled,
            f"gradient of {self.__name__}",
            tuple(x.type.dtype for x in (*gs, *ys, *xs)),
            tuple(types),
        )
        return list(outputs_of(op(*gs, *ys, *xs)))

    def __repr__(self) -> str:
        return f"<{self.__name__} on the host>"


class _Pulled:
    """A gradient on arrays, with zeros where it returns None."""

    def __init__(
        self, function: Any, count: int, one: bool, types: tuple[Type, ...]
    ) -> None:
        self.parts = function, count, one, types

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        function, count, one, types = self.parts
        gs, ys = arrays[:count], arrays[count : 2 * count]
        returned = function(
            *((gs[0], ys[0]) if one else (gs, ys)), *arrays[2 * count :]
        )
        several = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(several) != len(types):
            raise RunError(
                f"returned {len(several)} of {len(types)} cotangents",
                hint="return one for each operand, None where nothing depends on it",
            )
        pairs = zip(several, types, strict=True)
        return tuple(np.zeros(t.shape, t.dtype) if x is None else x for x, t in pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pulled) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)


def _declared(result: Any, types: Sequence[Type]) -> tuple[list[Type], bool]:
    """The types of the results, and whether there is but one, not in a list."""
    if callable(result) and not isinstance(result, (Operand, type)):
        result = result(*types)
    if isinstance(result, list):
        return [_type_of(each, types) for each in result], False
    return [_type_of(result, types)], True


def _type_of(spec: Any, types: Sequence[Type]) -> Type:
    if isinstance(spec, Type):
        return Type(spec.shape, spec.dtype)
    if isinstance(spec, (Operand, np.ndarray)):
        return Type(tuple(spec.shape), as_dtype(spec.dtype))
    if isinstance(spec, tuple) and len(spec) == 2 and not isinstance(spec[0], str):
        return Type(as_shape(spec[0]), as_dtype(spec[1]))
    if not types:
        raise ArgumentError(
            "without operands, the type of the result has to be declared",
            hint="td.py_function(f, (shape, dtype))",
        )
    first = types[0]
    return Type(first.shape, first.dtype if spec is None else as_dtype(spec))
