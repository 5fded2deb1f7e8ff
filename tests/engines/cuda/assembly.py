"""PTX as LLVM writes it, read: entries, their parameters, variables, instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Entry", "Instruction", "Module", "Variable", "read"]

SIZES = {"pred": 1, "b8": 1, "s8": 1, "u8": 1} | {
    f"{kind}{bits}": bits // 8 for kind in "bsuf" for bits in (16, 32, 64)
}
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align \d+ )?\.(\w+)(?: \.ptr[^%\s,]*(?: \.align \d+)?)?\s+(\w+)"
)
_ENTRY = re.compile(
    r"\.entry (\w+)\((.*?)\)\s*((?:\.\w+ [\d, ]+\s*)*)\{(.*?)^\}", re.S | re.M
)
_VARIABLE = re.compile(
    r"\.(shared|global|local|const) \.align (\d+) \.(\w+)\s+(\w+)(?:\[(\d+)\])?"
    r"(?: = ([^;]+))?;"
)
# A half of a register that nobody needs has a name for one instruction.
_HALF = re.compile(r"\{\s*\.reg \.b32 (\w+);\s*(mov\.b64\s+[^;]*;)\s*\}")
_INSTRUCTION = re.compile(r"(?:@(!?)(%p\d+)\s+)?([\w.]+)\s*(.*)")


@dataclass(frozen=True)
class Variable:
    """Memory with a name: its space, its bytes, what it begins with."""

    name: str
    space: str
    align: int
    bytes: int
    start: bytes = b""


@dataclass(frozen=True)
class Instruction:
    """One line: an opcode in parts, operands as they are written, and a condition."""

    opcode: str
    operands: tuple[str, ...]
    condition: str = ""
    negated: bool = False

    @property
    def name(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def parts(self) -> list[str]:
        return self.opcode.split(".")[1:]

    @property
    def types(self) -> list[str]:
        return [p for p in self.parts if p in SIZES]


@dataclass
class Entry:
    """A kernel: its parameters by name and size, and where labels stand."""

    name: str
    parameters: list[tuple[str, int]]
    items: int
    variables: list[Variable]
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Module:
    """The entries of a text, and what they all see."""

    entries: dict[str, Entry]
    variables: list[Variable]


def read(text: str) -> Module:
    """The module that a text defines."""
    text = re.sub(r"//[^\n]*", "", text)
    text = _HALF.sub(lambda m: re.sub(rf"\b{m[1]}\b", "_", m[2]), text)
    entries = {}
    for name, parameters, directives, body in _ENTRY.findall(text):
        sizes = [(n, SIZES[kind]) for kind, n in _PARAMETER.findall(parameters)]
        asked = re.search(r"\.reqntid (\d+)", directives)
        variables = [_variable(m) for m in _VARIABLE.finditer(body)]
        entry = Entry(name, sizes, int(asked[1]) if asked else 0, variables)
        _fill(entry, _VARIABLE.sub("", body))
        entries[name] = entry
    outside = _ENTRY.sub("", text)
    return Module(entries, [_variable(m) for m in _VARIABLE.finditer(outside)])


def _variable(found: re.Match[str]) -> Variable:
    space, align, kind, name, count, start = found.groups()
    size = int(count or 1) * SIZES[kind]
    data = b""
    if start:
        numbers = [int(w, 0) for w in re.findall(r"0x[\da-fA-F]+|-?\d+", start)]
        mask = (1 << 8 * SIZES[kind]) - 1
        data = np.array([n & mask for n in numbers], f"u{SIZES[kind]}").tobytes()
        size = max(size, len(data))
    return Variable(name, space, int(align), size, data)


def _fill(entry: Entry, body: str) -> None:
    """The instructions of an entry and its labels."""
    for line in re.sub(r"^(\$\w+):", r"\1:;", body, flags=re.M).split(";"):
        line = line.strip()
        if not line or line.startswith((".reg", ".pragma", ".loc")):
            continue
        if line.endswith(":"):
            entry.labels[line[:-1]] = len(entry.instructions)
            continue
        found = _INSTRUCTION.fullmatch(line)
        assert found is not None, line
        negated, condition, opcode, rest = found.groups()
        operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest)
        entry.instructions.append(
            Instruction(
                opcode,
                tuple(w.strip() for w in operands),
                condition or "",
                bool(negated),
            )
        )
