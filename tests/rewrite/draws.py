"""Random operands, and random instances of the left sides of rules."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.base.types import Type
from treadle.graph.leaves import Argument, literal_node
from treadle.graph.tensor import Tensor
from treadle.ops.slice import SetSlice, Unslice
from treadle.rewrite.pattern import Capture, Form, Number, Pattern, _Constant
from treadle.rewrite.rule import Rule

__all__ = ["Draws", "instance"]

NUMBERS = (2.0, 3.0, 0.5, -2.0, 4.0, 1.5, -0.5)


class Draws:
    """Operands by name, with the values they take; a name stands for one operand.

    `lead` are dimensions in front of the shapes that are asked for by nobody.
    """

    td = td

    def __init__(
        self, seed: int, dtype: str = "float32", shape: tuple[int, ...] = ()
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype, self.shape = dtype, shape
        self.arguments: list[Tensor] = []
        self.values: list[Any] = []
        self.known: dict[str, Tensor] = {}

    def _made(self, name: str | None, array: Any) -> Tensor:
        if name in self.known:
            return self.known[name]
        node = Tensor(Argument(len(self.values)), (), Type(array.shape, array.dtype))
        self.arguments.append(node)
        self.values.append(array)
        if name is not None:
            self.known[name] = node
        return node

    def __call__(
        self, name: str | None = None, shape: Any = None, low: float = -2.0
    ) -> Tensor:
        """Floats between low and 2."""
        if name in self.known:
            return self.known[name]
        extents = self.shape if shape is None else shape
        # Multiples of 1/8: exact in every float, and as fractions.
        drawn = self.rng.integers(int(low * 8), 17, extents) / 8
        return self._made(name, np.asarray(drawn).astype(self.dtype))

    def above(self, low: float, shape: Any = None) -> Tensor:
        """Floats above a bound."""
        return self(f"above {low} {shape}", shape, low)

    def whole(self, name: str, shape: Any = None) -> Tensor:
        extents = self.shape if shape is None else shape
        return self._made(name, np.asarray(self.rng.integers(-9, 9, extents), np.int32))

    def labels(self, count: int, classes: int) -> Tensor:
        drawn = self.rng.integers(0, classes, count)
        return self._made("labels", np.asarray(drawn))

    def number(self) -> Tensor:
        value = float(self.rng.choice(NUMBERS))
        return literal_node(value, np.dtype(self.dtype))

    @property
    def type(self) -> Any:
        """The dtype of the operands."""
        return np.dtype(self.dtype)

    def one(self) -> Tensor:
        return literal_node(1.0, np.dtype(self.dtype))

    def put(self, x: Tensor, y: Tensor) -> Tensor:
        """y put over all of x, [4, 3]."""
        return SetSlice((0, 0), (4, 3), (1, 1))(x, y)

    def true(self) -> Tensor:
        return literal_node(bool(self.rng.integers(2)), np.dtype(bool))

    def zeros(self) -> Tensor:
        return td.zeros(self.shape, self.dtype)

    def ones(self) -> Tensor:
        return td.ones(self.shape, self.dtype)

    def unslice(self, x: Tensor) -> Tensor:
        """x in zeros [4, 3], from row 1 on, or all of them."""
        start = 0 if x.shape[0] == 4 else 1
        stop = start + x.shape[0]
        return Unslice((4, 3), (start, 0), (stop, 3), (1, 1))(x)

    def part(self, start: int, stop: int) -> Tensor:
        """Some rows of zeros [4, 3]."""
        x = self(f"rows {start}", (stop - start, 3))
        return Unslice((4, 3), (start, 0), (stop, 3), (1, 1))(x)


def instance(rule: Rule, d: Draws) -> Tensor:
    """A graph that the rule fits."""
    if rule.example is not None:
        return rule.example(d)
    found: dict[str, Any] = {}
    _choose(rule.left, d, found)
    return rule.left.build(found)


def _choose(pattern: Pattern, d: Draws, found: dict[str, Any]) -> None:
    if isinstance(pattern, _Constant):
        if pattern.name not in found:
            found[pattern.name] = d.number()
    elif isinstance(pattern, Capture):
        if pattern.name not in found:
            found[pattern.name] = d(pattern.name)
    elif isinstance(pattern, Form):
        for p in pattern.inputs:
            _choose(p, d, found)
    else:
        assert isinstance(pattern, Number), pattern
