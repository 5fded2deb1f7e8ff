"""Programs on disk: found by the content of their graphs, with the bits of each."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines.test_sizes import GRAPHS, data, gradient, values
from treadle.base.events import watch
from treadle.engines.base import engine
from treadle.engines.native.translation import stored
from treadle.graph.origin import describe

F = td.nn.functional
Graph = Callable[[int], Sequence[Any]]
SIZES = (64, 100, 40, 65, 2, 1, 3, 128)


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache of its own, with programs."""
    monkeypatch.setenv("TREADLE_CACHE", "1")
    monkeypatch.setenv("TREADLE_CACHE_DIR", str(tmp_path))
    with td.options(engine="native"):
        td.clear_cache()
        yield
    td.clear_cache()


def scanned(n: int) -> Sequence[Any]:
    """A loop, and what leads back through it."""
    w, xs = td.asarray(data(5, 5)), td.asarray(data(n, 3, 5))

    def step(h: Any, x: Any) -> Any:
        h = td.tanh(h @ w + x)
        return h, h

    h, ys = td.scan(step, td.zeros((3, 5)), xs)
    return [h, *gradient((ys * ys).sum(), xs, w)]


def chosen(n: int) -> Sequence[Any]:
    """A loop and a branch by data, with an op of NumPy's inside."""
    x = td.asarray(data(n, 4))
    far = td.while_loop(lambda a: a[0, 0] < 9, lambda a: a * a + 1.5, x)
    high = td.cond(far.mean() > 3, lambda a: td.sort(a, axis=0), lambda a: -a, far)
    return [far, high]


ALL = {**GRAPHS, "scanned": scanned, "chosen": chosen}


@pytest.mark.parametrize("graph", ALL.values(), ids=ALL)
def test_what_is_read_has_the_bits_of_what_was_compiled(
    graph: Graph, compiled: list[int]
) -> None:
    wanted = [values(graph, n) for n in SIZES]
    assert compiled
    td.clear_cache()
    compiled.clear()
    for n, own in zip(SIZES, wanted, strict=True):
        for x, y in zip(own, values(graph, n), strict=True):
            assert x.shape == y.shape and x.tobytes() == y.tobytes(), n
    assert not compiled


OTHERS = (90, 47, 77)


