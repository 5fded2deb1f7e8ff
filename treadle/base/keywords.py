"""The keywords that options and Variables hand on, for type checkers."""

from __future__ import annotations

from typing import Any, TypedDict


class OptionSettings(TypedDict, total=False):
    """The keywords that set Options, as texts and numbers too."""

    engine: str
    threads: int
    workspace: int | str
    reserve: int | str
    dtype: Any
    seed: int
    optimize: bool
    eager: bool
    check: bool
    arena: str
    rules: Any
    autobatch: bool
    check_numerics: bool
    autocast: Any


class VariableSettings(TypedDict, total=False):
    """The keywords of a Variable but for whether it is trained."""

    name: str | None
    dtype: Any
    axes: Any
    sparse: bool
    copy: bool
