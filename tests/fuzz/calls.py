"""`python -m tests.fuzz.calls --seed 0 --count 2000`: calls with a wrong argument.

Each case is an example of the documentation of a public name in which one argument was
replaced, left out or added, or an operand or an index replaced. What it raises is a
TreadleError, or what Python or the user's own code says; what it computes is evaluated
with its gradient, natively and on the reference engine. Cases run in processes of their
own, with a limit on time.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import inspect
import io
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import treadle as td

LIMIT = 120.0  # seconds for one case, on a machine that does other things as well
MEMORY = 8 << 30  # bytes of address space for a process
ROOTS = ("td", "td.nn", "td.nn.functional", "td.nn.init", "td.optim", "td.linalg",
         "td.random", "td.data", "td.io", "td.viz", "td.train")  # fmt: skip
CODE = "<example>"
HOME = os.path.dirname(td.__file__) + os.sep

WRONG = (
    "None", "'text'", "{}", "[]", "()", "object()", "1 + 2j", "True", "2.5", "-1", "0",
    "1", "3", "10**30", "-2**63", "2**63", "2**40", "float('nan')", "float('inf')",
    "-0.5", "(1, 2)", "(-1, 7)", "(0, 0)", "[[1.0, 2.0], [3.0]]", "[None]",
    "['a', 'b']",
    "[1.0, 'a']", "{'a': 1.0}", "{1, 2}", "slice(None)", "...", "range(3)", "b'bytes'",
    "(lambda *a, **k: None)", "(lambda *a, **k: a)", "int", "iter([1, 2])",
    "'float16'", "'int8'", "'complex64'", "'nonsense'", "np.float32", "np.dtype('U3')",
    "np.datetime64('2020-01-01')", "np.array('text')", "np.array([object()])",
    "np.zeros(2, [('a', 'f4')])", "np.ma.masked_array([1.0, 2.0], [True, False])",
    "np.float64(1.5)", "np.int8(2)", "np.bool_(True)",
    "A(())", "A(0)", "A(1)", "A(3)", "A(0, 3)", "A(2, 0)", "A(2, 3)", "A(3, 2)",
    "A(2, 3, 4)", "A(1, 2, 5, 5)", "A(2, 3, 4, 5, 6)", "A(2, 3) * np.nan",
    "A(2, 3, dtype='int64')", "A(2, 3, dtype='bool')", "A(2, 3, dtype='complex64')",
    "A(2, 3, dtype='float16')", "A(2, 3, dtype='uint8')", "A(2, dtype='int8')",
    "td.asarray(A(2, 3))", "td.asarray(A(0, 3))", "td.asarray(A(3, dtype='int32'))",
    "td.asarray(A(()))", "td.asarray(A(2, 2, 2, 2))", "td.asarray(A(2, 3) * np.nan)",
    "td.asarray(A(2, 3), 'bfloat16')", "td.asarray(A(2, 2, dtype='complex128'))",
    "td.param(init=A(2, 3))", "td.param(init=1.0)", "td.Variable(A(3, dtype='int64'))",
    "td.asarray(A(2, 3), axes=('b', 'c'))", "td.asarray(A(2, dtype='bool'))",
    "td.placeholder((2, 3))", "td.nn.Linear(3, 2)", "[td.asarray(A(2))]",
    "td.optim.SGD()", "td",
)  # fmt: skip


def sample_array(*shape: Any, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Small numbers of a shape, all different."""
    shape = shape[0] if shape and isinstance(shape[0], tuple) else shape
    count = int(np.prod(shape, dtype=np.int64))
    return ((np.arange(count) % 7 - 2) / 2).reshape(shape).astype(dtype)


# -- valid calls -----------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """The statements of an example, and the public name whose documentation has it."""

    name: str
    source: str


def members(path: str) -> Iterator[tuple[str, Any]]:
    """The public names of a module of the package, with what they are."""
    module: Any = td
    for part in path.split(".")[1:]:
        module = getattr(module, part)
    public = getattr(module, "__all__", None) or dir(module)
    for name in sorted(public):
        value = getattr(module, name, None)
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        if str(getattr(value, "__module__", "")).startswith("treadle"):
            yield f"{path}.{name}", value


