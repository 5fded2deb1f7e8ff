"""The memory of a run before it runs: what it takes, and what takes the most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from treadle.autodiff.live import endangered
from treadle.base import trees
from treadle.base.errors import ArgumentError, WorkspaceError
from treadle.base.notebook import table
from treadle.base.options import current, options
from treadle.base.sizes import as_text
from treadle.engines.base import engine
from treadle.engines.lowered import Lowered, Occupancy, Stay
from treadle.graph.frame import top
from treadle.graph.leaves import LITERAL, as_tensor
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Placeholder, Variable, variable_of
from treadle.runtime.computation import Computation
from treadle.runtime.evaluate import work

__all__ = ["Memory", "fits", "memory"]

NAMED = 8  # of the largest values, in a table
BARS = 24  # lines of a timeline


class Stepping(Protocol):
    """The protocol of optimizers that announce the nodes of a step."""

    def planned(self, loss: Any = None) -> list[Tensor]: ...
    def states(self) -> list[Variable]: ...


@dataclass(frozen=True)
class Memory:
    """The bytes that a run takes.

    `workspace`, what `td.options(workspace=)` limits, is `planned` memory of values and
    gradients and the `scratch` of threads. Beside it lie `parameters`,
    `optimizer_state`, other `variables`, `inputs`, `constants` of the program, weights
    kept `packed` from run to run, and `results` that are not written over the Variables
    they are new versions of.

    `steps` counts the program's steps, `fullest` is the number of the one that needs
    the most and `holders` what lies there then, the largest first; `occupancy` has all
    that lies there at any time.
    """

    planned: int
    scratch: int
    parameters: int
    optimizer_state: int
    variables: int
    inputs: int
    constants: int
    packed: int
    results: int
    occupancy: Occupancy = field(repr=False)

    @property
    def workspace(self) -> int:
        """Values, gradients and scratch."""
        return self.planned + self.scratch

    @property
    def total(self) -> int:
        """All of it together."""
        beside = self.parameters + self.optimizer_state + self.variables + self.inputs
        return self.workspace + beside + self.constants + self.packed + self.results

    @property
    def steps(self) -> int:
        """The number of steps of the program."""
        return len(self.occupancy.steps)

    @property
    def fullest(self) -> int:
        """The number of the step that needs the most."""
        return self.occupancy.fullest

    @property
    def holders(self) -> tuple[Stay, ...]:
        """The buffers live at the step of peak memory, the largest first."""
        return tuple(self.occupancy.at(self.fullest))

    def rows(self) -> dict[str, int]:
        """The parts by their names, as a table shows them."""
        every = {
            "values and gradients": self.planned,
            "scratch": self.scratch,
            "workspace": self.workspace,
            "parameters": self.parameters,
            "optimizer state": self.optimizer_state,
            "other variables": self.variables,
            "inputs": self.inputs,
            "constants": self.constants,
            "packed weights": self.packed,
            "results": self.results,
        }
        always = ("workspace", "parameters", "inputs", "results")
        kept = {k: n for k, n in every.items() if n or k in always}
        return {**kept, "total": self.total}

    def __str__(self) -> str:
        lines = [
            f"{name:22}{count:>16,}  {as_text(count):>9}"
            for name, count in self.rows().items()
        ]
        if not self.holders:
            return "\n".join(lines)
        title = self.occupancy.steps[self.fullest]
        lines.append(f"fullest at step {self.fullest} of {self.steps}: {title}")
        for stay in self.holders[:NAMED]:
            words = " ".join(word for word in (stay.type, stay.holds) if word)
            where = f"  {stay.line}" if stay.line else ""
            lines.append(f"{stay.bytes:>16,}  {words}{where}")
        more = len(self.holders) - NAMED
        return "\n".join([*lines, f"{'':16}  and {more} more"] if more > 0 else lines)

    def timeline(self, width: int = 40) -> str:
        """The bytes alive from step to step, as bars; a bar is the most of its steps.

        >>> x = td.zeros((256,))
        >>> y = td.softmax(td.cumulative_sum(td.sin(x)) @ td.zeros((256, 64)))
        >>> print(td.memory(y).timeline(8).splitlines()[0].split()[:2])
        ['step', 'bytes']
        """
        live = self.occupancy.live
        each = -(-len(live) // BARS) or 1
        highest = max(live, default=0) or 1
        lines = ["   step            bytes"]
        for k in range(0, len(live), each):
            most = max(live[k : k + each])
            bar = "#" * round(width * most / highest)
            lines.append(f"{k:>7} {most:>16,} {bar}".rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(k, f"{n:,}", as_text(n)) for k, n in self.rows().items()]
        parts = table(rows, ("memory", "bytes", ""), right=[1, 2])
        held = [(f"{s.bytes:,}", s.type, s.holds, s.line) for s in self.holders[:NAMED]]
        title = f"largest at step {self.fullest} of {self.steps}"
        head = ("bytes", "type", "of", "line")
        return parts + (table(held, head, right=[0], caption=title) if held else "")

    def __repr__(self) -> str:
        return (
            f"<memory: workspace {as_text(self.workspace)}, total "
            f"{as_text(self.total)}; print it>"
        )


def memory(*tensors: Any, optimizer: Stepping | None = None) -> Memory:
    """The memory that running tensors (or trees of them) takes; nothing runs.

    With an `optimizer` it is that of its `step` on the loss that is given. Placeholders
    need no value, so no data is needed; a computation is as it is when it is called.
    What else you hold of the graph is computed and kept, as in the run: hold the same.
    Under `td.options(workspace=)` it is the memory with values computed again; raises
    WorkspaceError if that is not enough.

    >>> x, w = td.placeholder((64, 256)), td.param("w", (256, 10))
    >>> report = td.memory(td.softmax(x @ w))
    >>> report.parameters, report.inputs, report.results
    (10240, 65536, 2560)
    >>> step = td.memory(td.sum(td.tanh(x @ w)), optimizer=td.optim.Adam())
    >>> step.optimizer_state > 2 * step.parameters
    True
    """
    lowered, nodes = _lowered(tensors, optimizer)
    states = [] if optimizer is None else optimizer.states()
    sizes = {"parameters": 0, "optimizer_state": 0, "variables": 0, "inputs": 0}
    for kind, size in _leaves(nodes, {id(v) for v in states}):
        sizes[kind] += size
    taken = lowered.memory
    return Memory(
        planned=taken.arena,
        scratch=taken.scratch,
        constants=taken.constants,
        packed=taken.packed,
        results=taken.results - taken.in_place,
        occupancy=lowered.occupancy,
        **sizes,
    )


def fits(
    *tensors: Any,
    workspace: int | str | None = None,
    optimizer: Stepping | None = None,
    recompute: bool = True,
) -> bool:
    """Return True if running tensors needs no more than a workspace; nothing runs.

    The workspace is that of the options if none is given. Without `recompute` it has to
    do with no value computed again.

    >>> x = td.zeros((64, 256))
    >>> y = td.cumulative_sum(x @ td.zeros((256, 256)), axis=0)
    >>> td.fits(y, workspace="1 MB"), td.fits(y, workspace="1 kB")
    (True, False)
    """
    limit = bounded(workspace)
    with options(workspace=limit if recompute else 0):
        try:
            lowered, _ = _lowered(tensors, optimizer)
        except WorkspaceError:
            return False
    return lowered.memory.workspace <= limit


def bounded(workspace: int | str | None) -> int:
    """The bytes of a limit that is given, or of the options."""
    if workspace is None:
        limit = current().workspace
    else:
        with options(workspace=workspace) as chosen:
            limit = chosen.workspace
    if not limit:
        raise ArgumentError(
            "there is no limit to fit in",
            hint='give workspace="1 GB", or use it under td.options(workspace=...)',
        )
    return limit


def _lowered(
    tensors: Any, optimizer: Stepping | None
) -> tuple[Lowered, Sequence[Tensor]]:
    """The program of a run, and the nodes that the run would visit."""
    if optimizer is None:
        wanted = _roots(tensors)
    elif len(tensors) > 1:
        raise ArgumentError("an optimizer steps on one loss")
    else:
        wanted = optimizer.planned(*tensors)
        wanted += endangered(wanted)
    wanted += top().pending
    nodes, keep = work(wanted)
    return engine(current().engine).lower(nodes, keep, ""), nodes


def _roots(tensors: Any) -> list[Tensor]:
    """The roots of a request; of computations those of a call."""
    roots: list[Tensor] = []
    for leaf in trees.flatten(tensors)[0]:
        if isinstance(leaf, Computation):
            outputs, versions = leaf.graph()
            roots += [*outputs, *versions.values()]
        else:
            roots.append(as_tensor(leaf))
    return roots


def _leaves(nodes: Sequence[Tensor], states: Set[int]) -> Iterator[tuple[str, int]]:
    """The leaves that a run reads, each once: name and bytes."""
    seen: set[int] = set()
    for node in nodes:
        if node.op is LITERAL or (node.inputs and node.stored is None):
            continue
        variable = variable_of(node)
        key = node.serial if variable is None else id(variable)
        if key in seen:
            continue
        seen.add(key)
        kind = "inputs"
        if variable is not None and not isinstance(variable, Placeholder):
            kind = "parameters" if variable.trainable else "variables"
        yield "optimizer_state" if key in states else kind, node.type.nbytes
