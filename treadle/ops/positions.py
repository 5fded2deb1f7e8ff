"""Whole numbers of a key as data: positions that the structure does not tell apart."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.types import Type
from treadle.graph.frame import top
from treadle.graph.leaves import INTEGER, integer_node
from treadle.graph.origin import is_key_written
from treadle.graph.tensor import Tensor
from treadle.ops.gather import Index

WHOLE = (int, np.integer)


def is_number(item: Any) -> bool:
    """Return True for a whole number, which a bool is not."""
    return isinstance(item, WHOLE) and type(item) is not bool


def has_data(key: Any) -> bool:
    """True if whole numbers in the key of a part to be changed are data: those that are
    computed, of a program that is not traced."""
    items = key if type(key) is tuple else (key,)
    if top().tracing or not any(map(is_number, items)):
        return False
    return not is_key_written(sys._getframe(1))


def places(key: Any, t: Type) -> list[Tensor] | None:
    """The positions of a part by whole numbers alone, as data; None of another key."""
    numbers, shape = key if type(key) is tuple else (key,), t.shape
    if len(numbers) > len(shape):
        return None
    positions = []
    for k, n in zip(numbers, shape, strict=False):
        if (type(k) is not int and not is_number(k)) or not -n <= k < n:
            return None
        positions.append(integer_node(int(k)))
    return positions


@cached(4096)
def part_at(t: Type, count: int) -> tuple[Index, Type]:
    """A part of a type by positions along the first axes, and its type."""
    op = Index(tuple(range(count)))
    return op, op.infer(t, *[INTEGER] * count)
