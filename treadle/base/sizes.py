"""Bytes as people write and read them."""

from __future__ import annotations

import re

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


def as_text(count: float) -> str:
    """Bytes as people read them.

    >>> as_text(33_554_432), as_text(4096), as_text(12)
    ('33.6 MB', '4.1 kB', '12 B')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def as_bytes(text: str) -> int | None:
    """The bytes that a text such as "512 MB" or "1.5GiB" names; None if it names none.

    >>> as_bytes("512 MB"), as_bytes("1.5GiB"), as_bytes("4096"), as_bytes("much")
    (512000000, 1610612736, 4096, None)
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    number, unit, binary = match[1], match[2].lower(), bool(match[3])
    if binary and not unit:
        return None
    power = "kmgt".index(unit) + 1 if unit else 0
    size = 1024**power if binary else UNITS[unit]
    return round(float(number) * size) if "." in number else int(number) * size
