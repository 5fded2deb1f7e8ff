"""ONNX files that commands look at and run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.io.onnx import OnnxModule


def is_onnx(path: str) -> bool:
    """Whether a name is that of an ONNX file, by its ending."""
    return path.lower().endswith(".onnx")


def network_of(path: str) -> OnnxModule:
    """The network of a file, as it is used: nothing in it trains."""
    # By name: no other command waits for the tables of importers.
    net: OnnxModule = import_module("treadle.io.onnx.load").from_onnx(path)
    net.eval()
    return net
