"""Batches: their order, their lengths, threads, positions; padding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle.base.errors import ArgumentError, DTypeError, ShapeError, StateError
from treadle.data import ArrayDataset, ListDataset, Loader, pad

WORDS = ListDataset(["a" * (1 + k * 7 % 5) + str(k) for k in range(23)])

SETTINGS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 6),
        "shuffle": st.booleans(),
        "drop_last": st.booleans(),
        "seed": st.integers(-3, 2**70),
        "length": st.sampled_from([None, len, lambda word: -len(word)]),
    }
)


def some(loader: Loader, count: int) -> list[Any]:
    """The next batches, over the ends of epochs; each loop is broken off."""
    taken: list[Any] = []
    while len(taken) < count:
        before = loader.epoch + (loader.position == len(loader))
        for batch in loader:
            taken.append(batch)
            if len(taken) == count:
                break
        else:
            assert loader.epoch == before + 1 and loader.position == 0
    return taken


def test_the_order_never_changes() -> None:
    """Anyone's saved position depends on these numbers."""
    loader = Loader(WORDS, 4, seed=5, length=len)
    found = [batch.tolist() for batch in loader.batches(2)]
    assert found == ORDER


ORDER = [
    [5, 0, 20, 3],
    [19, 2, 7, 14],
    [9, 16, 21, 4],
    [12, 22, 17],
    [10, 8, 15, 18],
    [13, 1, 6, 11],
]


