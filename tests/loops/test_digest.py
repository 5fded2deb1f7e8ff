"""Kernels have digests by their content, the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

import treadle as td
from tests.ops.test_contract import CASES
from tests.programs import kernels_of, program_of
from treadle.loops.digest import digest
from treadle.loops.index import LoopAxis
from treadle.loops.kernel import Kernel, Loop
from treadle.loops.text import kernel_text
from treadle.ops.families import Family

PROGRAM = """
import treadle as td
from tests.programs import kernels_of, program_of
from treadle.loops.digest import digest
x = td.param("x", init=[[1.0, 2.0], [3.0, 4.0]])
y = td.softmax(x[:, ::-1], 1) + td.concat([x, x * 2.0], 0)[1:3]
print(*[digest(s.kernel) for s in kernels_of(program_of(y))])
"""


def kernels() -> list[Kernel]:
    found = []
    for case in CASES[::7]:
        sample = case.values[0]  # type: ignore[attr-defined]
        if not isinstance(sample.op, Family):
            continue
        xs = [td.zeros(i.shape).astype(i.dtype) for i in sample.inputs]
        try:
            found += [s.kernel for s in kernels_of(program_of(sample.op(*xs)))]
        except td.TreadleError:
            continue
    return found


def test_equal_kernels_and_no_others_have_equal_digests() -> None:
    known: dict[str, Kernel] = {}
    found = kernels()
    assert len(found) > 20
    for kernel in found:
        plain = replace(kernel, name="")
        assert known.setdefault(digest(kernel), plain) == plain
    assert len(known) == len({replace(k, name="") for k in found})
    assert len(known) >= len({kernel_text(replace(k, name="")) for k in found})


def test_digests_are_the_same_in_every_process() -> None:
    def told(seed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        return done.stdout

    first = told("1")
    assert first.strip() and first == told("2")


def changed(kernel: Kernel, change: str) -> Kernel:
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    if change == "lanes":
        return kernel.with_body((replace(loop, lanes=loop.lanes + 1),))
    if change == "short lanes":
        return kernel.with_body((replace(loop, short_lanes=4),))
    if change == "kind":
        return kernel.with_body((replace(loop, kind="serial"),))
    if change == "extent":
        return kernel.with_body((replace(loop, axis=LoopAxis(loop.axis.name, 3)),))
    if change == "arguments":
        first, *rest = kernel.arguments
        return replace(kernel, arguments=(replace(first, streamed=True), *rest))
    return replace(kernel, **{change: not getattr(kernel, change)})


@pytest.mark.parametrize(
    "change",
    ["lanes", "short lanes", "kind", "extent", "arguments", "checks", "ordered"],
)
def test_what_code_depends_on_changes_the_digest(change: str) -> None:
    x = td.param("x", init=[1.0, 2.0, 3.0])
    (launch,) = kernels_of(program_of(td.sqrt(x) + x * 2.0))
    kernel = launch.kernel
    assert digest(changed(kernel, change)) != digest(kernel)
    assert digest(replace(kernel, name="other")) == digest(kernel)
