"""Names of array types in annotations: arrays of integers and of marks."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Marks", "Numbers"]

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]
