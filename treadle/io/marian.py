"""Marian's .bin: headers, names, shapes, aligned arrays; sealed by AES-256-GCM."""

from __future__ import annotations

import hashlib
import io
import math
import secrets
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from treadle.base import dtypes
from treadle.base.arrays import Array
from treadle.base.dtypes import DType
from treadle.base.errors import ArgumentError
from treadle.base.extras import extra
from treadle.io.files import check_name, check_shape
from treadle.io.format import (
    MAX_ITEMS,
    MAX_TEXT,
    SPECIAL,
    Contents,
    Format,
    Item,
    Listing,
    Opened,
    by_name,
    special_text,
)

_NONCE, _TAG = 12, 16  # bytes


class Seal:
    """A key: the SHA-256 of what somebody has as such, text or the bytes of a file.

    What is sealed is a nonce, the ciphertext and a tag by which a change is noticed.
    """

    def __init__(self, key: str | bytes) -> None:
        if not isinstance(key, (str, bytes)) or not key:
            raise ArgumentError(
                "key is text or bytes, the contents of a key file and not its name"
            )
        ciphers = extra("cryptography.hazmat.primitives.ciphers.aead", "crypt")
        self._wrong: Any = extra("cryptography.exceptions", "crypt").InvalidTag
        raw = key.encode() if isinstance(key, str) else key
        self._cipher = ciphers.AESGCM(hashlib.sha256(raw).digest())

    def close(self, plain: bytes) -> bytes:
        """The bytes under the key; others at each call."""
        nonce = secrets.token_bytes(_NONCE)
        sealed: bytes = self._cipher.encrypt(nonce, plain, None)
        return nonce + sealed

    def open(self, sealed: bytes) -> bytes:
        """The plain text that `close` encrypted; ValueError under another key."""
        if len(sealed) < _NONCE + _TAG:
            raise ValueError("what is encrypted is too short to be")
        try:
            plain: bytes = self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except self._wrong:
            raise ValueError(
                "it was encrypted under another key, or changed since"
            ) from None
        return plain


_Head = tuple[str, int, tuple[int, ...], int]

_PLAIN, _ENCRYPTED = 1, 2  # versions
_BOUNDARY = 256
_LONGEST_NAME = 5000
_LARGEST_EXTENT = (1 << 31) - 1
_SIGNED, _UNSIGNED, _FLOAT = 0x100, 0x200, 0x400  # classes, with the bytes added
_CODES: dict[DType, int] = {
    dtypes.int8: _SIGNED + 1,
    dtypes.int16: _SIGNED + 2,
    dtypes.int32: _SIGNED + 4,
    dtypes.int64: _SIGNED + 8,
    dtypes.uint8: _UNSIGNED + 1,
    dtypes.uint16: _UNSIGNED + 2,
    dtypes.uint32: _UNSIGNED + 4,
    dtypes.uint64: _UNSIGNED + 8,
    dtypes.float16: _FLOAT + 2,
    dtypes.float32: _FLOAT + 4,
    dtypes.float64: _FLOAT + 8,
}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}
_PACKED = 0x1F800  # in layouts of one kind of processor


