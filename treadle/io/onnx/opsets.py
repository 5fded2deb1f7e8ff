"""Models of ONNX's first versions, converted to the oldest that importers know."""

from __future__ import annotations

from typing import Any

from treadle.base.extras import extra
from treadle.io.onnx.table import LAST

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
    """Whether an op is the same in a version and in the oldest one that is known."""
    defs = extra("onnx.defs", "onnx")
    if node.domain not in ("", "ai.onnx") or not defs.has(node.op_type, version):
        return False
    then = defs.get_schema(node.op_type, version)
    now = defs.get_schema(node.op_type, OLDEST)
    return bool(then.since_version == now.since_version)
