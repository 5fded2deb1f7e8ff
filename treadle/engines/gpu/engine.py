"""The GPU engine: graphs as programs on a device, whose values stay there."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from treadle.base.caches import Cache
from treadle.base.dtypes import OWN, kind
from treadle.base.errors import TreadleError
from treadle.base.options import current
from treadle.base.types import TupleType, Type
from treadle.batch.forest import Forest
from treadle.engines.base import (
    Engine,
    Failed,
    Found,
    PositionError,
    Values,
    engine,
    nothing,
    provide_devices,
)
from treadle.engines.gpu.bodies import DeviceBodies
from treadle.engines.gpu.driver import DeviceDriver, UnsupportedKernelError
from treadle.engines.gpu.forest import DeviceForest
from treadle.engines.gpu.linked import DeviceLinked
from treadle.engines.gpu.memory import DeviceBlocks, GpuValue
from treadle.engines.lowered import CacheInfo, Footprint, Lowered
from treadle.engines.native.forest.program import adds_up
from treadle.engines.native.translation.keys import Structure, structure
from treadle.engines.native.translation.translate import Target, supported, translated
from treadle.engines.native.translation.workspace import fitting
from treadle.engines.outline import lowered
from treadle.graph.claim import Claim, InPlace
from treadle.graph.leaves import Unbound
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.loops.lower import wide
from treadle.ops.contract import Contract
from treadle.ops.families import Reduction
from treadle.program.program import Program

PROGRAMS = 256


class KeptProgram:
    """A program for runs that come again, as long as the engine keeps it."""

    def __init__(self, gpu: Gpu, key: Any) -> None:
        self._gpu, self._key = gpu, key

    def small(self) -> Any:
        return None

    def run(
        self,
        arrays: Sequence[Any],
        spent: Set[int],
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        known = self._gpu.programs.get(self._key)
        if known is None:
            raise Failed
        return self._gpu.carry_out(known[0], arrays, spent, claim)

    begin = run  # a device goes on beside the caller whenever it can


class Gpu(Engine):
    """Runs each graph as one program on a device; values come home when looked at."""

    plans = True

    def __init__(self, driver: DeviceDriver) -> None:
        self.name = driver.device.api
        self.device = driver.device.name
        self.driver = driver
        self.target = target_of(driver)
        self.store = DeviceBlocks(driver, self._forget)
        self.programs: Cache[Any, tuple[DeviceLinked, list[int]]]
        self.programs = Cache(f"programs on {driver.device}", PROGRAMS)
        self._bodies = DeviceBodies(self.store, self.target)
        # Copies of what the host has stored, by the serial of the node it belongs to.
        self._leaves: dict[int, tuple[weakref.ref[Tensor], GpuValue]] = {}
        self._thread = threading.local()  # the program that ran last in each

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
        claim: Claim | None = None,
    ) -> Values:
        graph = structure(nodes, feeds, keep)
        linked, places = self._kept(self._key(graph, keep), graph, feeds, keep)
        leaves = [graph.nodes[k] for k in places]
        free = {k for k, leaf in enumerate(leaves) if leaf.serial in spent}
        values = [self._begin(leaf, feeds) for leaf in leaves]
        claim = claim.keyed(graph.place) if claim and free else None
        try:
            results = self.carry_out(linked, values, free, claim)
        except PositionError:
            # The reference engine tells which position of which node it was.
            engine("reference").run(nodes, feeds, keep)
            raise
        return {graph.nodes[k].serial: value for k, value in results.items()}

    def program(self, nodes: Sequence[Tensor], keep: Set[int]) -> Found:
        graph = structure(nodes, {}, keep)
        key = self._key(graph, keep)
        linked, places = self._kept(key, graph, {}, keep)
        program = linked.program
        numbers = {n: k for k, n, _ in program.results}
        over = {argument: numbers[n] for n, argument in program.shared if n in numbers}
        return Found(
            KeptProgram(self, key),
            [graph.nodes[k] for k in places],
            {serial: graph.place[serial] for serial in keep},
            {k: over[n] for k, n in enumerate(program.arguments) if n in over},
            as_argument=self.as_argument,
        )

    def carry_out(
        self,
        linked: DeviceLinked,
        values: Sequence[Any],
        free: Set[int],
        claim: Claim | None,
    ) -> dict[int, Any]:
        """The results of a program by number; others see what it writes over `free`
        arguments, of which a `claim` is told, when all of it has been launched.
        """
        self._thread.latest = linked
        over = list[bool]()
        running = claim.running(lambda: bool(over)) if claim else nullcontext()
        free = {k for k in free if not values[k].remembered}
        with running, self.store.lock:
            results = linked.run(values, free)
            if claim is not None:
                claim.expect(results)
            over.append(True)
        return results

    def as_argument(self, value: Any, node: Tensor | None) -> GpuValue:
        """A value on the device: its own, or a copy of what the host or another engine
        has, which is remembered as long as its node lives.
        """
        if isinstance(value, GpuValue) and value.store is self.store:
            return value
        if node is not None and node.stored is value:
            return self._copied(node)
        array = value.numpy() if isinstance(value, Resident) else np.asarray(value)
        return self.store.copy_in(array, Type(array.shape, OWN[array.dtype]))

    @property
    def has_rows(self) -> bool:
        return bool(self.driver.device.dtypes)

    def rows(
        self, forest: Forest, gradient: bool, taken: Sequence[Any]
    ) -> DeviceForest | None:
        if gradient and not adds_up(forest):
            return None
        return DeviceForest(forest, gradient, taken, self._bodies, self.as_argument)

    # -- programs ----------------------------------------------------------------------

    def _key(self, graph: Structure, keep: Set[int]) -> Any:
        return graph.key(keep, current().compilation)

    def _kept(
        self,
        key: Any,
        graph: Structure,
        feeds: Mapping[int, Any],
        keep: Set[int],
    ) -> tuple[DeviceLinked, list[int]]:
        """A program, and the places of its arguments in a graph."""
        entry = self.programs.get(key)
        if entry is None:
            entry = self.programs[key] = self._made(graph, feeds, keep)
        return entry

    def _made(
        self, structured: Structure, feeds: Mapping[int, Any], keep: Set[int]
    ) -> tuple[DeviceLinked, list[int]]:
        arguments = (
            structured.nodes,
            feeds,
            keep,
            structured.place,
            frozenset[int](),
            structured.recipes,
        )
        choose = partial(fitting, sized=self._sized)
        try:
            linked, graph = translated(*arguments, choose, self.target)
        except UnsupportedKernelError:
            by_numpy = target_of(self.driver, by_numpy=True)
            linked, graph = translated(*arguments, choose, by_numpy)
        return linked, [structured.place[x.serial] for x in graph.leaves]

    def _sized(self, program: Program) -> tuple[DeviceLinked, int]:
        """A program that is linked, and the bytes that it needs."""
        linked = DeviceLinked(program, self.store)
        return linked, linked.arena

    def lower(self, nodes: Sequence[Tensor], keep: Set[int], graph: str) -> Lowered:
        feeds = {n.serial: nothing(n.type) for n in nodes if isinstance(n.op, Unbound)}
        linked, _ = self._made(structure(nodes, feeds, keep), feeds, keep)
        return _lowered(linked, graph)

    def latest(self) -> Lowered | None:
        latest = getattr(self._thread, "latest", None)
        return None if latest is None else _lowered(latest, "")

    def cache_info(self, disk: bool = False) -> CacheInfo:
        info = super().cache_info(disk)
        return replace(info, programs=len(self.programs), program_limit=PROGRAMS)

    # -- what a run starts from --------------------------------------------------------

    def _begin(self, node: Tensor, feeds: Mapping[int, Any]) -> GpuValue:
        """The value of a leaf, on the device."""
        try:
            if node.serial in feeds:
                array = np.asarray(feeds[node.serial])
                return self.store.copy_in(array, _single(node), array)
            return self.as_argument(node.stored, node)
        except TreadleError as error:
            raise error.located(node.op.name, repr(node.type), node.line) from None

    def _copied(self, node: Tensor) -> GpuValue:
        """The value of a node that lies elsewhere, copied in if it never was."""
        known = self._leaves.get(node.serial)
        if known is not None:
            return known[1]
        array = node.array
        assert array is not None
        value: GpuValue = self.store.copy_in(array, _single(node), array)
        value.remembered = True
        drop = partial(self._leaves.pop, node.serial)
        self._leaves[node.serial] = weakref.ref(node, drop), value
        return value

    def _forget(self) -> None:
        """Let go of all that the host has as well."""
        self._leaves.clear()


def _lowered(linked: DeviceLinked, graph: str) -> Lowered:
    """The levels of a linked program; its kernels as the device's compiler reads them
    stand for LLVM IR and assembly."""
    program, driver = linked.program, linked.store.driver
    buffers = program.buffers
    footprint = Footprint(
        arena=linked.arena,
        largest_live_set=linked.lives.bound,
        results=sum(b.type.nbytes for b in buffers if b.place == "result"),
        in_place=sum(buffers[n].type.nbytes for n, _ in program.shared),
        constants=sum(x.nbytes for _, x in program.constants),
    )

    def texts() -> str:
        return "\n\n".join(map(driver.text, dict.fromkeys(linked.works())))

    return lowered(linked, graph, footprint, texts, texts)


def _single(node: Tensor) -> Type:
    assert isinstance(node.type, Type), "several results where one is meant"
    return node.type


def provide(name: str, make: Callable[[int], DeviceDriver]) -> None:
    """Register an engine with the driver of a device by its number, which `make` gives
    when it is asked for."""
    provide_devices(name, lambda number: Gpu(make(number)))


def target_of(driver: DeviceDriver, by_numpy: bool = False) -> Target:
    """The target of a driver's device; of graphs of which a kernel is not supported all
    steps are `by_numpy`."""
    device = driver.device

    def computes(node: Tensor) -> bool:
        """Return True if kernels of the device can compute a node."""
        if isinstance(node.op, Contract) and kind(node.type.dtype) != "float":
            return False
        dtypes = [d for x in (node, *node.inputs) for d in dtypes_of(x)]
        if isinstance(node.op, Reduction):
            dtypes += [wide(d) for d in dtypes_of(node)]
        return not by_numpy and all(d.name in device.dtypes for d in dtypes)

    return Target(
        (device.api, device.name, by_numpy),
        device.vector_bytes,
        lambda node: supported(node) and computes(node),
        computes,
    )


def dtypes_of(node: Tensor) -> list[Any]:
    """The dtypes of a node's values."""
    types = node.type if isinstance(node.type, TupleType) else (node.type,)
    return [t.dtype for t in types]
