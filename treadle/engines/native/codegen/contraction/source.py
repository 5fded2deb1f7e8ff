"""Storage of an operand: as it is computed with, or in fewer bytes.

Floats of 16 bits and integers of 8 are widened as they are loaded; no bit is lost. An
element of "int8 x 4", "uint8 x 4" or "bfloat x 2" is as many terms of a sum, which one
instruction multiplies and adds up.
"""

from __future__ import annotations

from treadle.engines.native.codegen.builder import (
    Builder,
    Value,
    element,
    lanes,
    vector,
)

# By name: the LLVM type of an element in memory, and its bytes.
_MEMORY = {
    "float": ("float", 4),
    "double": ("double", 8),
    "half": ("half", 2),
    "bfloat": ("i16", 2),
    "int8": ("i8", 1),
    "uint8": ("i8", 1),
    "i32": ("i32", 4),
    "int8 x 4": ("i32", 4),
    "uint8 x 4": ("i32", 4),
    "bfloat x 2": ("i32", 4),
}


def memory_type(source: str) -> str:
    """The LLVM type of an element in memory."""
    return _MEMORY[source][0]


def size_of(source: str) -> int:
    """The bytes of an element in memory."""
    return _MEMORY[source][1]


def terms_of(source: str) -> int:
    """How many terms of a sum are one element."""
    return int(source.partition(" x ")[2] or 1)


def term_type(source: str) -> str:
    """The LLVM type of a term in memory."""
    return memory_type(source.partition(" x ")[0])


def widened(b: Builder, x: Value, source: str, dtype: str) -> Value:
    """A loaded element, or a vector of them, as it is computed with."""
    if source == "half":
        return b.convert("fpext", x, "float")
    if source in ("int8", "uint8"):
        sign = "s" if source == "int8" else "z"
        if dtype == "i32":
            return b.convert(f"{sign}ext", x, "i32")
        return b.convert("sitofp" if sign == "s" else "uitofp", x, "float")
    if source == "bfloat":
        bits = b.convert("zext", x, "i32")
        return b.convert("bitcast", b.shl(bits, b.constant(bits.type, 16)), "float")
    return x


def load_wide(
    b: Builder, kind: str, place: Value, source: str, mask: Value | None = None
) -> Value:
    """A vector of type `kind` from memory in which elements lie as `source`; the mask
    is of terms."""
    count = lanes(kind)
    narrow = vector(term_type(source), count * terms_of(source))
    loaded = b.masked_load(narrow, place, mask)
    if terms_of(source) > 1:
        return b.bitcast(loaded, vector(memory_type(source), count))
    return widened(b, loaded, source, element(kind))
