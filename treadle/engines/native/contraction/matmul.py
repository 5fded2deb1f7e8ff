"""Plans of matrix products: the kernel, its arguments and its work items."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from treadle.engines.native.contraction.blas import (
    BLAS_FIELDS,
    blas_address,
    blas_fields,
    blas_is_faster,
    blas_kernel,
)
from treadle.engines.native.contraction.blocking import (
    Blocking,
    choose,
    grain,
    tile_size,
)
from treadle.engines.native.contraction.dot import dot_function
from treadle.engines.native.contraction.epilogue import Epilogue
from treadle.engines.native.contraction.kernel import FIELDS, Structure, kernel
from treadle.engines.native.contraction.machine import Machine, machine
from treadle.engines.native.contraction.pack import (
    copy_block,
    pack_general,
    pack_rows,
    pack_transposed,
)
from treadle.engines.native.contraction.text import Function
from treadle.engines.native.contraction.tile import FLAT, TALL, tile_function

__all__ = ["MatmulPlan", "plan_matmul"]

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class MatmulPlan:
    """A product ready to be compiled and run.

    The arguments of the kernel are: the pointers of A, B and C (`swapped`: of B, A and
    C), those of the epilogue, that of the scratch memory (`scratch` bytes for each
    worker, on a 64 byte boundary), the addresses of `functions`, then `arguments` and
    the integers of the epilogue.
    """

    name: str
    text: str
    functions: tuple[Function, ...]
    arguments: tuple[int, ...]
    total: int
    grain: int
    scratch: int
    swapped: bool


@dataclass(frozen=True)
class _Problem:
    """A product as the kernel sees it: sizes m, n, k; strides in elements."""

    machine: Machine
    dtype: str
    batch: int
    sizes: Triple
    a: Triple
    b: Triple
    c: Triple
    plain: bool  # finished vectors are stored to C

    @property
    def size(self) -> int:
        return 4 if self.dtype == "float" else 8

    def swap(self) -> _Problem:
        """The transposed product: C^T = B^T A^T."""
        (m, n, k), a, b, c = self.sizes, self.a, self.b, self.c
        a, b, c = (b[0], b[2], b[1]), (a[0], a[2], a[1]), (c[0], c[2], c[1])
        return replace(self, sizes=(n, m, k), a=a, b=b, c=c)


def plan_matmul(
    batch: int,
    m: int,
    n: int,
    k: int,
    a: Triple,
    b: Triple,
    c: Triple,
    dtype: str = "float",
    epilogue: Epilogue | None = None,
    accumulate: bool = False,
    target: Machine | None = None,
    blocking: Blocking | None = None,
    blas: bool | None = None,
) -> MatmulPlan:
    """C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n] (+ C).

    Strides are in elements: a by batch, row, k; b by batch, k, column; c by batch, row,
    column. dtype is "float" or "double". The order of each sum depends on sizes,
    strides and machine, not on threads. blas: whether OpenBLAS takes what it can
    (None: where it is faster).
    """
    given = _Problem(
        target or machine(), dtype, batch, (m, n, k), a, b, c, epilogue is None
    )
    return _planned(given, epilogue, accumulate, blocking, blas)


@lru_cache(maxsize=1024)
def _planned(
    given: _Problem,
    epilogue: Epilogue | None,
    accumulate: bool,
    blocking: Blocking | None,
    blas: bool | None,
) -> MatmulPlan:
    """The plan of a product, made once for equal ones."""
    (_, n, _), c = given.sizes, given.c
    m, dtype, batch, own = given.sizes[0], given.dtype, given.batch, given.machine
    swapped = given.plain and c[1] == 1 and (c[2] != 1 or n == 1 < m)
    problem = given.swap() if swapped else given
    if blas or (blas is None and blas_is_faster(dtype, *problem.sizes)):
        found = _by_blas(problem, accumulate, swapped)
        if found is not None:
            return found
    cut = _lawful(problem, blocking)
    extra = epilogue or Epilogue("", lambda b, x, site: None)
    structure = Structure(
        dtype,
        problem.c[2] == 1,
        accumulate,
        extra.key or None,
        extra.pointers,
        extra.integers,
    )
    made = kernel(own, structure, epilogue)
    values = _fields(problem, cut)
    total = batch * values["blocks_m"] * values["blocks_n"]
    return MatmulPlan(
        made.name,
        made.text,
        _functions(problem, cut),
        tuple(values[name] for name in FIELDS),
        total,
        grain((batch, *problem.sizes), problem.size, total),
        values["scratch"],
        swapped,
    )


def _by_blas(problem: _Problem, accumulate: bool, swapped: bool) -> MatmulPlan | None:
    """The product by OpenBLAS, if that can do it."""
    address = blas_address(problem.dtype) if problem.plain else 0
    fields = blas_fields(problem.sizes, problem.a, problem.b, problem.c, address)
    if fields is None:
        return None
    made = blas_kernel(problem.dtype, accumulate)
    total = problem.batch * fields["blocks_m"] * fields["blocks_n"]
    arguments = tuple(fields[name] for name in BLAS_FIELDS)
    return MatmulPlan(made.name, made.text, (), arguments, total, 1, 0, swapped)


def _lawful(problem: _Problem, wanted: Blocking | None) -> Blocking:
    """The blocking asked for, as sizes and strides allow it, or the best known."""
    (m, n, k), a, b = problem.sizes, problem.a[1:], problem.b[1:]
    own, size = problem.machine, problem.size
    cut = wanted or choose(own, size, (problem.batch, m, n, k), a, b)
    tiles, blocks_m = cut.tiles, max(1, min(cut.blocks_m, m))
    if tiles == "dot" and (a[1] != 1 or b[0] != 1):
        tiles = "tall"
    if tiles == "tall" and m // blocks_m <= tile_size(own, size, "flat")[0]:
        tiles = "flat"
    return replace(
        cut,
        tiles=tiles,
        blocks_m=blocks_m,
        block_n=max(1, min(cut.block_n, n)),
        block_k=max(1, k if tiles == "dot" else min(cut.block_k, k)),
        packed=tiles != "dot" and (cut.packed or b[1] != 1),
        copied=cut.copied and tiles != "dot" and 1 in a,
        ahead=cut.ahead and b[1] == 1,
    )


def _functions(problem: _Problem, cut: Blocking) -> tuple[Function, ...]:
    """What the kernel calls, in the order of FUNCTIONS."""
    own, dtype, b = problem.machine, problem.dtype, problem.b
    pack = pack_rows if b[2] == 1 else pack_transposed if b[1] == 1 else pack_general
    if cut.tiles == "dot":
        tile = dot_function(own, dtype)
    else:
        tile = tile_function(own, dtype, FLAT if cut.tiles == "flat" else TALL)
    return tile, pack(own, dtype), copy_block(own, dtype)


def _fields(problem: _Problem, cut: Blocking) -> dict[str, int]:
    """The integers of the kernel by name."""
    (m, n, k), size = problem.sizes, problem.size
    tile_m, tile_n = tile_size(problem.machine, size, cut.tiles)
    strides = (*problem.a, *problem.b, *problem.c)
    fields = {x: size * s for x, s in zip(FIELDS, strides, strict=False)}
    fields |= {"m": m, "n": n, "k": k, "tile_m": tile_m, "tile_n": tile_n}
    fields |= {"block_n": cut.block_n, "block_k": cut.block_k}
    blocks_n = -(-n // cut.block_n)
    fields |= {"blocks_m": cut.blocks_m if m else 0, "blocks_n": blocks_n}
    ragged = 2 if problem.machine.masks or cut.tiles == "dot" else 1
    direct = ragged if problem.plain and problem.c[2] == 1 and not cut.held else 0
    packed = 2 if cut.packed else 0 if ragged == 2 else 1
    width = -(-tile_n * size // problem.machine.vector) * problem.machine.vector
    fields |= {"direct": direct, "packed": packed, "far": int(cut.far)}
    fields["ahead"] = -(-width // 64) if cut.ahead else 0
    at_sums = cut.block_k * width if packed else 0
    sums = _kept_sums(fields, cut, width)
    fields |= _copy(problem, cut) | {"at_sums": at_sums, "at_a": at_sums + sums}
    scratch = at_sums + sums + fields.pop("bytes")
    return fields | {"scratch": -(-scratch // 64) * 64}


def _kept_sums(fields: dict[str, int], cut: Blocking, width: int) -> int:
    """Bytes of the sums that do not go to C, with the steps between them filled in.

    One tile if the sum has one block of k; else every tile of a block of C, or of its
    last panel where only that is not written to C.
    """
    tile = fields["tile_m"] * width
    several = fields["k"] > cut.block_k
    rows = -(-fields["m"] // cut.blocks_m)
    tiles = -(-rows // fields["tile_m"])
    panel = tiles * tile if several else tile
    all_panels = several and not fields["direct"]
    fields["step_tile"] = tile if several else 0
    fields["step_panel"] = panel if all_panels else 0
    return panel * -(-cut.block_n // fields["tile_n"]) if all_panels else panel


def _copy(problem: _Problem, cut: Blocking) -> dict[str, int]:
    """How the copy of a block of A lies: rows along k or m, an odd number of lines."""
    size, along_k = problem.size, problem.a[2] == 1
    rows = -(-problem.sizes[0] // cut.blocks_m)
    outer, inner = (rows, cut.block_k) if along_k else (cut.block_k, rows)
    row = (-(-inner * size // 64) | 1) * 64  # odd, so that rows spread over the cache
    return {
        "copied": (2 if along_k else 1) if cut.copied else 0,
        "copy_row": row if along_k else size,
        "copy_k": size if along_k else row,
        "bytes": row * outer if cut.copied else 0,
    }
