"""Boxes in layers: where each stands, so that edges are short and cross little.

Layers by the longest path, order within a layer by sweeps of barycenters (Sugiyama,
Tagawa and Toda, 1981). Long edges pass through every layer between as a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP_X, GAP_Y, HEIGHT = 26.0, 52.0, 40.0
SWEEPS, PULLS = 12, 30


@dataclass
class GraphLayout:
    """Centers of the boxes, the way of each edge, and the size of the whole."""

    x: list[float]
    y: list[float]
    routes: dict[tuple[int, int], list[tuple[float, float]]] = field(
        default_factory=dict
    )
    width: float = 0.0
    height: float = 0.0


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: its longest path from a source; edges go up in number."""
    level = [0] * count
    readers: list[list[int]] = [[] for _ in range(count)]
    for a, b in sorted(edges, key=lambda e: e[1]):
        level[b] = max(level[b], level[a] + 1)
        readers[a].append(b)
    # What reads little and is read often stands right before its first reader: a
    # weight and its transpose beside the product, not in the first layer.
    reads = [0] * count
    for _, b in set(edges):
        reads[b] += 1
    for a in reversed(range(count)):
        if readers[a] and reads[a] <= len(set(readers[a])):
            level[a] = min(level[b] for b in readers[a]) - 1
    return level


def place(
    widths: Sequence[float],
    edges: Sequence[tuple[int, int]],
    heights: Sequence[float] = (),
    levels: Sequence[int] | None = None,
) -> GraphLayout:
    """A layered layout of boxes of these sizes; an edge (a, b) has a < b.

    `levels` are the layers of the boxes where they are known, from the top.

    >>> layout = place([40.0, 40.0, 40.0], [(0, 2), (1, 2)])
    >>> layout.y[0] == layout.y[1] < layout.y[2], layout.x[0] < layout.x[1]
    (True, True)
    """
    level = layers_of(len(widths), edges) if levels is None else list(levels)
    width = list(widths)
    chains: dict[tuple[int, int], list[int]] = {}
    links: list[tuple[int, int]] = []
    for a, b in dict.fromkeys(edges):
        chain = [a]
        for between in range(level[a] + 1, level[b]):
            level.append(between)
            width.append(2.0)
            chain.append(len(width) - 1)
        chain.append(b)
        chains[a, b] = chain
        links += pairwise(chain)
    rows: list[list[int]] = [[] for _ in range(max(level, default=0) + 1)]
    for k, at in enumerate(level):
        rows[at].append(k)
    n = len(widths)
    _order(rows, links, len(width))
    x = _across(rows, _weighed(links, n, len(width)), width)
    middles, bottom = _down(rows, heights)
    y = [middles[at] for at in level]
    routes = {e: [(x[k], y[k]) for k in chain] for e, chain in chains.items()}
    right = max((x[k] + width[k] / 2 for k in range(len(width))), default=0.0)
    return GraphLayout(x[:n], y[:n], routes, right + GAP_X, bottom)


def _down(
    rows: Sequence[Sequence[int]], heights: Sequence[float]
) -> tuple[list[float], float]:
    """The middle of each row, as high as its highest box, and where the last ends."""
    middles, at = [], GAP_X
    for row in rows:
        boxes = [heights[k] for k in row if k < len(heights)]
        height = max(boxes, default=HEIGHT)
        middles.append(at + height / 2)
        at += height + GAP_Y
    return middles, at - GAP_Y + GAP_X


def _neighbors(
    links: Sequence[tuple[int, int]], count: int
) -> tuple[list[list[int]], list[list[int]]]:
    below: list[list[int]] = [[] for _ in range(count)]
    above: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        below[b].append(a)
        above[a].append(b)
    return below, above


def _order(rows: list[list[int]], links: Sequence[tuple[int, int]], count: int) -> None:
    """Sort each row by the mean place of the neighbors, up and down in turn."""
    below, above = _neighbors(links, count)
    at = [0.0] * count
    for row in rows:
        for k, box in enumerate(row):
            at[box] = float(k)
    for sweep in range(SWEEPS):
        upward = sweep % 2 == 0
        near = below if upward else above
        for row in rows if upward else rows[::-1]:
            for box in row:
                if near[box]:
                    at[box] = sum(at[n] for n in near[box]) / len(near[box])
            row.sort(key=lambda box: at[box])
            for k, box in enumerate(row):
                at[box] = float(k)


Near = list[list[tuple[int, float]]]


def _weighed(links: Sequence[tuple[int, int]], boxes: int, count: int) -> Near:
    """The neighbors of each point with their pull; long edges pull to be straight."""
    degree = [0] * count
    for link in links:
        for k in link:
            degree[k] += 1
    near: Near = [[] for _ in range(count)]
    for a, b in links:
        pull = (1.0, 2.0, 8.0)[(a >= boxes) + (b >= boxes)]
        # A box with one edge goes where its neighbor is, not the neighbor to it.
        near[a].append((b, pull if degree[b] > 1 else 0.1))
        near[b].append((a, pull if degree[a] > 1 else 0.1))
    return near


def _across(rows: list[list[int]], near: Near, width: list[float]) -> list[float]:
    """Horizontal centers: pulled toward the neighbors, kept apart in each row."""
    x = [0.0] * len(width)
    for row in rows:
        edge = 0.0
        for box in row:
            x[box] = edge + width[box] / 2
            edge += width[box] + GAP_X
    for sweep in range(PULLS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wished = {box: _wish(near[box], x, x[box]) for box in row}
            _spread(row, wished, width, x)
    left = min((x[k] - width[k] / 2 for k in range(len(width))), default=0.0)
    return [value - left + GAP_X for value in x]


def _wish(near: list[tuple[int, float]], x: list[float], default: float) -> float:
    weight = sum(pull for _, pull in near)
    return sum(x[n] * pull for n, pull in near) / weight if weight else default


def _spread(
    row: list[int], wished: dict[int, float], width: list[float], x: list[float]
) -> None:
    """Put a row's boxes at their wished places, pushed apart evenly both ways."""
    right = [wished[box] for box in row]
    for k in range(1, len(row)):
        apart = (width[row[k - 1]] + width[row[k]]) / 2 + GAP_X
        right[k] = max(right[k], right[k - 1] + apart)
    left = [wished[box] for box in row]
    for k in range(len(row) - 2, -1, -1):
        apart = (width[row[k]] + width[row[k + 1]]) / 2 + GAP_X
        left[k] = min(left[k], left[k + 1] - apart)
    for k, box in enumerate(row):
        x[box] = (right[k] + left[k]) / 2
