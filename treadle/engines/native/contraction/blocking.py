"""How a product is cut: tiles, panels, blocks, copies."""

from __future__ import annotations

from dataclasses import dataclass

from .host import Host
from .tile import FLAT, TALL, rows_of_tile

__all__ = ["Blocking", "choose", "widths_of_tiles"]


@dataclass(frozen=True)
class Blocking:
    """The cut of a product; sizes in elements."""

    blocks_m: int = 1  # blocks of rows, of even height
    block_n: int = 1 << 40
    block_k: int = 256
    packed: bool = True  # panels of B are copied (also where they must be)
    copied: bool = False  # blocks of A are copied (only where they can be)
    held: bool = False  # sums of several blocks of k are kept apart from C
    flat: bool = False  # low and wide tiles (also where the rows are few)
    ahead: bool = False  # the next panel of B is prefetched
    far: bool = False  # C is not in a near cache and is prefetched


def widths_of_tiles(host: Host, m: int, cut: Blocking) -> tuple[int, ...]:
    """The widths of the panels that go with the tiles of a cut, in vectors."""
    few = m // cut.blocks_m <= rows_of_tile(host, FLAT[-1])
    return FLAT if few or cut.flat else TALL


def choose(
    host: Host, size: int, sizes: tuple[int, ...], a: tuple[int, ...], b: tuple[int, ...]
) -> Blocking:
    """The cut for sizes = (batch, m, n, k); strides a = (row, k), b = (k, column)."""
    batch, m, n, k = (max(x, 1) for x in sizes)
    few = m <= rows_of_tile(host, FLAT[-1])
    packed = b[1] != 1
    block_k = _even(k, 1024 if few else 512)
    blocks_m = -(-m // (1024 if packed else 256)) if m > 384 else 1
    tile_n = (FLAT if few else TALL)[-1] * (host.vector // size)
    parts = min(8, int(seconds(sizes, size) / 8e-6))
    blocks_n = max(1, min(-(-parts // (batch * blocks_m)), n // (2 * tile_n)))
    if batch * blocks_m * blocks_n < parts and m // blocks_m >= 28:
        blocks_m *= 2
    return Blocking(
        blocks_m,
        _even(-(-n // tile_n), -(-(-(-n // tile_n)) // blocks_n)) * tile_n,
        block_k,
        packed,
        copied=m >= 256 and n >= 256 and max(a) * size >= 4096,
        ahead=m >= 16 and k * n * size > 1 << 18,
        far=m * n * size > 1 << 20,
    )


def seconds(sizes: tuple[int, ...], size: int) -> float:
    """About how long a product takes on one thread, to tell what is worth a part."""
    batch, m, n, k = sizes
    work = 2.0 * m * n * k * size / 4 / 200e9
    return batch * (work + (m * k + k * n + m * n) * size / 40e9)


def _even(total: int, most: int) -> int:
    """The size of even pieces of a total that are no larger than `most`."""
    pieces = -(-total // most)
    return -(-total // pieces)
