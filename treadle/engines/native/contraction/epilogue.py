"""What happens to a finished vector of C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..builder import Builder, Value

__all__ = ["Epilogue", "Site", "store"]


@dataclass(frozen=True)
class Site:
    """Where a finished vector of C belongs, and what the epilogue was given.

    The vector holds columns `column`, `column` + 1, ... of one row of one batch
    element; `mask` tells the valid lanes, None when all are. `c` points at the first of
    them in C, whose columns lie `step` elements apart (None when side by side).
    """

    batch: Value
    row: Value
    column: Value
    mask: Value | None
    c: Value
    step: Value | None
    pointers: tuple[Value, ...]
    integers: tuple[Value, ...]


@dataclass(frozen=True)
class Epilogue:
    """Code called once for each finished vector, in place of the store to C.

    `key` names the code: two epilogues of one key must emit the same text. It gets
    `pointers` pointers and `integers` i64 of its own from the kernel's arguments.
    """

    key: str
    emit: Callable[[Builder, Value, Site], None]
    pointers: int = 0
    integers: int = 0


def store(b: Builder, x: Value, site: Site) -> None:
    """Write a finished vector to C."""
    if site.step is not None:
        count = int(x.type[1:].split()[0])
        shift = b.mul(b.sequence("i64", count), b.splat(site.step, count))
        kind = x.type.split()[-1].rstrip(">")
        mask = site.mask or b.constant(f"<{count} x i1>", 1)
        b.scatter(x, b.offset(site.c, shift, kind), mask)
    elif site.mask is not None:
        b.masked_store(x, site.c, site.mask)
    else:
        b.store(x, site.c)
