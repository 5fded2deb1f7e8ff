"""Several processes that train one network: collectives as nodes, launching.

>>> td.distributed.rank(), td.distributed.size()
(0, 1)
"""

from treadle.base.boundary import guard as _guard
from treadle.distributed.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    recv,
    reduce,
    reduce_scatter,
    send,
)
from treadle.distributed.communicator import Communicator, DistributedError
from treadle.distributed.normalization import SyncBatchNorm
from treadle.distributed.once import once
from treadle.distributed.parallel import DataParallel
from treadle.distributed.world import rank, size, world

__all__ = [
    "Communicator",
    "DataParallel",
    "DistributedError",
    "SyncBatchNorm",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "once",
    "rank",
    "recv",
    "reduce",
    "reduce_scatter",
    "send",
    "size",
    "world",
]


def __dir__() -> list[str]:
    return __all__


_guard(globals())
