"""The pickle of a dict of tensors, as torch.save writes one."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from treadle.io.torch.pickle import STORAGES

_STORAGE = {dtype: name for name, dtype in STORAGES.items()}
_START, _STOP, _MARK, _NONE = b"\x80\2}(", b"u.", b"(", b"N"
_EMPTY, _CALL, _STORED, _TUPLE, _FALSE = b")", b"R", b"Q", b"t", b"\x89"


def written(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The codes of a dict of the arrays, each in a storage of its number.

    >>> from treadle.io.torch.pickle import loads
    >>> loads(written({"w": np.zeros((2, 3), "f4")}))["w"].shape
    (2, 3)
    """
    parts = [_START]
    for k, (name, array) in enumerate(arrays.items()):
        shape = array.shape
        strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        kind = _global("torch", _STORAGE[array.dtype.newbyteorder("=")])
        key, place = _text(str(k)), _text("cpu")
        storage = [_MARK, _text("storage"), kind, key, place, _number(array.size)]
        parts += [_text(name), _global("torch._utils", "_rebuild_tensor_v2"), _MARK]
        parts += [*storage, _TUPLE, _STORED, _number(0), _numbers(shape)]
        parts += [_numbers(strides), _FALSE]
        parts += [_global("collections", "OrderedDict"), _EMPTY, _CALL, _TUPLE, _CALL]
    return b"".join([*parts, _STOP])


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    raw = text.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def _number(value: int) -> bytes:
    if value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _numbers(values: tuple[int, ...]) -> bytes:
    return b"".join([_MARK, *map(_number, values), _TUPLE])
