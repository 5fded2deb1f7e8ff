"""Each node by its op's NumPy rule, in creation order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.autodiff.written import derived
from treadle.base.errors import TreadleError
from treadle.base.events import span, watchers
from treadle.engines.base import Engine, Values, provide_engine
from treadle.graph.body import argument_error
from treadle.graph.claim import Claim
from treadle.graph.leaves import Argument, Unbound
from treadle.graph.meaning import compute_at
from treadle.graph.tensor import Tensor


class Reference(Engine):
    """Runs the unoptimized graph on NumPy."""

    name = "reference"

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
        claim: Claim | None = None,
    ) -> Values:
        nodes, results = derived(nodes, keep)
        keep = set(results.values())
        last: dict[int, int] = {}
        for node in nodes:
            for x in node.inputs:
                last[x.serial] = node.serial
        values: Values = {}
        for node in nodes:
            serial = node.serial
            if serial in feeds:
                values[serial] = feeds[serial]
                continue
            if node.stored is not None:
                values[serial] = node.array
                continue
            if isinstance(node.op, Unbound):
                raise node.op.refusal()
            if isinstance(node.op, Argument):
                raise argument_error(node)
            arrays = [values[x.serial] for x in node.inputs]
            try:
                if watchers:
                    size = sum(getattr(x, "nbytes", 0) for x in arrays)
                    with span(node.op.name, "numpy", (node.origin,), size):
                        values[serial] = compute_at(*_asked(node, arrays))
                else:
                    values[serial] = compute_at(*_asked(node, arrays))
            except TreadleError as error:
                error.layer = error.layer or node.metadata.get("module", "")
                raise
            del arrays
            for x in node.inputs:
                if last[x.serial] == serial and x.serial not in keep:
                    values.pop(x.serial, None)
        return {serial: _alone(values[result]) for serial, result in results.items()}


def _alone(value: Any) -> Any:
    """A value that keeps no larger array alive, of which it is a part."""
    base = getattr(value, "base", None)
    part = isinstance(base, np.ndarray) and base.nbytes > value.nbytes
    return value.copy() if part else value


def _asked(node: Tensor, arrays: Sequence[Any]) -> tuple[Any, ...]:
    return node.op, node.type, arrays, node.origin


provide_engine("reference", Reference)
