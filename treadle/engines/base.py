"""What an engine has to do, and the engines by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from treadle.base.errors import OptionError
from treadle.base.options import current, register_engine
from treadle.base.options import engines as engine_names
from treadle.base.types import TupleType
from treadle.batch.columns import Columns, columns
from treadle.graph.outline import Outline, outline
from treadle.graph.references import in_place
from treadle.graph.resident import Future, InPlace
from treadle.graph.tensor import Tensor, makers
from treadle.graph.variable import Variable

Values = dict[int, Any]
MANY = 50_000  # nodes of a graph that takes seconds to compile
TINY = 256  # bytes of a node on average


@dataclass(frozen=True)
class Footprint:
    """Bytes a program takes: its arena, the most that is alive at once, its results.

    `scratch` is what its threads have beside the arena, and the `workspace` is both.
    Of the results those `in_place` are written over arguments if nobody else holds
    them. `constants` belong to the program; `packed` are weights in the form that
    kernels read, kept from run to run while they are the same and no limit forbids it.
    """

    arena: int
    largest_live_set: int
    results: int
    scratch: int = 0
    in_place: int = 0
    constants: int = 0
    packed: int = 0

    @property
    def workspace(self) -> int:
        """What `td.options(workspace=)` limits."""
        return self.arena + self.scratch


@dataclass(frozen=True)
class Stay:
    """Bytes of the arena that one value takes from one step to another.

    `holds` is the name of the value or of the op that makes it, `type` its type, and
    `line` the user's line.
    """

    bytes: int
    offset: int
    first: int
    last: int
    holds: str
    type: str
    line: str


@dataclass(frozen=True)
class Occupancy:
    """What lies in the arena of a program when: stays, and what each step does."""

    stays: tuple[Stay, ...] = ()
    steps: tuple[str, ...] = ()

    @cached_property
    def live(self) -> tuple[int, ...]:
        """The bytes that are alive in each step."""
        change = [0] * (len(self.steps) + 1)
        for stay in self.stays:
            change[stay.first] += stay.bytes
            change[stay.last + 1] -= stay.bytes
        return tuple(accumulate(change[:-1]))

    @property
    def fullest(self) -> int:
        """The number of the step in which the most is alive; 0 if there is none."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    def at(self, step: int) -> list[Stay]:
        """What is alive in a step, the largest first."""
        found = [s for s in self.stays if s.first <= step <= s.last]
        return sorted(found, key=lambda s: -s.bytes)


@dataclass(frozen=True)
class Piece:
    """An array of a program, for pictures: `block` tells which share memory.

    Those of the arena that begin at one `offset` have one block; `place` is that of the
    program's buffer, and others than "arena" have the block -1.
    """

    number: int
    type: str
    bytes: int
    place: str
    block: int = -1
    offset: int = 0


@dataclass(frozen=True)
class Outlined:
    """A step of a program, for pictures: what it reads and writes, by their numbers."""

    title: str
    lines: tuple[str, ...]
    read: tuple[int, ...]
    written: tuple[int, ...]


@dataclass(frozen=True)
class Lowered:
    """A graph at each level, as text that is written when it is first asked for.

    `steps` counts the program's steps; `fallbacks` lists the ops without kernels;
    `writers` make the texts by name, `placed` tells what lies in memory when.
    """

    graph: str
    memory: Footprint
    steps: int
    fallbacks: tuple[str, ...]
    writers: Mapping[str, Callable[[], str]] = field(repr=False)
    outline: Callable[[], tuple[list[Piece], list[Outlined]]] = field(repr=False)
    placed: Callable[[], Occupancy] = field(default=Occupancy, repr=False)

    @cached_property
    def occupancy(self) -> Occupancy:
        """What lies in the arena when."""
        return self.placed()

    @cached_property
    def kernels(self) -> str:
        """The loops of each distinct kernel."""
        return self.writers["kernels"]()

    @cached_property
    def program(self) -> str:
        """The buffers, and a line for each step."""
        return self.writers["program"]()

    @cached_property
    def llvm(self) -> str:
        """The kernels as LLVM IR."""
        return self.writers["llvm"]()

    @cached_property
    def asm(self) -> str:
        """The kernels as this machine's assembly."""
        return self.writers["asm"]()


@dataclass(frozen=True)
class CacheInfo:
    """What an engine keeps: programs by structure, kernels in memory and on disk.

    `hits` and `misses` count look-ups of programs since the process began, `compiled`
    and `from_disk` the kernels that were made and read.
    """

    programs: int = 0
    program_limit: int = 0
    program_bytes: int = 0
    hits: int = 0
    misses: int = 0
    kernels: int = 0
    kernel_bytes: int = 0
    compiled: int = 0
    from_disk: int = 0
    disk: str = ""
    disk_files: int = 0
    disk_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"programs: {self.programs} of at most {self.program_limit}, "
            f"{self.program_bytes:,} bytes, {self.hits:,} hits, "
            f"{self.misses:,} misses\n"
            f"kernels: {self.kernels:,} in memory, {self.kernel_bytes:,} bytes, "
            f"{self.compiled:,} compiled, {self.from_disk:,} read from disk"
        )


class Program(Protocol):
    """A compiled graph, to be run on other values."""

    def run(
        self, arrays: Sequence[np.ndarray[Any, Any]], spent: Set[int]
    ) -> dict[int, Any]:
        """The results by number; the arguments numbered in `spent` may be written."""

    def begin(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        spent: Set[int],
        over: InPlace | None = None,
    ) -> dict[int, Any]:
        """As `run`, which may go on beside the caller: then results are Futures. Those
        of arguments that are `over` what is spent are not among them.
        """


