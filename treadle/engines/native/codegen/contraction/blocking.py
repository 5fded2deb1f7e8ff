"""Blocking of a product: tiles, panels, blocks, copies, work items.

The limits were measured on a core with 48 KB and 1 MB of cache and 64-byte vectors, and
on one with 32 KB, 512 KB and 32-byte vectors; the README tells what each buys. None
depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from treadle.base.symbolic import chosen, exceeds, is_symbolic, least, most, reaches
from treadle.engines.native.codegen.contraction.dot import DOT_ROWS
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.row import ROW_COLUMNS
from treadle.engines.native.codegen.contraction.tile import (
    FLAT,
    LOW,
    TALL,
    rows_of_tile,
)

Pair = tuple[int, int]
# One kind, or several: of each whether it is the one, as 1 or 0 of the run.
Tiles = str | tuple[tuple[str, int], ...]

AT_ONCE = ("dot", "row")  # tiles that sum over all of k, and mask for themselves
ROW_PART, ROW_UNIT = 192, 64  # least columns of a part of one row, and a multiple
PART = 8000  # ns of a product that are worth another block
FAR = 10 << 20  # bytes of A that no near cache holds


class Blocking(NamedTuple):
    """The cut of a product; sizes in elements.

    tiles: "tall", "flat" (few rows; all that blocks of fewer rows than half a tall tile
    may have), "dot" (few rows, A and B consecutive along k) or "row" (one row, B with
    adjacent columns). What is a matter of yes and no may be a 1 or 0 of the run.
    """

    tiles: Tiles = "tall"
    blocks_m: int = 1  # blocks of rows, of even height
    block_n: int = 1 << 40
    block_k: int = 512
    packed: int = False  # panels of B are copied (also where they must be)
    copied: int = False  # blocks of A are copied (only where they can be)
    apart: bool = False  # sums of several blocks of k are kept apart from C
    ahead: int = 0  # the next panel of B is prefetched
    far: int = 0  # C is not in a near cache and is prefetched


def tile_size(machine: Machine, size: int, tiles: str) -> Pair:
    """Rows and columns of the largest tile of a kind; `size` in bytes of an element."""
    lanes = machine.vector // size
    if tiles == "dot":
        return DOT_ROWS, 32
    if tiles == "row":
        return 1, ROW_COLUMNS
    width = (FLAT if tiles == "flat" else TALL)[-1]
    return rows_of_tile(machine, width), width * lanes


def by_kind(tiles: Tiles, number: Callable[[str], int]) -> int:
    """A number that hangs on the kind of the tiles."""
    if isinstance(tiles, str):
        return number(tiles)
    (kind, _), *others = tiles
    result = number(kind)
    for kind, is_it in others:
        result = chosen(is_it, number(kind), result)
    return result


def is_kind(tiles: Tiles, kind: str) -> int:
    """Whether the tiles are of a kind, as 1 or 0."""
    return int(tiles == kind) if isinstance(tiles, str) else dict(tiles).get(kind, 0)


def either(tiles: Tiles, kind: str, is_it: int) -> Tiles:
    """The tiles, or such of another kind where that is 1."""
    if not is_symbolic(is_it):
        return kind if is_it else tiles
    pairs = ((tiles, 1),) if isinstance(tiles, str) else tiles
    return (*((k, here * (1 - is_it)) for k, here in pairs if k != kind), (kind, is_it))


def block_tile(
    machine: Machine, size: int, tiles: Tiles, rows: int, columns: int
) -> Pair:
    """The size of the tiles of a block of C: lower and wider than tall ones where so
    many rows are one or two of them, and of the columns no single vector is left."""
    tallest, low = rows_of_tile(machine, TALL[-1]), rows_of_tile(machine, LOW)
    lanes = machine.vector // size
    left = -(-columns // lanes) % LOW
    fewer = sum(
        exceeds(rows, TALL[-1] * k // LOW * tallest) - exceeds(rows, k * low)
        for k in (1, 2)
    )
    is_low = is_kind(tiles, "tall") * fewer * (1 - left * (2 - left))
    height, width = tile_of(machine, size, tiles)
    return chosen(is_low, low, height), chosen(is_low, width + lanes, width)


def choose(
    machine: Machine, size: int, sizes: tuple[int, ...], a: Pair, b: Pair
) -> Blocking:
    """The cut for sizes = (batch, m, n, k); strides a = (row, k), b = (k, column)."""
    batch, m, n, k = (max(x, 1) for x in sizes)
    tiles = either("tall", "flat", reaches(rows_of_tile(machine, FLAT[-1]), m))
    if a[1] == 1 and b[0] == 1 and b[1] != 1:
        tiles = either(tiles, "dot", reaches(24, m) * reaches(k, 64))
    if m == 1 and b[1] == 1:
        tiles = "row"
    worth = is_worth_panels(machine, m, k * n * size, b[0] * size)
    packed = (1 - is_kind(tiles, "dot")) * (worth if b[1] == 1 else 1)
    fetched = _is_fetched_late(m, k, a, size)
    copied = most(fetched, _is_worth_a_copy(machine, m, n, a, size))
    both = copied * machine.crowded  # the copies of A are worth those of B
    packed = most(packed, both)
    near, steep = most(packed, fetched), machine.crowded and a[0] == 1
    narrow = chosen(near, steep * (1 - copied), _is_crossed(machine, b[0] * size))
    high = most(packed, reaches(m, 1536)) * (1 - fetched)
    cut = _blocks(machine, size, tiles, chosen(high, 512, 128), (batch, m, n, k))
    wide = _wide_blocks(machine, size, (batch, m, n, k))
    blocks_m, blocks_n = (chosen(both, x, y) for x, y in zip(wide, cut, strict=True))
    unit = ROW_UNIT if tiles == "row" else tile_of(machine, size, tiles)[1]
    units = -(-n // unit)
    return Blocking(
        tiles,
        blocks_m,
        -(-units // blocks_n) * unit,
        by_kind(tiles, lambda kind: _block_k(kind, k, near, narrow)),
        packed,
        copied,
        ahead=exceeds(m, 15) * exceeds(k * n * size, 1 << 18),
        far=exceeds(batch * m * n * size, 1 << 20),
    )


def lawful_tiles(
    machine: Machine, size: int, tiles: Tiles, a: Pair, b: Pair, rows: int
) -> Tiles:
    """The tiles that strides allow, for blocks of so many rows at least."""
    if tiles == "dot" and (a[1] != 1 or b[0] != 1):
        tiles = "tall"
    if tiles in ("flat", "dot", "row"):
        return tiles
    low = reaches(tile_size(machine, size, "flat")[0], rows)
    dot = is_kind(tiles, "dot")
    return either(either("tall", "flat", low), "dot", dot)


def tile_of(machine: Machine, size: int, tiles: Tiles) -> Pair:
    """The rows and columns of the largest tile."""
    rows, columns = (
        by_kind(tiles, lambda kind, k=k: tile_size(machine, size, kind)[k])  # type: ignore[misc]
        for k in (0, 1)
    )
    return rows, columns


def is_worth_panels(machine: Machine, m: int, size: int, step: int) -> int:
    """Whether panels are copied of a B of that many bytes, for m rows; `step` bytes lie
    between its rows. Where caches are crowded, rows a power of two apart leave them.
    """
    if not machine.crowded:
        return reaches(m, 512) * reaches(size, 2 << 20)
    least_rows = chosen(_is_crossed(machine, step), 24, 64)
    return reaches(size, 1 << 17) * reaches(m, least_rows)


def _is_crossed(machine: Machine, step: int) -> int:
    """Whether rows of B that lie `step` bytes apart push each other out of caches."""
    return machine.crowded * (1 - reaches(step % 2048, 1))


def _is_worth_a_copy(machine: Machine, m: int, n: int, a: Pair, size: int) -> int:
    """Return True if blocks of A are copied, whose rows (or columns) lie apart.

    Whole pages apart, the rows of a tile fall on the same lines of the first cache.
    Where caches are crowded, tiles are low enough for that, but not for terms of an A
    that is consecutive along rows.
    """
    if machine.crowded:
        return reaches(m, 24) * reaches(n, 128) if a[0] == 1 != a[1] else 0
    few, many = reaches(m, 28) * reaches(n, 512), reaches(m, 128) * reaches(n, 256)
    return (1 - reaches(max(a) * size % 4096, 1)) * most(few, many)


def _is_fetched_late(m: int, k: int, a: Pair, size: int) -> int:
    """Whether an A that is consecutive along rows lies in memory so that it comes late.

    Tiles that walk down k in it wait where its lines of k do not begin on 16 bytes.
    """
    if a[0] != 1:
        return 0
    large = exceeds(m * k * size, FAR) * reaches(m, 28)
    return large * reaches(a[1] * size % 16, 1)


def _block_k(tiles: str, k: int, near: int, narrow: int) -> int:
    """How many terms are summed before C is touched; `near` panels of B or blocks of A
    are copies. A cache has places for the lines of a `narrow` block alone: down an A or
    a B each term is on a line of its own.
    """
    if tiles == "dot":
        return k
    if tiles == "flat":  # few rows read each line of B once
        return chosen(near * narrow, _even(k, 256), _even(k, 1024))
    wide = chosen(near, _even(k, 1024), _even(k, 512))
    return chosen(narrow, _even(k, 256), wide)


def copy_layout(
    machine: Machine, size: int, cut: Blocking, rows: int, tile_m: int, along_k: bool
) -> dict[str, int]:
    """The layout of a copied block of A: rows along k or m, an odd number of lines.

    Where caches are crowded, rows along m are cut into those of each tile.
    """
    outer, inner = (rows, cut.block_k) if along_k else (cut.block_k, rows)
    row, tile = odd_lines(inner * size), 0
    bytes = row * outer
    if machine.crowded and not along_k:
        row = tile_m * size
        tile = odd_lines(cut.block_k * row + machine.vector)  # the last one is whole
        bytes = tile * -(-rows // tile_m)
    return {
        "copied": chosen(cut.copied, 2 if along_k else 1, 0),
        "copy_row": row if along_k else size,
        "copy_k": size if along_k else row,
        "copy_tile": chosen(cut.copied, tile, 0),
        "bytes": chosen(cut.copied, bytes, 0),
    }


def odd_lines(size: int) -> int:
    """So many bytes rounded up to an odd number of lines: such spread over a cache."""
    return (-(-size // 64) | 1) * 64


def grain(machine: Machine, sizes: tuple[int, ...], size: int, total: int) -> int:
    """Work items that are worth a part for a thread: some microseconds."""
    return most(1, total * 4000 // most(1, _nanoseconds(machine, sizes, size)))


def _blocks(
    machine: Machine, size: int, tiles: Tiles, height: int, sizes: tuple[int, ...]
) -> Pair:
    """Into how many blocks of rows, of so many if that comes out even, and of columns a
    product is cut.
    """
    batch, m, n, _ = sizes
    blocks_m = most(1, (2 * m + height) // (2 * height))
    blocks_m += exceeds(blocks_m, 1) * (blocks_m % 2)  # as much for each of two threads
    tile_m, tile_n = tile_of(machine, size, tiles)
    parts = _parts(_nanoseconds(machine, sizes, size))
    narrowest = ROW_PART if tiles == "row" else 2 * tile_n
    blocks_n = most(1, least(-(-parts // (batch * blocks_m)), n // narrowest))
    blocks_n -= exceeds(blocks_n, 1) * (blocks_n % 2)
    few = exceeds(parts, batch * blocks_m * blocks_n)
    high = exceeds(m // blocks_m, 2 * tile_m - 1)
    return blocks_m * (1 + few * high), blocks_n


def _wide_blocks(machine: Machine, size: int, sizes: tuple[int, ...]) -> Pair:
    """Into how many blocks of rows and of columns a product is cut that copies A and B:
    no narrow ones, in which that is much of the work.
    """
    batch, m, n, _ = sizes
    parts = _parts(_nanoseconds(machine, sizes, size))
    blocks_n = most(1, least(-(-parts // batch), n // 256))
    rows = least(-(-parts // (batch * blocks_n)), m // 128)
    return most(most(1, rows), (m + 256) // 512), blocks_n


def _parts(time: int) -> int:
    """Into how many parts so many ns are cut: powers of two, so shares are even."""
    return 1 + sum(k * exceeds(time, (2 * k - 1) * PART) for k in (1, 2, 4))


def _nanoseconds(machine: Machine, sizes: tuple[int, ...], size: int) -> int:
    """About how long a product takes on one thread: two vectors of products in each
    cycle of 3.1 GHz, and 40 GB/s.
    """
    batch, m, n, k = sizes
    work = m * n * k * size * 10 // (62 * machine.vector)
    return batch * (work + (m * k + k * n + m * n) * size // 40)


def _even(total: int, most: int) -> int:
    """The size of even pieces of a total that are no larger than `most`."""
    pieces = -(-total // most)
    return -(-total // pieces)
