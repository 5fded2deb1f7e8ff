"""What needs an optional package that is not installed is skipped, and says so.

The rest is what each of many tests would pay for: bytecode, the collector, a timer.
"""

from __future__ import annotations

import doctest
import faulthandler
import gc
import os
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestItem
from _pytest.faulthandler import fault_handler_stderr_fd_key

if sys.dont_write_bytecode:  # every worker and process of a test would compile it anew
    sys.pycache_prefix = str(Path(__file__).with_name("build") / "bytecode")
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

os.environ.setdefault("TREADLE_TRACEBACK", "full")  # what fails here is ours to mend
# What a test has changed in the compiler no program on disk may hide, nor hold.
os.environ.setdefault("TREADLE_CACHE", "code")
# Its threads wait in loops: beside another worker rules took four times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from treadle.base.errors import MissingExtraError
from treadle.base.options import options

# They are modules of treadle.ops by their public names, collected there.
collect_ignore = [f"treadle/{name}.py" for name in ("fft", "linalg", "random")]
HANGS = 300.0  # seconds: a test that takes them is named, and the rest goes on
REARMED = (
    20.0  # seconds after which a timer is set anew: it is a thread, so not by test
)
_timer = -REARMED
_file: Path | None = None  # of the test before


@pytest.fixture(autouse=True)
def _own_options() -> Iterator[None]:
    """What a test sets stays with it, also a seed set by a program that it runs."""
    with options():
        yield


@pytest.fixture(autouse=True)
def _library(doctest_namespace: dict[str, object]) -> None:
    """Examples of docstrings have the library as `td`, as its users do."""
    import treadle

    doctest_namespace["td"] = treadle


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a package hands on has its examples run where it is written."""
    items[:] = [
        x
        for x in items
        if not isinstance(x, DoctestItem)
        or x.path.name != "__init__.py"
        or x.name == x.dtest.globs["__name__"]
    ]


def pytest_collection_finish() -> None:
    """The tests themselves stay to the end: the collector need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    global _file, _timer
    if item.path != _file:  # what files before have left, a collection takes 0.3 s for
        _file = item.path
        gc.collect()
        gc.freeze()
    now = time.monotonic()
    if now - _timer >= REARMED:
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(HANGS + REARMED, file=stderr, exit=True)
        _timer = now


def pytest_exception_interact() -> None:
    global _timer
    _timer = -REARMED  # pytest has stopped it


def pytest_sessionfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    try:
        yield
    except MissingExtraError as error:
        pytest.skip(error.message)
    except doctest.UnexpectedException as failure:
        if not isinstance(failure.exc_info[1], MissingExtraError):
            raise
        pytest.skip(failure.exc_info[1].message)


@pytest.fixture
def part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small plans run as large ones do: not at once, by the core."""
    from treadle.runtime import again, steps

    monkeypatch.setattr(again, "follow", lambda *request: NotImplemented)
    monkeypatch.setattr(steps.RunPlan, "_run_at_once", lambda plan, look: None)
