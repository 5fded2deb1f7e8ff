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
    host: Host, size: int, m: int, n: int, k: int, a: tuple[int, ...], b: tuple[int, ...]
) -> Blocking:
    """The cut for C[m, n] = A[m, k] B[k, n]; strides a = (row, k), b = (k, column)."""
    return Blocking(packed=m > 448)
