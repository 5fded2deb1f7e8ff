"""Names that the code of Python functions mentions, and what classes have by names."""

from __future__ import annotations

import dis
import sys
import types
from typing import Any

from treadle.base.boundary import of_python
from treadle.base.caches import cached

# What an operator, a statement or a look at an attribute calls.
CALLED = frozenset(
    {n for kind in (int, list, set) for n in dir(kind) if n[:2] == "__"}.difference(
        dir(object)
    ).union(
        ["forward", "__call__", "__getattr__", "__getattribute__", "__array__"],
        ["__enter__", "__next__", "__missing__", "__hash__", "__eq__", "__ne__"],
        ["__lt__", "__le__", "__gt__", "__ge__", "__matmul__", "__rmatmul__"],
    )
)
# What reads attributes by names that do not stand in the code.
DYNAMIC = frozenset(
    ["getattr", "hasattr", "vars", "dir", "__dict__", "__getattribute__", "attrgetter"]
)

_BUILT_IN = {"treadle", *sys.builtin_module_names}


def is_library(x: Any) -> bool:
    """Return True if something is a module that no user writes."""
    if not isinstance(x, types.ModuleType):
        return False
    file = getattr(x, "__file__", None) or ""
    return x.__name__.partition(".")[0] in _BUILT_IN or file.startswith(of_python())


def attributes_of(cls: type) -> dict[str, tuple[type, Any]]:
    """The attributes of a user's class by name, each with the class it stands in."""
    attributes: dict[str, tuple[type, Any]] = {}
    for owner in reversed(cls.__mro__):
        if owner is object or owner.__module__.startswith("treadle."):
            for name in vars(owner):
                attributes.pop(name, None)
        else:
            attributes.update({n: (owner, value) for n, value in vars(owner).items()})
    return attributes


def functions_of(value: Any) -> list[types.FunctionType]:
    """The functions of Python that an attribute of a class runs."""
    if isinstance(value, property):
        value = value.fget
    value = getattr(value, "__func__", None) or getattr(value, "func", None) or value
    if not isinstance(value, types.FunctionType):  # a descriptor of a user's class
        value = getattr(type(value), "__get__", None)
    return [value] if isinstance(value, types.FunctionType) else []


@cached(4096)
def names_of(
    code: types.CodeType,
) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """The names that code mentions, each with the global name that it is looked up in
    ("" where that is another thing), and the names that it looks up globally.

    Those of inner functions, too.
    """
    names: list[tuple[str, str]] = []
    loaded, base = [], ""
    for step in dis.get_instructions(code):
        within, base = base, ""
        if step.opname == "LOAD_CONST" and type(step.argval) is tuple:  # of patterns
            names += [(name, "") for name in step.argval if type(name) is str]
        if type(step.argval) is not str or "FAST" in step.opname:
            continue
        if "GLOBAL" in step.opname or "NAME" in step.opname:
            loaded.append(step.argval)
            names.append((step.argval, ""))
            base = step.argval
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            names.append((step.argval, within))
            base = within  # of a.b.c, too
        else:
            names.append((step.argval, ""))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_of(constant)
            names += inner[0]
            loaded += inner[1]
    return tuple(dict.fromkeys(names)), tuple(dict.fromkeys(loaded))
