"""The driver of rules: bottom-up, by a stack, each node once; equal nodes become one.

A node's normal form depends on its ancestors alone: neither who reads a node nor what
is asked for is looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from operator import is_
from typing import Any

from treadle.base.errors import TreadleError
from treadle.base.options import current
from treadle.base.symbolic import SymbolicNumber, bits
from treadle.base.types import TupleType
from treadle.graph.body import Body, effect_of, with_bodies
from treadle.graph.leaves import LITERAL, Constant, Leaf, literal_node
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor, copied
from treadle.graph.traversal import reach
from treadle.graph.variable import Update
from treadle.ops.movement import BroadcastTo
from treadle.rewrite.index import Signs
from treadle.rewrite.rule import Rule, RuleSet

BUDGET = 32  # applications for each node of the graph, and for a small graph more
LAST = 10  # rules that the error names
UNIFORM = 1 << 16  # elements of a constant that is looked through for one number
Watch = Callable[[Rule, Tensor, Tensor], None]


class RewriteError(TreadleError):
    """Rules that never come to an end."""


class _Kind(Enum):
    """The numbering of an op's nodes: by their operands, in any order, or each."""

    PLAIN, SWAPS, EACH, LEAF, CONTROL = range(1, 6)


_kinds: dict[type[Op], _Kind] = {}


def _kind(op: Op) -> _Kind:
    traits, kind = op.traits, _Kind.PLAIN
    if isinstance(op, Leaf):
        kind = _Kind.LEAF
    elif op.family == "control":
        kind = _Kind.CONTROL
    elif traits.effect == "each":
        kind = _Kind.EACH
    elif traits.commutative and not traits.idempotent:
        kind = _Kind.SWAPS
    _kinds[type(op)] = kind
    return kind


