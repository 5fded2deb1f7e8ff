"""The messages of ngraph-python's ops.proto, and its dtypes."""

from __future__ import annotations

from treadle.base import dtypes
from treadle.base.dtypes import DType
from treadle.io.protobuf import Schema

_UUID = ("uuid", "UUID")
GRAPH: Schema = {
    "UUID": {1: ("uuid", "bytes")},
    "GraphDef": {1: ("edges", "Edge*"), 2: ("ops", "Op*")},
    "Op": {
        1: _UUID,
        2: ("name", "string"),
        4: ("op_type", "string"),
        5: ("dtype", "enum"),
        6: ("attrs", "OpAttr{}"),
    },
    "OpAttr": {
        3: ("scalar", "Scalar"),
        4: ("repeated_scalar", "RepeatedScalar"),
        7: ("axes", "Axes"),
        8: ("tensor", "Tensor"),
    },
    "Scalar": {
        1: ("bool_val", "bool"),
        2: ("string_val", "string"),
        3: ("double_val", "double"),
        4: ("int_val", "int64"),
        7: ("map_val", "AttributeMap"),
        8: ("null_val", "bool"),
        9: ("slice_val", "Slice"),
        11: ("axis", "Axis"),
    },
    "AttributeMap": {1: ("map", "Scalar{}")},
    "RepeatedScalar": {1: ("val", "Scalar*")},
    "Edge": {
        1: _UUID,
        2: ("from_uuid", "UUID"),
        3: ("to_uuid", "UUID"),
        4: ("attrs", "EdgeAttr{}"),
        5: ("edge_type", "enum"),
    },
    "EdgeAttr": {1: ("scalar", "Scalar")},
    "TensorInfo": {2: ("dtype", "enum"), 3: ("shape", "uint64*")},
    "Tensor": {1: ("info", "TensorInfo"), 2: ("data", "bytes")},
    "Axes": {1: _UUID, 2: ("name", "string"), 3: ("axes", "Axis*")},
    "Axis": {1: _UUID, 2: ("name", "string"), 3: ("length", "int64")},
    "Slice": {1: ("start", "Int64"), 2: ("step", "Int64"), 3: ("stop", "Int64")},
    "Int64": {1: ("value", "int64")},
}
DATA, CONTROL, CONTAINER, OTHER = range(4)  # kinds of edges
HANDLE = "_ngraph_ser_handle"  # the attribute of ops that were asked for
DTYPES: tuple[DType, ...] = (
    dtypes.float32,
    dtypes.float16,
    dtypes.float64,
    dtypes.uint8,
    dtypes.uint16,
    dtypes.uint32,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
)
