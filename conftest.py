"""What needs an optional package that is not installed is skipped, and says so."""

from __future__ import annotations

import doctest
from collections.abc import Generator, Iterator

import pytest
from _pytest.doctest import DoctestItem

from treadle.base.errors import MissingExtraError
from treadle.base.options import options


@pytest.fixture(autouse=True)
def _own_options() -> Iterator[None]:
    """What a test sets stays with it, also a seed set by a program that it runs."""
    with options():
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a package hands on has its examples run where it is written."""
    items[:] = [
        x
        for x in items
        if not isinstance(x, DoctestItem)
        or x.path.name != "__init__.py"
        or x.name == x.dtest.globs["__name__"]
    ]


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
