"""Minimum cuts of networks, by Dinic's algorithm ("Algorithm for solution of a problem
of maximum flow in networks with power estimation", 1970), without recursion.
"""

from __future__ import annotations

ENDLESS = 1 << 62  # the capacity of what no cut may part


class Network:
    """Points 0 (the source), 1 (the sink) and more, joined by edges with capacities."""

    def __init__(self) -> None:
        self.edges: list[list[int]] = [[], []]  # of each point, by number
        self.end: list[int] = []  # edge k ^ 1 is edge k in reverse
        self.residual: list[int] = []

    def point(self) -> int:
        """A new point."""
        self.edges.append([])
        return len(self.edges) - 1

    def join(self, a: int, b: int, capacity: int) -> int:
        """An edge from a to b; its number."""
        self.edges[a].append(len(self.end))
        self.edges[b].append(len(self.end) + 1)
        self.end += (b, a)
        self.residual += (capacity, 0)
        return len(self.end) - 2

    def cut(self) -> set[int]:
        """The points on the source's side of a minimum cut, the fewest there are.

        What flows by then goes on flowing: after edges have got more room, a cut is
        found from where the last one was.
        """
        while level := self._levels():
            self._fill(level)
        reached = {0}
        row = [0]
        for p in row:
            for k in self.edges[p]:
                q = self.end[k]
                if self.residual[k] and q not in reached:
                    reached.add(q)
                    row.append(q)
        return reached

    def _levels(self) -> list[int]:
        """How many edges with room lead from each point to the sink, of those no
        further than the source (-1: the others); nothing if none lead from there."""
        end, residual, edges = self.end, self.residual, self.edges
        level = [-1] * len(edges)
        level[1] = 0
        row = [1]
        for q in row:
            above = level[q] + 1
            for k in edges[q]:
                p = end[k]
                if residual[k ^ 1] and level[p] < 0:
                    level[p] = above
                    if not p:
                        return level
                    row.append(p)
        return []

    def _fill(self, level: list[int]) -> None:
        """Push all flow there is along edges that lead one level on to the sink."""
        end, residual, edges = self.end, self.residual, self.edges
        untried = [0] * len(edges)
        path: list[int] = []
        p = 0
        while True:
            if p == 1:
                flow = min(residual[k] for k in path)
                first = len(path)
                for at in range(len(path) - 1, -1, -1):
                    residual[path[at]] -= flow
                    residual[path[at] ^ 1] += flow
                    if not residual[path[at]]:
                        first = at
                p = end[path[first] ^ 1]
                del path[first:]
                continue
            below = level[p] - 1
            while untried[p] < len(edges[p]):
                k = edges[p][untried[p]]
                if residual[k] and level[end[k]] == below:
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
