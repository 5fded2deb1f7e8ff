"""Rematerialization: values computed a second time instead of being kept in memory.

At the step that needs the most memory, everything that lies there for later costs its
bytes, and everything that could be computed again from the rest costs its time. With a
price on a byte the best choice is a minimum cut between what cannot be computed again
and what later steps read (as in Jain et al., "Checkmate", 2020, and the partitioner of
He and Yu, "Transcending runtime-memory tradeoffs in checkpointing", 2023, for one
boundary). The copies are nodes of their own that wait for their first reader's time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from treadle.base.symbolic import plain
from treadle.base.types import TupleType
from treadle.graph.tensor import Tensor, copied
from treadle.graph.traversal import reached
from treadle.loops.lower import has_rule
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract
from treadle.ops.families import Elementwise, Reduction
from treadle.program.arrange import LARGE, Arrangement, is_leaf
from treadle.program.flow import ENDLESS, Network
from treadle.program.recompute import CHEAP
from treadle.program.timeline import Demand, Timeline
from treadle.program.units import wait_for, waited_for

# Seconds that a byte is worth if it stays to the end: writing and reading it, some 20
# times over. One that is read at once is worth a part of that.
PRICE, SHORT = 1.6e-9, 0.1
LEAST = 0.95  # of the memory before; a choice that saves less is not taken
HIGHEST, FINE = 2**16, 1.1  # prices where memory is short, and how closely they are met
# Of the memory of the largest step, to be reached in a round: in long strides, then
# from the least they led to in short ones, which disturb the other steps less.
STRIDES = (0.95, 0.99)
PATIENCE, ROUNDS = 8, 32  # of a stride: rounds in which no less is reached, and in all

# Seconds: of any op, of a floating-point operation in a product, of an element that is
# moved or computed by a cheap op, and of one computed by another op, such as exp.
OP, FLOP, COPIED, COMPUTED = 1e-6, 5e-12, 2e-11, 2e-10
# Seconds for a byte of a product that is not kept: sums of some 80 numbers at most.
# Convolutions of such short ones are slower than they seem.
QUICK = 2e-10
UNIT = 1e-13  # seconds: costs are whole multiples of it


class _Choices:
    """What could be computed again after a step, or kept over it: a network whose least
    cuts are the choices, by the price of a byte."""

    def __init__(self, time: Timeline, demand: Demand, products: bool) -> None:
        self.time = time
        self.step = step = demand.step
        self.spike = demand.bytes // 2
        self.products = products
        # What the step itself reads or writes lies there whatever is chosen.
        busy = set(time.read[step])
        busy |= {n.serial for unit in time.units[step] for n in unit.nodes}
        pinned = busy & time.kept.keys()
        self.bytes = sum(plain(time.kept[s].type.nbytes) for s in pinned)
        self.free = pinned | set(time.arranged.results)
        self.below: dict[int, Sequence[Tensor]] = {}
        self.until: dict[int, int] = {}  # the last step that might read a node
        self.needed: list[Tensor] = []
        self._look()
        self.network = Network()
        self.points: dict[int, int] = {}  # where the edge begins that keeps a node
        self.edges: list[tuple[Tensor, int]] = []
        self._join()
        self.start = 0.0, self.network.residual

    def _early(self, xs: Sequence[Tensor]) -> Iterator[Tensor]:
        """The nodes among some that are computed by now, and not for nothing."""
        for x in xs:
            early = self.time.step_of(x) <= self.step and not is_leaf(x)
            if early and x.serial not in self.free:
                yield x

    def _inputs(self, x: Tensor) -> Sequence[Tensor]:
        """The nodes that a node would be recomputed from; none if it cannot be."""
        inputs = self.below.get(x.serial)
        if inputs is None:
            again = self._cost(x) < ENDLESS
            inputs = self.below[x.serial] = list(self._early(x.inputs)) if again else ()
        return inputs

    def _cost(self, x: Tensor) -> int:
        """The cost of recomputing a node, unless that takes too much memory."""
        seconds = cost(x, self.time.arranged, self.products)
        if seconds is None or (
            plain(x.type.nbytes) > self.spike and self._in_memory(x)
        ):
            return ENDLESS
        return round(seconds / UNIT)

    def _worth(self, x: Tensor, price: float) -> int:
        """The cost of keeping a node for as long as it may be read."""
        stays = (self.until[x.serial] - self.step) / (len(self.time.steps) - self.step)
        share = SHORT + (1 - SHORT) * stays
        return round(share * price * plain(x.type.nbytes) / UNIT)

    def _in_memory(self, x: Tensor) -> bool:
        """Whether a node can lie in memory: it is no other one seen in another way."""
        virtual = self.time.arranged.transparent(x)
        return not (virtual or isinstance(x.type, TupleType))

    def _read(self, xs: Iterable[Tensor], step: int) -> None:
        for x in xs:
            self.until[x.serial] = max(self.until.get(x.serial, 0), step)

    def _look(self) -> None:
        """Find what later steps need."""
        when = self.time.when
        for node in self.time.arranged.nodes:
            if when[node.serial] > self.step:
                sources = list(self._early(node.inputs))
                self._read(sources, when[node.serial])
                self.needed += sources

    def _join(self) -> None:
        """Make the network, in which nothing costs anything to keep."""
        network, points = self.network, self.points
        nodes = reached(self.needed, self._inputs)
        nodes.sort(key=self.time.order, reverse=True)
        for x in nodes:
            self._read(self._inputs(x), self.until[x.serial])
            a = points[x.serial] = network.point()
            network.join(0, a, self._cost(x))
            in_memory = self._in_memory(x)
            edge = network.join(a, network.point(), 0 if in_memory else ENDLESS)
            if in_memory:
                self.edges.append((x, edge))
        for x in nodes:
            for y in self._inputs(x):
                network.join(points[y.serial] + 1, points[x.serial], ENDLESS)
        for x in self.needed:
            network.join(points[x.serial] + 1, 1, ENDLESS)

    def at(self, price: float) -> _Choice:
        """The choice at a price that is not below that of `start`.

        What flows at a lower price can flow at a higher one too: it goes on from there.
        """
        low, residual = self.start
        self.network.residual = residual = list(residual)
        for x, edge in self.edges:
            residual[edge] += self._worth(x, price) - self._worth(x, low)
        side = self.network.cut()

        def again(x: Tensor) -> bool:
            return self.points[x.serial] not in side

        every = reached(self.needed, lambda x: self._inputs(x) if again(x) else ())
        kept = sum(plain(x.type.nbytes) for x in every if not again(x))
        chosen = {x.serial for x in every if again(x)}
        return _Choice(self.time, self.step, chosen, self.bytes + kept)

    def begin(self, price: float) -> None:
        """Continue later searches, at higher prices, from the last cut."""
        self.start = price, self.network.residual


@dataclass(frozen=True)
class _Choice:
    """A choice of values to compute again after a step, and the bytes kept over it."""

    time: Timeline
    step: int
    again: set[int]
    bytes: int

    def roots(self, soon: bool = False) -> dict[int, Tensor]:
        """The graph in the order of its steps, and copies of what is computed again.

        These wait for the step before their first reader's; `soon`, for the last that
        the reader itself waits for, so that it can move up.
        """
        time, arranged = self.time, self.time.arranged
        copies: dict[int, Tensor] = {}
        anew: dict[int, Tensor] = {}

        def of(x: Tensor) -> Tensor:
            return copies.get(x.serial, x)

        for node in sorted(arranged.nodes, key=time.order):
            late = time.when[node.serial] > self.step
            wanted = [x for x in node.inputs if late and x.serial in self.again]
            if wanted:
                mark = copies[self._before(node, soon).serial]
                missing = reached(
                    wanted,
                    lambda x: [y for y in x.inputs if y.serial in self.again],
                )
                for x in sorted(missing, key=time.order):
                    if x.serial not in anew:
                        inputs = tuple(anew.get(y.serial, of(y)) for y in x.inputs)
                        anew[x.serial] = wait_for(copied(x, inputs, marked=False), mark)
            inputs = tuple(
                anew[x.serial] if late and x.serial in self.again else of(x)
                for x in node.inputs
            )
            copies[node.serial] = copy = copied(node, inputs, marked=False)
            known = waited_for(node)
            if known is not None:
                wait_for(copy, of(known))
        return {k: of(root) for k, root in arranged.roots.items()}

    def _before(self, node: Tensor, soon: bool) -> Tensor:
        """A node that copies for a late one wait for, of this step or a later one.

        None of a step that makes a new version: that waits for who reads the old one.
        """
        time, last = self.time, self.time.when[node.serial]
        changed = time.arranged.changed
        waits = 0 if soon else -1  # bits of units: all of them
        for unit in time.units[last] if soon else ():
            waits |= unit.before
        for k in range(last - 1, self.step, -1):
            units = time.units[k]
            if any(x.serial in changed for unit in units for x in unit.nodes):
                continue
            if any(waits >> unit.number & 1 for unit in units):
                return units[0].nodes[0]
        return time.units[self.step][0].nodes[0]


def cost(node: Tensor, arranged: Arrangement, products: bool) -> float | None:
    """Seconds that a node takes to compute; None if it is not computed twice."""
    product = arranged.products.get(node.serial)
    if product is not None:
        work = 2 * FLOP * math.prod(map(plain, product[0].sizes))
        quick = isinstance(node.op, Contract) and work <= QUICK * plain(
            node.type.nbytes
        )
        return OP + work if products or quick else None
    if isinstance(node.type, TupleType) or not arranged.supported(node):
        return None
    if isinstance(node.op, Reduction):
        return OP + COPIED * plain(node.inputs[0].type.size)
    if isinstance(node.op, (*CHEAP, Cast)) or not isinstance(node.op, Elementwise):
        return OP + COPIED * plain(node.type.size) if has_rule(node.op) else None
    return OP + COMPUTED * plain(node.type.size)


Arrange = Callable[[Mapping[int, Tensor]], Arrangement]


def rematerialized(arranged: Arrangement, arrange: Arrange) -> Arrangement:
    """An arrangement in which values are computed again where that is about as cheap
    as keeping them.
    """
    if arranged.small:
        return arranged
    time = Timeline(arranged)
    if max(time.live(), default=0) < LARGE:
        return arranged
    demand = time.largest()
    if demand.bytes < LARGE:
        return arranged
    choice = _Choices(time, demand, products=False).at(PRICE)
    if choice.bytes > LEAST * demand.bytes:
        return arranged
    candidate = arrange(choice.roots())
    less = Timeline(candidate).largest().bytes <= LEAST * demand.bytes
    return candidate if less else arranged


def lighter(
    arranged: Arrangement, arrange: tuple[Arrange, Arrange]
) -> Iterator[Arrangement]:
    """Arrangements that need ever less memory, at the price of ever more work.

    By two searches, each with an `arrange` of its own: in the first, copies wait for
    less in the round after one that has brought nothing, in the second each round tries
    both.
    """
    if not arranged.steps():
        return
    least = Timeline(arranged).largest().bytes
    for both, way in zip((False, True), arrange, strict=True):
        for candidate, bytes in _search(arranged, way, both):
            if bytes < least:
                least = bytes
                yield candidate


def _search(
    start: Arrangement, arrange: Arrange, both: bool
) -> Iterator[tuple[Arrangement, int]]:
    """Ever lighter arrangements, and the bytes that they need.

    Each round sees to the step that needs the most; what is computed again to relieve
    it may make another one the next. Where no less is reached by long strides, short
    ones go on from the least there was.
    """
    best, least = start, Timeline(start).largest().bytes
    for stride in STRIDES:
        arranged, idle = best, 0
        for _ in range(ROUNDS):
            if idle == PATIENCE:
                break
            time = Timeline(arranged)
            demand = time.largest()
            choice = _cheapest(time, demand, stride ** (1 + idle) * demand.bytes)
            if not choice.again:
                break
            ways = (False, True) if both else (idle % 2 == 1,)
            candidates = [arrange(choice.roots(soon)) for soon in ways]
            needs = [Timeline(x).largest().bytes for x in candidates]
            need = min(needs)
            arranged = candidates[needs.index(need)]
            idle += 1
            if need < least:
                best, least, idle = arranged, need, 0
                yield arranged, need


def _cheapest(time: Timeline, demand: Demand, most: float) -> _Choice:
    """The choice at about the lowest price that needs no more bytes; else the least."""
    low, high = PRICE, PRICE * HIGHEST
    choices = _Choices(time, demand, products=True)
    best = choices.at(high)
    while high > FINE * low and best.bytes <= most:
        middle = math.sqrt(low * high)
        choice = choices.at(middle)
        if choice.bytes <= most:
            best, high = choice, middle
        else:
            low = middle
            choices.begin(low)
    return best
