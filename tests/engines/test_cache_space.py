"""The disk cache makes space: the oldest go, and no write stalls over it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines.test_cache import KEY, entries, entry
from treadle.engines.native.codegen import cache
from treadle.engines.native.codegen.cache import DiskCache, key

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX owners and rights")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    return folder


def beside(count: int) -> list[bytes]:
    """Keys whose entries lie in one folder; writing the last alone makes space."""
    found = [KEY[:1] + key(str(n))[1:31] + b"\1" for n in range(count)]
    return [*found[:-1], found[-1][:31] + b"\0"]


def test_a_full_disk_and_a_lost_directory_are_no_errors(place: Path) -> None:
    disk = DiskCache(str(place))
    assert disk.write(KEY, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        assert not disk.write(KEY, bytes(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert disk.read(KEY) == b"old"
    assert entries(place) == [entry(place)]
    shutil.rmtree(place)
    assert disk.read(KEY) is None and not disk.write(KEY, b"new")
    disk.evict(KEY)


def test_the_oldest_entries_go_when_there_is_too_much(place: Path) -> None:
    disk = DiskCache(str(place), limit=256 * 100_000)
    keys = beside(30)
    now = time.time()
    for n, k in enumerate(keys[:-1]):
        assert disk.write(k, bytes(6000))
        os.utime(entry(place, k), (now, now - 1000 + n))
    assert len(entries(place)) == 29
    assert disk.write(keys[-1], bytes(6000))
    there = [n for n, k in enumerate(keys) if disk.read(k) is not None]
    assert there == list(range(there[0], 30)) and 10 < len(there) < 17
    assert sum(p.stat().st_size for p in entries(place)) <= 100_000
    assert not disk.write(KEY, bytes(100_000))  # would push out all others


def test_a_folder_holds_so_many_files(place: Path) -> None:
    disk = DiskCache(str(place))
    keys = beside(300)
    now = time.time()
    for n, k in enumerate(keys):
        assert disk.write(k, b"code")
        os.utime(entry(place, k), (now, now - 1000 + n))
    there = [n for n, k in enumerate(keys) if disk.read(k) is not None]
    assert there == list(range(300 - len(there), 300)) and len(there) <= 224


def test_one_write_in_many_makes_space(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, looks = DiskCache(str(place)), []
    monkeypatch.setattr(DiskCache, "evict", lambda self, key: looks.append(key))
    for n in range(1600):
        assert disk.write(key(str(n)), b"code")
    assert 60 < len(looks) < 140


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done with files from now on, each looked at among them."""
    done: list[str] = []

    def note(name: str) -> None:
        original = getattr(cache.os, name)

        def noting(*args: object, **keywords: object) -> object:
            done.append(name)
            return original(*args, **keywords)

        monkeypatch.setattr(cache.os, name, noting)

    for name in ("open", "mkdir", "replace", "unlink", "stat", "utime", "listdir"):
        note(name)
    scandir = os.scandir

    @contextmanager
    def looking(folder: int) -> Iterator[Iterator[os.DirEntry[str]]]:
        with scandir(folder) as lying:
            yield (done.append("entry") or x for x in lying)

    monkeypatch.setattr(cache.os, "scandir", looking)
    return done


@pytest.mark.parametrize("lying", [2000, 4000])
def test_no_write_goes_through_more_than_a_few_hundred_files(
    place: Path, monkeypatch: pytest.MonkeyPatch, lying: int
) -> None:
    # In one folder, and of an earlier version beside the folders.
    disk = DiskCache(str(place))
    last = beside(2)[-1]
    folder = entry(place, last).parent
    folder.mkdir(0o700)
    for n in range(lying):
        (folder / key(str(n)).hex()[2:]).touch()
        (place / key(str(n)).hex()).touch()
    before = len(entries(place))
    done = counted(monkeypatch)
    assert disk.write(last, b"code")
    assert done.count("entry") <= 1024 and len(done) < 2100
    assert len(entries(place)) < before - 500
    for _ in range(20):
        disk.write(last, b"code")
    del done[:]
    disk.write(last, b"code")  # now that all is in order
    assert len(done) < 300
    assert len(list(folder.iterdir())) <= 257
    assert [p for p in place.iterdir() if p.is_file()] == []


def test_looking_for_an_entry_opens_one_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = DiskCache(str(place))
    disk.write(KEY, b"code")
    done = counted(monkeypatch)
    assert disk.read(KEY) == b"code" and disk.read(key("another")) is None
    assert done == ["open", "open"]


def test_all_is_counted_and_removed(place: Path) -> None:
    disk = DiskCache(str(place))
    for n in range(1000):
        assert disk.write(key(str(n)), b"code")
    count, size = disk.count()
    assert count == 1000 and size == sum(p.stat().st_size for p in entries(place))
    disk.clear()
    assert disk.count() == (0, 0) and entries(place) == []


def test_use_keeps_an_entry_young(place: Path) -> None:
    disk = DiskCache(str(place))
    disk.write(KEY, b"code")
    os.utime(entry(place), (1, 1))
    assert disk.read(KEY) == b"code"
    assert time.time() - entry(place).stat().st_mtime < 1000


def test_leftovers_of_dead_writers_are_removed(place: Path) -> None:
    disk = DiskCache(str(place))
    first, last = beside(2)
    disk.write(first, b"code")
    folder = entry(place, first).parent
    for name, age in ((".old", 1e5), (".new", 10)):
        (folder / name).write_text("half")
        os.utime(folder / name, (time.time() - age,) * 2)
    disk.write(last, b"code")
    left = sorted(p.name for p in folder.iterdir())
    assert left == sorted([".new", first.hex()[2:], last.hex()[2:]])
