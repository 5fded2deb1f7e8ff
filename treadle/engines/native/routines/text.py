"""A routine (`base/routine.py`) and those that it calls, as the text of machine code.

Variables lie in memory of the stack, where each has one place; LLVM puts them into
registers (`compiler.py`). Routines that are small, or are called from one place, are
put in where they are called.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any

from treadle.base.routine import is_routine
from treadle.engines.native.compiler import VARIABLES
from treadle.engines.native.routines.body import Body
from treadle.engines.native.routines.kinds import signature
from treadle.engines.native.routines.values import symbol

__all__ = ["text_of"]

SMALL = 6  # statements

Routine = Callable[..., Any]


def text_of(routine: Routine, name: str) -> str:
    """LLVM IR that defines a routine by a name. Raises OSError where there is no source
    of it, and SyntaxError where it is not in the part of Python that routines have.
    """
    trees: dict[Routine, ast.FunctionDef] = {}
    called: Counter[Routine] = Counter()
    waiting = [routine]
    while waiting:
        own = waiting.pop()
        if own not in trees:
            trees[own] = _tree(own)
            found = _called(own, trees[own])
            called.update(found)
            waiting += found
    declared: set[str] = set()
    texts = [_function(routine, trees.pop(routine), f"@{name}", "", declared)]
    for own, tree in trees.items():
        small = sum(isinstance(x, ast.stmt) for x in ast.walk(tree)) <= SMALL
        how = "alwaysinline " if small or called[own] == 1 else ""
        texts.append(_function(own, tree, f"internal @{symbol(own)}", how, declared))
    return "\n".join([*texts, *sorted(declared), "!0 = !{}", VARIABLES])


def _tree(routine: Routine) -> ast.FunctionDef:
    """The definition of a routine; the lines are those of its file."""
    lines, first = inspect.getsourcelines(routine)
    (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    assert isinstance(tree, ast.FunctionDef)
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return ast.increment_lineno(tree, first - 1)


def _called(routine: Routine, tree: ast.FunctionDef) -> list[Routine]:
    """The routines that are called, once for each place."""
    names = [
        x.func.id
        for x in ast.walk(tree)
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Name)
    ]
    found = [routine.__globals__.get(name) for name in names]
    return [x for x in found if x is not None and is_routine(x)]


def _function(
    routine: Routine, tree: ast.FunctionDef, name: str, how: str, declared: set[str]
) -> str:
    """The definition of a function, of some scope and name."""
    arguments, result = signature(routine)
    told = ", ".join(f"{kind.ir} %{own}.given" for own, kind in arguments.items())
    body = Body(routine, tree, arguments, result)
    scope, _, own = name.rpartition("@")
    head = f"define {scope}{result.ir} @{own}({told}) {how}"
    text = f"{head}{{\n{body.text()}\n}}\n"
    declared |= body.declared
    return text
