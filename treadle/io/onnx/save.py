"""Computations as ONNX files, for whatever else runs them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ModelFileError
from treadle.base.extras import extra
from treadle.graph.leaves import as_tensor
from treadle.graph.variable import Placeholder
from treadle.io.atomic import write_atomically
from treadle.io.files import PathLike, guarded
from treadle.io.onnx import exports_elements, exports_structure
from treadle.io.onnx.file import BUFFERS, CODES, MAX_FILE
from treadle.io.onnx.writer import Writer
from treadle.runtime.computation import Computation

__all__ = ["to_onnx"]

OPSET = 20
_IR = 9  # the version of the format that has these ops
_TABLES = (exports_elements, exports_structure)  # each fills EXPORTS


def to_onnx(
    what: Any,
    path: PathLike,
    *examples: Any,
    inputs: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a computation as an ONNX file, or a network or function with examples.

    Placeholders become inputs by their names, Variables weights by theirs. For a
    network or function, inputs are of the shapes and dtypes of the examples and have
    the names `inputs`, or "x0", "x1", ... Shapes are fixed. The file is checked by onnx
    and written whole or not at all. Raises ModelFileError with all ops that ONNX has no
    way to say.

    >>> import tempfile
    >>> import treadle as td
    >>> net = td.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.to_onnx(net, f"{folder}/m.onnx", td.ones((4, 3)))
    ...     again = td.from_onnx(f"{folder}/m.onnx")
    >>> again.inputs[0].name, again.inputs[0].shape
    ('x0', (4, 3))
    """
    computation = _computation(what, examples, inputs)
    if any(v is not None for v in computation.changed):
        names = [v.name for v in computation.changed if v is not None]
        raise ArgumentError(
            f"it changes {', '.join(names[:3])}, and an ONNX file has no state",
            hint="export what does not train: net.eval()",
        ).located("to_onnx")
    place = os.fspath(path)
    with guarded(place, ModelFileError):
        raw = _written(computation, dict(metadata or {}))
        write_atomically(path, raw)


def _computation(
    what: Any, examples: tuple[Any, ...], inputs: Sequence[str] | None
) -> Computation:
    """What is to be written, with a placeholder for each example."""
    if isinstance(what, Computation):
        if examples or inputs:
            raise ArgumentError(
                "a computation has placeholders and takes no examples"
            ).located("to_onnx")
        return what
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
    own = []
    for name, x in zip(names, examples, strict=True):
        t = as_tensor(x).type
        own.append(Placeholder(t.shape, t.dtype, name=name, axes=t.axes))
    return Computation(what(*own), *own)


def _written(what: Computation, metadata: dict[str, str]) -> bytes:
    """The bytes of the file."""
    onnx = extra("onnx", "onnx")
    checker = extra("onnx.checker", "onnx")
    helper = onnx.helper
    inputs = {id(p): p.name for p in what.placeholders}
    taken = set(inputs.values())
    names = list(inputs.values())
    for v in what.variables:
        if id(v) not in inputs:
            name, k = v.name, 1
            while name in taken:
                name, k = f"{v.name}.{k}", k + 1
            taken.add(name)
            inputs[id(v)] = name
            names.append(name)
    outputs = _output_names(what, taken)
    writer = Writer([*names, *outputs])
    given = [inputs[id(v)] for v in what.variables]
    for v, name in zip(what.variables, given, strict=True):
        if not isinstance(v, Placeholder):
            writer.weight(name, v.numpy())
        elif all(v is not p for p in what.placeholders):
            raise ValueError(f"it reads the placeholder {v.name!r}, which is no input")
    if what.draws:
        raise ValueError("it draws random numbers, which no file repeats: net.eval()")
    found = writer.body(what.body, given)
    if writer.unknown:
        told = [f"{op} ({line})" if line else op for op, line in writer.unknown.items()]
        raise ValueError(f"ONNX has no way to say: {'; '.join(sorted(told))}")
    for name, made in zip(outputs, found, strict=True):
        writer.nodes.append(helper.make_node("Identity", [made], [name], name=name))
    graph = helper.make_graph(
        writer.nodes,
        "treadle",
        [_info(helper, p.name, p.type) for p in what.placeholders],
        [
            _info(helper, name, y.type)
            for name, y in zip(outputs, what.body.outputs, strict=True)
        ],
        writer.tensors,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR,
        producer_name="treadle",
    )
    fixed = [inputs[id(v)] for v in what.variables if not v.trainable]
    buffers = [name for name in fixed if name in names[len(what.placeholders) :]]
    noted = {BUFFERS: json.dumps(buffers)} if buffers else {}
    helper.set_model_props(model, {**metadata, **noted})
    if model.ByteSize() > MAX_FILE:
        raise ValueError(f"{model.ByteSize()} bytes are more than an ONNX file has")
    try:
        checker.check_model(model, full_check=True)
    except Exception as problem:
        raise ValueError(f"onnx refuses it: {problem}") from None
    raw: bytes = model.SerializeToString(deterministic=True)
    return raw


def _info(helper: Any, name: str, type_: Any) -> Any:
    if np.dtype(type_.dtype) not in CODES:
        raise ValueError(f"{name!r}: ONNX has no {type_.dtype}")
    return helper.make_tensor_value_info(name, CODES[type_.dtype], type_.shape)


def _output_names(what: Computation, taken: set[str]) -> list[str]:
    """Names of the outputs: the keys of a dict, or numbers."""
    structure, count = what.structure, what.count
    wanted = ["output"] if count == 1 else [f"output_{k}" for k in range(count)]
    if isinstance(structure, tuple) and structure[0] is dict:
        keys = [str(key) for key in structure[1]]
        wanted = keys if len(keys) == count else wanted
    found = []
    for name in wanted:
        own, k = name, 1
        while own in taken:
            own, k = f"{name}.{k}", k + 1
        taken.add(own)
        found.append(own)
    return found
