"""The GPU engine: graphs as programs on a device, whose values stay there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

import numpy as np

from treadle.base.caches import Cache
from treadle.base.errors import TreadleError, WorkspaceError
from treadle.base.options import current
from treadle.base.sizes import as_text
from treadle.base.types import Type
from treadle.engines.base import Engine, Values, engine, provide_engine
from treadle.engines.gpu.driver import DeviceDriver, UnsupportedKernelError
from treadle.engines.gpu.linked import Linked, PositionError
from treadle.engines.gpu.memory import GpuValue, Store
from treadle.engines.gpu.target import host_target, target_of
from treadle.engines.native.translation.keys import Structure, structure
from treadle.engines.native.translation.translate import translated
from treadle.graph.claim import Claim, running
from treadle.graph.resident import Resident
from treadle.graph.tensor import Tensor
from treadle.program.build import Draft

__all__ = ["Gpu", "provide"]

PROGRAMS = 256


class Gpu(Engine):
    """Runs each graph as one program on a device; values come home when looked at."""

    def __init__(self, driver: DeviceDriver) -> None:
        self.name = driver.device.api
        self.device = str(driver.device)
        self.driver = driver
        self.target = target_of(driver)
        self.store = Store(driver, self._forget)
        self.programs: Cache[Any, tuple[Linked, list[int]]]
        self.programs = Cache(f"programs on {self.device}", PROGRAMS)
        # Copies of what the host has stored, by the serial of the node it belongs to.
        self._leaves: dict[int, tuple[weakref.ref[Tensor], GpuValue]] = {}

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
        claim: Claim | None = None,
    ) -> Values:
        made = structure(nodes, feeds, keep)
        key = made.key(keep, current().compilation)
        linked, places = self._program(key, made, feeds, keep)
        leaves = [made.nodes[k] for k in places]
        for leaf in leaves:  # what others hold, before this one is locked
            if isinstance(leaf.stored, Resident) and not self._holds(leaf.stored):
                leaf.stored.numpy()
        free = {k for k, leaf in enumerate(leaves) if leaf.serial in spent}
        with running(claim), self.store.lock:
            values = [self._begin(leaf, feeds) for leaf in leaves]
            for k in free:
                self._leaves.pop(leaves[k].serial, None)
            try:
                found = linked.run(values, free)
            except PositionError:
                # The reference engine tells which position of which node it was.
                engine("reference").run(nodes, feeds, keep)
                raise
            finally:
                values.clear()
        return {made.nodes[k].serial: value for k, value in found.items()}

    def _program(
        self,
        key: Any,
        made: Structure,
        feeds: Mapping[int, Any],
        keep: Set[int],
    ) -> tuple[Linked, list[int]]:
        found = self.programs.get(key)
        if found is None:
            given = made.nodes, feeds, keep, made.place, frozenset[int](), made.recipes
            try:
                linked, graph = translated(*given, self._chosen, self.target)
            except UnsupportedKernelError:
                target = host_target(self.driver)
                linked, graph = translated(*given, self._chosen, target)
            places = [made.place[x.serial] for x in graph.leaves]
            found = self.programs[key] = linked, places
        return found

    def _chosen(self, drafts: Iterator[Draft]) -> Linked:
        """The first of ever smaller programs that fits in the workspace."""
        limit, least = current().workspace, 0
        for draft in drafts:
            linked = Linked(draft.build(), self.store)
            if not limit or linked.workspace <= limit:
                return linked
            least = min(least or linked.workspace, linked.workspace)
        error = WorkspaceError(
            f"the graph does not run in a workspace of {limit:,} bytes "
            f"({as_text(limit)}) on {self.device}: it needs {least:,}",
            hint=f"td.options(workspace={least}) would do, or smaller batches",
        )
        error.needed = least
        raise error

    # -- what a run starts from --------------------------------------------------------

    def _holds(self, stored: Any) -> bool:
        return isinstance(stored, GpuValue) and stored.store is self.store

    def _begin(self, node: Tensor, feeds: Mapping[int, Any]) -> GpuValue:
        """The value of a leaf, on the device."""
        try:
            if node.serial in feeds:
                array = np.asarray(feeds[node.serial])
                return self.store.copy_in(array, _single(node), array)
            return self._stored(node)
        except TreadleError as error:
            raise error.located(node.op.name, repr(node.type), node.line) from None

    def _stored(self, node: Tensor) -> GpuValue:
        """The stored value of a node, copied in if it never was."""
        stored: Any = node.stored
        if self._holds(stored):
            found: GpuValue = stored
            return found
        known = self._leaves.get(node.serial)
        if known is not None:
            return known[1]
        array = node.array
        assert array is not None
        value: GpuValue = self.store.copy_in(array, _single(node), array)
        drop = partial(self._leaves.pop, node.serial)
        self._leaves[node.serial] = weakref.ref(node, drop), value
        return value

    def _forget(self) -> None:
        """Let go of all that the host has as well."""
        self._leaves.clear()


def _single(node: Tensor) -> Type:
    assert isinstance(node.type, Type), "several results where one is meant"
    return node.type


def provide(name: str, make: Callable[[], DeviceDriver]) -> None:
    """Register an engine with the driver that `make` gives when it is asked for."""
    provide_engine(name, lambda: Gpu(make()))
