"""The core records assignments and lets go of them as Python does."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.core.twins import in_python, needs_core
from treadle.autodiff import cached
from treadle.engines.native.engine import Native
from treadle.graph import assign, carried, look, thread
from treadle.graph.frame import pushed, top
from treadle.graph.thread import Frame
from treadle.graph.variable import Update
from treadle.optim.gradients import sums_by, sums_of
from treadle.runtime import again

nn = td.nn
COUNT = 3


@contextmanager
def without_core() -> Iterator[None]:
    """Let assignments do without the core."""
    with in_python(thread), pytest.MonkeyPatch.context() as patch:
        patch.setattr(assign, "native_calls", None)
        yield


def alone(frame: Frame) -> list[bool]:
    """Whether a frame is alone as it is, without its first or last update, turned, and
    where one that it does not carry out is seen."""
    pending, versions, said = frame.pending, frame.versions.copy(), [frame.alone()]
    for frame.pending in (pending[1:], pending[:-1], pending[::-1]):
        said.append(frame.alone())
    frame.pending = pending
    frame.versions[-1] = td.Variable(1.0).committed
    said.append(frame.alone())
    frame.versions = versions
    return said


def told(steps: list[tuple[list[int], list[int]]]) -> list[Any]:
    """What a frame sees, runs and awaits after each step: some Variables are assigned
    together, one perhaps twice, and some updates are let go of."""
    variables = [td.Variable(np.ones(2, np.float32)) for _ in range(COUNT)]
    frame, every, seen = Frame(), list[Any](), list[Any]()
    with pushed(frame):
        for chosen, gone in steps:
            pairs = [(variables[k], variables[k] * 2.0) for k in chosen]
            every += assign.update_all(pairs)
            number = {x.serial: k for k, x in enumerate(every)}
            frame.forget([every[k] for k in sorted({k % len(every) for k in gone})])
            versions = {
                k: number[frame.versions[id(v)].serial]
                for k, v in enumerate(variables)
                if id(v) in frame.versions
            }
            waiting = sorted(number[s] for s in frame.waiting)
            pending = [number[x.serial] for x in frame.pending]
            base = [number.get(x.inputs[0].serial, -1) for x in every]
            seen.append((versions, waiting, pending, base, alone(frame)))
    assert all(type(x.op) is Update and x.type == variables[0].type for x in every)
    return seen


@needs_core
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=4),
            st.lists(st.integers(0, 20), max_size=3),
        ),
        max_size=6,
    )
)
def test_frames_are_left_as_python_leaves_them(
    steps: list[tuple[list[int], list[int]]],
) -> None:
    machine = told(steps)
    with without_core():
        assert told(steps) == machine


@pytest.mark.parametrize("core", [True, False])
def test_values_are_cast_and_refused_before_any_is_assigned(core: bool) -> None:
    v, w = td.Variable(np.zeros(2, np.float32)), td.Variable(np.zeros(2, np.float32))
    with pytest.MonkeyPatch.context() as patch:
        if not core:
            patch.setattr(assign, "native_calls", None)
        assign.update_all([(v, v + 1.0), (w, np.float64(3.0))])
        assert v.numpy().tolist() == [1.0, 1.0] and w.numpy().tolist() == [3.0, 3.0]
        with pytest.raises(td.ShapeError, match="do not broadcast"):
            assign.update_all([(v, v + 1.0), (w, td.zeros((3,)) + w[0])])
        assert not top().pending and v.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("around", ["transaction", "explicit", "trace", "watched"])
def test_scopes_around_have_their_say(around: str) -> None:
    v = td.Variable(np.zeros(2, np.float32))
    if around == "transaction":
        with pytest.raises(KeyError), td.transaction():
            v.assign(v + 1.0)
            raise KeyError
        assert v.numpy().tolist() == [0.0, 0.0]
    elif around == "explicit":
        with td.explicit_updates():
            update = v.assign(v + 1.0)
        assert v.numpy().tolist() == [0.0, 0.0] and update.numpy().tolist() == [
            1.0,
            1.0,
        ]
    elif around == "trace":
        count = td.function(lambda x: v.assign(v + x))
        for _ in range(3):
            count(td.ones((2,)))
        assert v.numpy().tolist() == [3.0, 3.0]
    else:
        with td.metadata(name="here"):
            assert v.assign(v + 1.0).metadata == {"name": "here"}
        assert v.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("momentum", [0.1, None])
def test_a_batch_norm_called_twice_before_a_run(momentum: float | None) -> None:
    """The second call reads what the first one has assigned."""
    draw = np.random.default_rng(0)
    batches = [draw.normal(k, 1.0 + k, (5, 3)).astype("f") for k in range(6)]
    states = []
    for runs in (1, 2, 3):
        norm = nn.BatchNorm1d(3, momentum=momentum)
        for k, x in enumerate(batches):
            y = norm(td.asarray(x))
            if k % runs == 0:
                y.numpy()
        states.append([np.asarray(x).tolist() for x in norm.state_dict().values()])
    mean = np.mean([x.mean(0) for x in batches], 0)
    assert states[0] == states[1] == states[2]
    assert states[0][-1] == 6
    if momentum is None:
        np.testing.assert_allclose(states[0][2], mean, rtol=1e-5)


def step(norm: Any, optimizer: Any, k: int) -> float:
    x = td.asarray(np.random.default_rng(k).normal(size=(5, 3)).astype("f"))
    return float(optimizer.step((norm(x) ** 3).mean()))


@needs_core
@pytest.mark.parametrize("followed", [True, False])
def test_what_another_run_carries_out_is_waited_for(
    followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core leaves alone what a run of another thread is about to carry out."""
    norm, found = nn.BatchNorm1d(3), list[bool]()
    carried._runs.clear()  # an interrupt, as another test makes, leaves some
    optimizer = td.optim.SGD([norm.weight, norm.bias], lr=0.1)
    for k in range(8):
        step(norm, optimizer, k)
    other, run, meets, follow = carried.Carried(), Native.at_once, True, again.follow

    def meet() -> None:
        nonlocal meets
        if meets:
            meets = False
            with other.lock:  # held by nobody when it is waited for
                other.take([*top().pending])

    def met(self: Native, *given: Any) -> Any:
        meet()
        made = run(self, *given)
        found.append(made is not None)
        return made

    def met_first(*request: Any) -> Any:
        meet()
        return follow(*request) if followed else NotImplemented

    monkeypatch.setattr(Native, "at_once", met)
    monkeypatch.setattr(again, "follow", met_first)
    step(norm, optimizer, 8)
    assert found[0] is False and int(norm.num_batches_tracked) == 9
    assert not carried._runs and not top().versions
    step(norm, optimizer, 9)
    assert found == ([False] if followed else [False, True])
    assert int(norm.num_batches_tracked) == 10
    assert not top().versions and not top().pending


