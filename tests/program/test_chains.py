"""Small steps side by side: which chains there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.program.branches import (
    RNG,
    WIDE,
    Both,
    X,
    branch,
    lengths,
    linked_of,
    sequence,
    weights,
    wrong,
)
from treadle.engines.base import engine
from treadle.program import chains
from treadle.program.program import Launch


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native", autobatch=False, seed=3):
        engine("native").programs.clear()  # type: ignore[attr-defined]
        yield


# -- a bidirectional LSTM --------------------------------------------------------------


FORWARD = """
side by side, 2 chains:
  chain 0 | 0: b13 = product[1, 8, 128, 32](b3, b4)
  chain 0 | 1: b15 = product[1, 8, 128, 32] add(b0, b1, b2, b13, b5)
  chain 0 | 2: b17, b18 = negative_exp_add_divide_multiply_tanh(b15, b6)
  chain 0 | 3: b21 = product[1, 8, 128, 32](b18, b4)
  chain 0 | 4: b23 = product[1, 8, 128, 32] add(b0, b1, b2, b21, b5)
  chain 0 | 5: b25 = negative_exp_add_divide_multiply_tanh(b23, b17)
  chain 1 | 6: b14 = product[1, 8, 128, 32](b9, b10)
  chain 1 | 7: b16 = product[1, 8, 128, 32] add(b0, b7, b8, b14, b11)
  chain 1 | 8: b19, b20 = negative_exp_add_divide_multiply_tanh(b16, b12)
  chain 1 | 9: b22 = product[1, 8, 128, 32](b20, b10)
  chain 1 | 10: b24 = product[1, 8, 128, 32] add(b0, b7, b8, b22, b11)
  chain 1 | 11: b26 = negative_exp_add_divide_multiply_tanh(b24, b19)
