"""Every workload at a tiny size in treadle; no peer but NumPy is needed."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from benchmarks import corpora, fit, loop, resident
from benchmarks import pictures as pictures_module
from benchmarks.bandwidth import Copy, InCache
from benchmarks.libraries import library_of
from benchmarks.one import by_steps, measure
from benchmarks.pictures import pictures
from benchmarks.workload import SIZES, Case, stepping
from benchmarks.workloads import (
    NAMES,
    ORDINARY,
    branches,
    contraction,
    elementwise,
    memory,
    workload,
)

PARTS = [(name, part) for name in NAMES for part in workload(name).parts]


@pytest.fixture(autouse=True)
def own_options(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A measurement sets the threads of its process; give them back."""
    monkeypatch.delenv("TREADLE_DATA", raising=False)
    with td.options():
        yield


def measured(
    name: str, part: str, implementation: str = "treadle", **given: Any
) -> Any:
    setting = {"part": part, "sizes": "tiny", "quick": True, "check": False}
    chosen = Namespace(**{**setting, "only": "", "threads": 1, **given})
    work = replace(workload(name), seconds=0.001)  # how long it takes is not tested
    return measure(work, implementation, chosen)


@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_whole(name: str) -> None:
    work = workload(name)
    assert work.name == name
    assert set(work.sizes) == set(SIZES)
    assert "treadle" in work.implementations
    known = {*work.implementations, *map(library_of, work.implementations)}
    assert all(c.against in {*known, "fastest", "bound"} for c in work.claims)


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_treadle_is_measured(name: str, part: str) -> None:
    """And its values are the same each time, where there are steps to check."""
    figures = measured(name, part)
    assert figures
    for figure in figures.values():
        assert all(s > 0 for s in figure["seconds"])
        assert ("megabytes" in figure) == workload(name).memory
    if workload(name).check_steps < 2:
        return
    first, second = (measured(name, part, check=True) for _ in range(2))
    assert first == second
    learns = not part.startswith("forward")
    for figure in first.values():
        assert all(math.isfinite(value) for value in figure["values"])
        assert (len(set(figure["values"])) > 1) == learns
    if name in ORDINARY:
        assert set(first).issuperset(workload(name).alike)


def test_a_step_is_counted() -> None:
    (figure,) = measured("owl", "step").values()
    counts = figure["counts"]
    stages = ["inline", "rewrite", "write out", "convolve", "straighten", "cut"]
    stages.append("leave out")
    sizes = [counts[f"after {stage!r}: nodes"] for stage in stages]
    # A step writes more nodes down than are left when equal ones are one.
    assert counts["step, nothing shared: nodes"] > sizes[-1] > counts["launched"] > 0
    assert counts["step, as built: nodes"] < sizes[0] and sizes[1] <= sizes[0]
    assert counts["bytes"] > 0
    assert "counts" not in measured("lenet", "step")["step"]


def test_fit_beside_a_plain_loop_of_the_same_losses() -> None:
    with td.options(seed=1):
        loop_turn, _ = fit.turns("tiny")
        first = [loop_turn(3), loop_turn(2)]
    with td.options(seed=1):
        _, fit_turn = fit.turns("tiny")
        assert [fit_turn(3), fit_turn(2)] == pytest.approx(first, rel=1e-6)
    assert len(fit.measure("tiny")) == 4


def test_a_loop_beside_the_same_as_a_function() -> None:
    plain, function, ratio = loop.measure("tiny")
    pairs = zip(plain.samples, function.samples, strict=True)
    assert ratio.samples == tuple(a / b for a, b in pairs)
    assert ratio.floor == 1.1


def test_branches_in_one_graph_beside_one_after_the_other() -> None:
    rows = branches.measure("tiny")
    for apart, both, ratio in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        pairs = zip(both.samples, apart.samples, strict=True)
        assert ratio.samples == tuple(a / b for a, b in pairs)
    assert rows[2].floor == 1 / 1.6


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_speaks_of_a_case(name: str) -> None:
    work = workload(name)
    cases: set[str] = set()
    for part in work.parts:
        sizes = work.sizes["tiny"]
        given = work.data(sizes, part)
        found = work.implementations["treadle"](sizes, part, given, True)
        cases |= {case.name for case in found}
    for claim in work.claims:
        assert any(fnmatchcase(case, claim.case) for case in cases), claim


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_program_is_measured_by_steps(name: str) -> None:
    work = workload(name)
    assert work.steps is not None and not work.claims
    assert work.check_steps > 1 and work.parts == ("step",)


def test_cases_that_are_alike_start_and_go_alike() -> None:
    found = measured("spellings", "step", check=True)
    plain = found["step"]["values"]
    for name in workload("spellings").alike:
        if name != "accuracy read":  # which is added
            assert found[name]["values"] == pytest.approx(plain, rel=1e-6), name


def test_a_step_of_an_ordinary_program_is_one_run() -> None:
    ran: list[int] = []
    found = by_steps(Case("step", lambda n: float(ran.append(n) or 0)), 40, False)
    assert ran == [1] * 40 and len(found) == 30
    assert len(by_steps(Case("step", float), 40, True)) == 3


def test_products_are_those_of_numpy() -> None:
    ours, numpys = (
        measured("contraction", "gemm", name, check=True)
        for name in ("treadle", "openblas")
    )
    assert ours.keys() == numpys.keys()
    for name in ours:
        assert ours[name]["values"] == pytest.approx(numpys[name]["values"], 1e-5)


