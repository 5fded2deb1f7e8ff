"""Messages of Protocol Buffers, by tables: what is read is checked before it is made.

A schema has, by message, the fields by number: a name and a kind. Kinds are those of
.proto files (int64, uint64, sint64, bool, enum, double, float, string, bytes), names of
messages, and with a star after them any number; "{}" after a message is a map from
text. A message is a dict of the fields that are there; any number of numbers is an
array.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array

Schema = Mapping[str, Mapping[int, tuple[str, str]]]

_VARINTS = {"int64", "uint64", "sint64", "bool", "enum"}
_FIXED = {"double": (1, "<d"), "float": (5, "<f")}
_DEEPEST = 32
_MOST_FIELDS = 1 << 19  # each becomes an object of some 100 bytes
_LARGEST_NUMBER = (1 << 29) - 1  # of a field
_WIRES = {0: "a number", 1: "8 bytes", 2: "bytes", 5: "4 bytes"}


# -- writing -----------------------------------------------------------------------


def encode(schema: Schema, name: str, message: Mapping[str, Any]) -> bytes:
    """The bytes of a message; each field that the dict has is written, zero or not.

    >>> encode({"Point": {1: ("x", "int64"), 2: ("tags", "string*")}}, "Point",
    ...        {"x": 3, "tags": ["a"]})
    b'\\x08\\x03\\x12\\x01a'
    """
    parts: list[bytes] = []
    unknown = set(message)
    for number, (field, kind) in schema[name].items():
        if field in message:
            unknown.discard(field)
            parts += _written(schema, number, kind, message[field])
    if unknown:
        raise KeyError(f"{name} has no {min(unknown)!r}")
    return b"".join(parts)


def _written(schema: Schema, number: int, kind: str, value: Any) -> Iterator[bytes]:
    if kind.endswith("{}"):
        for key, each in value.items():
            pair = _sized(1, key.encode())
            pair += _sized(2, encode(schema, kind[:-2], each))
            yield _sized(number, pair)
    elif kind.endswith("*") and kind[:-1] in _FIXED:
        packed = np.asarray(value, _FIXED[kind[:-1]][1])
        yield _sized(number, packed.tobytes())
    elif kind.endswith("*") and kind[:-1] in _VARINTS:
        yield _sized(number, b"".join(_varint(_signed(kind[:-1], n)) for n in value))
    elif kind.endswith("*"):
        for each in value:
            yield from _written(schema, number, kind[:-1], each)
    elif kind in _VARINTS:
        yield _varint(number << 3) + _varint(_signed(kind, value))
    elif kind in _FIXED:
        wire, form = _FIXED[kind]
        yield _varint(number << 3 | wire) + struct.pack(form, value)
    elif kind in ("string", "bytes"):
        yield _sized(number, value.encode() if kind == "string" else bytes(value))
    else:
        yield _sized(number, encode(schema, kind, value))


def _sized(number: int, raw: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(raw)) + raw


def _signed(kind: str, n: Any) -> int:
    """A whole number as its 64 bits go."""
    n = int(n)
    if kind == "sint64":
        n = (n << 1) ^ (n >> 63)
    return n & ((1 << 64) - 1)


def _varint(n: int) -> bytes:
    encoded = bytearray()
    while n > 127:
        encoded.append(n & 127 | 128)
        n >>= 7
    encoded.append(n)
    return bytes(encoded)


# -- reading -----------------------------------------------------------------------


def decode(schema: Schema, name: str, raw: bytes | memoryview) -> dict[str, Any]:
    """The message that bytes are; raises ValueError that names the field.

    Fields that the schema does not have are passed over.

    >>> decode({"Point": {1: ("x", "int64"), 2: ("tags", "string*")}}, "Point",
    ...        b"\\x08\\x03\\x12\\x01a")
    {'x': 3, 'tags': ['a']}
    """
    return _Reader(schema).message(name, memoryview(raw), 0)


class _Reader:
    """One reading, which counts what it makes."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.left = schema, _MOST_FIELDS

    def fields(
        self, name: str, known: Mapping[int, tuple[str, str]], raw: memoryview
    ) -> Iterator[tuple[str, str, int, Any]]:
        """Name, kind, wire type and payload of each field that is known."""
        place = 0
        while place < len(raw):
            key, place = _read_varint(raw, place, name)
            number, wire = key >> 3, key & 7
            if not 0 < number <= _LARGEST_NUMBER or wire not in _WIRES:
                raise ValueError(f"{name} has a field of number {number}, wire {wire}")
            field, kind = known.get(number, (f"field {number}", ""))
            value, place = _payload(raw, place, wire, f"{name}.{field}")
            self.left -= 1
            if self.left < 0:
                raise ValueError(f"more than {_MOST_FIELDS} fields are refused")
            if kind:
                yield field, kind, wire, value

    def message(self, name: str, raw: memoryview, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise ValueError(f"{name} is nested too deeply")
        known, message = self.schema[name], dict[str, Any]()
        for field, kind, wire, value in self.fields(name, known, raw):
            self.take(message, f"{name}.{field}", kind, wire, value, depth)
        for field, kind in known.values():
            if field in message and _is_array(kind):
                message[field] = np.concatenate(message[field])
        return message

    def take(
        self,
        message: dict[str, Any],
        where: str,
        kind: str,
        wire: int,
        value: Any,
        depth: int,
    ) -> None:
        """Put what a field holds into the message."""
        field = where.partition(".")[2]
        if kind.endswith("{}"):
            pair = self.pair(where, kind[:-2], wire, value, depth)
            message.setdefault(field, {})[pair[0]] = pair[1]
        elif _is_array(kind):
            message.setdefault(field, []).append(
                _numbers(kind[:-1], wire, value, where)
            )
        elif kind.endswith("*"):
            one = self.one(where, kind[:-1], wire, value, depth)
            message.setdefault(field, []).append(one)
        else:
            message[field] = self.one(where, kind, wire, value, depth)

    def one(self, where: str, kind: str, wire: int, value: Any, depth: int) -> Any:
        if kind in _VARINTS or kind in _FIXED:
            if wire == 2:
                raise ValueError(f"{where} is one number")
            only: Any = _numbers(kind, wire, value, where)[0]
            return bool(only) if kind == "bool" else only.item()
        if wire != 2:
            raise ValueError(f"{where} is not {_WIRES[wire]}")
        if kind == "bytes":
            return bytes(value)
        if kind == "string":
            try:
                return str(value, "utf-8")
            except UnicodeDecodeError:
                raise ValueError(f"{where} is not UTF-8") from None
        return self.message(kind, value, depth + 1)

    def pair(
        self, where: str, kind: str, wire: int, value: Any, depth: int
    ) -> tuple[str, Any]:
        """An entry of a map: a message of a key and a value."""
        if wire != 2:
            raise ValueError(f"{where} is not {_WIRES[wire]}")
        key, of = "", dict[str, Any]()
        parts = {1: ("key", "string"), 2: ("value", kind)}
        for field, each, inner_wire, raw in self.fields(where, parts, value):
            one = self.one(f"{where}.{field}", each, inner_wire, raw, depth + 1)
            key, of = (one, of) if field == "key" else (key, one)
        return key, of


def _is_array(kind: str) -> bool:
    """Whether a field holds any number of numbers."""
    return kind.endswith("*") and (kind[:-1] in _VARINTS or kind[:-1] in _FIXED)


def _payload(raw: memoryview, place: int, wire: int, where: str) -> tuple[Any, int]:
    """The payload behind a key, and the place of the next key."""
    if wire == 0:
        return _read_varint(raw, place, where)
    if wire == 2:
        size, place = _read_varint(raw, place, where)
    else:
        size = 8 if wire == 1 else 4
    if size > len(raw) - place:
        raise ValueError(f"{where} of {size} bytes ends after its message")
    return raw[place : place + size], place + size


def _read_varint(raw: memoryview, place: int, where: str) -> tuple[int, int]:
    number = 0
    for k in range(10):
        if place >= len(raw):
            raise ValueError(f"{where} ends within a number")
        byte = raw[place]
        place += 1
        number |= (byte & 127) << 7 * k
        if byte < 128:
            return number & ((1 << 64) - 1), place
    raise ValueError(f"{where} has a number of more than 64 bits")


def _numbers(kind: str, wire: int, value: Any, where: str) -> Array:
    """The numbers of a field: one, or as many as are packed in bytes."""
    if kind in _FIXED:
        fixed_wire, form = _FIXED[kind]
        if wire not in (fixed_wire, 2) or len(value) % (8 if fixed_wire == 1 else 4):
            raise ValueError(f"{where} is not of {kind}")
        return np.frombuffer(value, form)
    if wire not in (0, 2):
        raise ValueError(f"{where} is not {_WIRES[wire]}")
    many = _unpacked(value, where) if wire == 2 else np.array([value], np.uint64)
    if kind == "sint64":
        half, odd = many >> np.uint64(1), (many & np.uint64(1)).astype(np.int64)
        return half.astype(np.int64) ^ -odd
    return many if kind == "uint64" else many.view(np.int64)


def _unpacked(raw: Sequence[int], where: str) -> Array:
    """Packed whole numbers, read together: byte k of each at once."""
    octets = np.frombuffer(raw, np.uint8)  # type: ignore[call-overload]
    ends = np.flatnonzero(octets < 128)
    if not len(octets):
        return np.empty(0, np.uint64)
    if not len(ends) or ends[-1] != len(octets) - 1:
        raise ValueError(f"{where} ends within a number")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise ValueError(f"{where} has a number of more than 64 bits")
    numbers = np.zeros(len(ends), np.uint64)
    for k in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > k)
        part = (octets[starts[longer] + k] & 127).astype(np.uint64)
        numbers[longer] |= part << np.uint64(7 * k)
    return numbers
