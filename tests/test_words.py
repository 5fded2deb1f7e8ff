"""Private words in identifiers and names that say nothing stay as few as asked."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import treadle
from tests import words
from treadle.graph.op import Op


def test_names_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main(["--most-words", "60", "--most-variables", "40"]) == 0, (
        capsys.readouterr().out
    )
    assert words.main(["--most-words", "1"]) == 1, "it fails above so many"


def test_class_names_are_unique() -> None:
    """But for ops, which have the names of what they compute: a layer, a metric or a
    callback may be called like the op behind it."""
    homes: dict[str, set[str]] = {}
    for info in pkgutil.walk_packages(treadle.__path__, "treadle."):
        if info.name.endswith(("__main__", "core.native")):
            continue  # the core calls its side of a class as that is called
        module = import_module(info.name)
        for name, kind in vars(module).items():
            own = isinstance(kind, type) and kind.__module__ == info.name
            if own and not name.startswith("_") and not issubclass(kind, Op):
                homes.setdefault(name, set()).add(info.name)
    assert len(homes) > 500
    assert {name: at for name, at in homes.items() if len(at) > 1} == {}
