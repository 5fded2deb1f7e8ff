"""Examples: rows of arrays, or objects in a list; sequences as one array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, DTypeError, ShapeError

Batch = tuple[Array, ...]


def permutation(count: int, seed: int, number: int) -> Array:
    """The order numbered `number` of `count` examples under a seed.

    It follows from the two integers alone: no generator has a state to save.

    >>> sorted(permutation(4, seed=0, number=1).tolist())
    [0, 1, 2, 3]
    """
    key = np.array([seed % 2**64, number % 2**64], np.uint64)
    bits = np.random.Philox(key=key).random_raw(count)
    return np.argsort(bits, kind="stable")


@dataclass(frozen=True)
class ScaleFirst:
    """Makes the first array of a batch float32 and multiplies it by a factor.

    >>> ScaleFirst(0.5)((np.array([2, 4], np.uint8), np.array([0, 1])))[0]
    array([1., 2.], dtype=float32)
    """

    factor: float

    def __call__(self, batch: Batch) -> Batch:
        return batch[0].astype(np.float32) * np.float32(self.factor), *batch[1:]


class Dataset(ABC):
    """A number of examples; an array of their numbers gives a batch."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Any: ...

    @abstractmethod
    def example(self, number: int) -> Any:
        """One example as it is kept."""

    @abstractmethod
    def take(self, index: Array) -> Self:
        """The data set of these examples."""

    def split(self, held_out: float = 0.2, seed: int = 0) -> tuple[Self, Self]:
        """Two data sets: for training, and the share held out, chosen by the seed.

        >>> [len(part) for part in ArrayDataset(np.zeros(10)).split(0.3)]
        [7, 3]
        """
        if not 0 < held_out < 1:
            raise ArgumentError(f"held_out is a share between 0 and 1, not {held_out}")
        order = permutation(len(self), seed, 0)
        count = round(len(self) * held_out)
        return self.take(np.sort(order[count:])), self.take(np.sort(order[:count]))


class ArrayDataset(Dataset):
    """Examples as rows of arrays; `transform` is applied to each batch taken.

    >>> data = ArrayDataset(np.arange(6).reshape(3, 2), np.array([0, 1, 0]))
    >>> len(data), data[np.array([2, 0])]
    (3, (array([[4, 5],
           [0, 1]]), array([0, 0])))
    """

    def __init__(
        self, *arrays: Array, transform: Callable[[Batch], Batch] | None = None
    ) -> None:
        if not arrays or any(a.ndim == 0 for a in arrays):
            raise ShapeError("a data set needs arrays with at least one dimension")
        if len({len(a) for a in arrays}) > 1:
            lengths = ", ".join(str(len(a)) for a in arrays)
            raise ShapeError(f"arrays of {lengths} examples do not go together")
        self.arrays = arrays
        self.transform = transform

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: Any) -> Batch:
        batch = tuple(array[index] for array in self.arrays)
        return batch if self.transform is None else self.transform(batch)

    def example(self, number: int) -> Batch:
        """The rows of one example, not transformed."""
        return tuple(array[number] for array in self.arrays)

    def take(self, index: Array) -> Self:
        """The data set of these examples."""
        rows = (array[index] for array in self.arrays)
        return type(self)(*rows, transform=self.transform)