@cache
def public() -> dict[str, Any]:
    """Every public function, class and method, by name; each object once."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for path in ROOTS:
        for name, value in members(path):
            if id(value) in seen or not callable(value):
                continue
            seen.add(id(value))
            found[name] = value
            for key, method in methods(value) if inspect.isclass(value) else ():
                if id(method) not in seen:
                    seen.add(id(method))
                    found[f"{name}.{key}"] = method
    return found


def methods(cls: type) -> list[tuple[str, Any]]:
    """The public methods of a class and of those it comes from."""
    found = []
    for key in dir(cls):
        value = inspect.getattr_static(cls, key)
        value = getattr(value, "__func__", value)
        ours = str(getattr(value, "__module__", "")).startswith("treadle")
        if not key.startswith("_") and callable(value) and ours:
            found.append((key, value))
    return found


START = "import treadle as td\n"


@cache
def examples() -> list[Example]:
    """The examples of all public names, and plain calls where there is none."""
    parser, found = doctest.DocTestParser(), []
    for name, value in public().items():
        text = getattr(value, "__doc__", None) or ""
        parts = [e.source for e in parser.get_examples(text)]
        if parts:
            found.append(Example(name, "".join([START, *parts])))
        else:
            found += [Example(name, plain) for plain in plain_calls(name, value)]
    return found


def plain_calls(name: str, value: Any) -> list[str]:
    """A call with an array for each argument that has to be there."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return []
    kinds = inspect.Parameter
    plain = kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD
    needed = [p for p in parameters if p.default is kinds.empty and p.kind in plain]
    owner, _, last = name.rpartition(".")
    start = START
    if needed and needed[0].name == "self" and not inspect.isclass(value):
        if value.__module__ != "treadle.graph.operators":
            return []  # between parts of the library
        count = len(needed) - 1
        given = {"td.Tensor": "td.asarray", "td.Parameter": "td.Parameter"}
        holder = {k: f"{f}(A(2, 3))" for k, f in given.items()}
        if owner not in holder:
            return []
        start += f"x = {holder[owner]}\n"
        return [f"{start}y = x.{last}({', '.join(['A(2, 3)'] * count)})\n"]
    return [f"{start}y = {name}({', '.join(['A(2, 3)'] * len(needed))})\n"]


# -- wrong arguments -------------------------------------------------------------------

OPERANDS: dict[type, tuple[str, ...]] = {
    ast.BinOp: ("left", "right"),
    ast.AugAssign: ("value",),
    ast.Subscript: ("slice",),
    ast.Compare: ("comparators",),
}
PASSING = "call", "run", "__call__", "found"  # they hand a call on
DEEP = 100  # calls of an example within calls
PLAIN = frozenset(
    [
        "A",
        "float",
        "int",
        "print",
        "len",
        "list",
        "tuple",
        "sorted",
        "str",
        "repr",
        "isinstance",
        "sum",
        "range",
        "super",
        "round",
        "abs",
        "zip",
        "next",
        "enumerate",
        "dict",
        "map",
        "set",
        "type",
        "bool",
        "numpy",
        "tolist",
        "item",
    ]
)


def changed(source: str, draw: random.Random) -> str:
    """The source with one argument of one call replaced, left out or added, or with one
    operand or index replaced.
    """
    tree = ast.parse(source)
    nodes: list[Any] = [x for x in ast.walk(tree) if isinstance(x, tuple(OPERANDS))]
    calls = [x for x in ast.walk(tree) if isinstance(x, ast.Call)]
    nodes += [node for node in calls if called(node) not in PLAIN]
    if not nodes:
        return source
    node = draw.choice(nodes)
    wrong: Any = ast.parse(draw.choice(WRONG), mode="eval").body
    if not isinstance(node, ast.Call):
        name = draw.choice(OPERANDS[type(node)])
        setattr(
            node,
            name,
            [wrong, *node.comparators[1:]] if name == "comparators" else wrong,
        )
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    count, kind = len(node.args) + len(node.keywords), draw.random()
    if kind < 0.08 or not count:
        node.args.append(wrong)
    elif kind < 0.12:
        del (node.args or node.keywords)[-1]
    elif kind < 0.14:
        node.keywords.append(ast.keyword("nonsense", wrong))
    elif kind < 0.3 and (name := unused_option(node, draw)):
        node.keywords.append(ast.keyword(name, wrong))
    else:
        k = draw.randrange(count)
        if k < len(node.args):
            node.args[k] = wrong
        else:
            node.keywords[k - len(node.args)].value = wrong
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def called(node: ast.Call) -> str:
    """The last name of what is called."""
    f = node.func
    return f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "")


def unused_option(node: ast.Call, draw: random.Random) -> str:
    """The name of an argument that a call does not give."""
    value = public().get(ast.unparse(node.func))
    try:
        names = list(inspect.signature(value).parameters) if value else []
    except (TypeError, ValueError):
        return ""
    names = names[len(node.args) :]
    names = [n for n in names if all(n != k.arg for k in node.keywords)]
    names = [n for n in names if n not in ("args", "kwargs", "options", "self")]
    return draw.choice(names) if names else ""


def case(number: int) -> Example:
    """The case of a number: the same in each process."""
    draw = random.Random(number)
    every = examples()
    example = every[number % len(every)]
    source = changed(example.source, draw)
    endless = "while_loop" in source and "max_iterations" not in source
    if endless or "clear_cache" in source:  # which would empty what is on disk
        source = example.source
    return Example(example.name, source)


