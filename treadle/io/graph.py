"""Computations in files: the graph as text, Variables and constants as arrays."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import as_dtype, uint64
from treadle.base.errors import ArgumentError, AxisError, DTypeError, ModelFileError
from treadle.base.options import current, options
from treadle.base.types import Type, as_names
from treadle.engines.base import carry, engine
from treadle.graph.body import Body
from treadle.graph.definition import define, parse
from treadle.graph.initial import Temporary
from treadle.graph.leaves import Unbound
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.io.files import MAX_BYTES, PathLike, check_shape, guarded, read_json
from treadle.io.format import Contents
from treadle.io.source import Buffer, place_of
from treadle.io.tensors import check_size, listed, read_item
from treadle.runtime.computation import Computation

_GRAPH, _SIGNATURE = "graph", "graph.signature"
# The names of arrays that are machine code: its key, and the hash of the code.
_CODE = re.compile(r"code\.([0-9a-f]{64})\.([0-9a-f]{64})")
_KINDS: dict[str, type[Variable]] = {
    "variable": Variable,
    "parameter": Parameter,
    "placeholder": Placeholder,
    "temporary": Temporary,
}
_SETTINGS = {"name", "kind", "dtype", "shape", "axes", "trainable", "sparse", "array"}


def contents_of(
    what: Computation,
    metadata: Mapping[str, str],
    example: Sequence[Any] | None = None,
) -> Contents:
    """What a file holds of a computation: text, and arrays by name; with an `example`
    of its inputs also the machine code that a call needs."""
    arrays: dict[str, Array] = {}
    variables = list(what.variables)
    known = {id(v) for v in variables}
    changed = [v for v in what.changed if v is not None]
    variables += [v for v in [*changed, *what.placeholders] if id(v) not in known]
    settings = [_settings(v, arrays) for v in variables]

    def keep(value: Array) -> str:
        name = f"constant.{len(arrays)}"
        arrays[name] = value
        return name

    place = {id(v): k for k, v in enumerate(variables)}
    signature = {
        "variables": settings,
        "read": len(what.variables),
        "changed": [place[id(v)] for v in changed],
        "placeholders": [place[id(p)] for p in what.placeholders],
        "structure": _written(what.structure),
    }
    text = define(what.body, variables, keep)
    graph = {_GRAPH: text, _SIGNATURE: json.dumps(signature)}
    tables = {s["array"] for s in settings if s["sparse"] and s["array"]}
    if example is not None:
        arrays |= _code(arrays, graph, example)
    return Contents(arrays, {**metadata, **graph}, frozenset(tables))


def _code(
    arrays: Mapping[str, Array], graph: Mapping[str, str], example: Sequence[Any]
) -> dict[str, Array]:
    """The machine code that a call needs, by names that say what it is made of."""
    copies = {name: array.copy() for name, array in arrays.items()}
    twin = _made("the computation", copies, graph)
    with options(seed=0):
        code = engine(current().engine).recorded(lambda: twin(*example))
    return {
        f"code.{key.hex()}.{hashlib.sha256(machine_code).hexdigest()}": np.frombuffer(
            machine_code, np.uint8
        )
        for key, machine_code in sorted(code.items())
    }


def _carry(place: str, arrays: Mapping[str, Array]) -> None:
    """Hand the machine code of a file to the engine, if it is as it was written."""
    codes: dict[bytes, bytes] = {}
    for name, array in arrays.items():
        with guarded(place, ModelFileError, repr(name[:60])):
            machine_code = array.tobytes()
            match = _CODE.fullmatch(name)
            if match is None or hashlib.sha256(machine_code).hexdigest() != match[2]:
                raise ValueError("this machine code is not as it was written")
            codes[bytes.fromhex(match[1])] = machine_code
    carry(current().engine, codes)


def load_computation(
    source: PathLike | Buffer,
    *,
    code: bool = False,
    format: str | None = None,
    max_bytes: int = MAX_BYTES,
) -> Computation:
    """The computation of a file that `td.save(path, computation)` wrote, with Variables
    of its own; the Python that built it is not needed.

    Such a file is data: its graph is made of known ops and checked node by node, and
    nothing runs before it is called. With `code` the machine code in it is run instead
    of being compiled, where it was made for this kind of processor by these versions:
    only for files you trust as you trust a program. Raises ModelFileError.

    >>> import tempfile
    >>> x, w = td.placeholder((2,), name="x"), td.param("w", init=3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.save(f"{folder}/m.safetensors", td.computation({"y": x * w}, x))
    ...     again = td.load_computation(f"{folder}/m.safetensors")
    >>> again(x=[1.0, 2.0])
    {'y': array([3., 6.], dtype=float32)}
    """
    place = place_of(source)
    with listed(source, format=format) as (file, listing):
        items = {
            name: item
            for name, item in listing.items.items()
            if code or not _CODE.fullmatch(name)
        }
        check_size(items, max_bytes)
        arrays = {k: read_item(file, listing, item) for k, item in items.items()}
    if code:
        _carry(place, {k: arrays.pop(k) for k in items if _CODE.fullmatch(k)})
    return _made(place, arrays, listing.metadata)


def _made(
    place: str, arrays: Mapping[str, Array], metadata: Mapping[str, str]
) -> Computation:
    """The computation that arrays and text tell of."""
    with guarded(place, ModelFileError):
        if _GRAPH not in metadata or _SIGNATURE not in metadata:
            raise ValueError("the file holds arrays but no graph; td.load reads it")
        signature = _signature(read_json(metadata[_SIGNATURE].encode()))
        variables = []
        for k, settings in enumerate(signature["variables"]):
            with guarded(place, ModelFileError, f"variable {k}"):
                variables.append(_variable(settings, arrays))
        with guarded(place, ModelFileError, "graph"):
            body = parse(metadata[_GRAPH], variables, arrays)
            return _computation(body, variables, signature)


def _settings(v: Variable, arrays: dict[str, Array]) -> dict[str, Any]:
    """The settings of a Variable as JSON; its value joins the arrays."""
    kind = next(k for k, cls in reversed(_KINDS.items()) if isinstance(v, cls))
    array = None
    if not isinstance(v.committed.op, Unbound):
        array, k = v.name, 1
        while array in arrays:
            array, k = f"{v.name}.{k}", k + 1
        value = v.numpy()
        arrays[array] = value if v.persistent else v.committed.numpy()
    return {
        "name": v.name,
        "kind": kind,
        "dtype": v.type.dtype.name,
        "shape": v.type.shape,
        "axes": v.type.axes,
        "trainable": v.trainable,
        "sparse": v.sparse,
        "array": array,
    }


def _signature(signature: Any) -> dict[str, Any]:
    """The signature, of the form that `contents_of` writes."""
    if not isinstance(signature, dict) or not all(
        isinstance(signature.get(key), kind)
        for key, kind in {
            "variables": list,
            "read": int,
            "changed": list,
            "placeholders": list,
        }.items()
    ):
        raise ValueError(f"{_SIGNATURE!r} is not complete")
    count = len(signature["variables"])
    places = [*signature["changed"], *signature["placeholders"]]
    if not 0 <= signature["read"] <= count or not all(
        type(k) is int and 0 <= k < count for k in places
    ):
        raise ValueError(f"{_SIGNATURE!r} names a variable that is not there")
    return signature


def _variable(settings: Any, arrays: Mapping[str, Array]) -> Variable:
    if not isinstance(settings, dict) or set(settings) != _SETTINGS:
        raise ValueError(f"it has {', '.join(sorted(_SETTINGS))}")
    name, kind, array = settings["name"], settings["kind"], settings["array"]
    dtype, shape, axes = settings["dtype"], settings["shape"], settings["axes"]
    if not isinstance(name, str) or not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"{name!r} is a {kind!r}")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise ValueError(f"{name!r} has no dtype or shape")
    try:
        check_shape(shape, as_dtype(dtype))
        type_ = Type(tuple(shape), as_dtype(dtype), as_names(axes, tuple(shape)))
    except (DTypeError, AxisError, ArgumentError) as problem:
        raise ValueError(f"{name!r}: {problem.message}") from None
    value = None if array is None else arrays.get(array)
    if array is not None and value is None:
        raise ValueError(f"{name!r}: no array is named {array!r}")
    if value is not None and (value.shape, value.dtype) != (type_.shape, type_.dtype):
        raise ValueError(f"{name!r} is {type_}, its array {value.dtype}{value.shape}")
    if kind == "placeholder":
        return Placeholder(
            type_.shape, type_.dtype, name=name, axes=type_.axes, initial_value=value
        )
    if value is None:
        raise ValueError(f"{name!r} has no value")
    return _KINDS[kind](
        value,
        name=name,
        axes=type_.axes,
        trainable=bool(settings["trainable"]),
        sparse=bool(settings["sparse"]),
        copy=False,
    )


def _computation(
    body: Body, variables: Sequence[Variable], signature: Mapping[str, Any]
) -> Computation:
    read = variables[: signature["read"]]
    changed = [variables[k] for k in signature["changed"]]
    placeholders = [variables[k] for k in signature["placeholders"]]
    structure, count = _read_structure(signature.get("structure"), 0)
    types = [x.type for x in body.arguments]
    drawn = types[len(read) :]
    if [v.type for v in read] != types[: len(read)]:
        raise ValueError("the body's arguments are not the variables it reads")
    if any(t.dtype != uint64 or t.shape[-1:] != (2,) for t in drawn):
        raise ValueError("the body has arguments that are no draws")
    if len(body.outputs) != count + len(changed):
        raise ValueError(f"the body returns {len(body.outputs)} values")
    new = [y.type for y in body.outputs[count:]]
    if new != [v.type for v in changed]:
        raise ValueError("the new versions are not of their variables' types")
    if not all(isinstance(p, Placeholder) for p in placeholders):
        raise ValueError("what is to be given is no placeholder")
    inputs: list[Any] = placeholders
    return Computation.from_body(body, read, changed, inputs, structure)


def _written(structure: Any) -> Any:
    """The structure of outputs as JSON; a named tuple becomes a tuple."""
    if structure is None or structure == "leaf":
        return structure
    kind, keys, children = structure
    if kind is dict and not all(isinstance(key, str) for key in keys):
        raise ArgumentError("a file keeps outputs by names alone", hint="use str keys")
    name = "dict" if kind is dict else "list" if kind is list else "tuple"
    return [name, keys and list(keys), [_written(child) for child in children]]


def _read_structure(structure: Any, depth: int) -> tuple[Any, int]:
    """The structure of outputs from JSON, and their number."""
    if structure is None or structure == "leaf":
        return structure, int(structure == "leaf")
    kinds = {"dict": dict, "list": list, "tuple": tuple}
    if (
        depth > 32
        or not isinstance(structure, list)
        or len(structure) != 3
        or not isinstance(structure[0], str)
        or structure[0] not in kinds
        or not isinstance(structure[2], list)
    ):
        raise ValueError("the structure of the outputs cannot be read")
    kind, keys = kinds[structure[0]], None
    if kind is dict:
        keys = tuple(structure[1]) if isinstance(structure[1], list) else ()
        if len(set(map(str, keys))) != len(structure[2]):
            raise ValueError("the names of the outputs are not one each")
    children = [_read_structure(child, depth + 1) for child in structure[2]]
    total = sum(count for _, count in children)
    return (kind, keys, tuple(child for child, _ in children)), total
