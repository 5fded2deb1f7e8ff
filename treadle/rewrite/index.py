"""The index of rules by what stands in a node and below, found once for each kind.

What the rules see of a node is a number, its sign: its op, the ops of its operands,
and which of the things that some rules need stand in it or further below. A node's sign
follows from those of its operands, so equal parts of a graph, a cell of each step say,
are matched with the rules once, however often they stand there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.rewrite.pattern import shape_of

if TYPE_CHECKING:
    from treadle.rewrite.rule import Rule

KNOWN = 20_000  # signs, and kinds of nodes with their rules

Signs = dict[int, int]  # of nodes by serial, each after its operands


@dataclass(frozen=True)
class Within:
    """A condition on what is in nodes that fit, or below them through some ops.

    It is told of an op in `at`, if `when` holds there of the node and its operands,
    and if what is `over` stands in one of these.
    """

    at: tuple[type[Op], ...]
    through: tuple[type[Op], ...]
    when: Callable[[Tensor], bool] | None = None
    over: Within | None = None


class RuleIndex:
    """Rules in order, by the signs of nodes."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        needed: dict[Within, None] = {}
        for within in (r.within for r in rules):
            while within is not None:
                needed[within] = None
                within = within.over
        self._bits = {w: 1 << k for k, w in enumerate(needed)}
        self._all = (1 << len(needed)) - 1
        self._steps: dict[type[Op], tuple[list[Within], int]] = {}
        self._numbers: dict[Any, int] = {}
        self._next = itertools.count(1)
        self._by_class: dict[type[Op], list[Rule]] = {}
        self._fits: dict[Any, tuple[Rule, ...]] = {}
        # Rules and signs of nodes, where the signs of their operands tell them.
        self._followed: dict[Any, tuple[tuple[Rule, ...], int]] = {}

    def of(self, node: Tensor, signs: Signs | None = None) -> tuple[Rule, ...]:
        """The rules that may fit a node, in order.

        With `signs`, which get that of the node, those of its operands tell what stands
        below them; without, it may be anything.
        """
        inputs, op = node.inputs, type(node.op)
        twins = len(inputs) == 2 and inputs[0] is inputs[1]
        if signs is None:
            operands = [self._unknown(x) for x in inputs]
            return self._matched(node, op, self._all, twins, operands)
        operands = [signs.get(x.serial) or self._unknown(x) for x in inputs]
        key = op, twins, *operands
        known = self._followed.get(key)
        if known is None:
            bits = self._below(node, op, operands)
            sign = self._sign(inputs, op, bits)
            known = self._matched(node, op, bits, twins, operands), sign
            if not self._looks(op):
                if len(self._followed) > KNOWN:
                    self._followed.clear()
                self._followed[key] = known
        rules, signs[node.serial] = known
        return rules

    def _matched(
        self,
        node: Tensor,
        op: type[Op],
        bits: int,
        twins: bool,
        operands: Sequence[int],
    ) -> tuple[Rule, ...]:
        """The rules that may fit a node of these bits, over operands of these signs."""
        key = op, bits, twins, *operands
        rules = self._fits.get(key)
        if rules is None:
            rules = self._fitting(node, op, bits, twins)
            if len(self._fits) > KNOWN:
                self._fits.clear()
            self._fits[key] = rules
        return rules

    def _looks(self, op: type[Op]) -> bool:
        """Whether more than an op and the signs of its operands tells its bits."""
        return any(w.when is not None for w in self._steps[op][0])

    def _below(self, node: Tensor, op: type[Op], operands: Sequence[int]) -> int:
        """The bits of what stands in a node whose operands have these signs."""
        step = self._steps.get(op)
        if step is None:
            at = [w for w in self._bits if op in w.at]
            through = sum(bit for w, bit in self._bits.items() if op in w.through)
            step = self._steps[op] = at, through
        at, through = step
        if not (at or through):
            return 0
        below = 0
        for sign in operands:
            below |= sign
        bits = below & through
        for w in at:
            over = w.over is None or below & self._bits[w.over]
            if over and (w.when is None or w.when(node)):
                bits |= self._bits[w]
        return bits

    def _sign(self, inputs: Sequence[Tensor], op: type[Op], bits: int) -> int:
        """The number of a node as its readers see it; the bits are the lowest in it."""
        key = op, bits, *[type(x.op) for x in inputs]
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) > KNOWN:
                self._numbers.clear()  # those given out are not given again
            fresh = next(self._next) * (self._all + 1) + bits
            number = self._numbers.setdefault(key, fresh)
        return number

    def _unknown(self, x: Tensor) -> int:
        """The sign of a node of which it is not known what stands below."""
        return self._sign(x.inputs, type(x.op), self._all)

    def _fitting(
        self, node: Tensor, op: type[Op], bits: int, twins: bool
    ) -> tuple[Rule, ...]:
        rules = self._by_class.get(op)
        if rules is None:
            rules = [r for r in self._rules if r.left.could((op, None))]
            self._by_class[op] = rules
        shape = shape_of(node)
        return tuple(
            r
            for r in rules
            if (r.within is None or bits & self._bits[r.within])
            and (twins or not r.left.twins)
            and r.left.could(shape)
        )
