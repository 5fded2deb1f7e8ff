"""Many small cases in one test: a test by itself costs 6 ms, most of them less."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from treadle.base.errors import MissingExtraError
from treadle.base.options import options

SKIPPED = (pytest.skip.Exception, MissingExtraError)


def each(names: str, cases: Iterable[Any]) -> Callable[[Any], Any]:
    """Parametrize a test by cases with ids, those of one group in one test.

    A group has the same id up to the first "-" or "/": the samples of an op, the files
    of a folder. Every case is run, whatever others do; those that fail are named by
    their ids. A test is skipped if all of its cases are.
    """
    groups: dict[str, list[Any]] = {}
    for case in cases:
        groups.setdefault(re.split("[-/]", str(case.id))[0], []).append(case)
    keys = names.replace(" ", "").split(",")

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def run(group: str, **rest: Any) -> None:
            failures: list[BaseException] = []
            skips: list[BaseException] = []
            for case in groups[group]:
                given = dict(zip(keys, case.values, strict=True))
                try:
                    with options():
                        test(**given, **rest)
                except SKIPPED as skip:
                    skips.append(skip)
                except (Exception, pytest.fail.Exception) as failure:
                    failure.add_note(f"case {case.id}")
                    failures.append(failure)
            if failures:
                _raise(failures)
            if len(skips) == len(groups[group]):
                raise skips[0]

        kept = inspect.signature(test).parameters.values()
        own = inspect.Parameter("group", inspect.Parameter.KEYWORD_ONLY)
        parameters = [own, *(p for p in kept if p.name not in keys)]
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
        )
        return pytest.mark.parametrize("group", list(groups))(run)

    return decorate


def by_letter(names: Iterable[str]) -> list[Any]:
    """Cases of names for `each`: those of one first letter are in one test."""
    return [pytest.param(name, id=f"{name[0]}/{name}") for name in names]


def _raise(failures: list[BaseException]) -> None:
    if len(failures) == 1:
        raise failures[0]
    raise BaseExceptionGroup("cases", failures)
