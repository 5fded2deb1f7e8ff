"""Several processes that train one network: collectives as nodes, launching.

>>> td.distributed.rank(), td.distributed.size()
(0, 1)
"""

from treadle.base.boundary import guard as _guard
from treadle.base.names import public as _public
from treadle.distributed.collectives import all_gather as all_gather
from treadle.distributed.collectives import all_reduce as all_reduce
from treadle.distributed.collectives import all_to_all as all_to_all
from treadle.distributed.collectives import broadcast as broadcast
from treadle.distributed.collectives import recv as recv
from treadle.distributed.collectives import reduce as reduce
from treadle.distributed.collectives import reduce_scatter as reduce_scatter
from treadle.distributed.collectives import send as send
from treadle.distributed.communicator import Communicator as Communicator
from treadle.distributed.communicator import DistributedError as DistributedError
from treadle.distributed.normalization import SyncBatchNorm as SyncBatchNorm
from treadle.distributed.once import once as once
from treadle.distributed.parallel import DataParallel as DataParallel
from treadle.distributed.world import rank as rank
from treadle.distributed.world import size as size
from treadle.distributed.world import world as world

__all__ = _public(globals())


def __dir__() -> list[str]:
    return __all__


_guard(globals())
