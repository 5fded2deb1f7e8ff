"""Scalars of a loop's body that are lanes: which operations one vector computes.

Where a product mixes the elements of a state, or states are many scalars, a body has
the same operation for one after the other. Operations that are alike and equally deep
do not depend on each other, so they may be lanes of one vector, with the same bits. It
is done where it saves more than gathering operands and taking out results costs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from treadle.base.dtypes import DType
from treadle.engines.native.codegen.elementary import FUNCTIONS
from treadle.loops.index import IndexParameter
from treadle.loops.kernel import (
    Accumulate,
    Accumulator,
    Apply,
    Expression,
    Load,
    Statement,
    Store,
)

Pack = tuple[Expression, ...]
FUNCTION = 16  # operations that an elementary function is as long as
_SLOW = {"Divide": 4, "Sqrt": 4}
_SWEEPS = 4  # over all packs: what is no pack any more changes what others cost


@dataclass(frozen=True)
class Packing:
    """The packs of a body, operands first, the accumulators that are carried as lanes
    of one vector, and the stores to neighbors whose values are lanes."""

    packs: tuple[Pack, ...] = ()
    carried: tuple[tuple[Accumulator, ...], ...] = ()
    stores: tuple[tuple[Store, ...], ...] = ()


@dataclass(frozen=True)
class ScalarBody:
    """The statements of a loop without loops in it: what is known before it, which
    expressions are states as a step finds them, the lanes of a register."""

    statements: Sequence[Statement]
    is_outside: Callable[[Expression], bool]
    states: Mapping[Expression, Accumulator]
    register: Callable[[DType], int]
    most: int  # lanes of a pack


def packing(body: ScalarBody) -> Packing:
    """The packs of a body that pay."""
    packs = _Candidates(body).packs()
    return _Choice(body, packs).packing() if packs else Packing()


def place(x: Load | Store) -> tuple[Hashable, int] | None:
    """What neighbors have in common, and where an element is among them."""
    i = x.index
    if x.guards or any(i.data()):
        return None
    if isinstance(i.constant, IndexParameter):
        return (x.buffer, i.terms, i.constant.slot), i.constant.plus
    return (x.buffer, i.terms, None), i.constant


def runs(stores: Sequence[Statement], most: int) -> Iterator[tuple[Store, ...]]:
    """Stores to one element after the other, as many as are lanes of a pack."""
    run: list[Store] = []
    for s in (*stores, None):
        follows = False
        if isinstance(s, Store) and run:
            here, before = place(s), place(run[-1])
            same = here is not None and before is not None and here[0] == before[0]
            follows = same and here[1] == before[1] + 1  # type: ignore[index]
        if run and not (follows and len(run) < most):
            if len(run) > 1:
                yield tuple(run)
            run = []
        if isinstance(s, Store) and s.combine is None and place(s) is not None:
            run.append(s)


class _Candidates:
    """Packs of all operations that are alike: those that others read lane by lane as
    they are, the rest in the order in which they are first read."""

    def __init__(self, body: ScalarBody) -> None:
        self.body = body
        self.depths: dict[Expression, int] = {}
        self.wishes: dict[tuple[int, Hashable], list[Pack]] = defaultdict(list)
        self.alike: dict[tuple[int, Hashable], list[Expression]] = defaultdict(list)
        self._order()

    def is_leaf(self, x: Expression) -> bool:
        return x in self.body.states or self.body.is_outside(x)

    def _order(self) -> None:
        """How deep each operation is, and which are alike."""
        for s in self.body.statements:
            stack = [s.value] if isinstance(s, (Store, Accumulate)) else []
            while stack:
                x = stack[-1]
                if x in self.depths:
                    stack.pop()
                    continue
                inside = isinstance(x, Apply) and not self.is_leaf(x)
                inputs = x.inputs if inside else ()  # type: ignore[union-attr]
                missing = [v for v in inputs if v not in self.depths]
                if missing:
                    stack += reversed(missing)
                    continue
                stack.pop()
                depth = 1 + max([self.depths[v] for v in inputs], default=0)
                self.depths[x] = depth if inside else 0
                kind = self.kind(x)
                if kind is not None:
                    self.alike[kind].append(x)

    def kind(self, x: Expression) -> tuple[int, Hashable] | None:
        """What operations have in common that may be lanes of one vector."""
        if self.is_leaf(x):
            return None
        if isinstance(x, Apply):
            dtypes = tuple([v.dtype for v in x.inputs])
            return self.depths[x], (x.op, dtypes, x.dtype)
        where = place(x) if isinstance(x, Load) else None
        return None if where is None else (0, where[0])

    def packs(self) -> list[Pack]:
        """All candidates, operands first."""
        self._roots()
        packs: list[Pack] = []
        for kind in sorted(self.alike, key=lambda k: -k[0]):
            every = self.alike[kind]
            if len(every) > 1:
                level = self._neighbors(every) if not kind[0] else self._level(kind)
                packs += level
                for pack in level if kind[0] else ():
                    self._wish(pack)
        return packs[::-1]

    def _roots(self) -> None:
        """The values that are stored to neighbors, and those of states."""
        for run in runs(self.body.statements, self.body.most):
            self._wished([s.value for s in run])
        folds = [s.value for s in self.body.statements if isinstance(s, Accumulate)]
        self._wished(folds)

    def _wish(self, pack: Pack) -> None:
        """Operands in the order of those that read them, where each reads another."""
        for inputs in zip(*[x.inputs for x in pack], strict=True):  # type: ignore[union-attr]
            if len(set(inputs)) == len(pack):
                self._wished(inputs)

    def _wished(self, values: Sequence[Expression]) -> None:
        """Each longest part of what is read that is alike."""
        part: list[Expression] = []
        kind = None
        for x in (*values, None):
            here = None if x is None else self.kind(x)
            if part and here != kind:
                if kind is not None and len(part) > 1:
                    self.wishes[kind].append(tuple(part))
                part = []
            if x is not None and x not in part:
                part.append(x)
            kind = here

    def _level(self, kind: tuple[int, Hashable]) -> list[Pack]:
        every = self.alike[kind]
        taken: set[Expression] = set()
        packs: list[Pack] = []
        least = self.body.register(every[0].dtype) // 2 if _cost(every[0]) > 4 else 1
        for wish in self.wishes[kind]:
            if len(wish) > least and taken.isdisjoint(wish):
                packs += self._parts(wish)
                taken.update(wish)
        return packs + self._parts([x for x in every if x not in taken])

    def _neighbors(self, loads: Sequence[Expression]) -> list[Pack]:
        """Elements one after the other in memory."""
        by_place = {place(x)[1]: x for x in loads}  # type: ignore[arg-type, index]
        packs: list[Pack] = []
        run: list[Expression] = []
        last = None
        for k in sorted(by_place):
            if last is not None and k != last + 1:
                packs += self._parts(run)
                run = []
            run.append(by_place[k])
            last = k
        return packs + self._parts(run)

    def _parts(self, members: Sequence[Expression]) -> list[Pack]:
        most = self.body.most
        parts = [tuple(members[k : k + most]) for k in range(0, len(members), most)]
        return [p for p in parts if len(p) > 1]


class _Choice:
    """The packs that save more than they cost, given that the others are such."""

    def __init__(self, body: ScalarBody, packs: Sequence[Pack]) -> None:
        self.body = body
        self.packs: dict[int, Pack] = dict(enumerate(packs))
        self.homes = {x: k for k, pack in self.packs.items() for x in pack}
        self.users: dict[Expression, list[Expression]] = defaultdict(list)
        self.runs = list(runs(body.statements, body.most))
        self._find_users()
        self._find_roots()

    def _find_users(self) -> None:
        seen: set[Expression] = set()
        stack = [s.value for s in self.body.statements if isinstance(s, _WITH_VALUES)]
        while stack:
            x = stack.pop()
            leaf = x in self.body.states or self.body.is_outside(x)
            if x in seen or leaf or not isinstance(x, Apply):
                continue
            seen.add(x)
            for v in dict.fromkeys(x.inputs):
                self.users[v].append(x)
                stack.append(v)

    def _find_roots(self) -> None:
        """Which stores and states are lanes, and the values of the others."""
        homes = self.homes
        self.stores = [r for r in self.runs if all(s.value in homes for s in r)]
        lanes = {id(s) for run in self.stores for s in run}
        by_pack: dict[int, list[Accumulate]] = defaultdict(list)
        for s in self.body.statements:
            if isinstance(s, Accumulate) and s.accumulator.combine is None:
                home = homes.get(s.value)
                if home is not None:
                    by_pack[home].append(s)
        self.carried: list[tuple[Accumulator, ...]] = []
        for home, folds in by_pack.items():
            if len(folds) > 1:
                where = {x: k for k, x in enumerate(self.packs[home])}
                folds.sort(key=lambda s: where[s.value])
                self.carried.append(tuple([s.accumulator for s in folds]))
                lanes.update(map(id, folds))
        self.groups = {a: k for k, group in enumerate(self.carried) for a in group}
        self.single = {
            s.value
            for s in self.body.statements
            if isinstance(s, _WITH_VALUES) and id(s) not in lanes
        }

    def packing(self) -> Packing:
        for _ in range(_SWEEPS):
            before = len(self.packs)
            for upwards in (True, False):
                for k in list(self.packs)[:: 1 if upwards else -1]:
                    if self._saves(k) <= 0:
                        for x in self.packs.pop(k):
                            del self.homes[x]
                self._find_roots()
            if len(self.packs) == before:
                break
        packs = tuple(self.packs.values())
        return Packing(packs, tuple(self.carried), tuple(self.stores))

    def _saves(self, k: int) -> float:
        """The operations that a pack saves, less those that it takes."""
        pack = self.packs[k]
        vectors = -(-len(pack) // self.body.register(pack[0].dtype))
        saved = _cost(pack[0]) * (len(pack) - vectors)
        if isinstance(pack[0], Apply):
            for inputs in zip(*[x.inputs for x in pack], strict=True):  # type: ignore[union-attr]
                saved -= self._gathering(inputs, vectors)
        return saved - sum([self._is_taken_out(x) for x in pack])

    def _gathering(self, inputs: Pack, vectors: int) -> int:
        """What a vector of operands costs."""
        if all(v is inputs[0] or self.body.is_outside(v) for v in inputs):
            return 0
        sources: set[Hashable] = set()
        inserted: set[Expression] = set()
        for v in inputs:
            source = self._source(v)
            if source is None:
                inserted.add(v)
            else:
                sources.add(source)
        if len(sources) > 2:
            return len(inputs)
        as_they_are = len(set(inputs)) == len(inputs) and len(sources) == 1
        return len(inserted) + (0 if as_they_are else vectors * len(sources))

    def _source(self, x: Expression) -> Hashable:
        """The vector that a value is a lane of."""
        state = self.body.states.get(x)
        if state is None:
            return self.homes.get(x)
        return None if state not in self.groups else (self.groups[state],)

    def _is_taken_out(self, x: Expression) -> bool:
        """Whether a lane is read by itself."""
        return x in self.single or any(y not in self.homes for y in self.users[x])


_WITH_VALUES = (Store, Accumulate)


def _cost(x: Expression) -> int:
    """How many operations a scalar is worth."""
    if not isinstance(x, Apply):
        return 1
    return FUNCTION if x.op.name in FUNCTIONS else _SLOW.get(x.op.name, 1)
