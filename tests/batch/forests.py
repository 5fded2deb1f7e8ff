"""Random forests of random cells, as rows and node by node.

`python -m tests.batch.forests --count 2000 --seed 0`: a campaign. A forest has cells of
random bodies, a table, trees that share what they are made of, values read while it is
built, several outputs; it is a function of its number alone.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from treadle.runtime.rows import counts

WIDTH, WORDS, CLASSES = 4, 9, 3
TOLERANCE = 1e-10
Array = np.ndarray[Any, Any]
F = td.nn.functional


@dataclass(frozen=True)
class Step:
    """An op of a cell's body: by name, on earlier values, with a parameter."""

    name: str
    places: tuple[int, ...]
    weight: int


@dataclass(frozen=True)
class Cell:
    """A body: so many arguments, then steps; some of the values are its outputs."""

    arity: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]


UNARY: dict[str, Callable[[Any], Any]] = {
    "tanh": td.tanh,
    "sigmoid": td.sigmoid,
    "sine": td.sin,
    "negative": lambda x: -x,
    "softmax": td.softmax,
    "turned": lambda x: td.concat([x[2:], x[:2]]),
    "centered": lambda x: x - x.mean(),
    "scaled": lambda x: x / (1 + td.abs(x).max()),
    "outer": lambda x: td.tanh(x.reshape(-1, 1) @ x.reshape(1, -1)).sum(0),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + y,
    "product": lambda x, y: x * y,
    "difference": lambda x, y: x - y,
    "larger": td.maximum,
    "chosen": lambda x, y: td.where(x > y, td.tanh(x), y),
    "inner": lambda x, y: td.tanh(x @ y) * x,
}
WEIGHTED: dict[str, Callable[..., Any]] = {
    "affine": lambda w, x: td.tanh(x @ w["square"] + w["bias"]),
    "left": lambda w, x: td.tanh(w["square"] @ x),
    "joined": lambda w, x, y: td.tanh(td.concat([x, y]) @ w["tall"]),
    "gated": lambda w, x, y: td.lstm_cell(td.concat([x, y]) @ w["gates"], y)[0],
    "gru": lambda w, x, y: td.gru_cell(x @ w["gru"], y @ w["gru"], y),
}
SHAPES = {
    "square": (WIDTH, WIDTH),
    "bias": (WIDTH,),
    "tall": (2 * WIDTH, WIDTH),
    "gates": (2 * WIDTH, 4 * WIDTH),
    "gru": (WIDTH, 3 * WIDTH),
}
TAKES = {
    **dict.fromkeys(UNARY, 1),
    **dict.fromkeys(BINARY, 2),
    **dict(zip(WEIGHTED, (1, 1, 2, 2, 2), strict=True)),
}


def cell_of(number: int) -> Cell:
    """The cell of this number."""
    rng = random.Random(f"cell {number}")
    arity = rng.choice((1, 2, 2, 3))
    steps: list[Step] = []
    for k in range(rng.randint(1, 5)):
        group = rng.choice((UNARY, BINARY, WEIGHTED, WEIGHTED))
        name = rng.choice(sorted(group))
        values = range(arity + k)
        places = tuple(rng.choice(values) for _ in range(TAKES[name]))
        steps.append(Step(name, places, rng.randrange(2)))
    last = arity + len(steps) - 1
    more = (
        rng.sample(range(arity, last), k=min(1, last - arity)) if last > arity else []
    )
    outputs = (last, *more) if rng.random() < 0.4 else (last,)
    return Cell(arity, tuple(steps), outputs)


def body_of(cell: Cell, weights: Sequence[dict[str, Any]]) -> Callable[..., Any]:
    """The cell as a function of its arguments."""

    def body(*arguments: Any) -> Any:
        values = list(arguments)
        for step in cell.steps:
            xs = [values[k] for k in step.places]
            if step.name in WEIGHTED:
                values.append(WEIGHTED[step.name](weights[step.weight], *xs))
            else:
                values.append({**UNARY, **BINARY}[step.name](*xs))
        return tuple(values[k] for k in cell.outputs)

    return body


