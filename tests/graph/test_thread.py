"""What each thread has around it, however they take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

import treadle as td
from treadle.base.options import modes
from treadle.graph.thread import thread_state

TURNS = 30


def in_turn(*jobs: Callable[[int], None]) -> None:
    """Do one step of each job after the other, each in a thread of its own."""
    gates = [threading.Semaphore(k == 0) for k in range(len(jobs))]
    errors: list[BaseException] = []

    def work(k: int) -> None:
        for turn in range(TURNS):
            gates[k].acquire()
            try:
                jobs[k](turn)
            except BaseException as error:
                errors.append(error)
            gates[(k + 1) % len(gates)].release()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_nodes_carry_the_notes_of_their_thread() -> None:
    """Also those of layers and cells, whose calls are followed in machine code."""
    layer, cell = td.nn.Embedding(5, 3), td.function(lambda x: td.tanh(x) * 2.0)
    x = td.asarray(np.ones(3, np.float32)).node()

    def job(name: str | None) -> Callable[[int], None]:
        want = {} if name is None else {"who": name}

        def step(turn: int) -> None:
            with td.metadata(**want):
                for node in (td.tanh(x), cell(x), layer(turn % 5)):
                    found = dict(node.metadata)
                    found.pop("module", None)
                    assert found == want
            assert thread_state().notes is None

        return step

    in_turn(job("a"), job("b"), job(None))


def test_scopes_stay_open_while_others_take_turns() -> None:
    """One thread builds constants, which the other does not, and assigns, which the
    other sees: it is the first to need that."""
    w = td.param("w", init=np.ones(2, np.float32))
    v = td.Variable(np.zeros((), np.float32))
    cell = td.function(lambda x: x * w)
    x = td.asarray(np.full(2, 3.0, np.float32))
    scope = td.no_grad()

    def closed(turn: int) -> None:
        if turn == 0:
            scope.__enter__()
            v.assign(v + 1.0)  # waits to be run
        assert td.grad(cell(x).sum(), [w], unused="zero")[0].tolist() == [0.0, 0.0]
        assert len(thread_state().frames[-1].pending) == 1
        if turn == TURNS - 1:
            assert float(v) == 1.0
            scope.__exit__(None, None, None)

    def plain(turn: int) -> None:
        assert td.grad(cell(x).sum(), [w])[0].tolist() == [3.0, 3.0]
        assert not thread_state().frames[-1].pending
        assert float(v) == 1.0

    in_turn(closed, plain)


def test_a_new_thread_has_nothing_around_it() -> None:
    """However many have ended, whose memory it may have got."""
    x = td.asarray(np.ones(3, np.float32)).node()
    left: list[object] = []
    for _ in range(50):
        found: list[object] = []

        def ends(found: list[object] = found) -> None:
            found.append(dict(td.tanh(x).metadata))
            state = thread_state()
            found.append(
                (modes.get().no_grad, len(state.frames), modes.get().transactions)
            )
            for scope in (td.metadata(left="open"), td.no_grad()):
                scope.__enter__()
                left.append(scope)

        thread = threading.Thread(target=ends)
        thread.start()
        thread.join()
        assert found == [{}, (0, 1, ())]
    left.clear()  # closed here, for threads that are gone
    assert (modes.get().no_grad, thread_state().notes) == (0, None)
    w = td.param("w", init=2.0)
    assert float(td.grad(w * w, [w])[0]) == 4.0
