"""The program to run: the first that needs no more memory than the options allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import TypeVar

from treadle.base.errors import WorkspaceError
from treadle.base.options import current
from treadle.base.sizes import as_text
from treadle.engines.native.codegen.code import Code
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.pool import pool
from treadle.program.build import Draft
from treadle.program.chains import side_by_side
from treadle.program.program import Program
from treadle.program.timeline import Demand
from treadle.rewrite.record import stage

Made = TypeVar("Made")
NEAR = 1.1  # a plan is not made where so many times the limit is foreseen
LAST = 3  # but for so many, the smallest, if nothing else fits
NAMED = 5  # of what is held at the fullest step, in an error


def abreast(
    program: Program,
    lanes: int = 1,
    known: Mapping[int, tuple[Code, ...]] | None = None,
) -> tuple[Linked, int]:
    """A program with its small steps side by side, and the bytes that it needs.

    `known` has the code of each of its steps, as Linked takes it.

    In order, if these would be more than the options allow otherwise.
    """
    limit, threads = current().workspace, pool(current().threads).threads
    with stage("side by side"):
        parallel = side_by_side(program, lanes)
    for one in [parallel, program] if parallel.regions else [program]:
        linked = Linked(one, known=known)
        needed = linked.workspace(threads)
        if limit and needed > limit:  # products copy smaller blocks, at the least
            left = limit - needed + linked.scratch * threads
            linked = Linked(one, max(left // threads, 1))
            needed = linked.workspace(threads)
        if not limit or needed <= limit:
            break
    linked.plain = program
    return linked, needed


def fitting(
    drafts: Iterator[Draft],
    sized: Callable[[Program], tuple[Made, int]] = abreast,  # type: ignore[assignment]
) -> Made:
    """The first of ever smaller programs that fits in the workspace, to be linked;
    `sized` makes something of a program, and tells the bytes that it needs.
    """
    limit = current().workspace
    refused: list[tuple[int, Draft]] = []
    large: list[Draft] = []

    def fits(draft: Draft) -> Made | None:
        linked, needed = sized(draft.build())
        if limit and needed > limit:
            refused.append((needed, draft))
            return None
        return linked

    for draft in drafts:
        if limit and draft.demand.bytes > NEAR * limit:
            large.append(draft)
            continue
        linked = fits(draft)
        if linked is not None:
            return linked
    for draft in large[: -LAST - 1 : -1]:
        linked = fits(draft)
        if linked is not None:
            return linked
    least, smallest = min(refused, key=itemgetter(0))
    raise _refusal(limit, least, smallest.demand)


def _refusal(limit: int, least: int, demand: Demand) -> WorkspaceError:
    live = ", ".join(
        f"{x.type!r} ({as_text(x.type.nbytes)})" for x in demand.live[:NAMED]
    )
    lines = [x.line for x in demand.live[:1] if x.line]
    error = WorkspaceError(
        f"the graph does not run in a workspace of {limit:,} bytes "
        f"({as_text(limit)}), even with values computed again: it needs {least:,} "
        f"({as_text(least)}); at its fullest step it holds {live}",
        hint=f"td.options(workspace={least}) would do, and so might smaller batches",
    )
    error.needed = least
    return error.located("workspace", "", lines[0] if lines else "")
