"""Rules as values: a name, two sides, a guard; and sets of them indexed by op."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from treadle.base.dtypes import KINDS, kind
from treadle.base.errors import OptionError
from treadle.base.types import TupleType, Type, broadcast_shapes
from treadle.graph.leaves import literal_node
from treadle.graph.tensor import Tensor
from treadle.ops.movement import BroadcastTo, Reshape
from treadle.rewrite.facts import number_of
from treadle.rewrite.index import RuleIndex, Signs, Within
from treadle.rewrite.pattern import Found, Pattern, lift


class Match:
    """A match of a rule: the root, and the captures by their names as attributes."""

    __slots__ = ("captures", "root")

    def __init__(self, root: Tensor, captured: Found) -> None:
        self.root, self.captures = root, captured

    def __getattr__(self, name: str) -> Tensor:
        return self.captures[name]

    def number(self, name: str) -> Any:
        """The number that a captured constant is."""
        return number_of(self.captures[name])


Make = Callable[[Match], Any]


@dataclass(frozen=True, eq=False)
class Rule:
    """A rewriting rule: both sides as patterns, or the right a function.

    `when` is asked after the left side fits. `exact`: both sides have the same bits;
    else they are equal in mathematics. `stable`: the right side is also right where
    the left overflows or divides 0 by 0. `enables`: it costs more by itself, and lets
    others fit. `takes`: the kinds of dtype of the result. `within`: what stands in all
    nodes that fit, or further below.
    `example` makes a graph the rule fits, from a source of random operands; without
    one it is the left side itself, on such operands.

    >>> from treadle.rewrite.pattern import captures
    >>> (x,) = captures("x")
    >>> Rule("multiply by one", x * 1, x)
    multiply by one: (x * 1) -> x
    """

    name: str
    left: Pattern
    right: Pattern | float | Make
    when: Callable[[Match], bool] | None = None
    exact: bool = True
    stable: bool = False
    enables: bool = False
    takes: str = "real"
    within: Within | None = None
    example: Callable[[Any], Any] | None = field(default=None, repr=False)

    def apply(self, node: Tensor) -> Tensor | None:
        """The node rewritten, of the very same type; None where the rule does not fit.

        Where the other side lacks dimensions it is broadcast, so that no rule has to
        look at shapes for that.
        """
        if kind(node.type.dtype) not in KINDS[self.takes]:
            return None
        for captured in self.left.match(node, {}):
            m = Match(node, captured)
            if self.when is not None and not self.when(m):
                continue
            result = self._make(m)
            if result is not None:
                fitted = fit(result, node.type)
                if fitted is not None and fitted is not node:
                    return fitted
        return None

    def _make(self, m: Match) -> Tensor | None:
        right = self.right
        if callable(right):
            result = right(m)
        else:
            result = lift(right).build(m.captures)
        if isinstance(result, (int, float)):
            return literal_node(result, m.root.type.dtype)
        return result

    def __repr__(self) -> str:
        right = "..." if callable(self.right) else repr(lift(self.right))
        return f"{self.name}: {self.left!r} -> {right}"


def stable(name: str, left: Any, right: Any, example: Any = None, **more: Any) -> Rule:
    """A rule whose right side is also right where the left overflows."""
    return Rule(
        name, left, right, exact=False, stable=True, takes="float", example=example,
        **more,
    )  # fmt: skip


def fit(x: Tensor, wanted: Type) -> Tensor | None:
    """x as a node of exactly this type, broadcast or renamed; None if it cannot be."""
    t = x.type
    if isinstance(t, TupleType) or t.dtype != wanted.dtype:
        return None
    if t.shape != wanted.shape:
        if len(t.shape) > len(wanted.shape):
            return None
        for n, extent in zip(reversed(wanted.shape), reversed(t.shape), strict=False):
            if extent not in (1, n):
                return None
        if broadcast_shapes(t.shape, wanted.shape) != wanted.shape:
            return None
        return BroadcastTo(wanted.shape, wanted.axes)(x)
    if t.axes != wanted.axes:
        return Reshape(wanted.shape, wanted.axes)(x)
    return x


class RuleSet:
    """Rules in order, looked up by the op of a node and of its operands.

    >>> from treadle.rewrite.pattern import captures
    >>> (x,) = captures("x")
    >>> table = RuleSet("own", [Rule("multiply by one", x * 1, x)])
    >>> len(table + table.without("multiply by one"))
    1
    """

    def __init__(self, name: str, rules: Iterable[Rule]) -> None:
        self.name = name
        self.rules = tuple(rules)
        names = [rule.name for rule in self.rules]
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise OptionError(f"two rules are named {sorted(twice)[0]!r}")
        self._index = RuleIndex(self.rules)

    def of(self, node: Tensor, signs: Signs | None = None) -> tuple[Rule, ...]:
        """The rules that may fit a node, in order; `signs` as `Index.of` takes them."""
        return self._index.of(node, signs)

    def without(self, *names: str) -> RuleSet:
        """The same rules but for those named; an unknown name is an error."""
        unknown = set(names) - {rule.name for rule in self.rules}
        if unknown:
            raise OptionError(f"no rule is named {sorted(unknown)[0]!r}")
        return RuleSet(self.name, [r for r in self.rules if r.name not in names])

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(f"{self.name} + {other.name}", self.rules + other.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def __repr__(self) -> str:
        return f"<rules {self.name}: {len(self.rules)}>"