@dataclass(frozen=True)
class Found:
    """The program of a run, the nodes whose values it takes, and the number of each
    result by its serial. Arguments that are `reused` may serve as results of a number.

    Where a run raises `Failed`, the engine's `run` tells what is wrong.
    """

    program: Program
    arguments: Sequence[Tensor]
    results: Mapping[int, int]
    reused: Mapping[int, int]


class Failed(Exception):
    """A run could not go on; run node by node, it is told which node it was."""


class Engine:
    """Runs nodes in creation order; values are keyed by the serial of their node."""

    name = "abstract"
    device = "cpu"

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
    ) -> Values:
        """The values of the nodes in `keep`, and of what is worth keeping with them.

        A node has its value from `feeds`, else from itself if stored, else from its op.
        Values are arrays, or the engine's own Residents: those of other engines, and
        what the host has stored, an engine reads as `node.array`. What a call computed
        inside, by nodes of its body, has the complement of its serial. The values of
        the nodes in `spent` nobody else will look at again: an engine may write the
        Variable's next value into them.
        """
        raise NotImplementedError

    def begin(self, *given: Any) -> Values:
        """As `run` of these, which may go on beside the caller: Futures, then."""
        return self.run(*given)

    def program(self, nodes: Sequence[Tensor], keep: Set[int]) -> Found | None:
        """What `run` would run for these nodes; None where a run is more than that."""
        return None

    def columns(self, roots: Sequence[Tensor]) -> Columns:
        """The nodes below the roots with their fields side by side."""
        return columns(roots)

    def forget(self, nodes: list[Tensor]) -> None:
        """Empty a list of nodes in creation order: the newest goes first, so that none
        takes others along, and new ones find memory in order.
        """
        nodes.clear()

    def outline(self, roots: list[Tensor], most: int) -> Outline | None:
        """How the graph below some roots is built."""
        return outline(roots, most)

    def in_place(
        self,
        variables: Sequence[Variable],
        values: Sequence[Future],
        alone: bytes,
    ) -> bool:
        """As `references.in_place`."""
        return in_place(variables, values, alone)

    def rows(self, forest: Any, gradient: bool, taken: Sequence[Any]) -> Any:
        """The program of a forest, for gradients too; None where there is none. `taken`
        has the places of values that are wanted side by side.

        Its `run` takes arrays and raises Failed where a position is out of range: node
        by node it is told which it was.
        """
        return None

    def lower(self, nodes: Sequence[Tensor], keep: Set[int], graph: str) -> Lowered:
        """What the nodes in `keep` are compiled to; `graph` is their text.

        Placeholders need no value.
        """
        raise OptionError(f"engine {self.name!r} has no programs to look at")

    def latest(self) -> Lowered | None:
        """The program that ran last in this thread."""
        return None

    def recorded(self, run: Callable[[], object]) -> dict[bytes, bytes]:
        """Call `run`; the machine code, by key, of all it needs, as if nothing had run
        before. None where an engine has none."""
        run()
        return {}

    @classmethod
    def carry(cls, code: Mapping[bytes, bytes]) -> None:
        """Take machine code that `recorded` gave, in another process, as compiled."""

    def reserve(self, bytes: int) -> object:
        """Keep so much memory ready for runs, as long as what is returned lives.

        None where an engine plans no memory.
        """
        return None

    def cache_info(self, disk: bool = False) -> CacheInfo:
        """What is kept between runs; files on disk are counted where asked for."""
        return CacheInfo()

    def clear_cache(self, disk: bool = False) -> None:
        """Forget what is kept between runs, with `disk` also what is on disk."""


_engines: dict[str, Callable[[], Engine]] = {}
_made: dict[str, Engine] = {}
# Engines that are loaded when they are first asked for.
_modules = {
    "device": "treadle.engines.device.engine",
    "native": "treadle.engines.native.engine",
}
for _name in _modules:
    register_engine(_name)
# What makes nodes by machine code, where a graph is large before anything runs.
_QUICK = "treadle.engines.native.objects.provide"


def provide_engine(name: str, make: Callable[[], Engine]) -> None:
    """Register an engine under the name `td.options(engine=)` takes."""
    _engines[name] = make
    register_engine(name)


def chosen(name: str, nodes: Sequence[Tensor]) -> Engine:
    """The engine that runs a graph; "auto" decides by the graph alone.

    One of very many nodes with hardly any elements is done sooner than compiled.
    """
    if name != "auto" or len(nodes) < MANY:
        return engine(name)
    sizes = [n.type.nbytes for n in nodes if not isinstance(n.type, TupleType)]
    tiny = sum(sizes) < TINY * len(nodes)
    return engine("reference" if tiny else "native")


def engine(name: str) -> Engine:
    """The engine of a name; "auto" is the best there is."""
    if name == "auto":
        name = "native"
    if name not in _made:
        _made[name] = _maker(name)()
    return _made[name]


def carry(name: str, code: Mapping[bytes, bytes]) -> None:
    """Give an engine machine code, before it is made if it is not: that takes some."""
    make = _maker("native" if name == "auto" else name)
    if isinstance(make, type) and issubclass(make, Engine):
        make.carry(code)


def _maker(name: str) -> Callable[[], Engine]:
    if name in _modules and name not in _engines:
        importlib.import_module(_modules[name])
    if name not in _engines:
        raise OptionError(
            f"there is no engine {name!r}",
            hint=f"engines: {', '.join(engine_names())}",
        )
    return _engines[name]


def _quicken() -> None:
    """Let machine code make nodes, if that is what will run them."""
    if current().engine in ("auto", "native"):
        makers.quicken = lambda: None
        importlib.import_module(_QUICK).provide_nodes()


makers.quicken = _quicken