@needs_core
def test_threads_assign_while_others_are_recorded() -> None:
    """No assignment is lost, in whatever order threads come."""
    v = [td.Variable(np.zeros((), np.float32)) for _ in range(4)]
    start = threading.Barrier(3)

    def count() -> None:
        start.wait()
        for _ in range(200):
            with thread.assigning:  # the look at a version, and what follows it
                assign.update_all([(x, x + 1.0) for x in v])

    threads = [threading.Thread(target=count) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [float(x) for x in v] == [600.0] * 4


@needs_core
def test_assignments_keep_nothing_alive() -> None:
    def use() -> list[int]:
        norm = nn.BatchNorm1d(3)
        optimizer = td.optim.SGD([norm.weight, norm.bias], lr=0.1)
        for k in range(6):
            step(norm, optimizer, k)
        return [id(x) for x in norm.state_dict()]

    use()
    gc.collect()
    before = len([x for x in gc.get_objects() if isinstance(x, td.Variable)])
    use()
    gc.collect()
    after = len([x for x in gc.get_objects() if isinstance(x, td.Variable)])
    assert after <= before and not thread._assigned and not thread._waiting


@needs_core
def test_gradients_are_given_to_as_many_variables_or_to_none() -> None:
    v, w, x = td.param(init=1.0), td.param(init=2.0), td.constant(2.0)
    native = thread.native_calls
    assert native is not None
    assert native.give_gradients([v, w], (x, None), False)
    assert not native.give_gradients([w, v], (x, None), True)  # one holds one
    assert v.grad is x and w.grad is None
    for variables, gradients in (([v, w], [x]), ([w, x], [x, x]), ([w], [1.0])):
        with pytest.raises(TypeError):
            native.give_gradients(variables, gradients, False)
    assert v.grad is x and w.grad is None
    native.give_gradients((v, w), (), False)
    assert v.grad is None


def test_a_gradient_that_waits_is_let_go_of_with_its_variable() -> None:
    v = td.param(init=2.0)
    for _ in range(3):  # the third is of a derivative that is known
        v.grad = None
        (v * v).backward()
    gone = weakref.ref(v)
    del v
    gc.collect()
    assert gone() is None


@needs_core
def test_gradients_that_are_held_are_gathered_alike() -> None:
    table = td.lookup("table", (5, 3), init=1.0)
    frozen = td.lookup("frozen", (5, 3), init=1.0)
    frozen.freeze_rows([1])
    fixed, plain, idle = (td.param(init=np.ones(3, np.float32)) for _ in range(3))
    cases: list[tuple[list[td.Variable], bool]] = [
        ([plain, fixed, idle], True),
        ([idle], False),
        ([plain, table], False),
        ([plain, frozen], False),
        ([], False),
    ]
    rows = td.embedding(table, [0, 2]) * td.embedding(frozen, [1, 3])
    loss = (plain * fixed * rows).sum()
    loss.backward()
    fixed.trainable = False
    for parameters, told in cases:
        held = sums_by(tuple(parameters))
        assert (held is not None) == told
        if held is not None:
            work: Any = [(None, p, p.grad) for p in parameters if p is plain]
            assert held == sums_of(work, [(plain.grad,)])  # type: ignore[arg-type]


@needs_core
def test_a_derivative_that_is_known_is_recorded_alike() -> None:
    def told(versions: bool) -> list[Any]:
        a, b = (td.param(init=np.float32(k + 2)) for k in range(2))
        found = list[Any]()
        for k in range(5):
            x = a * np.float32(k)
            if versions and k > 2:
                a.assign(a + 1.0)
            y = x * b * a
            y.backward()
            found.append([(p.grad.type, p.grad.tolist()) for p in (a, b) if p.grad])
            node: Any = b.grad
            found.append([type(i.op).__name__ for i in node.inputs[0].inputs])
        return found

    for versions in (False, True):
        td.clear_cache()
        wanted = told(versions)
        with in_python(cached, look):
            td.clear_cache()
            assert told(versions) == wanted
