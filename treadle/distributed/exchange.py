"""The exchange of one update: each rank's share in, the sum of all shares out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import int64
from treadle.distributed.communicator import Communicator, DistributedError
from treadle.distributed.fixed import all_reduce, gather_parts, reduce_part
from treadle.distributed.layout import Bucket, GradientLayout, Place
from treadle.distributed.share import Buffers, Rows, Share, row_numbers
from treadle.graph.origin import Origin, describe
from treadle.graph.variable import Variable
from treadle.runtime.store import store


class GradientExchange:
    """The exchange of one update, bucket by bucket in the order of the layout, while
    the gradients of later ones are made: a thread of its own carries it out.

    The `share` of this rank says what it uses, and is filled in meanwhile. Ranks that
    stand at different updates, or are to update otherwise, are told:
    `standing` tells a number of what decides it.
    """

    def __init__(
        self,
        comm: Communicator,
        layout: GradientLayout,
        share: Share,
        update: int,
        joined: bool,
        origin: Origin = (None, 0),
        standing: Callable[[], int] = int,
    ) -> None:
        self.comm, self.layout, self.share = comm, layout, share
        self.channel = comm.channel("treadle-exchange") if comm.size > 1 else None
        self.update, self.joined, self.origin = update, joined, origin
        self.begun = False
        self.sent = 0  # buckets, in their order
        self._there: set[int] = set()
        self._used, self._count = share.used, share.count
        self._ended = joined
        self._standing = standing() if self.channel is not None else 0
        self._trainable = np.array([x.variable.trainable for x in layout.places], bool)

    def put(self, number: int) -> None:
        """The share's gradients of a bucket are there, for good."""
        if number < self.sent or number in self._there:
            return  # a run that was done again
        self._there.add(number)
        while self.sent in self._there:
            self._send(self.layout.buckets[self.sent])
            self.sent += 1

    def finish(self) -> tuple[Share, bool]:
        """The mean gradients, sums of all else, of all ranks, and whether all of them
        have joined: none has a batch any more. The share is whole now."""
        for number in range(self.sent, len(self.layout.buckets)):
            self.put(number)
        self._begin()
        self._queue(self._rest)
        if self.channel is not None:
            self.channel.finish()
        return self.share, self._ended

    def break_off(self, failure: BaseException) -> None:
        """Have later exchanges fail: other ranks wait for what this one has begun."""
        if self.begun and self.channel is not None:
            self.channel.break_off(failure)

    def _queue(self, action: Any) -> None:
        if self.channel is None:
            action(self.comm)
        else:
            self.channel.begin(action, self.origin)

    def _begin(self) -> None:
        """Have the ranks, if there are others, say where they stand before all else."""
        if not self.begun:
            self.begun = True
            if self.channel is not None:
                self._queue(self._meet)

    def _meet(self, comm: Communicator) -> None:
        numbers = self.update, self._count, self.joined, self.layout.digest
        heads = comm.all_gather(np.array([*numbers, self._standing], np.int64))
        flags = comm.all_gather(np.packbits(np.stack([self._used, self._trainable])))
        count = len(self._used)
        bits = np.unpackbits(flags, axis=1, count=2 * count) > 0
        used, trainable = bits[:, :count], bits[:, count:]
        try:
            _check(heads)
            self._check_trainable(trainable)
        except DistributedError as error:
            raise error.located("step", where=describe(self.origin)) from None
        self._count, self._ended = int(heads[:, 1].sum()), bool(heads[:, 2].all())
        self._used = np.any(used, axis=0)

    def _check_trainable(self, trainable: Array) -> None:
        """Raise where a rank has frozen what others have not."""
        for rank, place in np.argwhere(trainable != trainable[0])[:1]:
            raise DistributedError(
                f"rank {rank} differs from rank 0: {self.layout.places[place].name} is "
                f"{'' if trainable[rank, place] else 'not '}trainable there",
                hint="freeze parameters on all ranks, between the same two updates",
            )

    def _send(self, bucket: Bucket) -> None:
        """Have a bucket exchanged."""
        self._begin()
        flat = self.share.flat[bucket.dtype][bucket.start : bucket.stop]
        self._queue(lambda comm: self._exchange(comm, bucket, flat))

    def _exchange(self, comm: Communicator, bucket: Bucket, flat: Array) -> None:
        if not self._used[list(bucket.numbers)].any():
            return
        parts = bucket.parts(flat)
        reduce_part(comm, parts)
        part = parts[comm.rank]
        if self._count > 1:
            with np.errstate(all="ignore"):  # between gradients there is anything
                np.multiply(part, part.dtype.type(1.0 / self._count), out=part)
        if not self.layout.sharded:
            gather_parts(comm, parts)

    def _rest(self, comm: Communicator) -> None:
        """Exchange what is not in buckets: rows and statistics."""
        total = self.share
        total.count, total.used = self._count, self._used
        if comm.size == 1 or not self._count:
            return
        rows: Rows = {}
        for k, place in enumerate(self.layout.places):
            if self._used[k] and place.variable.sparse:
                rows |= _rows(comm, total.rows, k, place)
        buffers = Buffers(
            all_reduce(comm, total.buffers.floats),
            all_reduce(comm, total.buffers.integers, "max"),
        )
        total.rows, total.buffers = rows, buffers


def _check(heads: Array) -> None:
    """Raise unless all ranks are at one update, of one layout."""
    for k, (update, _, _, digest, standing) in enumerate(heads):
        if update != heads[0, 0]:
            raise DistributedError(
                f"rank {k} is at update {update}, rank 0 at update {heads[0, 0]}",
                hint="ranks begin from the same checkpoint, and each calls step() for "
                "each of its shards",
            )
        if digest != heads[0, 3]:
            raise DistributedError(
                f"rank {k} has other parameters than rank 0 had at the start"
            )
        if standing != heads[0, 4]:
            raise DistributedError(
                f"rank {k} has another learning rate or another seed than rank 0",
                hint="set lr and seed on all ranks, between the same two updates",
            )


def _rows(comm: Communicator, rows: Rows, k: int, place: Place) -> Rows:
    """The rows of one parameter's gradient on all ranks, in the order of these."""
    received = []
    for n, dtype in zip(row_numbers(k), (int64, place.dtype), strict=True):
        x = rows.get(n, np.zeros(0)).astype(dtype, copy=False)
        received.append(np.frombuffer(b"".join(comm.messages(x.tobytes())), dtype))
    ids, values = received
    values = values.reshape(len(ids), *place.variable.shape[1:])
    return dict(zip(row_numbers(k), (ids, values), strict=True))


def send_variables(comm: Communicator, variables: Sequence[Variable]) -> None:
    """Give Variables the values that they have on rank 0."""
    if comm.size == 1:
        return
    store([(v, comm.broadcast(np.asarray(v.numpy()), 0)) for v in variables])
