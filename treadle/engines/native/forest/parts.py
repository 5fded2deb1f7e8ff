"""Bodies for n rows, compiled: programs whose arguments and results lie anywhere.

How many rows there are is a symbolic integer: one compilation serves all numbers that
its guards admit.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.caches import Cache
from treadle.base.locks import lock
from treadle.base.options import current
from treadle.base.symbolic import LEAST, SymbolicNumber, SymbolicTrace
from treadle.base.symbolic.variants import Variants
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.forest.compiled import OWN, Compiled, Source
from treadle.engines.native.translation.symbolic import SymbolicProgram
from treadle.engines.native.translation.translate import Target, translated
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.graph.instantiate import Unsized
from treadle.program.build import Draft
from treadle.program.program import Program

KEPT = 1024  # row counts of a body
BODIES = FAMILIES = 512
VARIANTS = 16  # of a body


class TranslatedBody:
    """The program of a body, and where its arguments and results are the body's."""

    def __init__(
        self,
        body: Body,
        choose: Callable[[Iterator[Draft]], Any] | None = None,
        target: Target | None = None,
    ) -> None:
        arguments = {x.serial: k for k, x in enumerate(body.arguments)}
        keep = dict.fromkeys(y.serial for y in body.outputs)  # in this order
        options: Any = {"choose": choose} if choose else {}
        options["target"] = target
        chosen, graph = translated(body.nodes, arguments, keep.keys(), **options)
        self.made: Any = chosen
        # Arrays within the body, such as the numbers of its rows, are no arguments.
        self.order: list[Source | SymbolicNumber] = [
            arguments.get(x.serial, _inside(x.array)) for x in graph.leaves
        ]
        program = chosen if isinstance(chosen, Program) else chosen.program
        where = {serial: k for k, (serial, _, _) in enumerate(program.results)}
        self.outputs = [where[y.serial] for y in body.outputs]


def _inside(array: Any) -> Any:
    if array is None or type(array) is SymbolicNumber:
        return array
    return np.ascontiguousarray(array)


def first_program(drafts: Iterator[Draft]) -> Program:
    """The program of a graph that fits whatever it needs."""
    return next(drafts).build()


def symbolic(
    make: Callable[[int], Body],
    n: int,
    sized: Callable[..., Any],
    target: Target | None = None,
) -> tuple[TranslatedBody, Any]:
    """A body translated for a symbolic number of rows, at first n, and what `sized`
    makes of its program; raises whatever cannot be done with one."""
    trace = SymbolicTrace([n])
    try:
        body = make(trace.symbols[0])  # type: ignore[arg-type]
        part = TranslatedBody(body, first_program, target)
        inside = tuple([x for x in part.order if type(x) is SymbolicNumber])
        return part, sized(trace, trace.symbols, part.made, inside)
    finally:
        trace.open = False


def filled(order: Sequence[Source | SymbolicNumber], inside: Sequence[Any]) -> Any:
    """What a program is given, with values of the symbolic numbers inside."""
    values = iter(inside)
    return [next(values) if type(x) is SymbolicNumber else x for x in order]


class _Alone:
    """The steps of a body for its number of rows alone."""

    def __init__(self, body: Body) -> None:
        part = TranslatedBody(body)
        order: Any = part.order
        self._steps = Compiled(part.made, order, part.outputs)
        self.numbers, self.possible = self._steps.numbers, self._steps.possible

    def like(self, n: int) -> Compiled:
        """The steps: there is one number of rows."""
        return self._steps


class _Variant:
    """The steps of a body for all numbers of rows that guards admit."""

    possible = True

    def __init__(self, make: Callable[[int], Body], n: int) -> None:
        """Made for n rows; raises whatever cannot be done with a symbolic number."""
        part, self.sized = symbolic(make, n, SymbolicProgram)
        self.order, self.outputs = part.order, part.outputs
        # By the most rows: how memory is planned, and arrays within.
        self._likes: dict[int, Compiled] = {}
        if self.like(n).numbers.size == 0:
            raise Unsized  # a loop is driven from outside

    def at(self, n: int) -> Filled | None:
        """The steps and their numbers for n rows, if they are these."""
        values = self.sized.values([n])
        if values is None:
            return None
        whole = self.sized.whole
        records, *others = whole.written(values)
        return self, np.concatenate([records[:, :OWN].ravel(), *others])

    def like(self, n: int) -> Compiled:
        """The steps for up to n rows, or some more: a power of two."""
        most = 1 << (n - 1).bit_length()
        steps = self._likes.get(most)
        if steps is None:
            values = self.sized.unguarded([most])
            if values is None:
                raise Unsized
            linked, inside = self.sized.linked(values)
            if self.sized.whole.bound.needs != linked.needs:
                linked.needs = None  # what positions are below of differs with n
            order = filled(self.order, inside)
            steps = self._likes[most] = Compiled(linked, order, self.outputs)
        return steps


