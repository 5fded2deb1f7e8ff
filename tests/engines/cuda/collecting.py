"""`python -m tests.engines.cuda.collecting`: every kernel through LLVM and ptxas.

The contract suite's ops, forward and backward, and training steps of networks run on a
device that computes nothing and notes what it is to compute. Each kernel is written,
made PTX, and assembled; what does not assemble or keeps registers in memory is told.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np

import treadle as td
from benchmarks.workloads import workload
from tests.engines.cuda.host import HostDriver, HostMemory
from tests.engines.cuda.ptxas import OLD, assembler, problem
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES, arrays_of, results
from treadle.base.errors import MissingExtraError, TreadleError
from treadle.engines.gpu.cuda.builder import text_of
from treadle.engines.gpu.cuda.ptx import ptx_of
from treadle.engines.gpu.engine import provide
from treadle.engines.gpu.work import Work
from treadle.graph.leaves import constant_node

__all__ = ["NETWORKS", "Collecting", "of_contract", "of_network"]

NETWORKS = ("lenet", "gpt", "resnet", "tagger", "tree")
_numbers = count()


class Collecting(HostDriver):
    """A device that notes the work it is given, and does none of it."""

    def __init__(self) -> None:
        super().__init__()
        self.works: dict[Work, None] = {}

    def allocate(self, bytes: int) -> HostMemory:
        return HostMemory(np.zeros(bytes, np.uint8))

    def compile(self, work: Work) -> Any:
        self.works.setdefault(work)
        return work

    def bind(self, *given: Any) -> Any:
        """Results are what memory begins with."""
        return lambda: None


def _collected(run: Callable[[], None]) -> list[Work]:
    """The works of what is run on a device of its own."""
    driver = Collecting()
    name = f"collecting {next(_numbers)}"
    provide(name, lambda _: driver)
    with td.options(engine=name):
        run()
    return list(driver.works)


def of_contract(wide: bool, each: int = 1) -> list[Work]:
    """The kernels of every so-manieth sample of the contract suite."""

    def run() -> None:
        for case in CASES[::each]:
            with suppress(MissingExtraError):
                _evaluate(case.values[0], wide)

    return _collected(run)


def _evaluate(sample: Sample, wide: bool) -> None:
    """Ask for the results of a sample, and for derivatives where it has any."""
    if wide and sample.differentiable == ():
        return
    leaves = [constant_node(a) for a in arrays_of(sample, wide=wide)]
    found = list(results(sample.op(*leaves)))
    smooth = [y.sum() for y in found if y.type.dtype.kind == "f"]
    inputs = [x for x in leaves if x.type.dtype.kind == "f"]
    if smooth and inputs and type(sample.op).traits.differentiable:
        with suppress(TreadleError):  # some have no derivative by this input
            found += td.grad(sum(smooth[1:], smooth[0]), inputs, unused="zero")
    with suppress(TreadleError):  # of a rule that is given memory as it began
        td.evaluate(*found)


def of_network(name: str) -> list[Work]:
    """The kernels of training steps of a network, at the least size."""
    network = workload(name)
    sizes = network.sizes["tiny"]

    def run() -> None:
        for part in network.parts:
            data = network.data(sizes, part)
            for case in network.implementations["treadle"](sizes, part, data, False):
                case.run(2)

    return _collected(run)


def main() -> int:
    """Assemble all kernels; 1 if there is one that does not, or that spills."""
    works: dict[Work, str] = {}
    for wide in (False, True):
        works |= dict.fromkeys(of_contract(wide), f"contract, wide: {wide}")
    for name in NETWORKS:
        before = len(works)
        found = of_network(name)
        works = dict.fromkeys(found, name) | works
        print(f"{name}: {len(found)} kernels, {len(works) - before} of its own")
    written, translated, texts = [], [], []
    for work in works:
        start = time.process_time()
        text = text_of(work)
        middle = time.process_time()
        texts.append(ptx_of(text, OLD))
        written.append(middle - start)
        translated.append(time.process_time() - middle)
    if assembler():
        with ThreadPoolExecutor(2) as pool:
            told = list(pool.map(lambda ptx: problem(ptx, OLD), texts))
        bad = [(w, t) for w, t in zip(works, told, strict=True) if t]
        for work, what in bad:
            print(f"{work.name} ({works[work]}): {what}")
        print(f"{len(works)} kernels, {len(bad)} refused or with spills")
    for what, times in (("text", written), ("PTX", translated)):
        median, most = statistics.median(times), max(times)
        print(f"{what}: median {1e3 * median:.1f} ms, most {1e3 * most:.1f} ms")
    return 1 if assembler() and bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
