"""Reports of engines about programs: levels, memory, pictures, caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from treadle.base.caches import lazy


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
        """The bytes that `td.options(workspace=)` limits."""
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
    """The occupancy of an arena over time: stays, and what each step does."""

    stays: tuple[Stay, ...] = ()
    steps: tuple[str, ...] = ()

    @lazy
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
        """The ranges alive in a step, the largest first."""
        stays = [s for s in self.stays if s.first <= step <= s.last]
        return sorted(stays, key=lambda s: -s.bytes)


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
class Served:
    """The programs that serve graphs like one, whatever their sizes.

    `guards` has what must hold for the one that serves this, and the lines that decide
    by it; `failed` why a program could not be compiled for many sizes.
    """

    programs: int
    guards: tuple[tuple[str, str], ...]
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.programs} programs for many sizes"]
        if self.guards:
            lines[0] += "; of the one for these"
        lines += [f"  {guard}    {line}" for guard, line in self.guards]
        return "\n".join([*lines, *(f"  failed: {x}" for x in self.failed)])


@dataclass(frozen=True)
class Lowered:
    """A graph at each level, as text that is written when it is first asked for.

    `steps` counts the program's steps; `fallbacks` lists the ops without kernels;
    `writers` make the texts by name, `placed` tells what lies in memory when, `served`
    which programs there are for graphs like it.
    """

    graph: str
    memory: Footprint
    steps: int
    fallbacks: tuple[str, ...]
    writers: Mapping[str, Callable[[], str]] = field(repr=False)
    outline: Callable[[], tuple[list[Piece], list[Outlined]]] = field(repr=False)
    placed: Callable[[], Occupancy] = field(default=Occupancy, repr=False)
    served: Served | None = None  # if graphs like this have been run

    @lazy
    def occupancy(self) -> Occupancy:
        """The occupancy of the arena by step."""
        return self.placed()

    @lazy
    def kernels(self) -> str:
        """The loops of each distinct kernel."""
        return self.writers["kernels"]()

    @lazy
    def program(self) -> str:
        """The buffers, and a line for each step."""
        return self.writers["program"]()

    @lazy
    def llvm(self) -> str:
        """The kernels as LLVM IR; on a device, as its driver compiles them."""
        return self.writers["llvm"]()

    @lazy
    def asm(self) -> str:
        """The kernels as this machine's assembly; on a device, as its driver compiles
        them: OpenCL C, WGSL or PTX."""
        return self.writers["asm"]()


@dataclass(frozen=True)
class CacheInfo:
    """Counts of an engine's caches: programs, kernels in memory and on disk.

    `hits` and `misses` count look-ups of programs since the process began, `compiled`
    and `from_disk` the kernels that were made and read. `tables` has the name of every
    other cache of the process, how many entries it has, and how many at most.
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
    tables: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        return (
            f"programs: {self.programs} of at most {self.program_limit}, "
            f"{self.program_bytes:,} bytes, {self.hits:,} hits, "
            f"{self.misses:,} misses\n"
            f"kernels: {self.kernels:,} in memory, {self.kernel_bytes:,} bytes, "
            f"{self.compiled:,} compiled, {self.from_disk:,} read from disk\n"
            f"other: {sum(n for _, n, _ in self.tables):,} entries in "
            f"{len(self.tables):,} tables"
        )
