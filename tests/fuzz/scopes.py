"""What a graph was run in before changes nothing about how it is run now.

`python -m tests.fuzz.scopes --count 500 --seed 0`: a campaign. All that is kept between
graphs is forgotten, a random graph, forest or training is done in random scopes, then
again outside of them, where it has to be what the reference engine makes of it.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import numpy as np

import treadle as td
from tests.batch.forests import Forest
from tests.batch.nets import derived_rows
from tests.fuzz.campaign import campaign
from tests.fuzz.graphs import draw, results
from tests.ops.test_contract import OPS, collected
from tests.ops.test_rows import NONE, choices

__all__ = ["differing"]

Array = np.ndarray[Any, Any]
Subject = Callable[[], Sequence[Array]]
TOLERANCE = 1e-9  # of the largest value: everything is in double precision

SCOPES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no gradients": td.no_grad,
    "notes": lambda: td.metadata(layer="first"),
    "explicit updates": td.explicit_updates,
    "a transaction": td.transaction,
    "the reference": lambda: td.options(engine="reference"),
    "as written": lambda: td.options(optimize=False),
    "node by node": lambda: td.options(autobatch=False),
    "eager": lambda: td.options(eager=True),
    "checked": lambda: td.options(check=True),
    "finite": lambda: td.options(check_numerics=True),
    "other floats": lambda: td.options(dtype="float32"),
    "little memory": lambda: td.options(workspace=200_000),
    "no memory": lambda: td.options(workspace=1),
    "poison": lambda: td.options(arena="poison"),
    "one thread": lambda: td.options(threads=1),
    "profile": td.profile,
}


def layers(number: int) -> list[Array]:
    """Three steps of an optimizer with layers, cells and a table of words."""
    rng = random.Random(f"layers {number}")
    width = rng.choice((3, 4, 8))
    with td.options(seed=number):
        table = td.nn.Embedding(11, width, dtype="float64")
        kind = rng.choice((td.nn.LSTMCell, td.nn.GRUCell))
        cell = kind(width, width, dtype="float64")
        top = td.nn.Linear(width, 3, dtype="float64")
    step = td.function(lambda x, s: cell(x, s)) if rng.random() < 0.5 else cell
    chosen = rng.choice((td.optim.SGD, td.optim.Adam, td.optim.Adagrad))
    optimizer = chosen(lr=0.05)
    found: list[Any] = []
    for _ in range(3):
        losses = []
        for _ in range(rng.choice((1, 2, 12))):
            state = cell.initial_state() if hasattr(cell, "initial_state") else None
            for _ in range(rng.randint(1, 9)):
                state = step(table(rng.randrange(11)), state)
            hidden = state[0] if isinstance(state, tuple) else state
            losses.append(td.nn.functional.cross_entropy(top(hidden), rng.randrange(3)))
        found.append(optimizer.step(td.stack(losses).sum()))
    weights = [*table.parameters(), *cell.parameters(), *top.parameters()]
    return [np.array(x) for x in (*found, *td.evaluate(*weights))]


def op_as_rows(number: int) -> list[Array]:
    """A sample of an op, done for rows one by one, and derived."""
    rng = random.Random(f"op {number}")
    cls = OPS[rng.choice([name for name in OPS if name not in NONE])]
    sample = rng.choice(collected(cls))
    return derived_rows(sample, rng.choice(choices(sample)), rng.random() < 0.5)


def subject(number: int) -> Subject:
    kind = number % 5
    if kind == 4:
        return partial(op_as_rows, number)
    if kind == 0:
        return lambda: results(draw(number, 16), "float64", True)[0]
    if kind == 1:
        return partial(layers, number)
    run = Forest.train if kind == 2 else Forest.run
    return lambda: run(Forest(number))


def differing(number: int) -> str:
    """What differs for one number; nothing where all is well."""
    rng = random.Random(f"scopes {number}")
    names = rng.sample(list(SCOPES), rng.choice((1, 1, 2, 3)))
    run, elsewhere = subject(number), rng.random() < 0.2
    try:
        with td.options(dtype="float64", engine="reference", autobatch=False):
            want = run()
    except td.TreadleError:  # some cannot be derived
        return ""
    td.clear_cache()

    def before() -> None:
        with contextlib.suppress(td.TreadleError), ExitStack() as stack:
            stack.enter_context(td.options(dtype="float64"))
            for name in names:
                stack.enter_context(SCOPES[name]())
            run()

    if elsewhere:
        thread = threading.Thread(target=before)
        thread.start()
        thread.join()
    else:
        before()
    with td.options(dtype="float64"):
        got = run()
    if not all(np.isfinite(y).all() for y in want):  # a sequence that squares overflows
        return ""
    told = f"after {', '.join(names)}{' on a thread' * elsewhere}: result"
    scale = max([1.0, *(float(np.abs(y).max(initial=0)) for y in want)])
    for k, (x, y) in enumerate(zip(got, want, strict=True)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{told} {k} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        apart = float(np.abs(x - y).max(initial=0)) / scale
        if not apart <= TOLERANCE:
            return f"{told} {k} is off by {apart:.3g}"
    return ""


if __name__ == "__main__":
    raise SystemExit(campaign(differing, 500))
