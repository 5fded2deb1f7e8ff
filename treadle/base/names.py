"""The names of a package that are its users'."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any


def listed(names: Mapping[str, Any], modules: Iterable[str] = ()) -> list[str]:
    """The names that `dir` of a package shows: none that begins with "_", and of its
    modules those given.

    >>> listed({"sum": 1, "mean": 2, "_own": 3})
    ['mean', 'sum']
    """
    public = {
        name
        for name, value in names.items()
        if name[:1] != "_" and not isinstance(value, ModuleType)
    }
    return sorted(public.union(modules))


def public(names: Mapping[str, Any], modules: Iterable[str] = ()) -> list[str]:
    """The names that `from package import *` brings: those listed, none of Python's.

    >>> public({"sum": 1, "mean": 2})
    ['mean']
    """
    return [name for name in listed(names, modules) if not hasattr(builtins, name)]
