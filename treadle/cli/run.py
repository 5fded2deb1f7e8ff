"""`treadle run`: a computation's file, on arrays of files or values written out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import ModelFileError
from treadle.base.options import options
from treadle.cli.parser import UsageError, command, show
from treadle.cli.values import arrays_of, is_onnx, network_of
from treadle.graph.frame import no_grad
from treadle.io.files import guarded, write_atomically
from treadle.io.graph import load_computation
from treadle.io.tensors import save_arrays
from treadle.runtime.computation import Computation

ABOUT = """Run a computation that td.save wrote, or the network of an ONNX file,
and print or write what it returns.

A file is data: its graph is checked, no code in it runs. What it assigns to Variables
is not written back. Without --input a table tells what it takes and returns."""


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(commands, "run", "a computation that was saved", ABOUT)
    words = parser.add_argument
    words(
        "file", metavar="FILE", help="of td.save(FILE, td.computation(...)), or .onnx"
    )
    words("--input", action="append", default=[], metavar="[NAME=]VALUE",
          help="FILE.npy, numbers as in x=[1,2], or FILE.npz by names")  # fmt: skip
    words("--output", metavar="FILE", help="write to FILE.npy, .npz or .safetensors")
    words("--seed", type=int, metavar="N", help="of the random numbers it draws (0)")
    words("--code", action="store_true",
          help="run the machine code in the file: only if you trust it")  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Load, call once, and show or write the results."""
    output = arguments.output
    if output is not None and Path(output).suffix not in (
        ".npy",
        ".npz",
        ".safetensors",
    ):
        raise UsageError(f"{output}: it ends in .npy, .npz or .safetensors")
    inputs, named = arrays_of(arguments.input)
    with options(**({} if arguments.seed is None else {"seed": arguments.seed})):
        if is_onnx(arguments.file):
            answer = _answer(arguments, inputs, named)
        else:
            call = load_computation(arguments.file, code=arguments.code)
            if not arguments.input and call.placeholders:
                _describe(call)
                return 0
            answer = call(*inputs, **named)
        if answer is None:
            return 0
        results = dict(_named(answer, ""))
    if output is None:
        _print(results)
        return 0
    _write(output, results)
    print(f"wrote {output}: {', '.join(results)}")
    return 0


def _answer(
    arguments: argparse.Namespace, inputs: list[Any], named: dict[str, Any]
) -> dict[str, Any] | None:
    """The outputs of an ONNX file's network by name; of no inputs, what it takes."""
    if arguments.code:
        raise UsageError(f"{arguments.file}: an ONNX file has no machine code")
    net = network_of(arguments.file)
    if not arguments.input and net.inputs:
        sizes = [", ".join(str("?" if n is None else n) for n in p.shape)
                 for p in net.inputs]  # fmt: skip
        rows = [
            ("takes", port.name, f"{port.dtype or 'any'}[{size}]")
            for port, size in zip(net.inputs, sizes, strict=True)
        ]
        show([*rows, *(("returns", name, "") for name in net.outputs)])
        return None
    with no_grad():
        answer = net(*inputs, **named)
    outputs = answer if len(net.outputs) > 1 else (answer,)
    return dict(zip(net.outputs, outputs, strict=True))


def _describe(call: Computation) -> None:
    """Print the inputs and outputs of a computation."""
    outputs, versions = call.graph()
    rows = [("takes", p.name, repr(p.type)) for p in call.placeholders]
    rows += [("returns", "", repr(y.type)) for y in outputs]
    rows += [("changes", name, repr(y.type)) for name, y in versions.items()]
    show(rows)


def _named(results: Any, name: str) -> list[tuple[str, Any]]:
    """The results by names: keys and places joined by dots."""
    if isinstance(results, dict):
        pairs = [(str(key), x) for key, x in results.items()]
    elif isinstance(results, (list, tuple)):
        pairs = [(str(k), x) for k, x in enumerate(results)]
    else:
        return [] if results is None else [(name or "output", np.asarray(results))]
    return [
        one for key, x in pairs for one in _named(x, f"{name}.{key}" if name else key)
    ]


def _print(results: dict[str, Any]) -> None:
    for name, x in results.items():
        print(f"{name}: {x.dtype.name}{list(x.shape)}")
        print(np.array2string(x, separator=", ") if x.ndim else x.item())


def _write(output: str, results: dict[str, Any]) -> None:
    """All results to a file, whole or not at all."""
    if Path(output).suffix != ".npy":
        save_arrays(output, results)
        return
    if len(results) != 1:
        names = ", ".join(results) or "nothing"
        raise UsageError(
            f"{output}: .npy holds one array, there are {len(results)} ({names})",
            hint="write an .npz",
        )
    (x,) = results.values()
    with guarded(output, ModelFileError):
        write_atomically(output, lambda file: np.save(file, x, allow_pickle=False))