12: b27 = concat(b18, b25, b26, b20)
return b27
"""


def test_the_directions_of_an_lstm_are_two_chains() -> None:
    text = td.lower(Both()(td.asarray(X), 2)).program
    steps = [line for line in text.split("\n") if not line.startswith("b")]
    assert steps == FORWARD.strip().split("\n")


def test_forward_and_backward_have_a_region_each() -> None:
    program = linked_of(*Both().all(td.asarray(X))[1:]).program
    assert lengths(program) == [(12, 12), (18, 18)]


def test_a_program_as_long_as_133_steps_has_two_regions() -> None:
    program = linked_of(*Both().all(sequence(133), 133)[1:]).program
    (a, b), (c, d) = lengths(program)
    assert a == b >= 4 * 133 and c == d >= 4 * 133
    assert len(program.steps) == 2 * (a + c), "all steps are in chains"


# -- other graphs ----------------------------------------------------------------------


def forked() -> td.Tensor:
    a, b, c = weights(3)
    x = branch(td.asarray(WIDE[0]), a)
    return branch(x, b) + branch(x, c)


def again() -> td.Tensor:
    a, b, c, d = weights(4)
    x = branch(td.asarray(WIDE[0]), a) + branch(td.asarray(WIDE[0]), b)
    return branch(x, c) + branch(x, d)


def three() -> td.Tensor:
    a, b, c = (branch(td.asarray(WIDE[0]), w) for w in weights(3))
    return a + b + c


def stepwise() -> td.Tensor:
    """Each step of one branch meets one of the other; they share what comes first."""
    a, b, c = weights(3)
    shared = td.tanh(td.asarray(WIDE[2]) * 2.0)
    first, second = [td.asarray(WIDE[0])], [td.asarray(WIDE[1])]
    for _ in range(24):
        first.append(td.tanh(first[-1] @ a + shared))
        second.append(td.tanh(second[-1] @ b + shared))
    pairs = zip(first, second[::-1], strict=True)
    return td.stack([td.concat([x, y]) @ c for x, y in pairs])


def with_numpy() -> td.Tensor:
    a, b = weights(2)
    x = branch(td.asarray(WIDE[0]), a) + branch(td.asarray(WIDE[0]), b)
    x = x + td.linalg.inv(td.asarray(WIDE[0, :8, :8])).sum()
    return branch(x, a) + branch(x, b)


def alone() -> td.Tensor:
    return branch(td.asarray(WIDE[0]), weights(1)[0], 48)


def entangled() -> td.Tensor:
    """Each step reads both of the step before."""
    a, b = weights(2)
    x, y = td.asarray(WIDE[0]), td.asarray(WIDE[1])
    for _ in range(24):
        x, y = td.tanh(x @ a + y), td.tanh(y @ b - x)
    return x + y


def large() -> td.Tensor:
    a, b = weights(2, 512)
    x = td.asarray(RNG.standard_normal((256, 512)).astype(np.float32))
    return branch(x, a, 3) + branch(x, b, 3)


# Name, graph, and how many chains there are in each of its regions.
GRAPHS: list[tuple[str, Callable[[], Any], list[int]]] = [
    ("a fork", forked, [2]),
    ("joined and forked again", again, [2, 2]),
    ("three branches", three, [3]),
    ("read step by step", stepwise, [2]),
    ("a NumPy rule between", with_numpy, [2, 2]),
    ("one chain", alone, []),
    ("entangled", entangled, []),
    ("steps that all threads share", large, []),
]


@pytest.mark.parametrize(("name", "make", "expected"), GRAPHS)
def test_regions(name: str, make: Callable[[], Any], expected: list[int]) -> None:
    linked = linked_of(make())
    assert [len(r) for r in lengths(linked.program)] == expected, name
    for r in linked.program.regions:
        assert max(r.chains) <= 1.5 * min(r.chains)
    assert wrong(linked) == []


def test_effects_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = weights(2)
    total = td.Variable(0.0, name="total")
    x, y = branch(td.asarray(WIDE[0]), a), branch(td.asarray(WIDE[1]), b)
    x = td.print(x.sum(), "first {}")
    total.assign(total + x)
    y = td.print(y.sum(), "second {}")
    total.assign(total * y)
    x, y = branch(td.asarray(WIDE[0]) * x, a), branch(td.asarray(WIDE[1]) * y, b)
    td.evaluate(td.print((x + y).sum(), "third {}"))
    told = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["first", "second", "third"]
    first, second = (
        float(branch(td.asarray(x), w).sum())
        for x, w in zip(WIDE, (a, b), strict=False)
    )
    assert float(total) == pytest.approx(first * second, rel=1e-5)


# -- work ------------------------------------------------------------------------------


def ladder(count: int) -> td.Tensor:
    """Two branches that meet and part again, so many times."""
    a, b = weights(2)
    x = td.asarray(WIDE[0])
    for _ in range(count):
        x = branch(x, a, 4) + branch(x, b, 4)
    return x


@pytest.mark.parametrize(
    "make",
    [
        lambda n: branch(td.asarray(WIDE[0]), weights(1)[0], 8 * n),
        lambda n: branch(td.asarray(WIDE[0]), weights(1)[0], 4 * n) + forked(),
        ladder,
    ],
)
def test_each_step_is_looked_at_a_few_times(
    make: Callable[[int], td.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0
    take = chains._Scan.take

    def counted(self: Any, k: int) -> None:
        nonlocal taken
        taken += 1
        take(self, k)

    monkeypatch.setattr(chains._Scan, "take", counted)
    for count in (8, 40):
        taken = 0
        steps = td.lower(make(count)).steps
        assert steps >= 4 * count and taken < 6 * steps


def test_a_kernel_of_elementary_functions_is_shared_in_equal_parts() -> None:
    def cell(z: Any, c: Any) -> Any:
        return td.lstm_cell(z, c)[0]

    z, c = np.ones((32, 512), np.float32), np.ones((32, 128), np.float32)
    program = linked_of(cell(td.asarray(z), td.asarray(c))).program
    (step,) = [s for s in program.steps if isinstance(s, Launch)]
    assert 1 <= step.grain < step.total and step.total % (2 * step.grain) == 0
    sums = linked_of(td.asarray(z) + td.asarray(z)).program
    assert all(s.grain >= s.total for s in sums.steps if isinstance(s, Launch))