class Forest:
    """A program: parameters, cells, and how trees are built of them."""

    def __init__(self, number: int, cells: int = 500) -> None:
        """Its cells are of those with numbers below `cells`."""
        self.number = number
        self.rng = random.Random(f"forest {number}")
        draw = np.random.default_rng(number)

        def param(name: str, *shape: int) -> td.Parameter:
            drawn = draw.normal(size=shape) / 2
            return td.param(name, init=drawn, dtype="float64")

        rows = draw.normal(size=(WORDS, WIDTH))
        self.table = td.Parameter(rows, name="table", sparse=True)
        self.weights = [
            {name: param(f"{name}{k}", *shape) for name, shape in SHAPES.items()}
            for k in range(2)
        ]
        self.top = param("top", WIDTH, CLASSES)
        self.cells = [cell_of(self.rng.randrange(cells)) for _ in range(3)]
        as_function = [self.rng.random() < 0.7 for _ in self.cells]
        self.calls = [
            td.function(body) if own else body
            for body, own in zip(
                (body_of(c, self.weights) for c in self.cells), as_function, strict=True
            )
        ]

    @property
    def parameters(self) -> list[td.Parameter]:
        return [self.table, self.top, *(p for w in self.weights for p in w.values())]

    def run(self, derived: bool = True) -> list[Array]:
        """What the forest comes to: values read on the way, the loss, gradients if it
        is derived.
        """
        rng = random.Random(f"trees {self.number}")
        self.pool: list[Any] = []
        self.computed: list[Any] = []
        read: list[float] = []
        roots = []
        reads = rng.choice((0, 0, 1, 5))  # values that are read on the way, about
        count = rng.randint(8, 20)
        for _ in range(count):
            root = self._tree(rng, rng.randint(1, 12))
            if rng.random() < reads / count:
                read.append(float(root.sum()))
                if read[-1] > 0.1:
                    root = self._node(rng, [root, rng.choice(self.pool), root])
            roots.append(root)
        loss = self._loss(rng, roots)
        xs: list[Any] = list(self.parameters)
        if self.computed and rng.random() < 0.3:
            xs.append(rng.choice(self.computed))
        held = rng.sample(self.pool, k=min(3, len(self.pool)))
        if rng.random() < 0.5:
            read.append(float(loss))
        grads = td.grad(loss, xs, unused="zero") if derived else []
        found = td.evaluate(loss, *grads, *held)
        return [np.array(read), *found]

    def train(self) -> list[Array]:
        """What steps of an optimizer over a few sequences and trees come to: losses,
        what was held meanwhile, parameters.
        """
        rng = random.Random(f"steps {self.number}")
        optimizer = td.optim.SGD(lr=0.01)
        found: list[Any] = []
        for _ in range(3):
            self.pool, self.computed = [], []
            roots = [
                rng.choice((self._sequence, self._tree))(rng, rng.randint(1, 30))
                for _ in range(rng.randint(1, 3))
            ]
            # Whatever they read, there is something to learn.
            loss = self._loss(rng, roots) + (self.top * self.top).sum()
            held = rng.sample(self.pool, k=min(rng.choice((0, 2)), len(self.pool)))
            found.append(optimizer.step(loss))
            found += [x.numpy() for x in held]
        return [np.array(x) for x in (*found, *td.evaluate(*self.parameters))]

    def _sequence(self, rng: random.Random, length: int) -> Any:
        """A state that one cell goes on with, from leaf to leaf."""
        k = rng.randrange(len(self.cells))
        state = self._leaf(rng)
        for _ in range(length):
            given = [state, self._leaf(rng), self._leaf(rng)][: self.cells[k].arity]
            state, *_ = made = list(self.calls[k](*given))
            self.pool += made
        return state

    def _tree(self, rng: random.Random, leaves: int) -> Any:
        """A tree over so many leaves, some of them trees that were built before."""
        if leaves == 1:
            return self._leaf(rng)
        left = rng.randint(1, leaves - 1)
        parts = [self._tree(rng, left), self._tree(rng, leaves - left)]
        return self._node(rng, parts)

    def _leaf(self, rng: random.Random) -> Any:
        kind = rng.random()
        if kind < 0.15 and self.pool:
            return rng.choice(self.pool)
        if kind < 0.3:
            x = td.constant(np.sin(np.arange(WIDTH) + rng.randrange(50)), "float64")
        else:
            x = self.table[rng.randrange(WORDS)]
        self.pool.append(x)
        return x

    def _node(self, rng: random.Random, parts: Sequence[Any]) -> Any:
        """A cell on parts, or a few ops; of several outputs one goes on, the others may
        be taken up elsewhere.
        """
        if rng.random() < 0.2:
            made = [td.tanh(parts[0] * parts[-1] + parts[0])]
        else:
            k = rng.randrange(len(self.cells))
            given = [parts[j % len(parts)] for j in range(self.cells[k].arity)]
            made = list(self.calls[k](*given))
        self.pool += made
        self.computed += made
        return made[0]

    def _loss(self, rng: random.Random, roots: Sequence[Any]) -> Any:
        kind = rng.randrange(3)
        if kind == 0:
            return td.stack([(h * h).sum() for h in roots]).mean()
        labels = [k % CLASSES for k in range(len(roots))]
        if kind == 1:
            return F.cross_entropy(td.stack(roots) @ self.top, labels)
        pairs = zip(roots, labels, strict=True)
        return td.stack([F.cross_entropy(h @ self.top, y) for h, y in pairs]).sum()


