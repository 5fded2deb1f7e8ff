"""The core and Python, which do the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from treadle.core import native

__all__ = ["in_python", "needs_core"]

needs_core = pytest.mark.skipif(native is None, reason="the core was not built")


@contextmanager
def in_python(*modules: ModuleType) -> Iterator[None]:
    """Let the functions of some modules do without the core."""
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "native", None)
        yield
