"""Worker processes that make batches: what is asked of them, and what they answer."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, RunError, StateError
from treadle.base.options import current, options, set_options
from treadle.data.draws import Key, batch_draws, seed_globals
from treadle.data.shared import Packed, SharedBlock, SharedLease, Spans

Task = tuple[Key, np.ndarray[Any, Any]]  # what the draws follow from; the examples
_PATIENCE = 1.0  # seconds until a worker that should end is ended
_LENT = 32  # blocks that whoever iterates may keep: each takes a file descriptor


class WorkerTraceback(Exception):
    """The traceback of a worker, as text: the cause of the error it ended in."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def make(dataset: Any, task: Task) -> Any:
    """A batch; what it draws follows from the seed, the epoch and its number."""
    key, numbers = task
    with batch_draws(key):
        return dataset[numbers]


# -- in a worker -------------------------------------------------------------------


def _work(
    connection: Connection,
    others: list[Connection],
    dataset: Any,
    shared: bool,
    dtype: str,
) -> None:
    """Answer tasks until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loop's own process tells it
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for other in others:  # or their workers would not see that the loop has ended
        other.close()
    set_options(threads=1, dtype=dtype)
    blocks: dict[int, SharedBlock] = {}
    with suppress(EOFError, OSError):
        if shared:
            spans = connection.recv()
            dataset = SharedLease(SharedBlock.receive(connection), []).read(spans)
        while True:
            serial, task, offered = connection.recv()
            good, packed = _answer(dataset, task)
            _reply(connection, blocks, offered, (serial, good), packed)


def _answer(dataset: Any, task: Task) -> tuple[bool, Packed]:
    """Whether a batch was made, and it or the error."""
    try:
        seed_globals(task[0])
        with options(seed=int(np.random.randint(2**31))):
            return True, Packed(make(dataset, task))
    except Exception as error:
        text = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return False, Packed((None, text))
        return False, Packed((error, text))


def _reply(
    connection: Connection,
    blocks: dict[int, SharedBlock],
    offered: int | None,
    head: tuple[int, bool],
    packed: Packed,
) -> None:
    """Send where an answer is: in the block offered, or a new one where it is short.

    The message is small whatever the answer, so that it never waits for its reader.
    """
    block = None if offered is None else blocks[offered]
    if block is not None and block.size >= packed.size:
        packed.write(block)
        connection.send((*head, offered, packed.spans))
        return
    if offered is not None:
        del blocks[offered]
    page = 1 << 12
    block = SharedBlock(-(-max(packed.size + packed.size // 8, 1) // page) * page)
    packed.write(block)
    blocks[head[0]] = block
    connection.send((*head, head[0], packed.spans))
    block.send(connection)
    block.close()


# -- in the process of the loop ----------------------------------------------------


@dataclass
class _Worker:
    """A process, what it was asked, and the blocks that it may write into."""

    process: Any
    connection: Connection
    asked: dict[int, int | None] = field(default_factory=dict)  # with a block offered
    blocks: dict[int, SharedBlock] = field(default_factory=dict)
    free: list[SharedBlock] = field(default_factory=list)


class Workers:
    """Processes that make batches of a data set, handed out in the order asked for."""

    def __init__(self, dataset: Any, count: int, start: str | None) -> None:
        if multiprocessing.current_process().daemon:
            raise StateError(
                "a worker process has no workers itself", hint="Loader(workers=0)"
            )
        self._owner = os.getpid()
        self._workers: list[_Worker] = []
        self._answers: dict[int, tuple[_Worker, bool, SharedBlock, Spans]] = {}
        self._serial = self._first = 0  # the next task; the first still wanted
        context = multiprocessing.get_context(start)
        forks = context.get_start_method() == "fork"
        packed = None if forks else _packed(dataset)
        try:
            for _ in range(count):
                self._start(context, dataset if forks else None, forks)
            if packed is not None:
                self._give(packed)
        except BaseException:
            self.close()
            raise

    def _give(self, packed: Packed) -> None:
        """Send all workers the data set, which they read in one block."""
        block = SharedBlock(max(packed.size, 1))
        packed.write(block)
        for worker in self._workers:
            worker.connection.send(packed.spans)
            block.send(worker.connection)

    def _start(self, context: Any, dataset: Any, forks: bool) -> None:
        ours, theirs = context.Pipe()
        others = [ours, *(w.connection for w in self._workers)] if forks else []
        process = context.Process(
            target=_work,
            args=(theirs, others, dataset, not forks, current().dtype.name),
            daemon=True,
            name=f"treadle-loader-{len(self._workers)}",
        )
        with _no_interrupts():
            process.start()
            self._workers.append(_Worker(process, ours))
        theirs.close()

    def batches(self, tasks: Iterable[Task], ahead: int) -> Iterator[Any]:
        """The batches of tasks in their order, `ahead` of which are made meanwhile."""
        waiting: deque[int] = deque()
        try:
            for task in tasks:
                waiting.append(self._ask(task))
                if len(waiting) > ahead:
                    yield self._result(waiting.popleft())
            while waiting:
                yield self._result(waiting.popleft())
        finally:
            self._forget()

    def _forget(self) -> None:
        """Nobody wants what was asked so far."""
        self._first = self._serial
        for worker, _, block, _ in self._answers.values():
            worker.free.append(block)
        self._answers.clear()

    def _ask(self, task: Task) -> int:
        """Give a task to whoever has the fewest; its serial."""
        worker = min(self._workers, key=lambda w: len(w.asked))
        serial, self._serial = self._serial, self._serial + 1
        offered = None
        if worker.free:
            block = worker.free.pop()
            offered = next(k for k, b in worker.blocks.items() if b is block)
        try:
            worker.connection.send((serial, task, offered))
        except OSError:
            raise self._ended(worker) from None
        worker.asked[serial] = offered
        return serial

    def _result(self, serial: int) -> Any:
        """The batch of a task; raises what its worker raised."""
        while serial not in self._answers:
            ready = wait([worker.connection for worker in self._workers])
            for worker in self._workers:
                if worker.connection in ready:
                    self._receive(worker)
        worker, good, block, spans = self._answers.pop(serial)
        lent = len(worker.blocks) - len(worker.free) - len(worker.asked)
        value = SharedLease(block, worker.free).read(spans, not good or lent > _LENT)
        if good:
            return value
        error, text = value
        if error is None:
            error = RunError("a worker's exception does not pickle: see its traceback")
        raise error from WorkerTraceback(text)

    def _receive(self, worker: _Worker) -> None:
        """Take the next answer of a worker."""
        try:
            serial, good, name, spans = worker.connection.recv()
            offered = worker.asked.pop(serial)
            if name != offered:
                if offered is not None:
                    del worker.blocks[offered]
                block = SharedBlock.receive(worker.connection)
                block.close()
                worker.blocks[name] = block
        except (EOFError, OSError):
            raise self._ended(worker) from None
        if serial < self._first:
            worker.free.append(worker.blocks[name])
        else:
            self._answers[serial] = worker, good, worker.blocks[name], spans

    def _ended(self, worker: _Worker) -> StateError:
        """The error of a worker that is gone."""
        worker.process.join(_PATIENCE)
        code = worker.process.exitcode
        cause = f"signal {-code}" if code and code < 0 else f"exit code {code}"
        self.close()
        return StateError(
            f"{worker.process.name}, a worker of a Loader, ended with {cause}",
            hint="memory may have been short (signal 9), or C code of the data set "
            "failed; Loader(workers=0) shows where",
        )

    @property
    def alive(self) -> bool:
        """Whether tasks can be given, by this process."""
        return bool(self._workers) and self._owner == os.getpid()

    def close(self) -> None:
        """End the processes; batches that were handed out stay."""
        workers, self._workers = self._workers, []
        if self._owner != os.getpid():  # a forked child: they are not its own
            return
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            worker.process.join(_PATIENCE)
            if worker.process.is_alive():
                worker.process.terminate()
                worker.process.join()
            worker.process.close()

    def __del__(self) -> None:
        if getattr(self, "_workers", None):
            self.close()


def _packed(dataset: Any) -> Packed:
    try:
        return Packed(dataset)
    except Exception as error:
        raise ArgumentError(
            f"the data set does not pickle: {error}",
            hint="lambdas and local functions do not; name collate and transform at "
            'the top of a module, or Loader(start="fork") where the system has it',
        ) from error


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Ctrl-C waits: a process that starts would die of it with a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
