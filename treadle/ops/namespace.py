"""Inspection of the namespace, as the array API standard has it."""

from __future__ import annotations

import sys
from typing import Any

from treadle.base.devices import HOST, as_device
from treadle.base.dtypes import HALF, DType, default_of, int64
from treadle.base.errors import ArgumentError
from treadle.base.options import current
from treadle.graph.operators import provide
from treadle.ops.promotion import KINDS

__all__ = ["__array_api_version__", "__array_namespace_info__"]

__array_api_version__ = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
DIMENSIONS = 64  # NumPy's limit


class NamespaceInfo:
    """The devices, dtypes and abilities of the namespace `treadle`.

    >>> td.__array_namespace_info__().default_dtypes()["real floating"].name
    'float32'
    """

    def capabilities(self) -> dict[str, Any]:
        """The capabilities, by the names that the standard gives."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": DIMENSIONS,
        }

    def default_device(self) -> str:
        """The device of values: the host, whatever engine computes them."""
        return HOST

    def devices(self) -> tuple[str, ...]:
        """The devices that `device=` takes."""
        return (HOST,)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of what is made without one."""
        as_device(device)
        real = current().dtype
        return {
            "real floating": real,
            "complex floating": default_of(1j, real),
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes that the standard names, by name; of one kind or several."""
        as_device(device)
        kinds = kind if isinstance(kind, tuple) else (kind or ("bool", "numeric"),)
        kinds = kinds[0] if isinstance(kinds[0], tuple) else kinds
        for each in kinds:
            if each not in KINDS:
                known = ", ".join(KINDS)
                raise ArgumentError(
                    f"{each!r} is no kind of dtypes", hint=f"one of {known}"
                )
        return {d.name: d for each in kinds for d in KINDS[each] if d not in HALF}


def __array_namespace_info__() -> NamespaceInfo:
    """The inspection interface of the array API standard.

    >>> td.__array_namespace_info__().devices()
    ('cpu',)
    """
    return NamespaceInfo()


@provide
def array_namespace(api_version: str | None = None) -> Any:
    """The package, which is the namespace of tensors under the standard."""
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError(
            f"there is no version {api_version!r} of the array API standard here",
            hint=f"one of {', '.join(VERSIONS)}",
        ).located("__array_namespace__")
    return sys.modules["treadle"]
