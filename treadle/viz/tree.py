"""The nodes of a graph in groups within groups: what a page shows open or closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby

MOST = 48  # members of a group, above which neighbors share another one
FEWEST = 24  # members of a group of neighbors


@dataclass
class NodeGroup:
    """Neighbors of a graph under one name: groups, and nodes by their numbers."""

    name: str
    members: list[NodeGroup | int] = field(default_factory=list)


def contiguous(
    inputs: Sequence[Sequence[int]], paths: Sequence[tuple[str, ...]]
) -> list[int]:
    """Nodes, by their numbers, in a topological order with long runs of one path.

    Next is always the first ready node of the innermost group possible.

    >>> contiguous([[], [0], [], [2]], [("a",), ("b",), ("a",), ("b",)])
    [0, 2, 1, 3]
    """
    readers: list[list[int]] = [[] for _ in inputs]
    waits = [len(set(xs)) for xs in inputs]
    ready: dict[tuple[str, ...], list[int]] = {}

    def push(k: int) -> None:
        for depth in range(len(paths[k]) + 1):
            heappush(ready.setdefault(paths[k][:depth], []), k)

    for k, xs in enumerate(inputs):
        for x in set(xs):
            readers[x].append(k)
        if not xs:
            push(k)
    order: list[int] = []
    done = [False] * len(inputs)
    path: tuple[str, ...] = ()
    while len(order) < len(inputs):
        queue = ready.get(path, [])
        while queue and done[queue[0]]:
            heappop(queue)
        if not queue:
            path = path[:-1]
            continue
        k = heappop(queue)
        done[k], path = True, paths[k]
        order.append(k)
        for reader in readers[k]:
            waits[reader] -= 1
            if not waits[reader]:
                push(reader)
    return order


def grouped(paths: Sequence[Sequence[str]], lines: Sequence[str]) -> NodeGroup:
    """The tree of nodes in topological order: by their paths, name by name.

    A group is a run of neighbors, so groups never depend on each other in a cycle.
    Members beyond `MOST` are joined by line or, where that is no help, by number.

    >>> tree = grouped([("a", "x"), ("a", "x"), ("a",), ()], [""] * 4)
    >>> tree.members
    [NodeGroup(name='a', members=[NodeGroup(name='x', members=[0, 1]), 2]), 3]
    """
    members = _runs(range(len(paths)), paths, lines, 0)
    while len(members) == 1 and isinstance(members[0], NodeGroup):
        members = members[0].members  # of a group around everything
    return NodeGroup("", _packed(members, lines))


def _runs(
    numbers: Sequence[int],
    paths: Sequence[Sequence[str]],
    lines: Sequence[str],
    depth: int,
) -> list[NodeGroup | int]:
    """Runs of nodes with one name at a depth of their paths."""
    runs: list[NodeGroup | int] = []
    for name, run in groupby(numbers, lambda k: "".join(paths[k][depth : depth + 1])):
        nodes = list(run)
        if not name or len(nodes) == 1:
            runs += nodes
            continue
        inner = _runs(nodes, paths, lines, depth + 1)
        if len(inner) == 1 and isinstance(inner[0], NodeGroup):
            inner[0].name = f"{name}.{inner[0].name}"
            runs.append(inner[0])
        else:
            runs.append(NodeGroup(name, _packed(inner, lines)))
    return _numbered(runs)


def _numbered(members: list[NodeGroup | int]) -> list[NodeGroup | int]:
    """Members whose groups of one name, such as calls of one layer, are numbered."""
    groups = [member for member in members if isinstance(member, NodeGroup)]
    total = Counter(group.name for group in groups)
    seen: Counter[str] = Counter()
    for group in groups:
        name = group.name
        seen[name] += 1
        if total[name] > 1:
            group.name = f"{name} ({seen[name]})"
    return members


def _packed(
    members: list[NodeGroup | int], lines: Sequence[str]
) -> list[NodeGroup | int]:
    """At most `MOST` members: more are joined with their neighbors."""
    if len(members) <= MOST:
        return members
    runs = [
        list(run) for _, run in groupby(members, lambda m: lines[_first(m)] or "...")
    ]
    if len(runs) == 1 or 4 * len(runs) > len(members):
        size = max(FEWEST, -(-len(members) // MOST))
        runs = [members[k : k + size] for k in range(0, len(members), size)]
    joined: list[NodeGroup | int] = []
    for run in runs:
        if len(run) == 1:
            joined += run
        else:
            joined.append(NodeGroup(_span(run, lines), _packed(run, lines)))
    return _packed(_numbered(joined), lines)


def _span(run: Sequence[NodeGroup | int], lines: Sequence[str]) -> str:
    """The common name of neighbors: the first and last name of a group or line."""
    if isinstance(run[0], NodeGroup) and isinstance(run[-1], NodeGroup):
        names = [run[0].name, run[-1].name]
    else:
        known = {lines[_first(m)] for m in run} - {""}
        ordered = sorted(known, key=lambda line: (len(line), line))
        names = [*ordered[:1], *ordered[-1:]]
    return " \N{HORIZONTAL ELLIPSIS} ".join(dict.fromkeys(names)) or "..."


def _first(member: NodeGroup | int) -> int:
    """The number of the first node in a member."""
    while isinstance(member, NodeGroup):
        member = member.members[0]
    return member
