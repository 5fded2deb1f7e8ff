"""Writing a file whole or not at all, whatever happens on the way."""

from __future__ import annotations

import itertools
import os
import platform
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from treadle.io.files import PathLike, resolved

Writer = Callable[[BinaryIO], object]

_HOST = re.sub(r"[^A-Za-z0-9]", "", platform.node())[:32] or "host"
_serial = itertools.count()


def temporary_name(path: Path) -> Path:
    """A name beside `path` that says who is writing: host, process, serial number."""
    owner = f"{_HOST}-{os.getpid()}-{next(_serial)}"
    return path.with_name(f".{path.name}.tmp-{owner}")


def is_alive(pid: int) -> bool:
    """Whether a process of this machine has this number."""
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
