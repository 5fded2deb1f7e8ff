"""The device of the array API standard: where a value is for who looks at it."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError

HOST = "cpu"


def as_device(device: Any) -> str:
    """The device behind a `device=` argument; there is but one that users see.

    >>> as_device(None), as_device("cpu")
    ('cpu', 'cpu')
    """
    if device is None or (isinstance(device, str) and device == HOST):
        return HOST
    raise ArgumentError(
        f"values are on the device {HOST!r}, not on {device!r}",
        hint="td.options(engine=...) chooses what computes them",
    )
