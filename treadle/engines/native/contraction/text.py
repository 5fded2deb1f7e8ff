"""Functions of one text, and their names by content."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from ..builder import Builder, Value

__all__ = ["Function", "join", "opaque"]


@dataclass(frozen=True)
class Function:
    """LLVM IR that defines `name`, a function no other text defines otherwise."""

    name: str
    text: str


def join(kind: str, builders: Sequence[Builder]) -> Function:
    """One text of several functions; "NAME" in them becomes `kind` and a hash."""
    declared: dict[str, str] = {}
    bodies = []
    for b in builders:
        declared |= b.declared
        head = ", ".join(f"{t} %{n}" for n, t in b.parameters)
        body = "\n".join(b.lines)
        bodies.append(f"define {b.returns} @{b.name}({head}) nounwind {{\n{body}\n}}")
    text = "\n".join([*sorted(declared.values()), *bodies])
    name = f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Function(name, text.replace("NAME", name))


def opaque(b: Builder, x: Value) -> Value:
    """x in a register, while the optimizer no longer knows where it came from."""
    return b.define(x.type, f'call {x.type} asm "", "=r,0"({x})')
