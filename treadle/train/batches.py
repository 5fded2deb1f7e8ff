"""Inputs of fit, evaluate and predict: arrays, data sets, loaders, any iterable."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.options import current
from treadle.data.dataset import ArrayDataset, Dataset
from treadle.data.loader import Loader
from treadle.graph.tensor import Tensor

Batch = tuple[Any, Any, Any]


class Batches:
    """Batches (inputs, targets, weights), epoch after epoch; missing ones are None.

    Arrays become a data set whose order follows from `seed` and the epoch; those of
    float64 take the dtype that td.options(dtype=) gives to new floats. Of these a rank
    takes its `shard`, as a Loader says; a Loader or an iterable has its own.
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        weight: Any = None,
        batch_size: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        shard: Sequence[int] = (0, 1),
    ) -> None:
        self.loader: Loader | None = None
        self._structure: Any = None
        self._given: Iterable[Any] = ()
        if _is_stream(x) and not (y is None and weight is None):
            raise ArgumentError(
                f"targets and weights come with the batches of {type(x).__name__}"
            )
        if isinstance(x, Loader):
            self.loader = x
        elif isinstance(x, Dataset):
            self.loader = Loader(x, batch_size, shuffle=shuffle, seed=seed, shard=shard)
        elif _is_stream(x):
            self._given = x
        else:
            leaves, self._structure = trees.flatten((x, y, weight))
            data = ArrayDataset(*(_floats(_array(leaf)) for leaf in leaves))
            self.loader = Loader(
                data, batch_size, shuffle=shuffle, seed=seed, shard=shard
            )

    @property
    def count(self) -> int | None:
        """The batches of an epoch, if that is known."""
        if self.loader is not None:
            return len(self.loader)
        return len(self._given) if isinstance(self._given, Sized) else None

    def epoch(self, position: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from a position on; a loader knows its own."""
        if self.loader is not None:
            return map(self._unpacked, self.loader)
        one_pass = iter(self._given) is self._given
        begin = 0 if one_pass else position
        return map(self._unpacked, itertools.islice(self._given, begin, None))

    def share(
        self, rank: int, ranks: int, steps: int | None = None
    ) -> Iterator[tuple[int, Batch]]:
        """One rank's part of the first `steps` batches, with their numbers: each
        `ranks`-th, or those of a loader that has a shard."""
        loader = self.loader
        if loader is not None and loader.shards > 1:
            every = map(loader.number, itertools.count())
            numbers = itertools.takewhile(lambda n: steps is None or n < steps, every)
            yield from zip(numbers, self.epoch(), strict=False)
            return
        for number, batch in enumerate(itertools.islice(self.epoch(), steps)):
            if number % ranks == rank:
                yield number, batch

    def _unpacked(self, batch: Any) -> Batch:
        if self._structure is not None:
            return trees.unflatten(self._structure, list(batch))
        return parts_of(batch)


def parts_of(batch: Any) -> Batch:
    """Inputs, targets and weights of a batch: a tuple of one to three, or the inputs.

    >>> parts_of((1, 2)), parts_of([1, 2])
    ((1, 2, None), ([1, 2], None, None))
    """
    if not isinstance(batch, tuple):
        return batch, None, None
    if not 1 <= len(batch) <= 3:
        raise ArgumentError(
            f"a batch is (inputs, targets, weights), not {len(batch)} things",
            hint="put several inputs or targets into a list or a dict",
        )
    return (*batch, *(None,) * (3 - len(batch)))


def by_class(batch: Batch, classes: Mapping[int, float] | None) -> Batch:
    """A batch whose examples count as their classes do, times their own weights.

    Whole-number targets are classes, others a row of numbers for each example, whose
    greatest tells the class, or one that is rounded. A class without a weight has 1.

    >>> by_class((None, np.array([0, 1, 2]), None), {1: 3.0})[2].tolist()
    [1.0, 3.0, 1.0]
    """
    if classes is None:
        return batch
    inputs, target, weight = batch
    for label, value in classes.items():
        known = isinstance(label, (int, np.integer)) and not isinstance(label, bool)
        if not known or not 0.0 <= float(value) < float("inf"):
            raise ArgumentError(
                f"class_weight has weights by class, not {label!r}: {value!r}",
                hint="{0: 1.0, 1: 5.0}",
            )
    if not (isinstance(target, (np.ndarray, Tensor)) and target.ndim):
        raise ArgumentError(
            f"class_weight goes with an array of classes, not {type(target).__name__}",
            hint="give sample_weight",
        )
    labels = _array(target)
    if labels.dtype.kind == "f":
        rows = labels.ndim > 1 and labels.shape[-1] > 1
        labels = labels.argmax(-1) if rows else np.rint(labels)
    if labels.ndim > 1 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    weights = np.ones(labels.shape, current().dtype)
    for label, value in classes.items():
        weights[labels == label] = value
    if weight is not None:
        each = _array(weight)
        weights = weights * each.reshape(each.shape + (1,) * (weights.ndim - each.ndim))
    return inputs, target, weights


def held_out(
    x: Any, y: Any, weight: Any, share: float
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Arrays or a data set without the last `share` of the examples, and these."""
    if not 0.0 < share < 1.0:
        raise ArgumentError(f"validation_split is between 0 and 1, not {share}")
    if isinstance(x, Dataset):
        first, last = _ranges(len(x), share)
        return (x.take(first), None, None), (x.take(last), None, None)
    if _is_stream(x):
        raise ArgumentError(
            f"validation_split needs arrays or a data set, not {type(x).__name__}",
            hint="give validation_data",
        )
    leaves, structure = trees.flatten((x, y, weight))
    arrays = [_array(leaf) for leaf in leaves]
    first, last = _ranges(len(arrays[0]), share)
    begin = trees.unflatten(structure, [a[: len(first)] for a in arrays])
    return begin, trees.unflatten(structure, [a[len(first) :] for a in arrays])


def _ranges(count: int, share: float) -> tuple[Array, Array]:
    kept = count - round(count * share)
    if not 0 < kept < count:
        raise ArgumentError(f"{share} of {count} examples leaves one side empty")
    return np.arange(kept), np.arange(kept, count)


def _is_stream(x: Any) -> bool:
    """Whether x makes batches, rather than being one array or several."""
    arrays = isinstance(x, (np.ndarray, Tensor, list, tuple, dict))
    if arrays or hasattr(x, "__array__"):
        return False
    return isinstance(x, (Dataset, Iterable))


def _array(leaf: Any) -> Array:
    array = leaf.numpy() if isinstance(leaf, Tensor) else np.asarray(whole(leaf))
    if array.ndim == 0:
        raise ShapeError(
            f"an array of examples has a first dimension, {leaf!r} has none",
            hint="lists hold the arrays of several inputs: np.array(...) makes one",
        )
    return array


def _floats(array: Array) -> Array:
    return array.astype(current().dtype) if array.dtype == np.float64 else array


def size_of(batch: Batch) -> int:
    """The examples of a batch: the length of its first array, or of a list."""
    leaves, _ = trees.flatten(batch[0])
    shape = getattr(leaves[0], "shape", None) if leaves else None
    if shape:
        return int(shape[0])
    return len(batch[0]) if isinstance(batch[0], list) else 1
