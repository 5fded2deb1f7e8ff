"""Patterns of graphs, written with the operators and functions of programs.

A pattern is matched against a node whose operands are in normal form, where equal
expressions are one node: a capture that occurs twice must be the same node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.op import Op, Traits, registry
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.rewrite.facts import CONSTANTS, is_number, number_of

Found = dict[str, Tensor]
# The op class of a node and the shapes of its operands, None below two levels.
Shape = tuple[type[Op], Any]
Test = Callable[[Tensor], bool]


def shape_of(node: Tensor) -> Shape:
    """The op classes of a node, of its operands and of theirs."""
    return type(node.op), tuple(
        [
            (type(x.op), tuple([(type(v.op), None) for v in x.inputs]))
            for x in node.inputs
        ]
    )


class Pattern:
    """A pattern of nodes; operators make patterns of patterns."""

    __slots__ = ()

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        """Each way in which the node fits, with what the captures stand for."""
        raise NotImplementedError

    def could(self, shape: Shape) -> bool:
        """Whether a node of this shape may fit at all; for the index of rules.

        Operands that are None may be any.
        """
        return True

    @property
    def twins(self) -> bool:
        """Whether only a node fits both of whose operands are the same one."""
        return False

    def build(self, captured: Found) -> Any:
        """The graph that the pattern describes, from what the captures stand for."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Form:
        return Form("Add", (self, other))

    def __radd__(self, other: Any) -> Form:
        return Form("Add", (other, self))

    def __sub__(self, other: Any) -> Form:
        return Form("Subtract", (self, other))

    def __rsub__(self, other: Any) -> Form:
        return Form("Subtract", (other, self))

    def __mul__(self, other: Any) -> Form:
        return Form("Multiply", (self, other))

    def __rmul__(self, other: Any) -> Form:
        return Form("Multiply", (other, self))

    def __truediv__(self, other: Any) -> Form:
        return Form("Divide", (self, other))

    def __rtruediv__(self, other: Any) -> Form:
        return Form("Divide", (other, self))

    def __pow__(self, other: Any) -> Form:
        return Form("Pow", (self, other))

    def __rpow__(self, other: Any) -> Form:
        return Form("Pow", (other, self))

    def __neg__(self) -> Form:
        return Form("Negative", (self,))


class Capture(Pattern):
    """Any node, the same one wherever the name occurs; `when` may refuse some."""

    __slots__ = ("name", "when")

    def __init__(self, name: str, when: Test | None = None) -> None:
        self.name, self.when = name, when

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        known = captured.get(self.name)
        if known is node:
            yield captured
        elif known is None and (self.when is None or self.when(node)):
            yield {**captured, self.name: node}

    def build(self, captured: Found) -> Any:
        return captured[self.name]

    def __repr__(self) -> str:
        return self.name


class _Constant(Capture):
    """A capture of a number that is part of the structure."""

    __slots__ = ()

    def could(self, shape: Shape) -> bool:
        return shape[0] in CONSTANTS


