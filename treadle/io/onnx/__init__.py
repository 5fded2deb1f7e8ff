"""ONNX files: networks of other frameworks read, computations written for them."""

from treadle.io.onnx.load import from_onnx as from_onnx
from treadle.io.onnx.module import OnnxModule as OnnxModule
from treadle.io.onnx.save import to_onnx as to_onnx