@settings(deadline=None)
@given(SETTINGS, st.integers(1, 4), st.integers(0, 3))
def test_order_does_not_depend_on_prefetch(
    given: dict[str, Any], prefetch: int, epoch: int
) -> None:
    plain, ahead = Loader(WORDS, **given), Loader(WORDS, **given, prefetch=prefetch)
    plain.epoch = ahead.epoch = epoch
    batches = list(plain)
    assert list(ahead) == batches and len(batches) == len(plain)
    assert batches == [WORDS[numbers] for numbers in plain.batches(epoch)]
    size = given["batch_size"]
    flat = [word for batch in batches for word in batch]
    assert len(set(flat)) == len(flat)
    assert len(flat) == (23 // size * size if given["drop_last"] else 23)


@settings(deadline=None)
@given(SETTINGS, st.sampled_from([0, 2]), st.sampled_from([0, 3]), st.integers(0, 60))
def test_a_position_is_resumed_bit_for_bit(
    given: dict[str, Any], before: int, after: int, stop: int
) -> None:
    if given["drop_last"] and given["batch_size"] > 23:
        return
    whole = some(Loader(WORDS, **given), stop + 9)
    first = Loader(WORDS, **given, prefetch=before)
    assert some(first, stop) == whole[:stop]
    state = json.loads(json.dumps(first.state()))
    second = Loader(WORDS, **{**given, "seed": 0}, prefetch=after)
    second.restore(state)
    assert some(second, 9) == whole[stop:] == some(first, 9)


@given(st.integers(1, 6), st.integers(0, 9), st.booleans())
def test_batches_are_of_like_length(size: int, seed: int, drop: bool) -> None:
    loader = Loader(WORDS, size, seed=seed, drop_last=drop, length=len)
    first, second = list(loader), list(loader)
    spans = sorted((min(map(len, b)), max(map(len, b))) for b in first)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    if size < 6:
        assert first != second


def test_what_is_dropped_is_not_always_the_longest() -> None:
    kept = Loader(WORDS, 4, drop_last=True, length=len)
    dropped = set()
    for epoch in range(20):
        numbers = np.concatenate(kept.batches(epoch))
        dropped |= {len(WORDS[k]) for k in set(range(23)) - set(numbers.tolist())}
    assert len(dropped) >= 4


def test_pools_are_sorted_each_by_itself() -> None:
    data = ListDataset([[k % 10] * (k % 10) for k in range(40)])
    loader = Loader(data, 2, shuffle=False, length=len, pool=5)
    lengths = [len(x) for batch in loader for x in batch]
    assert lengths == list(range(10)) * 4
    mixed = Loader(data, 2, length=len, pool=2, seed=1).batches(0)
    assert sorted(np.concatenate(mixed).tolist()) == list(range(40))


class Named:
    def __init__(self, words: str) -> None:
        self.words = words


def test_lengths_by_field() -> None:
    words = ["ccc", "a", "bb"]
    numbers = np.array([[3, 1], [1, 2], [2, 3]])
    cases: list[tuple[Any, Any]] = [
        (ListDataset([(w, 0) for w in words]), 0),
        (ListDataset([{"words": w} for w in words]), "words"),
        (ListDataset([Named(w) for w in words]), "words"),
        (ListDataset(words), np.array([3, 1, 2])),
        (ListDataset(words), lambda word: len(word) / 2),
        (ArrayDataset(numbers), lambda example: example[0][0]),
    ]
    for data, length in cases:
        loader = Loader(data, 1, shuffle=False, length=length)
        assert [b.tolist() for b in loader.batches(0)] == [[1], [2], [0]]


def test_arrays_are_taken_by_arrays() -> None:
    x, y = np.arange(12).reshape(6, 2), np.arange(6)
    seen = []

    def transform(batch: tuple[Any, ...]) -> tuple[Any, ...]:
        seen.append(len(batch[0]))
        return batch[0] * 2, batch[1]

    data = ArrayDataset(x, y, transform=transform)
    for a, b in Loader(data, 4, prefetch=1):
        np.testing.assert_array_equal(a, x[b] * 2)
    assert seen == [4, 2]


def test_an_error_of_the_data_comes_at_its_batch() -> None:
    def collate(examples: list[int]) -> list[int]:
        if 5 in examples and broken:
            raise KeyError("five")
        return examples

    broken = True
    for prefetch in (0, 1, 3):
        broken = True
        data = ListDataset(list(range(8)), collate)
        loader = Loader(data, 2, shuffle=False, prefetch=prefetch)
        taken = []
        with pytest.raises(KeyError, match="five"):
            for batch in loader:
                taken.append(batch)
        assert taken == [[0, 1], [2, 3]] and loader.position == 2
        broken = False  # what failed is not lost
        assert list(loader) == [[4, 5], [6, 7]] and loader.epoch == 1


def test_one_iteration_at_a_time() -> None:
    for prefetch in (0, 2):
        loader = Loader(WORDS, 4, prefetch=prefetch)
        first = iter(loader)
        next(first)
        second = iter(loader)
        assert next(second) == WORDS[loader.batches(0)[1]]
        with pytest.raises(StateError, match="a later iteration"):
            next(first)
        loader.restore(Loader(WORDS, 4).state())
        with pytest.raises(StateError, match="make a second Loader"):
            next(second)
        assert loader.position == 0 and len(list(loader)) == 6


def test_a_loop_that_is_left_ends_its_thread() -> None:
    made = []

    def collate(examples: list[int]) -> list[int]:
        made.append(examples[0])
        return examples

    loader = Loader(ListDataset(list(range(100)), collate), 1, prefetch=3)
    for _ in loader:
        break
    del _
    assert len(made) <= 5 and loader.position == 1


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_loop_left_at_its_last_batch_is_followed_by_a_whole_epoch(
    prefetch: int, drop_last: bool
) -> None:
    loader = Loader(WORDS, 4, prefetch=prefetch, drop_last=drop_last, warm_up=2)
    for epoch in range(3):
        expected = [WORDS[numbers] for numbers in loader.batches(epoch)]
        taken: list[Any] = []
        for batch in loader:
            taken.append(batch)
            if len(taken) == len(loader):
                break
        assert taken == expected
    other = Loader(WORDS, 4, drop_last=drop_last, warm_up=2)
    other.restore(loader.state())
    assert list(other) == list(loader) and len(other) and other.epoch == 4


def test_an_empty_epoch() -> None:
    for data in (ListDataset([]), ArrayDataset(np.zeros((0, 3)))):
        loader = Loader(data, 3, length=len, prefetch=1)
        assert list(loader) == [] and len(loader) == 0 and loader.epoch == 1
    short = Loader(WORDS, 24, drop_last=True, length=len)
    assert list(short) == [] and len(short) == 0


def test_a_state_of_something_else_is_refused() -> None:
    loader = Loader(WORDS, 4, length=len)
    others: list[tuple[Loader, str]] = [
        (Loader(WORDS, 5, length=len), "batch_size=5"),
        (Loader(WORDS, 4), "lengths"),
        (Loader(WORDS, 4, length=lambda w: -len(w)), "lengths"),
        (Loader(WORDS, 4, length=len, shuffle=False), "shuffle=0"),
        (Loader(WORDS, 4, length=len, drop_last=True), "drop_last=1"),
        (Loader(WORDS, 4, length=len, pool=2), "pool=2"),
        (Loader(WORDS.take(np.arange(9)), 4, length=len), "examples=9"),
    ]
    for other, message in others:
        with pytest.raises(StateError, match=message):
            loader.restore(other.state())
    changes: list[dict[str, Any]] = [
        {"position": 7}, {"position": -1}, {"epoch": -1}, {"seed": "1"},
        {"epoch": None},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(StateError, match="not the state of a loader"):
            loader.restore({**loader.state(), **change})


def test_wrong_arguments() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": 0}, "batch_size is a positive"),
        ({"batch_size": True}, "batch_size is a positive"),
        ({"prefetch": -1}, "prefetch is a number of batches"),
        ({"pool": 1.5, "length": len}, "pool is a number of batches"),
        ({"pool": 3}, "pool goes with length"),
        ({"seed": 0.5}, "a seed is a whole number"),
        ({"length": np.zeros(3)}, r"23 examples have lengths float64\[3\]"),
        ({"length": lambda word: word}, "one number an example"),
        ({"length": "words"}, "a str, has no field 'words'"),
    ]
    for arguments, message in cases:
        with pytest.raises(ArgumentError, match=message):
            Loader(WORDS, **arguments)
    with pytest.raises(ArgumentError, match="ArrayDataset"):
        Loader(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="examples are a list, not generator"):
        ListDataset(x for x in "ab")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="array of numbers"):
        WORDS[np.array([0.5])]


