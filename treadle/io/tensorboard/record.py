"""Records of an event file: a length and bytes, each with a masked CRC-32C."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from treadle.io.format import Opened

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
