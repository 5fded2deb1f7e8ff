"""Extents may be symbols where graphs are compiled: nothing there takes their value.

`int(n)`, `range(n)`, `np.zeros(n)` of an extent work on a symbol, and leave the guard
that it is this size: the program serves no other. So they stand in `base/symbolic`
alone, and where it is said why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.test_layers import ROOT
from tests.cases import each

# What is compiled with symbols; of ops these methods, and what they call.
FOLDERS = [
    "autodiff",
    "rewrite",
    "loops",
    "program",
    "engines/native/codegen",
    "engines/native/translation",
]
METHODS = {"infer", "vjp", "jvp", "expand"}
EXTENTS = {"shape", "size", "nbytes", "extent", "extents"}
LOSSY = {"int", "float", "range"}
ARRAYS = {"array", "asarray", "arange", "zeros", "ones", "empty", "full", "eye", "prod"}
ARRAYS |= {"int64", "float32", "float64"}
OF_MODULES = {("np", name) for name in ARRAYS}
OF_MODULES |= {("math", x) for x in ("gcd", "log2", "sqrt")} | {("operator", "index")}
# What has no size in it: counts of axes, and values that leave no guard on purpose.
PLAIN = {"len", "plain", "gcd", "isinstance"}
ALLOWED = {
    # Nothing is compiled of it: values are computed.
    "rewrite/values.py": {"_spread"},
    # It is called where graphs are recorded, of extents that are numbers.
    "autodiff/forward.py": {"jacobian"},
    # As many terms, and kernels, are written out.
    "loops/recurrence.py": {"_folded"},
    "engines/native/codegen/convolution/problem.py": {"_classes"},
}


def names(target: ast.AST) -> set[str]:
    return {x.id for x in ast.walk(target) if isinstance(x, ast.Name)}


class Extents:
    """Which expressions of a function are made of extents."""

    def __init__(self, function: ast.FunctionDef) -> None:
        arguments = [*function.args.args, *function.args.kwonlyargs]
        self.names = {a.arg for a in arguments if a.arg in EXTENTS - {"size"}}
        for _ in range(2):  # loops carry names on
            for x in ast.walk(function):
                for target, value in self.given(x):
                    if self.hold(value):
                        self.names |= names(target)

    def given(self, x: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """What a statement gives names to, with what it gives them."""
        if isinstance(x, ast.Assign):
            for target in x.targets:
                if isinstance(target, (ast.Name, ast.Tuple)):
                    yield from self.paired(target, x.value)
        elif isinstance(x, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if x.value is not None and isinstance(x.target, ast.Name):
                yield x.target, x.value
        elif isinstance(x, (ast.For, ast.comprehension)):
            call = x.iter if isinstance(x.iter, ast.Call) else None
            of = call.func.id if call and isinstance(call.func, ast.Name) else ""
            if call and of == "enumerate" and isinstance(x.target, ast.Tuple):
                yield x.target.elts[1], call.args[0]
            elif call and of == "zip" and isinstance(x.target, ast.Tuple):
                yield from zip(x.target.elts, call.args, strict=False)
            elif of != "range":
                yield x.target, x.iter

    @staticmethod
    def paired(target: ast.AST, value: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        if both and len(target.elts) == len(value.elts):  # type: ignore[attr-defined]
            yield from zip(target.elts, value.elts, strict=True)  # type: ignore[attr-defined]
        else:
            yield target, value

    def hold(self, x: ast.AST) -> bool:
        """Whether the value of an expression may be, or have in it, an extent."""
        if isinstance(x, (ast.Compare, ast.Lambda)):
            return False
        if (
            isinstance(x, ast.Call)
            and isinstance(x.func, ast.Name)
            and x.func.id in PLAIN
        ):
            return False
        if isinstance(x, ast.Attribute):
            return x.attr in EXTENTS
        if isinstance(x, ast.Name):
            return x.id in self.names
        return any(map(self.hold, ast.iter_child_nodes(x)))


def is_lossy(x: ast.AST) -> bool:
    if not isinstance(x, ast.Call):
        return False
    f = x.func
    if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
        return (f.value.id, f.attr) in OF_MODULES
    return isinstance(f, ast.Name) and f.id in LOSSY


def losses(function: ast.FunctionDef) -> list[str]:
    """The conversions of extents in a function."""
    own = Extents(function)
    found = [x for x in ast.walk(function) if isinstance(x, ast.Call) and is_lossy(x)]
    return [
        f"line {x.lineno}: {ast.unparse(x)}"
        for x in found
        if any(map(own.hold, [*x.args, *(k.value for k in x.keywords)]))
    ]


def functions(path: Path) -> list[ast.FunctionDef]:
    """Those of a file that are compiled with symbols."""
    tree = ast.parse(path.read_text())
    every = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef)]
    allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
    if path.relative_to(ROOT).parts[0] != "ops":
        return [x for x in every if x.name not in allowed]
    by_name = {x.name: x for x in tree.body if isinstance(x, ast.FunctionDef)}
    seen = [x for x in every if x.name in METHODS]
    for x in seen:  # grows
        calls = [y.func for y in ast.walk(x) if isinstance(y, ast.Call)]
        called = {f.id for f in calls if isinstance(f, ast.Name)} & by_name.keys()
        seen += [by_name[n] for n in called if by_name[n] not in seen]
    return seen


CASES = [
    pytest.param(p, id=p.relative_to(ROOT).as_posix())
    for folder in [*FOLDERS, "ops"]
    for p in sorted((ROOT / folder).rglob("*.py"))
]


@each("path", CASES)
def test_nothing_takes_the_value_of_an_extent(path: Path) -> None:
    found = [text for x in functions(path) for text in losses(x)]
    assert not found, "; ".join(found)


LOSSES = [
    "range(x.type.shape[0])",
    "np.zeros(x.shape)",
    "int(math.prod(x.shape))",
    "[float(n) for n in x.shape]",
    "[int(n) for k, n in enumerate(x.shape)]",
    "[int(n) for m, n in zip(x.axes, x.shape)]",
    "math.gcd(4, axis.extent)",
]
FINE = [
    "range(len(x.shape))",
    "int(x.extent == 1)",
    "range(x.ndim)",
    "int(len(x.shape))",
]


def test_conversions_are_seen() -> None:
    def of(text: str) -> list[str]:
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        return losses(function)

    for text in LOSSES:
        assert of(f"def f(x, axis):\n    return {text}"), text
    assert of("def f(x):\n    n, k = x.shape[0], 3\n    m = n * 2\n    return range(m)")
    assert not of("def f(x):\n    n, k = x.shape[0], 3\n    return range(k)")
    for text in FINE:
        assert not of(f"def f(x, axis):\n    return {text}"), text