class Number(Pattern):
    """A node that is this number in every element."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        if is_number(node, self.value):
            yield captured

    def could(self, shape: Shape) -> bool:
        return shape[0] in CONSTANTS

    def build(self, captured: Found) -> Any:
        return self.value

    def __repr__(self) -> str:
        return repr(self.value)


class Form(Pattern):
    """An op on patterns. `label` names the node itself, `when` may refuse it."""

    __slots__ = ("_swaps", "inputs", "label", "op", "when")

    def __init__(
        self,
        op: str,
        inputs: Sequence[Any],
        label: str | None = None,
        when: Test | None = None,
    ) -> None:
        self.op = registry[op]
        self.inputs = tuple(lift(x) for x in inputs)
        self.label, self.when = label, when
        self._swaps = self.op.traits.commutative and len(self.inputs) == 2

    def could(self, shape: Shape) -> bool:
        cls, inputs = shape
        if cls is not self.op:
            return False
        return inputs is None or _could(self.inputs, inputs, self._swaps)

    @property
    def twins(self) -> bool:
        names = [p.name for p in self.inputs if isinstance(p, Capture)]
        return len(self.inputs) == 2 and len(names) == 2 and names[0] == names[1]

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        if type(node.op) is not self.op or len(node.inputs) != len(self.inputs):
            return
        if self.when is not None and not self.when(node):
            return
        if self.label is not None:
            if captured.get(self.label, node) is not node:
                return
            captured = {**captured, self.label: node}
        yield from _matches(self.inputs, node.inputs, captured)
        if self._swaps and node.inputs[0] is not node.inputs[1]:
            yield from _matches(self.inputs, node.inputs[::-1], captured)

    def build(self, captured: Found) -> Any:
        return program(self.op)(*[p.build(captured) for p in self.inputs])

    def __repr__(self) -> str:
        sign = _SIGNS.get(self.op.__name__)
        parts = [repr(p) for p in self.inputs]
        if sign and len(parts) == 2:
            return f"({parts[0]} {sign} {parts[1]})"
        return f"{snake(self.op.__name__)}({', '.join(parts)})"


def _could(patterns: Sequence[Pattern], shapes: Any, swaps: bool) -> bool:
    """Whether operands of these shapes may fit, in one order or the other."""
    if len(patterns) != len(shapes):
        return False
    if all(p.could(s) for p, s in zip(patterns, shapes, strict=True)):
        return True
    return swaps and patterns[0].could(shapes[1]) and patterns[1].could(shapes[0])


_SIGNS = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Pow": "**"}


def _matches(
    patterns: Sequence[Pattern], nodes: Sequence[Tensor], captured: Found
) -> Iterator[Found]:
    if not patterns:
        yield captured
        return
    for inner in patterns[0].match(nodes[0], captured):
        yield from _matches(patterns[1:], nodes[1:], inner)


class Trait(Pattern):
    """Any op whose traits fit, on patterns; the node is captured under `label`."""

    __slots__ = ("fits", "inputs", "label")

    def __init__(
        self, fits: Callable[[Traits], bool], inputs: Sequence[Any], label: str = "f"
    ) -> None:
        self.fits, self.label = fits, label
        self.inputs = tuple(lift(x) for x in inputs)

    def could(self, shape: Shape) -> bool:
        cls, inputs = shape
        if not self.fits(cls.traits):
            return False
        return inputs is None or _could(self.inputs, inputs, cls.traits.commutative)

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        if len(node.inputs) != len(self.inputs) or not self.fits(node.op.traits):
            return
        captured = {**captured, self.label: node}
        yield from _matches(self.inputs, node.inputs, captured)
        if node.op.traits.commutative and len(node.inputs) == 2:
            yield from _matches(self.inputs, node.inputs[::-1], captured)

    def __repr__(self) -> str:
        return f"{self.label}({', '.join(map(repr, self.inputs))})"


class Constants(Pattern):
    """Any op with operands that are all constants of the structure."""

    __slots__ = ()

    def could(self, shape: Shape) -> bool:
        inputs = shape[1]
        if inputs is None:
            return True
        return bool(inputs) and all(s[0] in CONSTANTS for s in inputs)

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        if node.inputs and all(type(x.op) in CONSTANTS for x in node.inputs):
            yield captured

    def __repr__(self) -> str:
        return "any op on constants"


class Over(Pattern):
    """An op with an operand, at any place, that one of some others has made."""

    __slots__ = ("inside", "op")

    def __init__(self, op: type[Op], *inside: type[Op]) -> None:
        self.op, self.inside = op, inside

    def could(self, shape: Shape) -> bool:
        cls, inputs = shape
        return cls is self.op and (
            inputs is None or any(s[0] in self.inside for s in inputs)
        )

    def match(self, node: Tensor, captured: Found) -> Iterator[Found]:
        kinds = [type(x.op) for x in node.inputs]
        if type(node.op) is self.op and any(kind in self.inside for kind in kinds):
            yield captured

    def __repr__(self) -> str:
        names = " or ".join(snake(cls.__name__) for cls in self.inside)
        return f"{snake(self.op.__name__)}(..., {names}(...), ...)"


def lift(x: Any) -> Pattern:
    """A number as a pattern; patterns pass through."""
    return x if isinstance(x, Pattern) else Number(x)


def captures(names: str, when: Test | None = None) -> tuple[Capture, ...]:
    """Captures of any node, by their names.

    >>> x, y = captures("x y")
    >>> x * 1 + y
    ((x * 1) + y)
    """
    return tuple(Capture(name, when) for name in _words(names))


def numbers(names: str) -> tuple[Capture, ...]:
    """Captures of numbers of the structure, by their names."""
    return tuple(
        _Constant(name, lambda x: number_of(x) is not None) for name in _words(names)
    )


def _words(names: str) -> list[str]:
    """The names in a text."""
    if not isinstance(names, str):
        raise ArgumentError(f"names stand in one text, not {names!r}")
    return names.split()


def of(op: str, when: Test | None = None) -> Callable[..., Form]:
    """The function that makes patterns of an op, by the name of its class.

    >>> log, exp = of("Log"), of("Exp")
    >>> (x,) = captures("x")
    >>> log(exp(x))
    log(exp(x))
    """

    def make(*inputs: Any, label: str | None = None) -> Form:
        return Form(op, inputs, label, when)

    return make


def snake(name: str) -> str:
    """LogSoftmax as log_softmax."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


_PROGRAM = {"Select": "where", "LogAddExp": "logaddexp"}


def program(cls: type[Op]) -> Callable[..., Tensor]:
    """The function of programs that makes nodes of an op."""
    return getattr(functions, _PROGRAM.get(cls.__name__, snake(cls.__name__)))
