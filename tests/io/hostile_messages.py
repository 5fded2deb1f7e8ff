"""Event files and messages of Protocol Buffers that lie."""

from __future__ import annotations

from treadle.io.tensorboard.record import framed

__all__ = ["EVENTS", "RECORDS", "sized"]


def varint(n: int) -> bytes:
    found = b""
    while n > 127:
        found += bytes([n & 127 | 128])
        n >>= 7
    return found + bytes([n])


def sized(number: int, raw: bytes, length: int | None = None) -> bytes:
    """A field of bytes, of any length it says."""
    size = len(raw) if length is None else length
    return varint(number << 3 | 2) + varint(size) + raw


def summary(raw: bytes) -> bytes:
    return framed(sized(5, sized(1, raw)))


# Bytes of a record, one wrong thing each; the fuzzer frames and mutates them too.
RECORDS: dict[str, bytes] = {
    "key cut off": b"\x80",
    "endless number": b"\x10" + b"\xff" * 11,
    "group": b"\x0b\x0c",
    "wire type 7": b"\x0f",
    "field zero": b"\x00\x01",
    "large field": varint(1 << 34) + b"\x01",
    "bytes beyond the end": sized(3, b"ab", 100),
    "bytes overflow": sized(3, b"ab", 2**63),
    "double cut off": b"\x09\0\0",
    "text is a number": b"\x18\x01",
    "number is text": sized(2, b"\x01"),
    "not UTF-8": sized(3, b"\xff"),
    "double of 4 bytes": b"\x0d\0\0\0\0",
    "summary is a number": b"\x28\x01",
}
_SAID = {
    "key cut off": "ends within a number",
    "endless number": "more than 64 bits",
    "group": "wire 3",
    "wire type 7": "wire 7",
    "field zero": "number 0",
    "large field": "has a field of number",
    "bytes beyond the end": "Event.file_version of 100 bytes ends after",
    "bytes overflow": "ends after its message",
    "double cut off": "Event.wall_time of 8 bytes ends after",
    "text is a number": "Event.file_version is not a number",
    "number is text": "Event.step is one number",
    "not UTF-8": "Event.file_version is not UTF-8",
    "double of 4 bytes": "Event.wall_time is not of double",
    "summary is a number": "Event.summary is not a number",
}
GOOD = framed(b"\x10\x01")
EVENTS: dict[str, tuple[bytes, str, str]] = {
    **{case: (GOOD + framed(raw), "record 2", _SAID[case])
       for case, raw in RECORDS.items()},
    "no log": (b"this is a text of some length", "record 1", "does not agree"),
    "length changed": (b"\x05" + GOOD[1:], "record 1", "agree with its sum"),
    "bytes changed": (GOOD[:12] + b"\x11" + GOOD[13:], "record 1", "their sum"),
    "sum changed": (GOOD[:-1] + b"\0", "record 1", "their sum"),
    "buckets cut off": (
        summary(sized(5, sized(6, b"\0" * 7))), "record 1", "Histogram.bucket_limit"
    ),
    "graph is none": (framed(sized(4, b"\xff")), "record 1", "GraphDef"),
    "attribute without a key": (
        framed(sized(4, sized(1, sized(5, b"\x08\x01")))), "record 1", "Node.attr.key"
    ),
    "millions of fields": (
        framed(sized(5, b"\x0a\0" * 75_000)), "record 1", "fields are refused"
    ),
    "an extent that ends": (
        summary(sized(8, sized(2, sized(2, b"\x08")))), "record 1", "ends within"
    ),
}  # fmt: skip
