"""The epilogue of a product: work on a finished vector of C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.engines.native.codegen.builder import Builder, Value, lanes, vector


@dataclass(frozen=True)
class Site:
    """The site of a finished vector of C, and the operands of the epilogue there.

    The vector holds columns `column`, `column` + 1, ... of one row of one batch
    element; `mask` tells the valid lanes, None when all are. `c` points at the first of
    them in C, whose columns lie `step` bytes apart (None when side by side).
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
    `pointers` pointers and `integers` i64 of its own from the kernel's arguments. One
    that `lasts` has a key that names the same code in every process.
    """

    key: str
    emit: Callable[[Builder, Value, Site], None]
    pointers: int = 0
    integers: int = 0
    lasts: bool = False


def store(b: Builder, x: Value, site: Site) -> None:
    """Write a finished vector to C."""
    if site.step is not None:
        b.scatter(x, *_lanes(b, x.type, site))
    else:
        b.masked_store(x, site.c, site.mask)


def read(b: Builder, kind: str, site: Site) -> Value:
    """The vector of type `kind` in C where a finished one goes."""
    if site.step is not None:
        return b.gather(kind, *_lanes(b, kind, site))
    return b.masked_load(kind, site.c, site.mask)


def _lanes(b: Builder, kind: str, site: Site) -> tuple[Value, Value]:
    """The addresses of the lanes in C, and which are valid."""
    assert site.step is not None
    count = lanes(kind)
    steps = b.mul(b.sequence("i64", count), b.splat(site.step, count))
    mask = site.mask or b.constant(vector("i1", count), 1)
    return b.offset(site.c, steps, "i8"), mask
