"""The device engine: ops launched in creation order, in a memory of its own."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np

from treadle.base.errors import TreadleError
from treadle.base.types import TupleType, Type
from treadle.engines.base import Engine, Values, provide_engine
from treadle.engines.counts import Counts
from treadle.engines.device.inplace import in_place
from treadle.engines.device.memory import DeviceValue, Memory
from treadle.graph.body import Body, Called, with_bodies
from treadle.graph.claim import Claim, running
from treadle.graph.frame import tracing
from treadle.graph.leaves import Argument
from treadle.graph.meaning import compute_at
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.rewrite.pipeline import prepare

CAPACITY = 1 << 30  # address space: the host gives pages to what is written
NUMBERS = 1024  # scalars that are remembered by their value

DeviceValues = DeviceValue | tuple[DeviceValue, ...]


class Device(Engine):
    """Runs graphs in its own memory; values come home when they are looked at."""

    name = "device"
    device = "device"

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.memory = Memory(capacity, self._forget)
        # Copies of what the host has stored, by the serial of the node it belongs to.
        self._leaves: dict[int, tuple[weakref.ref[Tensor], DeviceValue]] = {}
        self._numbers: OrderedDict[Any, DeviceValue] = OrderedDict()
        # The values that the arrays given to the rules under way are windows of.
        self._owners: dict[int, DeviceValue] = {}
        # Where the values of a run lie that are another node's too: never written over.
        self._passed: set[int] = set()

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
        claim: Claim | None = None,
    ) -> Values:
        with tracing("a run"):  # what derivatives build is launched here
            graph = prepare(nodes, feeds, keep, stages=())
        for leaf in graph.leaves:  # what other engines hold, before this one is locked
            if isinstance(leaf.stored, Resident) and not self._own(leaf.stored):
                leaf.stored.numpy()
        with running(claim), self.memory.lock:
            values: dict[int, DeviceValues] = {}
            try:
                order, into = in_place(graph, spent)
                for node in order:
                    if not node.inputs:
                        is_argument = isinstance(node.op, Argument)
                        leaf = graph.leaf(node) if is_argument else node
                        values[node.serial] = self._begin(leaf, feeds)
                roots = graph.roots
                self._walk(order, values, {y.serial for y in roots.values()}, into)
                return {serial: values[y.serial] for serial, y in roots.items()}
            finally:
                # A traceback keeps this frame, but must not keep the memory.
                values.clear()
                self._passed.clear()

    # -- what a run starts from --------------------------------------------------------

    def _begin(self, node: Tensor, feeds: Mapping[int, Any]) -> DeviceValue:
        """The value of a node that needs no launch."""
        try:
            if node.serial in feeds:
                array = np.asarray(feeds[node.serial])
                return self.memory.copy_in(array, _single(node))
            return self._stored(node)
        except TreadleError as error:
            raise error.located(node.op.name, repr(node.type), node.line) from None

    def _own(self, stored: Any) -> bool:
        return isinstance(stored, DeviceValue) and stored.memory is self.memory

    def _stored(self, node: Tensor) -> DeviceValue:
        """The stored value of a node, copied in if it never was."""
        stored = node.stored
        if isinstance(stored, DeviceValue) and stored.memory is self.memory:
            return stored
        known = self._leaves.get(node.serial)
        if known is not None:
            return known[1]
        array = node.array
        assert array is not None
        if not array.shape:
            return self._number(array, _single(node))
        value = self.memory.copy_in(array, _single(node), array)
        drop = partial(self._leaves.pop, node.serial)
        self._leaves[node.serial] = weakref.ref(node, drop), value
        return value

    def _number(self, array: np.ndarray[Any, Any], type_: Type) -> DeviceValue:
        """A scalar: loops write the same ones again and again."""
        key = array.dtype, array.tobytes()
        value = self._numbers.get(key)
        if value is None:
            value = self._numbers[key] = self.memory.copy_in(array, type_, array)
            if len(self._numbers) > NUMBERS:
                self._numbers.popitem(last=False)
        self._numbers.move_to_end(key)
        return value

    def _forget(self) -> None:
        """Drop all copies of what the host has as well."""
        self._leaves.clear()
        self._numbers.clear()

    # -- launches ----------------------------------------------------------------------

    def _walk(
        self,
        nodes: Sequence[Tensor],
        values: dict[int, DeviceValues],
        keep: Set[int],
        into: Mapping[int, DeviceValue],
    ) -> None:
        """Launch the ops of the nodes that have no value; let values go when read."""
        last = {x.serial: k for k, node in enumerate(nodes) for x in node.inputs}
        for k, node in enumerate(nodes):
            if node.serial in values:
                continue
            inputs = [values[x.serial] for x in node.inputs]
            try:
                target = into.get(node.serial)
                values[node.serial] = self._launch(node, inputs, target)
            except TreadleError as error:
                types = ", ".join(repr(x.type) for x in node.inputs)
                raise error.located(node.op.name, types, node.line) from None
            finally:
                inputs.clear()
            for x in node.inputs:
                if last[x.serial] == k and x.serial not in keep:
                    values.pop(x.serial, None)

    def _launch(
        self, node: Tensor, inputs: Sequence[DeviceValues], target: DeviceValue | None
    ) -> DeviceValues:
        """One op by its NumPy rule, the kernel: it sees windows of the memory."""
        windows = [self._window(x) for x in inputs]
        try:
            op = with_bodies(
                node.op, lambda body: Called(body, partial(self.call, body))
            )
            results = compute_at(op, node.type, windows, node.origin)
            self.memory.counts += Counts(launches=1)
            if isinstance(node.type, TupleType):
                pairs = zip(results, node.type, strict=True)
                return tuple(self.place(y, t) for y, t in pairs)
            if target is None or target.address in self._passed:
                return self.place(results, node.type)
            self.memory.write(target, results)
            return target
        finally:
            for x in windows:
                for view in x if isinstance(x, tuple) else (x,):
                    del self._owners[id(view)]

    def _window(self, value: DeviceValues) -> Any:
        """The array by which a rule reads a value; `_owners` knows it again."""
        if isinstance(value, tuple):
            return tuple(self._window(one) for one in value)
        view = self.memory.view(value)
        self._owners[id(view)] = value
        return view

    def place(self, array: np.ndarray[Any, Any], type_: Type) -> DeviceValue:
        """The value of a rule's array: an operand passed on, or cells of its own."""
        value = self._owners.get(id(array))
        if value is None:
            value = self.memory.take(type_)
            self.memory.write(value, array)
        else:
            self._passed.add(value.address)
        return value

    def call(
        self, body: Body, arrays: Sequence[np.ndarray[Any, Any]]
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """The outputs of a body for arrays that a rule has at hand."""
        values: dict[int, DeviceValues] = {}
        for x, array in zip(body.arguments, arrays, strict=True):
            values[x.serial] = self.place(array, _single(x))
        for node in body.nodes:
            if node.stored is not None and not node.inputs:
                values[node.serial] = self._stored(node)
        keep = {y.serial for y in body.outputs}
        try:
            self._walk(body.nodes, values, keep, {})
            outputs = [values[y.serial] for y in body.outputs]
            views = [self.memory.view(y) for y in outputs if isinstance(y, DeviceValue)]
            return tuple(view.copy() for view in views)
        finally:
            values.clear()


def _single(node: Tensor) -> Type:
    assert isinstance(node.type, Type), "several results where one is meant"
    return node.type


provide_engine("device", Device)
