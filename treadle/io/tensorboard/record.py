"""Records of an event file, and its messages, numbered as in TensorFlow's .proto."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from treadle.io.format import Opened
from treadle.io.protobuf import Schema

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected


def _table() -> list[int]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return [int(n) for n in table]


_TABLE = _table()


def crc32c(raw: bytes) -> int:
    """The check sum of RFC 3720, appendix B.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in raw:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _masked(raw: bytes) -> bytes:
    """The sum as it stands in files: turned and moved, so that sums of sums differ."""
    n = crc32c(raw)
    return struct.pack("<I", ((n >> 15 | n << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(raw: bytes) -> bytes:
    """A record that holds these bytes."""
    length = struct.pack("<Q", len(raw))
    return length + _masked(length) + raw + _masked(raw)


def records(source: Opened) -> Iterator[bytes]:
    """The bytes of each record; the last may be cut off, as a writer may have been."""
    number = 0
    while source.size - source.file.tell() >= 12:
        number += 1
        with source.about(f"record {number}"):
            length, check = source.take(8, "the length"), source.take(4, "its sum")
            if _masked(length) != check:
                raise ValueError("the length does not agree with its sum")
            (count,) = struct.unpack("<Q", length)
            if count > source.size - source.file.tell() - 4:
                return
            raw = source.take(count, "the record")
            if _masked(raw) != source.take(4, "its sum"):
                raise ValueError("the bytes do not agree with their sum")
        yield raw


EVENTS: Schema = {
    "Event": {
        1: ("wall_time", "double"),
        2: ("step", "int64"),
        3: ("file_version", "string"),
        4: ("graph_def", "bytes"),
        5: ("summary", "Summary"),
        7: ("session_log", "SessionLog"),
    },
    "SessionLog": {1: ("status", "enum")},
    "Summary": {1: ("value", "Value*")},
    "Value": {
        1: ("tag", "string"),
        2: ("simple_value", "float"),
        4: ("image", "Image"),
        5: ("histo", "Histogram"),
        6: ("audio", "Audio"),
        8: ("tensor", "Tensor"),
        9: ("metadata", "Metadata"),
    },
    "Image": {
        1: ("height", "int64"),
        2: ("width", "int64"),
        3: ("colorspace", "int64"),
        4: ("encoded_image_string", "bytes"),
    },
    "Histogram": {
        1: ("min", "double"),
        2: ("max", "double"),
        3: ("num", "double"),
        4: ("sum", "double"),
        5: ("sum_squares", "double"),
        6: ("bucket_limit", "double*"),
        7: ("bucket", "double*"),
    },
    "Audio": {
        1: ("sample_rate", "float"),
        2: ("num_channels", "int64"),
        3: ("length_frames", "int64"),
        4: ("encoded_audio_string", "bytes"),
        5: ("content_type", "string"),
    },
    "Metadata": {1: ("plugin_data", "Plugin")},
    "Plugin": {1: ("plugin_name", "string"), 2: ("content", "bytes")},
    "HParams": {
        1: ("version", "int64"),
        2: ("experiment", "Experiment"),
        3: ("session_start_info", "SessionStart"),
        4: ("session_end_info", "SessionEnd"),
    },
    "Experiment": {
        3: ("time_created_secs", "double"),
        4: ("hparam_infos", "HParamInfo*"),
        5: ("metric_infos", "MetricInfo*"),
    },
    "HParamInfo": {1: ("name", "string"), 4: ("type", "enum")},
    "MetricInfo": {1: ("name", "MetricName")},
    "MetricName": {1: ("group", "string"), 2: ("tag", "string")},
    "SessionStart": {
        1: ("hparams", "Any{}"),
        4: ("group_name", "string"),
        5: ("start_time_secs", "double"),
    },
    "SessionEnd": {1: ("status", "enum"), 2: ("end_time_secs", "double")},
    "Any": {
        2: ("number_value", "double"),
        3: ("string_value", "string"),
        4: ("bool_value", "bool"),
    },
    "Tensor": {
        1: ("dtype", "enum"),
        2: ("tensor_shape", "Shape"),
        8: ("string_val", "bytes*"),
    },
    "Shape": {2: ("dim", "Extent*")},
    "Extent": {1: ("size", "int64"), 2: ("name", "string")},
    "GraphDef": {1: ("node", "Node*"), 4: ("versions", "Versions")},
    "Versions": {1: ("producer", "int64")},
    "Node": {
        1: ("name", "string"),
        2: ("op", "string"),
        3: ("input", "string*"),
        4: ("device", "string"),
        5: ("attr", "Attribute{}"),
    },
    "Attribute": {
        1: ("list", "Attributes"),
        2: ("s", "bytes"),
        3: ("i", "int64"),
        5: ("b", "bool"),
        6: ("type", "enum"),
        7: ("shape", "Shape"),
    },
    "Attributes": {7: ("shape", "Shape*")},
}
