"""Files: arrays by name in files of several formats, written whole or not at all."""

from treadle.base.boundary import guard as _guard
from treadle.base.names import public as _public
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

_guard(globals())

__all__ = _public(globals())


def __dir__() -> list[str]:
    return __all__
