"""`python -m tests.engines.cuda.random_kernels --count 1000 --seed 0`: random graphs.

The kernels of each graph and of its derivatives, in the text that a card is given, run
on this processor item by item, and have the bits of the native engine's own code; every
tenth goes through PTX on the emulated card as well.
"""

from __future__ import annotations

from typing import Any

import treadle as td
from tests.engines.cuda.host import HostDriver
from tests.engines.cuda.steps import differing, program_for
from tests.engines.cuda.works import card
from tests.fuzz.campaign import campaign
from tests.fuzz.graphs import build, draw, outputs_of

__all__ = ["Kernels"]

EMULATED = 10


class Kernels:
    """What differs for a number, and how many kernels there were."""

    def __init__(self) -> None:
        self.count = self.emulated = 0

    def __str__(self) -> str:
        return f"{self.count} kernels, {self.emulated} of them emulated"

    def differing(self, number: int) -> str:
        recipe = draw(number)
        dtype = "float64" if number % 4 == 3 else "float32"
        with td.options(dtype=dtype):
            inputs, values = build(recipe, dtype)
            outputs = [values[k] for k in outputs_of(recipe)]
            total = sum((td.tanh(y).sum() for y in outputs[1:]), outputs[0].sum())
            roots = [*outputs, *td.grad(total, inputs, unused="zero")]
            drivers: list[Any] = [HostDriver()]
            if number % EMULATED == 0:
                drivers.append(card()[1])
            found: list[str] = []
            for driver in drivers:
                program, arrays = program_for(driver, *roots)
                count, told = differing(program, driver, arrays)
                found += told
                if isinstance(driver, HostDriver):
                    self.count += count
                else:
                    self.emulated += count
        return "; ".join(found)


if __name__ == "__main__":
    kernels = Kernels()
    raise SystemExit(campaign(kernels.differing, 1000, kernels))
