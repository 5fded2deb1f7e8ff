"""Batches in an order that follows from the seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, StateError
from treadle.data.dataset import ArrayDataset, permutation

__all__ = ["Loader"]

Array = np.ndarray[Any, Any]


class Loader:
    """Iterates over the batches of an epoch; the next iteration is the next epoch.

    A broken-off iteration goes on where it stopped, in this process or, through
    `state` and `restore`, in another.

    >>> data = ArrayDataset(np.arange(5))
    >>> loader = Loader(data, batch=2, shuffle=False)
    >>> [x.tolist() for (x,) in loader], loader.state()["epoch"]
    ([[0, 1], [2, 3], [4]], 1)
    """

    def __init__(
        self,
        dataset: ArrayDataset,
        batch: int = 32,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        seed: int = 0,
    ) -> None:
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ArgumentError(f"batch is a positive number of examples, not {batch}")
        self.dataset = dataset
        self.batch = batch
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.epoch = 0
        self.position = 0

    def __len__(self) -> int:
        """The batches of one epoch."""
        count = len(self.dataset)
        return count // self.batch if self.drop_last else -(-count // self.batch)

    def order(self, epoch: int) -> Array:
        """The examples of an epoch in the order they are taken."""
        count = len(self.dataset)
        if not self.shuffle:
            return np.arange(count)
        return permutation(count, self.seed, epoch)

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        order = self.order(self.epoch)
        while self.position < len(self):
            begin = self.position * self.batch
            # Before the batch is handed out: a state saved after it counts it.
            self.position += 1
            yield self.dataset[order[begin : begin + self.batch]]
        self.epoch += 1
        self.position = 0

    def state(self) -> dict[str, int]:
        """Where the loader stands, as integers: seed, epoch, batches taken, sizes."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "batch": self.batch,
            "examples": len(self.dataset),
        }

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on where the loader that gave `state` stood.

        Raises StateError if the data or the batch are not those it had.
        """
        expected = {"batch": self.batch, "examples": len(self.dataset)}
        for name, value in expected.items():
            if state.get(name) != value:
                raise StateError(
                    f"the loader stood at {name}={state.get(name)}, this has {value}"
                )
        numbers = [state.get(name) for name in ("seed", "epoch", "position")]
        if not all(isinstance(n, int) and n >= 0 for n in numbers):
            raise StateError(f"{dict(state)} is not the state of a loader")
        self.seed, self.epoch, self.position = (int(n or 0) for n in numbers)
