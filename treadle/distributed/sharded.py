"""ShardedUpdate: each rank updates its part of the parameters, and has its states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import as_dtype
from treadle.base.errors import ArgumentError
from treadle.distributed.communicator import Communicator
from treadle.distributed.fixed import all_reduce, gather_parts
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Share
from treadle.graph.gradients import give_gradients
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.lookup import RowsToDense
from treadle.optim.gradients import clip_by_value, prepare
from treadle.optim.optimizer import Optimizer
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import store

__all__ = ["ShardedUpdate"]

Array = np.ndarray[Any, Any]


class ShardedUpdate:
    """The update of an optimizer over ranks of which each holds the states of some
    parameters: those that a sharded layout says, and all sparse ones.

    Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter
    models, 2020 (stage 1). Bits are those of one rank, clipping by the global norm
    included; raises ArgumentError where the optimizer looks at all gradients for more.
    """

    def __init__(
        self, optimizer: Optimizer, layout: GradientLayout, comm: Communicator
    ) -> None:
        controls = optimizer.controls
        if controls.watches or controls.gathers or controls.norms is not None:
            raise ArgumentError(
                "sharded states go with clipping alone, not with on_nan, loss_scale, "
                "norms or accumulate",
                hint="shards= sums gradients as accumulate= does",
            )
        self.optimizer, self.layout, self.comm = optimizer, layout, comm

    def _is_mine(self, k: int) -> bool:
        place = self.layout.places[k]
        return place.variable.sparse or place.owner == self.comm.rank

    def step(self, numbers: Sequence[int], gradients: Sequence[Tensor]) -> None:
        """Clip the gradients of this rank's parameters by those of all, of which all
        ranks give the same numbers, and update them; gradients are in p.grad."""
        optimizer, controls = self.optimizer, self.optimizer.controls
        places = self.layout.places
        of = {id(places[k].variable): k for k in numbers}
        used = [places[k].variable for k in numbers]
        ordered = [
            of[id(p)] for g in optimizer.groups for p in optimizer._candidates(g, used)
            if id(p) in of
        ]  # fmt: skip
        optimizer.reserve([places[k].variable for k in ordered])
        given = dict(zip(numbers, gradients, strict=True))
        mine = {k: given[k] for k in ordered if self._is_mine(k)}
        others = [places[k].variable for k in ordered if k not in mine]
        limits = controls.clip_value, controls.clip_norm
        clipped = self._clipped(ordered, mine) if limits != (None, None) else mine
        give_gradients(others, [None] * len(others))
        variables = [places[k].variable for k in mine]
        give_gradients(variables, [clipped[k] for k in mine])
        controls.clip_value = controls.clip_norm = None
        try:
            if mine:
                optimizer.step()
            else:
                count = optimizer.count
                store([(count, np.asarray(count.numpy()) + 1)])
        finally:
            controls.clip_value, controls.clip_norm = limits

    def _clipped(
        self, ordered: Sequence[int], mine: Mapping[int, Tensor]
    ) -> dict[int, Tensor]:
        """This rank's gradients, clipped as one rank clips all of them."""
        optimizer, controls = self.optimizer, self.optimizer.controls
        groups = {
            id(p): g
            for g in optimizer.groups
            for p in optimizer._candidates(
                g, [self.layout.places[k].variable for k in mine]
            )
        }
        ready = {}
        for k, gradient in mine.items():
            p = self.layout.places[k].variable
            rows = groups[id(p)].by_rows(p, optimizer.sparse_updates)
            ready[k] = prepare(gradient, rows, p.frozen)
        if controls.clip_value is not None:
            values = clip_by_value(list(ready.values()), controls.clip_value)
            ready = dict(zip(ready, values, strict=True))
        if controls.clip_norm is None:
            return {k: self._whole(k, g) for k, g in ready.items()}
        own = list(ready)
        sums = evaluate([ready[k].square_sum() for k in own]) if own else []
        squares = np.zeros(len(ordered), np.float64)
        for k, square in zip(own, sums, strict=True):
            if self.layout.places[k].owner == self.comm.rank:
                squares[ordered.index(k)] = square
        squares = all_reduce(self.comm, squares)  # zeros of others add nothing
        total: Any = None
        for k, square in zip(ordered, squares, strict=True):
            one = constant_node(np.array(square, self.layout.places[k].dtype))
            total = one if total is None else total + one
        limit = controls.clip_norm
        norm = functions.sqrt(total)
        factor = limit / functions.maximum(norm, limit)
        factor = constant_node(np.array(evaluate(factor)))
        return {
            k: self._whole(k, g, factor.astype(g.value.type.dtype))
            for k, g in ready.items()
        }

    def _whole(self, k: int, gradient: Any, factor: Any = None) -> Tensor:
        """A prepared gradient, times a factor, as p.grad has it."""
        value = gradient.value if factor is None else gradient.value * factor
        if gradient.ids is None:
            found: Tensor = value
            return found
        # Each id once, as rows were given: then they stay what they are.
        dense: Tensor = RowsToDense(gradient.rows)(gradient.ids, value)
        return dense

    def gather(self, share: Share) -> None:
        """Have all ranks hold the parameters that others have updated; the gradients of
        the share are no more."""
        rank, pairs = self.comm.rank, list[tuple[Variable, Array]]()
        for bucket in self.layout.buckets:
            chosen = [k for k in bucket.numbers if share.used[k]]
            if not chosen:
                continue
            flat = share.flat[bucket.dtype]
            for k in chosen:
                place = self.layout.places[k]
                if place.owner == rank:
                    value = np.asarray(place.variable.numpy())
                    flat[place.start : place.stop] = value.reshape(-1)
            gather_parts(self.comm, bucket.parts(flat[bucket.start : bucket.stop]))
            for k in chosen:
                place = self.layout.places[k]
                p = place.variable
                if place.owner != rank and p.trainable:
                    part = flat[place.start : place.stop].reshape(p.shape)
                    pairs.append((p, part.astype(p.type.dtype, copy=False)))
        store(pairs)

    # -- states --------------------------------------------------------------------

    def own(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """What of an optimizer's states is not of other ranks' parameters."""
        keys = self.optimizer.reserved()
        places = enumerate(self.layout.places)
        others = [
            f"{keys[id(x.variable)]}/"
            for k, x in places
            if id(x.variable) in keys and not self._is_mine(k)
        ]
        return {k: x for k, x in state.items() if not k.startswith(tuple(others))}

    def part(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """What this rank writes of the states that it has: its own parameters', and on
        rank 0 what all have."""
        own, keys = self.own(state), self.optimizer.reserved()
        if self.comm.rank == 0:
            return own
        mine = tuple(
            f"{keys[id(x.variable)]}/"
            for x in self.layout.places
            if id(x.variable) in keys and not x.variable.sparse
        )
        return {k: x for k, x in own.items() if k.startswith(mine)}

    def gathered(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """The states of all ranks, on all of them."""
        own = self.own(state)
        about = [[k, list(x.shape), as_dtype(x.dtype).name] for k, x in own.items()]
        every = self.comm.messages(json.dumps(about).encode())
        found: dict[str, Array] = {}
        for rank, message in enumerate(every):
            for name, shape, dtype in json.loads(message):
                if name not in found:
                    mine = rank == self.comm.rank
                    x = own[name] if mine else np.empty(shape, as_dtype(dtype))
                    found[name] = self.comm.broadcast(np.asarray(x), rank)
        return found
