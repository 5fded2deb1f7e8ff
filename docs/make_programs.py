"""Which programs a training of each example compiles, and why: docs/programs.md.

`python docs/make_programs.py` runs each example for a short time, in a process of its
own with nothing compiled before, and writes the page.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import treadle as td
from treadle.base.symbolic import SymbolicTrace, guards_of
from treadle.base.symbolic.writer import compiled
from treadle.engines.base import engine
from treadle.engines.native.forest import parts
from treadle.engines.native.translation import families

ROOT = Path(__file__).resolve().parents[1]
ARGUMENTS = {
    "characters": "--count 400 --epochs 2",
    "tagger": "--count 200 --epochs 2",
    "parser": "--count 100 --epochs 2",
    "spelling": "--count 300 --epochs 2",
    "trees": "--count 200 --epochs 2",
}
HEAD = """# Programs of the examples

Which programs a short training of each example compiles, and why, in a process where
nothing was compiled before: `python docs/make_programs.py` makes this page.

A *structure* is a graph (or the body of rows) without its extents. Its first size is
compiled as it is; at the second, extents that moved become symbols, and the program
serves all sizes that its guards admit. A size at which a *guard* does not hold has one
more program, and so has one where an *extent* moves that never moved before. *One size
alone*: numbers of rows below 2, and what cannot be compiled with symbols. `td.explain`
lists the guards of a graph with the lines that left them.

| example | programs | structures | why the others were compiled |
|---|---|---|---|
"""


class Reasons:
    """What each program was compiled for."""

    def __init__(self) -> None:
        self.all: Counter[str] = Counter()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is compiled inside."""
        native: Any = engine("native")
        before = native._compile, families._Variant.__init__
        rows = parts._Variant.__init__, parts._alone
        made, reasons = self, self.all

        def first(wanted: Any) -> Any:
            reasons["structure"] += 1
            return before[0](wanted)

        def traced(self: Any, seen: Any, make: Any, lanes: int, family: Any) -> None:
            before[1](self, seen, make, lanes, family)
            reasons[made.why(family.variants.all, seen[-1], "the second size")] += 1

        def of_rows(self: Any, make: Any, n: int) -> None:
            rows[0](self, make, n)
            known = made.known.setdefault(make, [])
            reasons[made.why(known, [n], "structure")] += 1
            known.append(self)

        def alone(body: Any) -> Any:
            reasons["one size alone"] += 1
            return rows[1](body)

        self.known: dict[Any, list[Any]] = {}
        native._compile = first
        families._Variant.__init__ = traced  # type: ignore[method-assign]
        parts._Variant.__init__ = of_rows  # type: ignore[method-assign]
        parts._alone = alone
        yield

    @staticmethod
    def why(variants: list[Any], sizes: Any, otherwise: str) -> str:
        """Why none of some programs serves these sizes: the guard of the newest."""
        if not variants:
            return otherwise
        sized = variants[0].sized
        trace, inputs = sized.trace, sized.inputs
        for guard, (text, line) in zip(trace.guards, guards_of(trace), strict=True):
            alone = SymbolicTrace([])
            alone.symbols, alone.definitions = trace.symbols, trace.definitions
            alone.guards = {guard: ""}
            if compiled(trace, [], "none", inputs)(sizes) is None:
                return "an extent that had not moved"
            if compiled(alone, [], inputs=inputs)(sizes) is None:
                return f"guard `{text}` ({line})"
        return "an extent that had not moved"


def one(name: str) -> None:
    """Run an example, and print what was compiled."""
    path = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    run: Callable[[list[str]], Any] = module.main
    reasons = Reasons()
    with td.options(engine="auto"), reasons.noted(), redirect_stdout(StringIO()):
        run(ARGUMENTS[name].split())
    print(json.dumps(reasons.all))


def row(name: str, reasons: dict[str, int]) -> str:
    """The row of an example; guards of the same line are one."""
    first = reasons.pop("structure", 0)
    programs = first + sum(reasons.values())
    lines: Counter[str] = Counter()
    for text, count in reasons.items():
        lines[re.sub(r"guard `.*` \((.*)\)", r"guard of `\1`", text)] += count
    why = "<br>".join(f"{count} {text}" for text, count in lines.most_common())
    link = f"[{name}.py](../examples/{name}.py)"
    return f"| {link} `{ARGUMENTS[name]}` | {programs} | {first} | {why} |"


def main() -> None:
    rows = []
    for name in ARGUMENTS:
        command = [sys.executable, __file__, name]
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(row(name, json.loads(made.stdout.splitlines()[-1])))
        print(rows[-1])
    page = HEAD + "\n".join(rows) + "\n"
    (ROOT / "docs" / "programs.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(sys.argv[1])
    else:
        main()
