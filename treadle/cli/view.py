"""`treadle view`: the graph of a file or a function, as text or drawn; its memory."""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from treadle.base import trees
from treadle.base.errors import TreadleError
from treadle.base.options import options
from treadle.base.sizes import as_text
from treadle.cli.parser import CommandError, UsageError, command, show
from treadle.cli.values import is_onnx, network_of, placeholder_of
from treadle.graph.inspect import stats
from treadle.graph.operators import Operand
from treadle.graph.text import text
from treadle.graph.variable import Placeholder
from treadle.io.graph import load_computation
from treadle.runtime.computation import Computation
from treadle.runtime.memory import NAMED, Memory, memory
from treadle.viz.dot import to_dot
from treadle.viz.memory import show_memory
from treadle.viz.show import page_of
from treadle.viz.show import show as picture_of

ABOUT = """Show the graph of TARGET and the memory that it takes; nothing of it runs.

TARGET is a file that td.save wrote of a computation, an ONNX file, or module:name,
where name is a function, a module of layers, a tensor or a computation. A function is
called with a placeholder for each --shape, and with its defaults. Of an ONNX file
--shape says the sizes of inputs, by name or in order; open dimensions are 1 else."""
KINDS = (".svg", ".dot", ".txt")


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(commands, "view", "the graph of a file or a function", ABOUT)
    words = parser.add_argument
    words("target", metavar="TARGET", help="FILE or module:name")
    words("--shape", action="append", default=[], metavar="[NAME=]SIZES[:DTYPE]",
          help="of an argument, as in 32,784 or ids=8,20:int64")  # fmt: skip
    words("--output", metavar="FILE", help="write the graph to FILE.svg, .dot or .txt")
    words("--html", metavar="FILE", help="write the graph as a page to walk about in")
    words("--memory", metavar="FILE", help="write the memory over steps to FILE.svg")
    words("--optimized", action="store_true",
          help="also the graph that is compiled, in FILE.svg or the page")  # fmt: skip
    words("--workspace", metavar="BYTES", default="0",
          help="plan under this limit, as in 512MB")  # fmt: skip
    parser.set_defaults(run=view)


