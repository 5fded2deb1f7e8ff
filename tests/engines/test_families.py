"""Programs for extents never seen: by laws of what was compiled, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import engine
from treadle.engines.native import families
from treadle.program.even import Uneven, fit, same

F = td.nn.functional
Graph = Callable[[int], Sequence[Any]]


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with td.options(engine="native"):
        td.clear_cache()
        yield


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The places of the programs that are compiled, as they are."""
    own: Any = engine("native")
    found: list[int] = []
    make = own._compile

    def counted(wanted: Any) -> Any:
        found.append(len(wanted.made.nodes))
        return make(wanted)

    monkeypatch.setattr(own, "_compile", counted)
    return found


def values(graph: Graph, n: int) -> list[Any]:
    found = td.evaluate(*graph(n))
    return list(found) if isinstance(found, tuple) else [found]


def data(n: int, *more: int) -> Any:
    drawn = np.random.default_rng(n).standard_normal((n, *more))
    return drawn.astype(np.float32)


def labels(n: int, classes: int) -> Any:
    return np.random.default_rng(n).integers(0, classes, n)


def gradient(y: Any, *xs: Any) -> list[Any]:
    return [y, *td.grad(y, list(xs))]


def cross_entropy(reduction: str) -> Graph:
    def graph(n: int) -> Sequence[Any]:
        x = td.asarray(data(n, 15))
        y = F.cross_entropy(x * 1.5, labels(n, 15), reduction=reduction)
        return gradient(y, x)

    return graph


def variance(n: int) -> Sequence[Any]:
    x = td.asarray(data(n, 6))
    return gradient((td.var(x, 0, correction=1) + td.std(x, 0)).sum(), x)


def product(n: int) -> Sequence[Any]:
    x, w = td.asarray(data(n, 20)), td.asarray(data(20, 11))
    return gradient(td.tanh(x @ w).mean(), x, w)


def pairs(n: int) -> Sequence[Any]:
    x = td.asarray(data(n, 8))
    return [td.softmax(x @ td.permute_dims(x, (1, 0)), -1) @ x]


def joined(n: int) -> Sequence[Any]:
    x, y = td.asarray(data(n, 5)), td.asarray(data(2 * n, 5))
    both = td.concat([x, y[: n + 3]], 0)
    return [both.sum(1), td.pad(both, ((1, 2), (0, 0)))[2 : n + 1]]


def long(n: int) -> Sequence[Any]:
    return [td.asarray(data(n * 4096)).sum()]


def uneven(n: int) -> Sequence[Any]:
    """A sum that is cut by what divides its extent."""
    return [td.asarray(data(n * 4099)).sum(), td.asarray(data(n * 36, 60)).sum(1)]


def image(n: int) -> Sequence[Any]:
    x, w = td.asarray(data(n, 2, 9, 9)), td.asarray(data(4, 2, 3, 3))
    return gradient(td.relu(F.conv2d(x, w, padding=1)).mean(), x, w)


@td.function
def called(x: Any, w: Any) -> Any:
    y = td.tanh(x @ w)
    return (y * y).mean() + td.reshape(y, (-1,)).sum()


@td.function
def extreme(x: Any) -> Any:
    far = td.where(x > 1e30, x * 1e-30, td.maximum(x, -1e30))
    return far, x.astype("uint64") + 2**63 if x.shape[0] > 1 else far


def numbers(n: int) -> Sequence[Any]:
    """Numbers that are no sizes."""
    return extreme(td.asarray(np.abs(data(n, 5))))


def within(n: int) -> Sequence[Any]:
    """What a call computes inside, its divisor among it."""
    x, w = td.asarray(data(n, 20)), td.asarray(data(20, 11))
    return gradient(called(x, w), x, w)


def rows(n: int) -> Sequence[Any]:
    """Rows of a table less sums of those with one id, for which rows are counted."""
    ids, table = td.asarray(labels(n, 40)), td.asarray(data(40, 6))
    return [td.take(table, ids, axis=0) - td.combine_rows(ids, data(n, 6))]


GRAPHS = {
    "rows": rows,
    "sum": cross_entropy("sum"),
    "mean": cross_entropy("mean"),
    "variance": variance,
    "product": product,
    "pairs": pairs,
    "joined": joined,
    "long": long,
    "uneven": uneven,
    "image": image,
    "within": within,
    "numbers": numbers,
}


