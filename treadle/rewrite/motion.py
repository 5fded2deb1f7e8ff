"""Loop-invariant code motion: parts of a body done before and after the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from treadle.base.types import TupleType, Type, equal_shapes
from treadle.graph.body import Body, effect_of
from treadle.graph.leaves import Argument
from treadle.graph.rows import follow, repeated
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, rebuild, users
from treadle.ops.contract import Contract
from treadle.ops.elementwise import Add
from treadle.ops.families import Movement, Output, outputs_of
from treadle.ops.loop import Scan
from treadle.ops.movement import PermuteDims
from treadle.ops.padding import Pad
from treadle.ops.reduce import Sum
from treadle.rewrite.products import above, below, folded, is_near, needed, summed

WIDER = 8  # times the bytes of what a step reads: more is not worth its memory
Nodes = dict[int, Tensor]


@dataclass
class _Sum:
    """A carry that only sums: what is added at each step, and stays in the loop."""

    terms: list[Tensor]  # products and sums, or parts of these
    stays: list[Tensor] = field(default_factory=list)


class Parts:
    """The parts of a body: before the loop, in it, and after it."""

    def __init__(self, op: Scan, body: Body, read: Set[int]) -> None:
        self.op, self.body, self.read = op, body, sorted(read)
        c, s = op.carries, op.scanned
        self.end = len(body.arguments) - op.draws
        arguments = body.arguments
        self.rows = {x.serial: k for k, x in enumerate(arguments) if c <= k < c + s}
        late = [*arguments[:c], *arguments[self.end :]]
        self.drawn = {x.serial for x in arguments[self.end :]}
        self.asked = {y.serial for y in body.outputs}
        every = [*arguments[: c + s], *body.outputs[:c]]
        self.bytes = sum(x.type.nbytes for x in every)  # that a step reads and carries
        self.users = users(body.nodes)
        self.late = below(body.nodes, {x.serial for x in late})
        self.varies = self.late | below(body.nodes, set(self.rows))
        self.before: Nodes = {}  # what is done before the loop, by serial
        self.once: Nodes = {}  # of that what is the same at every step
        self.after: Nodes = {}
        self.sums: dict[int, _Sum] = {}
        self.stacks: Nodes = {}  # what the loop gives out for what comes after it
        # What another loop gives out, of what is done before this one.
        self.shared: dict[int, tuple[Parts, int]] = {}
        self.results: dict[int, Tensor] = {}

    # -- what is done where -----------------------------------------------------------

    def find(self, moves: bool) -> bool:
        """Whether anything is left out of the loop, or `moves` out of it."""
        outputs = self.body.outputs
        self.carried = needed(self.body, self.op.carries, set(self.read))
        unread = len({*self.carried, *self.read}) < len(outputs)
        if not moves:
            return unread
        terms = {k: self._terms(k) for k in self.carried}
        self.sums = {k: each for k, each in terms.items() if each is not None}
        self._find_before()
        self._find_once()
        self._find_sums()
        core = above([outputs[k] for k in self.carried if k not in self.sums])
        core |= above([x for each in self.sums.values() for x in each.stays])
        self._find_after(core)
        return bool(self.before or self.once or self.after or self.sums) or unread

    def _find_once(self) -> None:
        """What is the same at every step, and no larger than what it is computed of but
        for a border; of views, those that change which elements are adjacent."""
        first = self.op.carries + self.op.scanned
        invariant = {x.serial for x in self.body.arguments[first : self.end]}
        same = below(self.body.nodes, invariant) - self.varies - invariant
        for x in self.body.nodes:
            if x.serial not in same or not _moves(x):
                continue
            if isinstance(x.op, Movement):
                wanted = (
                    isinstance(x.op, PermuteDims) and x.op.order[-1] + 1 < x.type.ndim
                )
            else:
                smaller = x.type.nbytes <= sum(y.type.nbytes for y in x.inputs)
                wanted = smaller or isinstance(x.op, (Contract, Pad))
            if wanted:
                self.once[x.serial] = x

    def _find_before(self) -> None:
        apart = self.late | {x.serial for x in self._folds(parts=True)}
        early = [
            x
            for x in self.body.nodes
            if x.serial in self.varies and x.serial not in apart and x.inputs
        ]
        fixed: set[int] = set()  # what cannot be moved, and what needs it
        for x in early:
            if not _moves(x) or any(y.serial in fixed for y in x.inputs):
                fixed.add(x.serial)
        products = [
            x for x in early if isinstance(x.op, Contract) and x.serial not in fixed
        ]
        if sum(x.type.nbytes for x in products) > WIDER * self.bytes:
            return
        wanted = above(products)
        for x in early:
            if x.serial in wanted or (x.serial not in fixed and self._shrinks(x)):
                self.before[x.serial] = x

    def _shrinks(self, x: Tensor) -> bool:
        """Whether less is left for the loop to read with this node done before it."""
        ready = [y for y in x.inputs if y.serial in self.before]
        for y in ready:
            others = any(z is not x for z in self.users.get(y.serial, []))
            if others or y.serial in self.asked:
                return False
        return bool(ready) and x.type.nbytes <= sum(y.type.nbytes for y in ready)

    def _find_sums(self) -> None:
        products = [x for x in self._folds() if isinstance(x.op, Contract)]
        self._stack(y for x in products for y in x.inputs)
        if sum(x.type.nbytes for x in self.stacks.values()) > WIDER * self.bytes:
            self.sums, self.stacks = {}, {}
        known = self.stacks.keys() | self.before.keys() | self.rows.keys()
        for k, each in list(self.sums.items()):
            for x in each.terms.copy():
                of = folded(x)
                if isinstance(of.op, Sum) and of.inputs[0].serial not in known:
                    each.terms.remove(x)
                    each.stays.append(x)
            if not each.terms:
                del self.sums[k]

    def _folds(self, parts: bool = False) -> list[Tensor]:
        """The products and sums that carries add up; with what is `parts` of them."""
        terms = [x for each in self.sums.values() for x in each.terms]
        return [*map(folded, terms), *(terms if parts else ())]

    def _terms(self, k: int) -> _Sum | None:
        """What a carry adds up, if it does nothing else; one term at least is a product
        or a sum."""
        argument, total = self.body.arguments[k], self.body.outputs[k]
        added, stack, seen = _Sum([]), [total], 0
        read = [self.body.outputs[n] for n in {k, *self.read}]
        alone = sum(y is total for y in read) == 1
        if k not in self.read or not alone or any(y is argument for y in read):
            return None
        while stack:
            x = stack.pop()
            if x is argument:
                seen += 1
            elif isinstance(x.op, Add) and self._once(x, total):
                stack += x.inputs
            elif isinstance(folded(x).op, (Contract, Sum)) and x.serial in self.varies:
                added.terms.append(x)
            else:
                added.stays.append(x)
        if seen != 1 or len(self.users.get(argument.serial, [])) != 1:
            return None
        if any(not equal_shapes(x.type.shape, total.type.shape) for x in added.terms):
            return None
        return added if added.terms else None

    def _once(self, x: Tensor, total: Tensor) -> bool:
        """Whether a node is the whole sum, or read by one node of it alone."""
        return x is total or len(self.users.get(x.serial, [])) == 1

    def _find_after(self, core: set[int]) -> None:
        sums = {x.serial for x in self._folds(parts=True)}
        fixed: set[int] = set()  # what has to stay in the loop
        for x in self.body.nodes:
            free = x.serial in self.late and x.serial not in core and x.inputs
            if not free or x.serial in sums:
                continue
            if not (isinstance(x.op, Contract) or self._follows(x)):
                continue
            if _moves(x) and not any(y.serial in self.drawn for y in x.inputs):
                self.after[x.serial] = x
            else:
                fixed |= above([x])
        wanted = [self.body.outputs[k] for k in self.read if k >= self.op.carries]
        wanted += [y for x in self._folds() for y in x.inputs]
        needed = above(wanted) - fixed
        self.after = {k: x for k, x in self.after.items() if k in needed}
        products = [x for x in self.after.values() if isinstance(x.op, Contract)]
        if sum(x.type.nbytes for x in products) > WIDER * self.bytes:
            self.after = {}
        self._stack(y for x in self.after.values() for y in x.inputs)
        self.stacks = {k: x for k, x in self.stacks.items() if k not in self.after}

    def _follows(self, x: Tensor) -> bool:
        """Whether a node reads what is done after the loop."""
        return any(y.serial in self.after for y in x.inputs)

    def _stack(self, nodes: Iterable[Tensor]) -> None:
        """Nodes whose rows of all steps are read after the loop."""
        for x in nodes:
            serial = x.serial
            inside = serial not in self.rows and serial not in self.before
            if serial in self.varies and inside:
                self.stacks[serial] = x

    # -- what two loops have in common ------------------------------------------------

    def has(self, x: Tensor) -> bool:
        """Whether a node is computed in the loop of states that it goes through."""
        if x.serial not in self.late:
            return False
        read = above([x])
        states = enumerate(self.body.arguments[: self.op.carries])
        needed = [k for k, y in states if y.serial in read]
        return all(k in self.carried and k not in self.sums for k in needed)

    def give(self, x: Tensor) -> int:
        """The number of a node among the stacks that are read."""
        outputs = list(self.body.outputs)
        places = [k for k, y in enumerate(outputs) if y is x and k >= self.op.carries]
        if not places:
            self.body = Body(self.body.name, self.body.arguments, [*outputs, x])
            places = [len(outputs)]
        if places[0] not in self.read:
            self.read.append(places[0])
        return places[0]

    def ends(self) -> list[Tensor]:
        """The nodes done before the loop and read by the rest."""
        return [
            x
            for x in self.before.values()
            if x.serial in self.asked
            or any(y.serial not in self.before for y in self.users.get(x.serial, []))
        ]

    def stay_near(self) -> None:
        """Leave products in the loop whose weights are in a near cache at each step,
        where their results of all steps would be in none."""
        early = self.before.keys() - self.shared.keys()
        nodes = reach(self.ends(), lambda x: x.serial not in early)
        products = {x.serial for x in nodes if x.serial in early and self._near(x)}
        folds = self._folds()
        outside = {y.serial for x in [*self.after.values(), *folds] for y in x.inputs}
        outside |= self.asked
        for serial in products:
            every = below(self.body.nodes, {serial})
            chain = every - self.late - self.after.keys() - self.shared.keys()
            if chain.isdisjoint(outside) and self.late & every:
                self.before = {k: x for k, x in self.before.items() if k not in chain}

    def _near(self, x: Tensor) -> bool:
        same = [k for k, y in enumerate(x.inputs) if y.serial not in self.varies]
        return len(same) == 1 and is_near(x, same[0], self.op.length)

    # -- the graph in parts -----------------------------------------------------------

    def build(self, node: Tensor, inputs: Sequence[Tensor]) -> None:
        """Compute the results that are read from other inputs of the loop, if that can
        be done for many rows at once."""
        op, body = self.op, self.body
        c, n = op.carries, op.length
        values = {x.serial: y for x, y in zip(body.arguments, inputs, strict=True)}
        rows = set(self.rows)
        for serial, (other, k) in self.shared.items():
            if k not in other.results:
                return
            values[serial] = other.results[k]
            rows.add(serial)
        if follow(self.ends(), values, rows) is not None:
            return
        outputs = [y for k, y in enumerate(body.outputs) if k >= c and k in self.read]
        stacks = dict(self.stacks)
        for y in outputs:
            outside = y.serial in self.before or y.serial in self.rows
            if y.serial in self.varies and not outside and y.serial not in self.after:
                stacks[y.serial] = y
        carries = [k for k in self.carried if k not in self.sums or self.sums[k].stays]
        last = self._loop(node, carries, stacks, values)
        values |= last.pop("stacks")
        rows |= stacks.keys()
        read = [y for x in self._folds() for y in x.inputs]
        alike = [y for y in [*outputs, *read] if y.serial not in self.varies]
        if follow([*self.after.values(), *alike], values, rows) is not None:
            return
        results = {k: x for k, x in last.items() if k in self.read}
        for k, each in self.sums.items():
            start = last[k] if each.stays else inputs[k]
            for x in each.terms:
                start = _add(start, summed(x, values, rows))
            results[k] = start
        for k in self.read:
            if k >= c:
                y = body.outputs[k]
                x = values.get(y.serial, y)
                results[k] = x if y.serial in rows else repeated(x, n)
        for k, x in results.items():
            y = body.outputs[k].type
            if x.type is not (y if k < c else Type((n, *y.shape), y.dtype)):
                return
        self.results = results

    def _loop(
        self,
        node: Tensor,
        carries: Sequence[int],
        stacks: Nodes,
        values: Nodes,
    ) -> dict[Any, Any]:
        """The remaining loop: its last carries by number, and the stacks."""
        op, body = self.op, self.body
        if not carries and not stacks:
            return {"stacks": {}}
        outputs = [self._carried(k) for k in carries] + list(stacks.values())
        read, hoisted = self._read_by(outputs)
        arguments, first = body.arguments, op.carries + op.scanned
        once = [x for x in hoisted if x.serial in self.once]
        follow(once, values, set())
        kinds = [
            [arguments[k] for k in carries],
            [x for x in arguments if x.serial in self.rows and x.serial in read],
            [x for x in hoisted if x.serial in self.before],
            [x for x in arguments[first : self.end] if x.serial in read],
            once,
            [x for x in arguments[self.end :] if x.serial in read],
        ]
        order = [x for kind in kinds for x in kind]
        inner_arguments = {
            x.serial: Tensor(Argument(k), (), x.type) for k, x in enumerate(order)
        }
        inner = Body(
            body.name, list(inner_arguments.values()), rebuild(outputs, inner_arguments)
        )
        scan = replace(
            op,
            body=inner,
            carries=len(carries),
            scanned=len(kinds[1]) + len(kinds[2]),
            draws=len(kinds[5]),
        )
        made_scan = scan(*[values[x.serial] for x in order])
        made_scan.origin = node.origin
        results = outputs_of(made_scan)
        result: dict[Any, Any] = dict(zip(carries, results, strict=False))
        result["stacks"] = dict(zip(stacks, results[len(carries) :], strict=True))
        return result

    def _carried(self, k: int) -> Tensor:
        """The value of a carry in a step, without what is summed after the loop."""
        if k not in self.sums:
            return self.body.outputs[k]
        carried: Tensor = self.body.arguments[k]
        for x in self.sums[k].stays:
            carried = _add(carried, x)
        return carried

    def _read_by(self, outputs: Sequence[Tensor]) -> tuple[set[int], list[Tensor]]:
        """The nodes that the outputs read: arguments, and what is hoisted."""
        early = self.before.keys() | self.once.keys()
        nodes = reach(outputs, lambda x: x.serial in early)
        hoisted = [x for x in nodes if x.serial in early]
        return {x.serial for x in nodes if x.serial not in early}, hoisted


def _add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def _moves(x: Tensor) -> bool:
    """Whether a node may be done for all steps at once."""
    if isinstance(x.type, TupleType) or isinstance(x.op, Output):
        return False
    return x.op.family != "control" and not effect_of(x.op)
