"""Building on trial: a mark of what a thread has under way, and the way back to it."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from treadle.base.errors import StateError
from treadle.base.options import current
from treadle.graph.frame import top
from treadle.graph.serials import newest_serial
from treadle.graph.tensor import Tensor

__all__ = ["Mark", "mark"]


class Mark:
    """A place to return to: the state of this thread when `td.mark()` was called."""

    def __init__(self) -> None:
        frame = top()
        if frame.tracing:
            raise StateError(
                "a function is traced once: nothing in it is on trial",
                hint="mark where graphs are built; inside, choose with td.cond",
            ).located("mark")
        self._frame = frame
        self._serial = newest_serial()
        self._pending = list(frame.pending)
        self._scope = current().scope
        self._draws = self._scope.count
        self._gone = False
        self._done = ""  # a Variable assigned since, of which a run has taken note
        if frame.marks is None:
            frame.marks = WeakSet()
        frame.marks.add(self)

    def carried_out(self, updates: Sequence[Tensor]) -> None:
        """Take note that pending updates are about to run."""
        self._pending = []
        for update in updates:
            if update.serial > self._serial:
                self._done = update.op.variable.name  # type: ignore[attr-defined]

    def revert(self) -> None:
        """Go on as if nothing had been built since; later marks are gone.

        >>> w, m = td.Variable(1.0), td.mark()
        >>> w += 1
        >>> m.revert(); float(w)
        1.0
        """
        frame = self._frame
        if top() is not frame or current().scope is not self._scope:
            raise StateError(
                "the mark was made in another thread, function or seed scope",
                hint="revert where the mark was made",
            ).located("revert")
        if self._gone:
            raise StateError(
                "an earlier mark was reverted to: this one is gone",
                hint="make a mark after reverting",
            ).located("revert")
        if self._done:
            raise StateError(
                f"{self._done!r} was assigned since the mark, and a value was asked "
                "for since: what is carried out stays",
                hint="assign nothing on trial: model.eval(), td.explicit_updates()",
            ).located("revert")
        known = {x.serial for x in self._pending}
        frame.forget([x for x in frame.pending if x.serial not in known])
        frame.pending = list(self._pending)
        self._scope.count = self._draws
        for other in frame.marks or ():
            assert isinstance(other, Mark)
            other._gone = other._gone or other._serial > self._serial


def mark() -> Mark:
    """A mark to go back to when what is built from now on proves useless.

    Nodes never change, so that building on them leaves nothing behind; but assignments
    that are not yet carried out and the count of random draws do. `revert()` takes both
    back to the mark: what is built then is, bit for bit, what it would have been.
    Values may be asked for on the way. What a step of an optimizer has changed stays.
    Marks nest; let go of what was built since, its memory goes with it.

    >>> x = td.param("x", init=2.0)
    >>> with td.options(seed=1):
    ...     m = td.mark()
    ...     first = float(td.random.normal(()))
    ...     m.revert()
    ...     float(td.random.normal(())) == first
    True
    """
    return Mark()
