"""Caches: every table that grows is one of them, bounded, listed and emptied."""

from __future__ import annotations

import functools
import inspect
import pkgutil
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

import treadle as td
from treadle.base import caches
from treadle.base.caches import Cache, cached
from treadle.engines.base import engine

# Tables that grow after the import and are no caches: what is registered, by class or
# by name, and what is alive or under way.
REGISTRIES = {
    "treadle.autodiff.live._late",  # derivatives that live
    "treadle.autodiff.live._recorded",
    "treadle.base.caches._every",
    "treadle.base.locks._gone",  # until the next lock
    "treadle.base.locks._locks",  # weak
    "treadle.base.options._compilations",  # weak
    "treadle.base.types._gone",  # until the next type
    "treadle.base.types._types",  # weak
    "treadle.engines.base._made",  # engines
    "treadle.engines.native.execution.blocks._pools",  # that live
    "treadle.engines.native.codegen.compiler._machines",  # of a host
    "treadle.engines.native.codegen.jit._carried",  # emptied with the programs
    "treadle.engines.native.codegen.jit._table",
    "treadle.engines.native.codegen.jit._lasting",  # routines of the library
    "treadle.engines.native.codegen.jit._linkers",  # of a host
    "treadle.engines.native.codegen.jit._parts",  # by machine and type of tiles
    "treadle.engines.native.execution.pool._pools",  # weak
    "treadle.engines.native.execution.pool._shared",  # pools by threads
    "treadle.engines.native.execution.run._memories",  # by mode
    "treadle.graph.body._kinds",  # by class of op, as all that follow
    "treadle.loops.lower._virtual",
    "treadle.rewrite.driver._kinds",
    "treadle.rewrite.expand._kinds",
}
WEAK = weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary
TABLES = (dict, list, set, deque, *WEAK)


def modules() -> Iterator[tuple[str, ModuleType]]:
    for found in pkgutil.walk_packages(td.__path__, "treadle."):
        if not found.name.endswith("__main__"):
            yield found.name, import_module(found.name)


def contents() -> dict[str, Any]:
    """What modules, and the classes in them, hold by name."""
    found = {}
    for name, module in modules():
        for key, value in vars(module).items():
            if key[:2] != "__":
                found[f"{name}.{key}"] = value
            if isinstance(value, type) and value.__module__ == name:
                for inner, x in vars(value).items():
                    found[f"{name}.{key}.{inner}"] = x
    return found


def train() -> None:
    """Some of everything: layers, rows, functions, several sizes, an error."""
    rng = np.random.default_rng(0)
    cell = td.function(td.nn.Linear(4, 4))
    opt = td.optim.Adam()
    for n in (3, 5, 7):
        h = [td.asarray(rng.normal(size=4).astype("f4")) for _ in range(4 * n)]
        for k in range(2):
            h = [td.tanh(cell(x)) for x in h[k:]]
        float(opt.step(td.stack(h).mean()))
        float(td.nn.functional.cross_entropy(td.ones((n, 3)), np.zeros(n, "i8")))


def test_what_grows_is_a_cache_or_a_known_registry() -> None:
    sizes = {
        name: len(value)
        for name, value in contents().items()
        if isinstance(value, TABLES) and not isinstance(value, Cache)
    }
    train()
    after = contents()
    assert after.keys() >= REGISTRIES, sorted(REGISTRIES - after.keys())
    known = {id(after[name]) for name in REGISTRIES}
    grown = {
        name
        for name, size in sizes.items()
        if len(after[name]) > size and id(after[name]) not in known
    }
    assert not grown


def test_functions_keep_results_in_caches_alone() -> None:
    every = contents()  # loads all modules
    known = {id(cache) for *_, cache in caches.caches()}
    for name, value in every.items():
        mine = name.startswith(getattr(value, "__module__", None) or "?")
        kept = isinstance(value, functools._lru_cache_wrapper) and mine
        if kept and id(value) not in known:
            # What has no arguments is one value.
            assert not inspect.signature(value).parameters, name


def test_caches_are_bounded_listed_and_emptied() -> None:
    train()
    tables = td.cache_info().tables
    names = [name for name, *_ in tables]
    assert "bodies by rows" in names and "treadle.graph.op.shared" in names
    assert all(0 <= size <= limit for _, size, limit in tables)
    assert sum(size for _, size, _ in tables) > 100
    td.clear_cache()
    left = [name for name, size, _ in td.cache_info().tables if size]
    assert left in (
        [],
        ["treadle.engines.native.codegen.cache._opened"],
    )  # looked at, above
    train()  # nothing leans on what was there


def test_the_oldest_goes_and_a_cache_that_dies_is_forgotten() -> None:
    table: Cache[int, int] = Cache("of a test", 2)
    for k in range(4):
        table.setdefault(k, k)
    assert list(table) == [2, 3]
    square = cached(1)(lambda x: x * x)
    assert square(3) == 9 and square.cache_info().maxsize == 1
    assert "of a test" in [name for name, *_ in caches.tables()]
    del table
    assert "of a test" not in [name for name, *_ in caches.tables()]


def test_options_that_decide_a_compilation_are_in_one_object() -> None:
    first = td.base.options.current().compilation
    with td.options(seed=3, eager=True) as more:
        assert more.compilation is first
    chosen: dict[str, Any] = {
        "engine": "reference",
        "workspace": 1 << 20,
        "dtype": "float64",
        "optimize": False,
        "check": True,
        "arena": "poison",
        "rules": [td.Rule("a", td.rewrite.pattern.captures("x")[0] * 7, 1.0)],
        "autobatch": False,
    }
    for name, value in chosen.items():
        with td.options(**{name: value}) as more:
            assert more.compilation is not first, name
        with td.options(**{name: value}) as again:
            assert again.compilation is more.compilation, name


def test_who_records_code_has_programs_apart_from_other_threads() -> None:
    native: Any = engine("native")
    before, seen = native.programs, []

    def look() -> None:
        other = threading.Thread(target=lambda: seen.append(native.programs))
        other.start()
        other.join()
        seen.append(native.programs)

    native.recorded(look)
    assert seen[0] is before is native.programs and seen[1] is not before