class Driver:
    """Nodes brought into normal form, remembered for as long as the driver lives."""

    def __init__(
        self, rules: RuleSet, watch: Watch | None = None, marks: bool = False
    ) -> None:
        self.rules = rules
        self.marks = marks  # whether derivatives may yet be taken: no_grad is kept
        self.watch = watch
        self.count = 0  # applications so far
        self.tried = 0  # and what was tried for them
        self.budget = 1000
        self.last: deque[str] = deque(maxlen=LAST)
        self._table: dict[Any, Tensor] = {}
        self._signs: Signs = {}  # of nodes with normal operands
        self._done: dict[int, Tensor] = {}  # normal forms, by serial
        self._next: dict[int, Tensor] = {}  # what a rule made of a node, on the way

    def normal(self, root: Tensor) -> Tensor:
        """The normal form of a node."""
        done, stack = self._done, [root]
        active: set[int] = set()  # nodes whose operands or successors are at work
        while stack:
            node = stack[-1]
            serial = node.serial
            if serial in done:
                stack.pop()
                continue
            target = self._next.get(serial)
            ahead = node.inputs if target is None else (target,)
            if self.marks and self._ends(node):
                done[serial] = node
            elif waiting := [x for x in ahead if x.serial not in done]:
                if not active.isdisjoint([x.serial for x in waiting]):
                    raise self._endless("rules undo one another")
                active.add(serial)
                stack.extend(waiting)
            elif target is not None:
                done[serial] = done[target.serial]
                active.discard(serial)
            else:
                self._step(node)
                active.discard(serial)
        return done[root.serial]

    def all(self, roots: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
        """The normal forms of several nodes, by the keys they came with."""
        nodes = reach(roots.values(), self._ends if self.marks else None)
        self.budget += BUDGET * len(nodes)
        done = self._done
        for node in nodes:  # in creation order, so that no stack grows deep
            if node.serial not in done and not self.marks:
                self._step(node)  # its operands are normal: most are done by that
            if node.serial not in done:
                self.normal(node)
        return {key: self.normal(root) for key, root in roots.items()}

    def body(self, body: Body) -> Body:
        """A body by these rules, its arguments free: rewritten once, and remembered."""
        key = self.rules, self.marks, current().compilation
        known: tuple[Any, Body | None] | None = body.memo.get("normal")
        if known is None or known[0] != key or self.watch is not None:
            inner = Driver(self.rules, self.watch, self.marks)
            outputs = inner.all(dict(enumerate(body.outputs))).values()
            same = all(map(is_, outputs, body.outputs))
            rewritten = (
                None if same else Body(body.name, body.arguments, tuple(outputs))
            )
            known = body.memo["normal"] = key, rewritten
        return known[1] or body

    def _ends(self, node: Tensor) -> bool:
        """Whether a node is left as it is: an assignment that has yet to be made."""
        return self.marks and isinstance(node.op, Update)

    def _step(self, node: Tensor) -> None:
        """Rewrite a node whose operands are normal, once."""
        done = self._done
        first = self._numbered(node)
        if first.serial in done:
            done[node.serial] = done[first.serial]
            return
        if first is not node:
            self._next[node.serial] = first
            if first.serial in self._next:
                return
        rewritten = self._applied(first)
        if rewritten is not None:
            self._next[first.serial] = rewritten
        else:
            done[first.serial] = done[node.serial] = first

    def _applied(self, node: Tensor) -> Tensor | None:
        rules = self.rules.of(node, self._signs)
        if isinstance(node.type, TupleType) or node.type.dtype.kind == "c":
            return None
        if self.marks and _is_marked(node):
            return None
        for rule in rules:
            self.tried += 1
            result = rule.apply(node)
            if result is None:
                continue
            self.count += 1
            self.last.append(rule.name)
            if self.count > self.budget:
                raise self._endless(f"{self.count} rules were applied without an end")
            if result.serial > node.serial:
                result.origin = node.origin
            if self.watch is not None:
                self.watch(rule, node, result)
            return result
        return None

    def _endless(self, what: str) -> RewriteError:
        return RewriteError(
            f"{what}; the last were: {', '.join(map(repr, self.last))}",
            hint="a rule must make something simpler; td.options(optimize=False) runs "
            "the graph as it is",
        )

    # -- equal expressions -----------------------------------------------------------

    def _numbered(self, node: Tensor) -> Tensor:
        """The first node that computes the same from the same."""
        op = node.op
        kind = _kinds.get(type(op)) or _kind(op)
        if kind is _Kind.LEAF:
            return self._leaf(node)
        done = self._done
        inputs = tuple([done[x.serial] for x in node.inputs])
        if kind is not _Kind.PLAIN and kind is not _Kind.SWAPS:
            if kind is _Kind.CONTROL:
                op = with_bodies(op, self.body)
            if kind is _Kind.EACH or effect_of(op) == "each":
                return _over(node, inputs, op)
        if self.marks and _is_marked(node):
            return _over(node, inputs, op)
        serials = [x.serial for x in inputs]
        if kind is _Kind.SWAPS and len(serials) == 2:
            serials.sort()
        key = (op, node.type, *serials)
        first = self._table.get(key)
        if first is None:
            first = self._table[key] = _over(node, inputs, op)
        return first

    def _leaf(self, node: Tensor) -> Tensor:
        """One node for each number; literals of one value as a number broadcast."""
        if not isinstance(node.op, Constant) or node.type.axes:
            return node
        if node.op is not LITERAL and node.type.shape:
            return node
        stored: Any = node.array
        assert stored is not None
        if not stored.shape:
            key = ("number", stored.dtype, bits(stored))
            if node.op is not LITERAL and not (self.marks and node._name is None):
                return self._table.setdefault((key, node.op), node)
            if key not in self._table:
                is_literal = node.op is LITERAL
                literal = node if is_literal else Tensor(LITERAL, (), node.type, stored)
                self._table[key] = literal
            return self._table[key]
        if type(stored) is SymbolicNumber or not 0 < stored.size <= UNIFORM:
            return node
        one = stored.flat[0]
        raw = stored.tobytes()
        if raw != raw[: stored.itemsize] * stored.size:
            return node
        return BroadcastTo(node.type.shape)(literal_node(one, stored.dtype))


def _over(node: Tensor, inputs: tuple[Tensor, ...], op: Op) -> Tensor:
    """A node over other operands, or itself if it is over these."""
    same = op is node.op and all(map(is_, inputs, node.inputs))
    return node if same else copied(node, inputs, op)


def _is_marked(node: Tensor) -> bool:
    return node.mark is not None and "no_grad" in node.mark
