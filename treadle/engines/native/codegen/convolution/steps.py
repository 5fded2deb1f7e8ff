"""The plan of a convolution: kernels with their arguments, to run in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.base.symbolic import most
from treadle.engines.native.codegen.texts import FunctionChoice, FunctionText


@dataclass(frozen=True)
class Pointer:
    """An operand by name and a shift in bytes.

    "x", "w", "y"; "workspace" and "scratch", both on a 64 byte boundary.
    """

    name: str
    shift: int = 0


@dataclass(frozen=True)
class Step:
    """A kernel and its arguments: pointers, addresses of `functions`, integers.

    After what `finishes` come the epilogue's pointers and integers. `scratch` bytes
    are for each worker. What is `constant` reads nothing but w: the workspace it wrote
    stays good while w and the plan do.
    """

    name: str
    text: str
    functions: tuple[FunctionText | FunctionChoice, ...]
    pointers: tuple[Pointer, ...]
    arguments: tuple[int, ...]
    total: int
    grain: int
    scratch: int
    constant: bool = False
    parts: tuple[FunctionText, ...] = ()  # that the functions go on in
    finishes: bool = False


@dataclass(frozen=True)
class ConvPlan:
    """Steps to run in order; `workspace` bytes live from the first to the last."""

    steps: tuple[Step, ...]
    workspace: int


def step(
    function: FunctionText,
    functions: Sequence[FunctionText | FunctionChoice],
    pointers: Sequence[Pointer],
    arguments: Sequence[int],
    items: tuple[int, int],
    scratch: int,
    constant: bool = False,
    finishes: bool = False,
) -> Step:
    """A step of `items` = (how many, nanoseconds of all), some 4,000 a part."""
    total, nanoseconds = items
    grain = most(1, total * 4000 // most(1, nanoseconds))
    return Step(
        function.name,
        function.text,
        tuple(functions),
        tuple(pointers),
        tuple(arguments),
        total,
        grain,
        scratch,
        constant,
        finishes=finishes,
    )
