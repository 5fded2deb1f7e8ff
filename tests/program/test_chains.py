"""Small steps side by side: which chains there are, and that they touch nothing of each
other, neither data nor memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from treadle.base.dtypes import float32
from treadle.base.types import Type
from treadle.engines.base import engine
from treadle.engines.native.linked import Linked
from treadle.engines.native.programs import Programs
from treadle.program import chains
from treadle.program.alias import overwrites
from treadle.program.check import beside, replay
from treadle.program.lives import Lives, lives
from treadle.program.program import Buffer, Fallback, Program, Region, program_text

RNG = np.random.default_rng(11)
ROWS, WIDTH, STEPS = 8, 32, 4
X = RNG.standard_normal((STEPS, ROWS, WIDTH)).astype(np.float32)


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native", autobatch=False, seed=3):
        engine("native").programs = Programs()  # type: ignore[attr-defined]
        yield


WIDE = RNG.standard_normal((3, 16, 64)).astype(np.float32)


def weights(count: int, width: int = 64) -> list[td.Parameter]:
    drawn = RNG.standard_normal((count, width, width)).astype(np.float32)
    return [td.param(init=w / width**0.5) for w in drawn]


def linked_of(*roots: td.Tensor) -> Linked:
    """The program that computes roots, run once."""
    td.evaluate(*roots)
    found: Linked = engine("native")._thread.linked  # type: ignore[attr-defined]
    return found


def lengths(program: Program) -> list[tuple[int, ...]]:
    return [r.chains for r in program.regions]


# -- a bidirectional LSTM --------------------------------------------------------------


class Both:
    """Two LSTMs over a sequence, cell by cell, and the loss of their states."""

    def __init__(self) -> None:
        self.ahead, self.back = (td.nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))

    def states(self, cell: Any, xs: Sequence[Any]) -> list[Any]:
        state, found = (td.zeros((ROWS, WIDTH)), td.zeros((ROWS, WIDTH))), []
        for x in xs:
            state = cell(x, state)
            found.append(state[0])
        return found

    def __call__(self, x: Any, steps: int = STEPS) -> td.Tensor:
        xs = [x[t] for t in range(steps)]
        ahead = self.states(self.ahead, xs)
        back = self.states(self.back, xs[::-1])
        return td.concat([td.stack(ahead), td.stack(back[::-1])], axis=-1)

    def all(self, x: Any, steps: int = STEPS) -> list[td.Tensor]:
        """The states and the gradients."""
        y = self(x, steps)
        own = [*self.ahead.parameters(), *self.back.parameters()]
        return [y, *td.grad((y * y).sum(), own)]


def sequence(steps: int) -> td.Tensor:
    return td.asarray(RNG.standard_normal((steps, ROWS, WIDTH)).astype(np.float32))


FORWARD = """
side by side, 2 chains:
  chain 0 | 0: b13 = product[1, 8, 128, 32](b4, b3)
  chain 0 | 1: b15 = product[1, 8, 128, 32] add(b0, b1, b2, b13, b5)
  chain 0 | 2: b17, b18 = abs_negative_exp_greaterequal_add_divide_select_(b15, b6)
  chain 0 | 3: b21 = product[1, 8, 128, 32](b18, b3)
  chain 0 | 4: b23 = product[1, 8, 128, 32] add(b0, b1, b2, b21, b5)
  chain 0 | 5: b25 = abs_negative_exp_greaterequal_add_divide_select_(b23, b17)
  chain 1 | 6: b14 = product[1, 8, 128, 32](b10, b9)
  chain 1 | 7: b16 = product[1, 8, 128, 32] add(b0, b7, b8, b14, b11)
  chain 1 | 8: b19, b20 = abs_negative_exp_greaterequal_add_divide_select_(b16, b12)
  chain 1 | 9: b22 = product[1, 8, 128, 32](b20, b9)
  chain 1 | 10: b24 = product[1, 8, 128, 32] add(b0, b7, b8, b22, b11)
  chain 1 | 11: b26 = abs_negative_exp_greaterequal_add_divide_select_(b24, b19)
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
    assert lengths(program) == [(665, 665), (555, 555)]
    assert len(program.steps) == 2 * (665 + 555), "all steps are in chains"


# -- other graphs ----------------------------------------------------------------------


def branch(x: Any, w: Any, count: int = 24) -> Any:
    for _ in range(count):
        x = td.tanh(x @ w)
    return x


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


# -- memory ----------------------------------------------------------------------------


def wrong(linked: Linked, tries: int = 20) -> list[str]:
    """What goes wrong with a program's memory in some orders that threads may take."""
    program, found = linked.program, linked.lives
    makes = [list(s.written) for s in program.steps]
    for own in (linked.workspaces, linked.scratches):
        for k, n in own.items():
            makes[k].append(n)
    uses = [list(s.read) for s in program.steps]
    over = overwrites(program)
    return _wrong(program, found, uses, makes, over, tries)


