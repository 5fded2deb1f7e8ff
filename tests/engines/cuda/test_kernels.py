"""Kernels of graphs in CUDA's text: assembled, run by this processor, emulated.

`collecting` and `random_kernels` are the campaigns of which these are slices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.engines.cuda.collecting import of_contract, of_network
from tests.engines.cuda.host import HostDriver
from tests.engines.cuda.ptxas import assembler, problem_of
from tests.engines.cuda.random_kernels import Kernels
from tests.engines.cuda.steps import differing, program_for
from tests.engines.cuda.works import card
from tests.engines.test_contract import check
from tests.engines.test_device_rows import steps
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES, arrays_of, results
from treadle.base.errors import OutOfMemoryError, RunError
from treadle.engines.base import engine
from treadle.engines.gpu.engine import provide
from treadle.graph.leaves import constant_node

EACH = 60  # of the contract's kernels
needs_ptxas = pytest.mark.skipif(not assembler(), reason="there is no ptxas here")


@needs_ptxas
@pytest.mark.parametrize("wide", [False, True])
def test_kernels_of_the_contract_assemble_without_spills(wide: bool) -> None:
    works = of_contract(wide, EACH)
    assert works
    assert [p for p in map(problem_of, works) if p] == []


@needs_ptxas
def test_kernels_of_a_network_assemble_without_spills() -> None:
    works = of_network("lenet")
    assert len(works) > 10
    assert [p for p in map(problem_of, works) if p] == []


@pytest.mark.parametrize("wide", [False, True])
@each("sample", CASES[::11])
def test_a_kernel_has_the_native_engines_bits(sample: Sample, wide: bool) -> None:
    if wide and sample.differentiable == ():
        pytest.skip("of one type only")
    driver = HostDriver()
    leaves = [constant_node(a) for a in arrays_of(sample, wide=wide)]
    program, arrays = program_for(driver, *results(sample.op(*leaves)))
    _, found = differing(program, driver, arrays)
    assert found == []


@pytest.mark.parametrize("n", [100, 255, 256, 300])  # eight vectors are 256
def test_folds_of_short_and_long_axes_have_the_native_engines_bits(n: int) -> None:
    draws = np.random.default_rng(n).standard_normal((3, n)).astype(np.float32)
    driver, x = HostDriver(), constant_node(draws)
    program, arrays = program_for(driver, x.sum(1), x - x.max(1, keepdims=True))
    _, found = differing(program, driver, arrays)
    assert found == []


@pytest.mark.parametrize("number", [3, 11, 20])
def test_random_kernels_have_the_bits_of_the_native_engine(number: int) -> None:
    kernels = Kernels()
    assert kernels.differing(number) == ""
    assert kernels.count


@pytest.fixture(scope="module")
def emulated() -> str:
    """The name of an engine on the emulated card."""
    provide("emulated", lambda _: card(256 << 20)[1])
    return "emulated"


@each("sample", CASES[::5])
def test_an_op_means_the_same_on_the_emulated_card(
    sample: Sample, emulated: str
) -> None:
    with td.options(engine=emulated):
        check(sample, arrays_of(sample))


def test_a_step_copies_in_what_is_fed_and_out_what_is_asked() -> None:
    functions, driver = card()
    provide("counting", lambda _: driver)
    x = td.param("x", init=[[1.0, 2.0], [3.0, 4.0]])
    sgd = td.optim.SGD(lr=0.1)
    with td.options(engine="counting"):

        def step(k: int) -> float:
            return float(sgd.step(((x @ x) * td.asarray([[k, 1.0]])).sum()))

        for k in range(3):
            step(k)
        before = dict(functions.calls)
        step(3)
        after = functions.calls
    assert engine("counting").device == "Emulated device"
    copies = ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuLinkComplete")
    moved = [after.get(n, 0) - before.get(n, 0) for n in copies]
    assert moved[1:] == [1, 0]
    assert moved[0] <= 2


def test_training_on_the_emulated_card_has_the_losses_of_the_native_engine() -> None:
    provide("trained", lambda _: card(64 << 20)[1])

    def losses(**options: Any) -> list[float]:
        with td.options(seed=1, **options):
            model = td.nn.Sequential(
                td.nn.Linear(6, 16),
                td.nn.Tanh(),
                td.nn.Dropout(0.1),
                td.nn.Linear(16, 3),
            )
            adam = td.optim.Adam(lr=0.01)
            x = td.asarray([[0.1 * (i * j % 7) for j in range(6)] for i in range(8)])
            y = td.asarray([i % 3 for i in range(8)])
            entropy = td.nn.functional.cross_entropy
            return [float(adam.step(entropy(model(x), y))) for _ in range(5)]

    assert losses(engine="trained") == pytest.approx(losses(engine="native"), rel=1e-5)


def test_trees_on_the_emulated_card_have_the_losses_of_the_native_engine() -> None:
    provide("growing", lambda _: card(64 << 20)[1])
    found = [steps(name, [0, 1], lambda: None) for name in ("growing", "native")]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_step_without_memory_leaves_the_weights_as_they_were() -> None:
    """What was written over was handed on before all memory was there."""
    functions, driver = card()
    provide("full", lambda _: driver)
    w, sgd = td.param("w", init=np.ones((64, 8), "f4")), td.optim.SGD(lr=0.5)

    def step(rows: int) -> float:
        return float(sgd.step((td.asarray(np.ones((rows, 64), "f4")) @ w).mean()))

    with td.options(engine="full"):
        for _ in range(3):
            step(2)
        before = w.numpy()
        functions.refuse("cuMemAlloc_v2", 2)
        for _ in range(2):
            with pytest.raises(OutOfMemoryError):
                step(500)
        functions.refusals.clear()
        assert np.array_equal(w.numpy(), before)
        assert step(500) == pytest.approx(before.sum() / 8)


def test_without_a_card_the_engine_says_so_in_one_sentence() -> None:
    with td.options(engine="cuda"), pytest.raises(RunError) as raised:
        (td.asarray([1.0]) + 1).numpy()
    assert "there is no CUDA device here" in str(raised.value)
