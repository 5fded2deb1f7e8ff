"""A program for many sizes: compiled once with symbolic ones, the same in numbers.

Everything that a size decides is an integer of the program or a guard: for other sizes
one table (`base/symbolic/table.py`) holds the guards and gives the integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.caches import lazy
from treadle.base.symbolic import (
    IntegerTable,
    Symbolic,
    SymbolicTrace,
    compiled,
    most,
    plain,
)
from treadle.base.types import Type
from treadle.core import native
from treadle.engines.native.codegen.code import Code
from treadle.engines.native.codegen.jit import compile_functions, parts_there
from treadle.engines.native.codegen.texts import FunctionChoice
from treadle.engines.native.execution.control import LoopSize, memory_of, size_of
from treadle.engines.native.execution.interface import Interface
from treadle.engines.native.execution.layout import (
    codes_of,
    lines,
    memory_beside,
    scratch_of,
)
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.translation.workspace import abreast
from treadle.graph.body import bodies
from treadle.graph.instantiate import Slots, Unsized, maker
from treadle.program.lives import SizedPlans, ranges_of
from treadle.program.positions import needs
from treadle.program.program import Fallback, Program

Values = Sequence[Any]
# A trace with its inputs, a program made in it with the code of its steps, that for the
# sizes at hand, and what more there is.
Parts = tuple[
    SymbolicTrace, Sequence[Any], Program, Sequence[tuple[Code, ...]], Linked, Any
]


class Bound(NamedTuple):
    """The parts of a program, beside its numbers, that differ by size."""

    types: tuple[Type, ...]  # of arguments
    needs: Any
    constants: tuple[Any, ...]
    packed: tuple[tuple[int, ...], ...]  # bytes of what is kept of weights
    loops: tuple[LoopSize, ...]


class SymbolicProgram:
    """A program for all sizes that its guards admit."""

    def __init__(
        self,
        trace: SymbolicTrace,
        inputs: Sequence[Any],
        program: Program,
        more: Any = (),
        lanes: int = 1,
    ) -> None:
        """`program` was made in a trace, which ends here, of some `inputs`; `more` may
        hold symbolic integers too. Raises Unsized.
        """
        slots = Slots()
        codes = codes_of(program)
        first, order = _first(program, codes, slots, lanes)
        program = replace(
            program,
            steps=tuple([program.steps[k] for k in order]),
            about=tuple([program.about[k] for k in order]),
            regions=first.program.regions,
        )
        parts = trace, inputs, program, [codes[k] for k in order], first, more
        self._begin(parts, slots)
        trace.open = False
        self.values = compiled(trace, slots.wanted, inputs=inputs)

    def _begin(self, parts: Parts, slots: Slots) -> None:
        self._parts = parts
        self.trace, self.inputs, program, codes, first, self.more = parts
        self.whole = _Template(first, program, codes, slots)
        self._more = maker(self.more, slots)
        self._wanted = slots.wanted

    def __reduce__(self) -> Any:
        return _remade, (self._parts, self._wanted, self.values)

    @lazy
    def loosely(self) -> IntegerTable:
        """The `values`, whatever another program might do faster."""
        return compiled(self.trace, self._wanted, "bits", self.inputs)

    @lazy
    def unguarded(self) -> IntegerTable:
        """The `values`, of any sizes."""
        return compiled(self.trace, self._wanted, "none", self.inputs)

    @property
    def steps(self) -> int:
        """The number of steps."""
        return len(self.whole.first.program.steps)

    def linked(self, values: Values) -> tuple[Linked, Any]:
        """The program for some values of the integers, and what more there is."""
        more = self._more(values) if self._more else self.more
        return self.whole.linked(values), more


def _remade(
    parts: Parts, wanted: Sequence[Any], values: IntegerTable
) -> SymbolicProgram:
    """The program of such parts that wants some integers, by the table of these."""
    program, slots = object.__new__(SymbolicProgram), Slots(wanted)
    parts[4].link()
    program._begin(parts, slots)
    if len(slots.wanted) != len(values.wanted):
        raise Unsized
    program.values = values
    return program


class _Template:
    """A program, or that of a body in it, whose numbers differ from size to size."""

    scratch: Any

    def __init__(
        self,
        first: Linked,
        program: Program,
        codes: Sequence[tuple[Code, ...]],
        slots: Slots,
    ) -> None:
        """`first` is the program for the sizes at hand."""
        self.first = first
        # Of each body, by step and number: its program, what that is given, and that
        # for other sizes.
        self.inner: dict[int, dict[int, tuple[_Template, Any, Any]]] = {}
        for k, step in enumerate(program.steps):
            if not isinstance(step, Fallback) or not step.bodies:
                continue
            each = self.inner[k] = {}
            for body, body_program in zip(
                bodies(step.op).values(), step.bodies, strict=True
            ):
                linked, arguments = first.inner[k][body.number]
                template = _Template(
                    linked, body_program.program, codes_of(body_program.program), slots
                )
                each[body.number] = (
                    template,
                    arguments,
                    maker(body_program.inputs, slots),
                )
            scratches = [lines(body.scratch) for body, _, _ in each.values()]
            scratch = reduce(most, scratches)
            replaced = [replace(c, scratch=scratch) for c in first.codes[k]]
            codes = [*codes[:k], tuple(replaced), *codes[k + 1 :]]
        extra = memory_beside(program, codes)[2]
        ranges, place, _ = ranges_of(program, extra)
        if place != first.lives.place:
            raise Unsized  # one is written over another one of the same size by chance
        numbers = first.written(codes, first.functions)
        every = [r.bytes for r in ranges], numbers.records, numbers.table
        self.scratch = scratch_of(program, codes)
        self.interface = Interface.of(program)
        shapes = [_shapes(x.results) for x in (self.interface, first.interface)]
        self.numbers = _Numbers(
            [*every, numbers.shifts, shapes[0], [self.scratch]],
            [
                *(first.sizes, first.records, first.table, first.shifts),
                *(shapes[1], [first.scratch]),
            ],
            slots,
        )
        self.bound = self._all_bound(program, extra)
        forms = program, self.interface, self.bound
        self.choices = [(place, x, _there(x)) for place, x in numbers.choices]
        self._program, self._interface, self._bound = [maker(x, slots) for x in forms]
        self._plans = SizedPlans(first.lives)

    def _all_bound(
        self, program: Program, extra: Mapping[int, tuple[int, int]]
    ) -> Bound:
        """What differs by size; `extra` as `memory_beside` tells sizes."""

        def bytes_of(n: int) -> int:
            return extra[n][1] if n in extra else program.buffers[n].type.nbytes

        kept = self.first.kept.packed
        return Bound(
            self.interface.types,
            needs(program),
            program.constants,
            tuple([tuple([bytes_of(n) for n, _ in x.places]) for x in kept]),
            tuple([size_of(program.steps[k]) for k in self.inner]),
        )

    def linked(self, values: Values) -> Linked:
        """The program for some values of the integers."""
        first, make = self.first, self._program
        bound = self._bound(values) if self._bound else self.bound
        sizes, records, table, shifts, shapes, scratch = self._at(values)
        program = first.resized(partial(make, values) if make else first.whole)
        faced = self._interface
        program.faced = partial(faced, values) if faced else self._same
        program.records, program.table = records.reshape(first.records.shape), table
        program.shifts, program.shapes = shifts, shapes
        (program.scratch,) = scratch.tolist()
        if self.inner:
            inner = {
                k: {
                    n: (template.linked(values), make(values) if make else arguments)
                    for n, (template, arguments, make) in each.items()
                }
                for k, each in self.inner.items()
            }
            loops = dict(zip(inner, bound.loops, strict=True))
            for k, programs in inner.items():
                step = first.program.steps[k]
                if isinstance(step, Fallback) and first.codes[k]:
                    place = first.lives.place[first.workspaces[k]]
                    sizes[place] = memory_of(step, programs, loops[k])
            program.bind_bodies(inner, loops)
        program.plan, program.sizes = self._plans.at(sizes), sizes.tolist()
        program.types, program.needs = bound.types, bound.needs
        if bound.constants is not self.bound.constants:
            program.bind_constants(bound.constants)
        if bound.packed is not self.bound.packed:
            program.kept = program.kept.resized(bound.packed)
        return program

    def _at(self, values: Values) -> list[Numbers]:
        """The numbers for some values of the integers. Functions that are not taken by
        the sizes at hand are compiled where other sizes take them."""
        every = self.numbers.at(values)
        table, addresses = every[2], self.first.functions
        for place, choice, there in self.choices:
            following = table[place : place + choice.parts.span].tolist()
            chosen = type(choice.number) is Symbolic
            number = following[0] if chosen else choice.number
            name = choice.functions[number].name
            needed = choice.parts.needed(number, following)
            if name not in addresses or not there[number].keys() >= {*needed}:
                addresses |= compile_functions(choice.texts(number, following))
            table[place] = addresses[name]
        return every

    def _same(self) -> Interface:
        return self.interface

    def written(self, values: Values) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """The records, the table, what is added to addresses in it, and the bytes of
        scratch memory, for some values of the integers.
        """
        _, records, table, shifts, _, scratch = self._at(values)
        return records.reshape(self.first.records.shape), table, shifts, scratch


def _there(choice: FunctionChoice) -> list[Mapping[int, int]]:
    """The parts that are compiled, of each function."""
    count = len(choice.functions)
    return [parts_there(choice.parts.table(number)) for number in range(count)]


def _first(
    program: Program,
    codes: Sequence[tuple[Code, ...]],
    slots: Slots,
    lanes: int,
) -> tuple[Linked, list[int]]:
    """The program for the sizes at hand, with machine code, and the order in which it
    has the steps.
    """
    whole = maker(program, slots)
    parts = [maker(tuple(map(_integers, c)), slots) for c in codes]
    values = [plain(x) for x in slots.wanted]
    first = whole(values) if whole else program
    sized_codes = [
        tuple(map(_with, c, part(values))) if part else c
        for c, part in zip(codes, parts, strict=True)
    ]
    at = {id(s): k for k, s in enumerate(first.steps)}
    linked, _ = abreast(first, lanes, dict(zip(at, sized_codes, strict=True)))
    linked.link()
    return linked, [at[id(s)] for s in linked.program.steps]


class _Numbers:
    """Lists of integers some of which are symbolic: for each size, copies of arrays
    with their values."""

    def __init__(
        self, lists: Sequence[Sequence[Any]], likes: Sequence[Any], slots: Slots
    ) -> None:
        """`likes` are as long, and have whatever is no number of a size."""
        arrays = [np.array(x, np.int64).reshape(-1) for x in likes]
        self.like = np.concatenate(arrays)
        ends = np.cumsum([len(x) for x in arrays]).tolist()
        self.parts = [slice(*pair) for pair in pairwise([0, *ends])]
        pairs = [
            (part.start + k, x)
            for part, numbers in zip(self.parts, lists, strict=True)
            for k, x in enumerate(_flat(numbers))
            if type(x) is Symbolic
        ]
        self.places = np.array([k for k, _ in pairs], np.int64)
        self.slots = np.array([slots.place(x) for _, x in pairs], np.int64)

    def at(self, values: Values) -> list[Numbers]:
        """The arrays for some values of the integers."""
        if native is not None:
            numbers = native.filled(self.like, self.places, self.slots, values)
        else:
            numbers = self.like.copy()
            numbers[self.places] = [values[k] for k in self.slots.tolist()]
        return [numbers[part] for part in self.parts]


def _shapes(results: Sequence[tuple[int, int, Any]]) -> list[Any]:
    """The extents of results, one after the other: of tensors."""
    return [n for _, _, t in results if type(t) is Type for n in t.shape]


def _flat(x: Sequence[Any]) -> Iterator[Any]:
    """The integers in lists of integers, or of lists of them."""
    for part in x:
        if type(part) is list:
            yield from part
        else:
            yield part


def _integers(code: Code) -> tuple[Any, ...]:
    """The parts of a code that differ from size to size."""
    return code.arguments, code.total, code.grain, code.scratch, code.workspace


def _with(code: Code, numbers: tuple[Any, ...]) -> Code:
    make: Any = Code
    texts = dict(code.texts)
    arguments = numbers[0]
    for k, x in enumerate(arguments):
        if isinstance(x, FunctionChoice):
            texts |= x.texts(x.number, arguments[k:])
    return make(code.name, texts, *numbers, code.packs)
