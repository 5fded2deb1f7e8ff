"""The core: what is done for every node and every run, in C++ where that was built.

`native` is the extension, or None: then Python does the same, as its specification.
TREADLE_CORE=python says so of a process.
"""

from __future__ import annotations

import importlib
import os
from contextlib import suppress
from typing import Any

native: Any = None
if os.environ.get("TREADLE_CORE", "") != "python":
    with suppress(ImportError):
        native = importlib.import_module("treadle.core.native")
