"""A loop's body whose scalars are lanes of vectors, as it is written.

`packs.py` says which. A lane that somebody reads by itself is taken out where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from treadle.engines.native.codegen.access import Access
from treadle.engines.native.codegen.builder import (
    Value,
    element,
    lanes,
    vector,
)
from treadle.engines.native.codegen.elements import from_memory, load_type, to_memory
from treadle.engines.native.codegen.packs import Pack, Packing, ScalarBody, packing
from treadle.engines.native.codegen.scalars import apply
from treadle.engines.native.system.host import host
from treadle.loops.kernel import (
    Accumulate,
    Accumulator,
    Apply,
    Const,
    Expression,
    Load,
    Loop,
    Statement,
    Store,
)

MOST = 16  # lanes: elementary functions of more doubles are done in parts


def packed_body(
    writer: Access, loop: Loop, states: Mapping[Expression, Accumulator]
) -> PackedBody:
    """The vectors of a loop that replaces states at each step, if it has no lanes."""

    def is_outside(x: Expression) -> bool:
        return isinstance(x, Const) or writer.cached(x) is not None

    width = host().vector_bytes
    body = ScalarBody(
        loop.body, is_outside, states, lambda d: width // d.itemsize, MOST
    )
    packs = states and writer.has_vectors and not writer.lanes
    plan = packing(body) if packs else Packing()
    packed = PackedBody(writer, plan, states)
    packed.prepare(is_outside)
    return packed


class PackedBody:
    """The vectors of one loop's body, each of a power of two lanes: those that are too
    many repeat the first one."""

    def __init__(
        self,
        writer: Access,
        plan: Packing,
        states: Mapping[Expression, Accumulator],
    ) -> None:
        self.b, self.plan, self.states = writer.b, plan, states
        self.scalar, self.pointer = writer.value, writer.pointer
        self.homes: dict[Expression, tuple[Value, int]] = {}
        self.vectors: dict[Pack, Value] = {}
        self.accumulators = {a for group in plan.carried for a in group}

    def prepare(self, is_outside: Callable[[Expression], bool]) -> None:
        """Before the loop: vectors of what does not change in it."""
        for pack in self.plan.packs:
            for inputs in _operands(pack):
                if all(map(is_outside, inputs)):
                    self.vector(inputs)

    def first(self, carried: Mapping[Accumulator, Value]) -> list[Value]:
        """What the states that are lanes begin with."""
        return [self._joined([carried[a] for a in g]) for g in self.plan.carried]

    def enter(self, values: Sequence[Value]) -> None:
        """The vectors of a step, of what the one before it has carried."""
        lanes = {
            a: (value, k)
            for group, value in zip(self.plan.carried, values, strict=True)
            for k, a in enumerate(group)
        }
        self.homes = {x: lanes[a] for x, a in self.states.items() if a in lanes}
        for pack in self.plan.packs:
            value = self._computed(pack)
            self.vectors[pack] = value
            self.homes.update({x: (value, k) for k, x in enumerate(pack)})

    def lane(self, x: Expression) -> Value | None:
        """A value by itself, if it is a lane."""
        home = self.homes.get(x)
        return None if home is None else self.b.lane(*home)

    def rest(self, body: Sequence[Statement]) -> list[Statement]:
        """The statements that are done one by one; their values are there before
        something is stored, as it may be where they read."""
        stored = {id(s) for run in self.plan.stores for s in run}
        single: list[Statement] = []
        for s in body:
            carried = isinstance(s, Accumulate) and s.accumulator in self.accumulators
            if id(s) not in stored and not carried:
                single.append(s)
                if isinstance(s, (Store, Accumulate)):
                    self.scalar(s.value)
        return single

    def store(self) -> None:
        """Store what goes to neighbors in memory."""
        for run in self.plan.stores:
            self._store(run)

    def after(self, body: Sequence[Statement]) -> list[Value]:
        """What is carried to the next step."""
        values = {s.accumulator: s.value for s in body if isinstance(s, Accumulate)}
        return [self.vector(tuple([values[a] for a in g])) for g in self.plan.carried]

    def last(self, values: Sequence[Value]) -> dict[Accumulator, Value]:
        """The states after the loop, one by one."""
        return {
            a: self.b.lane(value, k)
            for group, value in zip(self.plan.carried, values, strict=True)
            for k, a in enumerate(group)
        }

    def vector(self, members: Pack) -> Value:
        """Values as lanes of a vector."""
        value = self.vectors.get(members)
        if value is None:
            value = self.vectors[members] = self._gathered(members)
        return value

    def _computed(self, pack: Pack) -> Value:
        x = pack[0]
        if isinstance(x, Load):
            return self._loaded(x, len(pack))
        assert isinstance(x, Apply)
        values = [self.vector(inputs) for inputs in _operands(pack)]
        return apply(self.b, x.op, values, [v.dtype for v in x.inputs], x.dtype)

    def _loaded(self, x: Load, count: int) -> Value:
        memory = load_type(x.dtype)
        pointer = self.pointer(x.buffer, x.index, memory)
        value = self.b.load(vector(memory, count), pointer)
        return from_memory(self.b, self._lanes(value, range(count)), x.dtype)

    def _store(self, run: tuple[Store, ...]) -> None:
        first, dtype = run[0], run[0].value.dtype
        value = self.vector(tuple([s.value for s in run]))
        value = to_memory(self.b, self.b.part(value, 0, len(run)), dtype)
        pointer = self.pointer(first.buffer, first.index, load_type(dtype))
        self.b.store(value, pointer)

    def _gathered(self, members: Pack) -> Value:
        first = members[0]
        if all(x == first for x in members):
            return self.b.splat(self.scalar(first), _width(len(members)))
        homes = [self.homes.get(x) for x in members]
        sources = list(dict.fromkeys([home[0] for home in homes if home is not None]))
        if len(sources) > 2 or None in homes:
            return self._joined([self.scalar(x) for x in members])
        places = [(sources.index(home[0]), home[1]) for home in homes if home]
        if len(sources) == 1:
            return self._lanes(sources[0], [k for _, k in places])
        widths = [lanes(v.type) for v in sources]
        low, high = [
            self._lanes(v, range(n), max(widths))
            for v, n in zip(sources, widths, strict=True)
        ]
        return self._lanes(low, [k + s * max(widths) for s, k in places], other=high)

    def _lanes(
        self,
        x: Value,
        places: Sequence[int],
        width: int = 0,
        other: Value | None = None,
    ) -> Value:
        """Lanes of a vector, or of two, and the first of them again up to a width."""
        width = width or _width(len(places))
        every = [*places, *[places[0]] * (width - len(places))]
        if other is None and every == list(range(lanes(x.type))):
            return x
        kind = vector(element(x.type), width)
        mask = ", ".join([f"i32 {k}" for k in every])
        second = other or Value("poison", x.type)
        line = f"shufflevector {x}, {second}, <{width} x i32> <{mask}>"
        return self.b.define(kind, line)

    def _joined(self, values: Sequence[Value]) -> Value:
        """Scalars as lanes of a vector."""
        width = _width(len(values))
        x = self.b.splat(values[0], width)
        for k, v in enumerate(values[1:], 1):
            if v != values[0]:
                x = self.b.insert(x, v, k)
        return x


def _operands(pack: Pack) -> list[Pack]:
    """The operands of a pack, each for all lanes."""
    inputs = [x.inputs for x in pack if isinstance(x, Apply)]
    return list(zip(*inputs, strict=True))


def _width(count: int) -> int:
    """The least power of two that has so many lanes."""
    return 1 << (count - 1).bit_length()
