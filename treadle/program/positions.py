"""Positions that are data: which steps check them, and what makes them right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from treadle.base.symbolic import whole
from treadle.loops.index import Datum, IndexParameter
from treadle.loops.kernel import (
    Apply,
    Const,
    Expression,
    Load,
    Store,
    expressions,
    indices,
    inside,
    places,
    statements,
)
from treadle.loops.parameters import number_of
from treadle.ops.select import Maximum, Minimum, Select
from treadle.program.program import BodyProgram, Fallback, Launch, Program, Step


def last_risk(program: Program) -> int:
    """The last step that can find its data wrong, or is a library's."""
    return _Checks(program).last


def needs(program: Program) -> tuple[Need, ...] | None:
    """What has to hold of some arguments so that no step finds its data wrong; None
    where arguments do not tell.
    """
    checks = _Checks(program)
    return tuple(dict.fromkeys(checks.needs)) if checks.only_arguments else None


class Need(NamedTuple):
    """An argument, by its number, whose integers are to lie in 0 .. extent - 1.

    Those that count from the end are right too, but are not told from others.
    """

    argument: int
    extent: int


class _Checks:
    """The steps of a program in order, with what is known of positions by then.

    Positions that an earlier step has found within the same extent are right, and so
    are copies of them and numbers that are clipped to it.
    """

    def __init__(self, program: Program) -> None:
        self.last = -1
        self.needs: list[Need] = []
        self.only_arguments = True  # whether all positions are those of arguments
        self._known: set[tuple[int, int]] = set()  # buffers, extents numbers lie in
        self._source: dict[int, int] = {}  # of a buffer that holds nothing but copies
        self._arguments = {n: k for k, n in enumerate(program.arguments)}
        checking = any(_checks(s) for s in program.steps)
        for k, step in enumerate(program.steps):
            if isinstance(step, Fallback):
                self.last = k
                self.only_arguments &= bool(step.bodies) and all(
                    map(_is_sure, step.bodies)
                )
            elif isinstance(step, Launch) and checking:
                self._look(k, step)

    def _look(self, k: int, step: Launch) -> None:
        positions = list(_checked(step)) if step.kernel.checks else []
        self.only_arguments &= bool(positions) or not step.kernel.checks
        for number, extent in positions:
            if number is None or not self._is_known(number, extent):
                self.last = k
                self._ask(number, extent)
        self._known |= {(n, extent) for n, extent in positions if n is not None}
        self._known |= _clipped(step)
        self._source |= _copies(step)

    def _is_known(self, number: int | None, extent: int) -> bool:
        while number is not None and (number, extent) not in self._known:
            number = self._source.get(number)
        return number is not None

    def _ask(self, number: int | None, extent: int) -> None:
        while number in self._source:
            number = self._source[number]
        argument = None if number is None else self._arguments.get(number)
        if argument is None:
            self.only_arguments = False
        else:
            self.needs.append(Need(argument, extent))


def _is_sure(body: BodyProgram) -> bool:
    """Whether no step of a body, or of one in it, looks at its data."""
    steps = body.program.steps
    inner = [x for s in steps if isinstance(s, Fallback) for x in s.bodies or [None]]
    return not any(map(_checks, steps)) and all(x and _is_sure(x) for x in inner)


def _checks(step: Step) -> bool:
    return isinstance(step, Launch) and step.kernel.checks


def _stored(step: Launch) -> dict[int, list[Expression | None]]:
    """The values that a step writes into each buffer; None where it joins others."""
    stored: dict[int, list[Expression | None]] = {}
    for s in statements(step.kernel.body):
        if isinstance(s, Store) and s.buffer < len(step.buffers):
            value = s.value if s.combine is None else None
            stored.setdefault(step.buffers[s.buffer], []).append(value)
    return stored


def _copies(step: Launch) -> dict[int, int]:
    """The buffers into which a step only copies another, and that other."""
    copies = {}
    for number, values in _stored(step).items():
        loads = {x.buffer for x in values if isinstance(x, Load) and not x.guards}
        if len(loads) == 1 and all(isinstance(x, Load) for x in values):
            copies[number] = step.buffers[loads.pop()]
    return copies


def _clipped(step: Launch) -> set[tuple[int, int]]:
    """The buffers whose numbers a step holds between 0 and a limit, and the extent."""
    limited = set()
    for number, values in _stored(step).items():
        limits = {_limit(x, step.integers) for x in values}
        if len(limits) == 1 and None not in limits:
            limited.add((number, whole(limits.pop() or 0) + 1))
    return limited


def _limit(x: Expression | None, integers: Sequence[int]) -> int | None:
    """The greatest value of an integer that is held between 0 and it."""
    if not isinstance(x, Apply) or not isinstance(x.op, Minimum):
        return None
    if x.dtype.kind not in "iu":
        return None
    inner, limit = x.inputs
    if isinstance(inner, Apply) and isinstance(inner.op, Maximum):
        low = inner.inputs[1]
        if isinstance(low, Const) and low.value == 0 and isinstance(limit, Const):
            return whole(number_of(limit, integers))
    return None


def _checked(step: Launch) -> Iterator[tuple[int | None, int]]:
    """The buffers that a kernel reads positions from, with the extents they lie in;
    None where a position is computed from what is read.
    """
    body = step.kernel.body
    every = [i for x in expressions(body) for i in indices(x)]
    every += [i for s in statements(body) for i in places(s)]
    for i in every:
        for atom, _ in i.terms:
            if isinstance(atom, Datum):
                extent = atom.extent
                if isinstance(extent, IndexParameter):
                    extent = step.integers[extent.slot]
                load = _read(atom.value)
                if load is None:
                    yield None, extent
                elif load.buffer < len(step.buffers):
                    yield step.buffers[load.buffer], extent


def _read(x: Expression) -> Load | None:
    """The load of a position, also one that counts from the end when negative."""
    if isinstance(x, Apply) and isinstance(x.op, Select):
        below, wrapped, plain = x.inputs
        parts = {id(y): y for y in (*inside(below), *inside(wrapped), plain)}
        loads = {y for y in parts.values() if isinstance(y, Load)}
        return plain if isinstance(plain, Load) and loads == {plain} else None
    return x if isinstance(x, Load) else None