class Marian(Format):
    """The format of Marian's model.bin, which it maps into memory.

    Arrays named "special:..." are text, such as the settings in special:model.yml;
    they are the metadata here, without the "special:". Under a key the header is
    encrypted, which tells names, types and shapes, and the arrays are shuffled; what
    they hold is not.
    """

    name = ".bin"
    endings = (".bin",)
    dtypes = frozenset(_CODES)
    mappable = True

    def __init__(self, seal: Seal | None = None) -> None:
        self.seal = seal

    def under(self, key: str | bytes) -> Marian:
        return Marian(Seal(key))

    def knows(self, lead: bytes) -> bool:
        return len(lead) >= 8 and lead[:8] in (_u64(_PLAIN), _u64(_ENCRYPTED))

    def listing(self, source: Opened) -> Listing:
        heads = self._headers(source)
        items: list[Item] = []
        text: list[Item] = []
        place = _data(source)
        for name, code, shape, length in heads:
            with source.about(name[:60]):
                if code not in _BY_CODE:
                    raise ValueError(_unknown(code))
                needed = check_shape(shape, _BY_CODE[code])
                if length < needed or length - needed >= _BOUNDARY:
                    raise ValueError(
                        f"{_BY_CODE[code].name}{list(shape)} takes {needed} bytes, "
                        f"the header says {length}"
                    )
                if length > source.size - place:
                    raise ValueError(
                        f"its {length} bytes at {place} are outside the file of "
                        f"{source.size}"
                    )
                kind = text if name.startswith(SPECIAL) else items
                kind.append(Item(name, shape, _BY_CODE[code], place))
            place += length
        if place != source.size:
            raise ValueError(f"the headers name {place} bytes, the file has more")
        metadata = {
            name.removeprefix(SPECIAL): _text(source, item)
            for name, item in by_name(text, source).items()
        }
        return Listing(by_name(items, source), metadata, source.array)

    def _headers(self, source: Opened) -> list[_Head]:
        """The headers of the arrays; then the file is at the gap before the data."""
        (version,) = struct.unpack("<Q", source.take(8, "the version"))
        if version == _PLAIN:
            return list(_heads(source))
        if version != _ENCRYPTED:
            raise ValueError(
                f"this is not version {_PLAIN} or {_ENCRYPTED} of Marian's .bin "
                "(td.data.read_vectors reads word2vec's)"
            )
        if self.seal is None:
            raise ValueError("the file is encrypted; pass the key= it was written with")
        (length,) = struct.unpack("<Q", source.take(8, "the length of the header"))
        header = self.seal.open(source.take(length, "the header"))
        inside = Opened(io.BytesIO(header), source.about)
        heads = list(_heads(inside))
        if inside.file.tell() != inside.size:
            raise ValueError("the header has more than its arrays")
        return heads

    def check(self, name: str, array: Array) -> None:
        super().check(name, array)
        if name.startswith(SPECIAL):
            raise ValueError(f"{name!r}: such names are for text; pass it as metadata")
        if any(n > _LARGEST_EXTENT for n in array.shape):
            raise ValueError(f"{name!r}: .bin has no extents over {_LARGEST_EXTENT}")

    def write(self, file: BinaryIO, contents: Contents) -> None:
        ready = dict(contents.arrays)
        for key, text in contents.metadata.items():
            check_name(SPECIAL + key)
            raw = text.encode()
            if b"\0" in raw:
                raise ValueError(f"the text {key!r} holds a NUL, which ends text here")
            # Marian's own text fills whole blocks, with a NUL at its end.
            raw += bytes(_padded(len(raw) + 1) - len(raw))
            ready[SPECIAL + key] = np.frombuffer(raw, np.int8)
        if self.seal is None:
            head = _u64(_PLAIN) + _header(ready)
        else:
            order = list(ready)
            secrets.SystemRandom().shuffle(order)
            ready = {name: ready[name] for name in order}
            sealed = self.seal.close(_header(ready))
            head = _u64(_ENCRYPTED, len(sealed)) + sealed
        gap = _BOUNDARY - (len(head) + 8) % _BOUNDARY
        file.write(head + _u64(gap) + bytes(gap))
        for array in ready.values():
            file.write(array.reshape(-1).view(np.uint8).data)
            file.write(bytes(_padded(array.nbytes) - array.nbytes))


def _header(arrays: dict[str, Array]) -> bytes:
    """The number of arrays, a row of numbers for each, all names, all shapes."""
    head = _u64(len(arrays))
    for name, array in arrays.items():
        code, length = _CODES[array.dtype], _padded(array.nbytes)
        head += _u64(len(name.encode()) + 1, code, array.ndim, length)
    head += b"".join(name.encode() + b"\0" for name in arrays)
    return head + b"".join(np.array(a.shape, "<i4").tobytes() for a in arrays.values())


def _u64(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def _padded(length: int) -> int:
    return -(-length // _BOUNDARY) * _BOUNDARY


def _unknown(code: int) -> str:
    if code & _PACKED:
        return (
            f"the type 0x{code:x} is packed for one kind of processor; save the model "
            "with plain weights in Marian"
        )
    return f"the type 0x{code:x} is not known"


def _heads(source: Opened) -> Iterator[_Head]:
    """Name, type code, shape and length of each array."""
    (count,) = struct.unpack("<Q", source.take(8, "the number of arrays"))
    if count > min(MAX_ITEMS, source.size // 32):
        raise ValueError(f"{count} arrays are not in {source.size} bytes")
    raw = source.take(32 * count, "the headers")
    heads = list(struct.iter_unpack("<4Q", raw))
    if sum(head[0] for head in heads) > source.size:
        raise ValueError("the names are longer than the file")
    names = []
    for number, (length, *_) in enumerate(heads, 1):
        with source.about(f"array {number}"):
            if not 2 <= length <= _LONGEST_NAME:
                raise ValueError(f"a name of {length} bytes is refused")
            text = source.take(length, "the name")
            if text[-1] or b"\0" in text[:-1]:
                raise ValueError("its name does not end where it should")
            try:
                names.append(text[:-1].decode())
            except UnicodeDecodeError:
                raise ValueError("its name is not UTF-8") from None
    for name, (_, code, ndim, length) in zip(names, heads, strict=True):
        with source.about(name[:60]):
            if ndim > 32:
                raise ValueError(f"{ndim} dimensions are too many")
            shape = struct.unpack(f"<{ndim}i", source.take(4 * ndim, "the shape"))
        yield name, code, shape, length


def _data(source: Opened) -> int:
    """The offset of the first array: after a gap that says its own length."""
    (gap,) = struct.unpack("<Q", source.take(8, "the gap before the data"))
    begin = source.file.tell() + gap
    if begin > source.size:
        raise ValueError(f"the data begin at {begin}, outside of {source.size} bytes")
    return int(begin)


def _text(source: Opened, item: Item) -> str:
    with source.about(item.name):
        if math.prod(item.shape) > MAX_TEXT:
            raise ValueError(f"text of {item.nbytes} bytes is too long")
        return special_text(item.name, source.array(item))
