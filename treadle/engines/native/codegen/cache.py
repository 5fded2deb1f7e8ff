"""The disk cache of machine code: a private directory of checked files.

An entry is written under a temporary name and renamed, so readers see all of it or
nothing; it carries the hash of its key and content and is looked at only if that is
right. Whatever goes wrong (no home, no space, no right to write, foreign or damaged
files) means a miss, never an error. TREADLE_CACHE_DIR names another directory,
TREADLE_CACHE=0 turns the cache off, TREADLE_CACHE=code keeps machine code alone, not
whole programs. Systems without POSIX owners have none.

Entries lie in 256 folders by the first byte of their keys, which are hashes, so that a
folder holds its share of the whole. Space is made folder by folder, in one write of 16:
however many entries there are, no write goes through more than a few hundred.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice

import platformdirs

from treadle.base.caches import cached

_MAGIC = b"TREADLE1"
_HASH = 32  # bytes of a SHA-256 digest
_LIMIT = 256 << 20  # bytes
_FOLDERS = 256
_FILES = 256  # in a folder at most,
_SIGHT = 2 * _FILES  # and so many are looked at, whatever lies there
_EVERY = 16  # writes, of which one makes space
_ABANDONED = 3600.0  # seconds after which a temporary file has no writer any more
_SEEN = 86400.0  # seconds for which the time of use of an entry is not renewed
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def key(*facts: str) -> bytes:
    """The SHA-256 of all that code depends on; each fact is told from its neighbors."""
    digest = hashlib.sha256()
    for fact in facts:
        data = fact.encode()
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()


def disk_cache() -> DiskCache | None:
    """The cache this process is to use; None if there is none."""
    if os.environ.get("TREADLE_CACHE", "1") == "0" or os.name != "posix":
        return None
    place = os.environ.get("TREADLE_CACHE_DIR") or _standard()
    return _opened(os.path.join(place, "kernels")) if place else None


def program_cache() -> DiskCache | None:
    """The same for whole programs."""
    return None if os.environ.get("TREADLE_CACHE") == "code" else disk_cache()


@cache
def _standard() -> str:
    folder = platformdirs.user_cache_dir("treadle", appauthor=False)
    return folder if os.path.isabs(folder) else ""  # no home: "~/..." stays as it is


@cached(8)
def _opened(path: str) -> DiskCache | None:
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        return DiskCache(path)
    except (OSError, ValueError):
        return None


class DiskCache:
    """Entries by key in one directory, of about `limit` bytes together at most.

    The directory is held open, and must belong to this user with nobody else able to
    write; otherwise OSError.
    """

    def __init__(self, path: str, limit: int = _LIMIT) -> None:
        self.path = path
        self.limit = limit
        self._share = limit // _FOLDERS
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW)
        self._strays = True  # whether there may be entries of an earlier version
        if not _private(os.fstat(self._folder), stat.S_ISDIR):
            raise PermissionError(f"{path} is not private")

    def __del__(self) -> None:
        if hasattr(self, "_folder"):
            os.close(self._folder)

    def read(self, key: bytes) -> bytes | None:
        """The content of an entry; None if there is none or it is not as written."""
        try:
            file = os.open(_place(key), os.O_RDONLY | _NO_FOLLOW, dir_fd=self._folder)
        except OSError:
            return None
        try:
            about = os.fstat(file)
            if not _private(about, stat.S_ISREG) or about.st_size > self._share:
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
        if len(data) > self._share:
            return False
        place = _place(key)
        folder = place[:2]
        name = f"{folder}/.{os.getpid():x}-{os.urandom(8).hex()}"
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700, dir_fd=self._folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
            file = os.open(name, flags, 0o600, dir_fd=self._folder)
        except OSError:
            return False
        try:
            with open(file, "wb", buffering=0) as stream:
                rest = memoryview(data)
                while rest:
                    rest = rest[stream.write(rest) :]
            places = {"src_dir_fd": self._folder, "dst_dir_fd": self._folder}
            os.replace(name, place, **places)
        except OSError:
            _remove(name, self._folder)
            return False
        if key[-1] % _EVERY == 0:  # keys are hashes: one in as many
            self.evict(key)
        return True

    def evict(self, key: bytes) -> None:
        """Make space in the folder of a key, if it holds more than its share.

        The entries longest unused go until 7/8 of it are left, and what writers that
        died have left behind; so do entries outside of all folders, some at a time.
        """
        now = time.time()
        with self._opened(_place(key)[:2]) as folder:
            entries = []
            for name, about in _files(folder):
                if not name.startswith("."):
                    entries.append((about.st_mtime, about.st_size, name))
                elif now - about.st_mtime > _ABANDONED:
                    _remove(name, folder)
            total, count = sum(size for _, size, _ in entries), len(entries)
            if total > self._share or count > _FILES:
                for _, size, name in sorted(entries):
                    if total <= self._share * 7 // 8 and count <= _FILES * 7 // 8:
                        break
                    _remove(name, folder)
                    total -= size
                    count -= 1
        if self._strays:
            strays = [name for name, _ in _files(self._folder)]
            self._strays = bool(strays)
            for name in strays:
                _remove(name, self._folder)

    def count(self) -> tuple[int, int]:
        """The number of entries, and their bytes."""
        sizes = []
        for k in range(_FOLDERS):
            with self._opened(f"{k:02x}") as folder:
                files = _files(folder, most=None)
                sizes += [about.st_size for n, about in files if not n.startswith(".")]
        return len(sizes), sum(sizes)

    def clear(self) -> None:
        """Remove all entries; what others write at this moment may stay."""
        for k in range(_FOLDERS):
            with self._opened(f"{k:02x}") as folder:
                for name, _ in _files(folder, most=None):
                    if not name.startswith("."):
                        _remove(name, folder)
        for name, _ in _files(self._folder, most=None):
            _remove(name, self._folder)

    @contextlib.contextmanager
    def _opened(self, folder: str) -> Iterator[int | None]:
        """A folder of entries, or None where there is none."""
        flags = os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW
        try:
            descriptor = os.open(folder, flags, dir_fd=self._folder)
        except OSError:
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _place(key: bytes) -> str:
    """The folder and file of an entry."""
    name = key.hex()
    return f"{name[:2]}/{name[2:]}"


def _files(
    folder: int | None, most: int | None = _SIGHT
) -> list[tuple[str, os.stat_result]]:
    """The files among the first so many that lie in a folder."""
    files: list[tuple[str, os.stat_result]] = []
    if folder is None:
        return files
    with contextlib.suppress(OSError), os.scandir(folder) as lying:
        for entry in islice(lying, most):
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(about.st_mode):
                    files.append((entry.name, about))
    return files


def _remove(name: str, folder: int | None) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)


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
