"""The .safetensors format, its header checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from treadle.base import dtypes
from treadle.base.dtypes import DType
from treadle.io.files import check_shape, read_json
from treadle.io.format import MAX_ITEMS, Contents, Format, Item, Listing, Opened

_MAX_HEADER = 100_000_000  # the format's own limit
_CODES: dict[DType, str] = {
    dtypes.bool_: "BOOL",
    dtypes.int8: "I8",
    dtypes.int16: "I16",
    dtypes.int32: "I32",
    dtypes.int64: "I64",
    dtypes.uint8: "U8",
    dtypes.uint16: "U16",
    dtypes.uint32: "U32",
    dtypes.uint64: "U64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}


class SafeTensors(Format):
    """Hugging Face's .safetensors: a header in JSON, then the arrays side by side."""

    name = ".safetensors"
    endings = (".safetensors",)
    dtypes = frozenset(_CODES)
    mappable = True

    def knows(self, lead: bytes) -> bool:
        return lead[8:9] == b"{"

    def listing(self, source: Opened) -> Listing:
        if source.size < 8:
            raise ValueError(f"{source.size} bytes are too few for a .safetensors file")
        length = int.from_bytes(source.take(8, "the header's length"), "little")
        if length > min(_MAX_HEADER, source.size - 8):
            raise ValueError(f"the header of {length} bytes does not fit the file")
        raw = source.take(length, "the header")
        if not raw.startswith(b"{"):
            raise ValueError("the header is not a dictionary")
        header = read_json(raw)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(
            isinstance(value, str) for value in metadata.values()
        ):
            raise ValueError("the metadata is not text by name")
        if len(header) > MAX_ITEMS:
            raise ValueError(f"more than {MAX_ITEMS} arrays are refused")
        begin = 8 + length
        spans = list(_spans(source, header, begin))
        _check_cover(source, spans, begin)
        items = {item.name: item for item, _ in spans}
        return Listing(items, metadata, source.array)

    def write(self, file: BinaryIO, contents: Contents) -> None:
        # Sorted within equal width, widest first, so that every array is aligned.
        arrays = contents.arrays
        order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
        header: dict[str, Any] = {}
        if contents.metadata:
            header["__metadata__"] = dict(sorted(contents.metadata.items()))
        offset = 0
        for name in order:
            array = arrays[name]
            end = offset + array.nbytes
            header[name] = {
                "dtype": _CODES[array.dtype],
                "shape": list(array.shape),
                "data_offsets": [offset, end],
            }
            offset = end
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            flat = arrays[name].reshape(-1)
            file.write(flat.view(np.uint8).data)


def _spans(
    source: Opened, header: dict[str, Any], begin: int
) -> Iterator[tuple[Item, int]]:
    """Each item with the place where its data end."""
    size = source.size - begin
    for name, entry in header.items():
        with source.about(name[:60]):
            if not isinstance(entry, dict) or set(entry) != {
                "dtype",
                "shape",
                "data_offsets",
            }:
                raise ValueError("an entry has a dtype, a shape and data_offsets")
            code, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
            if not isinstance(code, str) or code not in _BY_CODE:
                raise ValueError(f"the dtype {str(code)[:40]!r} is not known")
            if not isinstance(shape, list):
                raise ValueError("the shape is not a list")
            needed = check_shape(shape, _BY_CODE[code])
            if not (
                isinstance(span, list)
                and len(span) == 2
                and all(type(n) is int for n in span)
                and 0 <= span[0] <= span[1] <= size
            ):
                raise ValueError(f"the span {str(span)[:60]} is outside the data")
            if span[1] - span[0] != needed:
                raise ValueError(
                    f"{code}{shape} takes {needed} bytes, not {span[1] - span[0]}"
                )
            item = Item(name, tuple(shape), _BY_CODE[code], begin + span[0])
        yield item, begin + span[1]


def _check_cover(source: Opened, spans: list[tuple[Item, int]], begin: int) -> None:
    """The arrays fill the data, without holes and overlaps."""
    spans = sorted(spans, key=lambda s: (s[0].place, s[1]))
    end = begin
    for item, stop in spans:
        if item.place != end:
            with source.about(item.name[:60]):
                raise ValueError("its data overlap others or leave a hole")
        end = stop
    if end != source.size:
        raise ValueError(
            f"the data are {source.size - begin} bytes, the header names {end - begin}"
        )
