"""FlatBuffers that lie, for the table of hostile files."""

from __future__ import annotations

import struct
from collections.abc import Sequence

__all__ = ["SERRANO"]

Rows = dict[str, tuple[bytes, str, str]]


def flat(
    *,
    root: int = 12,
    back: int = 8,
    layout: Sequence[int] = (6, 8, 4),
    tensors: int = 4,
    count: int = 1,
    own: Sequence[int] = (10, 16, 4, 8, 12),
    uid: bytes = b"a",
    uid_length: int | None = None,
    values: int = 2,
    shape: Sequence[int] = (2,),
    data: bytes = b"\0" * 8,
    to: Sequence[int | None] = (None, None, None),
) -> bytes:
    """One tensor "a" of two values, laid out by hand; each number may be another.

    4: root's layout, 12: root, 20: the vector, 28: the tensor's layout, 40: the tensor,
    then its uid, shape and values.
    """
    raw = struct.pack("<I", root) + struct.pack("<3H2x", *layout)
    raw += struct.pack("<iI", back, tensors) + struct.pack("<2I", count, 16)
    raw += struct.pack("<5H2x", *own)
    text = struct.pack("<I", len(uid) if uid_length is None else uid_length) + uid
    text += b"\0" * (4 - len(text) % 4)
    extents = struct.pack(f"<{1 + len(shape)}I", len(shape), *shape)
    at = len(raw) + 16
    places = [at, at + len(text) + len(extents), at + len(text)]
    offsets = [p - (at - 12) - 4 * k for k, p in enumerate(places)]
    given = [o if t is None else t for o, t in zip(offsets, to, strict=True)]
    raw += struct.pack("<i3I", 12, *given) + text + extents
    return raw + struct.pack("<I", values) + data


SERRANO: Rows = {
    "empty": (b"", "", "the root is at 0, outside 0 bytes"),
    "root of zero": (flat(root=0), "", "the root is nowhere"),
    "root outside": (flat(root=2**32 - 1), "", "the root is at"),
    "layout before the file": (flat(back=100), "", "the layout of the root is at"),
    "layout after the file": (flat(back=-(2**31)), "", "the layout of the root is at"),
    "layout of two bytes": (flat(layout=(2, 8, 4)), "", "layout of the root has 2"),
    "layout of odd bytes": (flat(layout=(7, 8, 4)), "", "layout of the root has 7"),
    "field before its table": (flat(layout=(6, 8, 2)), "", "outside of it"),
    "field after its table": (flat(layout=(6, 8, 8)), "", "outside of it"),
    "tensors nowhere": (flat(tensors=0), "", "the tensors is nowhere"),
    "tensors outside": (flat(tensors=2**31), "", "the tensors is at"),
    "more tensors than bytes": (flat(count=2**30), "", "end outside the file"),
    "no uid": (flat(own=(4, 16, 0, 0, 0)), "tensor 1", "no uid"),
    "uid outside": (flat(to=(2**31, None, None)), "tensor 1", "the uid is at"),
    "uid too long": (flat(uid_length=2**20), "tensor 1", "end outside the file"),
    "long uid": (flat(uid=b"a" * 5000), "tensor 1", "5000 bytes is refused"),
    "uid not UTF-8": (flat(uid=b"\xff"), "tensor 1", "not UTF-8"),
    "empty uid": (flat(uid=b""), "''", "not a name"),
    "path": (flat(uid=b"../a"), "../a", "not a name"),
    "root path": (flat(uid=b"/a"), "/a", "not a name"),
    "dunder": (flat(uid=b"__class__"), "__class__", "not a name"),
    "NUL": (flat(uid=b"a\0b"), "a", "not a name"),
    "values outside": (flat(to=(None, 2**31, None)), "a", "the values is at"),
    "too many values": (flat(values=3), "a", "end outside the file"),
    "values overflow": (flat(values=2**32 - 1), "a", "end outside the file"),
    "values cut off": (flat()[:-1], "a", "end outside the file"),
    "another shape": (flat(shape=(3,)), "a", "2 values are not [3]"),
    "shape overflows": (flat(shape=(2**31, 2**31, 0, 2**31)), "a", "2 values are not"),
    "many dimensions": (flat(shape=(1,) * 33), "a", "33 dimensions are too many"),
    "shape outside": (flat(to=(None, None, 2**31)), "a", "the shape is at"),
}


def twice() -> bytes:
    """Two tensors that are one table."""
    raw = bytearray(flat())
    raw[20:28] = struct.pack("<2I", 2, 20)
    raw[28:28] = struct.pack("<I", 16)  # both refer to the table, which moved by 4
    return bytes(raw)


SERRANO["given twice"] = (twice(), "a", "the name is given twice")