def compare(number: int, cells: int = 500, trains: bool = False) -> tuple[str, bool]:
    """What differs between a forest as rows and node by node, or between two runs of
    some, and whether there were rows. It is run, or `trains`. Some have run without
    gradients before, which shall change nothing.
    """
    run = Forest.train if trains else Forest.run
    before = counts.runs
    try:
        if number % 3 == 1 and not trains:
            with td.no_grad():
                Forest(number, cells).run(derived=False)
        got = run(Forest(number, cells))
    except Exception as error:
        return f"{type(error).__name__}: {error}", counts.runs > before
    batched = counts.runs > before
    if number % 5 == 0:
        with td.options(threads=1 + number // 5 % 4):
            again = run(Forest(number, cells))
        if any(x.tobytes() != y.tobytes() for x, y in zip(got, again, strict=True)):
            return "a second run has other bits", batched
    with td.options(autobatch=False, engine="reference"):
        want = run(Forest(number, cells))
    if not _finite(want):  # a sequence that squares overflows
        return "it is finite here alone" if _finite(got) else "", batched
    # Small gradients may come of large values that cancel: one scale for all.
    scale = max(1.0, *(float(np.abs(y).max(initial=0)) for y in want))
    for k, (x, y) in enumerate(zip(got, want, strict=True)):
        if x.shape != y.shape:
            return f"result {k} has shape {x.shape}, not {y.shape}", batched
        apart = float(np.abs(x - y).max(initial=0)) / scale
        if not apart <= TOLERANCE:
            return f"result {k} is off by {apart:.3g}", batched
    return "", batched


def _finite(values: Sequence[Array]) -> bool:
    return all(bool(np.isfinite(x).all()) for x in values)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, default=500, help="kinds of cells")
    parser.add_argument("--train", action="store_true", help="sequences, too")
    given = parser.parse_args()
    start, failures, rows = time.monotonic(), 0, 0
    for number in range(given.seed, given.seed + given.count):
        wrong, batched = compare(number, given.cells, given.train)
        rows += batched
        if wrong:
            failures += 1
            print(f"forest {number}: {wrong}", flush=True)
    took = time.monotonic() - start
    print(
        f"{given.count} forests from {given.seed}: {rows} as rows, {failures} differ, "
        f"{took:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
