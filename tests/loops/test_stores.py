"""The loops of a store are the extents of its buffer, or the kernel is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from tests.programs import kernels_of, program_of
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Guard, Kernel, KernelArgument, Loop, Store, statements
from treadle.loops.parameters import bound
from treadle.loops.verify import store_problems, verified
from treadle.program.program import Launch, Program


def _problems(program: Program, step: Launch, kernel: Kernel) -> str:
    """What is wrong with a kernel on the buffers of a step."""
    sizes = [program.buffers[n].type.size for n in step.buffers]
    return "; ".join(store_problems(kernel, sizes, True))


def _two_results() -> tuple[Program, Launch, Kernel]:
    """A kernel that stores a fold of rows, and each element."""
    x = td.asarray(np.ones((30, 50), np.float32))
    s = x.sum(1, keepdims=True)
    program = program_of(s, x - s)
    (step,) = kernels_of(program)
    return program, step, bound(step.kernel, step.integers)


def test_a_store_that_lost_a_loop_is_refused() -> None:
    program, step, kernel = _two_results()
    assert _problems(program, step, kernel) == ""
    outer = kernel.body[0]
    assert isinstance(outer, Loop)
    inner = [s for s in outer.body if isinstance(s, Loop)][-1]
    (store,) = [s for s in statements(inner.body) if isinstance(s, Store)]
    without = store.index.replaced({inner.axis: Index()})
    lost = replace(outer, body=(replace(store, index=without),))
    told = _problems(program, step, kernel.with_body((lost,)))
    assert "1500 elements, of which 30 are stored" in told
    lost = replace(outer, body=(store,))
    told = _problems(program, step, kernel.with_body((lost,)))
    assert f"b1: axis {inner.axis.name} is used outside of its loop" in told


def test_a_store_beyond_its_buffer_is_refused() -> None:
    program, step, kernel = _two_results()
    sizes = [program.buffers[n].type.size for n in step.buffers]
    for number, size in enumerate(sizes[: len(step.written)]):
        less = [*sizes[:number], size - 1, *sizes[number + 1 :]]
        (told,) = store_problems(kernel, less, True)
        assert f"b{number} has {size - 1} elements and is stored to from 0 to" in told


def test_a_buffer_without_elements_is_stored_to_in_loops_without_steps() -> None:
    """The loop of an empty result went: its store ran once for each column."""
    _, _, kernel = _two_results()
    rows = LoopAxis("r", 0)
    (told,) = store_problems(kernel, [30, 0, 1500], True)
    assert "b1 has 0 elements and is stored to" in told
    empty = Loop(rows, kernel.body, "parallel")
    assert store_problems(kernel.with_body((empty,)), [0, 0, 0], True) == []
    x = td.asarray(np.ones((30,), np.float32))
    with pytest.raises(td.RunError, match="is wrong: b1 has 30 elements"):
        verified(kernel, [x, x, x])


def test_scratch_is_filled_as_far_as_it_is_read() -> None:
    _, _, kernel = _two_results()
    scratch = KernelArgument(np.dtype(np.float32), True, 16)
    (store,) = [s for s in statements(kernel.body) if isinstance(s, Store)][:1]
    wait = Store(len(kernel.arguments), Index.of(LoopAxis("i", 10)), store.value)
    body = (*kernel.body, Loop(LoopAxis("i", 10), (wait,), "serial"))
    own = replace(kernel, arguments=(*kernel.arguments, scratch), body=body)
    assert store_problems(own, [30, 1500, 1500], True) == []
    small = replace(own, arguments=(*kernel.arguments, replace(scratch, scratch=9)))
    (told,) = store_problems(small, [30, 1500, 1500], True)
    assert "b3 has 9 elements and is stored to from 0 to 9" in told


def test_guards_narrow_what_is_reached() -> None:
    _, _, kernel = _two_results()
    axis = LoopAxis("i", 10)
    (store,) = [s for s in statements(kernel.body) if isinstance(s, Store)][:1]
    place = Index.of(axis) - 2
    inside = Store(0, place, store.value, guards=(Guard(place, 0, 5),))
    own = kernel.with_body((Loop(axis, (inside,), "parallel"),))
    assert store_problems(own, [5, 1, 1], True) == []
    (told,) = store_problems(own, [4, 1, 1], True)
    assert "b0 has 4 elements and is stored to from 0 to 4" in told
