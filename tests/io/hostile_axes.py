"""Files that lie of their axes, in every format that has text."""

from __future__ import annotations

import io
import json

import numpy as np

from treadle.io.format import AXES, Contents
from treadle.io.tensors import FORMATS

__all__ = ["hostile_axes"]

ARRAYS = {"a": np.zeros(1, "f4"), "c": np.zeros((1, 1), "f4")}
# What is said of their axes, the item and the reason that the message names.
SAID: dict[str, tuple[str, str, str]] = {
    "axes are no JSON": ("{]", AXES, "cannot be read"),
    "axes are a list": ("[]", AXES, "not axis names by array"),
    "axes are nested": ('{"a":' * 100_000, AXES, "nested too deeply"),
    "axes are given twice": ('{"a":["n"],"a":["n"]}', AXES, "twice"),
    "axes are too many lists": ("{" + "[]," * 75_000, AXES, "too many"),
    "axes of no array": ('{"b":["n"]}', "'b'", "not in the file"),
    "axes of a path": ('{"../a":["n"]}', "'../a'", "not in the file"),
    "axes are a word": ('{"a":"n"}', "'a'", "not a list of text"),
    "axes are numbers": ('{"a":[1]}', "'a'", "not a list of text"),
    "axes are lists": ('{"a":[["n"]]}', "'a'", "not a list of text"),
    "axes have long names": (json.dumps({"a": ["n" * 2000]}), "'a'", "not a list"),
    "axes are too many": ('{"a":["n","m"]}', "'a'", "2 axes given for 1 dim"),
    "axes repeat a name": ('{"c":["n","n"]}', "'c'", "repeat a name"),
}


def hostile_axes(ending: str) -> dict[str, tuple[bytes, str, str]]:
    """Files of a format with arrays that are as they should be and such axes."""
    chosen = next(f for f in FORMATS if f.name == ending)
    found = {}
    for case, (text, item, reason) in SAID.items():
        file = io.BytesIO()
        chosen.write(file, Contents(ARRAYS, {AXES: text}))
        found[case] = file.getvalue(), item, reason
    return found
