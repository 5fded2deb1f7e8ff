"""Files: opened with checked sizes and one exception type, written whole."""

from __future__ import annotations

import itertools
import json
import math
import os
import platform
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType
from treadle.base.errors import TreadleError

PathLike = str | os.PathLike[str]
FileError = type[TreadleError]

MAX_BYTES = 1 << 36  # what one file may ask to allocate unless the caller says more
MAX_RATIO = 1032  # DEFLATE cannot expand a byte to more than this
_CHUNK = 1 << 20
_LONGEST_REASON = 500  # characters; a file may put anything into one
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{,])', re.DOTALL)
_MOST_TOKENS = 1 << 19  # each may become an object of some 100 bytes
_WRONG = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    OverflowError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


@contextmanager
def guarded(path: PathLike, error: FileError, what: str = "") -> Iterator[None]:
    """Whatever a wrong file provokes inside becomes `error`, naming the file.

    >>> from treadle.base.errors import DataFileError
    >>> with guarded("a.npz", DataFileError):
    ...     raise EOFError("it ends too early")
    Traceback (most recent call last):
    treadle.base.errors.DataFileError: a.npz: it ends too early
    """
    try:
        yield
    except _WRONG as problem:
        if isinstance(problem, TreadleError):
            raise
        if isinstance(problem, OSError) and problem.strerror:
            reason = problem.strerror
        elif isinstance(problem, MemoryError):
            reason = "there is not enough memory for what it declares"
        else:
            reason = str(problem) or type(problem).__name__
        place = f"{os.fspath(path)}: {what + ': ' if what else ''}"
        raise error(place + " ".join(reason[:_LONGEST_REASON].split())) from problem


@contextmanager
def open_regular(path: PathLike, error: FileError) -> Iterator[BufferedReader]:
    """A regular file open for reading; pipes, devices and folders are refused."""
    with guarded(path, error):
        # O_NONBLOCK: opening a pipe nobody writes to would wait forever.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise error(f"{os.fspath(path)}: this is not a regular file")
            yield file


def check_name(name: str) -> str:
    """Refuse names no parameter has: empty, huge, unprintable, dunder or a path out.

    >>> check_name("encoder.0.weight")
    'encoder.0.weight'
    >>> check_name("../weight")
    Traceback (most recent call last):
    ValueError: '../weight' is not a name for an array
    """
    parts = name.replace("/", ".").split(".")
    if (
        not name
        or len(name) > 1024
        or not name.isprintable()
        or "\\" in name
        or name.startswith("/")
        or ".." in name
        or any(part.startswith("__") and part.endswith("__") for part in parts)
    ):
        shown = name if len(name) <= 60 else name[:57] + "..."
        raise ValueError(f"{shown!r} is not a name for an array")
    return name


def check_shape(shape: Sequence[Any], dtype: DType) -> int:
    """The bytes an array of this shape takes; refuses what is no shape.

    >>> check_shape((2, 3), np.dtype("f4"))
    24
    """
    if len(shape) > 32:
        raise ValueError(f"{len(shape)} dimensions are too many")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{str(tuple(shape))[:80]} is not a shape")
    if math.prod(n or 1 for n in shape) * dtype.itemsize >= 1 << 62:
        raise ValueError(f"the shape {str(tuple(shape))[:80]} is too large")
    return math.prod(shape) * dtype.itemsize


def fill(stream: Any, shape: Sequence[int], dtype: DType) -> Array:
    """Read exactly one array of this shape and dtype from a stream."""
    array = np.empty(math.prod(shape), dtype)
    view = memoryview(array.view(np.uint8).data)
    done = 0
    while done < len(view):
        count = stream.readinto(view[done : done + _CHUNK])
        if not count:
            raise EOFError(f"it ends after {done} of {len(view)} bytes")
        done += count
    if dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ValueError("a truth value is neither 0 nor 1")
    return array.reshape(shape)


def read_json(raw: bytes) -> Any:
    """The value of JSON text, if it stays near the size it has as text.

    >>> read_json(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> read_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the name 'a' is given twice
    """
    try:
        text = raw.decode()
        count = sum(token[1] is not None for token in _TOKEN.finditer(text))
        if count > _MOST_TOKENS:
            raise ValueError(f"{count} entries are too many")
        return json.loads(text, object_pairs_hook=_unique)
    except UnicodeDecodeError:
        raise ValueError("the text is not UTF-8") from None
    except json.JSONDecodeError as problem:
        raise ValueError(f"the text cannot be read: {problem}") from None
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for name, value in pairs:
        if name in unique:
            raise ValueError(f"the name {name[:60]!r} is given twice")
        unique[name] = value
    return unique


def resolved(path: PathLike) -> Path:
    """The file itself where `path` is a link to it."""
    return Path(os.path.realpath(path))


Writer = Callable[[BinaryIO], object]

_HOST = re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32] or "host"
_serial = itertools.count()


def temporary_name(path: Path) -> Path:
    """A name beside `path` that says who is writing: host, process, serial number."""
    owner = f"{_HOST}-{os.getpid()}-{next(_serial)}"
    return path.with_name(f".{path.name}.tmp-{owner}")


def is_alive(pid: int) -> bool:
    """Return True if a process of this machine has this number."""
    if os.name != "posix":  # elsewhere, asking may end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def sweep(path: Path) -> list[Path]:
    """The temporaries for `path` that ended processes of this machine left behind."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.tmp-{_HOST}-(\d{{1,9}})-\d+")
    try:
        names = os.listdir(path.parent)
    except OSError:
        return []
    matches = (pattern.fullmatch(name) for name in names)
    return [path.parent / m[0] for m in matches if m and not is_alive(int(m[1]))]


def sync_directory(directory: Path) -> None:
    """Make a rename in `directory` survive a loss of power."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: PathLike, content: bytes | Writer) -> None:
    """Replace `path` by `content`, or leave it untouched if anything fails.

    `content` is bytes, or is called with the open file. A reader, a crash or a kill at
    any moment finds the old file or the new one, never a part.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/a.txt", b"whole")
    ...     open(f"{folder}/a.txt").read()
    'whole'
    """
    target = resolved(path)
    mode = 0o666
    if target.exists():
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{target} is not a regular file")
        mode = stat.S_IMODE(status.st_mode)
    for leftover in sweep(target):
        leftover.unlink(missing_ok=True)
    temporary = temporary_name(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(temporary, flags, mode), "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(target.parent)
