"""DataParallel: an optimizer whose steps are made of the gradients of all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from treadle import __version__
from treadle.autodiff.gradient import held_gradients
from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError
from treadle.base.options import modes
from treadle.distributed.agreement import (
    agree,
    agree_on_values,
    machine,
    optimizer_text,
    standing,
)
from treadle.distributed.buffers import Statistics
from treadle.distributed.communicator import Communicator
from treadle.distributed.derived import LossGradients
from treadle.distributed.exchange import GradientExchange, send_variables
from treadle.distributed.filling import Filling
from treadle.distributed.layout import GradientLayout
from treadle.distributed.sharded import ShardedUpdate
from treadle.distributed.share import Share, row_numbers, shards_of
from treadle.distributed.sums import ShardSums
from treadle.distributed.world import world
from treadle.engines.early import listening
from treadle.graph.awaited import Awaited
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.origin import capture
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.nn.module import Module
from treadle.nn.state import Keys
from treadle.ops.lookup import RowsToDense
from treadle.optim.groups import Group
from treadle.optim.optimizer import Optimizer

UPDATE = "distributed.update"  # the count of updates, beside an optimizer's states
_DRAWS = 1 << 24  # random draws that one shard may take
_EVALUATED = 1 << 60  # the first draw of batches that are not trained on


class DataParallel:
    """An optimizer for several ranks: the loop stays as it is.

    An update is made of `shards` losses (default: one a rank), whatever the number of
    ranks is, which divides it: each call of `step(loss)` gives one, and the last one of
    a rank ends the update. Rank r has the shards from r * shards / ranks on. The
    gradient is the mean over the shards that have a loss, summed in one fixed order, so
    that 1, 2 and 4 ranks come to the same bits: a shard has its batch, its forest, its
    draws and its statistics.

    `model` names the parameters and buffers; without, the optimizer lists parameters.
    All ranks begin with those of rank 0. Ranks may run different graphs: a parameter
    that some shards do not use has a gradient of 0 there, and one that none uses rests.
    Buffers that shards assign (running statistics) become the mean of what they made.
    Clipping, accumulation, loss scale and what else the optimizer does see the whole
    gradient. With `sharded` each rank updates a part of the parameters, and has their
    states alone, with the same bits (ZeRO, stage 1). Raises DistributedError where
    ranks differ or do not come in `timeout` seconds.

    >>> x = td.param("x", init=2.0)
    >>> opt = td.distributed.DataParallel(td.optim.SGD([x], lr=0.25), shards=2)
    >>> float(opt.step(x * x)), float(x)
    (4.0, 2.0)
    >>> float(opt.step(3 * x)), float(x)
    (6.0, 1.125)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        model: Module | None = None,
        *,
        shards: int | None = None,
        communicator: Communicator | None = None,
        timeout: float | None = None,
        sharded: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.communicator = comm = communicator or world()
        if timeout is not None:
            comm.timeout = timeout
        self.shards = comm.size if shards is None else shards
        self._local = shards_of(self.shards, comm.size)
        self._first = comm.rank * self._local  # shard of this rank
        named = _parameters(optimizer, model)
        self.layout = GradientLayout(named, comm.size, sharded)
        self._shards: ShardedUpdate | None = None
        if sharded:
            self._shards = ShardedUpdate(optimizer, self.layout, comm)
        buffers = [] if model is None else list(model.buffers())
        self.updates = 0
        agree(comm, self._facts(buffers))
        send_variables(comm, [*(p.variable for p in self.layout.places), *buffers])
        self._statistics = Statistics(buffers)
        self._sums = ShardSums(self.layout, self._statistics, self._local)
        self._gradients = LossGradients(optimizer, self.layout, self._sums)
        self._place_draws()

    def _facts(self, buffers: Sequence[Variable]) -> dict[str, str]:
        """What has to be the same on all ranks."""
        return {
            "Treadle": __version__,
            **machine(),
            "shards": f"{self.shards}{', sharded' * self.layout.sharded}",
            "the optimizer": optimizer_text(self.optimizer),
            "the list of parameters": "\n".join(self.layout.lines()),
            "the list of buffers": "\n".join(str(b.type) for b in buffers),
        }

    # -- what an optimizer has -----------------------------------------------------

    @property
    def groups(self) -> list[Group]:
        """The optimizer's groups of parameters."""
        return self.optimizer.groups

    @property
    def lr(self) -> float:
        """The rate of the next update in the first group; setting it sets all groups,
        which all ranks do alike."""
        return self.optimizer.lr

    @lr.setter
    def lr(self, rate: Any) -> None:
        self.optimizer.lr = rate

    @property
    def shard(self) -> tuple[int, int, int]:
        """This rank, the number of ranks, and of shards: what a Loader takes."""
        return self.communicator.rank, self.communicator.size, self.shards

    @property
    def number(self) -> int:
        """The number of the next shard of this rank among those of all updates."""
        return self.updates * self.shards + self._first + self._sums.count

    @property
    def waits(self) -> bool:
        """Whether shards of this rank wait for others to make an update."""
        return self._sums.count > 0

    def state_dict(self) -> dict[str, Array]:
        """The optimizer's states and the count of updates, between two updates. Where
        states are sharded, all ranks call this at once, and have those of all."""
        state = self._state()
        return state if self._shards is None else self._shards.gathered(state)

    def state_part(self) -> dict[str, Array]:
        """This rank's part of `state_dict()`, for a snapshot that all ranks write:
        every state is in the part of one of them. No rank waits for others."""
        state = self._state()
        if self._shards is not None:
            return self._shards.part(state)
        return self.share_of(state)

    def share_of(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays that this rank writes of those that all have, of equal size."""
        loads = [0] * self.communicator.size
        share: dict[str, Array] = {}
        for name, x in arrays.items():
            rank = loads.index(min(loads))
            loads[rank] += x.nbytes
            if rank == self.communicator.rank:
                share[name] = x
        return share

    def _state(self) -> dict[str, Array]:
        if waiting := self._sums.count:
            raise ArgumentError(
                f"{waiting} of this rank's {self._local} shards wait for an update",
                hint="save where an update has ended, or call join() before",
            )
        state = self.optimizer.state_dict()
        return {**state, UPDATE: np.array(self.updates, np.int64)}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Keys:
        """Go on from what `state_dict` gave, on any number of ranks; a state of the
        optimizer alone counts as many updates as it has made steps. Load the model
        before: its buffers are those that the next shards begin with."""
        rest = dict(state)
        updates = rest.pop(UPDATE, rest.get("step", 0))
        keys = self.optimizer.load_state_dict(rest, strict)
        self.updates = int(np.asarray(updates))
        self._sums.clear()
        self._statistics.keep()
        self._place_draws()
        return keys

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients that backward() has added into p.grad: None then."""
        self.optimizer.zero_grad(set_to_none)

    # -- a step --------------------------------------------------------------------

    def step(self, loss: Any = None) -> Any:
        """Add the gradient of one shard's `loss`, and update after this rank's last
        one. Returns the loss of this shard.

        Without a loss the gradient is what `loss.backward()` has added into p.grad.
        """
        root = None if loss is None else as_tensor(loss)
        if self._sums.count + 1 < self._local:
            self._gradients.add(root)
        elif not self._updated(root):
            self._exchanged(root)
        self._place_draws()
        return None if root is None else Awaited(root.stored)

    def join(self) -> None:
        """Take part in the updates of others, without a batch, until all ranks have
        called this: after a loop of which ranks make different numbers of steps.

        An update that some of the shards lack is made of the others. In the end ranks
        compare the values of parameters.
        """
        while not self._joined():
            pass
        if self.communicator.size > 1:
            places = [(x.name, x.variable) for x in self.layout.places]
            agree_on_values(self.communicator, places)
        self._place_draws()

    def flush(self) -> bool:
        """`join`, then update with the gradients that the optimizer accumulates."""
        self.join()
        if self._shards is not None:
            return self._shards.flush()
        return self.optimizer.flush()

    def _updated(self, root: Tensor | None) -> bool:
        """Update by the last shard's loss in one run, where there are no other ranks;
        whether that could be."""
        if root is None or self.communicator.size > 1 or self._shards is not None:
            return False
        updated = self._gradients.update(root)
        self.updates += updated
        return updated

    def _exchanged(self, root: Tensor | None) -> None:
        """Update by the last shard's loss and the shards of all ranks: gradients are
        sent while others are made."""
        filling, exchange = self._filling(1, joined=False)
        try:
            listener = filling.listener()
            begin = filling.begin if listener is None else listener.begin
            with listening(listener):
                arrays = self._gradients.arrays(root, begin)
        except BaseException as failure:
            exchange.break_off(failure)
            raise
        filling.share.buffers = self._statistics.made()
        filling.finish(arrays)
        self._update(exchange)

    # -- an update -----------------------------------------------------------------

    def _filling(self, count: int, joined: bool) -> tuple[Filling, GradientExchange]:
        """The share of this rank with `count` more shards, yet to be filled in, and the
        exchange of the update at hand, which begins when it is told to."""
        share = Share.empty(
            self.layout, self._statistics.absent, self._sums.count + count
        )
        exchange = GradientExchange(
            self.communicator, self.layout, share, self.updates, joined, capture(),
            partial(standing, self.optimizer),
        )  # fmt: skip
        return Filling(self.layout, self._sums, share, exchange), exchange

    def _joined(self) -> bool:
        """Take part in an update with the shards so far; whether all have joined."""
        filling, exchange = self._filling(0, joined=True)
        filling.begin({})
        filling.finish({})
        return self._update(exchange)

    def _update(self, exchange: GradientExchange) -> bool:
        """Exchange the shares and update; whether all ranks have joined."""
        share, ended = exchange.finish()
        self._sums.clear()
        if not share.count:
            return ended
        self._place_draws(self.shards)  # of the update: the same on all ranks
        self._statistics.take(share.buffers, share.count)
        self._apply(share)
        self.updates += 1
        return False

    def _apply(self, share: Share) -> None:
        """Have the optimizer make a step of the mean gradient."""
        scale = np.float64(1.0 / share.count)
        variables, gradients, numbers = [], list[Tensor](), list[int]()
        for k, place in enumerate(self.layout.places):
            p = place.variable
            if not share.used[k] or not p.trainable:
                continue
            if p.sparse:
                ids, values = (share.rows[n] for n in row_numbers(k))
                mean = constant_node(values * scale.astype(place.dtype))
                gradient = RowsToDense(p.shape[0])(constant_node(ids), mean)
            else:
                part = share.flat[place.dtype][place.start : place.stop]
                gradient = constant_node(part.reshape(p.shape))
            variables.append(p)
            gradients.append(gradient)
            numbers.append(k)
        with held_gradients(variables, gradients):
            if self._shards is None:
                self.optimizer.step()
            else:
                self._shards.step(share, numbers)

    @contextmanager
    def evaluating(self) -> Iterator[Callable[[int], None]]:
        """A function that has the next draws be those of an evaluated batch, by its
        number; after the block they are those of the next shard."""
        scope = modes.get().options.scope
        before = scope.count

        def place(batch: int) -> None:
            scope.count = _EVALUATED + batch * _DRAWS

        try:
            yield place
        finally:
            scope.count = before

    def _place_draws(self, shard: int | None = None) -> None:
        """Have the next draws be those of a shard, the next one of this rank: they
        follow from the count of updates and the shard alone."""
        if shard is None:
            shard = self._first + self._sums.count
        place = self.updates * (self.shards + 1) + shard + 1
        modes.get().options.scope.count = place * _DRAWS

    def __repr__(self) -> str:
        return f"DataParallel({self.optimizer!r}, shards={self.shards})"


def _parameters(
    optimizer: Optimizer, model: Module | None
) -> list[tuple[str, Variable]]:
    """The parameters with their names, the same on all ranks."""
    names = {} if model is None else {id(p): n for n, p in model.named_parameters()}
    listed = [group.parameters for group in optimizer.groups]
    if any(group is None for group in listed):
        if model is None:
            raise ArgumentError(
                "the optimizer lists no parameters, of which ranks agree before a step",
                hint="give the model: DataParallel(td.optim.Adam(), model)",
            )
        listed.append(list(model.parameters()))
    every = {id(p): p for group in listed for p in group or ()}
    return [(names.get(known, p.name), p) for known, p in every.items()]
