"""Event files, written record by record while a training runs."""

from __future__ import annotations

import itertools
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from treadle.base.errors import ModelFileError, RunError
from treadle.base.locks import lock
from treadle.io.files import PathLike, guarded
from treadle.io.protobuf import encode
from treadle.io.tensorboard import hparams, summary
from treadle.io.tensorboard.record import EVENTS, framed
from treadle.io.tensorboard.summary import graph_def

_VERSION = "brain.Event:2"
_START = 1  # of a session
_serial = itertools.count()


class EventWriter:
    """A log that TensorBoard shows: `tensorboard --logdir FOLDER`.

    Numbers, histograms, images, sounds, text and graphs go by a name, in which slashes
    group, and a step, to a new file of the folder. Each is there at once, in one write;
    whatever stops the program leaves the records before it whole. Needs no package.
    Raises ModelFileError where the file cannot be written.

    >>> import tempfile, treadle as td
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with td.io.EventWriter(folder) as log:
    ...         log.scalar("loss", 0.5, step=3)
    ...     [(e.kind, e.name, e.step, e.value) for e in td.io.read_events(log.path)]
    [('scalar', 'loss', 3, 0.5)]
    """

    def __init__(self, folder: PathLike) -> None:
        host = re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32] or "host"
        suffix = f"{int(time.time())}.{host}.{os.getpid()}.{next(_serial)}"
        self.path = Path(folder) / f"events.out.tfevents.{suffix}"
        self._lock = lock()
        self._file: BinaryIO | None = None
        with guarded(self.path, ModelFileError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._file = os.fdopen(os.open(self.path, flags, 0o666), "wb", buffering=0)
        self._write({"file_version": _VERSION})

    def scalar(self, name: str, value: Any, step: int) -> None:
        """A number."""
        self._summary(name, summary.scalar(value), step)

    def histogram(self, name: str, values: Any, step: int) -> None:
        """Write a histogram of values; those that are not finite are left out."""
        self._summary(name, summary.histogram(values), step)

    def image(self, name: str, pixels: Any, step: int) -> None:
        """An image [height, width, channels]: uint8, or floats from 0 to 1."""
        self._summary(name, summary.image(pixels), step)

    def audio(self, name: str, samples: Any, step: int, rate: float = 44100) -> None:
        """A sound [frames, channels]: int16, or floats from -1 to 1."""
        self._summary(name, summary.audio(samples, rate), step)

    def text(self, name: str, words: str, step: int) -> None:
        """Text, shown as Markdown."""
        self._summary(name, summary.text(words), step)

    def hparams(
        self,
        values: Mapping[str, Any],
        metrics: Iterable[str] = (),
        group: str = "",
    ) -> None:
        """The hyperparameters of a run (numbers, strings, bools), for the table that
        compares runs by `metrics`: names of scalars, with the folder below that they
        are logged in before a colon, as in "validation:loss". Runs of one `group` are
        averaged. Raises ArgumentError for other values.

        >>> import tempfile, treadle as td
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with td.io.EventWriter(folder) as log:
        ...         log.hparams({"lr": 0.1, "optimizer": "adam"}, ["loss"])
        ...     [e.value for e in td.io.read_events(log.path) if e.kind == "hparams"]
        [{'lr': 0.1, 'optimizer': 'adam'}]
        """
        self._write({"summary": {"value": hparams.started(values, metrics, group)}})

    def end_hparams(self) -> None:
        """The run of these hyperparameters came to its end."""
        self._write({"summary": {"value": [hparams.finished()]}})

    def graph(self, y: Any) -> None:
        """The graph of a tensor or of a tree of them, by modules; nothing is run."""
        self._write({"graph_def": graph_def(y)})

    def restart(self, step: int) -> None:
        """Have TensorBoard forget what was logged from this step on: a training that
        was stopped goes on from here."""
        self._write({"step": step, "session_log": {"status": _START}})

    def close(self) -> None:
        """End the file, and have it on the disk."""
        with self._lock:
            if self._file is not None:
                with guarded(self.path, ModelFileError):
                    os.fsync(self._file.fileno())
                    self._file.close()
                self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _summary(self, name: str, value: dict[str, Any], step: int) -> None:
        self._write({"step": int(step), "summary": {"value": [{"tag": name, **value}]}})

    def _write(self, event: dict[str, Any]) -> None:
        raw = framed(encode(EVENTS, "Event", {"wall_time": time.time(), **event}))
        with self._lock:
            if self._file is None:
                raise RunError(
                    f"{self.path} is closed", hint="a new EventWriter is a new file"
                )
            with guarded(self.path, ModelFileError):
                _appended(self._file, raw)


def _appended(file: BinaryIO, raw: bytes) -> None:
    """All of a record or, where that fails, nothing: what follows could not be read."""
    start, left = file.tell(), memoryview(raw)
    try:
        while left:
            left = left[file.write(left) :]
    except BaseException:
        with suppress(OSError):
            file.seek(start)
            file.truncate()
        raise
