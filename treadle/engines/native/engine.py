"""The native engine: graphs compiled to programs of machine code, kept by structure."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from treadle.base.allocate import headroom
from treadle.base.caches import tables
from treadle.base.collector import CollectorPaused
from treadle.base.errors import OutOfMemoryError
from treadle.base.events import watchers
from treadle.base.options import current
from treadle.base.types import TupleType
from treadle.batch.forest import Forest
from treadle.core import native
from treadle.engines.base import (
    CompiledProgram,
    Engine,
    Failed,
    Found,
    PositionError,
    Values,
    engine,
    nothing,
    of_recording,
    provide_engine,
)
from treadle.engines.early import announced
from treadle.engines.lowered import CacheInfo, Lowered
from treadle.engines.native.codegen import jit
from treadle.engines.native.codegen.cache import disk_cache
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.pool import pool
from treadle.engines.native.execution.run import beside, memory_of
from treadle.engines.native.execution.small import small_pool
from treadle.engines.native.execution.timing import first_lines
from treadle.engines.native.forest.program import adds_up
from treadle.engines.native.forest.tape import Runnable
from treadle.engines.native.look import lowered
from treadle.engines.native.system.host import host
from treadle.engines.native.translation.families import Making, Translated
from treadle.engines.native.translation.keys import structure
from treadle.engines.native.translation.known import CachedProgram
from treadle.engines.native.translation.programs import Programs
from treadle.engines.native.translation.residuals import (
    MadeBy,
    Residuals,
    gathered,
    known,
)
from treadle.engines.native.translation.stored import Stored
from treadle.engines.native.translation.translate import translated
from treadle.engines.native.translation.wanted import ChangedError, Wanted
from treadle.engines.native.translation.workspace import abreast, fitting
from treadle.graph.claim import Claim
from treadle.graph.extents import family
from treadle.graph.leaves import Unbound
from treadle.graph.resident import Future, Resident, array_of
from treadle.graph.tensor import Tensor
from treadle.ops.call import place_inside
from treadle.program.build import Draft
from treadle.rewrite.record import recording


class Native(Engine):
    """Runs each graph as one program of compiled kernels on planned memory."""

    name = "native"
    plans = True

    def __init__(self) -> None:
        self._thread = threading.local()
        self._kept = Programs(), Residuals()

    @property
    def programs(self) -> Programs:
        """The compiled programs."""
        programs: Programs = (of_recording.get() or self._kept)[0]
        return programs

    @property
    def residuals(self) -> Residuals:
        """The nodes that programs keep for gradients."""
        residuals: Residuals = (of_recording.get() or self._kept)[1]
        return residuals

    def run(self, *arguments: Any, **settings: Any) -> Values:
        while True:  # a part that another thread has computed is none the next time
            with suppress(ChangedError):
                return self._run(*arguments, **settings)

    def _run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
        claim: Claim | None = None,
        *,
        begin: bool = False,
        sure: bool = False,
    ) -> Values:
        graph = structure(nodes, feeds, keep)
        options = _settings()
        full_key = key = graph.key(keep, *options)
        made_by = MadeBy(key)
        self.residuals.note(made_by, graph, keep)
        more, fresh = self.residuals.kept(made_by, graph)
        beside = [*fresh, *known(graph)]
        if beside:
            more |= {x.serial for one in fresh for x in one.nodes}
            nodes = [*nodes, *(x for one in beside for x in one.all())]
            graph = structure(nodes, feeds, keep | more)
        more -= keep
        if more or beside:
            loose = sorted(graph.place[s] for s in more)
            full_key = graph.key(keep | more, *options, *loose)
        linked, leaves = self.programs.get(
            full_key, lambda: self._linked(full_key, Wanted(graph, feeds, keep, more))
        )
        self.residuals.ask(graph, linked.again, linked.inside)
        order = graph.nodes
        self._thread.latest = linked
        begin = not announced(graph.place) and begin
        if sure and begin:
            begin = linked.finds_nothing_wrong([order[k].stored for k in leaves])
        arrays = []
        for k in leaves:
            node = order[k]
            stored = node.stored
            if isinstance(stored, Resident) and type(stored) is not Future:
                spent = spent - {node.serial}  # its copy at home may have readers
            arrays.append(feeds.get(node.serial, array_of(node, begin)))
        try:
            free = {k for k, n in enumerate(leaves) if order[n].serial in spent}
            origins = linked.lines.items() if watchers else ()
            lines = {key: order[k].origin for key, k in origins}
            claim = claim.keyed(graph.place) if claim and free else None
            if begin:
                results = linked.begin(arrays, free, claim=claim)
            else:
                results = linked.run(arrays, free, lines, claim=claim)
        except OutOfMemoryError as error:
            raise linked.lined(error, order) from error.__cause__
        except PositionError:
            # The reference engine tells which position of which node it was.
            engine("reference").run(nodes, feeds, keep)
            raise
        values: Values = {order[k].serial: array for k, array in results.items()}
        gathered(values, fresh)
        return values

    def begin(self, *arguments: Any, sure: bool = False) -> Values:
        return self.run(*arguments, begin=True, sure=sure)

    def program(self, nodes: Sequence[Tensor], keep: Set[int]) -> Found | None:
        graph = structure(nodes, {}, keep)
        key = graph.key(keep, *_settings())
        made_by = MadeBy(key)
        more, beside = self.residuals.kept(made_by, graph)
        if beside or known(graph):
            return None
        still = self.residuals.wanted(made_by)
        noted = made_by, graph.place, graph.leaves
        more -= keep
        if more:
            loose = sorted(graph.place[s] for s in more)
            key = graph.key(keep | more, *_settings(), *loose)
        make = partial(self._linked, key, Wanted(graph, {}, keep, more))
        try:
            linked, leaves = self.programs.peek(key) or self.programs.get(key, make)
        except ChangedError:
            return None
        order = graph.nodes
        numbers = {s: graph.place[s] for s in keep | more}
        over = {argument: result for result, argument in linked.interface.shared}
        results = {n: number for number, n, _ in linked.interface.results}
        arguments = enumerate(linked.interface.arguments)
        reused = {k: results[over[n]] for k, n in arguments if over.get(n) in results}
        program = CachedProgram(self, key, leaves)
        leaf_nodes = [order[k] for k in leaves]
        tell = sorted(more), noted, still
        return Found(program, leaf_nodes, numbers, reused, linked.needs, *tell)

    def known(self, key: tuple[int, ...], leaves: list[int]) -> Linked | None:
        """A program while it is kept, for the thread that is about to run it."""
        entry = self.programs.find(key)
        if entry is None or entry[1] is not leaves:
            return None
        self._thread.latest = entry[0]
        return entry[0]

    def ran(self, linked: Linked) -> None:
        """Note which program this thread is about to run."""
        self.programs.hits += 1
        self._thread.latest = linked

    def at_once(
        self, plan: Any, nodes: Any, others: Any, last: Any, updates: Sequence[Any] = ()
    ) -> list[Any] | None:
        threads = small_pool()
        if threads is None:
            return None
        results: Any = native.run(plan, nodes, others, threads.entry(), *updates)
        if results == ():
            raise Failed
        self.followed(last)
        return results

    def small(self) -> Any:
        return small_pool()

    def followed(self, last: CompiledProgram | None) -> None:
        self._kept[0].hits += 1  # a recording follows no plans
        if last is not None:
            self._thread.latest = last

    def derived(self, nodes: Sequence[Tensor]) -> None:
        self.residuals.renew(nodes)

    def beside(self) -> bool:
        return beside()

    @property
    def has_rows(self) -> bool:
        return True

    def rows(
        self, forest: Forest, gradient: bool, taken: Sequence[Any]
    ) -> Runnable | None:
        if gradient and not adds_up(forest):
            return None
        return Runnable(forest, gradient, taken)

    def lower(self, nodes: Sequence[Tensor], keep: Set[int], graph: str) -> Lowered:
        feeds = {n.serial: nothing(n.type) for n in nodes if isinstance(n.op, Unbound)}
        structured = structure(nodes, feeds, keep)
        linked, _ = self._compile(Wanted(structured, feeds, keep))
        if recording() is not None:
            linked.link()
        open_graph = family(structured.key(keep, *_settings()), structured.nodes)
        served = (
            None if open_graph is None else self.programs.families.served(open_graph)
        )
        return replace(lowered(linked, graph), served=served)

    def latest(self) -> Lowered | None:
        linked = self.latest_linked()
        return None if linked is None else lowered(linked, "")

    def latest_linked(self) -> Linked | None:
        """The program that ran last in this thread, if it is kept."""
        latest = getattr(self._thread, "latest", None)
        return latest.linked() if isinstance(latest, CachedProgram) else latest

    def recorded(self, run: Callable[[], object]) -> dict[bytes, bytes]:
        before = of_recording.set((Programs(), Residuals()))
        try:
            with jit.recording() as objects:
                run()
        finally:
            of_recording.reset(before)
        return objects

    @classmethod
    def carry(cls, code: Mapping[bytes, bytes]) -> None:
        jit.carry(code)

    def reserve(self, bytes: int) -> object:
        return memory_of(current().arena).arena.pool.reserve(bytes)

    def cache_info(self, disk: bool = False) -> CacheInfo:
        stats, kept = jit.stats(), disk_cache()
        files, size = kept.count() if disk and kept is not None else (0, 0)
        programs = self.programs
        return CacheInfo(
            programs=len(programs),
            program_limit=programs.limit,
            program_bytes=programs.bytes,
            hits=programs.hits,
            misses=programs.misses,
            kernels=stats.functions,
            kernel_bytes=stats.bytes,
            compiled=stats.compiled,
            from_disk=stats.from_disk,
            disk=kept.path if kept is not None else "",
            disk_files=files,
            disk_bytes=size,
            tables=tables(),
        )

    def clear_cache(self, disk: bool = False) -> None:
        super().clear_cache(disk)
        self.programs.clear()
        jit.clear()
        kept = disk_cache() if disk else None
        if kept is not None:
            kept.clear()

    def _linked(self, key: tuple[int, ...], wanted: Wanted) -> tuple[Linked, list[int]]:
        """A program that can run, and the places of its leaves."""
        headroom()
        wanted = wanted.frozen()
        for serial in wanted.keep:
            node = wanted.structure.nodes[wanted.structure.place[serial]]
            types = node.type if isinstance(node.type, TupleType) else (node.type,)
            if sum(t.nbytes for t in types) > sys.maxsize:
                error = OutOfMemoryError(f"no memory holds a result of {node.type!r}")
                raise error.located(node.name, "", node.line)
        with CollectorPaused():
            linked, leaves = self._sized(key, wanted)
        linked.lines = first_lines(wanted.structure.nodes)
        linked.link()
        return linked, leaves

    def _sized(self, key: tuple[int, ...], wanted: Wanted) -> tuple[Linked, list[int]]:
        """A program by what is known of other extents; else it is compiled."""
        open_graph, now = None, current()
        if recording() is None and not (now.check or now.workspace):
            open_graph = family(key, wanted.structure.nodes)
        if open_graph is None:
            return self._compile(wanted)

        def traced(extents: Iterable[Any]) -> Translated | None:
            resized = wanted.resized(extents)
            if resized is None:
                return None
            return self._translated(resized, lambda x: next(x).build())

        stored = [Stored(x, wanted.structure) for x in (key, open_graph[0])]
        making = Making(traced, partial(self._compile, wanted), _lanes(), *stored)
        return self.programs.families.program(open_graph, making)

    def _compile(self, wanted: Wanted) -> tuple[Linked, list[int]]:
        """The program of `_linked`, not compiled."""
        choose = partial(fitting, sized=partial(abreast, lanes=_lanes()))
        translation = self._translated(wanted, choose)
        linked: Linked = translation.program
        linked.again, linked.inside = translation.again, translation.inside
        return linked, translation.leaves

    def _translated(
        self, wanted: Wanted, choose: Callable[[Iterator[Draft]], Any]
    ) -> Translated:
        """The draft that is chosen for a graph, translated."""
        structured, place = wanted.structure, wanted.structure.place
        arguments = (
            structured.nodes,
            wanted.feeds,
            wanted.keep,
            place,
            wanted.more,
            structured.recipes,
        )
        chosen, graph = translated(*arguments, choose)
        again = [place[x.serial] for x in graph.again]
        inside = [
            (place[call.serial], place_inside(call, x), x.type.nbytes)
            for call, x in graph.once_more
        ]
        leaves = [place[x.serial] for x in graph.leaves]
        return Translated(chosen, leaves, again, tuple(inside))


def _settings() -> tuple[Any, ...]:
    """The settings that decide beside a graph what its program is."""
    return current().compilation, host()


def _lanes() -> int:
    """The lanes of a program, whatever the threads of a run: it serves others too."""
    return max(2, pool().threads)


provide_engine("native", Native)
