"""Collectives: what they compute, their derivatives, their order; one rank alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import treadle as td
from tests.distributed.jobs import NEEDS_MPI, ROOT, ranks
from treadle.distributed import fixed
from treadle.distributed.communicator import Alone, DistributedError
from treadle.distributed.world import _is_launched


def test_one_rank_loads_no_mpi() -> None:
    source = (
        "import sys, treadle as td\n"
        "x = td.param('x', init=[1.0, 2.0])\n"
        "td.distributed.all_reduce(x * x).sum().item()\n"
        "assert td.distributed.size() == 1\n"
        "assert 'mpi4py' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize(
    "variables, launched",
    [
        ({}, False),
        ({"PMI_SIZE": "1"}, False),
        ({"PMI_SIZE": "2"}, True),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, True),
        ({"SLURM_STEP_NUM_TASKS": "2"}, True),
        ({"SLURM_NTASKS": "2"}, False),  # of an allocation: the program runs once
    ],
)
def test_a_launcher_is_known_by_what_it_sets(
    variables: dict[str, str], launched: bool
) -> None:
    assert _is_launched(variables) is launched


def test_without_mpi_the_error_names_the_extra() -> None:
    source = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "import treadle as td\n"
        "try:\n"
        "    td.distributed.world()\n"
        "except td.MissingExtraError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PATH": "", "PMI_SIZE": "2"},
        timeout=60,
    )
    assert 'pip install "treadle[mpi]"' in done.stdout


def test_sums_of_parts_are_those_of_all() -> None:
    rows = list(np.random.default_rng(0).normal(size=(8, 1000)).astype(np.float32))
    whole = fixed.tree(rows, np.add)
    for size in (1, 2, 4, 8):
        share = 8 // size
        parts = [
            fixed.tree(rows[k * share : (k + 1) * share], np.add) for k in range(size)
        ]
        assert fixed.tree(parts, np.add).tobytes() == whole.tobytes()


def test_sums_of_halves_are_made_in_float32() -> None:
    rows = np.array([[2048.0], [1.0], [1.0], [1.0]], np.float16)
    assert fixed.reduced(rows, "sum").tolist() == [2052.0]
    assert fixed.reduced(rows, "sum").dtype == np.float16


def test_the_only_rank_receives_what_it_has_sent() -> None:
    with pytest.raises(DistributedError, match="has not sent"):
        Alone().receive(np.zeros(2), 0)


def test_an_effect_is_not_merged_with_an_equal_one() -> None:
    x = td.param("x", init=[1.0, 2.0])
    calls: list[str] = []
    world = td.distributed.world()
    before = world.name_call
    world.name_call = lambda name, *_: calls.append(name)  # type: ignore[method-assign]
    try:
        (td.distributed.all_reduce(x) + td.distributed.all_reduce(x)).numpy()
    finally:
        world.name_call = before  # type: ignore[method-assign]
    assert [c for c in calls if c] == ["AllReduce", "AllReduce"]


VALUES = """
from treadle import distributed as d
r, n = rank(), size()
x = td.param("x", init=np.arange(4, dtype=np.float32) + r)
w = td.asarray(np.arange(1, 5, dtype=np.float32) * (r + 1))
def both(y, w):
    (g,) = td.grad((y * w).sum(), [x])
    return [y.tolist(), g.tolist()]
def wide(y):
    return both(y, td.asarray(np.arange(1, 1 + y.shape[0], dtype=np.float32) * (r + 1)))
token = d.send(x, (r + 1) % n)
got = d.recv(x * 0, (r - 1) % n)
(g,) = td.grad((got * w).sum() + token, [x])
td.evaluate(got, token, g)
tell({
    "sum": wide(d.all_reduce(x)),
    "mean": wide(d.all_reduce(x, "mean")),
    "max": wide(d.all_reduce(x, "max")),
    "min": wide(d.all_reduce(x, "min")),
    "gather": wide(d.all_gather(x)),
    "scatter": wide(d.reduce_scatter(x)),
    "swap": wide(d.all_to_all(x)),
    "root": wide(d.broadcast(x, 1)),
    "to root": wide(d.reduce(x, 1)),
    "ring": [got.tolist(), g.tolist()],
})
"""


@NEEDS_MPI
@pytest.mark.parametrize("count", [2, 4])
def test_values_and_derivatives_are_those_of_one_process(count: int) -> None:
    found = ranks(count, VALUES)
    xs = [np.arange(4.0) + r for r in range(count)]

    def weights(n: int) -> list[np.ndarray]:
        return [np.arange(1.0, 1 + n) * (r + 1) for r in range(count)]

    def agree(name: str, values: list, gradients: list) -> None:
        for r in range(count):
            np.testing.assert_allclose(found[r][name][0], values[r], err_msg=name)
            np.testing.assert_allclose(found[r][name][1], gradients[r], err_msg=name)

    total, all_w, n = sum(xs), sum(weights(4)), count
    agree("sum", [total] * n, [all_w] * n)
    agree("mean", [total / n] * n, [all_w / n] * n)
    agree("max", [xs[-1]] * n, [all_w * (r == n - 1) for r in range(n)])
    agree("min", [xs[0]] * n, [all_w * (r == 0) for r in range(n)])
    joined = np.concatenate(xs)
    wide = sum(weights(4 * n)).reshape(n, 4)
    agree("gather", [joined] * n, list(wide))
    part = 4 // n
    pieces = total.reshape(n, part)
    agree("scatter", list(pieces), [np.concatenate(weights(part))] * n)
    swapped = [np.concatenate([x.reshape(n, -1)[r] for x in xs]) for r in range(n)]
    back = [np.concatenate([w.reshape(n, -1)[r] for w in weights(4)]) for r in range(n)]
    agree("swap", swapped, back)
    agree("root", [xs[1]] * n, [all_w * (r == 1) for r in range(n)])
    rooted = [total * (r == 1) for r in range(n)]
    agree("to root", rooted, [weights(4)[1]] * n)
    ring = [xs[r - 1] for r in range(n)]
    agree("ring", ring, [weights(4)[(r + 1) % n] for r in range(n)])


@NEEDS_MPI
def test_collectives_of_different_kinds_are_an_error() -> None:
    program = """
    from treadle import distributed as d
    x = td.asarray([1.0, 2.0])
    try:
        (d.all_reduce(x) if rank() else d.all_gather(x)).numpy()
    except d.DistributedError as error:
        tell(str(error))
    """
    first, second = ranks(2, program, fresh=True)
    assert "AllGather (call 1) meets another call: rank 1 is in AllReduce" in first
    assert "AllReduce (call 1) meets another call: rank 0 is in AllGather" in second


ORDER = """
from treadle import distributed as d
x = td.asarray([1.0 + rank()])
late = d.all_reduce(x * 2)     # written first, asked for last
early = d.all_reduce(x * 3)
total = (early * 10 + late) if rank() == 0 else (late + early * 10)
@td.function
def twice(x):
    return d.all_reduce(x) + d.all_reduce(x * x)
tell([total.tolist(), twice(x).tolist(), twice(x + 1).tolist()])
"""


@NEEDS_MPI
def test_the_order_is_that_in_which_they_were_written() -> None:
    (a, b) = ranks(2, ORDER)
    assert a == b == [[96.0], [8.0], [18.0]]