def _wrong(
    program: Program,
    found: Lives,
    uses: list[list[int]],
    makes: list[list[int]],
    over: dict[int, int],
    tries: int,
) -> list[str]:
    count = 1 + max([len(program.buffers) - 1, *found.place])
    offsets, sizes = [0] * count, [0] * count
    for n, k in found.place.items():
        offsets[n], sizes[n] = found.plan.offsets[k], found.ranges[k].bytes
    elsewhere = [b.number for b in program.buffers if b.place != "arena"]
    problems: list[str] = []
    for region in program.regions:
        touched = [
            {n for k in range(a, b) for n in (*uses[k], *makes[k])}
            for a, b in region.bounds
        ]
        problems += beside(offsets, sizes, touched)
    draw = random.Random(1)
    for _ in range(tries):
        order = interleaved(program, draw)
        in_place = {
            (at, over[n], n)
            for at, k in enumerate(order)
            for n in makes[k]
            if n in over
        }
        problems += replay(
            offsets,
            sizes,
            found.plan.size,
            [uses[k] for k in order],
            [makes[k] for k in order],
            elsewhere=elsewhere,
            in_place=in_place,
        )
    return problems


def interleaved(program: Program, draw: random.Random) -> list[int]:
    """The steps in an order in which threads might take them."""
    order: list[int] = []
    k = 0
    starts = {r.first: r for r in program.regions}
    while k < len(program.steps):
        if k not in starts:
            order.append(k)
            k += 1
            continue
        left = [list(range(a, b)) for a, b in starts[k].bounds]
        while any(left):
            # For a while one goes on alone.
            one = draw.choice([x for x in left if x])
            for _ in range(draw.choice([1, 1, 2, 5, 1000])):
                if one:
                    order.append(one.pop(0))
        k = starts[k].stop
    return order


def test_memory_of_an_lstm() -> None:
    linked = linked_of(*Both().all(sequence(20), 20))
    assert linked.program.regions and linked.scratches
    assert wrong(linked) == []
    plain = Linked(replace(linked.program, regions=()))
    assert plain.workspace(2) <= linked.workspace(2) <= 1.5 * plain.workspace(2)


def test_the_judge_sees_what_chains_share() -> None:
    """A plan that takes the chains for steps in order is wrong."""
    linked = linked_of(*Both().all(sequence(6), 6))
    in_order = lives(replace(linked.program, regions=()), {})
    linked.lives = replace(in_order, place={**in_order.place})
    linked.workspaces, linked.scratches = {}, {}
    assert any("chain" in one for one in wrong(linked))


@st.composite
def programs(draw: Any) -> Program:
    """Steps without meaning that make and read buffers, with regions among them."""
    drawn = random.Random(draw(st.integers(0, 1 << 30)))
    regions: list[Region] = []
    at = 0
    for _ in range(drawn.randrange(1, 4)):
        at += drawn.randrange(0, 4)
        own = tuple(drawn.randrange(1, 7) for _ in range(drawn.randrange(2, 5)))
        regions.append(Region(at, own))
        at = regions[-1].stop
    count = at + drawn.randrange(0, 4)
    where = {
        k: (region.first, a)
        for region in regions
        for a, b in region.bounds
        for k in range(a, b)
    }
    buffers: list[Buffer] = []
    made: list[int] = []  # the step that makes each
    steps = []
    for k in range(count):
        seen = [
            n
            for n, m in enumerate(made)
            if where.get(m, (-m - 1, 0))[0] != where.get(k, (-k - 1, 0))[0]
            or where[m] == where[k]
        ]
        read = tuple(sorted(set(drawn.choices(seen, k=3)))) if seen else ()
        written = []
        for _ in range(drawn.randrange(1, 3)):
            t = Type((drawn.randrange(1, 60),), float32)
            buffers.append(Buffer(len(buffers), t, "arena"))
            made.append(k)
            written.append(len(buffers) - 1)
        steps.append(Fallback(None, None, read, tuple(written), (None, 0)))  # type: ignore[arg-type]
    return Program(tuple(buffers), tuple(steps), (), (), (), regions=tuple(regions))


@settings(max_examples=100, deadline=None)
@given(program=programs())
def test_chains_never_share_memory(program: Program) -> None:
    found = lives(program, {})
    uses = [list(s.read) for s in program.steps]
    makes = [list(s.written) for s in program.steps]
    assert _wrong(program, found, uses, makes, {}, 5) == [], program_text(program)
    assert found.bound <= found.plan.size
    in_order = lives(replace(program, regions=()), {})
    assert in_order.bound <= found.bound


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
