"""A graph as algebra: one formula, with names for what occurs in it more than once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from treadle.base.types import TupleType
from treadle.graph.leaves import Argument, Constant
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor, noted
from treadle.graph.text import short
from treadle.graph.traversal import reach, users
from treadle.graph.variable import Update, variable_of

_SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(1, 6)
_INFIX = {
    "Equal": ("==", 0), "NotEqual": ("!=", 0), "Less": ("<", 0), "Greater": (">", 0),
    "LessEqual": ("<=", 0), "GreaterEqual": (">=", 0), "Add": ("+", _SUM),
    "Subtract": ("-", _SUM), "Multiply": ("*", _PRODUCT), "Divide": ("/", _PRODUCT),
}  # fmt: skip
_LONG = 72  # characters of a part that gets a name of its own
Part = tuple[str, int]  # a text, and how tightly it holds together


def formula(y: Tensor) -> str:
    """The graph of a tensor as algebra; parts read twice stand below, by name.

    >>> x = td.param("x", init=2.0)
    >>> print(formula(td.exp(x * 2) / (x + 1) - 3))
    exp(2 * x) / (x + 1) - 3
    """
    (y,) = functions.written_out([y])
    nodes = reach([y], lambda n: isinstance(n.op, Update))
    readers = users(nodes)
    taken = {n._name or "" for n in nodes} | {_variable(n) for n in nodes}
    names = (n for n in _names() if n not in taken)
    parts: dict[int, Part] = {}
    below: list[str] = []
    for node in nodes:
        part = _part(node, [parts[x.serial] for x in node.inputs if x.serial in parts])
        shared = len(readers.get(node.serial, ())) > 1 and len(part[0]) > 6
        if node is not y and node.inputs and (shared or len(part[0]) > _LONG):
            name = next(names)
            below.append(f"{name} = {part[0]}")
            part = name, _ATOM
        parts[node.serial] = part
    lines = [f"  where {line}" for line in reversed(below)]
    return "\n".join([parts[y.serial][0], *lines])


def _names() -> Iterator[str]:
    yield from "abcdefghijkmnopqrstuvwz"
    k = 1
    while True:
        yield f"a{k}"
        k += 1


def _variable(node: Tensor) -> str:
    variable = variable_of(node)
    return "" if variable is None else variable.name


def _part(node: Tensor, inputs: list[Part]) -> Part:
    if not node.inputs or isinstance(node.op, Update):
        return _leaf(node)
    name = type(node.op).__name__
    if name in _INFIX and len(inputs) == 2:
        sign, level = _INFIX[name]
        if name == "Multiply" and _is_number(node.inputs[1]):
            inputs = inputs[::-1]  # numbers first
        (a, p), (b, q) = inputs
        first = a if p >= level else f"({a})"
        tight = q > level or (q == level and name in ("Add", "Multiply"))
        return f"{first} {sign} {b if tight else f'({b})'}", level
    if name in _SPECIAL:
        part: Part | None = _SPECIAL[name](node, inputs)
        if part is not None:
            return part
    arguments = [text for text, _ in inputs]
    for key, value in node.op.attributes():
        if value is not None and value is not False:
            arguments.append(f"{key}={value!r}")
    return f"{_snake(name)}({', '.join(arguments)})", _ATOM


def _is_number(x: Tensor) -> bool:
    if type(x.op).__name__ == "BroadcastTo":
        x = x.inputs[0]
    return isinstance(x.op, Constant) and not x.type.shape


def _leaf(node: Tensor) -> Part:
    variable = variable_of(node)
    if variable is not None:
        return variable.name, _ATOM
    if node._name:
        return node._name, _ATOM
    if isinstance(node.op, Argument):
        return f"x{node.op.position}", _ATOM
    array = node.array if isinstance(node.op, Constant) else None
    if array is not None:
        text = short(array)
        if text != "...":
            return text, _SIGN if text.startswith("-") else _ATOM
    assert not isinstance(node.type, TupleType)
    return f"{node.op.name}{list(node.type.shape)}", _ATOM


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _held(part: Part, level: int) -> str:
    return part[0] if part[1] >= level else f"({part[0]})"


def _negative(node: Tensor, inputs: list[Part]) -> Part:
    return f"-{_held(inputs[0], _PRODUCT)}", _SIGN if inputs[0][1] > _PRODUCT else _SUM


def _square(node: Tensor, inputs: list[Part]) -> Part:
    return f"{_held(inputs[0], _ATOM)}**2", _POWER


def _pow(node: Tensor, inputs: list[Part]) -> Part:
    return f"{_held(inputs[0], _ATOM)}**{_held(inputs[1], _ATOM)}", _POWER


def _cast(node: Tensor, inputs: list[Part]) -> Part:
    return f"{node.dtype.name}({inputs[0][0]})", _ATOM


def _broadcast(node: Tensor, inputs: list[Part]) -> Part | None:
    """A number broadcast is a number."""
    if _is_number(node):
        return inputs[0]
    return f"broadcast_to({inputs[0][0]}, {list(node.type.shape)})", _ATOM


def _reshape(node: Tensor, inputs: list[Part]) -> Part:
    return f"reshape({inputs[0][0]}, {list(node.type.shape)})", _ATOM


def _permute(node: Tensor, inputs: list[Part]) -> Part | None:
    if node.type.ndim != 2:
        return None
    return f"{_held(inputs[0], _ATOM)}.T", _ATOM


def _fold(node: Tensor, inputs: list[Part]) -> Part:
    op: Any = node.op
    parts = [inputs[0][0]]
    if len(op.axes) != node.inputs[0].type.ndim:
        parts.append(str(op.axes[0] if len(op.axes) == 1 else op.axes))
    if op.keepdims:
        parts.append("keepdims=True")
    return f"{_snake(op.name).rstrip('_')}({', '.join(parts)})", _ATOM


_MATRIX = re.compile(r"(\w*)(\w)(\w),\1?\3(\w)->\1\2\4|(\w)(\w),\6->\5|(\w),\7->")


def _contract(node: Tensor, inputs: list[Part]) -> Part:
    op: Any = node.op
    a, b = inputs
    for spec in (op.spec, _flipped(op.spec, 0), _flipped(op.spec, 1)):
        if not _MATRIX.fullmatch(spec):
            continue
        if spec != op.spec:
            a, b = [
                (f"{_held(v, _ATOM)}.T", _ATOM) if k == (spec == _flipped(op.spec, 1))
                else v
                for k, v in enumerate(inputs)
            ]  # fmt: skip
        return f"{_held(a, _PRODUCT)} @ {_held(b, _SIGN)}", _PRODUCT
    return f"einsum({op.spec!r}, {inputs[0][0]}, {inputs[1][0]})", _ATOM


def _flipped(spec: str, which: int) -> str:
    """The letters of a contraction whose operand of two dimensions is transposed."""
    operands, out = spec.split("->")
    both = operands.split(",")
    if len(both[which]) == 2:
        both[which] = both[which][::-1]
    return f"{both[0]},{both[1]}->{out}"


def _select(node: Tensor, inputs: list[Part]) -> Part:
    return f"where({', '.join(text for text, _ in inputs)})", _ATOM


_SPECIAL: dict[str, Any] = {
    "Negative": _negative, "Square": _square, "Pow": _pow,
    "Reciprocal": lambda node, inputs: (f"1 / {_held(inputs[0], _SIGN)}", _PRODUCT),
    "Cast": _cast, "BroadcastTo": _broadcast, "Reshape": _reshape,
    "PermuteDims": _permute, "Contract": _contract, "Select": _select,
    **dict.fromkeys(("Sum", "Prod", "Max", "Min", "Mean", "LogSumExp"), _fold),
}  # fmt: skip


class Formula(Tensor):
    """A tensor that shows itself as algebra."""

    __slots__ = ()

    def __str__(self) -> str:
        return formula(self)


def as_formula(x: Tensor) -> Tensor:
    """x as a tensor whose `str` is its formula; a plain leaf stays itself."""
    leaf = not x.inputs
    if isinstance(x.type, TupleType) or isinstance(x.op, Update):
        return x
    if leaf and variable_of(x) is None and not isinstance(x.op, Constant):
        return x
    return noted(Formula(x.op, x.inputs, x.type, x.stored), x)
