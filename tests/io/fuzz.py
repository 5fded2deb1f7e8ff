"""`python -m tests.io.fuzz --seconds 60`: mutated files against each reader in turn.

A reader may load a mutated file or refuse it with ModelFileError in words that name
the file; anything else is a failure, and so are opened files, imports, processes and
sockets meanwhile, more memory than the promise and seconds of work. `--seed S --only K`
repeats one.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import treadle as td
from tests.io.hostile import HOSTILE
from tests.io.hostile_messages import RECORDS
from tests.io.hostile_nervana import SIMPLE
from treadle.base import dtypes
from treadle.base.errors import ModelFileError
from treadle.graph.op import registry
from treadle.io.tensorboard.record import framed
from treadle.io.tensors import FORMATS

MOST = 1 << 24  # bytes that a mutated file may make
NUMBERS = [0, 1, 2, 127, 128, 255, 256, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]
WORDS = [
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b",",
    b"-",
    b"9" * 20,
    b"/..",
    b"\0",
    b"\n",
    b"(",
]
NAMES = [*[f.name for f in FORMATS], "graph", "events", "nervana"]
FORBIDDEN = ("open", "exec", "import", "subprocess", "os.", "socket", "ctypes.dlopen")
_watching: list[str] = []  # what was done that no reader does
_watched = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched or not event.startswith(FORBIDDEN):
        return
    if event != "open" or not str(arguments[0]).endswith(".py"):  # the line at fault
        _watching.append(f"{event} {str(arguments)[:200]}")


def log_of_events() -> bytes:
    """An event file with an entry of each kind."""
    net = td.nn.Sequential(td.nn.Linear(3, 2), td.nn.ReLU())
    with tempfile.TemporaryDirectory() as folder:
        with td.io.EventWriter(folder) as log:
            log.scalar("loss", 0.5, 1)
            log.histogram("w", np.arange(9.0), 2)
            log.image("i", np.zeros((2, 2, 3)), 3)
            log.audio("a", np.zeros(5), 4)
            log.text("t", "words", 5)
            log.graph(net(td.placeholder((1, 3), name="x")))
        return log.path.read_bytes()


def graph_of_nervana() -> bytes:
    """A network as Nervana Graph has it."""
    net = td.nn.Sequential(td.nn.Linear(3, 2), td.nn.Softmax(-1))
    x = td.placeholder((2, 3), name="x")
    with tempfile.TemporaryDirectory() as folder:
        td.io.save_nervana(f"{folder}/g.pb", td.computation({"y": net(x)}, x))
        return Path(f"{folder}/g.pb").read_bytes()


def good_files(name: str) -> list[bytes]:
    """Files of a format that are as they should be."""
    rng = np.random.default_rng(0)
    if name == "events":
        return [log_of_events(), *RECORDS.values()]
    if name == "nervana":
        small = [raw for raw, _, _ in HOSTILE[name].values() if len(raw) < 1 << 12]
        return [SIMPLE, graph_of_nervana(), *small]
    if name == "graph":
        x, w = td.placeholder((4, 3), name="x"), td.param("w", (3, 3), init=0.5)
        total = td.Variable(0.0, name="total")
        total += td.sum(x)
        _, rows = td.scan(lambda h, v: (td.tanh(h @ w + v),) * 2, td.zeros(3), x)
        parts = [rows[1:, ::2].astype("float64"), td.dropout(x, 0.5), td.max(x, axis=1)]
        made: Any = td.computation({"parts": parts, "total": total}, x)
        return [_saved(made, ".npz"), _saved(made, ".bin")]
    kinds = next(f for f in FORMATS if f.name == name).dtypes
    arrays = {
        f"{d.name}.{k}": rng.integers(0, 2, (2, k + 1)).astype(d)
        for k, d in enumerate(sorted(kinds, key=str))
    }
    text = next(f for f in FORMATS if f.name == name).keeps_text
    facts = {"made": "here", "model.yml": "dim: 3\n"} if text else {}
    axes = dict.fromkeys(arrays, ("n", None)) if text else {}
    whole = td.io.Arrays(arrays, facts, frozenset(list(arrays)[:1]), axes)
    found = [_saved(whole, name)]
    if name == ".npz":
        file = io.BytesIO()
        plain = {k: v for k, v in arrays.items() if v.dtype != dtypes.bfloat16}
        np.savez_compressed(file, **plain)  # type: ignore[arg-type]
        found.append(file.getvalue())
    rows = HOSTILE[".dynet" if name == "dynet" else name]
    return found + [content for content, _, _ in rows.values() if is_small(content)]


def is_small(content: Any) -> bool:
    return isinstance(content, bytes) and len(content) < 1 << 12


def _saved(what: Any, name: str) -> bytes:
    file = io.BytesIO()
    td.save(file, what, format=name)
    return file.getvalue()


def mutated(rng: random.Random, good: list[bytes]) -> bytes:
    """A file with a few places changed."""
    content = bytearray(rng.choice(good))
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at = rng.randrange(len(content) + 1)
        action = rng.randrange(8)
        if action == 0 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif action == 1:
            content[at : at + 1] = bytes([rng.randrange(256)])
        elif action == 2:
            form = rng.choice("BHIQ")
            number = rng.choice(NUMBERS) & ((1 << 8 * struct.calcsize(form)) - 1)
            content[at : at + struct.calcsize(form)] = struct.pack("<" + form, number)
        elif action == 3:
            del content[at:]
        elif action == 4:
            del content[at : at + rng.randrange(1, 40)]
        elif action == 5:
            content[at:at] = content[at : at + rng.randrange(1, 200)]
        elif action == 6:
            content[at:at] = rng.choice(WORDS)
        else:
            other = rng.choice(good)
            start = rng.randrange(len(other) + 1)
            content[at:] = other[start:]
    return bytes(content)


def problem(load: Callable[[bytes], Any], content: bytes) -> str:
    """What is wrong with how a reader takes a file; nothing where all is well."""
    global _watched
    _watching.clear()
    start = time.process_time()
    _watched, found = True, ""
    try:
        load(content)
    except ModelFileError as error:
        if not error.message.startswith("the buffer: ") or len(error.message) > 4000:
            found = f"the message is {error.message[:200]!r}"
    except BaseException as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        _watched = False
    took = time.process_time() - start
    if took > 5:
        found = found or f"it took {took:.1f} s"
    return found or "; ".join(_watching)


def read_log(content: bytes) -> None:
    """Read mutated bytes as a file, and as one record with the right sums."""
    for raw in (content, framed(content)):
        for _ in td.io.read_events(raw):
            pass


def reader(name: str) -> Callable[[bytes], Any]:
    if name == "events":
        return read_log
    if name == "nervana":
        return td.io.load_nervana
    if name == "graph":
        return lambda content: td.load_computation(content, max_bytes=MOST)
    mappable = next(f for f in FORMATS if f.name == name).mappable

    def load(content: bytes) -> None:
        td.load(content, format=name, max_bytes=MOST)
        if mappable:
            td.load(content, format=name, max_bytes=MOST, copy=False)

    return load


def campaign(name: str, seconds: float, seed: int, only: int | None) -> int:
    """Failures of a reader in so many seconds; each is told."""
    good, load = good_files(name), reader(name)
    for content in good[:1]:
        assert not problem(load, content), "a good file is not loaded"
    failures = 0
    end = time.monotonic() + seconds
    count = 0 if only is None else only
    while only is not None or time.monotonic() < end:
        content = mutated(random.Random(f"{name} {seed} {count}"), good)
        found = problem(load, content)
        if found:
            failures += 1
            print(f"{name} --seed {seed} --only {count}: {found}", flush=True)
        count += 1
        if only is not None or failures >= 20:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{name}: {count} files from seed {seed}, {failures} failures, {peak} MB peak"
    )
    return failures


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, default=None, help="one file's number")
    parser.add_argument("--format", choices=NAMES)
    given = parser.parse_args()
    names = [given.format] if given.format else NAMES
    sys.addaudithook(watch)
    goods = {name: good_files(name) for name in names}  # what is loaded late, is now
    registry.whole()
    for name in names:
        problem(reader(name), goods[name][0])
        problem(reader(name), b"no such file")  # errors tell lines of the user's
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = size + MOST * 4 + (64 << 20)  # the promise, with room for the allocator
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    wrong = sum(campaign(name, given.seconds, given.seed, given.only) for name in names)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
