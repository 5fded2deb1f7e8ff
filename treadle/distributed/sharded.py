"""ShardedUpdate: each rank updates its part of the parameters, and has its states."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType, as_dtype
from treadle.distributed.communicator import Communicator
from treadle.distributed.fixed import all_reduce, gather_parts
from treadle.distributed.layout import GradientLayout
from treadle.distributed.share import Share
from treadle.graph.gradients import give_gradients
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.optim.controls import Measures
from treadle.optim.gradients import Gradient, all_finite
from treadle.optim.optimizer import Optimizer
from treadle.runtime.evaluate import evaluate
from treadle.runtime.store import store


class ShardedUpdate:
    """The update of an optimizer over ranks of which each holds the states of some
    parameters: those that a sharded layout says, and all sparse ones.

    Rajbhandari et al., ZeRO: memory optimizations toward training trillion parameter
    models, 2020 (stage 1). Bits are those of one rank: what an optimizer asks of all
    gradients, their norm and whether they are finite, is asked of all ranks.
    """

    def __init__(
        self, optimizer: Optimizer, layout: GradientLayout, comm: Communicator
    ) -> None:
        self.optimizer, self.layout, self.comm = optimizer, layout, comm

    def _is_mine(self, k: int) -> bool:
        place = self.layout.places[k]
        return place.variable.sparse or place.owner == self.comm.rank

    def step(self, share: Share, numbers: Sequence[int]) -> None:
        """Update the parameters of these numbers, the same on all ranks, by their
        gradients, which are in p.grad; each rank those that it has. Gradients of the
        share are no more."""
        used = [self.layout.places[k].variable for k in numbers]
        ordered = self._ordered(used)
        self.optimizer.reserve([self.layout.places[k].variable for k in ordered])
        others = [
            self.layout.places[k].variable for k in ordered if not self._is_mine(k)
        ]
        give_gradients(others)
        before = int(self.optimizer.count)
        with self._over_ranks(ordered):
            self.optimizer.step()
        if int(self.optimizer.count) > before:
            self._gather(share.flat, ordered)

    def flush(self) -> bool:
        """`Optimizer.flush` on all ranks."""
        optimizer, places = self.optimizer, self.layout.places
        known = {id(x.variable): x.variable for x in places if x.variable.trainable}
        ordered = self._ordered([known[k] for k in optimizer.reserved() if k in known])
        with self._over_ranks(ordered):
            flushed = optimizer.flush()
        if flushed:
            self._gather(self.layout.empty(), ordered)
        return flushed

    def _ordered(self, parameters: Sequence[Variable]) -> list[int]:
        """The numbers of parameters, in the order of the optimizer's groups."""
        known = set(map(id, parameters))
        numbers = [
            self.layout.number(p)
            for group in self.optimizer.groups
            for p in self.optimizer.candidates(group, parameters)
            if id(p) in known
        ]
        return [k for k in numbers if k is not None]

    @contextmanager
    def _over_ranks(self, ordered: Sequence[int]) -> Iterator[None]:
        """Have the optimizer see what is asked of all gradients on all ranks."""
        controls = self.optimizer.controls
        before = controls.measures
        mine = [k for k in ordered if self._is_mine(k)]
        controls.measures = _OverRanks(self.comm, self.layout, ordered, mine)
        try:
            yield
        finally:
            controls.measures = before

    def _gather(self, flat: Mapping[DType, Array], numbers: Sequence[int]) -> None:
        """Have all ranks hold the parameters of these numbers that others have updated,
        by way of flat arrays as gradients have them."""
        rank, pairs, known = self.comm.rank, list[tuple[Variable, Array]](), {*numbers}
        for bucket in self.layout.buckets:
            chosen = [k for k in bucket.numbers if k in known]
            if not chosen:
                continue
            whole = flat[bucket.dtype]
            for k in chosen:
                place = self.layout.places[k]
                if place.owner == rank:
                    value = np.asarray(place.variable.numpy())
                    whole[place.start : place.stop] = value.reshape(-1)
            gather_parts(self.comm, bucket.parts(whole[bucket.start : bucket.stop]))
            for k in chosen:
                place = self.layout.places[k]
                p = place.variable
                if place.owner != rank and p.trainable:
                    part = whole[place.start : place.stop].reshape(p.shape)
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
        local, keys = self.own(state), self.optimizer.reserved()
        if self.comm.rank == 0:
            return local
        mine = tuple(
            f"{keys[id(x.variable)]}/"
            for x in self.layout.places
            if id(x.variable) in keys and not x.variable.sparse
        )
        return {k: x for k, x in local.items() if k.startswith(mine)}

    def gathered(self, state: Mapping[str, Array]) -> dict[str, Array]:
        """The states of all ranks, on all of them."""
        local = self.own(state)
        about = [[k, list(x.shape), as_dtype(x.dtype).name] for k, x in local.items()]
        every = self.comm.messages(json.dumps(about).encode())
        gathered: dict[str, Array] = {}
        for rank, message in enumerate(every):
            for name, shape, dtype in json.loads(message):
                if name not in gathered:
                    mine = rank == self.comm.rank
                    x = local[name] if mine else np.empty(shape, as_dtype(dtype))
                    gathered[name] = self.comm.broadcast(np.asarray(x), rank)
        return gathered


class _OverRanks(Measures):
    """The same of the gradients of all ranks, as numbers: `ordered` are the parameters
    of all of them, of which this rank's gradients are those in `mine`."""

    whole = False

    def __init__(
        self,
        comm: Communicator,
        layout: GradientLayout,
        ordered: Sequence[int],
        mine: Sequence[int],
    ) -> None:
        self.comm, self.layout = comm, layout
        self.ordered, self.mine = ordered, mine
        self.empty = not mine

    def finite(self, gradients: Sequence[Gradient]) -> Tensor:
        well = bool(np.asarray(all_finite(gradients).numpy())) if gradients else True
        every = all_reduce(self.comm, np.array(well, np.int64), "min")
        return constant_node(np.array(bool(every)))

    def norm(self, gradients: Sequence[Gradient]) -> Tensor:
        places, squares = self.layout.places, np.zeros(len(self.ordered), np.float64)
        sums = evaluate([g.square_sum() for g in gradients]) if gradients else []
        for k, square in zip(self.mine, sums, strict=True):
            if places[k].owner == self.comm.rank:
                squares[self.ordered.index(k)] = square
        squares = all_reduce(self.comm, squares)  # zeros of others add nothing
        total: Any = None
        for k, square in zip(self.ordered, squares, strict=True):
            one = constant_node(np.array(square, places[k].dtype))
            total = one if total is None else total + one
        return constant_node(np.array(evaluate(functions.sqrt(total))))
