"""Targets of differentiation, and the nodes where it ends."""

from __future__ import annotations

from collections.abc import Sequence, Set

from treadle.graph.leaves import Cut
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Update, Variable, variable_of


class Targets:
    """The targets of a differentiation: nodes, and all versions of Variables.

    With `partial`, a target is an end: what it was computed from is not followed; so
    are the nodes that are `ends`. No target depends on a node older than the `floor`.
    """

    def __init__(
        self,
        wanted: Sequence[Operand],
        partial: bool = False,
        ends: Sequence[Tensor] = (),
    ) -> None:
        self.last = {x.serial for x in ends}
        self.nodes: dict[int, list[int]] = {}
        self.variables: dict[int, list[int]] = {}
        self.partial = partial
        self.trained: set[int | None] = set()
        self.floor = 0
        for k, x in enumerate(wanted):
            if isinstance(x, Variable):
                self.variables.setdefault(id(x), []).append(k)
            self._add(k, x.node())
        self.floor = self._oldest()

    @classmethod
    def of_nodes(cls, groups: Sequence[Sequence[Tensor]]) -> Targets:
        """Targets each of which is the sum over some nodes."""
        targets = cls(())
        for k, nodes in enumerate(groups):
            for node in nodes:
                targets._add(k, node)
        targets.floor = targets._oldest()
        return targets

    def _oldest(self) -> int:
        """The serial of the oldest target; versions of Variables may be any."""
        return 0 if self.variables else min(self.nodes, default=0)

    def _add(self, k: int, node: Tensor) -> None:
        self.nodes.setdefault(node.serial, []).append(k)
        # What a node that reads a Variable leads to, that Variable leads to as well.
        variables = (variable_of(x) for x in (node, *node.inputs))
        ids = (id(v) for v in variables if v is not None and v.trainable)
        self.trained.add(next(ids, None))

    def lost(self, node: Tensor) -> bool:
        """Whether a target may be behind a node whose recipe was let go."""
        op = node.op
        if not isinstance(op, Cut) or node.serial < self.floor or self.of(node):
            return False
        if not op.carried:  # of data alone, which may be what a derivative is by
            return op.trained is not None and bool(self.nodes) and None in self.trained
        known = op.trained is not None and None not in self.trained
        return not known or not self.trained.isdisjoint(op.trained or ())

    def ends(self, node: Tensor) -> bool:
        """Whether derivatives are not followed past this node."""
        if blocks(node) or node.serial in self.last or node.serial < self.floor:
            return True
        return self.partial and bool(self.of(node))

    def between(self, node: Tensor) -> bool:
        """Whether a node can be derived together with those that read it."""
        return not self.ends(node) and not self.of(node)

    def of(self, node: Tensor) -> list[int]:
        """Positions of the targets that a node is."""
        positions = list(self.nodes.get(node.serial, ()))
        variable = variable_of(node)
        if variable is not None:
            for k in self.variables.get(id(variable), ()):
                if k not in positions:
                    positions.append(k)
        return positions


class Trainable(Targets):
    """Whatever trainable Variables there are; only those of some ids are `needed`."""

    def __init__(self, needed: Set[int] | None = None) -> None:
        super().__init__(())
        self.trained = {None} if needed is None else set(needed)

    def of(self, node: Tensor) -> list[int]:
        variable = variable_of(node)
        return [0] if variable is not None and variable.trainable else []


def blocks(node: Tensor) -> bool:
    """Whether derivatives end at this node."""
    if isinstance(node.op, Update) or not node.op.traits.differentiable:
        return True
    return node.mark is not None and "no_grad" in node.mark
