"""Blocks whose assignments are all there at their end, or none of them."""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Container
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.dtypes import is_inexact
from treadle.base.errors import RunError, StateError
from treadle.base.options import change, current, modes
from treadle.graph.carried import Carried
from treadle.graph.frame import top
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.thread import thread_state
from treadle.graph.variable import Update, Variable

if TYPE_CHECKING:
    from treadle.graph.op import Op

__all__ = ["Transaction", "transaction"]


class _Written:
    """A Variable and the version that those of the block are made from."""

    def __init__(self, variable: Variable, before: Tensor) -> None:
        self.variable = variable
        self.before = before
        self.version: Op = variable.version

    def restore(self, serials: Container[int]) -> bool:
        """Put that version back, unless others have assigned since."""
        now = self.variable.committed
        if now.serial in serials:
            self.variable.version = self.version
            self.variable.committed = self.before
        return now.serial in serials or now is self.before or self.before.stored is None


class Transaction:
    """A transaction: a block of assignments, made by `td.transaction()`."""

    def __init__(self, finite: bool = False) -> None:
        self.finite = finite
        self.written: dict[int, _Written] = {}
        self.versions: dict[int, weakref.ref[Tensor]] = {}  # the versions of this block
        self.grads: dict[int, tuple[Variable, Tensor | None]] = {}
        self._edge: _Handler | None = None
        self._own = False  # whether the handler is this block's
        self._open = False

    def note(
        self, variable: Variable, version: Tensor, base: Tensor | None = None
    ) -> None:
        """Take note of a Variable before it has a version, made from the `base`; what
        others have assigned is not of this block, whoever carries it out."""
        if top().tracing if base is not None else self.is_foreign(version):
            return
        before = variable.committed if base is None else base
        if before.serial not in self.versions or id(variable) not in self.written:
            self.written[id(variable)] = _Written(variable, before)
        self.versions[version.serial] = weakref.ref(version)

    def is_foreign(self, version: Tensor) -> bool:
        """Return True if a version is one that was assigned outside of this block."""
        op = version.op
        mine = type(op) is not Update or op.explicit or version.serial in self.versions
        return not mine

    def note_grad(self, variable: Variable) -> None:
        """Take note of a Variable's gradient before it is another one."""
        if id(variable) not in self.grads:
            self.grads[id(variable)] = variable, variable.grad

    # -- the block ---------------------------------------------------------------------

    def __enter__(self) -> Transaction:
        frame = top()
        if frame.tracing or self._open:
            raise StateError(
                "a function is traced once: nothing in it is undone"
                if frame.tracing
                else "this transaction is open already",
                hint="open one around the call: with td.transaction(): ...",
            ).located("transaction")
        self._watch()
        try:
            if frame.pending:
                functions.carry_out([])
            state = thread_state()
            self._modes, self._notes = modes.get(), state.notes
            self._frames = len(state.frames)
            self._seeds, self._draws = current().scope, current().scope.count
            self.written, self.versions, self.grads = {}, {}, {}
            change(transactions=(*self._modes.transactions, self))
            self._open = True
        except BaseException:
            self._unwatch()
            raise
        if self._edge is not None and self._edge.waiting:
            self._close()
            self._unwatch()
        self._interrupt()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
            else:
                self._restore(error)
        except BaseException as problem:
            if kind is None:
                self._restore(problem)
            raise
        finally:
            self._close()
            self._unwatch()
        self._interrupt()

    def _finish(self) -> None:
        """Carry out what was assigned; look whether it is finite if that is asked."""
        if top().pending:
            functions.carry_out([])
        if not self.finite:
            return
        wrong = [
            w.variable.name
            for w in self.written.values()
            if is_inexact(w.variable.type.dtype) and not _finite(w.variable)
        ]
        if wrong:
            raise RunError(
                f"what was assigned to {', '.join(wrong)} is not finite",
                hint="every Variable is as it was before; a smaller rate may help",
            ).located("transaction")

    def _restore(self, error: BaseException | None) -> None:
        """Put everything back as it was when the block was entered."""
        state = thread_state()
        del state.frames[self._frames :]
        modes.set(self._modes)
        change(transactions=(*self._modes.transactions, self))
        state.notes = self._notes
        self._drop()
        every = self.written.values()
        kept = [w.variable.name for w in every if not w.restore(self.versions)]
        for variable, grad in self.grads.values():
            variable.grad = grad
        self._seeds.count = self._draws
        if kept and error is not None:
            names = ", ".join(kept)
            error.add_note(
                f"another thread has assigned {names} since: that was not undone"
            )

    def _drop(self) -> None:
        """Have what was assigned in the block never carried out, whoever has read it:
        that is a value like others."""
        frame = top()
        waiting = frame.carry()
        frame.pending = [x for x in waiting if x.serial not in self.versions]
        # Also what was carried out already: an interrupt may have come before it went.
        seen = list(frame.versions.values())
        frame.forget([x for x in (*waiting, *seen) if x.serial in self.versions])
        alive = [x for ref in self.versions.values() if (x := ref()) is not None]
        left = [x for x in alive if type(x.op) is Update and not x.op.explicit]
        carried = Carried()
        with carried.lock:
            while (other := carried.take(left)) is not None and not other.is_here:
                other.wait()
            for x in left if other is None else ():
                if x.stored is None:
                    value = functions.stop_gradient(x.inputs[1])
                    x.op, x.inputs = value.op, value.inputs
            carried.leave()

    def _close(self) -> None:
        change(transactions=self._modes.transactions)
        self._open = False

    # -- interrupts --------------------------------------------------------------------

    def _watch(self) -> None:
        """Have an interrupt wait while a block is entered or left.

        An interrupt anywhere in the block raises as ever.
        """
        self._edge, self._own = None, False
        if threading.current_thread() is not threading.main_thread():
            return  # interrupts come to the main thread
        handler = signal.getsignal(signal.SIGINT)
        if isinstance(handler, _Handler):
            self._edge = handler
        elif callable(handler):
            self._edge, self._own = _Handler(handler), True
            signal.signal(signal.SIGINT, self._edge)

    def _unwatch(self) -> None:
        if self._own and signal.getsignal(signal.SIGINT) is self._edge:
            assert self._edge is not None
            signal.signal(signal.SIGINT, self._edge.before)

    def _interrupt(self) -> None:
        """Do what had to wait."""
        edge = self._edge
        if edge is not None and edge.waiting:
            edge.waiting = False
            edge.before(signal.SIGINT, None)


