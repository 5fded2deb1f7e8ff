"""recurrent: an LSTM and a GRU of 100 steps, by a loop as people write it, by layers.

32 sequences of width 64, states of width 128: what the layer comes to without
gradients, and an update by Adam on the mean of squares. torch has layers for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.ordinary import Array, arrays, case, layers, learn, loaded, program
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]

RATE, STEPS, BATCHES = 1e-3, 40, 4
PARTS = {"LSTM": 4, "GRU": 3}


@dataclass(frozen=True)
class Sizes:
    """Steps, sequences, and extents of a layer."""

    steps: int = 100
    batch: int = 32
    width: int = 64
    hidden: int = 128


@dataclass(frozen=True)
class Data:
    """Minibatches, and the first weights of each layer by torch's names."""

    batches: list[Array]
    weights: dict[str, dict[str, Array]]


def data(sizes: Sizes, part: str) -> Data:
    """Noise."""
    rng = np.random.default_rng(0)
    shape = sizes.steps, sizes.batch, sizes.width
    weights = {}
    for name, parts in PARTS.items():
        n = parts * sizes.hidden
        found = layers(1, {"ih": (n, sizes.width), "hh": (n, sizes.hidden)})
        weights[name] = {
            f"{part_of}_{which}_l0": found[f"{which}.{part_of}"]
            for which in ("ih", "hh")
            for part_of in ("weight", "bias")
        }
    drawn = [rng.standard_normal(shape).astype(np.float32) for _ in range(BATCHES)]
    return Data(drawn, weights)


def by_loop(name: str, sizes: Sizes, model: Any) -> Callable[[Any], Any]:
    """The layer's formulas in a scan, on the layer's weights."""
    td: Any = import_module("treadle")
    w, u = model.weight_ih_l0, model.weight_hh_l0
    b, c, n = model.bias_ih_l0, model.bias_hh_l0, sizes.hidden

    def split(z: Any) -> list[Any]:
        return [z[:, k * n : (k + 1) * n] for k in range(PARTS[name])]

    def lstm(state: Any, x: Any) -> Any:
        h, s = state
        i, f, g, o = split(x @ w.T + h @ u.T + b + c)
        s = td.sigmoid(f) * s + td.sigmoid(i) * td.tanh(g)
        h = td.sigmoid(o) * td.tanh(s)
        return (h, s), h

    def gru(h: Any, x: Any) -> Any:
        (r, z, new), (r1, z1, new1) = split(x @ w.T + b), split(h @ u.T + c)
        r, z = td.sigmoid(r + r1), td.sigmoid(z + z1)
        h = (1 - z) * td.tanh(new + r * new1) + z * h
        return h, h

    zero = td.zeros((sizes.batch, n))
    if name == "LSTM":
        return lambda x: td.scan(lstm, (zero, zero), x)[1]
    return lambda x: td.scan(gru, zero, x)[1]


def cases(lib: Any, sizes: Sizes, given: Data, loops: bool) -> Cases:
    """Both layers, in a library's own form or in a loop."""
    form = "by a loop" if loops else "by the layer"
    batches = [lib.asarray(x) for x in arrays(lib, *given.batches)]
    for name in PARTS:

        def made(name: str) -> tuple[Any, Any]:
            layer = getattr(lib.nn, name)(sizes.width, sizes.hidden)
            model = loaded(lib, layer, given.weights[name])
            own = loops and lib.__name__ == "treadle"
            run = by_loop(name, sizes, model) if own else lambda x: model(x)[0]
            return model, run

        def value(name: str) -> Callable[[int], Any]:
            _, run = made(name)

            def step(k: int) -> Any:
                with lib.no_grad():
                    return run(batches[k % BATCHES]).sum()

            return step

        def update(name: str) -> Callable[[int], Any]:
            model, run = made(name)
            optimizer = lib.optim.Adam(model.parameters(), lr=RATE)

            def step(k: int) -> Any:
                loss = (run(batches[k % BATCHES]) ** 2).mean()
                return learn(lib, optimizer, loss)

            return step

        yield case(f"{name} {form}, a value", value(name))
        yield case(f"{name} {form}, a step", update(name))


def of(name: str) -> Any:
    """The implementation in a library."""

    def made(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
        library = import_module(name)
        yield from cases(library, sizes, given, True)
        yield from cases(library, sizes, given, False)

    return made


WORKLOAD = program(
    "recurrent",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(steps=37, batch=17, width=50, hidden=96),
        "tiny": Sizes(steps=4, batch=3, width=5, hidden=6),
    },
    data=data,
    steps=STEPS,
    implementations={"treadle": of("treadle"), "torch": of("torch")},
)
