"""The structure of the package: arrows point down, rooms stay small, folders tell."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import each

ROOT = Path(__file__).resolve().parents[2] / "treadle"
LAYERS = [
    "core", "base", "graph", "ops", "autodiff", "batch", "rewrite", "loops", "program",
    "engines", "runtime", "nn", "optim", "io", "viz", "data", "distributed", "train",
    "cli",
]  # fmt: skip
INNER = {  # rooms within a layer, in order; files beside them stand on top
    "engines": [
        "counts",
        "lowered",
        "outline",
        "early",
        "base",
        "reference",
        "native",
        "gpu",
    ],
    "engines/native": ["system", "codegen", "execution", "translation", "forest"],
}
FILES = sorted(p for p in ROOT.rglob("*.py"))
CASES = [pytest.param(p, id=str(p.relative_to(ROOT))) for p in FILES]


def layer_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[ast.stmt, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name


@each("path", CASES)
def test_imports_point_down_and_stand_at_the_top(path: Path) -> None:
    tree = ast.parse(path.read_text())
    top = {id(n) for n in tree.body}
    for statement in tree.body:
        if isinstance(statement, ast.If):  # if TYPE_CHECKING
            top |= {id(n) for n in statement.body}
    for node, module in imports(tree):
        assert id(node) in top, f"line {node.lineno}: import inside a function"
        if not module.startswith("treadle.") or path.parent == ROOT:
            continue
        target, own = module.split(".")[1], layer_of(path)
        assert LAYERS.index(target) <= LAYERS.index(own), (
            f"line {node.lineno}: {own} imports {target}"
        )


@each("path", CASES)
def test_inner_rooms_point_down(path: Path) -> None:
    """In the rooms of engines, imports for types alone as well."""
    parts = (*path.relative_to(ROOT).with_suffix("").parts,)
    for folder, order in INNER.items():
        inside = tuple(folder.split("/"))
        if parts[: len(inside)] != inside or parts[len(inside)] not in order:
            continue
        for node, module in imports(ast.parse(path.read_text())):
            target = tuple(module.split(".")[1:])
            if target[: len(inside)] != inside or len(target) == len(inside):
                continue
            room, other = parts[len(inside)], target[len(inside)]
            assert other in order, f"line {node.lineno}: {room} imports {other}"
            assert order.index(other) <= order.index(room), (
                f"line {node.lineno}: {room} imports {other}"
            )


@each("path", CASES)
def test_rooms_and_functions_are_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400, "a room has at most 400 lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= 60, f"{node.name} has {length} lines"


def test_modules_import_in_one_order() -> None:
    """No cycle, even between the files of one layer."""
    names = {
        ".".join(["treadle", *p.relative_to(ROOT).with_suffix("").parts]): p
        for p in FILES
    }
    arrows: dict[str, set[str]] = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text())
        top = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        found = {m for n in top for _, m in imports(ast.Module([n], []))}
        arrows[name] = {m for m in found if m in names and m != name}
    done: set[str] = set()
    while len(done) < len(arrows):
        ready = {n for n, to in arrows.items() if n not in done and to <= done}
        assert ready, f"a cycle among {sorted(set(arrows) - done)}"
        done |= ready


def test_every_folder_has_a_readme() -> None:
    folders = {p.parent for p in FILES}
    missing = [
        str(f.relative_to(ROOT))
        for f in folders - {ROOT}
        if not (f / "README.md").exists()
    ]
    assert not missing, f"no README.md in {missing}"


def test_no_op_names_an_engine() -> None:
    for path in (ROOT / "ops").glob("*.py"):
        assert "treadle.engines" not in path.read_text(), path.name


def test_a_bare_import_loads_what_a_first_tensor_needs() -> None:
    """Rows, rules, engines and reports are loaded when they are first needed."""
    text = "import sys, treadle; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    loaded = done.stdout.split()
    rooms = {m.split(".")[1] for m in loaded if m.startswith("treadle.")}
    assert rooms <= {"autodiff", "base", "core", "engines", "graph", "ops", "runtime"}
    late = {name.rpartition(".")[2] for name in loaded if "treadle.runtime." in name}
    reports = {"explain", "gradcheck", "largest", "lower", "memory", "profile"}
    assert not late & {*reports, "replay", "rows"}
    assert not {"treadle.engines.native", "treadle.engines.lowered"} & {*loaded}
    assert sum("treadle.ops." in name for name in loaded) < 20
    assert not {"hashlib", "html", "json", "sysconfig"} & {*loaded}
