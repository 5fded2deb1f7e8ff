"""A file is the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from tests.io.kills import campaign
from treadle.io import files
from treadle.io.checkpoint import load_checkpoint, save_checkpoint
from treadle.io.files import is_alive, sweep, temporary_name, write_atomically
from treadle.io.tensors import load_arrays, save_arrays


def test_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, b"one")
    write_atomically(path, lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two" and os.listdir(tmp_path) == ["a.bin"]


def test_a_failing_writer_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, b"old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half of the n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_a_failing_call_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, call, fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["a.bin"]


def test_mode_and_links_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "a.bin", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert link.is_symlink() and path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(OSError, match="not a regular file"):
            write_atomically(path, b"x")


def test_leftovers_of_ended_processes_are_swept(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    own = temporary_name(path)
    dead = own.with_name(own.name.replace(f"-{os.getpid()}-", f"-{child.pid}-"))
    other = tmp_path / ".b.bin.tmp-x-1-1"
    for file in (own, dead, other):
        file.write_bytes(b"")
    assert not is_alive(child.pid) and sweep(path) == [dead]
    write_atomically(path, b"x")
    assert not dead.exists() and own.exists() and other.exists()


def test_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    whole = [bytes([k]) * 4096 for k in range(8)]

    def write(content: bytes) -> None:
        for _ in range(5):
            write_atomically(path, content)

    threads = [threading.Thread(target=write, args=(c,)) for c in whole]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in whole and os.listdir(tmp_path) == ["a.bin"]


def save_until(folder: Path, step: int, left: int) -> None:
    """Save states one after the other; the process ends before the last of so many
    things that touch files."""

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, _: Any) -> None:
        if event == "open" or event.startswith("os."):
            count()

    sync = os.fsync
    os.fsync = lambda descriptor: (count(), sync(descriptor), count())
    sys.addaudithook(audited)
    while True:
        step += 1
        arrays = {"w": np.full(50_000, step), "b": np.full(7, step)}
        save_arrays(folder / "m.safetensors", arrays, {"step": str(step)})
        save_checkpoint(folder / "points", step, {"model": arrays}, {"step": step})


def test_a_kill_leaves_a_whole_state(tmp_path: Path) -> None:
    step = 0
    for kill in range(1, 100, 7):
        child = os.fork()
        if child == 0:
            try:
                save_until(tmp_path, step, kill)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if (tmp_path / "m.safetensors").exists():
            arrays, facts = load_arrays(tmp_path / "m.safetensors")
            assert {*arrays["w"], *arrays["b"]} == {int(facts["step"])}
        point = load_checkpoint(tmp_path / "points")
        if point is not None:
            assert point.step >= step and point.facts == {"step": point.step}
            values = point.parts["model"]
            assert {*values["w"], *values["b"]} == {point.step}
            step = point.step
    assert step > 3
    save_checkpoint(tmp_path / "points", step + 1, {}, {})
    write_atomically(tmp_path / "m.safetensors", b"")
    left = [p.name for p in tmp_path.rglob("*") if ".tmp-" in p.name]
    assert left == []


def test_kills_at_any_time_tear_nothing(tmp_path: Path) -> None:
    assert campaign(30, 1, tmp_path) == 0
