"""Plans of matrix products: the kernel, its arguments and its work items."""

from __future__ import annotations

from dataclasses import dataclass

from .blocking import Blocking, choose, seconds, widths_of_tiles
from .epilogue import Epilogue
from .host import Host, host
from .kernel import FIELDS, Structure, kernel
from .pack import copy_block, pack_general, pack_rows, pack_transposed
from .text import Function
from .tile import rows_of_tile, tile_function

__all__ = ["MatmulPlan", "plan_matmul"]


@dataclass(frozen=True)
class MatmulPlan:
    """A product ready to be compiled and run.

    The arguments of the kernel are: the pointers of A, B and C (`swapped`: of B, A and
    C), those of the epilogue, that of the scratch memory (`scratch` bytes for each
    worker, on a 64 byte boundary), the addresses of `functions`, then `arguments` and the
    integers of the epilogue.
    """

    name: str
    text: str
    functions: tuple[Function, ...]
    arguments: tuple[int, ...]
    total: int
    grain: int
    scratch: int
    swapped: bool


def plan_matmul(
    batch: int,
    m: int,
    n: int,
    k: int,
    a: tuple[int, int, int],
    b: tuple[int, int, int],
    c: tuple[int, int, int],
    dtype: str = "float",
    epilogue: Epilogue | None = None,
    accumulate: bool = False,
    machine: Host | None = None,
    blocking: Blocking | None = None,
) -> MatmulPlan:
    """C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n] (+ C).

    Strides are in elements: a by batch, row, k; b by batch, k, column; c by batch, row,
    column. The order of each sum depends on sizes, strides and machine, not on threads.
    """
    machine = machine or host()
    swapped = epilogue is None and c[2] != 1 and c[1] == 1
    if swapped:
        m, n = n, m
        a, b, c = (b[0], b[2], b[1]), (a[0], a[2], a[1]), (c[0], c[2], c[1])
    size = 4 if dtype == "float" else 8
    cut = blocking or choose(machine, size, (batch, m, n, k), a[1:], b[1:])
    structure = Structure(
        dtype,
        c[2] == 1,
        accumulate,
        epilogue.key if epilogue else None,
        epilogue.pointers if epilogue else 0,
        epilogue.integers if epilogue else 0,
    )
    own = kernel(machine, structure, epilogue)
    pack = pack_rows if b[2] == 1 else pack_transposed if b[1] == 1 else pack_general
    functions = (
        tile_function(machine, dtype, widths_of_tiles(machine, m, cut)),
        pack(machine, dtype),
        copy_block(machine, dtype),
    )
    blocks_m = cut.blocks_m if m else 0
    blocks_n = -(-n // max(cut.block_n, 1))
    values = _fields(machine, size, (m, n, k), a, b, c, cut, epilogue is None)
    values |= {"blocks_m": blocks_m, "blocks_n": blocks_n}
    total = batch * blocks_m * blocks_n
    return MatmulPlan(
        own.name,
        own.text,
        functions,
        tuple(values[name] for name in FIELDS),
        total,
        max(1, int(total * 4e-6 / max(seconds((batch, m, n, k), size), 1e-9))),
        values["scratch"],
        swapped,
    )


def _fields(
    machine: Host,
    size: int,
    sizes: tuple[int, int, int],
    a: tuple[int, int, int],
    b: tuple[int, int, int],
    c: tuple[int, int, int],
    cut: Blocking,
    plain: bool,
) -> dict[str, int]:
    """The integers of the kernel by name."""
    m, n, k = sizes
    lanes = machine.vector // size
    widths = widths_of_tiles(machine, m, cut)
    tile_m, tile_n = rows_of_tile(machine, widths[-1]), widths[-1] * lanes
    bytes_a, bytes_b, bytes_c = (tuple(size * x for x in s) for s in (a, b, c))
    direct = plain and c[2] == 1 and not cut.held
    block_m, block_n = -(-m // cut.blocks_m), min(cut.block_n, max(n, 1))
    block_k = max(min(cut.block_k, k), 1)
    tiles = -(-block_m // tile_m)
    tile = tile_m * tile_n * size
    several = k > block_k
    step_tile = tile if several else 0
    step_panel = tiles * tile if several and not direct else 0
    panels = -(-block_n // tile_n)
    sums = tile if not several else tiles * tile * (1 if direct else panels)
    panel = -(-block_k * tile_n * size // 64) * 64
    by_row = a[2] == 1
    copied = cut.copied and (by_row or a[1] == 1)
    inner = block_k if by_row else block_m
    row = (-(-inner // lanes) | 1) * machine.vector  # odd: rows fall into all sets
    outer = block_m if by_row else block_k
    copy = row * outer if copied else 0
    scratch = -(-(panel + sums + copy) // 64) * 64
    return dict(
        zip(("batch_a", "row_a", "k_a"), bytes_a, strict=True),
        **dict(zip(("batch_b", "k_b", "column_b"), bytes_b, strict=True)),
        **dict(zip(("batch_c", "row_c", "column_c"), bytes_c, strict=True)),
        m=m, n=n, k=k, block_n=block_n, block_k=block_k,
        tile_m=tile_m, tile_n=tile_n, direct=int(direct), packed=int(cut.packed or b[2] != 1),
        copied=(2 if by_row else 1) if copied else 0,
        copy_row=row if by_row else size, copy_k=size if by_row else row,
        far=2 if cut.far else 0, ahead=widths[-1] if cut.ahead and b[2] == 1 else 0,
        step_tile=step_tile, step_panel=step_panel, scratch=scratch,
        at_sums=panel, at_a=panel + sums,
    )  # fmt: skip