def test_chains_are_what_they_say() -> None:
    given = elementwise.data(workload("elementwise").sizes["tiny"], "chains")
    ops = {"exp": np.exp, "tanh": np.tanh, "erf": np.vectorize(math.erf)}
    found = measured("elementwise", "chains", check=True)
    lengths = {"chain of 4": 4, "chain of 16": 16}
    for name, steps in elementwise.CHAINS.items():
        assert len(steps) == lengths.get(name, 1)
        x, z = given.x.astype(np.float64), given.z.astype(np.float64)
        expected = elementwise.told(elementwise.chained(name, x, z, ops))
        assert found[name]["values"] == pytest.approx([expected], rel=1e-4, abs=1e-4)


def test_the_convolutions_are_those_of_resnet_50() -> None:
    assert len(contraction.RESNET) == len(set(contraction.RESNET)) == 23
    last = contraction.RESNET[-1]
    assert (last.channels, last.size, last.outputs) == (2048, 7, 512)


def test_pictures_are_real_or_of_the_same_shape(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place in (pictures_module._DEBIAN, tmp_path / "nothing"):
        monkeypatch.setattr(pictures_module, "_DEBIAN", place)
        images, labels = pictures(2, 3, 27)
        assert images.shape == (2, 3, 1, 27, 27) and images.dtype == np.float32
        assert labels.shape == (2, 3) and labels.dtype == np.int64
        assert 0 <= images.min() < images.max() <= 1
        assert labels.min() >= 0 and labels.max() < 10


def test_a_step_takes_the_batches_in_turn() -> None:
    case = stepping("step", lambda a, b: a + b, [(1, 2), (3, 4), (5, 6)], 2.0, "words")
    assert [case.run(1), case.run(2), case.run(1)] == [3.0, 11.0, 3.0]
    assert (case.work, case.unit) == (2.0, "words")


def size(tree: corpora.Tree) -> int:
    return sum(map(size, tree)) if isinstance(tree, tuple) else 1


def test_trees_and_sentences_are_those_of_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (
        (
            corpora.TREES,
            "(3 (2 A) (1 (2 dull) (2 film)))\n(4 (2 Good))\n(0 (2 x) (2 y))",
        ),
        (corpora.SENTENCES, "In|O Rome|I-LOC a|b|O\n\n.|O"),
    ):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
    monkeypatch.setenv("TREADLE_DATA", str(tmp_path))
    assert corpora.trees(2) == [(("A", ("dull", "film")), 3), ("Good", 4)]
    assert corpora.trees(9, longest=2) == [("Good", 4), (("x", "y"), 0)]
    long = [("In", "O"), ("Rome", "I-LOC"), ("a|b", "O")]
    assert corpora.sentences() == [long, [(".", "O")]]
    assert corpora.sentences(longest=1) == [[(".", "O")]]
    said = corpora.source(corpora.TREES)
    assert corpora.TREES in said and str(tmp_path) not in said  # it is kept


def test_without_a_folder_they_are_random_and_of_their_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TREADLE_DATA", raising=False)
    assert "random" in corpora.source(corpora.SENTENCES)
    trees, again = corpora.trees(300), corpora.trees(300)
    assert trees == again
    assert 17 < np.mean([size(tree) for tree, _ in trees]) < 21
    assert {label for _, label in trees} == set(range(5))
    assert all(size(tree) <= 3 for tree, _ in corpora.trees(20, longest=3))
    lengths = [len(s) for s in corpora.sentences()]
    assert 21 < np.mean(lengths) < 25 and min(lengths) >= 1
    assert max(map(len, corpora.sentences(longest=2))) <= 2


def test_the_peak_is_seen_and_reset() -> None:
    before = resident.resident()
    large = np.ones(8 << 20, np.float32)
    del large
    assert resident.peak() > before + 25
    resident.reset_peak()
    assert resident.peak() < before + 25


def test_what_the_machine_allows() -> None:
    whole, half = Copy(1 << 16), Copy(1 << 16, 0.5)
    whole.turn()
    half.found = whole.found
    assert whole.seconds == 2 * half.seconds > 0

    def make(n: int) -> Any:
        x = np.ones(n, np.float32)
        return lambda count: [x * x for _ in range(count)]

    bound = InCache(make, (1 << 15, 1 << 17), 1 << 20)
    for _ in range(2):
        bound.turn()
    assert {len(times) for times in bound.found.values()} == {8}
    assert bound.seconds >= 0


def test_a_bound_is_the_slope_of_the_medians_of_all_turns() -> None:
    bound = InCache(lambda n: lambda count: 0.0, (10, 20, 40), 100)
    bound.found = {10: [2.0, 9.0, 2.0], 20: [3.0, 3.0, 7.0], 40: [5.0, 5.0, 5.0]}
    assert bound.seconds == pytest.approx(10.0)


def test_memory_is_that_of_the_planned_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "STEPS", (("lenet", "step"),))
    over, arena, order = (row for row in memory.measure("tiny") if row.samples)
    assert over.unit == "x" and over.samples[0] >= 1
    assert 0.5 < order.samples[0] < 2
    # The convolution's result lives in the arena: 3 images, 2 channels, 8 by 8.
    assert arena.samples[0] >= 3 * 2 * 8 * 8 * 4 / 1e6


def test_an_engine_without_a_plan_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(td, "latest_program", lambda: None)
    with pytest.raises(RuntimeError, match="tells no planned memory"):
        memory.footprint("lenet", "step", "tiny")
