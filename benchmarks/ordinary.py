"""Ordinary programs: what a workload of steps that people write by hand is made of.

Each is a file of `workloads/`: the program as a user of treadle writes it beside the
same in torch or jax, from the same first weights. One thread; a figure is the median of
the processor time of a step, where the first quarter of the steps does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.workload import Case, Cases, Implementation, Workload

__all__ = ["Array", "arrays", "case", "layers", "learn", "loaded", "of_both", "program"]

Array = np.ndarray[Any, Any]
Step = Callable[[int], Any]  # the k-th step; its loss, or a number of what it found


def program(
    name: str,
    sizes: Mapping[str, Any],
    data: Callable[[Any, str], Any],
    steps: int,
    alike: tuple[str, ...] = (),
    *,
    implementations: Mapping[str, Implementation],
) -> Workload:
    """The workload of an ordinary program, of which so many steps are timed."""
    return Workload(
        name=name,
        sizes=sizes,
        data=data,
        implementations=implementations,
        claims=(),
        memory=False,
        steps=steps,
        alike=alike,
    )


def case(name: str, step: Step) -> Case:
    """The case whose runs are the steps from the first on."""
    done = 0

    def run(count: int) -> float:
        nonlocal done
        for _ in range(count):
            last = step(done)
            done += 1
        return float(last)

    return Case(name, run)


def layers(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """First weights and biases by torch's names, within 1 / sqrt(fan-in)."""
    rng, found = np.random.default_rng(seed), dict[str, Array]()
    for name, shape in shapes.items():
        limit = 1.0 / np.sqrt(np.prod(shape[1:]))
        for part, extents in (("weight", shape), ("bias", shape[:1])):
            drawn = rng.uniform(-limit, limit, extents)
            found[f"{name}.{part}"] = drawn.astype(np.float32)
    return found


def arrays(lib: Any, *given: Array) -> list[Any]:
    """Data as a user of the library has them: torch's are tensors, without a copy."""
    return [lib.from_numpy(x) if lib.__name__ == "torch" else x for x in given]


def loaded(lib: Any, model: Any, weights: Mapping[str, Array]) -> Any:
    """A module at its first weights; what is not among them stays as it is."""
    values = arrays(lib, *weights.values())
    model.load_state_dict(dict(zip(weights, values, strict=True)), strict=False)
    return model


def learn(lib: Any, optimizer: Any, loss: Any) -> Any:
    """One update in the fewest words of the library; the loss."""
    if lib.__name__ == "treadle":
        return optimizer.step(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def of_both(cases: Callable[[Any, Any, Any, bool], Cases]) -> dict[str, Implementation]:
    """The implementations in treadle and torch of a program that is spelled alike:
    `cases(library, sizes, data, checking)`."""

    def written(name: str) -> Implementation:
        def made(sizes: Any, part: str, given: Any, checking: bool) -> Cases:
            return cases(import_module(name), sizes, given, checking)

        return made

    return {name: written(name) for name in ("treadle", "torch")}