class Squares:
    """A data set as torch's are: a length, and examples by number, from 0 on."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, number: int) -> tuple[int, int]:
        assert type(number) is int and 0 <= number < 7
        return number, number**2


def test_data_sets_of_other_libraries_are_lists() -> None:
    def columns(rows: list[Any]) -> list[Any]:
        return [np.stack(column) for column in zip(*rows, strict=True)]

    data = ListDataset(Squares(), columns)
    assert data[2:6:2][1].tolist() == [4, 16] and data[3] == (3, 9)
    batches = list(Loader(data, batch_size=3, shuffle=False))
    assert [y.tolist() for _, y in batches] == [[0, 1, 4], [9, 16, 25], [36]]
    assert sum(len(part) for part in data.split(0.3)) == 7
    with pytest.raises(ArgumentError, match="examples are a list, not dict"):
        ListDataset({0: "a"})


def test_lists_are_split_and_taken() -> None:
    train, held_out = WORDS.split(0.3, seed=2)
    assert sorted([*train[:], *held_out[:]]) == sorted(WORDS.examples)
    assert WORDS[np.int64(-1)] == WORDS[22] == WORDS.example(22)


# -- padding ---------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(-5, 5), max_size=6), max_size=5), st.integers(1, 4)
)
def test_padding(rows: list[list[int]], multiple: int) -> None:
    array, lengths = pad(rows, 9, multiple=multiple)
    assert array.dtype == lengths.dtype == np.int64
    assert [a[:n].tolist() for a, n in zip(array, lengths, strict=True)] == rows
    assert all((a[n:] == 9).all() for a, n in zip(array, lengths, strict=True))
    longest = max(map(len, rows), default=0)
    assert array.shape == (len(rows), -(-longest // multiple) * multiple)


PADDED: list[tuple[Sequence[Any], dict[str, Any], Any, str]] = [
    ([[1.5], [2.5, 1]], {}, [[1.5, 0], [2.5, 1]], "float64"),
    ([np.float32([1]), []], {"value": 0.1}, np.float32([[1], [0.1]]), "float32"),
    ([np.float32([1]), [2, 3]], {"dtype": "int8"}, [[1, 0], [2, 3]], "int8"),
    ([np.ones((1, 2)), np.zeros((0, 2))], {}, [[[1, 1]], [[0, 0]]], "float64"),
    ([[[1, 2]], []], {"value": 7}, [[[1, 2]], [[7, 7]]], "int64"),
    ([np.zeros(0, np.int8)], {"multiple": 2}, np.zeros((1, 0)), "int8"),
    ([[True], []], {"value": False}, [[True], [False]], "bool"),
    ([], {}, np.zeros((0, 0)), "int64"),
]


@pytest.mark.parametrize("sequences, given, expected, dtype", PADDED)
def test_padding_by_table(
    sequences: Any, given: dict[str, Any], expected: Any, dtype: str
) -> None:
    array, _ = pad(sequences, **given)
    np.testing.assert_array_equal(array, expected)
    assert array.dtype == dtype


def test_what_cannot_be_padded() -> None:
    cases: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
        ([1, 2], {}, ShapeError, "at least one axis"),
        ([["a", "b"]], {}, DTypeError, "a Vocabulary encodes"),
        ([[[1], [1, 2]]], {}, ShapeError, "of one shape"),
        ([[[1]], [[1, 2]]], {}, ShapeError, "not of one kind"),
        ([[1]], {"value": 0.5}, ArgumentError, "does not hold the value 0.5"),
        ([np.uint8([1])], {"value": -1}, ArgumentError, "does not hold the value -1"),
        ([[1]], {"multiple": 0}, ArgumentError, "multiple is a positive"),
    ]
    for sequences, arguments, error, message in cases:
        with pytest.raises(error, match=message):
            pad(sequences, **arguments)


def sizes(loader: Loader, epochs: int) -> list[list[int]]:
    return [[len(b) for b in loader.batches(e)] for e in range(epochs)]


def test_batches_grow_while_they_warm_up() -> None:
    data = ArrayDataset(np.arange(20))
    assert sizes(Loader(data, 6, warm_up=3), 2) == [[2, 4, 6, 6, 2], [6, 6, 6, 2]]
    whole = Loader(data, 6, warm_up=3, drop_last=True)
    assert sizes(whole, 2) == [[2, 4, 6, 6], [6, 6, 6]]
    slow = Loader(data, 8, warm_up=16)
    assert sizes(slow, 4) == [
        [1, 1, 2, 2, 3, 3, 4, 4], [5, 5, 6, 4], [7, 7, 6], [8, 8, 4],
    ]  # fmt: skip
    for epoch in range(4):
        slow.epoch = epoch
        assert len(slow) == len(slow.batches(epoch))
        assert sorted(np.concatenate(slow.batches(epoch)).tolist()) == [*range(20)]
    by_length = Loader(WORDS, 6, warm_up=3, length=len)
    assert sorted(map(len, by_length.batches(0))) == [2, 4, 5, 6, 6]


@settings(max_examples=50, deadline=None)
@given(SETTINGS, st.integers(0, 30), st.integers(0, 20))
def test_a_warm_up_goes_on_where_it_stood(
    chosen: dict[str, Any], warm_up: int, stop: int
) -> None:
    if len(WORDS) < chosen["batch_size"] and chosen["drop_last"]:
        return
    whole = some(Loader(WORDS, **chosen, warm_up=warm_up), stop + 5)
    first = Loader(WORDS, **chosen, warm_up=warm_up)
    some(first, stop)
    again = Loader(WORDS, **chosen, warm_up=warm_up)
    again.restore(json.loads(json.dumps(first.state())))
    for a, b in zip(some(again, 5), whole[stop:], strict=True):
        assert list(a) == list(b)


def test_another_warm_up_is_another_place() -> None:
    warm, plain = Loader(WORDS, 4, warm_up=3), Loader(WORDS, 4)
    for a, b in ((warm, plain), (plain, warm)):
        with pytest.raises(StateError, match="warm_up"):
            a.restore(b.state())
    assert "warm_up" not in plain.state(), "as older versions wrote it"
    with pytest.raises(ArgumentError, match="warm_up is a number of batches, not -1"):
        Loader(WORDS, 4, warm_up=-1)


@given(
    st.integers(0, 60), st.sampled_from([1, 2, 4, 8]), st.booleans(), st.integers(0, 3)
)
def test_ranks_share_the_batches_of_one(
    count: int, shards: int, drop_last: bool, epoch: int
) -> None:
    data = ListDataset(list(range(count)))
    chosen: dict[str, Any] = {"batch_size": 3, "drop_last": drop_last, "seed": 4}
    alone = Loader(data, **chosen, shard=(0, 1, shards))
    alone.epoch = epoch
    batches = [list(b) for b in alone]
    whole = [x.tolist() for x in Loader(data, **chosen).batches(epoch)]
    assert batches == whole[: len(whole) // shards * shards]
    for ranks in (1, 2, 4, 8):
        if shards % ranks:
            continue
        share = shards // ranks
        for rank in range(ranks):
            loader = Loader(data, **chosen, shard=(rank, ranks, shards))
            loader.epoch = epoch
            assert len(loader) == len(batches) // ranks
            own = [list(b) for b in loader]
            starts = range(rank * share, len(batches), shards)
            assert own == [b for k in starts for b in batches[k : k + share]]


def test_a_state_is_of_any_number_of_ranks() -> None:
    data = ListDataset(list(range(40)))
    loader = Loader(data, 2, shard=(1, 2, 4), seed=3)
    seen = iter(loader)
    for _ in range(2):
        next(seen)
    state = loader.state()
    alone = Loader(data, 2, shard=(0, 1, 4))
    alone.restore(state)
    assert alone.position == 4
    other = Loader(data, 2, shard=(1, 2, 4))
    other.restore(state)
    assert [list(b) for b in other] == [list(b) for b in seen]
    next(begun := iter(loader))
    with pytest.raises(StateError, match="of 2 batches of this rank 1"):
        loader.state()
    begun.close()
    with pytest.raises(StateError, match="shards=4, this has 2"):
        Loader(data, 2, shard=(0, 2)).restore(state)


@pytest.mark.parametrize("shard", [(2, 2), (0, 2, 3), (0,), (0, 0), (-1, 2), (1, 4, 2)])
def test_shards_that_are_none(shard: Any) -> None:
    with pytest.raises(ArgumentError, match="shard is"):
        Loader(ListDataset([1]), shard=shard)
