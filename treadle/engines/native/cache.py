"""The disk cache of machine code: a private directory of checked files.

An entry is written under a temporary name and renamed, so readers see all of it or
nothing; it carries the hash of its key and content and is looked at only if that is
right. Whatever goes wrong (no home, no space, no right to write, foreign or damaged
files) means a miss, never an error. TREADLE_CACHE_DIR names another directory,
TREADLE_CACHE=0 turns the cache off. Systems without POSIX owners have none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import platformdirs

__all__ = ["DiskCache", "disk_cache", "key"]

_MAGIC = b"TREADLE1"
_HASH = 32  # bytes of a SHA-256 digest
_LIMIT = 256 << 20  # bytes
_ABANDONED = 3600.0  # seconds after which a temporary file has no writer any more
_SEEN = 86400.0  # seconds for which the time of use of an entry is not renewed
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def key(*facts: str) -> bytes:
    """The SHA-256 of all that code depends on; each fact is told from its neighbors."""
    found = hashlib.sha256()
    for fact in facts:
        data = fact.encode()
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.digest()


def disk_cache() -> DiskCache | None:
    """The cache this process is to use; None if there is none."""
    if os.environ.get("TREADLE_CACHE", "1") == "0" or os.name != "posix":
        return None
    place = os.environ.get("TREADLE_CACHE_DIR") or _standard()
    return _opened(os.path.join(place, "kernels")) if place else None


@lru_cache(maxsize=1)
def _standard() -> str:
    found = platformdirs.user_cache_dir("treadle", appauthor=False)
    return found if os.path.isabs(found) else ""  # no home: "~/..." stays as it is


@lru_cache(maxsize=8)
def _opened(path: str) -> DiskCache | None:
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        return DiskCache(path)
    except (OSError, ValueError):
        return None


class DiskCache:
    """Entries by key in one directory, of at most `limit` bytes together.

    The directory is held open, and must belong to this user with nobody else able to
    write; otherwise OSError.
    """

    def __init__(self, path: str, limit: int = _LIMIT) -> None:
        self.path = path
        self.limit = limit
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW)
        self._unseen = limit  # bytes written since the last look at the whole: look
        if not _private(os.fstat(self._folder), stat.S_ISDIR):
            raise PermissionError(f"{path} is not private")

    def __del__(self) -> None:
        if hasattr(self, "_folder"):
            os.close(self._folder)

    def read(self, key: bytes) -> bytes | None:
        """The content of an entry; None if there is none or it is not as written."""
        try:
            file = os.open(key.hex(), os.O_RDONLY | _NO_FOLLOW, dir_fd=self._folder)
        except OSError:
            return None
        try:
            about = os.fstat(file)
            if not _private(about, stat.S_ISREG) or about.st_size > self.limit:
                return None
            data = _read_all(file, about.st_size)
            content = _checked(key, data)
            if content is not None and time.time() - about.st_mtime > _SEEN:
                os.utime(file)
            return content
        except OSError:
            return None
        finally:
            os.close(file)

    def write(self, key: bytes, content: bytes) -> bool:
        """Keep an entry, in place of any under its key; whether that succeeded."""
        data = b"".join([_MAGIC, _digest(key, content), content])
        if len(data) > self.limit // 4:
            return False
        name = f".{os.getpid():x}-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        try:
            file = os.open(name, flags, 0o600, dir_fd=self._folder)
        except OSError:
            return False
        try:
            with open(file, "wb", buffering=0) as stream:
                rest = memoryview(data)
                while rest:
                    rest = rest[stream.write(rest) :]
            places = {"src_dir_fd": self._folder, "dst_dir_fd": self._folder}
            os.replace(name, key.hex(), **places)
        except OSError:
            self._remove(name)
            return False
        self._unseen += len(data)
        if self._unseen > self.limit // 16:
            self._unseen = 0
            self.evict()
        return True

    def evict(self) -> None:
        """Remove the entries longest unused until 7/8 of the limit are left.

        Also what writers that died have left behind.
        """
        now = time.time()
        entries = []
        for name, about in self._entries():
            if not name.startswith("."):
                entries.append((about.st_mtime, about.st_size, name))
            elif now - about.st_mtime > _ABANDONED:
                self._remove(name)
        total = sum(size for _, size, _ in entries)
        if total <= self.limit:
            return
        for _, size, name in sorted(entries):
            self._remove(name)
            total -= size
            if total <= self.limit // 8 * 7:
                return

    def count(self) -> tuple[int, int]:
        """How many entries there are, and their bytes."""
        sizes = [a.st_size for n, a in self._entries() if not n.startswith(".")]
        return len(sizes), sum(sizes)

    def clear(self) -> None:
        """Remove all entries; what others write at this moment may stay."""
        for name, _ in self._entries():
            if not name.startswith("."):
                self._remove(name)

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            with contextlib.suppress(OSError):
                about = os.stat(name, dir_fd=self._folder, follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    yield name, about

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)


def _private(about: os.stat_result, kind: Callable[[int], bool]) -> bool:
    """Whether it is of a kind, ours, and nobody else may write it."""
    shared = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return kind(about.st_mode) and about.st_uid == os.geteuid() and not shared


def _read_all(file: int, size: int) -> bytes:
    """`size` bytes, or fewer where the file ends."""
    data = os.read(file, size)
    while len(data) < size and (more := os.read(file, size - len(data))):
        data += more
    return data


def _digest(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(key + content).digest()


def _checked(key: bytes, data: bytes) -> bytes | None:
    """The content of a whole and right entry."""
    start = len(_MAGIC) + _HASH
    content = data[start:]
    right = data[: len(_MAGIC)] == _MAGIC
    right = right and data[len(_MAGIC) : start] == _digest(key, content)
    return content if right else None
