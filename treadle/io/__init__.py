"""Files: arrays by name in files of several formats, written whole or not at all."""

import typing as _typing

from treadle.base.boundary import guard as _guard
from treadle.graph.table import late as _late

if _typing.TYPE_CHECKING:
    from treadle.io.checkpoint import Checkpoint as Checkpoint
    from treadle.io.checkpoint import load_checkpoint as load_checkpoint
    from treadle.io.checkpoint import save_checkpoint as save_checkpoint
    from treadle.io.graph import load_computation as load_computation
    from treadle.io.nervana import load_nervana as load_nervana
    from treadle.io.nervana import save_nervana as save_nervana
    from treadle.io.onnx import OnnxModule as OnnxModule
    from treadle.io.onnx import from_onnx as from_onnx
    from treadle.io.onnx import to_onnx as to_onnx
    from treadle.io.store import Arrays as Arrays
    from treadle.io.store import load as load
    from treadle.io.store import save as save
    from treadle.io.tensorboard import EventWriter as EventWriter
    from treadle.io.tensorboard import LogEntry as LogEntry
    from treadle.io.tensorboard import read_events as read_events
    from treadle.io.tensors import FORMATS as FORMATS
    from treadle.io.tensors import load_arrays as load_arrays
    from treadle.io.tensors import save_arrays as save_arrays

# Loaded when first named: who writes weights needs no importer of graphs.
_NAMES = {
    "checkpoint": "Checkpoint load_checkpoint save_checkpoint",
    "graph": "load_computation",
    "nervana": "load_nervana save_nervana",
    "onnx": "OnnxModule from_onnx to_onnx",
    "store": "Arrays load save",
    "tensorboard": "EventWriter LogEntry read_events",
    "tensors": "FORMATS load_arrays save_arrays",
}
_LATER = {name: module for module in _NAMES for name in _NAMES[module].split()}

__all__ = sorted(_LATER)

if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        loaded = {"__name__": __name__, name: _late(f"io.{_LATER[name]}", name)}
        _guard(loaded)
        globals()[name] = loaded[name]
        return loaded[name]


def __dir__() -> list[str]:
    return __all__
