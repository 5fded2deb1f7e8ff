"""Messages by tables: what is written is read, as protobuf's other encodings are."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.io.protobuf import Schema, decode, encode

SCHEMA: Schema = {
    "All": {
        1: ("whole", "int64"),
        2: ("natural", "uint64"),
        3: ("zigzag", "sint64"),
        4: ("flag", "bool"),
        5: ("choice", "enum"),
        6: ("wide", "double"),
        7: ("narrow", "float"),
        8: ("text", "string"),
        9: ("raw", "bytes"),
        10: ("inner", "All"),
        11: ("wholes", "int64*"),
        12: ("naturals", "uint64*"),
        13: ("zigzags", "sint64*"),
        14: ("wides", "double*"),
        15: ("narrows", "float*"),
        16: ("texts", "string*"),
        17: ("inners", "All*"),
        2048: ("by_name", "All{}"),
    }
}
WHOLE = st.integers(-(2**63), 2**63 - 1)
NATURAL = st.integers(0, 2**64 - 1)
WIDE = st.floats(allow_nan=False)
NARROW = st.floats(width=32, allow_nan=False)
PLAIN = {
    "whole": WHOLE, "natural": NATURAL, "zigzag": WHOLE, "flag": st.booleans(),
    "choice": st.integers(0, 9), "wide": WIDE, "narrow": NARROW, "text": st.text(),
    "raw": st.binary(), "wholes": st.lists(WHOLE), "naturals": st.lists(NATURAL),
    "zigzags": st.lists(WHOLE), "wides": st.lists(WIDE), "narrows": st.lists(NARROW),
    "texts": st.lists(st.text(), min_size=1),
}  # fmt: skip
MESSAGES = st.recursive(
    st.fixed_dictionaries({}, optional=PLAIN),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **PLAIN,
            "inner": inner,
            "inners": st.lists(inner, min_size=1, max_size=3),
            "by_name": st.dictionaries(st.text(), inner, min_size=1, max_size=3),
        },
    ),
    max_leaves=4,
)


def plain(message: Any) -> Any:
    """A message with lists in the place of arrays."""
    if isinstance(message, dict):
        return {k: plain(v) for k, v in message.items()}
    if isinstance(message, (list, np.ndarray)):
        return [plain(v) for v in message]
    return message.item() if isinstance(message, np.generic) else message


@given(message=MESSAGES)
def test_what_is_written_is_read(message: dict[str, Any]) -> None:
    raw = encode(SCHEMA, "All", message)
    assert plain(decode(SCHEMA, "All", raw)) == plain(message)


def test_numbers_that_are_not_packed_and_parts_that_are() -> None:
    one = (
        b"\x58\x01"
        + b"\x5a\x02\x02\x03"
        + b"\x58\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    )
    assert decode(SCHEMA, "All", one)["wholes"].tolist() == [1, 2, 3, -1]
    raw = b"\x71" + struct.pack("<d", 0.5) + b"\x72\x08" + struct.pack("<d", 1.5)
    assert decode(SCHEMA, "All", raw)["wides"].tolist() == [0.5, 1.5]


def test_the_last_of_several_counts_and_what_is_unknown_is_passed_over() -> None:
    assert decode(SCHEMA, "All", b"\x08\x01\x08\x02") == {"whole": 2}
    unknown = (
        b"\xa0\x06\x05"
        + b"\xa1\x06"
        + bytes(8)
        + b"\xa2\x06\x01x"
        + b"\xa5\x06"
        + bytes(4)
    )
    assert decode(SCHEMA, "All", unknown + b"\x08\x01") == {"whole": 1}


@pytest.mark.parametrize(
    "raw, said",
    [
        (b"\x52" + b"\x7f" * 1, "ends after its message"),
        (b"\x5a\x01\x80", "ends within a number"),
        (b"\x5a\x0b" + b"\x80" * 10 + b"\x01", "more than 64 bits"),
        (b"\x0b", "wire 3"),
        (b"\x72\x07" + bytes(7), "not of double"),
        (b"\x0a\x01\x01", "one number"),
        (b"\x82\x80\x01\x00", None),
    ],
)
def test_what_is_no_message_is_refused(raw: bytes, said: str | None) -> None:
    if said is None:
        assert decode(SCHEMA, "All", raw) == {"by_name": {"": {}}}
        return
    with pytest.raises(ValueError, match=said):
        decode(SCHEMA, "All", raw)


def test_nesting_ends() -> None:
    raw = b""
    for _ in range(40):
        raw = encode(SCHEMA, "All", {"raw": raw}).replace(b"\x4a", b"\x52", 1)
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(SCHEMA, "All", raw)
    with pytest.raises(KeyError, match="has no 'unknown'"):
        encode(SCHEMA, "All", {"unknown": 1})
