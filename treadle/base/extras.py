"""Optional packages, loaded by name where something needs them."""

from __future__ import annotations

import importlib
from typing import Any

from treadle.base.errors import MissingExtraError


def extra(module: str, group: str) -> Any:
    """A module of an optional package; where it is missing, what installs it.

    >>> extra("math", "linalg").floor(1.5)
    1
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"needs {package}, which is not installed",
            hint=f'install it: pip install "treadle[{group}]"',
        ) from None
