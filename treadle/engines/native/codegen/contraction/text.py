"""Functions of one text, their names by content, and pieces of IR they share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treadle.base.caches import Cache
from treadle.engines.native.codegen.builder import Builder, Value, lanes, vector
from treadle.engines.native.codegen.texts import (
    ENTRIES,
    FunctionText,
    headed,
    kept_text,
)

__all__ = [
    "FunctionText",
    "apart",
    "end_in",
    "join",
    "kept",
    "lanes_below",
    "least",
    "part_in",
    "part_text",
    "prefetch",
    "shuffle",
    "switched",
    "table_name",
]

MOST = 4096  # texts that are kept


def join(kind: str, builders: Sequence[Builder], first: str = "") -> FunctionText:
    """One text of several functions, after a `first` line; "NAME" in them becomes
    `kind` and a hash."""
    declared: dict[str, str] = {}
    bodies = []
    for b in builders:
        declared |= b.declared
        head = ", ".join(f"{t} %{n}" for n, t in b.parameters)
        body = "\n".join(b.lines)
        bodies.append(f"define {b.returns} @{b.name}({head}) {{\n{body}\n}}")
    text = first + "\n".join([*sorted(declared.values()), *bodies])
    name = f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return FunctionText(name, text.replace("NAME", name))


def switched(
    kind: str,
    parameters: Sequence[tuple[str, str]],
    which: Callable[[Builder], Value],
    parts: Mapping[int, Builder],
) -> FunctionText:
    """A function that goes on in one of its `parts`, "NAME.PART" with the same
    parameters: that of the number which `which` computes.
    """
    b = Builder("NAME", parameters)
    labels = {n: f"s{part.name.removeprefix('NAME.')}" for n, part in parts.items()}
    cases = " ".join(f"i64 {n}, label %{label}" for n, label in labels.items())
    b.emit(f"switch {which(b)}, label %none [{cases}]")
    for n, part in parts.items():
        b.start(labels[n])
        end_in(b, Value(f"@{part.name}", "ptr"))
    b.start("none")
    b.emit("unreachable")
    return join(kind, [b, *parts.values()])


def apart(
    kind: str,
    parameters: Sequence[tuple[str, str]],
    which: Callable[[Builder], Value],
    table: str,
) -> FunctionText:
    """A function that goes on in a part of a table: that of the number which `which`
    computes. Only those that are needed are compiled (`part_text`).
    """
    b = Builder("NAME", parameters)
    end_in(b, part_in(b, table, which(b)))
    return join(kind, [b])


def part_in(b: Builder, table: str, index: Value) -> Value:
    """The part of a number, from its table."""
    b.declared["table"] = f"@{table} = external global [{ENTRIES} x ptr]"
    return b.load(
        "ptr", b.define("ptr", f"getelementptr ptr, ptr @{table}, {index}"), 8
    )


def end_in(b: Builder, function: Value) -> None:
    """Go on in a function with the same parameters, and return from there."""
    arguments = ", ".join(map(str, b.arguments.values()))
    b.emit(f"tail call void {function.name}({arguments})")
    b.ret()


def part_text(kind: str, b: Builder, table: str, number: int) -> FunctionText:
    """The part of a number, in a table."""
    return join(kind, [b], headed(number, table))


def table_name(*facts: object) -> str:
    """The name of a table of parts by all that these are made from, and for."""
    digest = hashlib.sha256(repr(facts).encode())
    return f"parts_{digest.hexdigest()[:24]}"


def kept(
    known: Cache[Any, FunctionText],
    key: Any,
    fact: str,
    make: Callable[[], FunctionText],
) -> FunctionText:
    """The function of a key, made once.

    It is kept on disk by a `fact` that says the same in every process, if there is one.
    """
    function = known.get(key)
    if function is None:
        function = kept_text(fact, make) if fact else make()
        known[key] = function
    return function


def prefetch(b: Builder, place: Value, nearness: int, write: bool = False) -> None:
    """Ask for the line of an address, into the first cache (3) or the second (2)."""
    flags = [Value(str(int(x)), "i32") for x in (write, nearness, 1)]
    b.call("llvm.prefetch.p0", "void", [place, *flags])


def least(b: Builder, x: Value, y: Value) -> Value:
    """The smaller of two integers."""
    return b.select(b.compare("slt", x, y), x, y)


def lanes_below(b: Builder, bound: Value, count: int) -> Value:
    """The mask of `count` lanes that is true below a bound."""
    edge = b.splat(b.convert("trunc", bound, "i32"), count)
    return b.compare("slt", b.sequence("i32", count), edge)


def shuffle(
    b: Builder, x: Value, y: Value, pick: Callable[[int], int], count: int = 0
) -> Value:
    """Lane l of the result is lane pick(l) of x and y side by side."""
    count = count or lanes(x.type)
    body = ", ".join(f"i32 {pick(lane)}" for lane in range(count))
    kind = vector(x.type.split()[-1].rstrip(">"), count)
    return b.define(kind, f"shufflevector {x}, {y}, <{count} x i32> <{body}>")
