"""The standard rules, and graphs simplified for their own sake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from treadle.base import trees
from treadle.base.caches import cached
from treadle.base.errors import ArgumentError, OptionError
from treadle.base.options import current, rules_of
from treadle.graph.formula import as_formula
from treadle.graph.frame import TraceFrame, pushed
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract
from treadle.ops.convolution import Conv
from treadle.rewrite.driver import Driver, Watch
from treadle.rewrite.record import fired, recording
from treadle.rewrite.rule import Rule, RuleSet
from treadle.rewrite.rules.algebra import ALGEBRA
from treadle.rewrite.rules.constants import CONSTANTS
from treadle.rewrite.rules.contraction import CONTRACTION
from treadle.rewrite.rules.logic import LOGIC
from treadle.rewrite.rules.movement import MOVEMENT
from treadle.rewrite.rules.powers import POWERS
from treadle.rewrite.rules.quantized import QUANTIZED, ROUNDING
from treadle.rewrite.rules.readable import READABLE
from treadle.rewrite.rules.reduction import REDUCTION
from treadle.rewrite.rules.repeats import REPEATS
from treadle.rewrite.rules.stability import STABILITY
from treadle.rewrite.rules.state import FORWARD, STATE

__all__ = ["simplify"]

STANDARD = (
    CONSTANTS + STABILITY + MOVEMENT + ALGEBRA + LOGIC + POWERS + REDUCTION + REPEATS
    + CONTRACTION + STATE
)  # fmt: skip
COMPILED = STANDARD + FORWARD
SHOWN = STANDARD + READABLE
# Of a part of a graph whose operands are not known: what cannot stand in the way of
# another rule, as each of the others might that an operand decides on.
TIDY = MOVEMENT + STATE
NARROW = ROUNDING + QUANTIZED
NARROWED = (Cast, Contract, Conv)  # the ops at which these begin


@cached(64)
def _with(standard: RuleSet, rules: tuple[Any, ...]) -> RuleSet:
    for rule in rules:
        if not isinstance(rule, Rule):
            raise OptionError(f"{rule!r} is no rule", hint="make it with td.Rule(...)")
    return standard + RuleSet("own", rules) if rules else standard


def compiled_rules() -> RuleSet:
    """The rules a graph is compiled with: the standard ones and the thread's own."""
    return _with(COMPILED, current().rules)


def tidy(roots: Sequence[Tensor]) -> list[Tensor]:
    """A part of a graph, seen by itself, without the movement that comes to nothing."""
    return list(Driver(TIDY).all(dict(enumerate(roots))).values())


def normal(roots: dict[int, Tensor]) -> dict[int, Tensor]:
    """The roots of a graph to be compiled, rewritten by the standard rules."""
    record = recording()
    watch = None if record is None else fired
    rewritten = Driver(compiled_rules(), watch).all(roots)
    if record is not None:
        record.rewritten = tuple(rewritten.values())
    return rewritten


def narrow_rules(by_bytes: bool) -> RuleSet:
    """The rules after the standard ones; `by_bytes` where products of bytes pay."""
    return NARROW if by_bytes else ROUNDING


def narrowed(
    roots: dict[int, Tensor], nodes: Sequence[Tensor], by_bytes: bool
) -> dict[int, Tensor]:
    """The roots of a graph, whose `nodes` are in normal form, in fewer digits."""
    rules = narrow_rules(by_bytes)
    if not any(type(n.op) in NARROWED and rules.of(n) for n in nodes):
        return roots
    return Driver(rules, None if recording() is None else fired).all(roots)


@provide
def stabilized(roots: Sequence[Tensor]) -> list[Tensor] | None:
    """Roots by the standard rules, if one of those that fired makes what it finds right
    where it was not.
    """
    fired: list[Rule] = []
    driver = Driver(COMPILED, lambda rule, *nodes: fired.append(rule))
    rewritten = list(driver.all(dict(enumerate(roots))).values())
    return rewritten if any(rule.stable for rule in fired) else None


def simplify(y: Any, rules: Iterable[Any] = (), watch: Watch | None = None) -> Any:
    """Tensors (or trees of them) by simpler graphs of the same meaning; runs nothing.

    `rules` are added to the standard ones; `str` of a result is its formula.

    >>> x = td.param("x", init=2.0)
    >>> str(td.simplify(td.grad(td.log(td.sigmoid(x)) + x * 1, [x])[0]))
    '1 + sigmoid(-x)'
    """
    leaves, structure = trees.flatten(y)
    roots = functions.written_out([as_tensor(leaf) for leaf in leaves])
    nodes = dict(enumerate(roots))
    added = *current().rules, *rules_of(rules)
    if watch is not None and not callable(watch):
        text = f"watch is a function of rule, node and result, not {watch!r}"
        raise ArgumentError(text).located("simplify")
    driver = Driver(_with(SHOWN, added), watch, marks=True)
    with pushed(TraceFrame("simplify")):
        rewritten = driver.all(nodes)
    formulas: list[Tensor] = [as_formula(rewritten[k]) for k in nodes]
    return trees.unflatten(structure, formulas)
