"""The interface of a program to its runs: arguments, results and constants."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treadle.base.types import Type
from treadle.program.program import Buffer, Program


class Interface(NamedTuple):
    """Arguments and results of a program, in its order; fields as Program has them.

    Of a program for many sizes it is made for each size, where the steps are not.
    """

    arguments: tuple[int, ...]
    types: tuple[Type, ...]  # of the arguments
    orders: tuple[tuple[int, ...], ...]  # in which they lie, if not row-major
    buffers: tuple[Buffer, ...]  # whose memory is handed out
    results: tuple[tuple[int, int, Type], ...]
    laid: tuple[tuple[int, ...], ...]  # the orders in which these lie
    constants: tuple[tuple[int, np.ndarray[Any, Any]], ...]
    shared: tuple[tuple[int, int], ...]

    @staticmethod
    def of(program: Program) -> Interface:
        """That of a program, in which integers may be symbolic."""
        buffers = [program.buffers[n] for n in program.arguments]
        return Interface(
            program.arguments,
            tuple([b.type for b in buffers]),
            tuple([b.order for b in buffers]),
            tuple([b for b in program.buffers if b.place == "result"]),
            program.results,
            tuple([program.buffers[n].order for _, n, _ in program.results]),
            program.constants,
            program.shared,
        )