Filled = tuple[Any, Numbers]  # steps that are `like` those for n rows, and numbers


class RowBodies:
    """The bodies of rows of an engine, and how it makes steps of them."""

    def __init__(self, title: str, kernels_lock: Any = None) -> None:
        """Bodies take turns by a lock, each by its own one or all by one of others."""
        self.known: Cache[Any, RowKernels] = Cache(title, BODIES)
        self.families: Cache[Any, Any] = Cache(f"families of {title}", FAMILIES)
        self.kernels_lock = kernels_lock
        self._lock = lock()

    def at(self, key: Any, make: Callable[[int], Body]) -> RowKernels:
        """The body of a key by rows; `make` has it for a number of them."""
        key = key, current().compilation
        with self._lock:
            rows = self.known.get(key)
            if rows is None:
                rows = self.known[key] = RowKernels(make, self)
            else:
                self.known.move_to_end(key)
        return rows

    def alone(self, body: Body) -> Filled:
        """The steps of a body for its number of rows alone."""
        alone = _Alone(body)
        return alone, alone.numbers

    def variant(self, make: Callable[[int], Body], n: int) -> Any:
        """Steps `at` numbers of rows that guards admit, made for n of them."""
        return _Variant(make, n)

    def count(self, body: Body) -> int:
        """The steps of a body, as they are launched."""
        linked: Linked = TranslatedBody(body).made
        return sum(count for _, count in linked.spans)


class RowKernels:
    """A body for any number of rows: for most of them numbers are filled in."""

    def __init__(self, make: Callable[[int], Body], bodies: RowBodies) -> None:
        self.make, self._bodies = make, bodies
        self.variants: Variants[Any] = Variants(VARIANTS)
        self.known: OrderedDict[int, Filled] = OrderedDict()
        self._records: int | None = None
        self.lock = bodies.kernels_lock or lock()

    def records(self) -> int:
        """The native records, or the launches, of one row by itself."""
        if self._records is None:
            with self.lock, tracing("rows"):
                self._records = self._bodies.count(self.make(1))
        return self._records

    def filled(self, n: int) -> Filled:
        """What the steps for n rows are like, and their numbers."""
        filled = self.known.get(n)
        if filled is None:
            with self.lock, tracing("rows"):
                filled = self.known[n] = self._made(n)
                if len(self.known) > KEPT:
                    self.known.popitem(last=False)
        return filled

    def possible(self, counts: Numbers) -> bool:
        """Return True if the engine has steps for these numbers of rows."""
        return all(self.filled(n)[0].possible for n in {*counts.tolist()})

    def alike(self, counts: Numbers) -> Iterator[tuple[Any, list[Numbers], Any]]:
        """The steps for some numbers of rows, where these differ in numbers alone: what
        they are like, the numbers of each, and which of the counts these are, None if
        it is all of them.
        """
        every, known = counts.tolist(), self.known
        filled = [known.get(n) or self.filled(n) for n in every]
        different = {id(steps): steps for steps, _ in filled}
        if len(different) == 1:
            yield filled[0][0].like(max(every)), [x for _, x in filled], None
            return
        for steps in different.values():
            members = [k for k, x in enumerate(filled) if x[0] is steps]
            numbers = [filled[k][1] for k in members]
            yield steps.like(max(every[k] for k in members)), numbers, members

    def _made(self, n: int) -> Filled:
        filled = None
        if n >= LEAST:
            filled = self.variants.find(lambda v: v.at(n))
            if filled is None:
                variant = partial(self._bodies.variant, self.make, n)
                filled = self.variants.add(variant, lambda v: v.at(n))
        if filled is None:
            filled = self._bodies.alone(self.make(n))
        return filled


native_bodies = RowBodies("bodies by rows")
