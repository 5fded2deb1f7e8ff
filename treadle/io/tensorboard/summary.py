"""Messages of what is logged: numbers, histograms, images, sounds, text, graphs."""

from __future__ import annotations

import io
import math
import re
import struct
import wave
import zlib
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable, variable_of
from treadle.io.protobuf import encode
from treadle.io.tensorboard.record import EVENTS

Message = dict[str, Any]

_STRING = 7  # TensorFlow's number of the type


def _limits() -> Array:
    """TensorFlow's buckets: powers of 1.1 from 1e-12 to 1e20 on both sides of 0."""
    rising = 1e-12 * 1.1 ** np.arange(math.ceil(math.log(1e32) / math.log(1.1)))
    last = np.finfo(np.float64).max
    return np.concatenate([[-last], -rising[::-1], [0.0], rising, [last]])


_LIMITS = _limits()


def scalar(value: Any) -> Message:
    """One number."""
    number = np.asarray(value)
    if number.size != 1 or number.dtype.kind in "cOUSMm":
        raise ShapeError(
            f"a scalar is one real number, not {number.dtype}{list(number.shape)}"
        )
    return {"simple_value": float(number.reshape(()).astype(np.float64))}


def histogram(values: Any) -> Message:
    """How many of the finite values lie in each bucket, and their moments."""
    every = np.asarray(values).astype(np.float64).reshape(-1)
    x = every[np.isfinite(every)]
    counts = np.zeros(len(_LIMITS))
    # A bucket holds what is at most its limit and above the one before.
    np.add.at(counts, np.searchsorted(_LIMITS, x, side="left"), 1.0)
    used = np.flatnonzero(counts)
    first, last = (used[0], used[-1] + 1) if len(used) else (0, 0)
    first = max(
        first - 1, 0
    )  # an empty one before, whose limit is where the first begins
    with np.errstate(over="ignore"):
        moments = float(x.sum()), float((x * x).sum())
    return {
        "histo": {
            "min": float(x.min(initial=math.inf)) if len(x) else 0.0,
            "max": float(x.max(initial=-math.inf)) if len(x) else 0.0,
            "num": float(len(x)),
            "sum": moments[0],
            "sum_squares": moments[1],
            "bucket_limit": _LIMITS[first:last],
            "bucket": counts[first:last],
        }
    }


def image(pixels: Any) -> Message:
    """An image [height, width] or [height, width, channels] as PNG."""
    raw = np.asarray(pixels)
    x = raw[..., None] if raw.ndim == 2 else raw
    if x.ndim != 3 or not 1 <= x.shape[2] <= 4 or not x.size:
        raise ShapeError(
            f"an image is [height, width] or [height, width, channels], not "
            f"{list(raw.shape)}",
            hint="channels are 1 (gray), 2 (and alpha), 3 (RGB) or 4 (RGBA), and last",
        )
    if x.dtype != np.uint8:
        scaled = np.clip(x.astype(np.float64), 0.0, 1.0) * 255.0
        x = np.rint(np.nan_to_num(scaled)).astype(np.uint8)
    height, width, channels = x.shape
    return {
        "image": {
            "height": height,
            "width": width,
            "colorspace": channels,
            "encoded_image_string": _png(np.ascontiguousarray(x)),
        }
    }


def _png(x: Array) -> bytes:
    """PNG of uint8[height, width, channels], rows without a filter."""
    height, width, channels = x.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = x.reshape(height, -1)
    color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    head = struct.pack(">2I5B", width, height, 8, color, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n"
    for kind, raw in parts:
        check = struct.pack(">I", zlib.crc32(kind + raw))
        png += struct.pack(">I", len(raw)) + kind + raw + check
    return png


def audio(samples: Any, rate: float) -> Message:
    """A sound [frames] or [frames, channels], int16 or floats from -1 to 1, as WAV."""
    raw = np.asarray(samples)
    x = raw[:, None] if raw.ndim == 1 else raw
    if x.ndim != 2 or not x.shape[1]:
        raise ShapeError(
            f"a sound is [frames] or [frames, channels], not {list(raw.shape)}"
        )
    if not rate >= 1:
        raise ArgumentError(f"a rate is a number of samples a second, not {rate!r}")
    if x.dtype != np.int16:
        whole = np.clip(np.nan_to_num(x.astype(np.float64)), -1.0, 1.0) * 32767.0
        x = np.rint(whole).astype(np.int16)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(x.shape[1])
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(x.astype("<i2").tobytes())
    return {
        "audio": {
            "sample_rate": float(rate),
            "num_channels": x.shape[1],
            "length_frames": len(x),
            "encoded_audio_string": file.getvalue(),
            "content_type": "audio/wav",
        }
    }


def text(words: str) -> Message:
    """Text, which TensorBoard shows as Markdown."""
    return {
        "tensor": {
            "dtype": _STRING,
            "tensor_shape": {"dim": [{"size": 1}]},
            "string_val": [words.encode()],
        },
        "metadata": {"plugin_data": {"plugin_name": "text"}},
    }


_FOREIGN = re.compile(r"[^A-Za-z0-9_./\-]")
_PRODUCER = 22  # of the first TensorFlow with these messages


def graph_def(y: Any) -> bytes:
    """TensorFlow's GraphDef of a tensor or a tree of them.

    A node is named by its module and its op, one of a Variable by the Variable; shapes,
    attributes and the user's line go with it. Nothing is evaluated.
    """
    roots = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    nodes = reach(functions.written_out(roots))
    names, taken = dict[int, str](), set[str]()
    written = []
    for node in nodes:
        names[node.serial] = _unique(_path(node), taken)
        written.append(
            {
                "name": names[node.serial],
                "op": node.op.name,
                "input": [names[x.serial] for x in node.inputs],
                "attr": _attributes(node),
            }
        )
    return encode(
        EVENTS, "GraphDef", {"node": written, "versions": {"producer": _PRODUCER}}
    )


def _path(node: Tensor) -> str:
    variable = variable_of(node)
    if variable is not None:
        path = variable.name
    else:
        module = str((node._metadata or {}).get("module", ""))
        name = node._name or node.op.name
        path = f"{module}.{name}" if module else name
    return _FOREIGN.sub("_", path.replace(".", "/")).strip("/_-") or "node"


def _unique(path: str, taken: set[str]) -> str:
    name, k = path, 0
    while name in taken:
        k += 1
        name = f"{path}_{k}"
    taken.add(name)
    return name


def _attributes(node: Tensor) -> dict[str, Any]:
    types = node.type if isinstance(node.type, TupleType) else (node.type,)
    attributes: dict[str, Any] = {
        "_output_shapes": {"list": {"shape": [_shape(t) for t in types]}},
        "dtype": {"s": ", ".join(t.dtype.name for t in types).encode()},
    }
    for key, value in node.op.attributes():
        text = value.name if isinstance(value, (Variable, Body)) else repr(value)
        attributes[key] = {"s": text[:200].encode(errors="replace")}
    if node.lineno:
        attributes["line"] = {"s": node.line.strip().encode(errors="replace")}
    return attributes


def _shape(t: Type) -> dict[str, Any]:
    names = t.axes or (None,) * t.ndim
    pairs = zip(t.shape, names, strict=True)
    return {"dim": [{"size": n, **({"name": a} if a else {})} for n, a in pairs]}
