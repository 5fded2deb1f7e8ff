"""Plans of matrix products: the kernel, its arguments and its work items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from treadle.base.caches import cached
from treadle.base.symbolic import (
    chosen,
    exceeds,
    is_same,
    is_symbolic,
    least,
    most,
    reaches,
)
from treadle.engines.native.codegen.contraction.blas import (
    BLAS_FIELDS,
    blas_address,
    blas_fields,
    blas_is_faster,
    blas_kernel,
)
from treadle.engines.native.codegen.contraction.blocking import (
    AT_ONCE,
    Blocking,
    block_tile,
    by_kind,
    choose,
    copy_layout,
    grain,
    is_kind,
    is_worth_panels,
    lawful_tiles,
    odd_lines,
    tile_of,
)
from treadle.engines.native.codegen.contraction.epilogue import (
    Epilogue,
    FinishStructure,
    finish_function,
)
from treadle.engines.native.codegen.contraction.kernel import FIELDS, product_nest
from treadle.engines.native.codegen.contraction.machine import Machine, machine
from treadle.engines.native.codegen.contraction.pack import (
    copy_block,
    pack_general,
    pack_rows,
    pack_transposed,
)
from treadle.engines.native.codegen.contraction.parts import TileParts
from treadle.engines.native.codegen.contraction.source import size_of, terms_of
from treadle.engines.native.codegen.texts import FunctionChoice, FunctionText

Triple = tuple[int, int, int]

GROUP = 1 << 17  # bytes of panels that are copied at once where caches are crowded
WIDENED = 2  # tiles of rows that each widen B: for more of them it is copied


class Numbers(NamedTuple):
    """What a plan says in numbers: arguments, work items, how many are a part, bytes
    of scratch memory.
    """

    arguments: tuple[int, ...]
    total: int
    grain: int
    scratch: int


@dataclass(frozen=True)
class MatmulPlan:
    """A product ready to be compiled and run.

    The arguments of the kernel are: the pointers of A, B and C (`swapped`: of B, A and
    C), that of the scratch memory (`scratch` bytes for each worker, on a 64 byte
    boundary), the addresses of `functions`, then `arguments`, the pointers of the
    epilogue and its integers. `parts` are what the functions go on in.
    """

    name: str
    text: str
    functions: tuple[FunctionText | FunctionChoice, ...]
    arguments: tuple[int, ...]
    total: int
    grain: int
    scratch: int
    swapped: bool
    parts: tuple[FunctionText, ...] = ()


class _Problem(NamedTuple):
    """A product as the kernel sees it: sizes m, n, k; strides in elements."""

    machine: Machine
    dtype: str
    batch: int
    sizes: Triple
    a: Triple
    b: Triple
    c: Triple
    plain: bool  # finished vectors are stored to C
    sources: tuple[str, str]  # how A and B lie in memory
    scratch_limit: int = 0  # bytes of scratch memory for each worker, if these are few
    slices: int = 1  # of rows, which blocks are, if they are several

    @property
    def joined(self) -> bool:
        """Whether the blocks of a call are one: adjacent slices."""
        return not is_same(self.slices, 1) and not self.scratch_limit

    @property
    def size(self) -> int:
        return size_of(self.dtype)

    @property
    def swaps(self) -> bool:
        """Whether rows of the result are taken for its columns."""
        (m, n, _), c = self.sizes, self.c
        return self.plain and c[1] == 1 and (c[2] != 1 or n == 1 < m)

    @property
    def goes_to_blas(self) -> bool:
        """Whether OpenBLAS is faster and can take it."""
        wide = self.sources == (self.dtype,) * 2 and self.dtype != "i32"
        return wide and blas_is_faster(self.dtype, *self.sizes)

    @property
    def group(self) -> int:
        """How many terms of a sum are one element of A and of B."""
        return terms_of(self.sources[0])

    @property
    def elements(self) -> int:
        """The elements of a sum."""
        return -(-self.sizes[2] // self.group)

    @property
    def narrow(self) -> tuple[bool, bool]:
        """Whether A and B lie in fewer bytes than they are computed with."""
        a, b = (size_of(s) // terms_of(s) for s in self.sources)
        return a < self.size, b < self.size

    def swap(self) -> _Problem:
        """The transposed product: C^T = B^T A^T."""
        (m, n, k), a, b, c = self.sizes, self.a, self.b, self.c
        a, b, c = (b[0], b[2], b[1]), (a[0], a[2], a[1]), (c[0], c[2], c[1])
        sources = self.sources[1], self.sources[0]
        return self._replace(sizes=(n, m, k), a=a, b=b, c=c, sources=sources)


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
    sources: tuple[str, str] | None = None,
    scratch_limit: int = 0,
    slices: int = 1,
) -> MatmulPlan:
    """C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n] (+ C).

    Strides are in elements: a by batch, row, k; b by batch, k, column; c by batch, row,
    column. dtype is "float", "double" or "i32"; of a float product `sources` may tell
    that A and B lie in memory as "half", "bfloat" or "int8", of integers as "int8" or
    "uint8", such an A side by side along rows or columns; or as "int8 x 4" and
    "uint8 x 4", one each, where four products of bytes are added up at once, or both
    as "bfloat x 2". The order of each
    sum depends on sizes, strides and machine, not on threads or sources. blas: whether
    OpenBLAS takes what it can (None: where it is faster). scratch_limit: bytes of
    scratch memory that each worker should do with (0: any); blocks are smaller where
    they have to be, with the same sums. slices: into how many even blocks the rows are
    to be cut (1: as is fastest), with the same sums; those of one call are one block.
    """
    processor, lie = target or machine(), sources or (dtype, dtype)
    problem = _Problem(
        processor,
        dtype,
        batch,
        (m, n, k),
        a,
        b,
        c,
        epilogue is None,
        lie,
        scratch_limit,
        slices,
    )
    return _planned(problem, epilogue, accumulate, blocking, blas)


@cached(1024)
def _planned(
    asked: _Problem,
    epilogue: Epilogue | None,
    accumulate: bool,
    blocking: Blocking | None,
    blas: bool | None,
) -> MatmulPlan:
    """The plan of a product, made once for equal ones."""
    swapped = asked.swaps
    problem = asked.swap() if swapped else asked
    wide = problem.sources == (problem.dtype,) * 2
    if problem.goes_to_blas if blas is None else wide and blas:
        plan = _by_blas(problem, accumulate, swapped)
        if plan is not None:
            return plan
    cut = _lawful(problem, blocking)
    extra = epilogue or Epilogue("", lambda b, x, site: None)
    structure = FinishStructure(
        problem.dtype,
        problem.c[2] == 1,
        accumulate,
        extra.key or None,
        extra.pointers,
        extra.integers,
    )
    nest = product_nest(problem.machine, problem.dtype)
    fields = _fields(problem, cut) | {"again": int(accumulate)}
    functions, parts = _functions(problem, cut, fields)
    return MatmulPlan(
        nest.name,
        nest.text,
        (*functions, finish_function(problem.machine, structure, epilogue)),
        *_numbers(problem, fields),
        swapped,
        tuple(parts),
    )


def _numbers(problem: _Problem, values: Mapping[str, int]) -> Numbers:
    total = problem.batch * values["blocks_m"] * values["blocks_n"]
    work = problem.batch, *problem.sizes[:2], problem.elements
    return Numbers(
        tuple([values[name] for name in FIELDS]),
        total,
        grain(problem.machine, work, problem.size, total),
        values["scratch"],
    )


def _by_blas(problem: _Problem, accumulate: bool, swapped: bool) -> MatmulPlan | None:
    """The product by OpenBLAS, if that can do it."""
    address = blas_address(problem.dtype) if problem.plain else 0
    fields = blas_fields(problem.sizes, problem.a, problem.b, problem.c, address)
    if fields is None:
        return None
    function = blas_kernel(problem.dtype, accumulate)
    total = problem.batch * fields["blocks_m"] * fields["blocks_n"]
    arguments = tuple(fields[name] for name in BLAS_FIELDS)
    return MatmulPlan(function.name, function.text, (), arguments, total, 1, 0, swapped)


def _lawful(problem: _Problem, wanted: Blocking | None) -> Blocking:
    """The blocking asked for, as sizes and strides allow it, or the best known."""
    (m, n, _), a, b = problem.sizes, problem.a[1:], problem.b[1:]
    k, grouped = problem.elements, problem.group > 1
    processor, size = problem.machine, problem.size
    cut = wanted or choose(processor, size, (problem.batch, m, n, k), a, b)
    if not is_same(slices := problem.slices, 1):
        worth = is_worth_panels(processor, m // slices, k * n * size, b[0] * size)
        packed = least(cut.packed, worth)
        cut = cut._replace(blocks_m=slices, block_n=n, packed=packed)
    blocks_m = most(1, least(cut.blocks_m, m))
    tiles = lawful_tiles(processor, size, cut.tiles, a, b, m // blocks_m)
    narrow_a, narrow_b = problem.narrow
    block_n = most(1, least(cut.block_n, n))
    packed = most(cut.packed, int(b[1] != 1))
    if grouped:
        packed = 1
    elif narrow_b and not packed:  # else each tile widens it, whole vectors of it
        few = m // blocks_m <= WIDENED * tile_of(processor, size, tiles)[0]
        packed = int(not few or not _fits(problem, block_n))
    if tiles == "row" and (m != 1 or packed or not _fits(problem, block_n)):
        tiles = "flat"
    in_parts = 1 - is_kind(tiles, "dot")
    block_k = by_kind(tiles, lambda t: k if t in AT_ONCE else least(cut.block_k, k))
    lawful = Blocking(
        tiles,
        blocks_m,
        block_n,
        most(1, block_k),
        in_parts * packed,
        most(cut.copied, int(narrow_a)) * in_parts * (1 in a),
        cut.apart,
        cut.ahead * (b[1] == 1),
        cut.far,
    )
    return _narrowed(problem, lawful) if problem.scratch_limit else lawful


def _narrowed(problem: _Problem, cut: Blocking) -> Blocking:
    """The blocking with lower blocks of rows, so that its scratch memory has room."""
    m, least = problem.sizes[0], tile_of(problem.machine, problem.size, cut.tiles)[0]
    while _fields(problem, cut)["scratch"] > problem.scratch_limit:
        if m // (2 * cut.blocks_m) < least:
            break
        cut = cut._replace(blocks_m=2 * cut.blocks_m)
    return cut


def _fits(problem: _Problem, block_n: int) -> bool:
    """Whether columns are whole vectors, or the machine can mask the last one."""
    lanes = problem.machine.lanes(problem.dtype)
    return problem.machine.masks or not (problem.sizes[1] % lanes or block_n % lanes)


def _functions(
    problem: _Problem, cut: Blocking, fields: Mapping[str, int]
) -> tuple[list[FunctionText | FunctionChoice], list[FunctionText]]:
    """The functions that the kernel calls, in the order of FUNCTIONS, and the parts
    that they go on in, where no size of the run tells these."""
    processor, dtype = problem.machine, problem.dtype
    _, step, column = problem.b
    pack = pack_rows if column == 1 else pack_transposed if step == 1 else pack_general
    a_type, b_type = problem.sources
    widened = problem.narrow[1] and problem.group == 1 and cut.packed
    read = dtype if widened else b_type
    several = not isinstance(cut.tiles, str)
    kinds, shares = zip(*cut.tiles, strict=True) if several else ((cut.tiles,), (1,))
    parts = TileParts(processor, dtype, problem.sources, read, kinds)
    tiles = parts.functions()
    copy = copy_block(processor, dtype, a_type, problem.a[2] == 1)
    others = pack(processor, dtype, b_type), copy
    if several or any(map(is_symbolic, fields.values())):
        number = sum(k * is_it for k, is_it in enumerate(shares))
        return [FunctionChoice(tiles, number, parts), *others], []
    return [*tiles, *others], parts.of(fields)


def _fields(problem: _Problem, cut: Blocking) -> dict[str, int]:
    """The integers of the kernel by name."""
    (m, n, k), size = problem.sizes, problem.size
    slice_rows, columns = -(-m // cut.blocks_m), least(cut.block_n, n)
    rows = m if problem.joined else slice_rows
    tile_m, tile_n = tile_of(problem.machine, size, cut.tiles)
    if not problem.scratch_limit:  # panels of wider tiles take more of that
        shape = slice_rows, columns
        tile_m, tile_n = block_tile(problem.machine, size, cut.tiles, *shape)
    sizes = *(size_of(s) // terms_of(s) for s in problem.sources), size
    strides = zip(sizes, (problem.a, problem.b, problem.c), strict=True)
    steps = [each * s for each, triple in strides for s in triple]
    fields = dict(zip(FIELDS, steps, strict=False))
    fields |= {"m": m, "n": n, "k": k, "tile_m": tile_m, "tile_n": tile_n}
    fields |= {"block_n": cut.block_n, "block_k": cut.block_k * problem.group}
    blocks_n = -(-n // cut.block_n)
    fields |= {"blocks_m": cut.blocks_m if m else 0, "blocks_n": blocks_n}
    ragged = (
        2 if problem.machine.masks else 1 + by_kind(cut.tiles, AT_ONCE.__contains__)
    )
    direct = ragged if problem.plain and problem.c[2] == 1 and not cut.apart else 0
    packed = chosen(cut.packed, 2, 0 if problem.narrow[1] else 2 - ragged)
    width = -(-tile_n * size // problem.machine.vector) * problem.machine.vector
    fields |= {"direct": direct, "packed": packed, "far": cut.far * 1}
    fields["joined"] = int(problem.joined)
    panel = odd_lines(cut.block_k * width)
    together = problem.machine.crowded and not problem.scratch_limit
    panels = chosen(cut.packed, GROUP // panel, 1) if together else 1
    panels = most(1, least(panels, -(-columns // tile_n)))
    fields |= {"group_n": tile_n * panels, "step_pack": panel * exceeds(panels, 1)}
    fields["ahead"] = -(-width * sizes[1] // size // 64) * cut.ahead
    at_sums = chosen(reaches(packed, 1), panel * panels, 0)
    sums = _kept_sums(fields, cut, rows, width)
    tile = tile_m, problem.a[2] == 1
    layout = copy_layout(problem.machine, size, cut, rows, *tile)
    fields |= layout | {"at_sums": at_sums, "at_a": at_sums + sums}
    scratch = at_sums + sums + fields.pop("bytes")
    return fields | {"scratch": -(-scratch // 64) * 64}


def _kept_sums(fields: dict[str, int], cut: Blocking, rows: int, width: int) -> int:
    """Bytes of the sums that do not go to C, with the steps between them filled in.

    One tile if the sum has one block of k; else every tile of a block of C, or of its
    last panel where only that is not written to C.
    """
    tile = fields["tile_m"] * width
    several = exceeds(fields["k"], fields["block_k"])
    tiles = -(-rows // fields["tile_m"])
    panel = chosen(several, tiles * tile, tile)
    all_panels = several * (1 - reaches(fields["direct"], 1))
    fields["step_tile"] = chosen(several, tile, 0)
    fields["step_panel"] = chosen(all_panels, panel, 0)
    panels = -(-cut.block_n // fields["tile_n"])
    return chosen(all_panels, panel * panels, panel)
