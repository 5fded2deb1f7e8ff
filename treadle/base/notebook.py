"""Notebooks: whether this process runs one."""

from __future__ import annotations

import sys

__all__ = ["in_notebook"]


def in_notebook() -> bool:
    """Whether a notebook's kernel, which shows HTML, runs this process.

    >>> in_notebook()
    False
    """
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")
