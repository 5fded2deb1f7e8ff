"""Minimum cuts of networks, by Dinic's algorithm ("Algorithm for solution of a problem
of maximum flow in networks with power estimation", 1970), without recursion.
"""

from __future__ import annotations

__all__ = ["ENDLESS", "Network"]

ENDLESS = 1 << 62  # the capacity of what no cut may part


class Network:
    """Points 0 (the source), 1 (the sink) and more, joined by edges with capacities."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]  # of each point, by number
        self.end: list[int] = []  # edge k ^ 1 is edge k in reverse
        self.room: list[int] = []

    def point(self) -> int:
        """A new point."""
        self.edges.append([])
        return len(self.edges) - 1

    def join(self, a: int, b: int, capacity: int) -> None:
        """An edge from a to b."""
        self.edges[a].append(len(self.end))
        self.edges[b].append(len(self.end) + 1)
        self.end += (b, a)
        self.room += (capacity, 0)

    def cut(self) -> set[int]:
        """The points on the source's side of a minimum cut."""
        while True:
            level = self._levels()
            if level[1] < 0:
                return {p for p, depth in enumerate(level) if depth >= 0}
            self._fill(level)

    def _levels(self) -> list[int]:
        """How many edges with room lead from the source to each point; -1: none do."""
        level = [-1] * len(self.edges)
        level[0] = 0
        row = [0]
        for p in row:
            for k in self.edges[p]:
                q = self.end[k]
                if self.room[k] and level[q] < 0:
                    level[q] = level[p] + 1
                    row.append(q)
        return level

    def _fill(self, level: list[int]) -> None:
        """Push all flow there is along edges that lead one level on."""
        end, room, edges = self.end, self.room, self.edges
        untried = [0] * len(edges)
        path: list[int] = []
        p = 0
        while True:
            if p == 1:
                flow = min(room[k] for k in path)
                first = len(path)
                for at in range(len(path) - 1, -1, -1):
                    room[path[at]] -= flow
                    room[path[at] ^ 1] += flow
                    if not room[path[at]]:
                        first = at
                p = end[path[first] ^ 1]
                del path[first:]
                continue
            while untried[p] < len(edges[p]):
                k = edges[p][untried[p]]
                if room[k] and level[end[k]] == level[p] + 1:
                    break
                untried[p] += 1
            else:
                if not path:
                    return
                p = end[path.pop() ^ 1]
                untried[p] += 1
                continue
            path.append(k)
            p = end[k]
