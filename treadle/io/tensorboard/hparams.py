"""Hyperparameters of a run, as the table of TensorBoard's plugin reads them."""

from __future__ import annotations

import numbers
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.io.protobuf import decode, encode
from treadle.io.tensorboard.record import EVENTS

PLUGIN = "hparams"
_FLOAT = 1  # TensorFlow's number of the type
_STRING, _BOOL, _NUMBER = 1, 2, 3  # the plugin's numbers of types
_SUCCESS = 1


def started(
    values: Mapping[str, Any], metrics: Iterable[str], group: str
) -> list[dict[str, Any]]:
    """What begins a session: its experiment, and what each hyperparameter is.

    A metric is the name of a scalar; before a last colon stands the folder below that
    it is logged in, as in "validation:loss".
    """
    kinds = {name: _typed(name, value) for name, value in values.items()}
    names = [metric.rpartition(":") for metric in metrics]
    experiment = {
        "time_created_secs": time.time(),
        "hparam_infos": [
            {"name": name, "type": kind} for name, (kind, _) in kinds.items()
        ],
        "metric_infos": [
            {"name": {"group": folder, "tag": tag}} for folder, _, tag in names
        ],
    }
    start = {
        "hparams": {name: value for name, (_, value) in kinds.items()},
        "group_name": group,
        "start_time_secs": time.time(),
    }
    return [
        _noted("experiment", {"experiment": experiment}),
        _noted("session_start_info", {"session_start_info": start}),
    ]


def finished() -> dict[str, Any]:
    """The entry that ends a session."""
    end = {"status": _SUCCESS, "end_time_secs": time.time()}
    return _noted("session_end_info", {"session_end_info": end})


def values_of(content: bytes) -> dict[str, Any]:
    """The hyperparameters in what began a session; none in other entries."""
    data = decode(EVENTS, "HParams", content)
    values = data.get("session_start_info", {}).get("hparams", {})
    return {name: next(iter(value.values()), None) for name, value in values.items()}


def _typed(name: str, value: Any) -> tuple[int, dict[str, Any]]:
    """The plugin's type of a value, and the value."""
    if isinstance(value, (bool, np.bool_)):
        return _BOOL, {"bool_value": bool(value)}
    if isinstance(value, str):
        return _STRING, {"string_value": value}
    if isinstance(value, numbers.Real):
        return _NUMBER, {"number_value": float(value)}
    raise ArgumentError(
        f"hyperparameter {name!r} is a number, a string or a bool, not "
        f"{type(value).__name__}"
    )


def _noted(tag: str, data: dict[str, Any]) -> dict[str, Any]:
    """A value of a summary that has the plugin's data for its notes."""
    content = encode(EVENTS, "HParams", data)
    return {
        "tag": f"_hparams_/{tag}",
        "tensor": {"dtype": _FLOAT, "tensor_shape": {"dim": [{"size": 0}]}},
        "metadata": {"plugin_data": {"plugin_name": PLUGIN, "content": content}},
    }
