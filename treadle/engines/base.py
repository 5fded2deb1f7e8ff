"""The contract of an engine, and the engines by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from treadle.base.caches import clear, tables
from treadle.base.errors import OptionError
from treadle.base.locks import imported, importing, is_mine
from treadle.base.options import Modes, register_engine
from treadle.base.options import engines as engine_names
from treadle.base.types import TupleType, Type
from treadle.core import native
from treadle.graph.claim import Claim, InPlace
from treadle.graph.tensor import Tensor

if TYPE_CHECKING:
    from treadle.engines.lowered import CacheInfo, Lowered

Values = dict[int, Any]
MANY = 50_000  # nodes of a graph that takes seconds to compile
TINY = 256  # bytes of a node on average


class CompiledProgram(Protocol):
    """A compiled graph, to be run on other values."""

    def small(self) -> Any:
        """As the core runs it while it holds Python's lock; None of a large one."""

    def run(
        self,
        arrays: Sequence[Any],
        spent: Set[int],
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        """The results by number; the arguments numbered in `spent` may be written, of
        which a `claim` is told. They may be `held` in their place: what is written
        there is not among the results.
        """

    def begin(
        self,
        arrays: Sequence[Any],
        spent: Set[int],
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        """As `run`, which may go on beside the caller: then results are Futures."""


@dataclass(frozen=True)
class Found:
    """The program of a run, the nodes whose values it takes, and the number of each
    result by its serial. Arguments that are `reused` may serve as results of a number.

    Where a run raises `Failed`, the engine's `run` tells what is wrong. It does not if
    all integers of the arguments in `needs` are below the number given there; None says
    nothing. Arguments are what `as_argument` makes of a value and the node that has it,
    for an engine with a memory of its own, or else arrays. It gives nodes `more`
    values, for gradients to come, as long as that is `still` wanted; values are `noted`
    to be made by a key, with the numbers of nodes by serial, and those that were given.
    """

    program: CompiledProgram
    arguments: Sequence[Tensor]
    results: Mapping[int, int]
    reused: Mapping[int, int]
    needs: Sequence[tuple[int, int]] | None = None
    more: Sequence[int] = ()
    noted: tuple[Any, Mapping[int, int], Any] | None = None
    still: Callable[[], bool] | None = None
    as_argument: Callable[[Any, Tensor | None], Any] | None = None


class Failed(Exception):
    """A run could not go on; run node by node, it is told which node it was."""


class PositionError(Failed):
    """A position read from data was out of range; the reference engine says which."""


def nothing(type_: Type) -> np.ndarray[Any, Any]:
    """Stands for the value of a placeholder where nothing runs."""
    return np.broadcast_to(np.zeros((), type_.dtype), type_.shape)


def are_below(array: np.ndarray[Any, Any], extent: int) -> bool:
    """Whether all integers of an array lie in 0 .. extent - 1."""
    if not array.size:
        return True
    if array.dtype.kind not in "iu":
        return False
    if array.size <= 64:  # NumPy takes longer to begin with
        numbers = array.ravel().tolist()
        return min(numbers) >= 0 and max(numbers) < extent
    return bool(array.min() >= 0 and array.max() < extent)


class Engine:
    """Runs nodes in creation order; values are keyed by the serial of their node."""

    name = "abstract"
    device = "cpu"
    plans = False  # whether runs that come again may follow plans, by `program`

    def run(
        self,
        nodes: Sequence[Tensor],
        feeds: Mapping[int, Any],
        keep: Set[int],
        spent: Set[int] = frozenset(),
        claim: Claim | None = None,
    ) -> Values:
        """The values of the nodes in `keep`, and of what is worth keeping with them.

        A node has its value from `feeds`, else from itself if stored, else from its op.
        Values are arrays, or the engine's own Residents: those of other engines, and
        what the host has stored, an engine reads as `node.array`. What a call computed
        inside, by nodes of its body, has the complement of its serial. The values of
        the nodes in `spent` nobody else will look at again: an engine may write the
        Variable's next value into them, and tells the `claim` when it does.
        """
        raise NotImplementedError

    def begin(self, *arguments: Any, sure: bool = False) -> Values:
        """As `run` of these, which may go on beside the caller: Futures, then; if it is
        to be `sure`, only where nothing can be found wrong any more.
        """
        return self.run(*arguments)

    def program(self, nodes: Sequence[Tensor], keep: Set[int]) -> Found | None:
        """The program that `run` would run for these nodes; None where it is more."""
        return None

    def at_once(
        self,
        plan: Any,
        nodes: Sequence[Any],
        others: list[int] | None,
        last: CompiledProgram | None,
        updates: Sequence[Any] = (),
    ) -> list[Any] | None:
        """What small programs make of a graph, by the core's plan of them, which gives
        it to nodes and Variables, and carries out `updates`, a frame and what was
        assigned in it; None where not all is plain. Nodes that are read may be arrays.
        `others` counts, by place, the references that a run leaves to its nodes. Raises
        Failed.
        """
        return None

    def small(self) -> Any:
        """The pool that the core runs small plans on, as `at_once` does, under the
        options of this task; None where it does not."""
        return None

    def followed(self, last: CompiledProgram | None) -> None:
        """Know that the core has run a plan, of which this was the last program."""

    def derived(self, nodes: Sequence[Tensor]) -> None:
        """Keep on what is kept for gradients of these: one was computed."""

    def beside(self) -> bool:
        """Whether what is begun goes on beside the caller."""
        return False

    @property
    def has_rows(self) -> bool:
        """Whether graphs may run as rows, by `rows`."""
        return False

    def rows(self, forest: Any, gradient: bool, taken: Sequence[Any]) -> Any:
        """The program of a forest, for gradients too; None where there is none. `taken`
        has the places of values that are wanted side by side.

        Its `costs` are counted before it is compiled, to tell whether it pays; it may
        not be `possible`. Its `run` takes arrays, or what `as_leaf` and `as_argument`
        make of values, and raises Failed where a position is out of range: node by node
        it is told which it was.
        """
        return None

    def lower(self, nodes: Sequence[Tensor], keep: Set[int], graph: str) -> Lowered:
        """The program that the nodes in `keep` are compiled to; `graph` is their text.

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
        info: CacheInfo = imported("treadle.engines.lowered").CacheInfo(tables=tables())
        return info

    def clear_cache(self, disk: bool = False) -> None:
        """Forget what is kept between runs, with `disk` also what is on disk."""
        clear()


_engines: dict[str, Callable[[], Engine]] = {}
_numbered: dict[str, Callable[[int], Engine]] = {}  # by the number of the device
_made: dict[str, Engine] = {}  # by each name that was asked for
# Engines that are loaded when they are first asked for.
_modules = {
    "cuda": "treadle.engines.gpu.devices",
    "device": "treadle.engines.gpu.devices",
    "native": "treadle.engines.native.engine",
    "opencl": "treadle.engines.gpu.devices",
    "webgpu": "treadle.engines.gpu.devices",
}
for _name in _modules:
    register_engine(_name, numbered=_name != "native")


def provide_engine(name: str, make: Callable[[], Engine]) -> None:
    """Register an engine under the name `td.options(engine=)` takes."""
    _engines[name] = make
    _numbered.pop(name, None)  # one of that name before
    before = _made.get(name)
    for other in [x for x, made in _made.items() if made is before]:
        del _made[other]
    register_engine(name)


def provide_devices(name: str, make: Callable[[int], Engine]) -> None:
    """Register an engine for each of several devices: "opencl" is the one with number
    0, "opencl:1" the next."""
    _numbered[name] = make
    for other in [x for x in _made if x.partition(":")[0] == name]:
        del _made[other]
    register_engine(name, numbered=True)


def chosen(name: str, nodes: Sequence[Tensor]) -> Engine:
    """The engine that runs a graph; "auto" decides by the graph alone.

    One of very many nodes with hardly any elements is done sooner than compiled.
    """
    if name != "auto" or len(nodes) < MANY:
        return engine(name)
    sizes = [n.type.nbytes for n in nodes if not isinstance(n.type, TupleType)]
    tiny = sum(sizes) < TINY * len(nodes)
    return engine("reference" if tiny else "native")


_ALIASES = {"auto": "native"}
# What an engine has of a recording, for what runs inside it: that follows no plan.
of_recording: ContextVar[Any] = ContextVar("of_recording", default=None)


def runner(now: Modes) -> tuple[Engine, bool, Any]:
    """The engine of some modes, whether its runs follow plans, and the pool that the
    core runs small ones on."""
    chosen = engine(now.options.engine)
    return chosen, chosen.plans, chosen.small()


if native is not None:
    native.bind_runner(runner, _made, Modes)


def engine(name: str) -> Engine:
    """The engine of a name, with ":" and the number of a device if that is not the
    first; "auto" is the best there is."""
    known = _made.get(name)
    if known is not None:
        return known
    alias = _ALIASES.get(name, name).removesuffix(":0")
    if alias not in _made:
        if alias != "reference" and _is_importing(alias):
            return engine("reference")
        _made.setdefault(alias, _maker(alias)())
    return _made.setdefault(name, _made[alias])


def _is_importing(name: str) -> bool:
    """Whether this thread is in the midst of importing an engine's module: a signal
    handler asks, which no other engine can wait for."""
    module = sys.modules.get(_modules.get(name.partition(":")[0], ""))
    spec = getattr(module, "__spec__", None)
    return is_mine(importing) and bool(getattr(spec, "_initializing", False))


def carry(name: str, code: Mapping[bytes, bytes]) -> None:
    """Give an engine machine code, before it is made if it is not: that takes some."""
    make = _maker(_ALIASES.get(name, name))
    if isinstance(make, type) and issubclass(make, Engine):
        make.carry(code)


def _maker(name: str) -> Callable[[], Engine]:
    api, _, number = name.partition(":")
    if api in _modules and api not in _engines and api not in _numbered:
        imported(_modules[api])
    if api in _numbered and (number.isdecimal() or api == name):
        return partial(_numbered[api], int(number or 0))
    if name not in _engines:
        raise OptionError(
            f"there is no engine {name!r}",
            hint=f"engines: {', '.join(engine_names())}",
        )
    return _engines[name]