@pytest.mark.parametrize("name", ["product", "pairs", "scanned"])
def test_sizes_that_no_process_has_seen_are_served_by_what_was_compiled(
    name: str, compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in SIZES:
        values(ALL[name], n)
    td.clear_cache()
    compiled.clear()
    found = [values(ALL[name], n) for n in OTHERS]
    assert not compiled
    monkeypatch.setenv("TREADLE_CACHE", "code")
    for n, own in zip(OTHERS, found, strict=True):
        td.clear_cache()
        for x, y in zip(own, values(ALL[name], n), strict=True):
            assert x.shape == y.shape and x.tobytes() == y.tobytes(), n


@pytest.mark.parametrize("name", ["product", "image", "scanned"])
def test_what_is_read_is_what_was_compiled(name: str) -> None:
    native: Any = engine("native")
    found = []
    for _ in range(2):
        td.clear_cache()
        for n in (40, 50, 60):
            values(ALL[name], n)
        found.append(native.latest_linked())
    one, other = found
    assert one.program.steps == other.program.steps or name == "scanned"
    assert [b.type for b in one.program.buffers] == [
        b.type for b in other.program.buffers
    ]
    assert one.sizes == other.sizes and one.plan.size == other.plan.size
    for name in ("slots", "which", "shifts", "placed", "places"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


PROGRAM = """
import hashlib, sys
import numpy as np
import treadle as td
from treadle.engines.base import engine
native, count = engine("native"), [0]
make = native._translated
def counted(*given):
    count[0] += 1
    return make(*given)
native._translated = counted
td.set_options(threads=1)
rng = np.random.default_rng(0)
model = td.nn.Sequential(
    td.nn.Conv2d(1, 4, 3), td.nn.BatchNorm2d(4), td.nn.ReLU(), td.nn.Flatten(),
    td.nn.Linear(144, 16), td.nn.Dropout(0.1), td.nn.Linear(16, 5),
)
recurrent = td.nn.LSTM(5, 6)
optimizer = td.optim.Adam(lr=0.01)
digest = hashlib.sha256()
for n in (7, 12, 30, 31, 2, 1):
    images = rng.standard_normal((n, 1, 8, 8)).astype(np.float32)
    y = model(td.asarray(images))
    out, _ = recurrent(td.asarray(rng.standard_normal((n, 2, 5)).astype(np.float32)))
    loss = td.nn.functional.cross_entropy(y, rng.integers(0, 5, n)) + out.mean()
    digest.update(np.asarray(optimizer.step(loss)).tobytes())
for p in model.parameters():
    digest.update(p.numpy().tobytes())
assert "numpy.ma" not in sys.modules, "it takes longer to load than a step"
print(digest.hexdigest(), count[0])
"""


def test_another_process_compiles_nothing() -> None:
    found = []
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout.split())
    (first, count), *rest = found
    assert int(count) > 1
    assert rest == [[first, "0"]] * 2


def weighted(axis: int = 0) -> Any:
    return td.evaluate((td.asarray(data(9, 4)) * 3 + 0.5).sum(axis))


@pytest.mark.parametrize(
    "changed",
    [
        {"axis": 1},
        {"arena": "poison"},
        {"optimize": False},
        {"version": "0"},
        {"state": "edited"},
        {"cpu": "x86-64-v2"},
    ],
    ids=lambda x: next(iter(x)),
)
def test_all_that_decides_a_program_is_in_its_key(
    changed: dict[str, Any], compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    weighted()
    assert len(compiled) == 1
    td.clear_cache()
    weighted()
    assert len(compiled) == 1
    td.clear_cache()
    if "version" in changed:
        monkeypatch.setattr(td, "__version__", changed["version"])
    if "state" in changed:
        monkeypatch.setattr(stored, "sources", lambda: changed["state"])
    if "cpu" in changed:
        monkeypatch.setenv("TREADLE_CPU", changed["cpu"])
    settings = {k: changed[k] for k in changed.keys() & {"arena", "optimize"}}
    with td.options(**settings):
        weighted(changed.get("axis", 0))
    assert len(compiled) == 2


def test_which_arguments_are_weights_is_in_the_key(compiled: list[int]) -> None:
    w = td.param(shape=(4, 3), init=1.0)
    x = td.asarray(data(9, 4))
    (x @ w).numpy()
    td.clear_cache()
    (x @ td.asarray(np.ones((4, 3), np.float32))).numpy()
    assert len(compiled) == 2


def test_machine_code_alone(
    compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_CACHE", "code")
    for k in (1, 2):
        td.clear_cache()
        weighted()
        assert len(compiled) == k


def test_functions_of_the_users_are_compiled_by_each_process(
    compiled: list[int],
) -> None:
    seen: list[Any] = []
    for k in (1, 2):
        td.clear_cache()
        y = td.callback(seen.append, td.asarray(data(9, 4)) * 2)
        (y + 1).numpy()
        assert len(compiled) == len(seen) == k


class Wrong:
    """A cache that holds no programs."""

    def read(self, key: bytes) -> bytes:
        return b"no such thing"

    def write(self, key: bytes, content: bytes) -> bool:
        return False


def test_what_is_wrong_on_disk_is_made_anew(
    compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (wanted,) = values(ALL["pairs"], 9)
    monkeypatch.setattr(stored, "program_cache", Wrong)
    td.clear_cache()
    compiled.clear()
    assert values(ALL["pairs"], 9)[0].tobytes() == wanted.tobytes()
    assert compiled


class Foreign:
    """A class of another package."""


@pytest.mark.parametrize(
    "x", [Foreign(), Foreign, os.system, print, getattr, lambda: 1, td.ones((2,)), io]
)
def test_what_is_no_plain_data_is_not_written(x: Any) -> None:
    with pytest.raises((pickle.PicklingError, TypeError, AttributeError)):
        stored._written((1, x), ())


@pytest.mark.parametrize(
    "written",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\ngetattr\n.",
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"\x80\x04\x8c#treadle.engines.native.codegen.cache\x8c\tos.system\x93.",
        b"\x80\x04\x8c\x0etreadle.nn.module\x8c\x06Module\x93.",
    ],
)
def test_what_makes_anything_else_is_not_read(written: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        stored._Reader(io.BytesIO(written), ()).load()


def test_lines_are_those_of_the_graph_at_hand() -> None:
    for _ in range(2):
        td.clear_cache()
        with watch() as log:
            td.exp(td.asarray(data(9, 4)) * 3).numpy()
        lines = {describe(x) for event in log for x in event.origins}
        assert any("test_stored.py" in x and "td.exp" in x for x in lines)
