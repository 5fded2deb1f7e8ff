"""Open dimensions of written files: what differs between graphs of several extents.

A graph is recorded for three extents of each open dimension. Where a number of a shape
is a n + b in all of them, the file computes it from the input; what differs in any
other way cannot be left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.extras import extra
from treadle.io.onnx.writer import Writer

Axes = dict[str, dict[int, str]]


def named(dynamic: Any, inputs: Sequence[str]) -> Axes:
    """The names of open dimensions, by input and axis; a list of axes is named here."""
    axes: Axes = {}
    for name, dims in dict(dynamic).items():
        if name not in inputs:
            raise ArgumentError(
                f"{name!r} is no input, which are {', '.join(inputs)}",
                hint='dynamic={"x": {0: "batch"}}, and inputs=["x"] names them',
            ).located("to_onnx")
        pairs = (
            dims.items()
            if isinstance(dims, Mapping)
            else [(k, f"{name}_{k}") for k in dims]
        )
        axes[name] = {
            int(k): d if isinstance(d, str) else getattr(d, "__name__", str(d))
            for k, d in pairs
        }
    return axes


def by_axis(shapes: Any, inputs: Sequence[str]) -> dict[str, dict[int, Any]]:
    """What torch's `dynamic_shapes` says, as `dynamic` does: dicts of axes, or an entry
    for each dimension, by input or in their order; None and numbers are closed.
    """
    if not isinstance(shapes, Mapping):
        if len(shapes) != len(inputs):
            raise ArgumentError(
                f"dynamic_shapes has {len(shapes)} entries for {len(inputs)} inputs"
            ).located("to_onnx")
        shapes = dict(zip(inputs, shapes, strict=True))
    chosen: dict[str, dict[int, Any]] = {}
    for name, dims in shapes.items():
        entries = dims.items() if isinstance(dims, Mapping) else enumerate(dims or ())
        for k, d in entries:
            hint = repr(getattr(d, "type", d))  # of torch's Dim.AUTO and its like
            if d is None or isinstance(d, int) or "STATIC" in hint:
                continue
            plain = isinstance(d, str) or hasattr(d, "__name__")
            chosen.setdefault(name, {})[int(k)] = d if plain else f"{name}_{k}"
    return chosen


def extents_of(
    axes: Axes, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, int, int]]:
    """Three extents of each open dimension, first its own if that is above 1."""
    extents: dict[str, int] = {}
    for name, dims in axes.items():
        for k, symbol in dims.items():
            if not -len(shapes[name]) <= k < len(shapes[name]):
                raise ArgumentError(
                    f"axis {k} is none of {name!r} with shape {shapes[name]}"
                ).located("to_onnx")
            n = shapes[name][k]
            if extents.setdefault(symbol, n) != n:
                raise ArgumentError(
                    f"{symbol!r} is {extents[symbol]} and {n} in the examples"
                ).located("to_onnx")
    first = {symbol: n if n > 1 else 2 for symbol, n in extents.items()}
    return {symbol: (n, 2 * n, 3 * n) for symbol, n in first.items()}


def shape_at(
    name: str, shape: tuple[int, ...], axes: Axes, at: Mapping[str, int]
) -> tuple[int, ...]:
    """The shape of an example with its open dimensions of other extents."""
    dims = list(shape)
    for k, symbol in axes.get(name, {}).items():
        dims[k] = at[symbol]
    return tuple(dims)


@dataclass(frozen=True)
class Line:
    """A number that grows with open dimensions: sum of slopes times extents, + base."""

    slopes: tuple[tuple[str, int], ...]
    base: int

    def __str__(self) -> str:
        terms = [s if k == 1 else f"{k}*{s}" for s, k in self.slopes]
        return " + ".join([*terms, *([str(self.base)] if self.base else [])])


class OpenExtents:
    """The extents that graphs are recorded for, and what numbers of them grow with."""

    def __init__(self, extents: Mapping[str, tuple[int, int, int]]) -> None:
        self.symbols, self.extents = list(extents), extents
        base = {symbol: n[0] for symbol, n in extents.items()}
        others = [{**base, s: n} for s, three in extents.items() for n in three[1:]]
        together = {symbol: n[1] for symbol, n in extents.items()}
        self.cases = [base, *others, *([together] if len(extents) > 1 else [])]

    def line(self, values: Sequence[int]) -> Line | int:
        """The number that is `values` in the graphs, or ValueError."""
        base, slopes = int(values[0]), []
        for k, symbol in enumerate(self.symbols):
            (a, b, c), (y, z) = self.extents[symbol], values[2 * k + 1 : 2 * k + 3]
            slope, rest = divmod(int(y) - int(values[0]), b - a)
            if rest or int(z) - int(y) != slope * (c - b):
                raise ValueError(f"{list(values)} does not grow evenly with {symbol!r}")
            if slope:
                slopes.append((symbol, slope))
                base -= slope * a
        if len(self.symbols) > 1:
            total = base + sum(k * self.extents[s][1] for s, k in slopes)
            if total != int(values[-1]):
                names = " and ".join(map(repr, self.symbols))
                raise ValueError(f"{list(values)} is no sum of multiples of {names}")
        return Line(tuple(slopes), base) if slopes else base

    def dims(self, shapes: Sequence[tuple[int, ...]]) -> list[int | str | None]:
        """The dimensions of a value: numbers, names, None where neither says it."""
        return [self._dim(column) for column in zip(*shapes, strict=True)]

    def _dim(self, values: Sequence[int]) -> int | str | None:
        try:
            line = self.line(values)
        except ValueError:  # half of an open dimension, say
            return None
        return line if isinstance(line, int) else str(line)


def join(
    graphs: OpenExtents,
    writers: Sequence[Writer],
    sources: Mapping[str, tuple[str, int]],
) -> None:
    """Make the nodes of the first writer hold for all extents.

    `sources` has the input and axis that each symbol is read from.
    """
    writer, lists = writers[0], [w.nodes for w in writers]
    if len({len(nodes) for nodes in lists}) > 1:
        raise ValueError("another extent of an open dimension has other nodes")
    writer.nodes = []
    sizes: dict[str, str] = {}
    others = {name for n in lists[0] if n.op_type != "Reshape" for name in n.input}
    for rows in zip(*lists, strict=True):
        first = rows[0]
        if all(row == first for row in rows[1:]):
            writer.nodes.append(first)
        elif all(row.op_type == "Constant" for row in rows):
            inferred = rows[0].output[0] not in others
            _constant(graphs, rows, sources, sizes, writer, inferred)
        else:
            raise ValueError(
                f"{first.op_type} {first.name!r} differs for another extent of an open "
                "dimension"
            )


def _constant(
    graphs: OpenExtents,
    rows: Sequence[Any],
    sources: Mapping[str, tuple[str, int]],
    sizes: dict[str, str],
    writer: Writer,
    inferred: bool,
) -> None:
    """A constant that grows: a shape, or one number in a growing shape.

    Where only a Reshape reads a shape, one number of it may be `inferred`.
    """
    helper = extra("onnx.numpy_helper", "onnx")
    arrays = [helper.to_array(row.attribute[0].t) for row in rows]
    (name,) = rows[0].output
    if len({row.output[0] for row in rows}) > 1 or len({a.dtype for a in arrays}) > 1:
        raise ValueError("another extent of an open dimension has other nodes")
    first = arrays[0]
    same = all(a.shape == first.shape for a in arrays)
    if same and first.dtype == np.int64 and first.ndim <= 1:
        values = zip(*(a.reshape(-1) for a in arrays), strict=True)
        lines = _lines(graphs, list(values), inferred and first.ndim == 1)
        shape = _shape(lines, sources, sizes, writer)
        kind, inputs = "Identity", [shape]
        if not first.ndim:
            kind, inputs = "Squeeze", [shape, writer.integers([0])]
    elif all(a.size and (a == first.flat[0]).all() for a in arrays):
        if len({a.ndim for a in arrays}) > 1:
            raise ValueError("a constant has other dimensions for another extent")
        shapes = [a.shape for a in arrays]
        lines = [graphs.line(column) for column in zip(*shapes, strict=True)]
        shape = _shape(lines, sources, sizes, writer)
        kind, inputs = "Expand", [writer.array(first.flat[0], first.dtype), shape]
    else:
        raise ValueError(f"a constant of {first.shape} depends on an open dimension")
    make = writer.onnx.helper.make_node
    writer.nodes.append(make(kind, inputs, [name], name=name))


def _lines(
    graphs: OpenExtents, columns: Sequence[Sequence[int]], inferred: bool
) -> list[Line | int]:
    """Each number of a shape; -1 for one that is a product, say, if that is allowed."""
    lines: list[Line | int] = []
    for column in columns:
        try:
            lines.append(graphs.line(column))
        except ValueError:
            if not inferred or -1 in lines:
                raise
            lines.append(-1)
    return lines


def _shape(
    lines: Sequence[Line | int],
    sources: Mapping[str, tuple[str, int]],
    sizes: dict[str, str],
    writer: Writer,
) -> str:
    """The list of numbers, of which some are computed from inputs."""
    parts = []
    for line in lines:
        if isinstance(line, int):
            parts.append(writer.integers([line]))
            continue
        total = ""
        for symbol, slope in line.slopes:
            if symbol not in sizes:
                name, axis = sources[symbol]
                sizes[symbol] = writer.add("Shape", name, start=axis, end=axis + 1)
            term = sizes[symbol]
            if slope != 1:
                term = writer.add("Mul", term, writer.integers([slope]))
            total = writer.add("Add", total, term) if total else term
        if line.base:
            total = writer.add("Add", total, writer.integers([line.base]))
        parts.append(total)
    return writer.add("Concat", *parts, axis=0) if len(parts) != 1 else parts[0]
