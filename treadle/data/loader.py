"""Batches in an order that follows from the seed and the epoch alone."""

from __future__ import annotations

import itertools
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import get_all_start_methods
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError, StateError
from treadle.data.dataset import Dataset, permutation
from treadle.data.workers import Task, Workers, make

Length = Callable[[Any], int] | int | str | Array

_BATCHES = 1 << 63  # the order of batches is drawn apart from that of examples


class Loader:
    """Iterates over the batches of an epoch; the next iteration is the next epoch.

    A broken-off iteration goes on where it stopped, in this process or, through
    `state` and `restore`, in another; behind the last batch that is the next epoch.

    With `length`, examples of like length share a batch, and the batches come in random
    order: a function of the example, the number or the name of the field whose length
    counts, or an array with one number an example. The whole epoch is sorted, or `pool`
    batches at a time. `prefetch` batches are made ahead by a thread. The first
    `warm_up` batches, counted through the epochs, grow linearly to `batch_size`.

    With `workers` as many processes make the batches, the same ones in the same order,
    and leave their arrays in shared memory; `prefetch` is then 2 a worker, if it is not
    said. `start` is "fork", "spawn" or "forkserver" (Python's choice, if it is not
    said): a fork has the data set as it is, the others are sent its pickle. They live
    for one iteration, `persistent` ones until `close()` or as long as the loader.

    `shard`, (rank, ranks) or (rank, ranks, shards), leaves the batches of one of
    several ranks: of each `shards` batches in order (one a rank, if it is not said) a
    rank takes as many neighbors as the others do. Batches over at the end of an epoch
    are left out, so that all ranks have as many, and 1, 2 and 4 ranks the same ones
    with the same `shards`. A state is one of all ranks, and of any number of them.

    >>> from treadle.data.dataset import ArrayDataset, ListDataset
    >>> loader = Loader(ArrayDataset(np.arange(5)), batch_size=2, shuffle=False)
    >>> [x.tolist() for (x,) in loader], loader.state()["epoch"]
    ([[0, 1], [2, 3], [4]], 1)
    >>> words = ListDataset("a hound an owl the cat".split())
    >>> list(Loader(words, batch_size=2, shuffle=False, length=len))
    [['a', 'an'], ['owl', 'the'], ['cat', 'hound']]
    >>> [w for w in Loader(words, batch_size=1, shuffle=False, shard=(1, 2, 4))]
    [['an'], ['owl']]
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 32,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
        length: Length | None = None,
        pool: int = 0,
        prefetch: int = 0,
        warm_up: int = 0,
        shard: Sequence[int] = (0, 1),
        workers: int = 0,
        start: str | None = None,
        persistent: bool = False,
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise ArgumentError(
                f"a loader takes a data set, not {type(dataset).__name__}",
                hint="td.data.ArrayDataset(x, y), or td.data.ListDataset(examples, "
                "collate) of what gives examples by number",
            )
        if not _is_count(batch_size, 1):
            raise ArgumentError(
                f"batch_size is a positive number of examples, not {batch_size!r}"
            )
        counts = ("pool", pool), ("prefetch", prefetch), ("warm_up", warm_up)
        for name, value in counts:
            if not _is_count(value, 0):
                raise ArgumentError(f"{name} is a number of batches, not {value!r}")
        if not _is_count(workers, 0):
            raise ArgumentError(f"workers is a number of processes, not {workers!r}")
        if start not in (None, *(methods := get_all_start_methods())):
            raise ArgumentError(
                f"start is one of {', '.join(methods)} here, not {start!r}"
            )
        if pool and length is None:
            raise ArgumentError("pool goes with length")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ArgumentError(f"a seed is a whole number, not {seed!r}")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.pool = pool
        self.prefetch = prefetch
        self.warm_up = warm_up
        self.workers = workers
        self.start = start
        self.persistent = persistent
        self._workers: Workers | None = None
        self._rank, self._share, self._shards = _part(shard)
        self.epoch = 0
        self.position = 0
        self._lengths = None if length is None else _lengths(dataset, length)
        lengths = b"" if self._lengths is None else self._lengths.tobytes()
        self._checksum = zlib.crc32(lengths)
        self._iteration = 0  # counts iterations and restores: only the last may go on

    @property
    def shards(self) -> int:
        """The batches, one after the other, that ranks share out; 1 without ranks."""
        return self._shards

    def number(self, position: int) -> int:
        """The number of this rank's batch at a position, among those of all ranks."""
        update, offset = divmod(position, self._share)
        return update * self._shards + self._rank * self._share + offset

    def __len__(self) -> int:
        """The batches of the epoch at which it stands."""
        return self._sizes(self.epoch)[1] // self._shards * self._share

    def _growing(self, first: int) -> list[int]:
        """The sizes of batches of an epoch, the first of all by this number, until they
        have grown or the examples end."""
        sizes, left = list[int](), len(self.dataset)
        for k in range(first, self.warm_up):
            size = -(-self.batch_size * (k + 1) // self.warm_up)
            if not left or (left < size and self.drop_last):
                break
            sizes.append(min(left, size))
            left -= sizes[-1]
        return sizes

    def _sizes(self, epoch: int) -> tuple[list[int], int]:
        """The sizes of an epoch's batches that grow, and how many it has in all."""
        first = 0
        for _ in range(epoch):
            if first >= self.warm_up:
                break
            first += len(self._growing(first))
        growing = self._growing(first)
        if first + len(growing) < self.warm_up:
            return growing, len(growing)
        left, size = len(self.dataset) - sum(growing), self.batch_size
        more = left // size if self.drop_last else -(-left // size)
        return growing, len(growing) + more

    def batches(self, epoch: int) -> list[Array]:
        """The examples of an epoch by their numbers, batch by batch."""
        count, size = len(self.dataset), self.batch_size
        if self.shuffle:
            order = permutation(count, self.seed, epoch)
        else:
            order = np.arange(count)
        growing, many = self._sizes(epoch)
        cuts = list(itertools.accumulate(growing, initial=0))
        if self.drop_last:  # before sorting: it would always be the longest
            order = order[: cuts[-1] + (many - len(growing)) * size]
        if self._lengths is not None:
            pool = np.arange(len(order)) // (self.pool * size or max(1, count))
            order = order[np.lexsort((self._lengths[order], pool))]
        batches = [order[a:b] for a, b in itertools.pairwise(cuts)]
        batches += [order[k : k + size] for k in range(cuts[-1], len(order), size)]
        if self._lengths is not None and self.shuffle:
            shuffled = permutation(len(batches), self.seed, _BATCHES + epoch)
            batches = [batches[k] for k in shuffled]
        return batches

    def __iter__(self) -> Iterator[Any]:
        self._iteration += 1
        return self._from_here(self._iteration)

    def _from_here(self, iteration: int) -> Iterator[Any]:
        self._check_iteration(iteration)
        if self.position and self.position == len(self):
            self.epoch, self.position = self.epoch + 1, 0
        keys = [
            ((self.seed, self.epoch, number), examples)
            for number, examples in enumerate(self.batches(self.epoch))
        ]
        batches = self._made(self._own(keys)[self.position :])
        for position, batch in enumerate(batches, self.position + 1):
            # Before the batch is handed out: a state saved after it counts it.
            self.position = position
            yield batch
            self._check_iteration(iteration)
        self.epoch += 1
        self.position = 0

    def _own(self, batches: list[Task]) -> list[Task]:
        """The batches of this rank among those of all."""
        ends = range(self._shards, len(batches) + 1, self._shards)
        first = self._rank * self._share - self._shards
        starts = [end + first for end in ends]
        return [x for k in starts for x in batches[k : k + self._share]]

    def _made(self, left: Sequence[Task]) -> Iterator[Any]:
        """The batches in their order, here, by a thread or by processes."""
        if self.workers and left:
            return self._made_by_workers(left)
        if self.prefetch:
            return self._made_ahead(left)
        return (make(self.dataset, task) for task in left)

    def _made_ahead(self, left: Sequence[Task]) -> Iterator[Any]:
        """The batches in their order, of which a thread makes a few ahead."""
        waiting: deque[Future[Any]] = deque()
        thread = ThreadPoolExecutor(1, "treadle-loader")
        try:
            for task in left:
                waiting.append(thread.submit(make, self.dataset, task))
                if len(waiting) > self.prefetch:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # Not waited for: the collector may end this in that very thread.
            thread.shutdown(wait=False, cancel_futures=True)

    def _made_by_workers(self, left: Sequence[Task]) -> Iterator[Any]:
        """The batches in their order, made by processes."""
        if self._workers is None or not self._workers.alive:
            self._workers = Workers(self.dataset, self.workers, self.start)
        workers = self._workers
        try:
            yield from workers.batches(left, self.prefetch or 2 * self.workers)
        finally:
            if not self.persistent:
                workers.close()

    def close(self) -> None:
        """End the workers, which the next iteration starts anew."""
        if self._workers is not None:
            self._workers.close()

    def _check_iteration(self, iteration: int) -> None:
        if iteration != self._iteration:
            raise StateError(
                "a later iteration or restore ended this one",
                hint="a loader stands at one place: make a second Loader",
            )

    # -- what is kept --------------------------------------------------------------

    def _kind(self) -> dict[str, int]:
        """The settings that must agree for a position to mean the same."""
        return {
            "examples": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": int(self.shuffle),
            "drop_last": int(self.drop_last),
            "pool": self.pool,
            "lengths": self._checksum,
            **({"warm_up": self.warm_up} if self.warm_up else {}),
            **({"shards": self._shards} if self._shards > 1 else {}),
        }

    def state(self) -> dict[str, int]:
        """The position of the loader as integers: seed, epoch, batches taken, sizes."""
        updates, rest = divmod(self.position, self._share)
        if rest:
            raise StateError(
                f"of {self._share} batches of this rank {rest} are taken",
                hint="save where all ranks have taken as many",
            )
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": updates * self._shards,
            **self._kind(),
        }

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on where the loader that gave `state` stood.

        Raises StateError if the data or the batches are not those it had.
        """
        kinds = {"warm_up": None, "shards": None, **self._kind()}
        for name, value in kinds.items():
            if state.get(name) != value:
                raise StateError(
                    f"the loader stood at {name}={state.get(name)}, this has {value}",
                    hint="make the loader with the arguments it had",
                )
        seed, epoch, position = (state.get(n) for n in ("seed", "epoch", "position"))
        if (
            not isinstance(seed, int)
            or not isinstance(epoch, int)
            or not isinstance(position, int)
            or not (epoch >= 0 and 0 <= position <= self._sizes(epoch)[1])
            or position % self._shards
        ):
            raise StateError(f"{dict(state)} is not the state of a loader")
        self.seed, self.epoch = seed, epoch
        self.position = position // self._shards * self._share
        self._iteration += 1


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _part(shard: Sequence[int]) -> tuple[int, int, int]:
    """The rank, its batches of each `shards`, and these, of (rank, ranks[, shards])."""
    parts = tuple(shard)
    if len(parts) == 2:
        parts = (*parts, parts[1])
    good = len(parts) == 3 and _is_count(parts[0], 0) and _is_count(parts[1], 1)
    if not good or not parts[0] < parts[1] <= parts[2] or parts[2] % parts[1]:
        raise ArgumentError(
            f"shard is (rank, ranks) or (rank, ranks, shards), not {shard!r}",
            hint="ranks divide shards: shard=(td.distributed.rank(), "
            "td.distributed.size(), 8)",
        )
    rank, ranks, shards = parts
    return rank, shards // ranks, shards


def _lengths(dataset: Dataset, length: Length) -> Array:
    """The length of each example: int64, or float64 where a function gives floats."""
    if isinstance(length, np.ndarray):
        lengths = length
    elif callable(length):
        lengths = np.array([length(dataset.example(k)) for k in range(len(dataset))])
    else:
        lengths = np.array(
            [len(_field(dataset.example(k), length)) for k in range(len(dataset))]
        )
    if lengths.shape != (len(dataset),) or lengths.dtype.kind not in "biuf":
        raise ArgumentError(
            f"{len(dataset)} examples have lengths "
            f"{lengths.dtype}{list(lengths.shape)}",
            hint="length gives one number an example",
        )
    return lengths.astype(np.float64 if lengths.dtype.kind == "f" else np.int64)


def _field(example: Any, name: int | str) -> Any:
    """The field of an example: an item of a tuple or a dict, or an attribute."""
    try:
        if isinstance(name, str) and not isinstance(example, Mapping):
            return getattr(example, name)
        return example[name]
    except (AttributeError, LookupError, TypeError) as problem:
        raise ArgumentError(
            f"an example, a {type(example).__name__}, has no field {name!r}",
            hint="length takes a function of the example as well",
        ) from problem