class _Handler:
    """Raises as the handler before it did, but not while a block is entered or left."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.waiting = False

    def __call__(self, number: int, frame: FrameType | None) -> Any:
        at: FrameType | None = frame
        while at is not None:
            if at.f_code in _EDGES:
                self.waiting = True
                return None
            at = at.f_back
        return self.before(number, frame)


_EDGES: tuple[CodeType, ...] = (
    Transaction.__enter__.__code__,
    Transaction.__exit__.__code__,
)


def _finite(variable: Variable) -> bool:
    array = variable.committed.array
    assert array is not None
    wide = array if array.dtype.kind in "fc" else array.astype(np.float32)
    return bool(np.isfinite(wide).all())


def transaction(*, finite: bool = False) -> Transaction:
    """A block after which all of its assignments are carried out, or none of them.

    Where it ends by an exception, or by Ctrl-C at any point, every Variable is what it
    was when the block began, to the last bit: parameters, states of optimizers and
    layers, gradients in p.grad; random numbers are drawn again as in it. With `finite`
    the same follows, and a RunError, if a Variable that was assigned is not finite at
    its end. Blocks nest; each is of one thread: what others assign meanwhile stays.
    Nothing is copied: the versions before are kept until the end.

    >>> w = td.param("w", init=1.0)
    >>> try:
    ...     with td.transaction():
    ...         loss = td.optim.SGD(lr=0.1).step(w * w)
    ...         raise ValueError("what was computed cannot be used")
    ... except ValueError:
    ...     float(w)
    1.0
    """
    return Transaction(finite)
