"""Tensors and Variables as pickles: values and settings, no graph and no code.

A Tensor comes back as a constant; a Variable with its newest value. What a pickle of
several objects shares is shared again.
"""

from __future__ import annotations

from typing import Any

from treadle.base.errors import TraceError
from treadle.base.types import Names, Type
from treadle.graph.frame import top
from treadle.graph.leaves import Unbound, Version, constant_node, to_array
from treadle.graph.op import Array
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.remarks import Remarks
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Placeholder, Variable

__all__: list[str] = []


@provide
def pickled(x: Operand) -> Any:
    """The result of `__reduce__` of an operand."""
    if top().tracing:
        raise TraceError(
            "a pickle has values, and this is a trace",
            hint="pickle outside of the function",
        ).located("pickle", repr(x.type))
    if not isinstance(x, Variable):
        node = x.node()
        return tensor_of, (node.numpy(), node.type.axes, node._name)
    known = not isinstance(x.committed.op, Unbound)
    value = functions.settled(x).array if known else None
    settings = {
        "frozen": x.frozen,
        "grad": x.grad,
        "metadata": dict(x.metadata),
        "sparse": x.sparse,
        "trainable": (x.wanted, x.allowed),
    }
    return variable_of, (type(x), x.type, x.name, value, settings)


def tensor_of(value: Array, axes: Names | None, name: str | None) -> Tensor:
    """A constant of what a pickle says."""
    node = constant_node(to_array(value, value.dtype), axes)
    if name is not None:
        node.name = name
    return node


def variable_of(
    kind: type[Variable],
    type_: Type,
    name: str,
    value: Array | None,
    settings: dict[str, Any],
) -> Variable:
    """A Variable, Parameter or Placeholder of what a pickle says."""
    variable = kind.__new__(kind)
    array = None if value is None else to_array(value, type_.dtype)
    if array is not None:
        array.flags.writeable = False
    unbound = issubclass(kind, Placeholder) and array is None
    version = Unbound(variable) if unbound else Version(variable)
    variable._begin(type_, name, version, array, False, settings["sparse"])
    variable.metadata = Remarks(settings["metadata"])
    variable.grad, variable.frozen = settings["grad"], settings["frozen"]
    wanted, allowed = settings["trainable"]
    variable.allow(allowed)
    if wanted:
        variable.wanted = True
        variable._trainable = allowed
    return variable
