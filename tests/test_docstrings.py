"""Every public name has a docstring, whose first line names the thing."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import MemberDescriptorType, ModuleType
from typing import Any

import treadle as td
from treadle.base.torch import Elsewhere

PACKAGES = [
    td, td.nn, td.nn.functional, td.nn.init, td.optim, td.optim.schedules,
    td.optim.transform, td.optim.moves, td.optim.penalty, td.data, td.io, td.train,
    td.distributed, td.fft, td.linalg, td.random, td.nn.utils,
]  # fmt: skip
# Beginnings that name nothing, and words that are this library's own.
NAMELESS = re.compile(r"(What|How|Where|Who|As|Those|These|That|So|If) ")
PRIVATE = re.compile(r"\b(told|lies|law|laws|spelled|settle[sd]?)\b")


def is_code(value: Any) -> bool:
    return inspect.isclass(value) or callable(value)


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class of the library defines."""
    for name, value in vars(cls).items():
        slot = isinstance(value, (MemberDescriptorType, Elsewhere))
        method = is_code(value) or hasattr(value, "__get__") or hasattr(value, "func")
        if name[0] != "_" and method and not slot:
            yield name, value


def public() -> dict[str, str]:
    """The docstring of each public name, and of each public member of a class."""
    texts: dict[str, str] = {}
    for package in PACKAGES:
        for name in package.__all__:
            value = getattr(package, name)
            alias = type(value).__module__ in ("typing", "types", "collections.abc")
            if isinstance(value, ModuleType) or alias or not is_code(value):
                continue
            path = f"{package.__name__}.{name}"
            texts[path] = inspect.getdoc(value) or ""
            if inspect.isclass(value) and value.__module__.startswith("treadle"):
                for own, _ in members(value):
                    texts[f"{path}.{own}"] = inspect.getdoc(getattr(value, own)) or ""
    return texts


TEXTS = public()


def test_every_public_name_has_a_docstring() -> None:
    assert len(TEXTS) > 1200
    assert not [path for path, text in TEXTS.items() if not text.strip()]


def test_every_package_has_a_docstring() -> None:
    assert not [p.__name__ for p in PACKAGES if not (p.__doc__ or "").strip()]


def test_first_lines_name_the_thing() -> None:
    wrong = {
        path: line
        for path, text in TEXTS.items()
        for line in text.split("\n")[:1]
        if NAMELESS.match(line) or PRIVATE.search(line)
    }
    assert not wrong


def test_first_lines_of_modules_name_the_thing() -> None:
    root = Path(td.__file__).parent
    wrong = []
    for path in sorted(root.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if re.match(r"(Whether|Which|When) ", text) or NAMELESS.match(text):
            wrong.append(f"{path.relative_to(root)}: {text.splitlines()[0]}")
    assert not wrong
