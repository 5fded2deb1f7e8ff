"""Axis names in files: one text among a file's metadata, in every format alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from treadle.base.errors import ArgumentError, AxisError
from treadle.base.types import Names, as_names
from treadle.io.files import read_json
from treadle.io.format import AXES, MAX_TEXT, Item, Listing, Opened

_LONGEST = 1024


def written(axes: Mapping[str, Names]) -> dict[str, str]:
    """The metadata that keep these names; none where there are none.

    >>> written({"w": ("n", None)})
    {'treadle.axes': '{"w": ["n", null]}'}
    """
    for name, names in axes.items():
        if any(axis is not None and len(axis) > _LONGEST for axis in names):
            raise ValueError(f"{name!r}: an axis has a name of over {_LONGEST} letters")
    return {AXES: json.dumps(dict(axes), sort_keys=True)} if axes else {}


def named(source: Opened, listing: Listing) -> Listing:
    """The listing with the axis names that its metadata hold, which leave those."""
    metadata = dict(listing.metadata)
    text = metadata.pop(AXES, None)
    if text is None:
        return listing
    items = dict(listing.items)
    with source.about(AXES):
        raw = text.encode(errors="surrogatepass")
        if len(raw) > MAX_TEXT:
            raise ValueError(f"{len(raw)} bytes of text are refused")
        entries = read_json(raw)
        if not isinstance(entries, dict):
            raise ValueError("these are not axis names by array")
    for name, names in entries.items():
        with source.about(name[:60]):
            items[name] = _with_axes(items.get(name), names)
    return replace(listing, items=items, metadata=metadata)


def _with_axes(item: Item | None, names: object) -> Item:
    if item is None:
        raise ValueError("axes are named of an array that is not in the file")
    if not isinstance(names, list) or not all(
        axis is None or (isinstance(axis, str) and len(axis) <= _LONGEST)
        for axis in names
    ):
        raise ValueError("its axis names are not a list of text")
    try:
        return replace(item, axes=as_names(tuple(names), item.shape))
    except (AxisError, ArgumentError) as problem:
        raise ValueError(f"its axes are wrong: {problem.message[:200]}") from None