def view(arguments: argparse.Namespace) -> int:
    """Write the pictures asked for; without one, the text of the graph and a table."""
    output, drawn = arguments.output, arguments.memory
    if output is not None and Path(output).suffix not in KINDS:
        raise UsageError(f"{output}: it ends in {', '.join(KINDS)}")
    if drawn is not None and Path(drawn).suffix != ".svg":
        raise UsageError(f"{drawn}: it ends in .svg")
    if arguments.optimized and not (arguments.html or str(output).endswith(".svg")):
        raise UsageError("--optimized goes with --output FILE.svg or --html FILE")
    written: dict[str, str] = {}
    with options(workspace=arguments.workspace):
        graph = _graph(arguments.target, arguments.shape)
        with command_errors(arguments.target):
            if output is not None:
                written[output] = _written(graph, output, arguments.optimized)
            if arguments.html is not None:
                title = Path(arguments.target).name
                page = page_of(graph, title, optimized=arguments.optimized)
                written[arguments.html] = page.html
            if drawn is not None:
                written[drawn] = show_memory(graph).svg
            elif not written:
                report, whole = memory(graph), text(graph)
    for name, content in written.items():
        try:
            Path(name).write_text(content, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{name}: {error.strerror or error}") from None
        print(f"wrote {name}")
    if not written:
        print(whole)
        print()
        print(stats(graph))
        print()
        show_report(report)
    return 0


def show_report(report: Memory) -> None:
    """Print the memory of a run, and its largest values."""
    rows = [(k, f"{n:,}", as_text(n)) for k, n in report.rows().items()]
    show(rows, ("memory", "bytes", ""), right=(1, 2))
    if report.holders:
        where = f"at step {report.fullest} of {report.steps}"
        here = os.getcwd() + os.sep
        holders = [
            (f"{s.bytes:,}", s.type, s.holds, s.line.removeprefix(here))
            for s in report.holders[:NAMED]
        ]
        print()
        show(holders, (f"largest {where}", "type", "of", "line"), right=(0,))


def _written(graph: list[Any], output: str, optimized: bool) -> str:
    """The graph in the form that the name of the file asks for."""
    kind = Path(output).suffix
    if kind == ".svg":
        return picture_of(graph, optimized=optimized).svg
    return to_dot(graph) + "\n" if kind == ".dot" else text(graph)


@contextmanager
def command_errors(what: str) -> Iterator[None]:
    """A block whose errors become a CommandError of one line that names the target."""
    try:
        yield
    except (UsageError, CommandError):
        raise
    except TreadleError as error:
        where = f" at {error.where}" if error.where else ""
        raise CommandError(f"{what}: {error.message}{where}", hint=error.hint) from None
    except Exception as error:
        where = ""
        for frame in traceback.extract_tb(error.__traceback__):
            if not frame.filename.startswith("<"):
                where = f" at {Path(frame.filename).name}:{frame.lineno}"
        name = type(error).__name__
        raise CommandError(f"{what}: {name}: {error}{where}") from None


def _graph(target: str, shapes: Sequence[str]) -> list[Any]:
    """The tensors that are to be shown."""
    module, colon, name = target.rpartition(":")
    if os.path.exists(target) or not (colon and _is_name(module) and _is_name(name)):
        if is_onnx(target) and os.path.exists(target):
            return _network(target, shapes)
        if shapes:
            raise UsageError("--shape goes with module:function or an ONNX file")
        if not os.path.exists(target) and "." not in target:
            raise UsageError(f"{target!r} is neither a file nor module:function")
        return _tensors(load_computation(target), target)
    value = _imported(module, name)
    if callable(value) and not isinstance(value, (Computation, Operand)):
        value = _called(value, target, shapes)
    elif shapes:
        raise UsageError(f"--shape goes with a function, {target} is none")
    return _tensors(value, target)


def _network(target: str, shapes: Sequence[str]) -> list[Any]:
    """The outputs of an ONNX file's network for placeholders."""
    net = network_of(target)
    names = [port.name for port in net.inputs]
    sizes: dict[str, str] = {}
    for name, word in zip_longest(names, shapes, fillvalue=""):
        key, equals, size = word.rpartition("=")
        if size:
            sizes[key if equals else name] = size
    if unknown := sorted(sizes.keys() - set(names)):
        raise UsageError(f"{target}: there is no input {unknown[0]!r} among {names}")
    inputs = []
    for port in net.inputs:
        shape = [n if isinstance(n, int) else 1 for n in port.shape]
        if port.name in sizes:
            shape = list(placeholder_of(sizes[port.name], "x").shape)
        inputs.append(Placeholder(tuple(shape), port.dtype, name=port.name))
    with command_errors(target):
        return _tensors(net(*inputs), target)


def _is_name(word: str) -> bool:
    return bool(word) and all(part.isidentifier() for part in word.split("."))


def _imported(module: str, name: str) -> Any:
    """The attribute of a module, which is searched for here first."""
    sys.path.insert(0, os.getcwd())
    try:
        with command_errors(module):
            value: Any = importlib.import_module(module)
    finally:
        sys.path.remove(os.getcwd())
    for part in name.split("."):
        if not hasattr(value, part):
            names = [n for n, x in vars(value).items() if callable(x) and n[0] != "_"]
            hint = f"it has {', '.join(names[:12])}" if names else ""
            raise CommandError(f"module {module} has no {name}", hint=hint)
        value = getattr(value, part)
    return value


def _called(f: Any, target: str, shapes: Sequence[str]) -> Any:
    """The results of a function of placeholders."""
    try:
        signature: Any = inspect.signature(f)
    except (TypeError, ValueError):
        signature = None
    names = [] if signature is None else list(signature.parameters)
    every = [
        placeholder_of(word, names[k] if k < len(names) else f"x{k}")
        for k, word in enumerate(shapes)
    ]
    named = {p.name: p for p, word in zip(every, shapes, strict=True) if "=" in word}
    unnamed = [p for p in every if p.name not in named]
    if signature is not None:
        try:
            signature.bind(*unnamed, **named)
        except TypeError as error:
            hint = f"it takes {signature}; give a --shape for each argument"
            raise UsageError(f"{target}: {error}", hint=hint) from None
    with command_errors(target):
        return f(*unnamed, **named)


def _tensors(value: Any, target: str) -> list[Any]:
    """The tensors in what a function returned or a name stands for."""
    if isinstance(value, Computation):
        outputs, versions = value.graph()
        return [*outputs, *versions.values()]
    leaves = [x for x in trees.flatten(value)[0] if isinstance(x, Operand)]
    if not leaves:
        raise CommandError(f"{target}: there is no tensor in a {type(value).__name__}")
    return leaves
