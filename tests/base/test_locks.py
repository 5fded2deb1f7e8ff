"""Locks: each is made in one place, and free in a forked child."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import treadle as td
from treadle.base import locks as module
from treadle.engines.native.codegen import compiler

ROOT = Path(__file__).resolve().parents[2]
MAKERS = {
    "Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier",
    "allocate_lock", "register_at_fork",
}  # fmt: skip
KINDS = type(threading.Lock()), type(threading.RLock())


def test_locks_are_made_in_one_place() -> None:
    for path in (ROOT / "treadle").rglob("*.py"):
        if path.name == "locks.py":
            continue
        text = path.read_text()
        if path.name != "caches.py":  # Python 3.11 holds a lock in it
            assert "cached_property" not in text, f"lazy() in {path}"
        for node in ast.walk(ast.parse(text)):
            f = node.func if isinstance(node, ast.Call) else None
            if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
                outside = f.value.id in ("threading", "_thread", "os", "queue")
                assert not (outside and f.attr in MAKERS), f"{path}:{node.lineno}"


def test_every_lock_is_registered() -> None:
    td.sum(td.function(lambda x: x + 1.0)(td.ones(3))).numpy()
    known = {id(x) for x in module.locks()}
    known.add(id(compiler.llvm_lock))  # llvmlite's own
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("treadle")]
    gc.unfreeze()  # what was there before this file
    objects = [x for x in gc.get_objects() if str(type(x).__module__)[:7] == "treadle"]
    for owner in (*modules, *objects):
        slots = [getattr(c, "__slots__", ()) for c in type(owner).__mro__]
        names = {*getattr(owner, "__dict__", ()), *(n for s in slots for n in s)}
        for key in names:
            value = getattr(owner, key, None) if "lock" in key else None
            assert not isinstance(value, KINDS) or id(value) in known, (owner, key)


CHILD = """
import os, sys, threading
import numpy as np
import treadle as td
from treadle.base.locks import importing, locks
from treadle.engines.native.codegen import jit, compiler
from treadle.engines.native.execution import pool

p = td.param("p", init=np.ones(50, np.float32))
f = td.function(lambda x: td.tanh(x) + 1.0)
def value(k):
    return float(td.sum(f(p) * k + td.exp(p * float(k))).numpy())
want = value(2)
# A fork waits for who has these.
waited = {id(jit._lock), id(pool._order), id(importing)}
taken, go = threading.Event(), threading.Event()
def hold():
    held = [x for x in locks() if id(x) not in waited]
    for one in held: one.acquire()
    taken.set(); go.wait()
    for one in held: one.release()
thread = threading.Thread(target=hold, daemon=True); thread.start(); taken.wait()
pid = os.fork()
if pid == 0:
    free = all(x.acquire(timeout=1) for x in locks())
    for x in locks(): x.release()
    os._exit(0 if free and value(2) == want and np.isfinite(value(3)) else 1)
print(os.waitpid(pid, 0)[1])
go.set(); thread.join(); print(value(2) == want)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_what_other_threads_hold_is_free_in_a_child() -> None:
    done = run(CHILD)
    assert (done.stdout, done.returncode) == ("0\nTrue\n", 0), done.stderr


def run(code: str) -> Any:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


TOGETHER = """
import sys, threading
import treadle as td
names = sorted(td._LATER) * 2
bad, go = [], threading.Barrier(len(names))
def name(one):
    go.wait()
    try:
        getattr(td, one)
    except BaseException as error:
        bad.append((one, error))
sys.setswitchinterval(1e-5)
threads = [threading.Thread(target=name, args=(one,)) for one in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not bad, bad
"""


def test_threads_may_name_what_is_loaded_late_at_once() -> None:
    command = [sys.executable, "-W", "error", "-c", TOGETHER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