class Examples(Protocol):
    """Examples by number: a list, or a data set of another library."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


class ListDataset(Dataset):
    """Examples of any kind; `collate` makes a batch of a list of them.

    They are a list, or whatever has a length and gives examples by number, as torch's
    data sets do. An array or a slice gives a batch, a number the example itself. With
    `prefetch` the Loader calls `collate` in its thread, so it should make NumPy arrays.

    >>> data = ListDataset(["a", "bc", "def"], collate="+".join)
    >>> len(data), data[1], data[np.array([2, 0])], data[:2]
    (3, 'bc', 'def+a', 'a+bc')
    """

    def __init__(
        self, examples: Examples, collate: Callable[[list[Any]], Any] = list
    ) -> None:
        numbered = hasattr(examples, "__len__") and hasattr(examples, "__getitem__")
        if not numbered or isinstance(examples, Mapping):
            raise ArgumentError(
                f"examples are a list, not {type(examples).__name__}",
                hint="list(...) makes one of a reader; arrays go into ArrayDataset",
            )
        self.examples = examples
        if not callable(collate):
            raise ArgumentError(f"collate is a function of a list, not {collate!r}")
        self.collate = collate

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (int, np.integer)):
            return self.examples[int(index)]
        if isinstance(index, slice):
            index = range(*index.indices(len(self)))
        return self.collate([self.examples[k] for k in _numbers(index)])

    def example(self, number: int) -> Any:
        """One example as it stands in the list."""
        return self.examples[number]

    def take(self, index: Array) -> Self:
        """The data set of these examples."""
        return type(self)([self.examples[k] for k in _numbers(index)], self.collate)


def _numbers(index: Any) -> list[int]:
    """Whole numbers from an array, as NumPy would use it to index."""
    array = np.asarray(whole(index))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ArgumentError(f"examples are taken by an array of numbers, not {index!r}")
    return array.astype(np.int64).tolist()


@dataclass(frozen=True)
class Images:
    """Labeled images, those to train on and those held out.

    `shape` is (channels, height, width) of one image.
    """

    name: str
    train: ArrayDataset
    held_out: ArrayDataset
    shape: tuple[int, ...]
    classes: int


def pad(
    sequences: Sequence[Any], value: Any = 0, *, multiple: int = 1, dtype: Any = None
) -> tuple[Array, Array]:
    """One row a sequence, filled up with `value`, and the lengths as int64.

    Rows are as long as the longest sequence, rounded up to a `multiple`. The
    elements may be rows themselves, of one shape. The dtype is that of the sequences.

    >>> array, lengths = pad([[1, 2, 3], [4]], value=-1)
    >>> array.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, -1, -1]], [3, 1])
    """
    if not isinstance(multiple, int) or multiple < 1:
        raise ArgumentError(f"multiple is a positive whole number, not {multiple!r}")
    try:
        arrays = [np.asarray(whole(sequence)) for sequence in sequences]
    except ValueError as problem:
        raise ShapeError("the elements of a sequence are of one shape") from problem
    if any(array.ndim == 0 for array in arrays):
        raise ShapeError("a sequence has at least one axis", hint="pad([[1, 2], [3]])")
    # An empty list says nothing of the dtype and shape of its elements.
    full = [array for array in arrays if len(array)]
    typed = full or [s for s in sequences if isinstance(s, np.ndarray)]
    shapes = {array.shape[1:] for array in typed}
    if len(shapes) > 1:
        raise ShapeError(f"elements of shapes {sorted(shapes)} are not of one kind")
    (shape,) = shapes or {()}
    wanted = np.result_type(*typed) if typed else np.dtype(np.int64)
    if dtype is not None:
        wanted = np.dtype(dtype)
    elif wanted.kind not in "biufc":
        raise DTypeError(
            f"sequences of {wanted} hold no numbers",
            hint="a Vocabulary encodes words as numbers",
        )
    lengths = np.array([len(array) for array in arrays], np.int64)
    longest = -(-int(lengths.max(initial=0)) // multiple) * multiple
    padded = np.full((len(arrays), longest, *shape), _filler(value, wanted), wanted)
    if full:
        padded[np.arange(longest) < lengths[:, None]] = np.concatenate(full)
    return padded, lengths


def _filler(value: Any, dtype: np.dtype[Any]) -> Array:
    """The value in a dtype; whole numbers take no other."""
    filler = np.asarray(value).astype(dtype)
    if dtype.kind in "biu" and filler != value:
        raise ArgumentError(f"{dtype} does not hold the value {value!r}")
    return filler
