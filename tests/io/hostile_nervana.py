"""Graphs of Nervana Graph that lie, and how one is made by hand."""

from __future__ import annotations

import struct
from typing import Any

from tests.io.hostile_messages import sized
from treadle.io.nervana.schema import GRAPH
from treadle.io.protobuf import encode

__all__ = ["NERVANA", "SIMPLE"]

AXIS = {"name": "C", "length": 1, "uuid": {"uuid": b"c" * 16}}
AXES = {"_axes": {"axes": {"axes": [AXIS]}}}


def op(number: int, kind: str, name: str = "", **attrs: Any) -> dict[str, Any]:
    return {
        "uuid": {"uuid": bytes([number]) * 16},
        "name": name or f"{kind}_{number}",
        "op_type": kind,
        "attrs": {**AXES, **attrs},
    }


def edge(begin: int, end: int, kind: int = 0, attribute: str = "") -> dict[str, Any]:
    named = {"_ngraph_attribute": {"scalar": {"string_val": attribute}}}
    return {
        "uuid": {"uuid": bytes(16)},
        "from_uuid": {"uuid": bytes([begin]) * 16},
        "to_uuid": {"uuid": bytes([end]) * 16},
        **({"attrs": named} if attribute else {}),
        **({"edge_type": kind} if kind else {}),
    }


def file(*parts: dict[str, Any]) -> bytes:
    edges = [p for p in parts if "from_uuid" in p]
    return encode(
        GRAPH, "GraphDef", {"edges": edges, "ops": [p for p in parts if p not in edges]}
    )


TRUE = {"scalar": {"bool_val": True}}
FIVE = {"tensor": {"info": {"dtype": 0, "shape": [1]}, "data": struct.pack("<f", 5.0)}}
STORE = op(1, "AssignableTensorOp", "c", _is_constant=TRUE, initial_value=FIVE)
READ, BY = op(2, "TensorValueOp"), edge(2, 1, 3, "_tensor")
EXP = op(3, "ExpOp", "e")
SIMPLE = file(STORE, READ, EXP, op(4, "LogOp", "l"), BY, edge(2, 3), edge(3, 4))


def dims(*pairs: tuple[str, int]) -> dict[str, Any]:
    listed = [{"name": name, "length": n} for name, n in pairs]
    return {"_axes": {"axes": {"axes": listed}}}


MORE = {"scalar": {"map_val": {"map": {"axis": {"int_val": 1}}}}}
WRONG = {"tensor": {"info": {"dtype": 0, "shape": [2]}, "data": bytes(4)}}
_WRONG_ONES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "no op to compute"),
    "no message": (b"\x07", "wire 7"),
    "uuid too short": (
        encode(GRAPH, "GraphDef", {"ops": [{"uuid": {"uuid": b"1"}}]}),
        "not 16 bytes",
    ),
    "uuid twice": (file(STORE, {**STORE, "name": "d"}), "not 16 bytes of its own"),
    "edge to nowhere": (file(STORE, edge(1, 9)), "not there"),
    "cycle": (file(op(3, "ExpOp"), op(4, "ExpOp", _ngraph_ser_handle=TRUE),
                   edge(3, 4), edge(4, 3)), "reads itself"),
    "unknown op": (file(op(3, "ConvolutionOp")), "ConvolutionOp is not read"),
    "effect": (file(STORE, READ, BY, op(5, "AssignOp"), edge(2, 5, 1)),
               "effects are not read"),
    "no operand": (file(EXP), "takes 1 operands, not 0"),
    "constant without a value": (
        file(op(1, "AssignableTensorOp", _is_constant=TRUE), READ, BY), "no value"
    ),
    "value of another shape": (
        file({**STORE, "attrs": {**STORE["attrs"], "initial_value": WRONG}}, READ, BY),
        "4 bytes are not",
    ),
    "axes twice": (
        file({**EXP, "attrs": dims(("C", 1), ("C", 1))}, STORE, READ, BY, edge(2, 3)),
        "not names of axes",
    ),
    "negative length": (
        file({**STORE, "attrs": {**STORE["attrs"], **dims(("C", -1))}}, READ, BY),
        "not a shape",
    ),
    "huge lengths": (
        file({**EXP, "op_type": "BroadcastOp",
              "attrs": dims(*[(f"a{k}", 2**31 - 1) for k in range(9)])},
             STORE, READ, BY, edge(2, 3)), "too large"
    ),
    "lengths that do not fit": (
        file({**EXP, "attrs": dims(("C", 7))}, STORE, READ, BY, edge(2, 3)),
        "the file says",
    ),
    "no axes to fold": (
        file({**EXP, "op_type": "Sum"}, STORE, READ, BY, edge(2, 3)),
        "no reduction_axes",
    ),
    "unknown dtype": (file({**EXP, "dtype": 10}, STORE, READ, BY, edge(2, 3)),
                      "dtype 10 is not known"),
    "name that is a path": (
        file({**STORE, "name": "../c", "attrs": {**AXES, "initial_value": FIVE}},
             READ, BY), "not a name"
    ),
    "attribute that nothing reads": (
        file({**EXP, "attrs": {**AXES, "strange": TRUE}}, STORE, READ, BY, edge(2, 3)),
        "ExpOp with 'strange' is not read",
    ),
    "attribute of a leaf that nothing reads": (
        file({**STORE, "attrs": {**STORE["attrs"], "strange": TRUE}}, READ, BY),
        "AssignableTensorOp with 'strange' is not read",
    ),
    "more arguments": (
        file({**EXP, "op_type": "Add", "attrs": {**AXES, "kwargs": MORE}},
             STORE, READ, BY, edge(2, 3)), "Add with {'axis'}"
    ),
    "product with a bias": (
        file({**EXP, "op_type": "DotOp"}, STORE, READ, BY, edge(2, 3), edge(2, 3),
             edge(3, 1, 3, "bias")), "'bias'"
    ),
    "endless fields": (sized(2, b"") * 75_000, "refused"),
}  # fmt: skip
NERVANA = {case: (raw, "", said) for case, (raw, said) in _WRONG_ONES.items()}
