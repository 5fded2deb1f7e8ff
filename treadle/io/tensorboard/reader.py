"""Event files, read as what somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from treadle.base.errors import ModelFileError
from treadle.io.files import PathLike
from treadle.io.protobuf import decode
from treadle.io.source import Buffer, opened
from treadle.io.tensorboard.hparams import PLUGIN, values_of
from treadle.io.tensorboard.record import EVENTS, records

_KINDS = {
    "simple_value": "scalar",
    "histo": "histogram",
    "image": "image",
    "audio": "audio",
}


class LogEntry(NamedTuple):
    """Something that was logged: of which kind, its name, step and time, its value.

    The value is a number for "scalar"; text for "text"; the fields of the message for
    "histogram" (min, max, bucket_limit, bucket, ...), "image" and "audio" (with the
    file inside as bytes) and "graph" (nodes with name, op, input).
    """

    kind: str
    name: str
    step: int
    wall_time: float
    value: Any


def read_events(source: PathLike | Buffer) -> Iterator[LogEntry]:
    """The entries of a TensorBoard event file, one after the other.

    A last record that is cut off is passed over, for its writer may be at it, as are
    entries of kinds that `EventWriter` does not write. Raises ModelFileError.
    """
    with opened(source, ModelFileError) as file:
        for number, raw in enumerate(records(file), 1):
            with file.about(f"record {number}"):
                entries = list(_entries(decode(EVENTS, "Event", raw)))
            yield from entries


def _entries(event: dict[str, Any]) -> Iterator[LogEntry]:
    step, wall = event.get("step", 0), event.get("wall_time", 0.0)
    if "graph_def" in event:
        graph = decode(EVENTS, "GraphDef", event["graph_def"])
        yield LogEntry("graph", "", step, wall, graph.get("node", []))
    for value in event.get("summary", {}).get("value", ()):
        name = value.get("tag", "")
        noted = value.get("metadata", {}).get("plugin_data", {})
        plugin = noted.get("plugin_name")
        if plugin == PLUGIN and (values := values_of(noted.get("content", b""))):
            yield LogEntry("hparams", name, step, wall, values)
        if plugin == "text" and "string_val" in value.get("tensor", {}):
            words = b"\n".join(value["tensor"]["string_val"]).decode(errors="replace")
            yield LogEntry("text", name, step, wall, words)
        for field, kind in _KINDS.items():
            if field in value:
                yield LogEntry(kind, name, step, wall, value[field])
