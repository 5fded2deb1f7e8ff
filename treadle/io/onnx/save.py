"""Computations as ONNX files, for whatever else runs them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.dtypes import bfloat16
from treadle.base.errors import ArgumentError, ModelFileError
from treadle.base.extras import extra
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.variable import Placeholder
from treadle.io.files import PathLike, guarded, write_atomically
from treadle.io.onnx import exports_elements, exports_structure
from treadle.io.onnx.dynamic import (
    Axes,
    OpenExtents,
    by_axis,
    extents_of,
    join,
    named,
    shape_at,
)
from treadle.io.onnx.file import BUFFERS, CODES, MAX_FILE
from treadle.io.onnx.writer import LAST, OPSET, Writer
from treadle.runtime.computation import Computation
from treadle.runtime.evaluate import run

_IR = {OPSET: 9, LAST: 11}  # the versions of the format that have these ops
_TABLES = (exports_elements, exports_structure)  # each fills EXPORTS


def to_onnx(
    what: Any,
    path: PathLike,
    *examples: Any,
    inputs: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
    dynamic: Mapping[str, Any] | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
) -> None:
    """Write a computation as an ONNX file, or a network or function with examples.

    Placeholders become inputs by their names, Variables weights by theirs. For a
    network or function, inputs are of the shapes and dtypes of the examples and have
    the names `inputs`, or "x0", "x1", ... Shapes are those of the examples but for the
    dimensions that `dynamic` names, by input and axis; `dynamic_axes` and
    `dynamic_shapes` are what torch's two exporters call it. The file is checked by onnx
    and written whole or not at all. Raises ModelFileError with all ops that ONNX has no
    way to say, or with what keeps a dimension from being open.

    >>> import tempfile
    >>> net = td.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.to_onnx(net, f"{folder}/m.onnx", td.ones((4, 3)))
    ...     again = td.from_onnx(f"{folder}/m.onnx")
    >>> again.inputs[0].name, again.inputs[0].shape
    ('x0', (4, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     open_ = {"x0": {0: "batch"}}
    ...     td.to_onnx(net, f"{folder}/m.onnx", td.ones((4, 3)), dynamic=open_)
    ...     td.from_onnx(f"{folder}/m.onnx").inputs[0].shape
    ('batch', 3)
    """
    names = _names(what, examples, inputs)
    open_ = dynamic if dynamic is not None else dynamic_axes
    if open_ is None and dynamic_shapes is not None:
        open_ = by_axis(dynamic_shapes, names)
    types = {n: as_tensor(x).type for n, x in zip(names, examples, strict=True)}
    axes = named(open_ or {}, names)
    if axes:
        _refuse_axes(types)
    graphs = OpenExtents(extents_of(axes, {n: t.shape for n, t in types.items()}))
    computations = [_computation(what, types, axes, at) for at in graphs.cases]
    _refuse_state(computations[0])
    place = os.fspath(path)
    with guarded(place, ModelFileError):
        recorded = [
            _recorded(c, bool(axes), k == 0) for k, c in enumerate(computations)
        ]
        if axes:
            sources = {
                symbol: (name, k % len(types[name].shape))
                for name, dims in axes.items()
                for k, symbol in dims.items()
            }
            join(graphs, [r.writer for r in recorded], sources)
        raw = _file(recorded, graphs, dict(metadata or {}))
        write_atomically(path, raw)


def _refuse_state(what: Computation) -> None:
    """A file has no state that a run could change."""
    names = [v.name for v in what.changed if v is not None]
    if names:
        raise ArgumentError(
            f"it changes {', '.join(names[:3])}, and an ONNX file has no state",
            hint="export what does not train: net.eval()",
        ).located("to_onnx")


def _names(
    what: Any, examples: tuple[Any, ...], inputs: Sequence[str] | None
) -> list[str]:
    """The names of the inputs that examples are of."""
    if isinstance(what, Computation):
        if examples or inputs:
            raise ArgumentError(
                "a computation has placeholders and takes no examples"
            ).located("to_onnx")
        return []
    if not callable(what):
        raise ArgumentError(
            f"takes a computation, a network or a function, not {type(what).__name__}",
            hint="td.to_onnx(td.computation(y, x), path) or td.to_onnx(net, path, x)",
        ).located("to_onnx")
    names = [f"x{k}" for k in range(len(examples))] if inputs is None else inputs
    if len(names) != len(examples) or isinstance(names, str):
        raise ArgumentError(
            f"{len(examples)} examples and {len(names)} names of inputs",
            hint='td.to_onnx(net, path, x, inputs=["x"])',
        ).located("to_onnx")
    return list(names)


def _refuse_axes(types: Mapping[str, Type]) -> None:
    """A named axis has one length: it cannot be of an open dimension."""
    for name, t in types.items():
        if t.axes:
            raise ArgumentError(
                f"{name!r} has named axes, whose lengths are fixed",
                hint="td.unname(x) takes the names off",
            ).located("to_onnx")


def _computation(
    what: Any, types: Mapping[str, Type], axes: Axes, at: Mapping[str, int]
) -> Computation:
    """What is to be written, with a placeholder for each example."""
    if isinstance(what, Computation):
        return what
    run([])  # what was assigned before is of the state, not of the network
    placeholders = [
        Placeholder(shape_at(name, t.shape, axes, at), t.dtype, name=name, axes=t.axes)
        for name, t in types.items()
    ]
    return Computation(what(*placeholders), *placeholders)


@dataclass(frozen=True)
class Recorded:
    """The nodes of a computation, and the names of its inputs, weights and outputs."""

    what: Computation
    writer: Writer
    outputs: list[str]
    buffers: list[str]


def _recorded(what: Computation, varies: bool, weights: bool) -> Recorded:
    """The nodes of a computation, with its weights if they are asked for."""
    names = {id(p): p.name for p in what.placeholders}
    taken = set(names.values())
    for v in what.variables:
        if id(v) not in names:
            name, k = v.name, 1
            while name in taken:
                name, k = f"{v.name}.{k}", k + 1
            taken.add(name)
            names[id(v)] = name
    outputs = _output_names(what, taken)
    writer = Writer([*names.values(), *outputs], varies)
    if any(v.dtype == bfloat16 for v in what.variables):
        writer.opset = LAST  # of which all ops take it
    for v in what.variables:
        if isinstance(v, Placeholder):
            if all(v is not p for p in what.placeholders):
                raise ValueError(
                    f"it reads the placeholder {v.name!r}, which is no input"
                )
        elif weights:
            writer.weight(names[id(v)], v.numpy())
    if what.draws:
        raise ValueError("it draws random numbers, which no file repeats: net.eval()")
    results = writer.body(what.body, [names[id(v)] for v in what.variables])
    if writer.unknown:
        ops = [f"{op} ({line})" if line else op for op, line in writer.unknown.items()]
        raise ValueError(f"ONNX has no way to say: {'; '.join(sorted(ops))}")
    make = writer.onnx.helper.make_node
    for name, result in zip(outputs, results, strict=True):
        writer.nodes.append(make("Identity", [result], [name], name=name))
    writer.drop_unread(outputs)
    writer.renumber([*names.values(), *outputs])
    fixed = [v for v in what.variables if not v.trainable]
    buffers = [names[id(v)] for v in fixed if not isinstance(v, Placeholder)]
    return Recorded(what, writer, outputs, buffers)


def _file(
    recorded: Sequence[Recorded], graphs: OpenExtents, metadata: dict[str, str]
) -> bytes:
    """The bytes of the file of a computation recorded for several extents."""
    first, onnx = recorded[0], extra("onnx", "onnx")
    helper, checker = onnx.helper, extra("onnx.checker", "onnx")
    inputs = zip(*(r.what.placeholders for r in recorded), strict=True)
    outs = zip(*(r.what.body.outputs for r in recorded), strict=True)
    graph = helper.make_graph(
        first.writer.nodes,
        "treadle",
        [_info(helper, graphs, p[0].name, p) for p in inputs],
        [
            _info(helper, graphs, name, y)
            for name, y in zip(first.outputs, outs, strict=True)
        ],
        first.writer.tensors,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", first.writer.opset)],
        ir_version=_IR[first.writer.opset],
        producer_name="treadle",
    )
    noted = {BUFFERS: json.dumps(first.buffers)} if first.buffers else {}
    helper.set_model_props(model, {**metadata, **noted})
    if model.ByteSize() > MAX_FILE:
        raise ValueError(f"{model.ByteSize()} bytes are more than an ONNX file has")
    try:
        checker.check_model(model, full_check=True)
    except Exception as problem:
        raise ValueError(f"onnx refuses it: {problem}") from None
    return model.SerializeToString(deterministic=True)


def _info(helper: Any, graphs: OpenExtents, name: str, values: Sequence[Any]) -> Any:
    """The type of an input or output, which is `values` for the extents recorded."""
    types = [x.type for x in values]
    if np.dtype(types[0].dtype) not in CODES:
        raise ValueError(f"{name!r}: ONNX has no {types[0].dtype}")
    dims = graphs.dims([t.shape for t in types])
    return helper.make_tensor_value_info(name, CODES[types[0].dtype], dims)


def _output_names(what: Computation, taken: set[str]) -> list[str]:
    """Names of the outputs: the keys of a dict, or numbers."""
    structure, count = what.structure, what.count
    wanted = ["output"] if count == 1 else [f"output_{k}" for k in range(count)]
    if isinstance(structure, tuple) and structure[0] is dict:
        keys = [str(key) for key in structure[1]]
        wanted = keys if len(keys) == count else wanted
    names = []
    for name in wanted:
        unique, k = name, 1
        while unique in taken:
            unique, k = f"{name}.{k}", k + 1
        taken.add(unique)
        names.append(unique)
    return names