# -- one case --------------------------------------------------------------------------


def raw(error: BaseException) -> str:
    """What is wrong with an exception; nothing where a user may see it."""
    if "failed inside Treadle" in str(error):
        error = error.__cause__ or error
    elif isinstance(error, (td.TreadleError, MemoryError, SystemExit)):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    inner = [frame for frame in frames if frame.filename.startswith(HOME)]
    if last.filename in (CODE, __file__) or not inner:
        return ""  # the user's own line says so
    refused = re.match(r"[\w.<>]+\(\) (takes|missing|got) ", str(error))
    if isinstance(error, TypeError) and refused and last.name in PASSING:
        return ""  # a call that Python refuses, by the name of what is called
    depth = sum(frame.filename == CODE for frame in frames)
    if isinstance(error, RecursionError) and depth > DEEP:
        return ""  # a function of the user's that calls itself without end
    if isinstance(error, OSError) and error.filename is not None:
        return ""  # it names the file
    if isinstance(error, NotImplementedError) and "does not define" in str(error):
        return ""
    place = f"{os.path.relpath(last.filename)}:{last.lineno} {last.name}"
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0][:160]} | {place}"


def leaves(value: Any, depth: int = 0) -> Iterator[td.Tensor]:
    """The tensors in what an example has computed."""
    if isinstance(value, td.Tensor):
        yield value
    elif isinstance(value, (list, tuple)) and depth < 3:
        for item in value[:20]:
            yield from leaves(item, depth + 1)
    elif isinstance(value, dict) and depth < 3:
        for item in list(value.values())[:20]:
            yield from leaves(item, depth + 1)


def evaluated(names: dict[str, Any]) -> None:
    """Ask for the values of what was computed, and for the gradient of their sum."""
    given = [v for k, v in names.items() if not k.startswith("__")]
    found = [x for v in given for x in leaves(v)][:8]
    for engine in ("reference", "native"):
        with td.options(engine=engine):
            for x in found:
                x.numpy()
    for y in found:
        if y.dtype.kind != "f" or not td.variables(y):
            continue
        params = [v for v in td.variables(y) if v.dtype.kind == "f"]
        for engine in ("reference", "native"):
            with td.options(engine=engine):
                td.evaluate(*td.grad(y.sum(), params, unused="zero"))


def failure(source: str) -> str:
    """What is wrong with a case; nothing if all is well."""
    names: dict[str, Any] = {"np": np, "td": td, "A": sample_array, "__name__": CODE}
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            exec(compile(displayed(source), CODE, "exec"), names)
            evaluated(names)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return raw(error)
    return ""


def displayed(source: str) -> ast.Module:
    """The statements, with what they show kept under a name to be evaluated."""
    tree = ast.parse(source)
    for k, node in enumerate(tree.body):
        if isinstance(node, ast.Expr):
            name = ast.Name(f"shown_{k}", ast.Store())
            tree.body[k] = ast.copy_location(ast.Assign([name], node.value), node)
    return ast.fix_missing_locations(tree)


# -- processes -------------------------------------------------------------------------


def serve() -> None:
    """Do the cases whose numbers come in, one a line, and answer each by a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for line in sys.stdin:
            found = failure(case(int(line)).source)
            out.write(json.dumps(found) + "\n")
            out.flush()


class Worker:
    """A process that does cases, begun anew after one that it did not live through."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, number: int) -> str:
        import select

        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.calls", "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(f"{number}\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], LIMIT)
        line = stdout.readline() if ready else ""
        if line:
            return str(json.loads(line))
        self.process.kill()
        code, self.process = self.process.wait(), None
        return f"the process died: {code}" if ready else "no answer in time"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def run(numbers: Sequence[int], verbose: bool = True) -> list[tuple[int, str]]:
    """The numbers of the cases that are wrong, with what is."""
    worker, found = Worker(), []
    try:
        for number in numbers:
            wrong = worker.ask(number)
            if wrong:
                found.append((number, wrong))
                if verbose:
                    own = case(number)
                    print(f"== {number} {own.name}: {wrong}\n{own.source}", flush=True)
    finally:
        worker.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case, in this process")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return 0
    if given.only is not None:
        print(case(given.only).source)
        wrong = failure(case(given.only).source)
        print(wrong or "fine")
        return 1 if wrong else 0
    start = time.monotonic()
    found = run(range(given.seed, given.seed + given.count))
    took = time.monotonic() - start
    print(
        f"{given.count} calls from {given.seed}, {len(examples())} examples of "
        f"{len(public())} names: {len(found)} wrong, {took:.0f} s"
    )
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