@pytest.mark.parametrize("arena", ["fast", "poison"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_size_has_the_bits_of_what_is_compiled_for_it(
    graph: Graph, arena: str
) -> None:
    with td.options(arena=arena):
        sizes = (100, 64, 96, 80, 72, 112, 65, 99, 127, 128, 130, 20, 3, 2, 1)
        found = [values(graph, n) for n in sizes]
        for n, own in zip(sizes, found, strict=True):
            td.clear_cache()
            for x, y in zip(own, values(graph, n), strict=True):
                assert x.shape == y.shape
                assert x.tobytes() == y.tobytes(), n


EVEN = ["sum", "mean", "rows", "variance", "product", "joined", "within"]


@pytest.mark.parametrize("name", EVEN)
def test_sizes_between_are_not_compiled(name: str, compiled: list[int]) -> None:
    graph = GRAPHS[name]
    for n in (190, 230, 201):  # of one class
        values(graph, n)
    compiled.clear()
    for n in (191, 200, 202, 229):
        values(graph, n)
    assert compiled == []


@pytest.mark.parametrize("name", ["mean", "within"])
def test_sizes_that_only_grow_are_seldom_compiled(
    name: str, compiled: list[int]
) -> None:
    for n in range(200, 260):
        values(GRAPHS[name], n)
    assert len(compiled) < 12


def test_what_all_sizes_had_in_common_is_not_taken_for_granted(
    compiled: list[int],
) -> None:
    """Where all were multiples of 16, another one has no law."""
    for n in (160, 192, 240):
        values(GRAPHS["sum"], n)
    compiled.clear()
    values(GRAPHS["sum"], 176)
    assert compiled == []
    found = values(GRAPHS["sum"], 177)
    assert len(compiled) == 1
    x = data(177, 15).astype(np.float64) * 1.5
    own = np.log(np.exp(x).sum(1)) - x[np.arange(177), labels(177, 15)]
    np.testing.assert_allclose(found[0], own.sum(), rtol=1e-5)


def test_two_sizes_that_change_need_a_line(compiled: list[int]) -> None:
    def graph(n: int, m: int) -> Sequence[Any]:
        return [td.softmax(td.asarray(data(n, m)) * 2.0, 1).sum(0)]

    def run(n: int, m: int) -> int:
        compiled.clear()
        td.evaluate(*graph(n, m))
        return len(compiled)

    assert [run(n, 40) for n in (50, 70, 61)] == [1, 1, 1]
    assert run(55, 40) == 0
    assert run(55, 41) == 1
    assert run(52, 41) == 1


def test_memory_is_kept_to_by_laws_too() -> None:
    graph = GRAPHS["product"]
    for n in (100, 150, 131):
        values(graph, n)
    with td.options(workspace=10_000_000):
        for n in (100, 150, 131, 140):
            values(graph, n)
    with td.options(workspace=1), pytest.raises(td.WorkspaceError):
        values(graph, 140)


def test_checked_programs_follow_no_law(compiled: list[int]) -> None:
    for n in (100, 150, 131, 120):
        values(GRAPHS["mean"], n)
    compiled.clear()
    with td.options(check=True):
        values(GRAPHS["mean"], 121)
    assert len(compiled) == 1


def test_what_was_compiled_to_foretell_is_not_compiled_again(
    compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    own: Any = engine("native")
    beyond, far = own.programs.families.beyond, list[Any]()

    def noted(graph: Any) -> Any:
        far.append(beyond(graph))
        return far[-1]

    monkeypatch.setattr(own.programs.families, "beyond", noted)
    for n in (100, 150, 210):
        values(GRAPHS["mean"], n)
    n = far[-1][0]
    assert n > 210 and len(compiled) == 4
    got = values(GRAPHS["mean"], n)
    assert len(compiled) == 4
    td.clear_cache()
    for x, y in zip(got, values(GRAPHS["mean"], n), strict=True):
        assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize(
    ("here", "way", "last"),
    [(1000, 1, 2000), (1000, -1, 500), (3000, 1, 4095), (6000, -1, 4096)],
)
def test_what_foretells_is_of_the_same_kind(here: int, way: int, last: int) -> None:
    """Twice as far or half, but values of 4096 elements have other kernels."""
    steps = families._room(np.array([here, 7]), np.array([way, 0]))
    assert here + steps * way == last


def test_work_is_cut_as_if_it_were_compiled(compiled: list[int]) -> None:
    found: dict[tuple[int, bool], Any] = {}
    for known in (False, True):
        for n in (40_000, 90_000, 61_001) if known else ():
            values(GRAPHS["mean"], n)
        compiled.clear()
        for n in (40_001, 70_000):
            values(GRAPHS["mean"], n)
            linked: Any = engine("native").latest_linked()
            found[n, known] = linked.program
            if not known:
                td.clear_cache()
    assert compiled == []
    for n in (40_001, 70_000):
        assert same(found[n, True], found[n, False], exactly=True)


def test_parts_of_programs_grow_evenly_or_not() -> None:
    make = fit((3, (10, "a")), (5, (20, "a")), 1, 3)
    assert make(2) == (4, (15, "a"))
    found = fit(np.arange(2, 5), np.arange(2, 11), 1, 4)(2)
    assert found.tolist() == [2, 3, 4, 5, 6] and found.dtype == np.int64
    falling, far = np.arange(3)[::-1], np.arange(1, 4)
    uneven = [(1, 2), (1, 2.0), (falling, falling + 1), (np.arange(3), far)]
    uneven += [(np.arange(3), np.arange(4)), (np.zeros(2), np.zeros(4))]
    for x, y in (*uneven, ((1,), (2,)), ((1, "a"), (3, "b")), ((1,), (1, 1))):
        with pytest.raises(Uneven):
            fit(x, y, 1, 3)
    assert same(np.zeros(2), np.zeros(2)) and not same(np.zeros(2), -np.zeros(2))


def test_what_is_kept_is_counted_when_samples_are_dropped() -> None:
    own = engine("native").programs.families  # type: ignore[attr-defined]
    for n in range(2, families.SAMPLES + 6):  # two extents that change on no line
        values(lambda n: [td.tanh(td.asarray(data(n, n * n))).sum()], n)
    kept = own._table.values()
    assert max(len(x.samples) for x in kept) == families.SAMPLES
    assert own._steps == sum(x.steps for x in kept)
