"""The cache of attention: keys and values of earlier steps, with room for more."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.create import zeros
from treadle.ops.join import concat
from treadle.ops.select import where

BLOCK = 32  # places of room made at once: as many steps run one program
State = dict[str, Any]


def empty(rows: int, heads: int, width: int, dtype: Any) -> State:
    """No places yet, of `rows` sequences."""
    none = zeros((rows, heads, 0, width), dtype)
    return {"place": 0, "keys": none, "values": none}


def extended(state: State, keys: Tensor, values: Tensor) -> State:
    """The state with keys and values [rows, heads, new, width] behind it."""
    place, new = state["place"], keys.shape[2]
    return {
        "place": place + new,
        "keys": _written(as_tensor(state["keys"]), keys, place),
        "values": _written(as_tensor(state["values"]), values, place),
    }


def seen(state: State, queries: int) -> np.ndarray[Any, Any]:
    """The causal mask of the last `queries` places: bool[queries, capacity]."""
    capacity = state["keys"].shape[2]
    places = np.arange(state["place"] - queries, state["place"])
    return np.arange(capacity) <= places[:, None]


def _written(old: Tensor, new: Tensor, place: int) -> Tensor:
    """`new` at the places from `place` on; `place` is data, so steps look alike."""
    rows, heads, count, width = new.shape
    capacity = max(old.shape[2], -(-(place + count) // BLOCK) * BLOCK)
    if capacity > old.shape[2]:
        more = zeros((rows, heads, capacity - old.shape[2], width), new.dtype)
        old = concat([old, more], 2) if old.shape[2] else more
    ahead = np.arange(capacity) - place
    if count > 1:
        new = functions.take(new, np.clip(ahead, 0, count - 1), axis=2)
    fresh = as_tensor(((ahead >= 0) & (ahead < count))[:, None])
    return where(fresh, new, old)
