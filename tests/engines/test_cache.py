"""The disk cache: damage is seen, strangers are refused, writers may die."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from treadle.engines.native.codegen import cache, jit
from treadle.engines.native.codegen.cache import DiskCache, disk_cache, key

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX owners and rights")
KEY = key("a kernel")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    return folder


def entry(place: Path, k: bytes = KEY) -> Path:
    return place / k.hex()[:2] / k.hex()[2:]


def entries(place: Path) -> list[Path]:
    """All files, in all folders."""
    return [p for p in place.rglob("*") if p.is_file()]


def children(count: int, work: Callable[[int], None]) -> list[int]:
    """Process numbers of children that do work(k) and end with 0 if it returns."""
    made = []
    for k in range(count):
        process = os.fork()
        if not process:
            code = 1
            try:
                work(k)
                code = 0
            finally:
                os._exit(code)
        made.append(process)
    return made


# -- keys and content ------------------------------------------------------------------


def test_a_key_tells_its_facts_apart() -> None:
    facts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("1:a",), ("a", "1:")]
    assert len({key(*f) for f in facts}) == len(facts)
    assert len(KEY) == 32 and key("a kernel") == KEY


def test_what_is_written_is_read(place: Path) -> None:
    disk = DiskCache(str(place))
    assert disk.read(KEY) is None
    for content in (b"", b"x", os.urandom(100_000)):
        assert disk.write(KEY, content)
        assert disk.read(KEY) == content
        assert DiskCache(str(place)).read(KEY) == content
    assert entries(place) == [entry(place)]
    assert stat.S_IMODE(entry(place).stat().st_mode) == 0o600
    assert stat.S_IMODE(entry(place).parent.stat().st_mode) == 0o700


def test_every_flipped_byte_is_seen(place: Path) -> None:
    disk = DiskCache(str(place))
    disk.write(KEY, b"forty bytes of code, more or less so....")
    whole = entry(place).read_bytes()
    for k in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[k] ^= flip
            entry(place).write_bytes(damaged)
            assert disk.read(KEY) is None, f"byte {k}"
    for wrong in [whole[:k] for k in range(len(whole))] + [whole + b"\0", whole * 2]:
        entry(place).write_bytes(wrong)
        assert disk.read(KEY) is None
    entry(place).write_bytes(whole)
    assert disk.read(KEY) is not None


def test_an_entry_is_good_for_its_own_key_only(place: Path) -> None:
    disk = DiskCache(str(place))
    disk.write(KEY, b"code")
    other = KEY[:1] + key("another kernel")[1:]
    entry(place).rename(entry(place, other))
    assert disk.read(other) is None


# -- with the compiler -----------------------------------------------------------------

TEXT = "define i32 @f() {\n ret i32 42\n}\n"


def load(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """As a new process: functions compiled, functions read from disk."""
    monkeypatch.setattr(jit, "_table", type(jit._table)())
    monkeypatch.setattr(jit, "_stats", jit.CompileStats())
    found = jit.compile_functions({"f": TEXT})
    assert ctypes.CFUNCTYPE(ctypes.c_int)(found["f"])() == 42
    return jit.stats().compiled, jit.stats().from_disk


def test_code_is_read_back_and_damage_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TREADLE_CACHE", raising=False)
    assert load(monkeypatch) == (1, 0)
    assert load(monkeypatch) == (0, 1)
    (file,) = entries(tmp_path / "kernels")
    whole = file.read_bytes()
    for k in (0, 20, 41, len(whole) // 2, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[k] ^= 0x10
        file.write_bytes(damaged)
        assert load(monkeypatch) == (1, 0)
        assert file.read_bytes() == whole
    assert load(monkeypatch) == (0, 1)


def test_other_machines_and_versions_have_other_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TREADLE_CACHE", raising=False)
    assert load(monkeypatch) == (1, 0)
    original = jit.host()
    for other in (
        replace(original, triple=original.triple + "-elf"),
        replace(original, cpu="generic"),
        replace(original, features=original.features.rpartition(",")[0]),
    ):
        with monkeypatch.context() as changed:
            changed.setattr(jit, "host", lambda other=other: other)
            assert load(monkeypatch) == (1, 0)
    with monkeypatch.context() as changed:
        changed.setattr(jit.compiler, "VERSIONS", ("99", "99"))
        assert load(monkeypatch) == (1, 0)
    with monkeypatch.context() as changed:
        changed.setattr(jit.compiler, "FLAGS", "others")
        assert load(monkeypatch) == (1, 0)
    with monkeypatch.context() as changed:
        changed.setattr(jit.treadle, "__version__", "99")
        assert load(monkeypatch) == (1, 0)
    assert load(monkeypatch) == (0, 1)
    assert len(entries(tmp_path / "kernels")) == 7


def test_without_a_cache_kernels_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TREADLE_CACHE", "0")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "off"))
    assert load(monkeypatch) == (1, 0)
    monkeypatch.setenv("TREADLE_CACHE", "1")
    for bad in (tmp_path / "file", Path("/proc/none"), Path("/dev/null"), "\0"):
        monkeypatch.setattr(
            cache.os, "environ", {**os.environ, "TREADLE_CACHE_DIR": str(bad)}
        )
        assert disk_cache() is None
        assert load(monkeypatch) == (1, 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


# -- strangers -------------------------------------------------------------------------


def test_a_new_directory_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TREADLE_CACHE", raising=False)
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path / "a" / "b"))
    before = os.umask(0)
    try:
        assert disk_cache() is not None
    finally:
        os.umask(before)
    made = tmp_path / "a" / "b" / "kernels"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_may_write_is_refused(place: Path, mode: int) -> None:
    place.chmod(mode)
    with pytest.raises(PermissionError):
        DiskCache(str(place))


def test_links_and_files_are_refused_for_the_directory(place: Path) -> None:
    link = place.parent / "link"
    link.symlink_to(place)
    (place / "file").write_text("")
    for wrong in (link, place / "file", place / "missing"):
        with pytest.raises(OSError):
            DiskCache(str(wrong))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="chown is root's")
def test_what_others_own_is_refused(place: Path) -> None:
    disk = DiskCache(str(place))
    disk.write(KEY, b"code")
    os.chown(entry(place), 12345, -1)
    assert disk.read(KEY) is None
    os.chown(place, 12345, -1)
    with pytest.raises(PermissionError):
        DiskCache(str(place))


def test_entries_others_may_write_and_links_are_not_read(place: Path) -> None:
    disk = DiskCache(str(place))
    disk.write(KEY, b"code")
    for mode in (0o620, 0o602, 0o666):
        entry(place).chmod(mode)
        assert disk.read(KEY) is None
    entry(place).chmod(0o600)
    assert disk.read(KEY) == b"code"
    entry(place).rename(place / "elsewhere")
    entry(place).symlink_to(place / "elsewhere")
    assert disk.read(KEY) is None
    entry(place).unlink()
    entry(place).mkdir()
    assert disk.read(KEY) is None
    assert not disk.write(KEY, b"code")  # a directory is in the way: no error


# -- several processes -----------------------------------------------------------------


def content(n: int, writer: int) -> bytes:
    return bytes([n, writer]) * (500 + 97 * n + writer)


def test_eight_writers_at_once(place: Path) -> None:
    keys = [key(str(n)) for n in range(20)]
    allowed = [{content(n, w) for w in range(8)} for n in range(20)]

    def work(writer: int) -> None:
        disk = DiskCache(str(place), limit=8 << 20)
        for turn in range(10):
            for n in range(20):
                at = (n * (2 * writer + 1) + turn) % 20
                assert disk.write(keys[at], content(at, writer))
                found = disk.read(keys[n])
                assert found is None or found in allowed[n]

    codes = [os.waitpid(p, 0)[1] for p in children(8, work)]
    assert codes == [0] * 8
    disk = DiskCache(str(place))
    assert all(disk.read(k) in allowed[n] for n, k in enumerate(keys))
    assert not [p for p in entries(place) if p.name.startswith(".")]


def test_writers_killed_in_the_middle(place: Path) -> None:
    right = {bytes([n]) * 200_000 for n in range(256)}

    def work(_: int) -> None:
        disk = DiskCache(str(place))
        while True:
            for n in range(256):
                disk.write(KEY, bytes([n]) * 200_000)

    disk = DiskCache(str(place))
    seen = 0
    for turn in range(25):
        (process,) = children(1, work)
        time.sleep(0.004 + 0.0007 * turn)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        found = disk.read(KEY)
        assert found is None or found in right
        seen += found is not None
    assert seen
    disk.write(KEY, b"still works")
    assert disk.read(KEY) == b"still works"
