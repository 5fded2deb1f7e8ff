"""The values of a graph from the engine that runs it, watched as the options say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.base.errors import RunError
from treadle.base.events import span, watchers
from treadle.base.options import current
from treadle.engines.base import Engine, Values, chosen
from treadle.graph.claim import Claim
from treadle.graph.operators import functions
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.graph.verify import problems
from treadle.runtime.numerics import refuse


def values_of(
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    old: Set[int] = frozenset(),
    asked: Set[int] | None = None,
    *,
    begin: bool = False,
    sure: bool = False,
    claim: Claim | None = None,
) -> Values:
    """The values of a graph by the engine; that of `old` nodes it may overwrite.

    Under `td.options(check=True)` a graph that breaks a rule is refused, and results
    that are not the reference's; with `check_numerics` those that are not finite among
    what is `asked` for: what is kept besides may be masked before it gets there. If
    the run may only `begin`, and nobody watches it, they may be Futures; if it is to be
    `sure`, where nothing can be found wrong. What is overwritten is told by a `claim`.
    """
    now = current()
    engine = chosen(now.engine, nodes)
    if now.check_numerics:
        old = frozenset()  # what made a result is still to be seen when it is there
    arguments = nodes, feeds, keep, *((old, claim) if old else ())
    if watchers:
        with span(f"{engine.name}: {len(nodes)} nodes", "run"):
            values = _run(engine, *arguments)
    elif begin and not now.check and not now.check_numerics:
        values = engine.begin(*arguments, sure=sure)
    else:
        values = _run(engine, *arguments)
    if now.check_numerics:
        refuse(nodes, feeds, keep if asked is None else asked, values, engine.name)
    return values


def _run(
    engine: Engine,
    nodes: Sequence[Tensor],
    feeds: Mapping[int, Any],
    keep: Set[int],
    *old: Any,
) -> Values:
    if not current().check:
        return engine.run(nodes, feeds, keep, *old)
    for node, message in problems(nodes):
        raise RunError(message).located(node.name, repr(node.type), node.line)
    spent = old[0] if old else ()
    copies = {n.serial: np.array(n.array) for n in nodes if n.serial in spent}
    judged = functions.judge(nodes, {**copies, **feeds}, keep)
    values = engine.run(nodes, feeds, keep, *old)
    for node in nodes:
        if judged is not None and node.serial in judged.roots:
            wrong = judged.wrong(node.serial, _at_home(values[node.serial]))
            if wrong:
                what = f"on the {engine.name} engine it is not the reference's value"
                raise functions.mismatch(f"{what}; {wrong}", node)
    return values


def _at_home(value: Any) -> Any:
    return value.numpy() if isinstance(value, Resident) else value
