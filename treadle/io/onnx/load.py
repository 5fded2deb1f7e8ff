"""Networks from ONNX files: checked, and converted to a version that is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from treadle.base.arrays import Array
from treadle.base.errors import ModelFileError
from treadle.base.extras import extra
from treadle.graph.variable import Parameter, Variable
from treadle.io.files import MAX_BYTES, PathLike, check_name, guarded, read_json
from treadle.io.onnx import (  # noqa: F401 (each fills IMPORTS)
    control,
    elements,
    networks,
    positions,
    quantized,
    recurrent,
    resize,
    sequences,
    shapes,
    signals,
    training,
)
from treadle.io.onnx.file import (
    BUFFERS,
    CODES,
    DTYPES,
    STORED,
    array_of,
    read_model,
    source_of,
)
from treadle.io.onnx.module import OnnxModule, Port
from treadle.io.onnx.parse import OnnxParser, check_order
from treadle.io.onnx.table import IMPORTS, LAST, OnnxNode

OLDEST = 7


def converted(model: Any) -> Any:
    """The model itself, or from version 1 to 6 what onnx makes of it in version 7."""
    versions = {o.version for o in model.opset_import if o.domain in ("", "ai.onnx")}
    if not versions or not 0 < min(versions) < OLDEST:
        return model
    if len(versions) > 1:
        raise ValueError(f"version {min(versions)} of ONNX's ops; read are 1 to {LAST}")
    (version,) = versions
    if all(_unchanged(node, version) for node in model.graph.node):
        same = type(model)()
        same.CopyFrom(model)
    else:
        convert = extra("onnx.version_converter", "onnx").convert_version
        try:
            same = convert(model, OLDEST)
        except Exception as problem:  # whatever its C++ raises
            raise ValueError(
                f"version {version} of ONNX's ops, which onnx does not convert to "
                f"{OLDEST}: {problem}"
            ) from None
    for o in same.opset_import:
        o.version = OLDEST if o.domain in ("", "ai.onnx") else o.version
    for node in same.graph.node:
        if node.op_type == "PRelu":  # its slopes were those of channels
            node.op_type, node.domain = "PReluOfChannels", "treadle"
    same.opset_import.add(domain="treadle", version=1)
    return same


def _unchanged(node: Any, version: int) -> bool:
    """Return True if an op is the same in a version and in its oldest known one."""
    defs = extra("onnx.defs", "onnx")
    if node.domain not in ("", "ai.onnx") or not defs.has(node.op_type, version):
        return False
    then = defs.get_schema(node.op_type, version)
    now = defs.get_schema(node.op_type, OLDEST)
    return bool(then.since_version == now.since_version)


def from_onnx(
    source: PathLike | bytes | BinaryIO, *, max_bytes: int = MAX_BYTES
) -> OnnxModule:
    """The network of an ONNX file as a Module, to be run, trained, saved.

    `source` is a path, the bytes of a file or a file object; data beside the model is
    read for a path alone. Floating-point weights of one dimension or more are
    parameters by their names, other arrays constants. Ops and dtypes are checked before
    anything is built; raises ModelFileError with the nodes that cannot be read.

    >>> import tempfile
    >>> x = td.placeholder((2, 3), name="x")
    >>> w = td.param("w", init=td.ones((3, 1)).numpy())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.to_onnx(td.computation(td.relu(x @ w), x), f"{folder}/m.onnx")
    ...     net = td.from_onnx(f"{folder}/m.onnx")
    >>> [name for name, _ in net.named_parameters()]
    ['w']
    >>> net(td.ones((2, 3))).tolist()
    [[3.0], [3.0]]
    """
    place, folder, raw = source_of(source)
    with guarded(place, ModelFileError):
        model = read_model(raw)
        model = converted(model)
        parser = OnnxParser.of(model)
        nodes = parser.nodes(model.graph.node, {})
        parser.check()
        buffers = _buffers(model)
    values = _weights(model.graph, nodes, buffers, place, folder, max_bytes)
    with guarded(place, ModelFileError):
        inputs = [_port(i) for i in model.graph.input if i.name not in values]
        outputs = [o.name for o in model.graph.output]
        check_order(nodes, [*values, *[p.name for p in inputs]], outputs)
    return OnnxModule(place, nodes, values, inputs, outputs)


def _buffers(model: Any) -> set[str]:
    """The weights that a file says are not to be trained; only Treadle's say so."""
    noted = [p.value for p in model.metadata_props if p.key == BUFFERS]
    names = read_json(noted[-1].encode()) if noted and noted[-1] else []
    if not isinstance(names, list) or not all(isinstance(x, str) for x in names):
        raise ValueError(f"{BUFFERS!r} is no list of names")
    return set(names)


def _weights(
    graph: Any,
    nodes: Sequence[OnnxNode],
    buffers: set[str],
    place: str,
    folder: Path | None,
    limit: int,
) -> dict[str, Variable | Array]:
    """The arrays of a file: parameters, buffers and constants by name."""
    settings: set[str] = set()
    for node in nodes:
        static = IMPORTS[node.kind].static if node.function is None else ()
        settings |= {x for k, x in enumerate(node.inputs) if k in static}
        if node.kind == "BatchNormalization":
            buffers = buffers | set(node.inputs[3:])
    weights: dict[str, Variable | Array] = {}
    for t in graph.initializer:
        with guarded(place, ModelFileError, repr(t.name[:60])):
            if t.name in weights:
                raise ValueError("two weights have this name")
            if not t.name or len(t.name) > 1024:
                raise ValueError("this is no name of a weight")
            array = array_of(t, folder, limit)
            limit -= array.nbytes
        trains = array.dtype in CODES and array.dtype.kind in "fVc" and array.ndim
        if not trains or t.name in settings:
            weights[t.name] = array
        else:
            kind = Variable if t.name in buffers else Parameter
            weights[t.name] = kind(array, name=t.name, copy=False)
    return weights


def _port(info: Any) -> Port:
    """An input as the file declares it."""
    if info.type.HasField("sequence_type") or info.type.HasField("optional_type"):
        return Port(check_name(info.name), None, ())
    if not info.type.HasField("tensor_type"):
        raise ValueError(f"input {info.name[:60]!r} is no tensor")
    declared = info.type.tensor_type
    dtype = {**DTYPES, **STORED}.get(declared.elem_type)
    if dtype is None or not declared.HasField("shape"):
        raise ValueError(f"input {info.name[:60]!r} has no dtype or shape that is read")
    shape: list[int | str | None] = []
    for d in declared.shape.dim:
        if d.HasField("dim_value"):
            if d.dim_value == -1:  # as some exporters write one that is open
                shape.append(None)
                continue
            if not 0 <= d.dim_value < 1 << 40:
                raise ValueError(f"input {info.name[:60]!r} has {d.dim_value} elements")
            shape.append(int(d.dim_value))
        else:
            # A name without a letter, such as "?", is that of no dimension.
            named = any(c.isalpha() for c in d.dim_param)
            shape.append(d.dim_param if named else None)
    if len(shape) > 32:
        raise ValueError(f"input {info.name[:60]!r} has {len(shape)} dimensions")
    return Port(check_name(info.name), dtype, tuple(shape))
